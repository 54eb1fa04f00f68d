"""The ops on emulated kernels under PyTorch's own checker: as declared, eager and traced."""

from __future__ import annotations

import pytest
import torch
from registration import CASES, check_registration

from passnet.ops import gru_backends, lstm_backends
from passnet.ops.cuda import engine, large


@pytest.mark.parametrize("over_the_chip", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_registration_of_emulated_scans(emulator, monkeypatch, case, dtype, over_the_chip):
    chip = emulator(processors=12)
    monkeypatch.setattr(engine, "refuses_device", lambda *_: None)
    for backend in (*gru_backends(), *lstm_backends()):
        if backend.name == "cuda":
            monkeypatch.setattr(backend._engine, "_chip_of", lambda _: chip)
            if over_the_chip:
                monkeypatch.setattr(backend._engine, "_family_of", lambda *_: large)
    check_registration(case, dtype, "cuda")
