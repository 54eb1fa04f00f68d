"""What a run writes and says as it goes: metrics, TensorBoard and events, in one place."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, final

from passnet.training.assembly import Assembly
from passnet.training.events import Evaluated, Event, Listener, Updated, Warned
from passnet.training.metrics import MetricsFile
from passnet.training.tensorboard import write_scalars

TOLD_EVERY = 0.5


@final
class Recorder:
    """The voice of a run; in all processes but the first it is mute and writes nothing."""

    def __init__(self, run: str, *, metric: str, listener: Listener | None) -> None:
        self.run = run
        self.metric = metric
        self.listener = listener
        self.metrics: MetricsFile | None = None
        self.board: Any = None
        self.start_clock(0)

    def tell(self, event: Event) -> None:
        """Hand an event to the listener."""
        if self.listener is not None:
            self.listener(event)

    def warn(self, text: str) -> None:
        """Tell the user something."""
        self.tell(Warned(self.run, text))

    def start_clock(self, update: int) -> None:
        """Training goes on from here."""
        self._began_at = self._told_at = time.monotonic()
        self._began_update = self._told_update = update

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """What happens within counts for the time left, not for the speed of updates."""
        before = time.monotonic()
        yield
        self._told_at += time.monotonic() - before

    def due(self) -> bool:
        """Whether it is time to tell how training goes on."""
        return self.listener is not None and time.monotonic() - self._told_at >= TOLD_EVERY

    def tell_update(self, parts: Assembly, *, loss: float, rate: float) -> None:
        """Tell how training goes on."""
        update, now = parts.training.progress.update, time.monotonic()
        each = (now - self._began_at) / max(update - self._began_update, 1)
        self.tell(
            Updated(
                run=self.run,
                update=update,
                updates=parts.total,
                epoch=parts.epoch,
                loss=loss,
                learning_rate=rate,
                updates_per_second=(update - self._told_update) / (now - self._told_at),
                seconds_left=(parts.total - update) * each,
            )
        )
        self._told_at, self._told_update = time.monotonic(), update

    def write_training(self, parts: Assembly, line: dict[str, float], *, recovered: int) -> None:
        """Add a line about the updates since the last one."""
        progress = parts.training.progress
        line = line | {"recovered": recovered}
        if self.metrics is not None:
            self.metrics.append(kind="train", update=progress.update, epoch=parts.epoch, **line)
        write_scalars(self.board, "train", line, update=progress.update)
        if recovered:
            self.warn(
                f"{recovered} gradients since update {progress.logged} were not finite and became "
                "shrink steps"
            )

    def write_scores(
        self,
        parts: Assembly,
        scores: dict[str, float],
        *,
        split: str,
        update: int,
        better: bool = False,
    ) -> None:
        """Add a line of scores of the parameters of an update."""
        if self.metrics is not None:
            self.metrics.append(kind=split, update=update, epoch=parts.epoch, **scores)
        write_scalars(self.board, split, scores, update=update)
        self.tell(Evaluated(self.run, update, split, scores, self.metric, better))

    def settle(self) -> dict[str, Any]:
        """Force what was written to disk; returns what a checkpoint records of the metrics file."""
        if self.metrics is None:
            return {}
        return {"metrics_bytes": self.metrics.settle(), "metrics_sha256": self.metrics.sha256}

    def close(self) -> None:
        """Nothing is written after this."""
        for file in (self.metrics, self.board):
            if file is not None:
                file.close()
