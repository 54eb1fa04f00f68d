"""What enters the state matrices of a layer while it reads sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from passnet.equations.gru import gru_gates
from passnet.layers.stack import run_stack
from passnet.ops import GruScan
from passnet.ops.scan import ScanCall, states_before

if TYPE_CHECKING:
    from passnet.layers.recurrent import RecurrentLayer


@torch.no_grad()
def entering(
    layer: RecurrentLayer, input: Tensor | PackedSequence
) -> list[Float[Tensor, "G N n"] | Float[Tensor, "1 N n"]]:
    """For every cell the vectors that its matrices are multiplied with, over all steps.

    The same for all gates, or for each its own: where a GRU resets before the matrix, the candidate
    reads what the reset gate leaves of the state.
    """
    x, dtype, starts, sequences = layer._read(input, None, None)
    seen: list[tuple[ScanCall, list[Tensor]]] = []
    run_stack(layer, x, dtype, starts, sequences, zero_padding=False, seen=seen)
    return [_entering(call, states[0]) for call, states in seen]


def _entering(call: ScanCall, states: Tensor) -> Tensor:
    state = states_before(call.start, states)
    vectors = state.unsqueeze(0)
    if isinstance(call, GruScan) and call.reset == "before":
        reset = gru_gates(state, call.drive, call.maps, reset="before").reset
        vectors = torch.stack((state, state, state * reset))
    if call.hold is None:
        return vectors.flatten(1, 2)
    goes_on = (call.hold != 1).any(-1)
    return vectors[:, goes_on]
