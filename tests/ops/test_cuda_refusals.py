"""What the CUDA engines refuse before a GPU is asked, judged from shapes alone."""

from __future__ import annotations

import torch

from passnet.ops import LstmScan
from passnet.ops.cuda.lstm import CudaLstm


def test_zoneout_of_the_lstm_is_refused_and_lengths_are_not():
    drive, state = torch.zeros(4, 3, 2, 5), torch.zeros(2, 5)
    factors = torch.zeros(4, 5, 2), torch.zeros(4, 2, 5)
    for width, refused in ((5, True), (1, False)):
        hold = torch.zeros(3, 2, width)
        call = LstmScan(drive, state, state, factors, "low_rank", hold=hold, hold_cell=hold)
        sentence = CudaLstm().refuses(call)
        assert sentence is not None
        assert ("zoneout" in sentence) is refused
