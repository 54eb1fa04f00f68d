"""What type checkers know of calls: pyright reads this file, which runs as well."""

from __future__ import annotations

from typing import assert_type

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_sequence

import passnet

x = torch.zeros(4, 2, 3)
packed = pack_sequence([torch.zeros(4, 3), torch.zeros(2, 3)])


def test_a_gru_gives_a_tensor_and_its_state():
    rnn = passnet.GRU(3, 5)
    output, state = assert_type(rnn.forward(x, lengths=(4, 2)), tuple[Tensor, Tensor])
    output, state = assert_type(rnn.step(x[0], state), tuple[Tensor, Tensor])
    assert output.shape == (2, 5) and state.shape == (1, 2, 5)
    packs, _ = assert_type(rnn.forward(packed, state), tuple[PackedSequence, Tensor])
    assert packs.data.shape == (6, 5)


def test_an_lstm_gives_a_tensor_and_a_pair():
    rnn = passnet.LSTM(3, 5)
    output, state = assert_type(rnn.forward(x), tuple[Tensor, tuple[Tensor, Tensor]])
    output, state = assert_type(rnn.step(x[0], state), tuple[Tensor, tuple[Tensor, Tensor]])
    assert output.shape == (2, 5) and [part.shape for part in state] == 2 * [(1, 2, 5)]
    packs, _ = assert_type(rnn.forward(packed, state), tuple[PackedSequence, tuple[Tensor, Tensor]])
    assert packs.data.shape == (6, 5)
