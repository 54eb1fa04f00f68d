"""A scan over time as PyTorch sees it: one registered op with a shape rule, gradients and vmap.

The op is the same machinery for every cell. A cell's folder brings its `ScanCall` (what to
compute), its plain loop, its weight gradients and its engines (who computes the two scans).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic

import torch
from torch import Tensor

from passnet.ops.backend import Backend, BackendRefused, refusal
from passnet.ops.direct import Again, Direct
from passnet.ops.kinds import Kinds
from passnet.ops.precision import without_autocast
from passnet.ops.scan import Call, Engine, filled, of_live
from passnet.ops.transforms import (
    captured,
    first_order,
    loop_over_batch,
    second_order,
    transformed,
    unserved_transform,
    unwrapped,
)

MOST_KINDS = 64
"""Kinds of calls that an op remembers; most differ in the shape of their batch."""


class ScanOp(Generic[Call]):
    """The registered pair `passnet::NAME` and `passnet::NAME_backward`.

    An op takes lists of tensors and words, so a call is taken apart for it (`ScanCall.flatten`):
    `live` tensors have gradients, `fixed` ones have none, `layout` is the rest as a string. `kept`
    is what a forward returned: the outputs, and what its engine saved for the backward.
    """

    def __init__(
        self,
        name: str,
        call_type: type[Call],
        *,
        reference: Callable[[Call], list[Tensor]],
        engines: Sequence[Engine[Call]],
    ) -> None:
        self.engines = {engine.name: engine for engine in engines}
        self.call_type = call_type
        self._reference = reference
        self._kinds: Kinds[Again[Call]] = Kinds(MOST_KINDS)
        self._forward = torch.library.custom_op(
            f"passnet::{name}", self._run_forward, mutates_args=(), schema=_FORWARD_SCHEMA
        )
        self.backward_op = torch.library.custom_op(
            f"passnet::{name}_backward",
            self._run_backward,
            mutates_args=(),
            schema=_BACKWARD_SCHEMA,
        )
        self._forward.register_fake(self._fake_forward)
        self.backward_op.register_fake(self._fake_backward)
        self._forward.register_autograd(self._first_order, setup_context=self._keep)
        self.backward_op.register_autograd(self._second_order, setup_context=self._keep_first)
        loop_over_batch(self._forward)
        loop_over_batch(self.backward_op)
        own = (_EngineBackend(self, engine) for engine in engines)
        self.backends: tuple[Backend[Call], ...] = (*own, _ReferenceBackend(reference))
        """All ways to run this scan, fastest first: the engines, then the plain loop."""

    def run(self, call: Call, engine: str) -> list[Tensor]:
        """The scan's outputs, computed by the named engine.

        Tracers and transforms see the registered op, ordinary calls take a shorter way to the same
        functions.
        """
        if torch.compiler.is_compiling() or transformed():
            live, fixed, layout = call.started().flatten()
            return self._forward(live, fixed, layout, engine)[: call.output_count]
        if not self.engines[engine].starts_from_nothing:
            call = call.started()
        if not (torch.is_grad_enabled() or self.engines[engine].records):
            return without_autocast(call.device, self.engines[engine].outputs, call)
        live, fixed, layout = call.flatten()
        live = [unwrapped(tensor) for tensor in live]
        return list(self._direct(live, fixed, layout, engine).run(live, fixed, call))

    def _direct(
        self, live: Sequence[Tensor], fixed: Sequence[Tensor], layout: str, engine: str
    ) -> Direct[Call]:
        """The call apart from its tensors, as a repeated one if it was made before."""
        if self.engines[engine].records and not captured(live[0]):
            kinds = [(tensor.shape, tensor.dtype, tensor.device) for tensor in (*live, *fixed)]
            again = self._kinds.of(
                (layout, engine, *kinds), lambda: Again(self, engine, layout, ends=False)
            )
            if again is not None:
                return again
        return Direct(self, engine, layout)

    def _run_forward(self, live, fixed, layout, engine):
        call = self.call_type.unflatten(live, fixed, layout)
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
        call = self.call_type.unflatten(live, fixed, layout)
        return [*call.outputs_like(), *self.engines[engine].saved_like(call)]

    def _run_backward(self, grads, live, fixed, kept, layout, engine):
        call = self.call_type.unflatten(live, fixed, layout)
        by = self._serving(call, engine)
        if by is None:  # autograd is not at hand below the dispatcher: `_first_order` has it
            raise BackendRefused(refusal(engine, str(self.engines[engine].refuses(call))))
        found = of_live(call, by, *by.gradients(call, grads, live, kept, last=False))
        return [grad.contiguous() for grad in found]  # as a compiler was told they would lie

    def by_plain_loop(self, grads, live, fixed, layout) -> list[Tensor]:
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
        grads = filled(grads[: self.call_type.output_count], kept)
        call = self.call_type.unflatten(live, fixed, ctx.layout)
        if self._serving(call, ctx.engine) is None:
            found = self.by_plain_loop(grads, live, fixed, ctx.layout)
        else:
            found = self.backward_op(grads, live, fixed, kept, ctx.layout, ctx.engine)
        return found, [None] * len(fixed), None, None

    def _keep_first(self, ctx, inputs, output) -> None:
        grads, live, fixed, kept, ctx.layout, _ = inputs
        ctx.split = len(grads), len(live)
        ctx.kept = len(kept)
        ctx.save_for_backward(*grads, *live, *fixed)

    def _plain(self, fixed, layout):
        """The plain loop as a function of the live tensors."""
        return lambda *live: self._reference(self.call_type.unflatten(live, fixed, layout))

    def _second_order(self, ctx, grads):
        grad_outputs, live, fixed = _split(ctx.saved_tensors, *ctx.split)
        scan = self._plain(fixed, ctx.layout)
        for_grads, for_live = second_order(scan, live, grad_outputs, grads)
        return for_grads, for_live, [None] * len(fixed), [None] * ctx.kept, None, None


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

    def again(self, call: Call) -> Again[Call] | None:
        if not self._engine.records:
            return None
        return Again(self._op, self.name, call.flatten()[-1], ends=True)


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
