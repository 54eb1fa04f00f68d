"""The GRU of equation 6 and its reset-after variant of equation 7, unit by unit."""

from __future__ import annotations

import math

import numpy as np

from .activations import sigmoid

GATES = ("reset", "carry", "candidate")


def gru(
    inputs,
    initial_state,
    input_matrices,
    recurrent_matrices,
    biases,
    reset="before",
    inner_bias=None,
    state_masks=None,
    hold=None,
):
    """States [T][B][n] of the GRU, equation 2 with the gates of equation 6 or 7.

    "reset" is f_omega, "carry" f_gamma, "candidate" f_pi, and the transform function is one minus
    the carry, so that x(t) = candidate * (1 - carry) + x(t-1) * carry.

    reset="before" is equation 6, W (x * r); reset="after" is equation 7, (W x) * r.
    inner_bias [n], which the paper does not have, is added to W x before that product, so it needs
    reset="after"; biases["candidate"] stays outside. state_masks[gate] [B][n] multiplies what
    enters that gate's recurrent matrix, for the candidate of equation 6 the product x * r, and
    never the carry path. hold [T][B][n] is the fraction of x(t-1) which replaces the new state.
    """
    if reset not in ("before", "after"):
        raise ValueError(f"reset must be 'before' or 'after', not {reset!r}")
    if inner_bias is not None and reset == "before":
        raise ValueError("an inner bias exists only where the reset gate comes after the matrix")
    inputs = np.asarray(inputs, dtype=np.float64)
    state = np.array(initial_state, dtype=np.float64)
    u_rows = {gate: np.asarray(input_matrices[gate], dtype=np.float64) for gate in GATES}
    w_rows = {gate: np.asarray(recurrent_matrices[gate], dtype=np.float64) for gate in GATES}
    steps, batch, _ = inputs.shape
    units = state.shape[1]

    def masked(gate, sequence, values):
        if state_masks is None or state_masks.get(gate) is None:
            return np.array(values)
        return np.array([values[j] * state_masks[gate][sequence][j] for j in range(units)])

    states = np.zeros((steps, batch, units))
    for t in range(steps):
        for b in range(batch):
            old = [float(state[b][j]) for j in range(units)]
            u = inputs[t][b]

            into_reset = masked("reset", b, old)
            into_carry = masked("carry", b, old)
            resets = []
            carries = []
            for i in range(units):
                resets.append(
                    sigmoid(
                        np.dot(u_rows["reset"][i], u)
                        + np.dot(w_rows["reset"][i], into_reset)
                        + biases["reset"][i]
                    )
                )
                carries.append(
                    sigmoid(
                        np.dot(u_rows["carry"][i], u)
                        + np.dot(w_rows["carry"][i], into_carry)
                        + biases["carry"][i]
                    )
                )

            if reset == "before":
                into_candidate = masked("candidate", b, [old[j] * resets[j] for j in range(units)])
            else:
                into_candidate = masked("candidate", b, old)
            for i in range(units):
                recurrent = np.dot(w_rows["candidate"][i], into_candidate)
                if reset == "after":
                    if inner_bias is not None:
                        recurrent = recurrent + inner_bias[i]
                    recurrent = recurrent * resets[i]
                candidate = math.tanh(
                    np.dot(u_rows["candidate"][i], u) + recurrent + biases["candidate"][i]
                )
                new = candidate * (1.0 - carries[i]) + old[i] * carries[i]
                if hold is not None:
                    new = hold[t][b][i] * old[i] + (1.0 - hold[t][b][i]) * new
                states[t][b][i] = new
        state = states[t]
    return states
