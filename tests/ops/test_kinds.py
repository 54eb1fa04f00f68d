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
    kinds = Kinds(2)
    calls(kinds, *"aabb")
    assert calls(kinds, *"c" * (2 * PATIENCE - 1), "a") == [None] * (2 * PATIENCE - 1) + ["A"]
    assert calls(kinds, *"caccca") == [None, None, None, "C", "C", "A"]
    calls(kinds, *"b" * (2 * PATIENCE - 1), "a")
    assert calls(kinds, "a") == ["A"], "and the patience begins anew"
