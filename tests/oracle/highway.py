"""One Highway layer of equations 3 to 5 with the batch normalisation and dropout of the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .activations import relu, sigmoid

GATES = ("candidate", "transform")
EPSILON = 1e-4
RUNNING_RATE = 0.1


@dataclass(frozen=True)
class HighwayGate:
    """The parameters of one gate.

    left [n][d] and right [d][n] are L and R of equation 4; with right None, left is the dense
    matrix [n][n] of equation 3 and there is no bottleneck. diagonal [n] is D of equation 5. shift
    [n] is the bias of equation 3, which batch normalisation adds as its shift; scale [n] is its
    scale, None for ones.
    """

    left: Any
    shift: Any
    right: Any = None
    diagonal: Any = None
    scale: Any = None


def batch_norm(values, scale=None, shift=None, running=None):
    """Batch normalisation of values [B][n] over the batch, and the statistics it used.

    The statistics are (mean [n], deviation [n]): those of the batch, its deviation taken with
    divisor B, or in evaluation mode those given as running. The epsilon is added to the deviation
    itself, not to the variance under its root.
    """
    values = np.asarray(values, dtype=np.float64)
    batch, units = values.shape
    normalised = np.zeros((batch, units))
    means = np.zeros(units)
    deviations = np.zeros(units)
    for i in range(units):
        if running is None:
            total = 0.0
            for b in range(batch):
                total += values[b][i]
            mean = total / batch
            squares = 0.0
            for b in range(batch):
                squares += (values[b][i] - mean) * (values[b][i] - mean)
            deviation = math.sqrt(squares / batch)
        else:
            mean = running[0][i]
            deviation = running[1][i]
        for b in range(batch):
            value = (values[b][i] - mean) / (deviation + EPSILON)
            if scale is not None:
                value = value * scale[i]
            if shift is not None:
                value = value + shift[i]
            normalised[b][i] = value
        means[i] = mean
        deviations[i] = deviation
    return normalised, (means, deviations)


def update_running(running, statistics, rate=RUNNING_RATE):
    """Running (mean, deviation) after one training batch, new = (1 - rate) * old + rate * batch.

    The deviation is averaged as such, and without the epsilon, which is added when it is used.
    """
    updated = []
    for old, batch in zip(running, statistics, strict=True):
        averaged = np.zeros(len(old))
        for i in range(len(old)):
            averaged[i] = (1.0 - rate) * old[i] + rate * batch[i]
        updated.append(averaged)
    return updated[0], updated[1]


def highway_layer(
    states,
    gates,
    activation="relu",
    state_masks=None,
    bottleneck_masks=None,
    normalise=True,
    running=None,
):
    """New states [B][n] of one layer, and the normalisation statistics each gate used.

    The order of operations read from the paper, for either gate: drop the layer input, which is
    x * mask; project it with R; normalise in the bottleneck, without scale or shift; drop in the
    bottleneck; multiply by L; add the diagonal times the dropped layer input; normalise with
    scale and shift, the shift being the gate's bias; activate. Then, by equations 2 and 3, the new
    state is candidate * transform + x * (1 - transform), with x the layer input as it was before
    dropout. A dense gate has no bottleneck and is normalised once.

    gates maps "candidate" and "transform" to HighwayGate; activation is that of the candidate,
    "relu" or "tanh". state_masks[gate] [B][n] and bottleneck_masks[gate] [B][d] carry their own
    scaling; one mask for the layer is given by naming it for both gates. With normalise False the
    layer is equations 3 to 5 and nothing else. Statistics are taken from the batch unless running
    gives them for evaluation mode, as a dict gate -> {"bottleneck": (mean, deviation), "output":
    (mean, deviation)}, which is also the form of the statistics handed back.
    """
    if activation not in ("relu", "tanh"):
        raise ValueError(f"activation must be 'relu' or 'tanh', not {activation!r}")
    states = np.asarray(states, dtype=np.float64)
    batch, units = states.shape
    sums = {}
    statistics = {}
    for gate in GATES:
        parameters = gates[gate]
        left = np.asarray(parameters.left, dtype=np.float64)
        statistics[gate] = {}

        def running_of(place, gate=gate):
            return None if running is None else running[gate][place]

        dropped = np.zeros((batch, units))
        for b in range(batch):
            for j in range(units):
                dropped[b][j] = states[b][j]
                if state_masks is not None and state_masks.get(gate) is not None:
                    dropped[b][j] = states[b][j] * state_masks[gate][b][j]

        if parameters.right is None:
            projected = dropped
        else:
            right = np.asarray(parameters.right, dtype=np.float64)
            rank = right.shape[0]
            projected = np.zeros((batch, rank))
            for b in range(batch):
                for r in range(rank):
                    projected[b][r] = np.dot(right[r], dropped[b])
            if normalise:
                projected, used = batch_norm(projected, running=running_of("bottleneck"))
                statistics[gate]["bottleneck"] = used
            if bottleneck_masks is not None and bottleneck_masks.get(gate) is not None:
                for b in range(batch):
                    for r in range(rank):
                        projected[b][r] = projected[b][r] * bottleneck_masks[gate][b][r]

        expanded = np.zeros((batch, units))
        for b in range(batch):
            for i in range(units):
                expanded[b][i] = np.dot(left[i], projected[b])
                if parameters.diagonal is not None:
                    expanded[b][i] += parameters.diagonal[i] * dropped[b][i]
        if normalise:
            sums[gate], used = batch_norm(
                expanded, parameters.scale, parameters.shift, running_of("output")
            )
            statistics[gate]["output"] = used
        else:
            sums[gate] = np.zeros((batch, units))
            for b in range(batch):
                for i in range(units):
                    sums[gate][b][i] = expanded[b][i] + parameters.shift[i]

    outputs = np.zeros((batch, units))
    for b in range(batch):
        for i in range(units):
            total = sums["candidate"][b][i]
            candidate = relu(total) if activation == "relu" else math.tanh(total)
            transform = sigmoid(sums["transform"][b][i])
            outputs[b][i] = candidate * transform + states[b][i] * (1.0 - transform)
    return outputs, statistics
