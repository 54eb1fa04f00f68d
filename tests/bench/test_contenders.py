"""Who is timed."""

from __future__ import annotations

import warnings

import pytest
import torch

from passnet.bench.cases import Case
from passnet.bench.contenders import contenders, states

LOOPS = ["passnet eager", "passnet reference", "loop", "compiled loop"]
LAYERS = ["passnet", "nn.GRU", "nn.LSTM(proj_size=3)"]
LOWER = ["nn.GRU tf32", "passnet bf16", "nn.GRU bf16", "passnet fp16", "nn.GRU fp16"]


@pytest.mark.parametrize(
    ("device", "among", "expected"),
    [
        ("cpu", "everyone", LAYERS + LOOPS),
        ("cpu", "layers", LAYERS),
        ("cpu", "float32", LAYERS[:2]),
        ("meta", "layers", LAYERS + LOWER),
        ("meta", "float32", LAYERS[:2]),
    ],
)
def test_everyone_asked_for_and_nobody_else(device, among, expected):
    found = contenders(Case("copy", 8, 3, 5, 2, 4), device=device, among=among)
    assert list(found) == expected
    for name, contender in found.items():
        assert contender.name == name
        assert all(p.dtype == contender.dtype for p in contender.layer.parameters())
        short = next((s for s in ("bf16", "fp16") if s in name), None)
        dtypes = {None: torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
        assert contender.dtype == dtypes[short]
        assert contender.tf32 == ("tf32" in name)


def test_what_torch_says_of_its_own_projections_is_not_shown():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = contenders(Case("copy", 8, 3, 5, 2, 4), device="cpu", among="layers")
        try:
            torch.set_warn_always(True)  # otherwise once in a process
            states(found["nn.LSTM(proj_size=3)"].layer, torch.zeros(5, 2, 4))
        finally:
            torch.set_warn_always(False)
        with pytest.raises(UserWarning, match="something else"):
            warnings.warn("something else", stacklevel=1)
