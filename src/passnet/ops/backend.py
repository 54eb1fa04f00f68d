"""Choosing who runs a scan: fastest first, with a reason for every refusal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from torch import Tensor

if TYPE_CHECKING:
    from passnet.ops.direct import Again

Call = TypeVar("Call")


class BackendRefused(RuntimeError):
    """A backend requested by name cannot run this call; the message says why."""


class Backend(ABC, Generic[Call]):
    """One way to run an op on a call."""

    name: str

    @abstractmethod
    def refuses(self, call: Call) -> str | None:
        """A sentence saying why this backend cannot run `call`, or None when it can.

        It reads shapes, dtypes and devices only, so that it also works while tracing.
        """

    @abstractmethod
    def run(self, call: Call) -> list[Tensor]:
        """The scan's outputs, differentiable."""

    def again(self, call: Call) -> Again | None:
        """Ordinary calls of the same kind and shapes, where there is a shorter way to them.

        Their outputs are followed by the last state of each.
        """
        return None


def choose(backends: Sequence[Backend[Call]], wanted: str, call: Call) -> Backend[Call]:
    """The first backend that accepts the call, or the wanted one: honoured or refused by name."""
    if wanted == "auto":
        for backend in backends:
            if backend.refuses(call) is None:
                return backend
        reasons = "; ".join(f"{b.name}: {b.refuses(call)}" for b in backends)
        raise BackendRefused(f"no backend can run this call ({reasons})")
    for backend in backends:
        if backend.name == wanted:
            reason = backend.refuses(call)
            if reason is not None:
                raise BackendRefused(refusal(wanted, reason))
            return backend
    raise ValueError(unknown_backend(wanted, [backend.name for backend in backends]))


def check_backend(wanted: object, backends: Sequence[Backend]) -> None:
    """Raise a sentence for a name that none of them has."""
    names = [backend.name for backend in backends]
    if wanted not in ("auto", *names):
        raise ValueError(unknown_backend(wanted, names))


def refusal(wanted: str, reason: str) -> str:
    """The sentence for a backend that cannot run a call."""
    return (
        f"backend {wanted!r} cannot run this call: {reason}. "
        "Use backend='auto' to let passnet choose."
    )


def unknown_backend(wanted: object, names: Sequence[str]) -> str:
    """The sentence for a backend name that does not exist."""
    known = ", ".join(repr(name) for name in ("auto", *names))
    return f"backend={wanted!r} is unknown: choose one of {known}"
