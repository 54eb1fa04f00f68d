"""Runs side by side: each advances as fast as its own stream lets it."""

from __future__ import annotations

from passnet.training.seeds import take_turns


class Fake:
    """A run of so many updates whose stream has room only every `pace`-th time it is asked."""

    def __init__(self, name, *, length, pace, log):
        self.name, self.left, self.pace, self.log = name, length, pace, log
        self.updates = object()
        self.asked = 0

    def ready(self):
        self.asked += 1
        return self.asked % self.pace == 0

    def next(self):
        self.log.append(self.name)
        self.left -= 1
        if self.left == 0:
            self.updates = None
        return self.updates is not None


def test_a_slow_run_holds_up_no_other():
    log = []
    slow, fast = (Fake(n, length=30, pace=p, log=log) for n, p in (("slow", 10), ("fast", 1)))
    take_turns([slow, fast])
    assert log.count("slow") == log.count("fast") == 30
    while_fast = log[: len(log) - log[::-1].index("fast")]
    assert while_fast.count("slow") <= 3


def test_where_none_is_ready_all_are_asked_again():
    log = []
    take_turns([Fake(name, length=2, pace=p, log=log) for name, p in (("a", 50), ("b", 20))])
    assert log == ["b", "b", "a", "a"]


def test_nothing_to_do():
    take_turns([])
