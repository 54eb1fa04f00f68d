"""Every named scheme's starting values, factor by factor, and what carry biases start at."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from accuracy import assert_accurate
from chances import assert_normal, assert_uniform
from torch import nn

import passnet
from passnet.config.initialisation import INITIALISATIONS

N, M, D = 48, 20, 12
SPECS = {
    "dense": passnet.Dense(),
    "low-rank": passnet.LowRank(D),
    "diagonal": passnet.LowRankPlusDiagonal(D),
    "diagonal tied": passnet.LowRankPlusDiagonal(D, tied=True),
    "blocks and rank": passnet.BlockDiagonalPlusLowRank(4, D),
}
each_spec = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
each_layer = pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])


def parameters_of(layer, spec, init, **options):
    """(input matrices, {factor: tensor}, biases) of a fresh layer."""
    module = layer(M, N, matrix=spec, init=init, **options)
    cell = module.cells[0]
    return cell.input_weight, dict(cell.recurrent.named_parameters()), cell.bias


def glorot(tensor) -> float:
    return math.sqrt(6 / sum(tensor.shape[-2:]))


def assert_orthonormal(stack: torch.Tensor, *, by_svd: bool = False) -> None:
    """Rows or columns, whichever are fewer, as orthonormal as torch.nn.init makes them.

    `by_svd` allows for what a singular value decomposition then makes of it.
    """
    for matrix in stack.detach().flatten(0, -3):
        tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.mT
        other = nn.init.orthogonal_(torch.empty_like(tall))
        if by_svd:
            square = nn.init.orthogonal_(torch.empty(len(tall), len(tall), dtype=tall.dtype))
            left, values, _ = torch.linalg.svd(square)
            other = (left * values.sqrt())[:, : tall.shape[1]]
        eye = torch.eye(tall.shape[1], dtype=torch.float64)
        assert_accurate(tall.mT @ tall, reference=other.mT @ other, truth=eye)


@each_layer
@each_spec
def test_glorot_by_each_factors_own_shape(layer, spec):
    inputs, factors, bias = parameters_of(layer, spec, "glorot")
    diagonal = factors.pop("diagonal", None)
    for tensor in (inputs, *factors.values()):
        assert_uniform(tensor, glorot(tensor))
    if diagonal is not None:
        assert_uniform(diagonal, 0.01)
    assert torch.equal(bias, torch.zeros_like(bias))


def test_glorot_is_the_default():
    torch.manual_seed(2)
    chosen = passnet.GRU(M, N, init="glorot").state_dict()
    torch.manual_seed(2)
    for name, tensor in passnet.GRU(M, N).state_dict().items():
        assert torch.equal(tensor, chosen[name])


@each_layer
@each_spec
def test_orthogonal_squares_and_small_normal_factors(layer, spec):
    inputs, factors, bias = parameters_of(layer, spec, "orthogonal-normal")
    assert_normal(inputs, 0.01)
    for name, tensor in factors.items():
        if name == "diagonal":
            assert_uniform(tensor, 0.01)
        elif tensor.shape[-1] == tensor.shape[-2]:
            assert_orthonormal(tensor)
        else:
            assert_normal(tensor, 0.01)
    assert torch.equal(bias, torch.zeros_like(bias))


@each_layer
@each_spec
@pytest.mark.parametrize(("init", "bound"), [("uniform", 0.04), ("torch", 1 / math.sqrt(N))])
def test_uniform_everywhere(layer, spec, init, bound):
    inputs, factors, bias = parameters_of(layer, spec, init)
    biases = () if init == "torch" else (bias,)  # sums of two, below
    for tensor in (inputs, *biases, *factors.values()):
        assert_uniform(tensor, bound)


def test_torch_scheme_is_torchs():
    ours, theirs = passnet.GRU(M, N, init="torch"), nn.GRU(M, N)
    for tensor in (ours.cells[0].input_weight, ours.cells[0].inner_bias, theirs.weight_ih_l0):
        assert_uniform(tensor, 1 / math.sqrt(N))


@each_layer
@each_spec
def test_balanced_factors_are_semi_orthogonal(layer, spec):
    inputs, factors, bias = parameters_of(layer, spec, "balanced")
    assert_uniform(inputs, glorot(inputs))
    diagonal = factors.pop("diagonal", None)
    for tensor in factors.values():
        assert_orthonormal(tensor)
    if diagonal is not None:
        assert_uniform(diagonal, 0.01)
    assert torch.equal(bias, torch.zeros_like(bias))


@pytest.mark.parametrize("n", [8, 32, 128])
@pytest.mark.parametrize("rank", [1, 4, 8])
def test_balanced_gain_does_not_depend_on_the_size(n, rank):
    """Every singular value of L R that is not zero is one."""
    matrix = passnet.GRU(2, n, matrix=passnet.LowRank(rank), init="balanced").recurrent_matrix(
        "carry"
    )
    values = torch.linalg.svdvals(matrix.dense().detach())[:rank]
    peer = nn.init.orthogonal_(torch.empty(n, n))
    assert_accurate(
        values,
        reference=torch.linalg.svdvals(peer)[:rank],
        truth=torch.ones(rank, dtype=torch.float64),
    )


@pytest.mark.parametrize("keep", [1.0, 0.7])
@pytest.mark.parametrize("tied", [False, True])
def test_quasi_orthogonal(keep, tied):
    """A truncated orthogonal matrix, its diagonal mended, all divided by the share kept."""
    n, d = N, D
    module = passnet.Highway(
        n,
        matrix=passnet.LowRankPlusDiagonal(d, tied=tied),
        init="quasi-orthogonal",
        dropout_bottleneck=1 - keep,
        dtype=torch.float64,
    )
    factors = module.cells[0].recurrent
    left, right = factors.expand.detach() * keep, factors.project.detach() * keep
    assert_orthonormal(right.float(), by_svd=True)
    assert_orthonormal(left.float(), by_svd=True)
    # L R is an orthogonal projection of an orthogonal Q onto d directions, so Q - L R has norm
    # sqrt(n - d) and the fitted diagonal is that rest's: it lies within the unit interval and
    # brings the sum nearer to orthogonal.
    for gate in range(1 if tied else 2):
        low = left[gate] @ right[gate]
        diagonal = factors.diagonal.detach()[gate] * keep
        whole = low + torch.diag(diagonal)
        eye = torch.eye(n, dtype=torch.float64)
        assert 0.01 < diagonal.abs().max() <= 1
        assert (whole.mT @ whole - eye).norm() < (low.mT @ low - eye).norm()


@each_layer
@each_spec
def test_quasi_orthogonal_recurrent_layers(layer, spec):
    inputs, factors, bias = parameters_of(layer, spec, "quasi-orthogonal")
    assert_uniform(inputs, glorot(inputs))
    diagonal = factors.pop("diagonal", None)
    for tensor in factors.values():
        assert_orthonormal(tensor, by_svd=True)
    if diagonal is not None:
        assert diagonal.abs().max() > 0.01
    assert torch.equal(bias, torch.zeros_like(bias))


def test_highway_starts_closed():
    module = passnet.Highway(N, 2, matrix=passnet.LowRankPlusDiagonal(D))
    for cell in module.cells:
        assert torch.equal(cell.bias[0], torch.zeros(N))
        assert torch.equal(cell.bias[1], torch.full((N,), -1.0))
        assert_uniform(cell.recurrent.expand, glorot(cell.recurrent.expand))
        assert_uniform(cell.recurrent.diagonal, 0.01)


@each_layer
@pytest.mark.parametrize("init", INITIALISATIONS)
def test_carry_bias_replaces_only_its_own_gate(layer, init):
    vector = torch.linspace(-1, 3, N)
    for value in (4.0, 5, torch.tensor(2.5), vector):
        torch.manual_seed(1)
        bare = parameters_of(layer, passnet.Dense(), init)[2]
        torch.manual_seed(1)
        bias = parameters_of(layer, passnet.Dense(), init, carry_bias=value)[2]
        expected = torch.as_tensor(value, dtype=torch.float32).expand(N)
        assert torch.equal(bias[1], expected)
        for gate in (0, *range(2, len(bias))):
            assert torch.equal(bias[gate], bare[gate])


def test_carry_bias_reaches_every_layer_and_direction():
    module = passnet.GRU(M, N, 2, bidirectional=True, carry_bias=4.0)
    for cell in module.cells:
        assert torch.equal(cell.bias[1], torch.full((N,), 4.0))


@each_layer
def test_chrono_spreads_over_time_scales(layer):
    n, t_max = 2000, 101
    module = layer(1, n, matrix=passnet.LowRank(1), carry_bias=passnet.Chrono(t_max))
    bias = module.cells[0].bias.detach()
    scales = bias[1].exp()
    assert_uniform(scales - t_max / 2, (t_max - 2) / 2 * (1 + 1e-5))
    if layer is passnet.LSTM:
        assert torch.equal(bias[0], -bias[1])
    else:
        assert torch.equal(bias[0], torch.zeros(n))
    assert torch.equal(bias[2:], torch.zeros_like(bias[2:]))


@each_layer
def test_learned_starts_begin_at_zero_and_are_used(layer):
    module = layer(M, N, 2, learn_initial_state=True, bidirectional=True)
    starts = [module.initial_hidden, *([module.initial_cell] if layer is passnet.LSTM else [])]
    for start in starts:
        assert start.shape == (4, N) and torch.equal(start, torch.zeros_like(start))
    x = torch.randn(3, 2, M)
    before = module(x)[0]
    zeros = [torch.zeros(4, 2, N) for _ in starts]
    assert torch.equal(before, module(x, tuple(zeros) if len(zeros) == 2 else zeros[0])[0])
    with torch.no_grad():
        starts[-1].fill_(0.5)
    after = module(x)[0]
    assert not torch.equal(before, after)
    after.sum().backward()
    assert all((start.grad != 0).all() for start in starts)


@pytest.mark.parametrize(
    "make",
    [
        lambda: passnet.GRU(
            M, N, matrix=passnet.LowRankPlusDiagonal(D), carry_bias=passnet.Chrono(9)
        ),
        lambda: passnet.LSTM(M, N, init="balanced", weight_norm=True),
        lambda: passnet.Highway(
            N, 2, matrix=passnet.LowRankPlusDiagonal(D), init="quasi-orthogonal"
        ),
        lambda: passnet.UnitaryRNN(M, N),
    ],
)
def test_randomness_is_an_argument(make):
    """A generator decides everything; the global one is not touched."""
    module = make()
    snapshots, state = [], torch.get_rng_state()
    for seed in (3, 3, 4):
        module.reset_parameters(torch.Generator().manual_seed(seed))
        snapshots.append({k: v.clone() for k, v in module.state_dict().items()})
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(snapshots[0][k], snapshots[1][k]) for k in snapshots[0])
    assert any(not torch.equal(snapshots[0][k], snapshots[2][k]) for k in snapshots[0])


def test_unitary_start():
    cell = passnet.UnitaryRNN(M, 400).cell
    assert_uniform(cell.angles, math.pi)
    assert_uniform(cell.reflections, 1.0)
    assert_uniform(cell.input_weight, math.sqrt(6 / (M + 400)))
    assert_uniform(cell.modulus_bias, 0.01)
    assert_uniform(cell.initial_state, math.sqrt(3 / (2 * 400)))
    assert torch.equal(cell.permutation.sort().values, torch.arange(400))


def test_all_start_anew_by_the_usual_idiom():
    """As between folds, or behind a meta device: whoever can is told to."""
    layers = passnet.GRU(M, N), passnet.LSTM(M, N), passnet.UnitaryRNN(M, N)
    net = torch.nn.ModuleList([*layers, passnet.Highway(N, batch_norm=True)])
    with torch.no_grad():
        for tensor in net.state_dict().values():
            tensor.zero_()

    def start(module):
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()

    net.apply(start)
    assert all(layer.state_dict()[name].any() for layer in layers for name in weights(layer))


def weights(layer) -> list[str]:
    return [name for name, tensor in layer.named_parameters() if tensor.dim() > 2]


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_biases_start_as_the_sums_of_torch(kind):
    """Where torch adds two, uniform ones, ours is spread like their sum."""
    torch.manual_seed(0)
    ours = getattr(passnet, kind)(M, 4000, init="torch", matrix=passnet.LowRank(1))
    bound = 1 / math.sqrt(4000)
    bias = ours.cells[0].bias
    assert bias.abs().max() < 2 * bound
    assert bias.std().item() == pytest.approx(bound * math.sqrt(2 / 3), rel=0.05)
    dense = passnet.GRU(M, 400, init="torch").cells[0]
    bound = 1 / math.sqrt(400)
    assert bound < dense.bias[:2].abs().max() < 2 * bound
    assert max(dense.bias[2].abs().max(), dense.inner_bias.abs().max()) < bound


@pytest.mark.parametrize("init", ["balanced", "quasi-orthogonal", "orthogonal-normal"])
def test_starts_where_half_precision_is_usual(init):
    torch.set_default_dtype(torch.bfloat16)
    try:
        layer = passnet.GRU(M, N, matrix=passnet.LowRankPlusDiagonal(D), init=init)
    finally:
        torch.set_default_dtype(torch.float32)
    assert layer.cells[0].bias.dtype == torch.bfloat16


def test_a_vector_of_carry_biases_is_copied():
    given = torch.full((N,), 2.0, requires_grad=True)
    layer = passnet.GRU(M, N, carry_bias=given * 1)
    with torch.no_grad():
        given.zero_()
    copy.deepcopy(layer).reset_parameters()
    assert torch.equal(layer.cells[0].bias[1], torch.full((N,), 2.0))
    with pytest.raises(TypeError, match=rf"carry_bias=\[1\]: give a number, a vector of {N}"):
        passnet.GRU(M, N, carry_bias=[1])


FRESH = {
    "GRU": lambda **place: passnet.GRU(M, N, carry_bias=passnet.Chrono(9), **place),
    "LSTM": lambda **place: passnet.LSTM(M, N, matrix=SPECS["diagonal"], **place),
    "quasi-orthogonal": lambda **place: passnet.GRU(
        M, N, matrix=SPECS["diagonal tied"], init="quasi-orthogonal", **place
    ),
    "Highway": lambda **place: passnet.Highway(N, batch_norm=True, **place),
    "uRNN": lambda **place: passnet.UnitaryRNN(M, N, **place),
}


@pytest.mark.parametrize("kind", FRESH)
def test_a_seed_draws_the_same_whatever_the_default_device(kind):
    layer = FRESH[kind]()
    layer.reset_parameters(torch.Generator().manual_seed(7))
    expected = {name: value.clone() for name, value in layer.state_dict().items()}
    layer.reset_parameters()
    with torch.device("meta"):
        layer.reset_parameters(torch.Generator("cpu").manual_seed(7))
    assert all(torch.equal(value, expected[name]) for name, value in layer.state_dict().items())


@pytest.mark.parametrize("kind", FRESH)
def test_nothing_is_drawn_for_the_meta_device(kind):
    """What a large model is put there for."""
    before = torch.get_rng_state()
    assert next(FRESH[kind](device="meta").parameters()).is_meta
    with torch.device("meta"):
        FRESH[kind]()
    assert torch.equal(torch.get_rng_state(), before)
