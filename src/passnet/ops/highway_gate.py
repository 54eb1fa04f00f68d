"""The gate of a Highway layer: one kernel each way on a GPU, plain PyTorch elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from passnet.equations import highway_layer
from passnet.ops.cuda.highway import KERNELS
from passnet.ops.transforms import plain_gradients, plainly_differentiated

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "tanh": torch.tanh}


def highway_gate(
    state: Float[Tensor, "... n"], before: Float[Tensor, "2 ... n"], activation: str
) -> Float[Tensor, "... n"]:
    """`highway_layer` with a named activation."""
    if KERNELS.gates(state, before, activation):
        return _Fused.apply(state, before, activation)  # pyright: ignore
    return highway_layer(state, before, activation=ACTIVATIONS[activation])


def highway_backends(state: Tensor) -> dict[str, str | None]:
    """Who runs a Highway layer on this state, fastest first, and why not: None for who can."""
    return {"cuda": KERNELS.refuses(state), "eager": None}


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, state: Tensor, before: Tensor, activation: str):
        ctx.activation = activation
        ctx.save_for_backward(state, before)
        return KERNELS.gate(state, before, activation)

    @staticmethod
    def backward(ctx, grad: Tensor):  # pyright: ignore
        state, before = ctx.saved_tensors
        if not plainly_differentiated(grad):
            return *KERNELS.gate_backward(grad, state, before, ctx.activation), None

        def plainly(state: Tensor, before: Tensor) -> Tensor:
            return highway_layer(state, before, activation=ACTIVATIONS[ctx.activation])

        return *plain_gradients(plainly, [state, before], grad), None
