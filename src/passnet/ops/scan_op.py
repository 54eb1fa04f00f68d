"""A scan over time as PyTorch sees it: one registered op with a shape rule, gradients and vmap.

The op is the same machinery for every cell. A cell's folder brings its `ScanCall` (what to
compute), its plain loop, its weight gradients and its engines (who computes the two scans).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic

import torch
from torch import Tensor

from passnet.ops.backend import Backend, BackendRefused, refusal
from passnet.ops.precision import in_dtype, without_autocast
from passnet.ops.scan import Call, Engine, filled
from passnet.ops.transforms import (
    first_order,
    lies_nowhere,
    loop_over_batch,
    second_order,
    transformed,
    unserved_transform,
    unwrapped,
)


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
            live, fixed, layout = call.started().flatten()
            return self._forward(live, fixed, layout, engine)[: call.output_count]
        if not self.engines[engine].starts_from_nothing:
            call = call.started()
        if not torch.is_grad_enabled():
            return without_autocast(call.device, self.engines[engine].outputs, call)
        live, fixed, layout = call.flatten()
        live = [unwrapped(tensor) for tensor in live]
        return list(_apply_plainly((self, engine, call, fixed, layout), *live))

    def _compute(self, call: Call, engine: str) -> list[Tensor]:
        return without_autocast(call.device, self.engines[engine].forward, call)

    def _run_forward(self, live, fixed, layout, engine):
        call = self._call_type.unflatten(live, fixed, layout)
        by = self._serving(call, engine)
        compute = self._reference if by is None else by.forward
        return without_autocast(call.device, compute, call)

    def _serving(self, call: Call, engine: str) -> Engine[Call] | None:
        """The named engine or, where it refuses, the first that serves; None: the plain loop.

        A program that was exported or traced names the engine of the machine it was made on.
        """
        engines = (self.engines[engine], *self.engines.values())
        return next((by for by in engines if by.refuses(call) is None), None)

    def _fake_forward(self, live, fixed, layout, engine):
        call = self._call_type.unflatten(live, fixed, layout)
        return [*call.outputs_like(), *self.engines[engine].saved_like(call)]

    def _run_backward(self, grads, live, fixed, kept, layout, engine):
        call = self._call_type.unflatten(live, fixed, layout)
        by = self._serving(call, engine)
        if by is None:  # autograd is not at hand below the dispatcher: `_first_order` has it
            raise BackendRefused(refusal(engine, str(self.engines[engine].refuses(call))))
        found = _gradients(by, call, grads, live, kept, last=False)
        return [grad.contiguous() for grad in found]  # as a compiler was told they would lie

    def _by_plain_loop(self, grads, live, fixed, layout) -> list[Tensor]:
        """Gradients by autograd through the plain loop."""
        scan = self._plain(fixed, layout)
        return list(without_autocast(live[0].device, first_order, scan, live, grads))

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
        call = self._call_type.unflatten(live, fixed, ctx.layout)
        if self._serving(call, ctx.engine) is None:
            found = self._by_plain_loop(grads, live, fixed, ctx.layout)
        else:
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
        if ctx.overwritten:  # by an earlier backward of a graph that was retained
            with torch.no_grad():
                kept = op._compute(op._call_type.unflatten(live, fixed, layout), engine)
        around = transformed()
        if not around and any(map(lies_nowhere, grads)):
            found = op._by_plain_loop(filled(grads, kept), live, fixed, layout)
        elif around or torch.is_grad_enabled():
            # A gradient that is itself to be differentiated goes through the registered op.
            found = op._backward(filled(grads, kept), live, fixed, kept, layout, engine)
        else:
            by, call = op.engines[engine], op._call_type.unflatten(live, fixed, layout)
            ctx.overwritten = by.overwrites
            found = _gradients(by, call, grads, live, kept, last=True)
        return None, *found


# What `_Direct.apply` comes to once it has asked for transforms: `run` knows that there are none.
_apply_plainly = super(torch.autograd.Function, _Direct).apply  # pyright: ignore


def _gradients(
    engine: Engine[Call],
    call: Call,
    grads: Sequence[Any],
    live: Sequence[Tensor],
    kept: Sequence[Tensor],
    *,
    last: bool,
) -> list[Tensor]:
    """Those of a call's live tensors, in their order and dtypes, by one engine."""
    found = without_autocast(call.device, _found, engine, call, grads, kept, last)
    return [in_dtype(grad, tensor.dtype) for grad, tensor in zip(found, live, strict=True)]


def _found(
    engine: Engine[Call], call: Call, grads: Sequence[Any], kept: Sequence[Tensor], last: bool
) -> list[Tensor]:
    count = call.output_count
    backward = engine.last_backward if last else engine.backward
    found = backward(call, list(grads), list(kept[:count]), list(kept[count:]))
    source = call.source
    if isinstance(source, Tensor):
        return found
    grad_drive = in_dtype(found[0], source.weight.dtype)
    weight, bias = engine.input_gradients(source, grad_drive, call)
    found[:1] = (weight,) if bias is None else (weight, bias)
    return [source.features_gradient(grad_drive), *found] if source.needs_gradient else found


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
        kind = call.stand_in() if self._engine.reads_memory else None
        if kind is not None:
            return f"the {self.name} scan reads memory, and a {kind} has none of its own"
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
    end = first + second
    return tensors[:first], tensors[first:end], tensors[end:]
