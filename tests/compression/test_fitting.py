"""The nearest structured matrices against formulas and optimisers that share no code with them."""

from __future__ import annotations

import statistics
from itertools import pairwise

import numpy as np
import pytest
import torch

from passnet.compression import fitting
from passnet.compression.fitting import fit
from passnet.config.matrix import (
    BlockDiagonal,
    BlockDiagonalPlusLowRank,
    LowRank,
    LowRankPlusDiagonal,
)
from passnet.equations import STRUCTURES

N, GATES = 12, 3
SPECS = [
    LowRank(4),
    LowRank(4, tied=True),
    LowRankPlusDiagonal(3),
    LowRankPlusDiagonal(3, tied=True),
    BlockDiagonal(3),
    BlockDiagonalPlusLowRank(4, 2),
    BlockDiagonalPlusLowRank(4, 2, tied=True),
]
NAMES = {
    LowRank: "low_rank",
    LowRankPlusDiagonal: "low_rank_plus_diagonal",
    BlockDiagonal: "block_diagonal",
    BlockDiagonalPlusLowRank: "block_diagonal_plus_low_rank",
}


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def alike() -> torch.Tensor:
    return torch.eye(N, dtype=torch.float64).unsqueeze(0)


def uneven(gates: int = 1) -> torch.Tensor:
    """Second moments in which some directions count a thousand times as much as others."""
    mix = draw(gates, N, N, seed=9) * torch.logspace(0, -1.5, N, dtype=torch.float64)
    return mix @ mix.mT + 1e-3 * alike()


def written_out(spec, factors: dict[str, torch.Tensor]) -> torch.Tensor:
    structure = STRUCTURES[NAMES[type(spec)]]
    eye = torch.eye(N, dtype=torch.float64).unsqueeze(0)
    return structure.apply(eye, *[factors[name] for name in structure.factors]).mT


def loss(difference: torch.Tensor, moments: torch.Tensor) -> float:
    return float(torch.einsum("gij,gjk,gik->", difference, moments.expand(GATES, N, N), difference))


def factors_like(spec, seed: int) -> dict[str, torch.Tensor]:
    rank, tied = getattr(spec, "rank", 0), getattr(spec, "tied", False)
    found = {}
    if rank:
        found["expand"] = draw(GATES, N, rank, seed=seed)
        found["project"] = draw(1 if tied else GATES, rank, N, seed=seed + 1)
    if isinstance(spec, LowRankPlusDiagonal):
        found["diagonal"] = draw(GATES, N, seed=seed + 2)
    if isinstance(spec, BlockDiagonal | BlockDiagonalPlusLowRank):
        side = N // spec.blocks
        found["blocks"] = draw(GATES, spec.blocks, side, side, seed=seed + 3)
    return found


@pytest.mark.parametrize("moments", [alike(), uneven()], ids=["alike", "uneven"])
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_matrix_of_the_structure_is_found_again(spec, moments):
    weight = written_out(spec, factors_like(spec, seed=3))
    found = written_out(spec, fit(weight, spec, moments))
    assert loss(found - weight, moments) < 1e-4 * loss(weight, moments)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_factors_have_the_shapes_of_the_structure(spec):
    found, like = fit(draw(GATES, N, N), spec, alike()), factors_like(spec, seed=0)
    assert {k: v.shape for k, v in found.items()} == {k: v.shape for k, v in like.items()}


@pytest.mark.parametrize("moments", [alike(), uneven(), uneven(GATES)], ids=["1", "one", "each"])
def test_a_low_rank_alone_loses_the_smallest_singular_values(moments):
    weight = draw(GATES, N, N)
    found = fit(weight, LowRank(4), moments)
    lost = 0.0
    for gate, second in zip(weight, moments.expand(GATES, N, N), strict=True):
        values, vectors = np.linalg.eigh(second.numpy())
        root = vectors @ np.diag(np.sqrt(values)) @ vectors.T
        lost += float((np.linalg.svd(gate.numpy() @ root, compute_uv=False)[4:] ** 2).sum())
    assert loss(weight - written_out(LowRank(4), found), moments) == pytest.approx(lost, rel=1e-9)


@pytest.mark.parametrize("moments", [uneven(), uneven(GATES)], ids=["one", "each"])
def test_a_shared_projection_loses_those_of_all_gates_below_each_other(moments):
    weight, mean = draw(GATES, N, N), moments.mean(0, keepdim=True)
    found = written_out(LowRank(4, tied=True), fit(weight, LowRank(4, tied=True), moments))
    root = np.linalg.cholesky(mean[0].numpy())
    values = np.linalg.svd(weight.reshape(-1, N).numpy() @ root, compute_uv=False)
    assert loss(weight - found, mean) == pytest.approx(float((values[4:] ** 2).sum()), rel=1e-9)


@pytest.mark.parametrize("moments", [alike(), uneven()], ids=["alike", "uneven"])
@pytest.mark.parametrize("spec", SPECS[2:], ids=str)
def test_descent_finds_nothing_better_nearby_and_mostly_not_from_afar(spec, moments):
    """Of the several minima any will do that is like those of other starts. Rounds end on slopes
    as flat as 1e-6 a round, which in so small a problem may be some per cent above their foot."""
    weight = draw(GATES, N, N, seed=1)
    found = fit(weight, spec, moments)
    reached = loss(weight - written_out(spec, found), moments)
    assert reached < 1.1 * descended(weight, spec, moments, start=found)
    starts = [factors_like(spec, seed=seed) for seed in range(0, 20, 4)]
    others = [descended(weight, spec, moments, start=start) for start in starts]
    assert reached < 1.1 * statistics.median(others)


def descended(weight, spec, moments, *, start: dict[str, torch.Tensor]) -> float:
    factors = {name: value.clone().contiguous().requires_grad_() for name, value in start.items()}
    optimiser = torch.optim.LBFGS(factors.values(), max_iter=400, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        difference = weight - written_out(spec, factors)
        value = ((difference @ moments) * difference).sum()
        value.backward()
        return value

    optimiser.step(closure)
    return closure().item()


def test_of_both_starts_the_better_end_counts(monkeypatch):
    in_turns, ends = fitting._in_turns, []

    def noting(*given, **words):
        ends.append(in_turns(*given, **words))
        return ends[-1]

    monkeypatch.setattr(fitting, "_in_turns", noting)
    weight, moments, spec = draw(GATES, N, N, seed=2), uneven(), LowRankPlusDiagonal(3)
    found = loss(weight - written_out(spec, fit(weight, spec, moments)), moments)
    errors = sorted(end[0] for end in ends)
    assert len(errors) == 2 and errors[1] > 1.1 * errors[0]
    assert found == pytest.approx(errors[0], rel=1e-9)


@pytest.mark.parametrize("spec", [SPECS[2], SPECS[3], SPECS[5], SPECS[6]], ids=str)
def test_every_round_is_at_least_as_near(spec, monkeypatch):
    weight, moments, seen = draw(GATES, N, N, seed=5), uneven(), []
    for rounds in (1, 2, 4, 8, 16, 32):
        monkeypatch.setattr(fitting, "MOST_ROUNDS", rounds)
        seen.append(loss(weight - written_out(spec, fit(weight, spec, moments)), moments))
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(seen))
    assert seen[-1] < 0.999 * seen[0]


@pytest.mark.parametrize("spec", SPECS[:4], ids=str)
def test_both_factors_are_as_large(spec):
    found = fit(draw(GATES, N, N), spec, uneven())
    left, right = found["expand"], found["project"]
    tall = left.flatten(0, 1).unsqueeze(0) if spec.tied else left
    torch.testing.assert_close(tall.mT @ tall, right @ right.mT)
