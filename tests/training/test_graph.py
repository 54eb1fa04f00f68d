"""The bookkeeping of a captured step, with a stand-in for CUDA's graphs and streams."""

from __future__ import annotations

import contextlib

import pytest
import torch

from passnet.tasks.task import Batch
from passnet.training.graph import WARM_UP, CapturedUpdate


class StandIn:
    """CUDA's graph for a step that adds inputs to its state: replays what it saw on capture."""

    capturing = None

    def __init__(self):
        self.work = []

    def replay(self):
        for run in self.work:
            run()


class Step:
    """Adds up inputs and the state it starts from; keeps what it was given."""

    def __init__(self):
        self.seen = []
        self.ways = []
        self.optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)

    def __call__(self, pieces, carried):
        ends = [(torch.empty(1, 2, 1),) for _ in pieces]

        def run():
            for batch, state, (end,) in zip(pieces, carried, ends, strict=True):
                start = 0.0 if state is None else state[0]
                end.copy_(batch.inputs.sum(0).view(1, 2, 1) + start)
            self.seen.append([batch.inputs.clone() for batch in pieces])

        graph = StandIn.capturing
        if graph is None:
            self.ways.append("ordinary")
            run()
        else:
            self.ways.append("captured")
            graph.work.append(run)
        return ends


@pytest.fixture(autouse=True)
def cuda(monkeypatch):
    class Stream:
        def wait_stream(self, other):
            del other

    @contextlib.contextmanager
    def graph(graph, *, pool, stream, capture_error_mode):
        assert pool == "the pool"
        assert isinstance(stream, Stream)
        assert capture_error_mode == "thread_local"
        StandIn.capturing = graph
        yield
        StandIn.capturing = None

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", StandIn)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "the pool")


def batch(value, *, carries=True, steps=3):
    inputs = torch.full((steps, 2), float(value))
    return Batch(inputs, torch.zeros(steps, 2), carries_state=carries)


def test_after_a_few_ordinary_updates_the_step_is_replayed_on_the_new_batches():
    step = Step()
    captured = CapturedUpdate(step)
    for value in range(8):
        captured([batch(value), batch(-value)], [None, None])
    assert step.ways == ["ordinary"] * WARM_UP + ["captured"]
    values = [[piece[0, 0].item() for piece in seen] for seen in step.seen]
    assert values == [[value, -value] for value in range(8)]


def test_a_carried_state_passes_through_replays_and_ordinary_windows():
    step, plain = Step(), Step()
    captured = CapturedUpdate(step)
    carried, expected = [None], [None]
    for update in range(30):
        first = update % 10 == 0
        carried = captured([batch(update, carries=not first)], [None] if first else carried)
        expected = plain([batch(update, carries=not first)], [None] if first else expected)
        assert torch.equal(carried[0][0], expected[0][0])
    assert step.ways.count("captured") == 1
    assert step.ways.count("ordinary") == WARM_UP + 3  # and the first window of each epoch


def test_every_form_of_batch_has_its_recording():
    step = Step()
    captured = CapturedUpdate(step)
    for value in range(40):
        captured([batch(value, steps=3 + value % 4)], [None])
        assert step.seen[-1][0].tolist() == [[value, value]] * (3 + value % 4)
    assert step.ways == ["ordinary"] * 4 * WARM_UP + ["captured"] * 4


def test_forms_without_end_take_the_ordinary_way(monkeypatch):
    monkeypatch.setattr("passnet.training.graph.MOST", 2)
    step = Step()
    captured = CapturedUpdate(step)
    for value in range(30):
        captured([batch(value, steps=3 + value)], [None])
        captured([batch(value, steps=3)], [None])
    assert step.ways.count("captured") == 1
    assert len(step.seen) == 60
