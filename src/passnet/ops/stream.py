"""Who runs one step of a stream: the kernels of the device that a cell's tensors are on."""

from __future__ import annotations

from passnet.ops.cell_tensors import CellTensors
from passnet.ops.cpu import stream as cpu
from passnet.ops.cuda import stream as cuda
from passnet.ops.cuda.chip import chip_of

CellStep = cpu.CellStep | cuda.CellStep


def prepare(cell: CellTensors) -> CellStep | None:
    """The step of this cell, or None where no kernel serves it."""
    device = cell.input_weight.device
    return cuda.prepare(cell, chip_of(device)) if device.type == "cuda" else cpu.prepare(cell)
