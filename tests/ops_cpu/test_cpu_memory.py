"""Where there is no memory for a scan's scratch, a sentence says so: nothing is left uncomputed."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import passnet
from passnet.ops.cpu import installed

if isinstance(installed(), str):
    pytest.skip(installed(), allow_module_level=True)

# Scratch of two sequences is 40 MB, and factors are packed into 200 where there are more than four.
SCRIPT = """
import resource, torch
from pathlib import Path
from passnet.ops import GruScan
from passnet.ops.gru_scan.cpu import CpuGru

UNITS = 1_000_000
torch.set_num_threads(2)
factors = torch.zeros(3, UNITS, 1), torch.zeros(3, 1, UNITS)

def prepared(steps):
    drive, start = torch.zeros(3, steps, 4, UNITS), torch.zeros(4, UNITS)
    call = GruScan(drive, start, factors, "low_rank", "after")
    results = call.outputs_like()
    return lambda: CpuGru()._scan(call, results)

one, two = prepared(1), prepared(2)
one()  # which starts the threads

taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
_, most = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (taken + (20 << 20), most))
for threads, scan in ((2, one), (1, one), (1, two)):
    torch.set_num_threads(threads)
    try:
        scan()
    except MemoryError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as on Linux")
def test_no_memory_is_said():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    sentence = "no memory for the scratch of a scan over 1000000 units: free some, or use"
    assert done.stdout == 3 * f"{sentence} backend='eager'\n", done.stderr


def test_no_memory_is_said_by_all_that_take_some(monkeypatch):
    """Each function of the library in turn says that it had none."""

    def stream(layer) -> None:
        with torch.no_grad():
            layer.step(torch.zeros(1, 3), torch.zeros(1, 1, 6))

    def train(layer) -> None:
        layer(torch.zeros(5, 4, 3, requires_grad=True))[0].sum().backward()

    for function, work in (
        ("_step", stream),
        ("_scan", train),
        ("_factors", train),
        ("_inputs", train),
        ("_features", train),
    ):
        monkeypatch.setattr(installed(), function, lambda *_: 1)
        with pytest.raises(MemoryError, match="no memory for the scratch of a scan over 6 units"):
            work(passnet.GRU(3, 6, matrix=passnet.LowRank(2)))
        monkeypatch.undo()
