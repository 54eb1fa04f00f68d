"""SIGTERM, Ctrl-C and a closed terminal as requests that a run honours when it has saved itself."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import final

ASKED = (signal.SIGTERM, signal.SIGINT)
HANGUP = getattr(signal, "SIGHUP", None)
"""What a terminal that closes sends, from the kernel and from the shell, so often twice."""


@final
class Requests:
    """Within the context a first signal is only noted; a second one acts as it always did.

    A hangup is noted each time, and not where `nohup` has it ignored.
    """

    def __init__(self) -> None:
        self.signal: str | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> Requests:
        # Only the main thread may set handlers; elsewhere whoever runs the thread decides.
        if threading.current_thread() is threading.main_thread():
            asked = list(ASKED)
            if HANGUP is not None and signal.getsignal(HANGUP) is not signal.SIG_IGN:
                asked.append(HANGUP)
            self._before = {number: signal.signal(number, self._note) for number in asked}
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.signal = signal.Signals(number).name
        self._restore(*ASKED)

    def _restore(self, *numbers: int) -> None:
        for number in self._before.keys() & set(numbers):
            signal.signal(number, self._before.pop(number))  # pyright: ignore[reportArgumentType]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore(*self._before)
