"""What tests of emulated scans share: where they run, and how a case is judged."""

from __future__ import annotations

import itertools

import torch
from emulator import BACKWARDS
from gpu.scan_cases import Case, cast, kernel, make, scan_of, worst

from passnet.ops import gru_backends, lstm_backends
from passnet.ops.cuda import engine as cuda_engine
from passnet.ops.cuda import inputs, small, weights, whole

CELLS = ("gru_after", "gru_before", "lstm")
SHUFFLED = 2
BFLOAT16, FLOAT16 = torch.bfloat16, torch.float16
# Units of a row, which is divided by sixteen bytes or by less.
ROWS = [
    (40, torch.float32), (42, torch.float32), (41, torch.float32),
    (40, BFLOAT16), (44, FLOAT16), (42, BFLOAT16), (41, FLOAT16),
]  # fmt: skip
REFERENCE = {cell: gru_backends()[-1] for cell in ("gru_after", "gru_before")}
REFERENCE["lstm"] = lstm_backends()[-1]
# Shared memory in which z comes in pieces and some weights are left to the registers.
CRAMPED = {"gru_after": 26000, "gru_before": 25500, "lstm": 33000}


def where(chip, family=None) -> dict:
    """What tells an engine to run on a chip, and to use one family's kernels only."""

    def one_family(call, chip):
        return small if family is whole and call.rank is None else family

    families = {} if family is None else {"families": one_family}
    return {"chips": lambda device: chip} | families


def check(case: Case, chip, family=None) -> None:
    ratio, name = worst(case, device="cpu", **where(chip, family))
    assert ratio <= 1, (ratio, name)
    data = cast(make(case, device="cpu"), case.dtype)
    expected = kernel(case, data, **where(chip, family))
    for chip.order in (BACKWARDS, SHUFFLED):
        for name, value in kernel(case, data, **where(chip, family)).items():
            assert torch.equal(value, expected[name]), f"{name} depends on the order of threads"


def use_tensor_cores(monkeypatch) -> None:
    """Has them form the gradients of small matrices too."""
    for module, name in itertools.product((weights, inputs), ("WIDE_RANK", "WIDE", "MANY_UNITS")):
        monkeypatch.setattr(module, name, 1, raising=False)


def through_autograd(monkeypatch, case: Case, data: dict, chip, family=None):
    """(the CUDA backend on an emulated chip, the call of a case)."""
    engine, call = scan_of(case, data, **where(chip, family))
    cuda = (lstm_backends if case.cell == "lstm" else gru_backends)()[0]
    monkeypatch.setitem(cuda._op.engines, "cuda", engine)
    monkeypatch.setattr(cuda_engine, "refuses_device", lambda *_: None)
    return cuda, call


def scaled(case: Case, device: str = "cpu") -> dict:
    """Data whose sequences have gradients, and whose factors numbers, of very different sizes.

    The gradient of the first sequence arrives at its last step, those of others earlier.
    """
    data = make(case, device=device)
    sizes = torch.logspace(18, -25, case.batch, dtype=torch.float64)[None, :, None]
    ends = case.steps - 2 * torch.arange(case.batch) % case.steps
    arrived = torch.arange(case.steps)[:, None] < ends
    for name in ("grad", "grad_cell"):
        data[name] = data[name] * sizes * arrived[..., None]
    data["h0"][0] *= 100
    left, *others = data["factors"]
    if case.d is None:
        data["factors"] = (left * 1e-4,)
    else:
        data["factors"] = (left * 1e-5, others[0] * 1e4, *others[1:])
    return data
