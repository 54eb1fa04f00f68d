"""Checks of the oracle itself against facts which need no implementation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oracle import counts, gru, highway, lstm, matrices, optimisers, perplexity, urnn


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def gates_of(names, rng, n, m):
    u = {name: rng.normal(size=(n, m)) for name in names}
    w = {name: rng.normal(size=(n, n)) for name in names}
    b = {name: rng.normal(size=n) for name in names}
    return u, w, b


def test_gru_hand_case():
    zero = {gate: [[0.0]] for gate in gru.GATES}
    biases = {"reset": [0.0], "carry": [math.log(3.0)], "candidate": [0.5]}
    w = dict(zero, candidate=[[2.0]])
    # Reset 1/2, carry 3/4: the candidate is tanh(0.5 + 2 * 0.4 / 2) for either order of the reset.
    expected = 0.25 * math.tanh(0.9) + 0.75 * 0.4
    for reset in ("before", "after"):
        states = gru.gru([[[1.0]]], [[0.4]], zero, w, biases, reset=reset)
        assert states[0][0][0] == pytest.approx(expected, abs=1e-15)
    # The inner bias is halved by the reset gate, the outer one is not.
    states = gru.gru([[[1.0]]], [[0.4]], zero, w, biases, reset="after", inner_bias=[0.2])
    assert states[0][0][0] == pytest.approx(0.25 * math.tanh(1.0) + 0.3, abs=1e-15)


def test_gru_saturated_carry_keeps_state(rng):
    u, w, b = gates_of(gru.GATES, rng, 4, 3)
    b["carry"] = np.full(4, 1e4)
    initial = rng.normal(size=(2, 4))
    for reset in ("before", "after"):
        states = gru.gru(rng.normal(size=(5, 2, 3)), initial, u, w, b, reset=reset)
        for t in range(5):
            np.testing.assert_array_equal(states[t], initial)


def test_gru_reset_orders_meet_at_a_gate_of_ones_and_only_there(rng):
    u, w, b = gates_of(gru.GATES, rng, 4, 3)
    inputs, initial = rng.normal(size=(5, 2, 3)), rng.normal(size=(2, 4))
    masks = {gate: rng.integers(0, 2, size=(2, 4)) * 2.0 for gate in gru.GATES}
    for state_masks in (None, masks):
        before = gru.gru(inputs, initial, u, w, b, "before", state_masks=state_masks)
        after = gru.gru(inputs, initial, u, w, b, "after", state_masks=state_masks)
        assert np.abs(before - after).max() > 1e-3
        open_reset = dict(b, reset=np.full(4, 1e4))
        before = gru.gru(inputs, initial, u, w, open_reset, "before", state_masks=state_masks)
        after = gru.gru(inputs, initial, u, w, open_reset, "after", state_masks=state_masks)
        np.testing.assert_allclose(before, after, rtol=0, atol=1e-14)


def test_gru_hold(rng):
    u, w, b = gates_of(gru.GATES, rng, 4, 3)
    inputs, initial = rng.normal(size=(3, 2, 3)), rng.normal(size=(2, 4))
    free = gru.gru(inputs, initial, u, w, b)
    np.testing.assert_array_equal(gru.gru(inputs, initial, u, w, b, hold=np.zeros((3, 2, 4))), free)
    kept = gru.gru(inputs, initial, u, w, b, hold=np.ones((3, 2, 4)))
    for t in range(3):
        np.testing.assert_array_equal(kept[t], initial)
    half = gru.gru(inputs, initial, u, w, b, hold=np.full((3, 2, 4), 0.25))
    np.testing.assert_allclose(half[0], 0.25 * initial + 0.75 * free[0], rtol=0, atol=1e-15)


def test_gru_zero_masks_leave_the_carry_path(rng):
    u, w, b = gates_of(gru.GATES, rng, 4, 3)
    inputs, initial = rng.normal(size=(1, 2, 3)), rng.normal(size=(2, 4))
    closed = {gate: np.zeros((2, 4)) for gate in gru.GATES}
    no_recurrence = {gate: np.zeros((4, 4)) for gate in gru.GATES}
    for reset in ("before", "after"):
        masked = gru.gru(inputs, initial, u, w, b, reset=reset, state_masks=closed)
        bare = gru.gru(inputs, initial, u, no_recurrence, b, reset=reset)
        np.testing.assert_allclose(masked, bare, rtol=0, atol=1e-15)


def test_gru_mask_reaches_its_own_gate_only(rng):
    u, w, b = gates_of(gru.GATES, rng, 4, 3)
    inputs, initial = rng.normal(size=(1, 2, 3)), rng.normal(size=(2, 4))
    for gate in gru.GATES:
        masked = gru.gru(inputs, initial, u, w, b, state_masks={gate: np.zeros((2, 4))})
        bare = gru.gru(inputs, initial, u, dict(w, **{gate: np.zeros((4, 4))}), b)
        np.testing.assert_allclose(masked, bare, rtol=0, atol=1e-15)


def test_gru_refuses_what_does_not_exist():
    with pytest.raises(ValueError, match="reset"):
        gru.gru([], [], {}, {}, {}, reset="during")
    with pytest.raises(ValueError, match="inner bias"):
        gru.gru([], [], {}, {}, {}, reset="before", inner_bias=[0.0])


def test_lstm_hand_case():
    zero = {gate: [[0.0]] for gate in lstm.GATES}
    biases = {
        "transform": [math.log(3.0)],
        "carry": [0.0],
        "candidate": [0.3],
        "output": [-math.log(3.0)],
    }
    w = dict(zero, candidate=[[1.0]])
    hidden, cells = lstm.lstm([[[1.0]]], [[0.2]], [[0.8]], zero, w, biases)
    cell = 0.75 * math.tanh(0.5) + 0.5 * 0.8
    assert cells[0][0][0] == pytest.approx(cell, abs=1e-15)
    assert hidden[0][0][0] == pytest.approx(0.25 * math.tanh(cell), abs=1e-15)


def test_lstm_closed_transform_and_open_carry_keep_the_cell(rng):
    u, w, b = gates_of(lstm.GATES, rng, 4, 3)
    b["transform"], b["carry"] = np.full(4, -1e4), np.full(4, 1e4)
    cell = rng.normal(size=(2, 4))
    _, cells = lstm.lstm(rng.normal(size=(5, 2, 3)), rng.normal(size=(2, 4)), cell, u, w, b)
    for t in range(5):
        np.testing.assert_array_equal(cells[t], cell)


def test_lstm_holds_are_independent(rng):
    u, w, b = gates_of(lstm.GATES, rng, 4, 3)
    inputs = rng.normal(size=(1, 2, 3))
    hidden, cell = rng.normal(size=(2, 4)), rng.normal(size=(2, 4))
    free = lstm.lstm(inputs, hidden, cell, u, w, b)
    ones = np.ones((1, 2, 4))
    held = lstm.lstm(inputs, hidden, cell, u, w, b, hold=ones)
    np.testing.assert_array_equal(held[0][0], hidden)
    np.testing.assert_array_equal(held[1], free[1])
    held = lstm.lstm(inputs, hidden, cell, u, w, b, hold_cell=ones)
    np.testing.assert_array_equal(held[0], free[0])
    np.testing.assert_array_equal(held[1][0], cell)


def test_lstm_mask_reaches_its_own_gate_only(rng):
    u, w, b = gates_of(lstm.GATES, rng, 4, 3)
    inputs = rng.normal(size=(1, 2, 3))
    hidden, cell = rng.normal(size=(2, 4)), rng.normal(size=(2, 4))
    for gate in lstm.GATES:
        masked = lstm.lstm(inputs, hidden, cell, u, w, b, state_masks={gate: np.zeros((2, 4))})
        bare = lstm.lstm(inputs, hidden, cell, u, dict(w, **{gate: np.zeros((4, 4))}), b)
        np.testing.assert_allclose(masked, bare, rtol=0, atol=1e-15)


def test_structured_matrices(rng):
    left, right, diagonal = rng.normal(size=(6, 2)), rng.normal(size=(2, 6)), rng.normal(size=6)
    blocks = rng.normal(size=(3, 2, 2))
    dense = matrices.low_rank(left, right)
    np.testing.assert_allclose(dense, left @ right, rtol=0, atol=1e-14)
    assert np.linalg.matrix_rank(dense) == 2
    plus = matrices.low_rank_plus_diagonal(left, right, diagonal)
    np.testing.assert_allclose(plus - dense, np.diag(diagonal), rtol=0, atol=1e-14)
    block = matrices.block_diagonal(blocks)
    for q in range(3):
        np.testing.assert_array_equal(block[2 * q : 2 * q + 2, 2 * q : 2 * q + 2], blocks[q])
    assert np.count_nonzero(block) == blocks.size
    both = matrices.block_diagonal_plus_low_rank(blocks, left, right)
    np.testing.assert_allclose(both - block, dense, rtol=0, atol=1e-14)
    np.testing.assert_allclose(
        matrices.block_diagonal_plus_low_rank(diagonal.reshape(6, 1, 1), left, right), plus
    )


def test_row_norms():
    rows = [[3.0, 4.0], [0.0, 2.0]]
    np.testing.assert_allclose(matrices.weight_norm(rows), [[0.6, 0.8], [0.0, 1.0]], rtol=1e-14)
    np.testing.assert_allclose(
        matrices.weight_norm(rows, [10.0, -3.0]), [[6.0, 8.0], [0.0, -3.0]], rtol=1e-14
    )
    np.testing.assert_allclose(
        matrices.clip_row_norms(rows, 2.5), [[1.5, 2.0], [0.0, 2.0]], rtol=1e-14
    )
    np.testing.assert_array_equal(matrices.clip_row_norms([[0.0, 0.0]], 1.0), [[0.0, 0.0]])


def test_batch_norm_epsilon_is_added_to_the_deviation():
    values = [[1.0, 5.0], [3.0, 5.0]]
    normalised, (mean, deviation) = highway.batch_norm(values, [2.0, 2.0], [0.5, 0.5])
    np.testing.assert_allclose(mean, [2.0, 5.0], rtol=1e-14)
    np.testing.assert_allclose(deviation, [1.0, 0.0], rtol=1e-14)
    step = 2.0 / 1.0001
    np.testing.assert_allclose(normalised, [[0.5 - step, 0.5], [0.5 + step, 0.5]], rtol=1e-14)
    again, _ = highway.batch_norm(values, [2.0, 2.0], [0.5, 0.5], running=(mean, deviation))
    np.testing.assert_array_equal(again, normalised)
    running = highway.update_running(([0.0, 0.0], [1.0, 1.0]), (mean, deviation))
    np.testing.assert_allclose(running, [[0.2, 0.5], [1.0, 0.9]], rtol=1e-14)


def lrd_gates(rng, n, d):
    return {
        gate: highway.HighwayGate(
            left=rng.normal(size=(n, d)),
            right=rng.normal(size=(d, n)),
            diagonal=rng.normal(size=n),
            scale=rng.normal(size=n),
            shift=rng.normal(size=n),
        )
        for gate in highway.GATES
    }


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_highway_without_normalisation_is_its_dense_form(rng, activation):
    gates = lrd_gates(rng, 5, 2)
    dense = {
        name: highway.HighwayGate(
            left=matrices.low_rank_plus_diagonal(gate.left, gate.right, gate.diagonal),
            shift=gate.shift,
        )
        for name, gate in gates.items()
    }
    x = rng.normal(size=(3, 5))
    masks = {gate: rng.integers(0, 2, size=(3, 5)) / 0.7 for gate in highway.GATES}
    ours, statistics = highway.highway_layer(x, gates, activation, masks, normalise=False)
    theirs, _ = highway.highway_layer(x, dense, activation, masks, normalise=False)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-13)
    assert statistics == {"candidate": {}, "transform": {}}

    def total(gate):
        return (x * masks[gate]) @ dense[gate].left.T + dense[gate].shift

    activate = np.tanh if activation == "tanh" else lambda values: np.maximum(values, 0.0)
    proposal = activate(total("candidate"))
    transform = 1 / (1 + np.exp(-total("transform")))
    np.testing.assert_allclose(ours, proposal * transform + x * (1 - transform), rtol=0, atol=1e-13)


def test_highway_order_of_operations(rng):
    gates = lrd_gates(rng, 5, 2)
    x = rng.normal(size=(4, 5))
    masks = {gate: rng.integers(0, 2, size=(4, 5)) / 0.7 for gate in highway.GATES}
    bottleneck = {gate: rng.integers(0, 2, size=(4, 2)) / 0.7 for gate in highway.GATES}

    def normal(values):
        return (values - values.mean(axis=0)) / (values.std(axis=0) + 1e-4)

    totals = {}
    for name, gate in gates.items():
        dropped = x * masks[name]
        squeezed = normal(dropped @ gate.right.T) * bottleneck[name]
        mixed = squeezed @ gate.left.T + dropped * gate.diagonal
        totals[name] = normal(mixed) * gate.scale + gate.shift
    transform = 1.0 / (1.0 + np.exp(-totals["transform"]))
    expected = np.maximum(totals["candidate"], 0.0) * transform + x * (1.0 - transform)
    outputs, _ = highway.highway_layer(x, gates, "relu", masks, bottleneck)
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-12)


def test_highway_evaluation_with_the_batch_statistics_is_training(rng):
    gates = lrd_gates(rng, 5, 2)
    x = rng.normal(size=(4, 5))
    bottleneck = {gate: rng.integers(0, 2, size=(4, 2)) / 0.7 for gate in highway.GATES}
    training, used = highway.highway_layer(x, gates, bottleneck_masks=bottleneck)
    evaluation, same = highway.highway_layer(x, gates, bottleneck_masks=bottleneck, running=used)
    np.testing.assert_allclose(training, evaluation, rtol=0, atol=1e-14)
    for gate in highway.GATES:
        assert set(used[gate]) == {"bottleneck", "output"}
        np.testing.assert_array_equal(used[gate]["output"], same[gate]["output"])


def test_highway_closed_transform_passes_the_undropped_input(rng):
    gates = lrd_gates(rng, 5, 2)
    closed = highway.HighwayGate(
        left=gates["transform"].left, right=gates["transform"].right, shift=np.full(5, -1e4)
    )
    x = rng.normal(size=(4, 5))
    masks = {gate: np.zeros((4, 5)) for gate in highway.GATES}
    outputs, _ = highway.highway_layer(x, dict(gates, transform=closed), state_masks=masks)
    np.testing.assert_array_equal(outputs, x)


def urnn_parameters(rng, n):
    thetas = rng.uniform(-math.pi, math.pi, size=(3, n))
    reflections = rng.normal(size=(2, n)) + 1j * rng.normal(size=(2, n))
    return thetas, reflections, rng.permutation(n)


@pytest.mark.parametrize("n", [1, 5, 8])
def test_urnn_matrix_is_unitary(rng, n):
    dense = urnn.unitary_matrix(*urnn_parameters(rng, n))
    np.testing.assert_allclose(dense @ dense.conj().T, np.eye(n), rtol=0, atol=1e-13)


def test_urnn_factors(rng):
    z = rng.normal(size=6) + 1j * rng.normal(size=6)
    np.testing.assert_allclose(urnn.fourier(z), np.fft.fft(z, norm="ortho"), rtol=0, atol=1e-13)
    np.testing.assert_allclose(
        urnn.inverse_fourier(z), np.fft.ifft(z, norm="ortho"), rtol=0, atol=1e-13
    )
    np.testing.assert_allclose(urnn.reflect(z, z), -z, rtol=0, atol=1e-13)
    np.testing.assert_allclose(urnn.reflect(1j * z, urnn.reflect(z, z)), z, rtol=0, atol=1e-13)
    assert urnn.permute([2, 0, 1], [10, 11, 12]) == [12, 10, 11]


def test_urnn_factor_order(rng):
    thetas, reflections, permutation = urnn_parameters(rng, 4)
    d1, d2, d3 = (np.diag(np.exp(1j * theta)) for theta in thetas)
    r1, r2 = (np.eye(4) - 2 * np.outer(v, v.conj()) / np.vdot(v, v).real for v in reflections)
    f = np.fft.fft(np.eye(4), norm="ortho")
    pi = np.eye(4)[permutation]
    expected = d3 @ r2 @ f.conj().T @ d2 @ pi @ r1 @ f @ d1
    dense = urnn.unitary_matrix(thetas, reflections, permutation)
    np.testing.assert_allclose(dense, expected, rtol=0, atol=1e-13)


def test_urnn_modrelu():
    assert urnn.modrelu(3 + 4j, -2.5) == pytest.approx(1.5 + 2j, rel=1e-14)
    assert urnn.modrelu(3 + 4j, -6.0) == 0
    assert urnn.modrelu(0j, 1.0) == 0


def test_urnn_keeps_the_norm_without_input_and_bias(rng):
    thetas, reflections, permutation = urnn_parameters(rng, 5)
    initial = rng.normal(size=(2, 5)) + 1j * rng.normal(size=(2, 5))
    v = rng.normal(size=(5, 3))
    silent = urnn.urnn(
        np.zeros((6, 2, 3)), initial, v, v, thetas, reflections, permutation, np.zeros(5)
    )
    for t in range(6):
        np.testing.assert_allclose(
            np.linalg.norm(silent[t], axis=1), np.linalg.norm(initial, axis=1), rtol=0, atol=1e-12
        )
    driven = urnn.urnn(
        np.ones((1, 2, 3)), initial, v, 2 * v, thetas, reflections, permutation, np.zeros(5)
    )
    np.testing.assert_allclose(driven[0], silent[0] + (1 + 2j) * v.sum(axis=1), rtol=0, atol=1e-12)


def test_rmsprop_hand_step():
    start = optimisers.initial_accumulators([[2.0]])
    assert start[0][0] == 1e-3
    parameters, accumulators = optimisers.rmsprop_step([[2.0]], [[0.5]], start, 0.01)
    # 0.9 * 0.001 + 0.1 * 0.25 = 0.0259.
    assert accumulators[0][0] == pytest.approx(0.0259, rel=1e-14)
    assert parameters[0][0] == pytest.approx(2.0 - 0.005 / math.sqrt(0.0259), rel=1e-14)
    parameters, accumulators = optimisers.rmsprop_step(
        parameters, [[-1.0]], accumulators, 0.01, epsilon=0.01
    )
    assert accumulators[0][0] == pytest.approx(0.12331, rel=1e-14)
    expected = 2.0 - 0.005 / math.sqrt(0.0259) + 0.01 / math.sqrt(0.13331)
    assert parameters[0][0] == pytest.approx(expected, rel=1e-14)


def test_gradient_treatments():
    gradients = [np.array([3.0, -0.5]), np.array([[-4.0]])]
    clipped = optimisers.clip_components(gradients)
    np.testing.assert_array_equal(clipped[0], [1.0, -0.5])
    np.testing.assert_array_equal(clipped[1], [[-1.0]])
    gradients[0][1] = 0.0
    assert optimisers.gradient_norm(gradients) == 5.0
    clipped = optimisers.clip_norm(gradients, 1.0)
    np.testing.assert_allclose(clipped[0], [0.6, 0.0], rtol=1e-14)
    np.testing.assert_allclose(clipped[1], [[-0.8]], rtol=1e-14)
    np.testing.assert_array_equal(optimisers.clip_norm(gradients, 6.0)[0], gradients[0])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_recovery_replaces_the_whole_gradient(bad):
    parameters = [np.array([20.0, -1.0]), np.array([[3.0]])]
    gradients = [np.array([0.5, 0.5]), np.array([[bad]])]
    replaced = optimisers.clip_norm_or_recover(gradients, parameters, 1.0, 0.1)
    np.testing.assert_allclose(replaced[0], [2.0, -0.1], rtol=1e-14)
    np.testing.assert_allclose(replaced[1], [[0.3]], rtol=1e-14)
    gradients[1][0][0] = 0.0
    sound = optimisers.clip_norm_or_recover(gradients, parameters, 1.0, 0.1)
    np.testing.assert_array_equal(sound[0], [0.5, 0.5])


def test_adam_first_steps():
    parameters, first, second = optimisers.adam_step([[1.0]], [[0.2]], [[0.0]], [[0.0]], 1, 0.01)
    # Bias correction makes the first step rate * sign(g), but for the epsilon.
    assert parameters[0][0] == pytest.approx(1.0 - 0.01 * 0.2 / (0.2 + 1e-8), rel=1e-13)
    assert (first[0][0], second[0][0]) == pytest.approx((0.02, 4e-5), rel=1e-13)
    parameters, first, second = optimisers.adam_step(parameters, [[-0.4]], first, second, 2, 0.01)
    m_hat = (0.9 * 0.02 - 0.1 * 0.4) / (1 - 0.81)
    v_hat = (0.999 * 4e-5 + 0.001 * 0.16) / (1 - 0.999**2)
    expected = 1.0 - 0.01 * 0.2 / (0.2 + 1e-8) - 0.01 * m_hat / (math.sqrt(v_hat) + 1e-8)
    assert parameters[0][0] == pytest.approx(expected, rel=1e-13)


def test_optimisers_leave_their_arguments(rng):
    values = [rng.normal(size=(2, 3))]
    copy = [values[0].copy()]
    zeros = [np.zeros((2, 3))]
    optimisers.rmsprop_step(values, values, [np.ones((2, 3))], 0.1)
    optimisers.adam_step(values, values, zeros, zeros, 1)
    optimisers.clip_components(values, 0.1)
    optimisers.clip_norm(values, 0.1)
    optimisers.shrink_gradients(values, 0.1)
    np.testing.assert_array_equal(values[0], copy[0])
    np.testing.assert_array_equal(zeros[0], np.zeros((2, 3)))


def test_perplexity_hand_case():
    two, eight = math.log(2.0), math.log(8.0)
    sentences = [[two], [eight, eight, eight]]
    assert perplexity.macro_bits_per_character(sentences) == pytest.approx(2.0, rel=1e-14)
    assert perplexity.micro_bits_per_character(sentences) == pytest.approx(2.5, rel=1e-14)
    assert perplexity.macro_perplexity(sentences) == pytest.approx(4.0, rel=1e-14)
    assert perplexity.micro_perplexity(sentences) == pytest.approx(2.0**2.5, rel=1e-14)
    with pytest.raises(ValueError, match="at least one"):
        perplexity.macro_perplexity([[two], []])


@pytest.mark.parametrize("entry", counts.PUBLISHED_COUNTS, ids=lambda entry: entry.name)
def test_published_counts(entry):
    assert entry.consistent or entry.explanation
    by_convention = entry.by_convention()
    if entry.consistent is None:
        assert by_convention is None
        return
    # Half a unit of the last printed digit, so that a rounding in either direction passes.
    agrees = abs(by_convention - entry.printed) <= entry.precision / 2
    assert agrees == entry.consistent


def test_counts_the_facts_spell_out():
    by_name = {entry.name: entry for entry in counts.PUBLISHED_COUNTS}
    assert len(by_name) == len(counts.PUBLISHED_COUNTS) == 25
    named = {entry.name for entry in counts.PUBLISHED_COUNTS if entry.consistent is False}
    assert named == {
        "charlm LSTM 1000, dropout",
        "charlm tied LRD-GRU 1000/64",
        "charlm LRD-LSTM 1740/300, dropout",
        "addition LR-GRU 128/24, recurrent",
    }
    assert by_name["copy LRD-GRU 128/50"].by_convention() == 41_738
    assert by_name["charlm tied LRD-GRU 1000/64"].by_convention() == 364_051
    addition = by_name["addition LR-GRU 128/24, recurrent"]
    assert counts.matrix_count(128, 24, 1, False, addition.structure) == 6_144
    assert counts.matrix_count(128, 24, 3, False, addition.structure) == 18_432
    assert counts.parameter_count(1000, None, 4, False, 49, 49, "dense", input_matrices=4) == (
        4_249_049
    )
    # The model as defined: an input matrix for each gate, then the initial state as well.
    psmnist = (128, 24, 3, False, 1, 10, "low_rank_plus_diagonal")
    assert counts.parameter_count(*psmnist, input_matrices=3) == 20_874
    assert counts.parameter_count(*psmnist, input_matrices=3, initial_state=True) == 21_002
    assert counts.parameter_count(1740, 300, 4, False, 51, 51, psmnist[-1], 4) == 4_633_671
