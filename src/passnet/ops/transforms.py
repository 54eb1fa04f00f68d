"""What ops share under PyTorch's transforms: second derivatives, vmap, torch.func."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

Found = list[Tensor | None]
_PLAIN, _ANSWER = {Tensor, torch.nn.Parameter, type(None)}, "__torch_dispatch__"
# By names of their own: every step of a stream asks all of these.
_innermost = torch._C._functorch.peek_interpreter_stack  # pyright: ignore
_tracing, _dispatchers = torch._C._get_tracing_state, torch._C._len_torch_dispatch_stack
_overriders, _any_autocast = torch._C._len_torch_function_stack, torch._C._is_any_autocast_enabled
_recording = torch.is_grad_enabled
unwrapped = torch._C._functorch.unwrap_if_dead  # pyright: ignore
"""A tensor that outlived a torch.func transform without what the transform put around it."""


def first_order(
    scan: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor], grad_outputs: Sequence[Tensor]
) -> Sequence[Tensor]:
    """The gradient of a scan by autograd through the plain loop, which knows every transform."""
    further = torch.is_grad_enabled()
    with torch.enable_grad():
        inputs = [_differentiable(tensor) for tensor in inputs]
        outputs = scan(*inputs)
    return torch.autograd.grad(
        outputs, inputs, grad_outputs, create_graph=further, materialize_grads=True
    )


def second_order(
    scan: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Tensor],
    grad_outputs: Sequence[Tensor],
    grads: Sequence[Tensor | None],
) -> tuple[Found, Found]:
    """The derivative of a scan's gradient: (with respect to grad_outputs, to inputs).

    `grads` holds what flows into each gradient. The plain loop runs again and is differentiated
    twice by autograd, so this is right by construction, and differentiable once more.
    """
    further = torch.is_grad_enabled()
    with torch.enable_grad():
        grad_outputs = [_differentiable(grad) for grad in grad_outputs]
        inputs = [_differentiable(tensor) for tensor in inputs]
        first = torch.autograd.grad(
            scan(*inputs), inputs, grad_outputs, create_graph=True, materialize_grads=True
        )
        pairs = [
            (value, grad)
            for value, grad in zip(first, grads, strict=True)
            if grad is not None and value.requires_grad
        ]
        if not pairs:
            return [None] * len(grad_outputs), [None] * len(inputs)
        found = torch.autograd.grad(
            [value for value, _ in pairs],
            [*grad_outputs, *inputs],
            [grad for _, grad in pairs],
            create_graph=further,
            allow_unused=True,
        )
    return list(found[: len(grad_outputs)]), list(found[len(grad_outputs) :])


def _differentiable(tensor: Tensor) -> Tensor:
    # A view of its own: what flows in from outside may depend on the inputs (a loss that is not
    # linear), and that path is the caller's to follow, not part of this derivative.
    return tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_()


def transformed() -> bool:
    """Whether a torch.func transform or a tracer is around this call."""
    return _innermost() is not None or _tracing() is not None or _dispatchers() > 0


def overridden() -> bool:
    """Whether a mode around this call may take PyTorch's functions over."""
    return _overriders() > 0


def watched() -> bool:
    """Whether anything records or changes what is computed here: autograd in either direction,
    autocast on any device, a tracer, transform or mode."""
    return (
        _recording()
        or torch.compiler.is_compiling()
        or _innermost() is not None
        or _tracing() is not None
        or _dispatchers() > 0
        or _overriders() > 0
        or _any_autocast()
        or forward_ad._current_level >= 0
    )


def captured(tensor: Tensor) -> bool:
    """Whether a CUDA graph is being made of what is done where it lies."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def readable(tensor: Tensor) -> bool:
    """Whether it has values that may be looked at: not while tracing or capturing."""
    if torch.compiler.is_compiling() or _tracing() is not None:
        return False
    batched = torch._C._functorch.is_batchedtensor(tensor)  # pyright: ignore
    if batched or type(tensor) is not Tensor or tensor.is_meta or tensor.numel() == 0:
        return False
    return not captured(tensor)


def stand_in(*tensors: Tensor | None) -> str | None:
    """The type of the first of these that only stands for others, or None.

    Nothing lies at the address of a DTensor, or of most quantised weights. Those of a tracer do
    not count: no kernel will see them.
    """
    for tensor in tensors:
        kind = type(tensor)
        # Subclasses that only add to a tensor, and lie where they say, leave this one as it is.
        if kind not in _PLAIN and getattr(kind, _ANSWER) is not getattr(Tensor, _ANSWER):
            return None if torch.compiler.is_compiling() or transformed() else kind.__name__
    return None


def lies_nowhere(tensor: Tensor | None) -> bool:
    """Whether it has no memory: `autograd.grad(is_grads_batched=True)` makes such gradients, by an
    older vmap for which registered ops have no rule."""
    return tensor is not None and not torch._C._has_storage(tensor)  # pyright: ignore


def forward_mode() -> bool:
    """Whether forward-mode differentiation is around this call."""
    return forward_ad._current_level >= 0


def plain_only() -> bool:
    """Whether anything but ordinary autograd is around this call."""
    return torch.compiler.is_compiling() or transformed() or forward_mode()


def plainly_differentiated(grad: Tensor) -> bool:
    """Whether a gradient is beyond a kernel: one to be differentiated, or not of numbers alone."""
    return torch.is_grad_enabled() or transformed() or lies_nowhere(grad)


def plain_gradients(
    compute: Callable[..., Tensor], inputs: Sequence[Tensor | None], grad: Tensor
) -> Found:
    """Gradients of compute(*inputs) by autograd, None where none is wanted."""
    further = torch.is_grad_enabled()
    with torch.enable_grad():
        own = [None if tensor is None else tensor.view_as(tensor) for tensor in inputs]
        wanted = [tensor for tensor in own if tensor is not None and tensor.requires_grad]
        out = compute(*own)
    found = iter(torch.autograd.grad(out, wanted, grad, create_graph=further))
    return [next(found) if t is not None and t.requires_grad else None for t in own]


@torch.compiler.assume_constant_result
def unserved_transform() -> str | None:
    """The transform around this call that a registered op cannot serve, or None.

    PyTorch gives such an op a tangent of zero under forward mode, silently, and no rule at all
    under torch.func's gradients; ordinary autograd and vmap are fine. A compiler asks while it
    traces, inside the transforms of what it compiles.
    """
    if forward_mode():
        return "forward-mode differentiation (jvp)"
    if _innermost() is None:
        return None
    around = torch._C._functorch.get_interpreter_stack() or ()  # pyright: ignore
    if any(level.key().name == "Grad" for level in around):
        return "torch.func's grad, vjp and jacrev"
    return None


def loop_over_batch(op) -> None:
    """Teach `op` vmap by running its examples one after another."""

    def vmapped(info, in_dims, *args):
        def example(arg, dim, index):
            if isinstance(arg, list | tuple):
                dims = dim if isinstance(dim, list | tuple) else [dim] * len(arg)
                return [example(a, d, index) for a, d in zip(arg, dims, strict=True)]
            return arg if dim is None else arg.select(dim, index)

        results = [
            op(*(example(arg, dim, index) for arg, dim in zip(args, in_dims, strict=True)))
            for index in range(info.batch_size)
        ]
        stacked = [torch.stack(column) for column in zip(*results, strict=True)]
        return stacked, [0] * len(stacked)

    op.register_vmap(vmapped)
