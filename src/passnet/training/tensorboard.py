"""TensorBoard events of a run, for those who asked for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from passnet.training.errors import Refused


def open_board(folder: Path, *, update: int) -> Any:
    """A writer of TensorBoard events; what was written after `update` is hidden."""
    return board_writer()(str(folder), purge_step=update + 1)


def board_writer() -> Any:
    """The class that writes TensorBoard events; raises where its package is missing."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise Refused(
            "TensorBoard events need the package tensorboard: run pip install '.[tensorboard]' in "
            "passnet's folder, or leave them out"
        ) from error
    return SummaryWriter


def write_scalars(board: Any, prefix: str, scalars: dict[str, float], *, update: int) -> None:
    """Add numbers under `prefix/` at an update; without a board, nothing."""
    if board is not None:
        for name, value in scalars.items():
            board.add_scalar(f"{prefix}/{name}", value, update)
