"""Scans over time in a program of torch.export, written as what `loops` can turn into ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from passnet.export.errors import Unexportable
from passnet.ops import GruScan, LstmScan
from passnet.ops.gru_scan.reference import gru_next
from passnet.ops.lstm_scan.reference import lstm_next
from passnet.ops.scan import ScanCall

DOMAIN = "passnet"
DTYPES = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Scan:
    """An op over time: its call, and one step of its plain loop."""

    call_type: type[ScanCall]
    following: Callable[..., tuple[Tensor, ...]]

    def next(self, call: Any, drive: Tensor, holds: tuple[Tensor | None, ...]) -> list[Tensor]:
        """The states that follow the initial ones of a call."""
        starts = (call.initial, call.initial_cell)[: call.output_count]
        return list(self.following(call, starts, drive, holds[: call.output_count]))


SCANS = {"gru_scan": Scan(GruScan, gru_next), "lstm_scan": Scan(LstmScan, lstm_next)}


class Step(torch.nn.Module):
    """One step of a scan as a module: the tensors of a call, what scans over time being of a step.

    Its results are those states that follow.
    """

    def __init__(self, scan: Scan, layout: str, live: int) -> None:
        super().__init__()
        self._scan, self._layout, self._live = scan, layout, live

    def forward(self, *tensors: Tensor) -> list[Tensor]:
        live, fixed = tensors[: self._live], tensors[self._live :]
        call = self._scan.call_type.unflatten(live, fixed, self._layout)
        return self._scan.next(call, call.drive, (call.hold, call.hold_cell))


def decompositions(batches: list[int | torch.SymInt]) -> dict[Any, Callable[..., list[Tensor]]]:
    """For `ExportedProgram.run_decompositions`: what every scan is to become.

    That is one operator of DOMAIN with the scan's name, or plain operations if there is one step,
    which add how many sequences they have to `batches`.
    """
    return {
        getattr(torch.ops.passnet, name).default: _written(name, scan, batches)
        for name, scan in SCANS.items()
    }


def _written(
    name: str, scan: Scan, batches: list[int | torch.SymInt]
) -> Callable[..., list[Tensor]]:
    def write(
        live: Sequence[Tensor], fixed: Sequence[Tensor], layout: str, engine: str
    ) -> list[Tensor]:
        call: Any = scan.call_type.unflatten(live, fixed, layout)
        if call.dtype not in DTYPES:
            raise Unexportable(f"a layer computes in {call.dtype}: leave out torch.autocast")
        steps, batch, *_ = call.states_shape
        if isinstance(steps, int) and steps == 1:
            batches.append(batch)
            holds = [None if h is None else h[0] for h in (call.hold, call.hold_cell)]
            states = scan.next(call.started(), call.drive[:, 0], tuple(holds))
            return [state.unsqueeze(0) for state in states]
        # Formed outside the loop, for all steps at once.
        call = replace(call.started(), source=call.drive)
        live, fixed, layout = call.flatten()
        like = call.outputs_like()
        return list(
            torch.onnx.ops.symbolic_multi_out(
                f"{DOMAIN}::{name}",
                [*live, *fixed],
                {"layout": layout, "live": len(live)},
                dtypes=[states.dtype for states in like],
                shapes=[states.shape for states in like],
                version=1,
            )
        )

    return write
