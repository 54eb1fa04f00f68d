"""A scan over time as PyTorch sees it: one registered op with a shape rule, gradients and vmap.

The op is the same machinery for every cell. A cell's folder brings its `ScanCall` (what to
compute), its plain loop, its weight gradients and its engines (who computes the two scans).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import Field
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor

from passnet.ops.backend import Backend
from passnet.ops.inputs import Inputs, Source
from passnet.ops.precision import accumulation_dtype, in_dtype, without_autocast
from passnet.ops.transforms import (
    first_order,
    lies_nowhere,
    loop_over_batch,
    second_order,
    transformed,
    unserved_transform,
    unwrapped,
)


class ScanCall(ABC):
    """What one scan is asked to compute, as a value of tensors and words.

    The source is `[G, T, B, n]` for G gates, or inputs that form it; `shape`, `dtype` and `device`
    are those of the drive, which is formed whenever it is asked for.
    """

    output_count: ClassVar[int]
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    source: Source
    initial: Tensor
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
    def steps(self) -> int:
        source = self.source
        return source.x.shape[0] if isinstance(source, Inputs) else source.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        return self.initial.dtype

    @property
    def device(self) -> torch.device:
        return self.initial.device

    @property
    def drive(self) -> Tensor:
        return self.source.drive() if isinstance(self.source, Inputs) else self.source

    def with_matrices(self, matrices: Tensor) -> Self:
        """The same scan with these dense matrices."""
        twin = object.__new__(type(self))  # to set every field again takes three times as long
        vars(twin).update(vars(self), factors=(matrices,), structure="dense")
        return twin

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


def states_before(initial: Tensor, states: Tensor, steps: slice) -> Tensor:
    """The states that a range of steps started from; the first step started from `initial`."""
    start, stop, _ = steps.indices(len(states))
    if start > 0:
        return states[start - 1 : stop - 1]
    return torch.cat((initial.unsqueeze(0), states[: stop - 1]))


def step_by_step(call: ScanCall, count: int) -> Tensor:
    """Room for `count` values of every unit, `[count, T, B, n]`, those of a step side by side."""
    _, steps, *rest = call.shape
    work = accumulation_dtype(call.dtype)
    return call.initial.new_empty((steps, count, *rest), dtype=work).transpose(0, 1)


Call = TypeVar("Call", bound=ScanCall)


class Engine(ABC, Generic[Call]):
    """Who computes the two sequential scans; what follows from them is shared."""

    name: str
    overwrites: ClassVar[bool] = False
    """Whether `last_backward` may leave something else in what the forward kept."""

    @abstractmethod
    def refuses(self, call: Call) -> str | None:
        """A sentence saying why this engine cannot serve `call`, from shapes and dtypes alone."""

    @abstractmethod
    def saved_like(self, call: Call) -> list[Tensor]:
        """Empty tensors of the shapes that `forward` keeps for `backward`."""

    @abstractmethod
    def forward(self, call: Call) -> list[Tensor]:
        """[outputs, what is kept for the backward]."""

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


class ScanOp(Generic[Call]):
    """The registered pair `passnet::NAME` and `passnet::NAME_backward`."""

    def __init__(
        self,
        name: str,
        call_type: type[Call],
        *,
        reference: Callable[[Call], list[Tensor]],
        engines: Sequence[Engine[Call]],
    ) -> None:
        self.engines = {engine.name: engine for engine in engines}
        self._call_type = call_type
        self._reference = reference
        self._forward = torch.library.custom_op(
            f"passnet::{name}", self._run_forward, mutates_args=(), schema=_FORWARD_SCHEMA
        )
        self._backward = torch.library.custom_op(
            f"passnet::{name}_backward",
            self._run_backward,
            mutates_args=(),
            schema=_BACKWARD_SCHEMA,
        )
        self._forward.register_fake(self._fake_forward)
        self._backward.register_fake(self._fake_backward)
        self._forward.register_autograd(self._first_order, setup_context=self._keep)
        self._backward.register_autograd(self._second_order, setup_context=self._keep_first)
        loop_over_batch(self._forward)
        loop_over_batch(self._backward)
        own = (_EngineBackend(self, engine) for engine in engines)
        self.backends: tuple[Backend[Call], ...] = (*own, _ReferenceBackend(reference))
        """All ways to run this scan, fastest first: the engines, then the plain loop."""

    def run(self, call: Call, engine: str) -> list[Tensor]:
        """The scan's outputs, computed by the named engine.

        Tracers and transforms see the registered op. Ordinary calls take a shorter way to the same
        functions, because the dispatcher's list arguments cost more than a short scan.
        """
        if torch.compiler.is_compiling() or transformed():
            live, fixed, layout = call.flatten()
            return self._forward(live, fixed, layout, engine)[: call.output_count]
        if not torch.is_grad_enabled():
            return self._compute(call, engine)[: call.output_count]
        live, fixed, layout = call.flatten()
        live = [unwrapped(tensor) for tensor in live]
        return list(_apply_plainly((self, engine, call, fixed, layout), *live))

    def _compute(self, call: Call, engine: str) -> list[Tensor]:
        return without_autocast(call.initial.device, self.engines[engine].forward, call)

    def _run_forward(self, live, fixed, layout, engine):
        return self._compute(self._call_type.unflatten(live, fixed, layout), engine)

    def _fake_forward(self, live, fixed, layout, engine):
        call = self._call_type.unflatten(live, fixed, layout)
        return [*call.outputs_like(), *self.engines[engine].saved_like(call)]

    def _run_backward(self, grads, live, fixed, kept, layout, engine, last=False):
        call, by = self._call_type.unflatten(live, fixed, layout), self.engines[engine]
        found = without_autocast(call.initial.device, _gradients, by, call, grads, kept, last)
        return [
            grad if grad.dtype is tensor.dtype else grad.to(tensor.dtype)
            for grad, tensor in zip(found, live, strict=True)
        ]

    def _fake_backward(self, grads, live, fixed, kept, layout, engine):
        return [tensor.new_empty(tensor.shape) for tensor in live]

    def _keep(self, ctx, inputs, output) -> None:
        live, fixed, ctx.layout, ctx.engine = inputs
        ctx.split = len(live), len(fixed)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*live, *fixed, *output)

    def _first_order(self, ctx, grads):
        live, fixed, kept = _split(ctx.saved_tensors, *ctx.split)
        grads = filled(grads[: self._call_type.output_count], kept)
        found = self._backward(grads, live, fixed, kept, ctx.layout, ctx.engine)
        return found, [None] * len(fixed), None, None

    def _keep_first(self, ctx, inputs, output) -> None:
        grads, live, fixed, kept, ctx.layout, _ = inputs
        ctx.split = len(grads), len(live)
        ctx.kept = len(kept)
        ctx.save_for_backward(*grads, *live, *fixed)

    def _plain(self, fixed, layout):
        """The plain loop as a function of the live tensors."""
        return lambda *live: self._reference(self._call_type.unflatten(live, fixed, layout))

    def _second_order(self, ctx, grads):
        grad_outputs, live, fixed = _split(ctx.saved_tensors, *ctx.split)
        scan = self._plain(fixed, ctx.layout)
        for_grads, for_live = second_order(scan, live, grad_outputs, grads)
        return for_grads, for_live, [None] * len(fixed), [None] * ctx.kept, None, None


class _Direct(torch.autograd.Function):
    """The same forward and backward without the dispatcher."""

    @staticmethod
    def forward(ctx, asked: tuple, *live: Tensor):
        op, engine, call, fixed, layout = asked
        kept = op._compute(call, engine)
        ctx.asked = op, engine, layout, len(live), len(fixed)
        ctx.overwritten = False
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*live, *fixed, *kept)
        return tuple(kept[: call.output_count])

    @staticmethod
    def backward(ctx, *grads):
        op, engine, layout, *split = ctx.asked
        live, fixed, kept = _split(ctx.saved_tensors, *split)
        how = layout, engine
        if ctx.overwritten:  # by an earlier backward of a graph that was retained
            with torch.no_grad():
                kept = op._run_forward(live, fixed, *how)
        around = transformed()
        if not around and any(map(lies_nowhere, grads)):
            given = op._plain(fixed, layout), live, filled(grads, kept)
            found = without_autocast(live[0].device, first_order, *given)
        elif around or torch.is_grad_enabled():
            # A gradient that is itself to be differentiated goes through the registered op.
            found = op._backward(filled(grads, kept), live, fixed, kept, *how)
        else:
            ctx.overwritten = op.engines[engine].overwrites
            found = op._run_backward(grads, live, fixed, kept, *how, last=True)
        return None, *found


# What `_Direct.apply` comes to once it has asked for transforms: `run` knows that there are none.
_apply_plainly = super(torch.autograd.Function, _Direct).apply  # pyright: ignore


def _gradients(
    engine: Engine[Call], call: Call, grads: Sequence[Any], kept: list[Tensor], last: bool
) -> list[Tensor]:
    """Those of a call's live tensors, in their order."""
    count = call.output_count
    backward = engine.last_backward if last else engine.backward
    grad_drive, *found = backward(call, list(grads), kept[:count], kept[count:])
    return _source_gradients(engine, call, grad_drive) + found


def _source_gradients(engine: Engine[Call], call: Call, grad_drive: Tensor) -> list[Tensor]:
    """The gradients of a source's live tensors, in their order."""
    source = call.source
    if isinstance(source, Tensor):
        return [grad_drive]
    grad_drive = in_dtype(grad_drive, source.weight.dtype)
    features = [source.features_gradient(grad_drive)] if source.needs_gradient else []
    weight, bias = engine.input_gradients(source, grad_drive, call)
    return [*features, weight, *([] if bias is None else [bias])]


def filled(grads: Sequence[Tensor | None], outputs: Sequence[Tensor]) -> list[Tensor]:
    """Zeros for outputs that nothing depends on."""
    return [
        torch.zeros_like(output) if grad is None else grad
        for grad, output in zip(grads, outputs, strict=False)
    ]


_FORWARD_SCHEMA = "(Tensor[] live, Tensor[] fixed, str layout, str engine) -> Tensor[]"
_BACKWARD_SCHEMA = (
    "(Tensor[] grads, Tensor[] live, Tensor[] fixed, Tensor[] kept, str layout, str engine)"
    " -> Tensor[]"
)


class _EngineBackend(Backend[Call]):
    def __init__(self, op: ScanOp[Call], engine: Engine[Call]) -> None:
        self.name = engine.name
        self._op = op
        self._engine = engine

    def refuses(self, call: Call) -> str | None:
        around = unserved_transform()
        if around is not None:
            return f"{around} goes through the plain loop only, backend 'reference'"
        return self._engine.refuses(call)

    def run(self, call: Call) -> list[Tensor]:
        return self._op.run(call, self.name)


class _ReferenceBackend(Backend[Call]):
    """The plain loop: serves everything, slowly; also forward-mode AD."""

    name = "reference"

    def __init__(self, reference: Callable[[Call], list[Tensor]]) -> None:
        self._reference = reference

    def refuses(self, call: Call) -> str | None:
        return None

    def run(self, call: Call) -> list[Tensor]:
        return without_autocast(call.device, self._reference, call)


def _split(tensors: Sequence[Tensor], first: int, second: int):
    return (
        list(tensors[:first]),
        list(tensors[first : first + second]),
        list(tensors[first + second :]),
    )
