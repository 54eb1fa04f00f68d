"""The LSTM without peepholes of equations 8 and 9, unit by unit."""

from __future__ import annotations

import math

import numpy as np

from .activations import sigmoid

GATES = ("transform", "carry", "candidate", "output")


def lstm(
    inputs,
    initial_hidden,
    initial_cell,
    input_matrices,
    recurrent_matrices,
    biases,
    state_masks=None,
    hold=None,
    hold_cell=None,
):
    """Hidden states and cells, each [T][B][n], of equations 8 and 9.

    "transform" is f_tau, "carry" f_gamma, "candidate" f_pi, "output" f_omega; the cell is the
    passthrough state x-hat, the hidden state is x-tilde, and only the hidden state enters the
    recurrent matrices. state_masks[gate] [B][n] multiplies the hidden state on its way into that
    gate's recurrent matrix.

    The paper holds nothing back; with hold and hold_cell [T][B][n], the fractions of the old hidden
    state and the old cell which replace the new ones, both are applied to the outcome of equation
    9, so the new hidden state is still taken from the cell before hold_cell mixes it.
    """
    inputs = np.asarray(inputs, dtype=np.float64)
    hidden = np.array(initial_hidden, dtype=np.float64)
    cell = np.array(initial_cell, dtype=np.float64)
    u_rows = {gate: np.asarray(input_matrices[gate], dtype=np.float64) for gate in GATES}
    w_rows = {gate: np.asarray(recurrent_matrices[gate], dtype=np.float64) for gate in GATES}
    steps, batch, _ = inputs.shape
    units = hidden.shape[1]

    hiddens = np.zeros((steps, batch, units))
    cells = np.zeros((steps, batch, units))
    for t in range(steps):
        for b in range(batch):
            u = inputs[t][b]
            entering = {}
            for gate in GATES:
                values = [float(hidden[b][j]) for j in range(units)]
                if state_masks is not None and state_masks.get(gate) is not None:
                    values = [values[j] * state_masks[gate][b][j] for j in range(units)]
                entering[gate] = np.array(values)

            for i in range(units):
                sums = {}
                for gate in GATES:
                    sums[gate] = (
                        np.dot(u_rows[gate][i], u)
                        + np.dot(w_rows[gate][i], entering[gate])
                        + biases[gate][i]
                    )
                transform = sigmoid(sums["transform"])
                carry = sigmoid(sums["carry"])
                candidate = math.tanh(sums["candidate"])
                output = sigmoid(sums["output"])

                new_cell = candidate * transform + cell[b][i] * carry
                new_hidden = output * math.tanh(new_cell)
                if hold is not None:
                    kept = hold[t][b][i]
                    new_hidden = kept * hidden[b][i] + (1.0 - kept) * new_hidden
                if hold_cell is not None:
                    kept = hold_cell[t][b][i]
                    new_cell = kept * cell[b][i] + (1.0 - kept) * new_cell
                hiddens[t][b][i] = new_hidden
                cells[t][b][i] = new_cell
        hidden = hiddens[t]
        cell = cells[t]
    return hiddens, cells
