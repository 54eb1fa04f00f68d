"""Counting the parameters of a model from its description: as the paper does, and truly."""

from __future__ import annotations

from typing import NamedTuple

from passnet.config.experiment import Experiment
from passnet.config.matrix import (
    BlockDiagonalPlusLowRank,
    Dense,
    LowRank,
    LowRankPlusDiagonal,
    MatrixSpec,
)
from passnet.config.model import GATES, Model


class Counts(NamedTuple):
    """Parameters by the paper's convention and as the model is; None where there is no answer."""

    paper: int | None
    model: int | None


def paper_parameter_count(
    size: int,
    matrix: MatrixSpec | None = None,
    *,
    inputs: int,
    outputs: int,
    cell: str = "gru",
    rank: int | None = None,
    tied: bool = False,
    diagonal: bool = False,
    input_matrices: int = 1,
) -> int:
    """The count by the convention behind the paper's tables.

    State matrices and biases of every gate, one input matrix instead of one per gate, the output
    matrix and its bias; no initial state. The structure is `matrix`, or is derived from `rank`
    (None: dense), `tied` and `diagonal`. Only with one input matrix per gate, `input_matrices=4`,
    does the count match the 4.25M that the paper prints for its LSTM.
    """
    if cell not in ("gru", "lstm"):
        raise ValueError(f"cell={cell!r}: the paper's convention is known for 'gru' and 'lstm'")
    if matrix is not None and (rank is not None or tied or diagonal):
        raise ValueError(
            f"got matrix={matrix!r} and also rank, tied or diagonal: give one or the other"
        )
    if matrix is None:
        matrix = _structure(rank, tied=tied, diagonal=diagonal)
    matrix.check(size)
    gates = GATES[cell]
    recurrent = matrix.count(size, gates) + gates * size
    return recurrent + input_matrices * inputs * size + size * outputs + outputs


def model_parameter_count(model: Model, inputs: int, outputs: int) -> int:
    """Every trainable number of the network: input matrix per gate, biases, initial state,
    normalisation scales and output head included."""
    if model.cell == "urnn":
        body, features = _urnn_count(model, inputs), 2 * model.size
    elif model.cell == "highway":
        body, features = _highway_count(model, inputs), model.size
    else:
        body, features = _recurrent_count(model, inputs), model.size
    if model.head_hidden is not None:
        body += features * model.head_hidden + model.head_hidden
        features = model.head_hidden
    return body + features * outputs + outputs


def parameter_counts(model: Model, inputs: int, outputs: int) -> Counts:
    """Both counts of a model; the paper's is None for what its convention does not cover."""
    paper = None
    if model.cell in ("gru", "lstm") and model.num_layers == 1 and model.head_hidden is None:
        paper = paper_parameter_count(
            model.size,
            model.matrix,
            inputs=inputs,
            outputs=outputs,
            cell=model.cell,
            input_matrices=model.gates if model.cell == "lstm" else 1,
        )
    return Counts(paper, model_parameter_count(model, inputs, outputs))


def experiment_parameter_counts(experiment: Experiment) -> Counts:
    """Both counts of an experiment; both None while the vocabulary of a text is not known."""
    inputs, outputs = experiment.task.inputs, experiment.task.outputs
    if inputs is None or outputs is None:
        return Counts(None, None)
    return parameter_counts(experiment.model, inputs, outputs)


def printed_count(text: str) -> tuple[int, int]:
    """A printed count such as `20.6k` as a number, and the unit of its last printed digit."""
    unit = {"k": 1_000, "M": 1_000_000}.get(text[-1:], 1)
    digits = text if unit == 1 else text[:-1]
    decimals = len(digits.partition(".")[2])
    return round(float(digits) * unit), unit // 10**decimals


def _structure(rank: int | None, *, tied: bool, diagonal: bool) -> MatrixSpec:
    if rank is None:
        if tied or diagonal:
            raise ValueError("tied and diagonal describe a low-rank matrix: give its rank too")
        return Dense()
    return LowRankPlusDiagonal(rank, tied) if diagonal else LowRank(rank, tied)


def _recurrent_count(model: Model, inputs: int) -> int:
    size, gates = model.size, model.gates
    total = 0
    for layer in range(model.num_layers):
        total += model.matrix.count(size, gates) + gates * size
        total += gates * size * (inputs if layer == 0 else size)
        if model.recurrent_bias:
            total += size
        if model.learn_initial_state:
            total += 2 * size if model.cell == "lstm" else size
        if model.weight_norm:
            # One scale per row of the input matrices, and of the state matrices that are not R.
            scaled = 2 if isinstance(model.matrix, BlockDiagonalPlusLowRank) else 1
            total += gates * size * (1 + scaled)
    return total


def _highway_count(model: Model, inputs: int) -> int:
    # The shift of batch normalisation is the bias, so normalising adds only the scale.
    vectors = 2 if model.batch_norm else 1
    entry = inputs * model.size + vectors * model.size
    layer = model.matrix.count(model.size, model.gates) + model.gates * vectors * model.size
    return entry + model.num_layers * layer


def _urnn_count(model: Model, inputs: int) -> int:
    # Per unit: three angles, two complex reflections, one bias, a complex input row and start.
    return (3 + 4 + 1 + 2 * inputs + 2) * model.size
