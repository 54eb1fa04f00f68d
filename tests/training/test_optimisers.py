"""The optimisers against a scalar transcription of their formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from accuracy import assert_accurate
from oracle import optimisers as oracle
from torch import nn

from passnet.config import Adam, AdamW, RmsProp
from passnet.training.optimisers import RMSProp, build_optimiser, set_rate

SHAPES = ((3, 2), (4,), (1, 2, 2))


def parameters(dtype=torch.float64):
    return [nn.Parameter(torch.randn(shape, dtype=torch.float64).to(dtype)) for shape in SHAPES]


def arrays(tensors):
    return [tensor.detach().double().numpy() for tensor in tensors]


def draw_gradients(owners):
    for index, parameter in enumerate(owners):
        parameter.grad = torch.randn(parameter.shape, dtype=torch.float64).to(parameter.dtype)
        if index == 0:
            parameter.grad[0] = 0


@pytest.mark.parametrize("epsilon", [0.0, 1e-8, 0.1])
@pytest.mark.parametrize("decay", [0.9, 0.5])
def test_rmsprop_is_the_papers(epsilon, decay):
    owners = parameters()
    value = RmsProp(3e-2, decay=decay, epsilon=epsilon)
    optimiser = build_optimiser(value, owners)
    expected, accumulators = arrays(owners), oracle.initial_accumulators(arrays(owners))
    for _ in range(6):
        draw_gradients(owners)
        gradients = [p.grad.numpy().copy() for p in owners]
        expected, accumulators = oracle.rmsprop_step(
            expected, gradients, accumulators, 3e-2, decay=decay, epsilon=epsilon
        )
        optimiser.step()
    for parameter, array in zip(owners, expected, strict=True):
        np.testing.assert_allclose(parameter.detach().numpy(), array, rtol=1e-13, atol=1e-15)
    for parameter, array in zip(owners, accumulators, strict=True):
        found = optimiser.state[parameter]["accumulator"].numpy()
        np.testing.assert_allclose(found, array, rtol=1e-13)


def test_rmsprop_in_single_precision_keeps_the_accuracy_rule():
    owners = parameters(torch.float32)
    optimiser = RMSProp(owners, 1e-2, epsilon=1e-8)
    truth, accumulators = arrays(owners), oracle.initial_accumulators(arrays(owners))
    plain = [(p.detach().clone(), torch.full_like(p, 1e-3)) for p in owners]
    for _ in range(20):
        draw_gradients(owners)
        gradients = [p.grad.clone() for p in owners]
        truth, accumulators = oracle.rmsprop_step(
            truth, arrays(gradients), accumulators, 1e-2, epsilon=1e-8
        )
        for (parameter, accumulator), g in zip(plain, gradients, strict=True):
            accumulator.copy_(0.9 * accumulator + 0.1 * g * g)
            parameter.copy_(parameter - 1e-2 * g / (accumulator + 1e-8).sqrt())
        optimiser.step()
    for parameter, (reference, _), array in zip(owners, plain, truth, strict=True):
        assert_accurate(parameter.detach(), reference=reference, truth=torch.from_numpy(array))


def test_it_is_not_the_rmsprop_of_torch():
    ours, theirs = parameters(), parameters()
    for one, other in zip(ours, theirs, strict=True):
        other.data.copy_(one.data)
        one.grad = other.grad = torch.ones_like(one)
    RMSProp(ours, 1e-2).step()
    torch.optim.RMSprop(theirs, 1e-2, alpha=0.9).step()
    assert not torch.allclose(ours[0], theirs[0])


def test_where_gradient_and_accumulator_are_zero_rmsprop_stands_still():
    # Underflow on a GPU ends at zero; on a CPU at a denormal that rounds to itself.
    parameter = torch.ones(2, requires_grad=True)
    optimiser = RMSProp([parameter], 0.1, accumulator_start=0.0)
    parameter.grad = torch.tensor([0.0, 1.0])
    optimiser.step()
    assert parameter[0] == 1 and parameter[1] < 1


@pytest.mark.parametrize("kind", [RmsProp, Adam])
def test_weight_decay_adds_to_the_gradient(kind):
    decayed, plain = parameters(), parameters()
    for one, other in zip(decayed, plain, strict=True):
        other.data.copy_(one.data)
        one.grad = torch.ones_like(one)
        other.grad = 1 + 0.1 * one.detach()
    build_optimiser(kind(1e-2, weight_decay=0.1), decayed).step()
    build_optimiser(kind(1e-2), plain).step()
    for one, other in zip(decayed, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-15)


def test_adam_is_the_published_one():
    owners = parameters()
    optimiser = build_optimiser(Adam(3e-2, betas=(0.8, 0.95), epsilon=1e-6), owners)
    expected = arrays(owners)
    first = [np.zeros_like(array) for array in expected]
    second = [np.zeros_like(array) for array in expected]
    for step in range(1, 6):
        draw_gradients(owners)
        gradients = [p.grad.numpy().copy() for p in owners]
        expected, first, second = oracle.adam_step(
            expected, gradients, first, second, step, 3e-2, 0.8, 0.95, 1e-6
        )
        optimiser.step()
    for parameter, array in zip(owners, expected, strict=True):
        np.testing.assert_allclose(parameter.detach().numpy(), array, rtol=1e-12, atol=1e-14)


def test_adamw_shrinks_the_parameters_themselves():
    owners = parameters()
    before = [p.detach().clone() for p in owners]
    optimiser = build_optimiser(AdamW(1e-2, weight_decay=0.5), owners)
    for parameter in owners:
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    for parameter, start in zip(owners, before, strict=True):
        expected = start * (1 - 1e-2 * 0.5)
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("value", [RmsProp(1e-2), Adam(1e-2), AdamW(1e-2)])
def test_a_rate_can_be_changed_between_steps(value):
    slow, stopped = parameters(), parameters()
    for one, other in zip(slow, stopped, strict=True):
        other.data.copy_(one.data)
    before = [p.detach().clone() for p in slow]
    for owners, rate in ((slow, 1e-3), (stopped, 0.0)):
        optimiser = build_optimiser(value, owners)
        set_rate(optimiser, rate)
        for parameter in owners:
            parameter.grad = torch.ones_like(parameter)
        optimiser.step()
    assert all(torch.equal(p, start) for p, start in zip(stopped, before, strict=True))
    assert not any(torch.equal(p, start) for p, start in zip(slow, before, strict=True))


def test_a_rate_in_a_tensor_gives_the_same_steps():
    numbers, tensors = parameters(torch.float32), parameters(torch.float32)
    for one, other in zip(numbers, tensors, strict=True):
        other.data.copy_(one.data)
        one.grad = torch.randn_like(one)
        other.grad = one.grad.clone()
    RMSProp(numbers, 1e-2).step()
    held = RMSProp(tensors, torch.tensor(5.0))
    set_rate(held, 1e-2)
    held.step()
    for one, other in zip(numbers, tensors, strict=True):
        torch.testing.assert_close(one, other, rtol=2**-22, atol=0)
