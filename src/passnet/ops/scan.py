"""A scan over time as PyTorch sees it: one registered op with a shape rule, gradients and vmap.

The op is the same machinery for every cell. A cell's folder brings its `ScanCall` (what to
compute), its plain loop, its weight gradients and its engines (who computes the two scans).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, Self, TypeVar

import torch
from torch import Tensor

from passnet.equations import Structure
from passnet.ops.backend import Backend
from passnet.ops.precision import accumulation_dtype, no_autocast
from passnet.ops.transforms import (
    loop_over_batch,
    second_order,
    transformed,
    unserved_transform,
)
from passnet.ops.weights import plain_product


class ScanCall(ABC):
    """What one scan is asked to compute, as a value of tensors and words."""

    drive: Tensor

    @abstractmethod
    def flatten(self) -> tuple[list[Tensor], list[Tensor], str]:
        """(tensors with gradients: drive, initial states, the rest; constants; everything else)."""

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


def step_by_step(drive: Tensor, count: int) -> Tensor:
    """Room for `count` values of every unit, `[count, T, B, n]`, those of a step side by side."""
    _, steps, *rest = drive.shape
    work = accumulation_dtype(drive.dtype)
    return drive.new_empty((steps, count, *rest), dtype=work).transpose(0, 1)


Call = TypeVar("Call", bound=ScanCall)


class Engine(ABC, Generic[Call]):
    """Who computes the two sequential scans; what follows from them is shared."""

    name: str

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
        """Gradients of [drive, initial states] from those of the outputs."""

    def one_product(
        self, structure: Structure, inputs: Tensor, grads: Tensor, factors: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """The gradients of the factors behind one product, for engines with a faster way."""
        return plain_product(structure, inputs, grads, factors)


class ScanOp(Generic[Call]):
    """The registered pair `passnet::NAME` and `passnet::NAME_backward`."""

    def __init__(
        self,
        name: str,
        call_type: type[Call],
        *,
        reference: Callable[[Call], list[Tensor]],
        weight_gradients: Callable[..., list[Tensor]],
        engines: Sequence[Engine[Call]],
    ) -> None:
        self.engines = {engine.name: engine for engine in engines}
        self._call_type = call_type
        self._reference = reference
        self._weight_gradients = weight_gradients
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
        live, fixed, layout = call.flatten()
        if torch.compiler.is_compiling() or transformed():
            results = self._forward(live, fixed, layout, engine)
            return results[: len(call.outputs_like())]
        return list(_Direct.apply(self, engine, layout, len(live), *live, *fixed))

    def _run_forward(self, live, fixed, layout, engine):
        call = self._call_type.unflatten(live, fixed, layout)
        with no_autocast(call.drive.device):
            return self.engines[engine].forward(call)

    def _fake_forward(self, live, fixed, layout, engine):
        call = self._call_type.unflatten(live, fixed, layout)
        return [*call.outputs_like(), *self.engines[engine].saved_like(call)]

    def _run_backward(self, grads, live, fixed, kept, layout, engine):
        call = self._call_type.unflatten(live, fixed, layout)
        outputs, saved = kept[: len(grads)], kept[len(grads) :]
        with no_autocast(call.drive.device):
            by = self.engines[engine]
            found = by.backward(call, grads, outputs, saved)
            found += self._weight_gradients(call, found[0], outputs, saved, by.one_product)
        return [grad.to(tensor.dtype) for grad, tensor in zip(found, live, strict=True)]

    def _fake_backward(self, grads, live, fixed, kept, layout, engine):
        return [tensor.new_empty(tensor.shape) for tensor in live]

    def _keep(self, ctx, inputs, output) -> None:
        live, fixed, ctx.layout, ctx.engine = inputs
        ctx.split = len(live), len(fixed)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*live, *fixed, *output)

    def _first_order(self, ctx, grads):
        live, fixed, kept = _split(ctx.saved_tensors, *ctx.split)
        count = len(self._call_type.unflatten(live, fixed, ctx.layout).outputs_like())
        grads = _given(grads[:count], kept)
        found = self._backward(grads, live, fixed, kept, ctx.layout, ctx.engine)
        return found, [None] * len(fixed), None, None

    def _keep_first(self, ctx, inputs, output) -> None:
        grads, live, fixed, kept, ctx.layout, _ = inputs
        ctx.split = len(grads), len(live)
        ctx.kept = len(kept)
        ctx.save_for_backward(*grads, *live, *fixed)

    def _second_order(self, ctx, grads):
        grad_outputs, live, fixed = _split(ctx.saved_tensors, *ctx.split)

        def scan(*live):
            return self._reference(self._call_type.unflatten(live, fixed, ctx.layout))

        for_grads, for_live = second_order(scan, live, grad_outputs, grads)
        return for_grads, for_live, [None] * len(fixed), [None] * ctx.kept, None, None


class _Direct(torch.autograd.Function):
    """The same forward and backward without the dispatcher."""

    @staticmethod
    def forward(ctx, op: ScanOp, engine: str, layout: str, count: int, *tensors: Tensor):
        live, fixed, _ = _split(tensors, count, len(tensors) - count)
        kept = op._run_forward(live, fixed, layout, engine)
        ctx.op, ctx.engine, ctx.layout = op, engine, layout
        ctx.split = len(live), len(fixed)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, *kept)
        outputs = len(op._call_type.unflatten(live, fixed, layout).outputs_like())
        return tuple(kept[:outputs])

    @staticmethod
    def backward(ctx, *grads):
        live, fixed, kept = _split(ctx.saved_tensors, *ctx.split)
        # A gradient that is itself to be differentiated goes through the registered op.
        run = ctx.op._backward if torch.is_grad_enabled() else ctx.op._run_backward
        found = run(_given(grads, kept), live, fixed, kept, ctx.layout, ctx.engine)
        return None, None, None, None, *found, *([None] * len(fixed))


def _given(grads: Sequence[Tensor | None], outputs: Sequence[Tensor]) -> list[Tensor]:
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
        with no_autocast(call.drive.device):
            return self._reference(call)


def _split(tensors: Sequence[Tensor], first: int, second: int):
    return (
        list(tensors[:first]),
        list(tensors[first : first + second]),
        list(tensors[first + second :]),
    )
