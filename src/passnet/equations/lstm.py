"""Equations 8 and 9: the LSTM's four gates and its two state vectors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from passnet.equations.gru import StateMap
from passnet.equations.passthrough import passthrough_step

LSTM_GATES = ("transform", "carry", "candidate", "output")


class LstmGates(NamedTuple):
    """One step's gate values."""

    transform: Tensor
    carry: Tensor
    candidate: Tensor
    output: Tensor


def lstm_gates(
    hidden: Float[Tensor, "... n"], drive: Float[Tensor, "4 ... n"], recurrent: StateMap
) -> LstmGates:
    """f_tau, f_gamma, f_pi and f_omega; `drive` holds what inputs and biases give to each gate."""
    before = drive + recurrent(hidden, slice(0, 4))
    opened = torch.sigmoid(before[:2])
    return LstmGates(opened[0], opened[1], torch.tanh(before[2]), torch.sigmoid(before[3]))


class LstmStep(NamedTuple):
    """The next state; `read` is the tanh of the cell that the output gate lets through."""

    hidden: Tensor
    cell: Tensor
    read: Tensor


def lstm_step(cell: Float[Tensor, "... n"], gates: LstmGates) -> LstmStep:
    """Only the cell is passed through; the hidden state is read from it."""
    proposed = passthrough_step(cell, gates.candidate, transform=gates.transform, carry=gates.carry)
    read = torch.tanh(proposed)
    return LstmStep(gates.output * read, proposed, read)
