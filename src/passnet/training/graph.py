"""The training step as one CUDA graph: a single launch instead of hundreds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from passnet.tasks.task import Batch
from passnet.training.distributed import World
from passnet.training.update import Carried, Update

WARM_UP = 3
_FIELDS = ("inputs", "targets", "lengths", "mask", "groups")


def why_not_captured(
    batch: Batch, *, world: World, shared: bool = False, random: bool = False
) -> str | None:
    """A sentence why the step on batches like this one is not captured, or None when it is.

    shared: other runs train on the same device at the same time.
    random: the network draws dropout masks.
    """
    if world.device.type != "cuda":
        return "not captured: no CUDA device"
    if world.size > 1:
        return "not captured: gradients are exchanged between processes"
    if batch.lengths is not None:
        return "not captured: sequences differ in length, so batches differ in shape"
    if shared and random:
        return "not captured: dropout draws from the generator that the runs on this GPU share"
    return None


@final
class CapturedUpdate:
    """An `Update` that is recorded after a few ordinary calls and replayed from then on.

    The ordinary calls are real updates, so nothing has to be undone. A batch unlike the recorded
    one, such as the first window of a stream, takes the ordinary way. Dropout masks differ from
    replay to replay: the generator's seed and offset are read at each of them.
    """

    def __init__(self, update: Update) -> None:
        self.update = update
        self._seen = 0
        self._like: tuple | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._stream: torch.cuda.Stream | None = None
        self._pieces: list[Batch] = []
        self._start: Carried = []
        self._end: Carried = []

    def __call__(self, pieces: Sequence[Batch], carried: Carried) -> Carried:
        like = signature(pieces, carried)
        if self._graph is not None and like == self._like:
            self._fill(pieces, carried)
            self._graph.replay()
            return self._end
        if self._graph is None:
            self._seen = self._seen + 1 if like == self._like else 1
            self._like = like
            if self._seen > WARM_UP:
                self._graph = self._captured(pieces, carried)
                self._graph.replay()
                return self._end
        return self._ordinary(pieces, carried)

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

    def _captured(self, pieces: Sequence[Batch], carried: Carried) -> torch.cuda.CUDAGraph:
        self._pieces = [_copied(batch) for batch in pieces]
        self._start = [None if s is None else tuple(p.clone() for p in s) for s in carried]
        self.update.optimiser.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        stream = self._side_stream()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            self._end = self.update(self._pieces, self._start)
        return graph

    def _fill(self, pieces: Sequence[Batch], carried: Carried) -> None:
        for own, given in zip(self._pieces, pieces, strict=True):
            for name in _FIELDS:
                value = getattr(own, name)
                if value is not None:
                    value.copy_(getattr(given, name))
        for own_state, given_state in zip(self._start, carried, strict=True):
            if own_state is not None and given_state is not None:
                for own_part, part in zip(own_state, given_state, strict=True):
                    own_part.copy_(part)


def signature(pieces: Sequence[Batch], carried: Carried) -> tuple:
    """What must agree between two calls for one graph to serve both."""
    return tuple(
        (
            tuple(_form(getattr(batch, name)) for name in _FIELDS),
            batch.denominator,
            batch.label,
            None if state is None else tuple(_form(part) for part in state),
        )
        for batch, state in zip(pieces, carried, strict=True)
    )


def _form(tensor: Tensor | None) -> tuple | None:
    return None if tensor is None else (tuple(tensor.shape), tensor.dtype)


def _copied(batch: Batch) -> Batch:
    present = {name: getattr(batch, name) for name in _FIELDS}
    return replace(batch, **{name: t.clone() for name, t in present.items() if t is not None})
