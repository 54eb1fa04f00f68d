"""SIGTERM and Ctrl-C as requests that a run honours when it has saved itself."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import final

ASKED = (signal.SIGTERM, signal.SIGINT)


@final
class Requests:
    """Within the context a first signal is only noted; a second one acts as it always did."""

    def __init__(self) -> None:
        self.signal: str | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> Requests:
        # Only the main thread may set handlers; elsewhere whoever runs the thread decides.
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in ASKED}
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.signal = signal.Signals(number).name
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]
        self._before = {}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()
