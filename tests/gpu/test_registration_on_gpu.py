"""The ops under PyTorch's own checker on a GPU: as declared, eager and traced."""

from __future__ import annotations

import pytest
import torch
from registration import CASES, check_registration

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_registration_of_scans_on_a_gpu(case, dtype):
    check_registration(case, dtype, "cuda", device="cuda")
