"""Inputs of a scan: symbols are one-hot features, and the written-out gradients are autograd's."""

from __future__ import annotations

import pytest
import torch
from accuracy import assert_all_accurate
from torch.nn.functional import one_hot

import passnet
from passnet.ops.inputs import Inputs, put_together, take_apart

GATES, STEPS, BATCH, UNITS, WIDTH = 3, 5, 2, 7, 4


def parts(dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    return {
        "x": draw(STEPS, BATCH, WIDTH),
        "weight": draw(GATES, UNITS, WIDTH),
        "bias": draw(GATES, UNITS),
        "symbols": torch.randint(WIDTH, (STEPS, BATCH), generator=generator),
        "scale": draw(STEPS, BATCH),
        "grad": draw(GATES, STEPS, BATCH, UNITS),
    }


def plainly(x, weight, bias):
    drive = torch.einsum("tbm,gnm->gtbn", x, weight)
    return drive if bias is None else drive + bias[:, None, None]


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("kind", ["features", "symbols", "scaled symbols"])
def test_drive_and_gradients(kind, bias):
    def found(dtype):
        p = parts(dtype)
        offset = p["bias"] if bias else None
        if kind == "features":
            inputs = Inputs(p["x"], p["weight"], offset)
        else:
            scale = p["scale"] if "scaled" in kind else None
            inputs = Inputs(p["symbols"], p["weight"], offset, scale)
        weight, sums = inputs.gradients(p["grad"])
        drive = inputs.drive()
        assert drive.shape == inputs.shape == (GATES, STEPS, BATCH, UNITS)
        result = {"drive": drive, "weight": weight}
        if sums is not None:
            result["bias"] = sums
        if kind == "features":
            result["x"] = inputs.features_gradient(p["grad"])
        return result

    def expected(dtype):
        p = parts(dtype)
        x = p["x"] if kind == "features" else one_hot(p["symbols"], WIDTH).to(dtype)
        if "scaled" in kind:
            x = x * p["scale"][..., None]
        leaves = {"weight": p["weight"]} | ({"bias": p["bias"]} if bias else {}) | {"x": x}
        leaves = {name: leaf.detach().requires_grad_() for name, leaf in leaves.items()}
        drive = plainly(leaves["x"], leaves["weight"], leaves.get("bias"))
        grads = torch.autograd.grad(drive, list(leaves.values()), p["grad"])
        result = {"drive": drive.detach()} | dict(zip(leaves, grads, strict=True))
        if kind != "features":
            del result["x"]
        return result

    assert_all_accurate(
        found(torch.float32), reference=expected(torch.float32), truth=expected(torch.float64)
    )


@pytest.mark.parametrize("needs_gradient", [True, False])
@pytest.mark.parametrize("with_scale", [True, False])
def test_taken_apart_and_put_together(needs_gradient, with_scale):
    p = parts()
    scale = p["scale"] if with_scale else None
    inputs = Inputs(p["x"], p["weight"], p["bias"], scale, needs_gradient)
    word, live, fixed = take_apart(inputs)
    names = list(fixed)
    again, rest = put_together(word, [*live, p["grad"]], fixed)
    assert isinstance(again, Inputs) and again.needs_gradient is needs_gradient
    assert again.x is inputs.x and again.weight is inputs.weight and again.bias is inputs.bias
    assert again.scale is inputs.scale and rest[0] is p["grad"] and not fixed
    assert ("x" in names) is not needs_gradient


def test_a_scan_keeps_its_inputs_and_not_their_drive():
    """The drive is G times as large as the states, and only the forward reads it."""
    layer = passnet.GRU(2, 16, matrix=passnet.LowRank(2))
    kept = []

    def note(tensor):
        kept.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        layer(torch.randn(50, 4, 2))
    assert (50, 4, 2) in kept
    assert (3, 50, 4, 16) not in kept


def test_gradients_lie_as_the_registration_of_the_scans_says():
    inputs = Inputs(torch.randint(0, 7, (4, 3)), torch.randn(3, 5, 7), torch.randn(3, 5))
    assert all(grad.is_contiguous() for grad in inputs.gradients(torch.randn(3, 4, 3, 5)))
