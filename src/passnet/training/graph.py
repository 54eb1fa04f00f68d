"""The training step as one CUDA graph: a single launch instead of hundreds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from passnet.tasks.task import Batch
from passnet.training.distributed import World
from passnet.training.update import Carried, Update

WARM_UP = 3
"""Ordinary updates of a form before it is recorded: what is loaded or cached comes with them."""

MOST = 64
"""Forms of a batch that are recorded; further ones take the ordinary way."""


def why_not_captured(world: World) -> str | None:
    """A sentence why the step is not captured, or None when it is."""
    if world.device.type != "cuda":
        return "not captured: no CUDA device"
    if world.size > 1:
        return "not captured: gradients are exchanged between processes"
    return None


@dataclass(frozen=True)
class _Recording:
    """A graph, the tensors it reads its batch and its states from, and those it leaves."""

    graph: torch.cuda.CUDAGraph
    pieces: list[Batch]
    start: Carried
    end: Carried

    def replay(self, pieces: Sequence[Batch], carried: Carried) -> Carried:
        for own, given in zip(self.pieces, pieces, strict=True):
            values = given.tensors()
            for name, tensor in own.tensors().items():
                tensor.copy_(values[name])
        for own_state, given_state in zip(self.start, carried, strict=True):
            if own_state is not None and given_state is not None:
                for own_part, part in zip(own_state, given_state, strict=True):
                    own_part.copy_(part)
        self.graph.replay()
        return self.end


@final
class CapturedUpdate:
    """An `Update` that is recorded after a few ordinary calls and replayed from then on.

    The ordinary calls are real updates, so nothing has to be undone. Batches of another form, such
    as longer sentences or the first window of a stream, have a recording of their own, all in one
    pool of memory because only one of them runs at a time. Dropout masks differ from replay to
    replay: the generator's seed and offset are read at each of them.
    """

    def __init__(self, update: Update) -> None:
        self.update = update
        self._seen: Counter[tuple] = Counter()
        self._recordings: dict[tuple, _Recording] = {}
        self._stream: torch.cuda.Stream | None = None
        self._pool: Any = None

    def __call__(self, pieces: Sequence[Batch], carried: Carried) -> Carried:
        like = signature(pieces, carried)
        recording = self._recordings.get(like)
        if recording is None:
            if like not in self._seen and len(self._seen) == MOST:
                return self._ordinary(pieces, carried)
            self._seen[like] += 1
            if self._seen[like] <= WARM_UP:
                return self._ordinary(pieces, carried)
            recording = self._recordings[like] = self._recorded(pieces, carried)
        return recording.replay(pieces, carried)

    def _ordinary(self, pieces: Sequence[Batch], carried: Carried) -> Carried:
        # Capturing needs a stream that is not the default one, and what is cached per stream must
        # be there before it.
        stream = self._side_stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            carried = self.update(pieces, carried)
        torch.cuda.current_stream().wait_stream(stream)
        return carried

    def _side_stream(self) -> torch.cuda.Stream:
        if self._stream is None:
            self._stream = torch.cuda.Stream()
        return self._stream

    def _recorded(self, pieces: Sequence[Batch], carried: Carried) -> _Recording:
        own = [replace(b, **{name: t.clone() for name, t in b.tensors().items()}) for b in pieces]
        start = [None if s is None else tuple(p.clone() for p in s) for s in carried]
        self.update.optimiser.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(
            graph, pool=self._pool, stream=self._side_stream(), capture_error_mode="thread_local"
        ):
            end = self.update(own, start)
        return _Recording(graph, own, start, end)


def signature(pieces: Sequence[Batch], carried: Carried) -> tuple:
    """What must agree between two calls for one graph to serve both."""
    return tuple(
        (
            tuple((name, *_form(tensor)) for name, tensor in batch.tensors().items()),
            None if isinstance(batch.denominator, Tensor) else batch.denominator,
            batch.label,
            None if state is None else tuple(_form(part) for part in state),
        )
        for batch, state in zip(pieces, carried, strict=True)
    )


def _form(tensor: Tensor) -> tuple:
    return tuple(tensor.shape), tensor.dtype
