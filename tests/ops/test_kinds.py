"""Calls that are made over and over, of a few kinds or of many."""

from __future__ import annotations

from passnet.ops.kinds import PATIENCE, Kinds


def calls(kinds, *names):
    """What is found for each of these calls, in turn."""
    return [kinds.of(name, lambda name=name: name.upper()) for name in names]


def test_a_kind_is_known_from_its_second_call_on():
    assert calls(Kinds(2), *"abaaba") == [None, None, "A", "A", "B", "A"]


def test_what_was_found_is_not_looked_for_again():
    kinds, looked = Kinds(1), []
    for _ in range(4):
        kinds.of("a", lambda: looked.append(1) or "found")
    assert looked == [1]


def test_further_kinds_stay_unknown():
    kinds = Kinds(2)
    assert calls(kinds, *"abcccab") == [None, None, None, None, None, "A", "B"]


def test_all_are_forgotten_where_only_others_come():
    kinds, most = Kinds(2), 2 * PATIENCE
    calls(kinds, *"aabb")
    calls(kinds, *"c" * most)
    assert calls(kinds, *"caccca") == [None, None, "C", "C", "C", "A"]


def test_a_known_kind_among_others_keeps_what_is_known():
    kinds, nearly = Kinds(2), 2 * PATIENCE - 1
    calls(kinds, *"aabb")
    for _ in range(3):
        assert calls(kinds, *"c" * nearly, "a") == [None] * nearly + ["A"]
