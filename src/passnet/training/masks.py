"""The random numbers of one run: a stream of its own, begun anew at every update."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import final

import torch

from passnet.tasks import draws


@final
class Masks:
    """What dropout draws from while a run takes an update.

    Masks depend on the seed and the update's number alone, so there is no generator to save. On a
    GPU the run has a generator state of its own: a CUDA graph reads its seed there at each replay,
    and graphs of other runs that replay at the same time must not overwrite it.
    """

    def __init__(self, device: torch.device, *, seed: int, rank: int = 0) -> None:
        self.seed = seed
        self.rank = rank
        self._generator = torch.default_generator
        self._own: torch.Generator | None = None
        if device.type == "cuda":
            self._generator = torch.cuda.default_generators[device.index or 0]
            self._own = self._generator.clone_state()

    @contextlib.contextmanager
    def of(self, update: int) -> Iterator[None]:
        """Within the context the device's generator draws the numbers of this update."""
        generator = self._generator
        kept = None
        if self._own is not None:
            kept = generator.graphsafe_get_state()
            generator.graphsafe_set_state(self._own)
        try:
            generator.manual_seed(draws.key("masks", self.seed, update, self.rank))
            yield
        finally:
            if kept is not None:
                generator.graphsafe_set_state(kept)
