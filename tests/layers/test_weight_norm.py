"""The stabilised variant: normalised rows, which scales are trained, and the row-norm clip."""

from __future__ import annotations

import pytest
import torch
from accuracy import assert_accurate
from layer_twins import doubled, randomised, signed
from oracle import matrices as oracle
from structures import SIZE, STRUCTURES
from torch import nn
from torch.nn.utils import parametrize

import passnet

M, T, B = 3, 5, 4
each_structure = pytest.mark.parametrize("spec", STRUCTURES.values(), ids=STRUCTURES)
each_layer = pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])
SCALED = {"weight", "expand", "blocks"}


def numbers(tensor: torch.Tensor):
    return tensor.detach().double().numpy()


@each_layer
@each_structure
def test_every_matrix_but_projections_and_diagonals_has_a_trained_scale(layer, spec):
    module = layer(M, SIZE, matrix=spec, weight_norm=True)
    shapes = {name: p.shape for name, p in module.cells[0].named_parameters()}
    scales = {name.removesuffix("_scale") for name in shapes if name.endswith("_scale")}
    factors = {f"recurrent.{n}" for n in module.cells[0].recurrent.structure.factors}
    expected = {f for f in factors if f.rpartition(".")[2] in SCALED} | {"input_weight"}
    assert scales == expected
    for name in scales:
        assert shapes[f"{name}_scale"] == shapes[name][:-1]


@each_layer
@each_structure
def test_normalised_factors_are_the_oracles(layer, spec):
    module = randomised(layer(M, SIZE, matrix=spec, weight_norm=True))
    cell = module.cells[0]
    pairs = {"input_weight": (cell.input_weight, cell.input_matrix())}
    for name, used in zip(cell.recurrent.structure.factors, cell.recurrent.factors(), strict=True):
        pairs[name] = getattr(cell.recurrent, name), used
    for name, (raw, used) in pairs.items():
        if name == "diagonal":
            assert used is raw
            continue
        owner = cell if name == "input_weight" else cell.recurrent
        scale = getattr(owner, f"{name}_scale", None)
        assert (scale is None) == (name == "project")
        rows, used = raw.flatten(0, -2), used.flatten(0, -2)
        scales = None if scale is None else scale.flatten()
        truth = oracle.weight_norm(numbers(rows), None if scales is None else numbers(scales))
        unit = torch.nn.functional.normalize(rows, dim=-1, eps=0)
        reference = unit if scales is None else unit * scales[:, None]
        assert_accurate(used, reference=reference, truth=torch.from_numpy(truth), name=name)


@each_layer
@each_structure
def test_a_fresh_layer_is_normalised_without_changing_scaled_matrices(layer, spec):
    torch.manual_seed(1)
    normed = layer(M, SIZE, matrix=spec, weight_norm=True).cells[0]
    torch.manual_seed(1)
    plain = layer(M, SIZE, matrix=spec).cells[0]
    for name, raw in plain.recurrent.named_parameters():
        assert torch.equal(getattr(normed.recurrent, name), raw)
        if name in SCALED:
            scale = getattr(normed.recurrent, f"{name}_scale")
            truth = torch.linalg.vector_norm(raw.double(), dim=-1)
            assert_accurate(scale, reference=truth.float(), truth=truth)


def test_gradients_of_normalised_rows_are_perpendicular_to_them():
    """A row's length has no effect, so moving along it changes nothing; its scale has one."""
    module = passnet.GRU(
        2, 4, matrix=passnet.LowRankPlusDiagonal(2), weight_norm=True, dtype=torch.float64
    )
    randomised(module)
    names = [name for name, _ in module.named_parameters()]
    x = signed(3, 2, 2).double()

    def outputs(*parameters):
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(module, given, (x,))[0]

    assert torch.autograd.gradcheck(outputs, tuple(module.parameters()))
    module(x)[0].square().sum().backward()
    for raw in (module.cells[0].recurrent.expand, module.cells[0].recurrent.project):
        along = torch.linalg.vecdot(raw.grad, raw)
        lengths = raw.grad.norm(dim=-1) * raw.norm(dim=-1)
        # Perpendicular to rounding: the cosine added to 1 leaves it 1, to single precision.
        assert torch.equal((1 + along / lengths).float(), torch.ones(along.shape))
    assert (module.cells[0].recurrent.expand_scale.grad != 0).all()


def test_a_row_of_zeros_stays_zero_and_has_a_gradient():
    module = passnet.GRU(M, SIZE, matrix=passnet.LowRank(2), weight_norm=True)
    with torch.no_grad():
        module.cells[0].recurrent.project[0, 0] = 0
    y, _ = module(signed(T, B, M))
    y.sum().backward()
    assert torch.isfinite(y).all()
    assert all(torch.isfinite(p.grad).all() for p in module.parameters())


@each_layer
@each_structure
@pytest.mark.parametrize("weight_norm", [False, True], ids=["plain", "normed"])
def test_clipping_rows_is_the_oracles(layer, spec, weight_norm):
    module = layer(M, SIZE, 2, matrix=spec, max_row_norm=0.8, weight_norm=weight_norm)
    randomised(module, 1.0)
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    passnet.clip_row_norms_(module)
    changed = set()
    for name, parameter in module.named_parameters():
        kind = name.rpartition(".")[2]
        if kind in ("input_weight", "weight", "expand", "project", "blocks"):
            rows = before[name].flatten(0, -2)
            truth = torch.from_numpy(oracle.clip_row_norms(numbers(rows), 0.8))
            plain = torch.renorm(rows, 2, 0, 0.8)
            assert_accurate(parameter.flatten(0, -2), reference=plain, truth=truth, name=name)
            short = rows.norm(dim=-1) < 0.79
            assert torch.equal(parameter.flatten(0, -2)[short], rows[short])
            changed.add(kind)
        else:
            assert torch.equal(parameter, before[name]), name
    assert "input_weight" in changed and len(changed) >= 2


def test_clipping_normalised_rows_changes_no_function():
    module = passnet.GRU(M, SIZE, matrix=passnet.LowRankPlusDiagonal(3), weight_norm=True)
    randomised(module, 2.0)
    exact = doubled(module)
    x = signed(T, B, M)
    before = module(x)[0]
    passnet.clip_row_norms_(module, 0.1)
    assert module.cells[0].input_weight.norm(dim=-1).max() < 0.11
    assert_accurate(module(x)[0], reference=before, truth=exact(x.double())[0])


def test_each_layer_has_its_own_limit():
    free = passnet.GRU(M, SIZE)
    strict = passnet.LSTM(M, SIZE, max_row_norm=0.5)
    highway = passnet.Highway(SIZE, matrix=passnet.LowRank(3), max_row_norm=0.25)
    stack = torch.nn.Sequential(strict, highway)
    module = torch.nn.ModuleList([free, stack, torch.nn.Linear(3, 3)])
    randomised(module, 3.0)
    before = {name: p.detach().clone() for name, p in module.named_parameters()}

    def check(name, limit):
        rows, got = before[name].flatten(0, -2), module.get_parameter(name).flatten(0, -2)
        truth = torch.from_numpy(oracle.clip_row_norms(numbers(rows), limit))
        assert_accurate(got, reference=torch.renorm(rows, 2, 0, limit), truth=truth, name=name)

    passnet.clip_row_norms_(module)
    for name in ("0.cells.0.recurrent.weight", "0.cells.0.input_weight", "2.weight"):
        assert torch.equal(module.get_parameter(name), before[name]), name
    for name in ("recurrent.weight", "input_weight"):
        check(f"1.0.cells.0.{name}", 0.5)
    for name in ("recurrent.expand", "recurrent.project"):
        check(f"1.1.cells.0.{name}", 0.25)
    passnet.clip_row_norms_(module, 0.1)
    check("0.cells.0.recurrent.weight", 0.1)
    check("0.cells.0.input_weight", 0.1)
    assert torch.equal(module.get_parameter("2.weight"), before["2.weight"])


def test_clipping_leaves_gradients_and_optimisers_working():
    module = passnet.GRU(M, SIZE, matrix=passnet.LowRank(2), max_row_norm=0.3)
    optimiser = torch.optim.SGD(module.parameters(), lr=1.0)
    for _ in range(3):
        optimiser.zero_grad()
        module(signed(T, B, M))[0].square().sum().backward()
        optimiser.step()
        passnet.clip_row_norms_(module)
        assert module.cells[0].recurrent.expand.norm(dim=-1).max() < 0.31
    assert all(p.requires_grad and p.is_leaf for p in module.parameters())


def test_rows_that_are_not_stored_are_refused_aloud():
    layer = passnet.GRU(3, 6, matrix=passnet.LowRank(2), max_row_norm=1.0)
    parametrize.register_parametrization(layer.cells[0].recurrent, "expand", nn.Identity())
    with pytest.raises(ValueError, match="expand is parametrised"):
        passnet.clip_row_norms_(layer)


@pytest.mark.parametrize("limit", [-1.0, 0.0, float("nan")])
def test_a_limit_that_no_row_could_keep_to_is_refused(limit):
    layer = passnet.GRU(3, 4)
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    with pytest.raises(ValueError, match=f"max_norm={limit}: give a positive number, or None"):
        passnet.clip_row_norms_(layer, limit)
    assert all(torch.equal(before[name], tensor) for name, tensor in layer.state_dict().items())
