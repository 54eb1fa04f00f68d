"""What every structured matrix must satisfy, judged against the dense matrix it stands for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from accuracy import assert_accurate
from oracle import matrices as oracle
from plain_loops import dense_matrices
from structures import SIZE, STRUCTURES

from passnet.config.matrix import MatrixSpec
from passnet.equations import STRUCTURES as EQUATIONS
from passnet.matrices.build import MATRICES, build_matrix

GATES = 3
each_structure = pytest.mark.parametrize("spec", STRUCTURES.values(), ids=STRUCTURES)
normed = pytest.mark.parametrize("weight_norm", [False, True], ids=["plain", "normed"])


def build(spec: MatrixSpec, *, dtype=torch.float32, weight_norm=False, gates=GATES):
    matrix = build_matrix(spec, SIZE, gates=gates, weight_norm=weight_norm, dtype=dtype)
    with torch.no_grad():
        for parameter in matrix.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    return matrix


def twins(spec, **options):
    """The same matrix in single and double precision."""
    single = build(spec, **options)
    double = build(spec, dtype=torch.float64, **options)
    double.load_state_dict(single.state_dict())
    return single, double


def written_out(matrix):
    factors = dict(zip(matrix.structure.factors, matrix.factors(), strict=True))
    return dense_matrices(matrix.structure.name, factors, matrix.gates)


def test_every_structure_is_examined():
    assert {type(spec) for spec in STRUCTURES.values()} == set(MATRICES)
    assert {build(spec).structure.name for spec in STRUCTURES.values()} == set(EQUATIONS)


@each_structure
def test_dense_is_the_oracles(spec):
    matrix = build(spec, dtype=torch.float64)
    factors = {name: value.detach().numpy() for name, value in matrix.named_parameters()}
    for gate in range(GATES):
        own = {name: value[gate % len(value)] for name, value in factors.items()}
        if "blocks" in own and "expand" in own:
            truth = oracle.block_diagonal_plus_low_rank(**_renamed(own))
        elif "blocks" in own:
            truth = oracle.block_diagonal(own["blocks"])
        elif "diagonal" in own:
            truth = oracle.low_rank_plus_diagonal(**_renamed(own))
        elif "expand" in own:
            truth = oracle.low_rank(**_renamed(own))
        else:
            truth = own["weight"]
        assert_accurate(
            matrix.gate(gate).dense(),
            reference=written_out(matrix)[gate],
            truth=torch.from_numpy(np.asarray(truth)),
        )


@each_structure
@normed
def test_a_matrix_is_written_out_in_its_own_precision(spec, weight_norm):
    gate = build(spec, weight_norm=weight_norm).gate(1)
    with torch.autocast("cpu", torch.bfloat16):
        found = gate.dense()
    assert torch.equal(found, gate.dense())


@torch.no_grad()
def test_a_dense_matrix_is_written_out_as_a_copy_of_its_numbers():
    matrix = build(STRUCTURES["dense"])
    matrix.weight[1, 2, 3] = torch.inf  # a product would spread it
    found = matrix.gate(1).dense()
    assert torch.equal(found, matrix.weight[1])
    found.zero_()
    assert matrix.weight[1].any()


def _renamed(factors):
    names = {"expand": "left", "project": "right"}
    return {names.get(name, name): value for name, value in factors.items()}


@each_structure
@normed
def test_product_with_vectors_of_any_leading_shape(spec, weight_norm):
    single, double = twins(spec, weight_norm=weight_norm)
    for lead in ((), (5,), (2, 3), (1, 1, 4)):
        x = torch.randn(*lead, SIZE)
        reference, truth = written_out(single), written_out(double)
        assert single(x).shape == (GATES, *x.shape)
        for gate in range(GATES):
            expected = {"reference": x @ reference[gate].mT, "truth": x.double() @ truth[gate].mT}
            assert_accurate(single(x)[gate], **expected)
            assert_accurate(single.gate(gate)(x), **expected)


@each_structure
@normed
def test_transpose(spec, weight_norm):
    single, double = twins(spec, weight_norm=weight_norm)
    for lead in ((), (5,), (2, 3)):
        y = torch.randn(*lead, SIZE)
        for gate in range(GATES):
            assert_accurate(
                single.gate(gate).transpose(y),
                reference=y @ written_out(single)[gate],
                truth=y.double() @ written_out(double)[gate],
            )


@each_structure
@pytest.mark.parametrize("rows_of_each_gate", [False, True])
def test_equations_of_the_structure(spec, rows_of_each_gate):
    """Product, both transposes and every factor's gradient, from raw factors."""
    single, double = twins(spec)
    stack = GATES if rows_of_each_gate else 1
    x, grad = torch.randn(stack, 5, SIZE), torch.randn(GATES, 5, SIZE)
    structure = single.structure

    def plain(matrix, dtype):
        dense = written_out(matrix)
        rows, upper = x.to(dtype), grad.to(dtype)
        products = torch.einsum("gij,grj->gri", dense, rows.expand(GATES, -1, -1))
        back = torch.einsum("gij,gri->grj", dense, upper)
        grads = torch.autograd.grad(products, matrix.factors(), upper)
        return products, back, back.sum(0), *grads

    factors = single.factors()
    ours = (
        structure.apply(x, *factors),
        structure.transpose(grad, *factors),
        structure.transpose_sum(grad, *factors),
        *structure.gradients(x, grad, *factors),
    )
    everything = zip(ours, plain(single, torch.float32), plain(double, torch.float64), strict=True)
    for got, reference, truth in everything:
        assert_accurate(got, reference=reference, truth=truth)


@each_structure
def test_autograd_reaches_every_factor_through_a_gate(spec):
    matrix = build(spec, dtype=torch.float64)
    x = torch.randn(4, SIZE, dtype=torch.float64)
    matrix.gate(1)(x).square().sum().backward()
    for name, parameter in matrix.named_parameters():
        reached = parameter.grad.abs().flatten(1).sum(1)
        shared = parameter.shape[0] == 1
        assert (reached > 0).tolist() == ([True] if shared else [False, True, False]), name


@each_structure
@pytest.mark.parametrize("gates", [2, 3, 4])
def test_number_of_parameters_is_the_closed_form(spec, gates):
    assert sum(p.numel() for p in build(spec, gates=gates).parameters()) == spec.count(SIZE, gates)


@each_structure
def test_tied_gates_share_one_projection(spec):
    matrix = build(spec)
    tied = getattr(spec, "tied", False)
    assert matrix.masks_needed == (1 if tied else GATES)
    if "project" in matrix.structure.factors:
        first, second = (matrix.gate(g).factors["project"] for g in (0, 1))
        assert torch.equal(first, second) == tied
        left = [matrix.gate(g).factors["expand"] for g in (0, 1)]
        assert not torch.equal(*left)


@each_structure
def test_halves_meet_in_the_bottleneck(spec):
    matrix = build(spec)
    if hasattr(matrix, "projected"):
        double = build(spec, dtype=torch.float64)
        double.load_state_dict(matrix.state_dict())
        for x in (torch.randn(GATES, 4, SIZE), torch.randn(1, 4, SIZE)):
            z = matrix.projected(x).expand(GATES, -1, -1)
            assert z.shape == (GATES, 4, spec.rank)
            whole = matrix.expanded(z, x)
            for gate, rows in enumerate(x.expand(GATES, -1, -1)):
                assert_accurate(
                    whole[gate],
                    reference=rows @ written_out(matrix)[gate].mT,
                    truth=rows.double() @ written_out(double)[gate].mT,
                )
    else:
        assert "expand" not in matrix.structure.factors or "blocks" in matrix.structure.factors


@each_structure
def test_a_value_describes_itself_and_compares_by_content(spec):
    assert type(spec)(**vars(spec)) == spec
    assert hash(type(spec)(**vars(spec))) == hash(spec)
    assert build(spec).spec == spec
    assert spec.describe() in repr(build(spec))
