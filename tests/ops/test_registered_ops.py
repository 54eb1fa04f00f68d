"""The scans as PyTorch sees them: schema, shape rule, autograd, vmap and torch.func."""

from __future__ import annotations

import pytest
import torch
from accuracy import assert_all_accurate
from registration import CASES as SERVED
from registration import check_registration
from scan_calls import Case, converted, gradients, make_call, plain, run_on
from torch.func import functional_call, vmap

import passnet
from passnet.ops import BackendRefused
from passnet.ops.cpu import installed

CASES = [
    Case("gru", "diagonal", "before", masks="each", hold="units"),
    Case("gru", "diagonal tied", "after", hold="ends", inner_bias=True),
    Case("lstm", "blocks and rank", masks="one", hold="units"),
]


@pytest.mark.parametrize("case", [*SERVED, CASES[-1]], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_registration(case, dtype):
    check_registration(case, dtype, "eager")


@pytest.mark.skipif(isinstance(installed(), str), reason="no compiled scan here")
@pytest.mark.parametrize("case", SERVED, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_registration_of_compiled_scans(case, dtype):
    check_registration(case, dtype, "cpu")


@pytest.mark.parametrize("backend", ["eager", "cpu"])
@pytest.mark.parametrize("kind", [passnet.GRU, passnet.LSTM])
def test_compiled_training_on_symbols(kind, backend):
    """The gradients of a compiled layer lie in memory as its registration says."""
    layer = kind(7, 5, matrix=passnet.LowRank(2), backend=backend)
    symbols = torch.randint(0, 7, (4, 3))
    layer(symbols)[0].square().sum().backward()
    expected = {name: p.grad for name, p in layer.named_parameters()}
    layer.zero_grad()
    step = torch.compile(lambda x: layer(x)[0].square().sum(), backend="aot_eager")
    step(symbols).backward()
    for name, parameter in layer.named_parameters():
        assert torch.equal(parameter.grad, expected[name]), name


@pytest.mark.parametrize("case", CASES, ids=str)
def test_vmap_over_any_tensor_of_a_call(case):
    """Examples side by side give, with their gradients, what they give one by one."""
    calls = [make_call(case, torch.float32) for _ in range(2)]
    live, fixed, layout = calls[0].flatten()
    other = calls[1].flatten()[0]
    batched = [torch.stack(pair) for pair in zip(live[:2], other[:2], strict=True)]
    kind = type(calls[0])

    def example(drive, initial):
        return run_on("eager", kind.unflatten([drive, initial, *live[2:]], fixed, layout))

    together = vmap(example)(*batched)
    for index, first in enumerate((live, other)):
        alone = kind.unflatten([*first[:2], *live[2:]], fixed, layout)
        same, wide = converted(alone, torch.float32), converted(alone, torch.float64)
        assert_all_accurate(
            gradients([part[index] for part in together], alone),
            reference=gradients(plain(same), same),
            truth=gradients(plain(wide), wide),
        )


@pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])
def test_torch_func_derivatives_are_served_by_the_plain_loop(layer):
    """A registered op has no rule for them and forward mode would answer zero: never wrong."""
    module = layer(2, 4, matrix=passnet.LowRank(2), dtype=torch.float64)
    x, direction = torch.randn(2, 3, 1, 2, dtype=torch.float64)

    def loss(x):
        return module(x)[0].square().sum()

    (expected,) = torch.autograd.grad(loss(x.requires_grad_()), x)
    x = x.detach()
    assert torch.autograd.gradcheck(
        lambda x: module(x)[0], x.clone().requires_grad_(), check_forward_ad=True
    )
    tangent = torch.func.jvp(loss, (x,), (direction,))[1]
    gradient = torch.func.grad(loss)(x)
    truth = (expected * direction).sum()
    named = {"gradient": expected, "tangent": truth}
    slow = layer(2, 4, matrix=passnet.LowRank(2), dtype=torch.float64, backend="reference")
    slow.load_state_dict(module.state_dict())
    again = x.clone().requires_grad_()
    (plainly,) = torch.autograd.grad(slow(again)[0].square().sum(), again)
    assert_all_accurate(
        {"gradient": gradient.float(), "tangent": tangent.float()},
        reference={"gradient": plainly.float(), "tangent": (plainly * direction).sum().float()},
        truth=named,
    )
    assert torch.func.hessian(loss)(x).shape == (*x.shape, *x.shape)
    for transform in (torch.func.grad, torch.func.jacfwd):
        module.backend = "eager"
        with pytest.raises(BackendRefused, match="plain loop only, backend 'reference'"):
            transform(loss)(x)


@pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])
def test_an_ensemble_by_vmap_over_parameters(layer):
    """Three networks stacked: outputs and parameter gradients are those of each by itself."""
    members = [layer(2, 4, 2, matrix=passnet.LowRankPlusDiagonal(2)) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(members)
    x = torch.randn(5, 2, 2)

    def one(parameters, buffers):
        return functional_call(members[0], (parameters, buffers), (x,))[0]

    together = vmap(one)(parameters, buffers)
    together.square().sum().backward()
    for index, member in enumerate(members):
        reference = {"y": member(x)[0]}
        reference["y"].square().sum().backward()
        double = layer(2, 4, 2, matrix=passnet.LowRankPlusDiagonal(2), dtype=torch.float64)
        double.load_state_dict(member.state_dict())
        truth = {"y": double(x.double())[0]}
        truth["y"].square().sum().backward()
        got = {"y": together[index]}
        for name, parameter in member.named_parameters():
            reference[name] = parameter.grad
            got[name] = parameters[name].grad[index]
        truth |= {name: p.grad for name, p in double.named_parameters()}
        assert_all_accurate(got, reference=reference, truth=truth)
