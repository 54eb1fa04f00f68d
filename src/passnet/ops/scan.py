"""What a scan over time is asked to compute, and who computes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import Field
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor

from passnet.ops.inputs import Inputs, Source
from passnet.ops.precision import accumulation_dtype, in_dtype, without_autocast
from passnet.ops.transforms import stand_in


class ScanCall(ABC):
    """What one scan is asked to compute, as a value of tensors and words.

    The source is `[G, T, B, n]` for G gates, or inputs that form it; `shape`, `dtype` and `device`
    are those of the drive, which is formed whenever it is asked for. Initial states that are not
    given are zero.
    """

    output_count: ClassVar[int]
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    source: Source
    initial: Tensor | None
    initial_cell: Tensor | None
    factors: tuple[Tensor, ...]
    structure: str
    masks: Tensor | None
    hold: Tensor | None
    hold_cell: Tensor | None
    inner_bias: Tensor | None

    @property
    def shape(self) -> torch.Size:
        return self.source.shape

    @property
    def states_shape(self) -> tuple[int, ...]:
        """`(T, B, n)`, without the gates of `shape`."""
        source = self.source
        if isinstance(source, Tensor):
            return source.shape[1:]
        steps = source.x.shape
        return steps[0], steps[1], source.weight.shape[1]

    @property
    def like(self) -> Tensor:
        """A tensor of the dtype to compute in, where it is to be done."""
        return self.factors[0]

    @property
    def dtype(self) -> torch.dtype:
        return self.factors[0].dtype

    @property
    def device(self) -> torch.device:
        return self.factors[0].device

    @property
    def start(self) -> Tensor:
        """The initial state, also where it is not given."""
        return zero_state(self) if self.initial is None else self.initial

    @property
    def drive(self) -> Tensor:
        return self.source.drive() if isinstance(self.source, Inputs) else self.source

    def stand_in(self) -> str | None:
        """The type of a tensor among these that has no memory of its own, or None."""
        source = self.source
        read = (source,) if isinstance(source, Tensor) else source.tensors()
        states = self.initial, self.initial_cell, self.hold, self.hold_cell
        return stand_in(*read, *self.factors, *states, self.masks, self.inner_bias)

    def started(self) -> Self:
        """The same with initial states that are given."""
        return self

    @abstractmethod
    def flatten(self) -> tuple[list[Tensor], list[Tensor], str]:
        """(tensors with gradients: source, initial states, the rest; constants; all else)."""

    @classmethod
    @abstractmethod
    def unflatten(cls, live: Sequence[Tensor], fixed: Sequence[Tensor], layout: str) -> Self:
        """The call that `flatten` took apart."""

    @abstractmethod
    def outputs_like(self) -> list[Tensor]:
        """Empty tensors of the shapes of the scan's outputs."""


def zero_state(call: ScanCall) -> Tensor:
    """What a scan starts from that is given nothing, `[B, n]`."""
    return torch.zeros(call.states_shape[1:], dtype=call.dtype, device=call.device)


def states_before(initial: Tensor, states: Tensor, steps: slice = slice(None)) -> Tensor:
    """The states that a range of steps started from; the first step started from `initial`."""
    start, stop, _ = steps.indices(len(states))
    if start > 0:
        return states[start - 1 : stop - 1]
    return torch.cat((initial.unsqueeze(0), states[: stop - 1]))


def step_by_step(call: ScanCall, count: int) -> Tensor:
    """Room for `count` values of every unit, `[count, T, B, n]`, those of a step side by side."""
    _, steps, *rest = call.shape
    work = accumulation_dtype(call.dtype)
    return call.like.new_empty((steps, count, *rest), dtype=work).transpose(0, 1)


Call = TypeVar("Call", bound=ScanCall)
Repetition = Callable[[Sequence[Tensor]], list[Tensor]]
"""A replay of a pass, with the tensors it is given now."""
ALIGNED = 16
"""The alignment in bytes of tensors that every kernel can read directly."""


class Engine(ABC, Generic[Call]):
    """Who computes the two sequential scans; what follows from them is shared."""

    name: str
    overwrites: ClassVar[bool] = False
    """Whether `last_backward` may overwrite what the forward kept."""
    reads_memory: ClassVar[bool] = False
    """Whether it uses the addresses of tensors, instead of only passing them to PyTorch."""
    starts_from_nothing: ClassVar[bool] = False
    """Whether it takes calls without initial states, whose gradients are then left out."""
    records: ClassVar[bool] = False
    """Whether `record` can record passes for replay."""

    @abstractmethod
    def refuses(self, call: Call) -> str | None:
        """A sentence saying why this engine cannot serve `call`, from shapes and dtypes alone."""

    @abstractmethod
    def saved_like(self, call: Call) -> list[Tensor]:
        """Empty tensors of the shapes that `forward` keeps for `backward`."""

    @abstractmethod
    def forward(self, call: Call) -> list[Tensor]:
        """[outputs, what is kept for the backward]."""

    def outputs(self, call: Call) -> list[Tensor]:
        """The first of these, for a caller who has nothing to differentiate."""
        return self.forward(call)[: call.output_count]

    @abstractmethod
    def backward(
        self, call: Call, grads: list[Tensor], outputs: list[Tensor], saved: list[Tensor]
    ) -> list[Tensor]:
        """Gradients of [drive, initial states, factors, the rest] from those of the outputs."""

    def last_backward(
        self,
        call: Call,
        grads: Sequence[Tensor | None],
        outputs: list[Tensor],
        saved: list[Tensor],
    ) -> list[Tensor]:
        """`backward` where nobody reads `saved` again; None for an output that nothing used."""
        return self.backward(call, filled(grads, outputs), outputs, saved)

    def input_gradients(
        self, inputs: Inputs, grad_drive: Tensor, call: Call
    ) -> tuple[Tensor, Tensor | None]:
        """Those of a call's input matrices and biases, for engines with a faster way."""
        return inputs.gradients(grad_drive)

    def features_gradient(self, inputs: Inputs, grad_drive: Tensor) -> Tensor:
        """That of a call's features, likewise."""
        return inputs.features_gradient(grad_drive)

    def gradients(
        self,
        call: Call,
        grads: Sequence[Tensor | None],
        live: Sequence[Tensor],
        kept: Sequence[Tensor],
        *,
        last: bool,
    ) -> list[Tensor]:
        """[that of the drive, those of the live tensors but drive or features, in their dtypes]."""
        drive, *found = without_autocast(call.device, self._inner, call, grads, kept, last)
        rest = live[len(live) - len(found) :]
        return [drive, *[in_dtype(g, t.dtype) for g, t in zip(found, rest, strict=True)]]

    def _inner(
        self, call: Call, grads: Sequence[Any], kept: Sequence[Tensor], last: bool
    ) -> list[Tensor]:
        count = call.output_count
        # Hooks on saved tensors may hand back what lies otherwise than what they were given.
        kept = [tensor.contiguous() for tensor in kept]
        backward = self.last_backward if last else self.backward
        found = backward(call, list(grads), kept[:count], kept[count:])
        source = call.source
        found[0] = in_dtype(found[0], source.dtype)
        if isinstance(source, Inputs):
            weight, bias = self.input_gradients(source, found[0], call)
            found[1:1] = (weight,) if bias is None else (weight, bias)
        return found

    def record(
        self, given: Sequence[Tensor], work: Callable[[], list[Tensor]]
    ) -> tuple[list[Tensor], Repetition | None]:
        """(what a pass returns that reads these tensors alone, a shorter way to do it again).

        It may be done again with other tensors of the same shapes. All of them, now and then, are
        dense and `ALIGNED`.
        """
        return work(), None


def filled(grads: Sequence[Tensor | None], outputs: Sequence[Tensor]) -> list[Tensor]:
    """Zeros for outputs that nothing depends on."""
    return [
        torch.zeros_like(output) if grad is None else grad
        for grad, output in zip(grads, outputs, strict=False)
    ]


def of_live(call: Call, by: Engine[Call], drive: Tensor, *rest: Tensor) -> list[Tensor]:
    """The gradients of all live tensors, from those that an engine forms."""
    source = call.source
    if isinstance(source, Tensor):
        return [drive, *rest]
    if not source.needs_gradient:
        return [*rest]
    features = without_autocast(call.device, by.features_gradient, source, drive)
    return [in_dtype(features, source.x.dtype), *rest]
