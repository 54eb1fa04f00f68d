"""Highway layers against the scalar transcription of the paper, and where their dropout is."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from accuracy import assert_accurate
from layer_twins import randomised, signed
from oracle import highway as highway_oracle
from structures import SIZE
from torch.autograd import forward_ad

import passnet


def named_factors(cell) -> dict[str, torch.Tensor]:
    return dict(zip(cell.recurrent.structure.factors, cell.recurrent.factors(), strict=True))


def tensor(values) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values))


def highway_gates(cell) -> dict[str, highway_oracle.HighwayGate]:
    factors = named_factors(cell)
    gates = {}
    for index, name in enumerate(cell.gate_names):
        own = {k: f[index % len(f)].detach().double().numpy() for k, f in factors.items()}
        gates[name] = highway_oracle.HighwayGate(
            left=own.get("expand", own.get("weight")),
            right=own.get("project"),
            diagonal=own.get("diagonal"),
            shift=cell.bias[index].detach().double().numpy(),
            scale=None if cell.norm is None else cell.norm.scale[index].detach().double().numpy(),
        )
    return gates


def plain_highway(cell, x, *, training):
    """(one layer in the layer's dtype, statistics): from the batch, or `cell`'s running ones."""
    factors, used = named_factors(cell), {name: {} for name in cell.gate_names}

    def normal(values, norm, index, scale=None):
        if norm is None:
            return values
        mean, deviation = values.mean(0), values.std(0, correction=0)
        place = "bottleneck" if norm is cell.norm_bottleneck else "output"
        used[cell.gate_names[index]][place] = mean.detach(), deviation.detach()
        if not training:
            mean, deviation = norm.running_mean[index], norm.running_deviation[index]
        values = (values - mean) / (deviation + 1e-4)
        return values if scale is None else values * scale

    sums = []
    for index in range(2):
        own = {k: f[index % len(f)] for k, f in factors.items()}
        if "weight" in own:
            total = x @ own["weight"].mT
        else:
            z = normal(x @ own["project"].mT, cell.norm_bottleneck, index)
            total = z @ own["expand"].mT
            total = total + x * own["diagonal"] if "diagonal" in own else total
        scale = None if cell.norm is None else cell.norm.scale[index]
        sums.append(normal(total, cell.norm, index, scale) + cell.bias[index])
    candidate = torch.relu(sums[0]) if cell.activation == "relu" else torch.tanh(sums[0])
    transform = torch.sigmoid(sums[1])
    return candidate * transform + x * (1 - transform), used


HIGHWAY = {
    "dense": passnet.Dense(),
    "low-rank": passnet.LowRank(3),
    "diagonal": passnet.LowRankPlusDiagonal(3),
    "diagonal tied": passnet.LowRankPlusDiagonal(3, tied=True),
}


@pytest.mark.parametrize("spec", HIGHWAY.values(), ids=HIGHWAY)
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("batch_norm", [False, True], ids=["plain", "batch norm"])
def test_highway(spec, activation, batch_norm):
    layer = passnet.Highway(SIZE, 2, matrix=spec, activation=activation, batch_norm=batch_norm)
    randomised(layer)
    running = None
    for training in (True, False):
        layer.train(training)
        x = signed(12, SIZE)
        truth, reference = x.double().numpy(), x
        statistics = []
        for index, cell in enumerate(layer.cells):
            truth, used = highway_oracle.highway_layer(
                truth,
                highway_gates(cell),
                activation,
                normalise=batch_norm,
                running=None if training or not batch_norm else running[index],
            )
            reference, plainly = plain_highway(cell, reference, training=training)
            statistics.append((used, plainly))
        assert_accurate(layer(x), reference=reference, truth=tensor(truth))
        if training and batch_norm:
            running = [moved(used) for used, _ in statistics]
            check_running(layer, running, [plainly for _, plainly in statistics])


def moved(statistics):
    """The oracle's running averages after one batch from the start (means 0, deviations 1)."""

    def one(used):
        return highway_oracle.update_running((np.zeros_like(used[0]), np.ones_like(used[1])), used)

    return {
        gate: {place: one(used) for place, used in places.items()}
        for gate, places in statistics.items()
    }


def check_running(layer, running, plainly):
    for cell, expected, used in zip(layer.cells, running, plainly, strict=True):
        places = {"output": cell.norm}
        if cell.norm_bottleneck is not None:
            places["bottleneck"] = cell.norm_bottleneck
        for index, gate in enumerate(cell.gate_names):
            assert set(expected[gate]) == set(used[gate]) == set(places)
            for place, norm in places.items():
                # Together, since a mean may be zero but for rounding.
                got = torch.stack((norm.running_mean[index], norm.running_deviation[index]))
                mean, deviation = used[gate][place]
                assert_accurate(
                    got,
                    reference=torch.stack((0.1 * mean, 0.9 + 0.1 * deviation)),
                    truth=tensor(np.stack(expected[gate][place])),
                )


def test_highway_dropout_leaves_the_carry_path_alone():
    layer = passnet.Highway(
        SIZE, matrix=passnet.LowRank(3), transform_bias=-1e4, dropout=0.9, dropout_bottleneck=0.9
    )
    x = signed(5, SIZE)
    assert torch.equal(layer(x), x)


def test_highway_dropout_is_in_the_bottleneck_and_before_it():
    """A mask before R zeroes whole inputs, one behind R whole summaries; both are scaled."""
    layer = passnet.Highway(
        SIZE, matrix=passnet.LowRankPlusDiagonal(2), transform_bias=1e4, dropout=0.5
    )
    cell = layer.cells[0]
    with torch.no_grad():
        cell.recurrent.expand.zero_()
        cell.recurrent.diagonal.fill_(1)
    x = torch.rand(400, SIZE) + 1
    ratio = layer(x) / x
    assert set(ratio.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(layer.eval()(x), x)
    layer = passnet.Highway(
        SIZE, matrix=passnet.LowRank(1), transform_bias=1e4, dropout_bottleneck=0.5
    )
    with torch.no_grad():
        for factor in layer.cells[0].recurrent.parameters():
            factor.fill_(1)
    ratio = layer(x) / layer.eval()(x)
    assert set(ratio.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(ratio, ratio[:, :1].expand_as(ratio))


@pytest.mark.parametrize("spec", HIGHWAY.values(), ids=HIGHWAY)
def test_highway_compiles_without_graph_breaks(spec):
    layer = randomised(passnet.Highway(SIZE, 2, matrix=spec, batch_norm=True))
    other = copy.deepcopy(layer)
    x = signed(12, SIZE)
    compiled = torch.compile(other, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), layer(x))
    for got, expected in zip(other.buffers(), layer.buffers(), strict=True):
        assert torch.equal(got, expected)


def test_highway_says_who_runs_it_and_why_not():
    reasons = passnet.Highway(SIZE).explain_backends(signed(2, SIZE))
    assert reasons == {
        "cuda": "the CUDA kernels run on a GPU and this call is on cpu",
        "eager": None,
    }


def test_bad_arguments_of_highway():
    with pytest.raises(IndexError, match="layer=2: this module has layers 0 to 1"):
        passnet.Highway(SIZE, 2).recurrent_matrix("candidate", layer=2)
    with pytest.raises(ValueError, match=r"dropout=1\.0: give a probability, .* below 1"):
        passnet.Highway(SIZE, dropout=1.0)
    with pytest.raises(TypeError, match="transform_bias=None: give a number"):
        passnet.Highway(SIZE, transform_bias=None)
    with pytest.raises(TypeError, match="the input is a list: give a tensor"):
        passnet.Highway(SIZE)([0.0] * SIZE)


def test_highway_starts_anew_with_its_statistics():
    torch.manual_seed(0)
    layer = passnet.Highway(SIZE, 2, matrix=passnet.LowRank(3), batch_norm=True)
    as_built = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    layer(3 + 5 * signed(12, SIZE))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(float("nan"))
    torch.manual_seed(0)
    layer.reset_parameters()
    assert all(torch.equal(layer.state_dict()[name], value) for name, value in as_built.items())


def test_highway_under_forward_mode_is_its_own_derivative():
    layer = randomised(passnet.Highway(SIZE, batch_norm=True)).double()
    x, along = signed(12, SIZE).double(), signed(12, SIZE).double()
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(layer(forward_ad.make_dual(x, along))).tangent
    jacobian = torch.autograd.functional.jacobian(layer, x)
    torch.testing.assert_close(found, torch.einsum("abij,ij->ab", jacobian, along))
