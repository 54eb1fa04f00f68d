"""Names beside the points of a chart: they touch nothing, at any width that was asked for."""

from __future__ import annotations

from itertools import combinations

from passnet.report.labels import GAP, LETTER, LINE, Label, near, place_labels


def test_names_of_neighbours_keep_apart():
    points = [(0.5, 100.0), (0.5, 104.0), (0.52, 100.0)]
    widths = (300, 900)
    labels = place_labels(points, [["first"], ["second"], ["third"]], widths)
    for width in widths:
        boxes = []
        for (x, y), label in zip(points, labels, strict=True):
            assert label is not None
            start = x * width + (-GAP - LETTER * len(label.text) if label.left else GAP)
            boxes.append((start, start + LETTER * len(label.text), y + label.rise))
        for one, other in combinations(boxes, 2):
            beside = one[1] <= other[0] or other[1] <= one[0]
            assert beside or abs(one[2] - other[2]) >= LINE


def test_a_shorter_text_or_none_where_there_is_no_room():
    assert place_labels([(0.5, 9.0)], [["long" * 30, "7"]], [200]) == [Label("7", False, 0)]
    assert place_labels([(0.5, 9.0)], [["long" * 30]], [200]) == [None]
    assert place_labels([(0.99, 9.0)], [["word"]], [200]) == [Label("word", True, 0)]


def test_points_at_the_same_place_know_of_each_other():
    assert near([(0.5, 9.0), (0.5, 10.0), (0.9, 9.0)], 300) == [[1], [0], []]


def test_where_it_is_crowded_a_label_stands_apart_inside_the_chart():
    points = [(0.5, 30.0 + k) for k in range(12)]
    labels = place_labels(points, [["the name", str(k)] for k in range(12)], [300], height=200)
    assert all(label is not None for label in labels)
    assert any(label.apart for label in labels) and not all(label.apart for label in labels)
    for (_, y), label in zip(points, labels, strict=True):
        assert LINE / 2 <= y + label.rise <= 200 - LINE / 2
        assert not label.apart or label.text.isdigit(), "far away, the short text"
