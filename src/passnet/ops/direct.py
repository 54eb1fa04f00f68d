"""Ordinary calls of a scan op: its forward and backward as one autograd node, no dispatcher.

The dispatcher's list arguments cost more than a short scan. So does the way to the kernels, which
is why the passes of repeated calls are replayed (`Again`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic

import torch
from torch import Tensor
from torch.nn.functional import pad

from passnet.ops.precision import without_autocast
from passnet.ops.scan import ALIGNED, Call, Engine, Repetition, ScanCall, filled, of_live
from passnet.ops.transforms import captured, lies_nowhere, transformed

if TYPE_CHECKING:
    from passnet.ops.scan_op import ScanOp

Tensors = Sequence[Tensor]
Grads = Sequence[Tensor | None]
Work = Callable[[], list[Tensor]]


class Direct(Generic[Call]):
    """A call of an op, apart from its tensors."""

    def __init__(self, op: ScanOp[Call], engine: str, layout: str, *, ends: bool = False) -> None:
        """`ends`: the last state of each output is an output too."""
        self.op, self.engine, self.layout, self.ends = op, engine, layout, ends

    @property
    def by(self) -> Engine[Call]:
        return self.op.engines[self.engine]

    def run(self, live: Tensors, fixed: Tensors, call: Call | None = None) -> tuple[Tensor, ...]:
        """The outputs, which depend on the live tensors for autograd; the call, if it is there."""
        if torch.is_grad_enabled():
            return _apply(self, call, fixed, *live)
        return self.outputs(self.forward(live, fixed, call))

    def forward(self, live: Tensors, fixed: Tensors, call: Call | None = None) -> list[Tensor]:
        """[outputs, what is kept for the backward]."""
        call = self.call(live, fixed) if call is None else call
        return without_autocast(call.device, self.by.forward, call)

    def outputs(self, kept: Tensors) -> tuple[Tensor, ...]:
        """Those that a forward returned, and their last states if they are wanted."""
        outputs = kept[: self.op.call_type.output_count]
        return (*outputs, *[part[-1:].clone() for part in outputs]) if self.ends else (*outputs,)

    def gradients(self, grads: Grads, live: Tensors, fixed: Tensors, kept: Tensors) -> list[Tensor]:
        """Those of the live tensors, where nobody reads again what was kept."""
        call = self.call(live, fixed)
        return of_live(call, self.by, *self.by.gradients(call, grads, live, kept, last=True))

    def call(self, live: Tensors, fixed: Tensors) -> Call:
        """The call with its tensors."""
        return self.op.call_type.unflatten(live, fixed, self.layout)


class Again(Direct[Call]):
    """A repeated call, every time with tensors of the same shapes.

    Each pass is recorded when it runs for the first time and replayed from then on, if it can be:
    all of it except the gradient of features, which is a PyTorch product.
    """

    def __init__(self, op: ScanOp[Call], engine: str, layout: str, *, ends: bool) -> None:
        super().__init__(op, engine, layout, ends=ends)
        self._passes: dict[tuple[bool, ...], _Pass] = {}

    def forward(self, live: Tensors, fixed: Tensors, call: Call | None = None) -> list[Tensor]:
        return self._pass(())((*live, *fixed), lambda: Direct.forward(self, live, fixed, call))

    def gradients(self, grads: Grads, live: Tensors, fixed: Tensors, kept: Tensors) -> list[Tensor]:
        if captured(live[0]):  # a graph that holds the backward alone may be replayed
            return super().gradients(grads, live, fixed, kept)
        # Dense ones: a sum, or a layer that writes its batch first, hands on others.
        grads = [None if grad is None else grad.contiguous() for grad in grads]
        given = (*[grad for grad in grads if grad is not None], *live, *fixed, *kept)

        def work() -> list[Tensor]:
            return self.by.gradients(self.call(live, fixed), grads, live, kept, last=True)

        used = tuple([grad is not None for grad in grads])
        drive, *rest = self._pass(used)(given, work)
        # Mostly the rest is all: then the call need not be put together again.
        return (
            rest
            if len(rest) == len(live)
            else of_live(self.call(live, fixed), self.by, drive, *rest)
        )

    def _pass(self, used: tuple[bool, ...]) -> _Pass:
        """The forward or, by the outputs that were used, a backward."""
        found = self._passes.get(used)
        if found is None:
            found = self._passes[used] = _Pass(self.by)
        return found


class _Pass:
    """A pass that is recorded once; tensors with an unusual layout run it in full."""

    def __init__(self, by: Engine) -> None:
        self._by = by
        self._watched = False
        self._repetition: Repetition | None = None

    def __call__(self, given: Tensors, work: Work) -> list[Tensor]:
        for tensor in given:
            if not tensor.is_contiguous() or tensor.is_neg() or tensor.data_ptr() % ALIGNED:
                return work()
        if self._repetition is not None:
            return self._repetition(given)
        if self._watched:
            return work()
        found, self._repetition = self._by.record(given, work)
        self._watched = True
        return found


class _Node(torch.autograd.Function):
    """One call, forwards and backwards."""

    @staticmethod
    def forward(ctx, asked: Direct, call: ScanCall | None, fixed: Tensors, *live: Tensor):
        kept = asked.forward(live, fixed, call)
        ctx.asked, ctx.split = asked, (len(live), len(live) + len(fixed))
        ctx.overwritten = False
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*live, *fixed, *kept)
        return asked.outputs(kept)

    @staticmethod
    def backward(ctx, *grads):
        asked, (first, second), saved = ctx.asked, ctx.split, ctx.saved_tensors
        live, fixed, kept = saved[:first], saved[first:second], saved[second:]
        if asked.ends:
            grads = _summed(grads, kept)
        if ctx.overwritten:  # by an earlier backward of a graph that was retained
            with torch.no_grad():  # in full, which a CUDA graph may capture
                kept = Direct.forward(asked, live, fixed)
        op, around = asked.op, transformed()
        if not around and any(map(lies_nowhere, grads)):
            found = op.by_plain_loop(filled(grads, kept), live, fixed, asked.layout)
        elif around or torch.is_grad_enabled():
            # A gradient that is itself to be differentiated goes through the registered op.
            found = op.backward_op(
                filled(grads, kept), live, fixed, kept, asked.layout, asked.engine
            )
        else:
            ctx.overwritten = asked.by.overwrites
            # Kernels read what lies there; the registered op is given it so.
            grads = [None if grad is None else grad.resolve_neg() for grad in grads]
            found = asked.gradients(grads, live, fixed, kept)
        return None, None, None, *found


# What `_Node.apply` comes to once it has asked for transforms: whoever calls it knows of none.
_apply = super(torch.autograd.Function, _Node).apply  # pyright: ignore


def _summed(grads: Grads, outputs: Tensors) -> list[Tensor | None]:
    """The gradient of each output from its own and that of its last state."""
    count = len(grads) // 2
    found = list(grads[:count])
    for index, last in enumerate(grads[count:]):
        whole = found[index]
        if last is not None and whole is not None:
            found[index] = torch.cat((whole[:-1], whole[-1:] + last))
        elif last is not None:
            found[index] = pad(last, (0, 0, 0, 0, len(outputs[index]) - 1, 0))
    return found
