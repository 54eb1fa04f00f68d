"""Errors a user can act on become one sentence and an exit status, not a traceback."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Sequence

from passnet.cli.packages import missing_package
from passnet.cli.streams import discard_output
from passnet.config.errors import ConfigurationError
from passnet.experiments import UnknownPreset
from passnet.tasks.data import DataError

USAGE, FAILED, INTERRUPTED = 2, 1, 130
_STATUSES = (
    ("passnet.training.errors", "Interrupted", INTERRUPTED),
    ("passnet.training.errors", "Refused", USAGE),
    ("passnet.training.errors", "RunError", FAILED),
    ("passnet.ops.backend", "BackendRefused", USAGE),
    ("passnet.export.errors", "Unexportable", USAGE),
    ("passnet.export.errors", "Disagreement", FAILED),
    ("passnet.report.errors", "NothingThere", USAGE),
    ("passnet.report.errors", "ReportError", FAILED),
    ("passnet.bench.check", "Wrong", FAILED),
)
"""Errors of other packages: module, class and exit status; the first that fits counts."""

_NO_MEMORY = (
    "there is not enough memory for this: make batch_size, model.size or the task's lengths smaller"
)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""What printing may end in; such errors name no file."""


def explained(command: Callable[[], int]) -> int:
    """Run a command; returns its exit status, or prints an expected error and returns its own."""
    try:
        return command()
    except (ConfigurationError, UnknownPreset, DataError) as error:
        return _say(error, USAGE)
    except BrokenPipeError:
        # The reader left, as `passnet list | head` does: not an error of ours.
        discard_output()
        return 0
    except ModuleNotFoundError as error:
        text = missing_package(error)
        if text is None:
            raise
        return _say(text, USAGE)
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except PermissionError as error:
        place = error.filename or "a file"
        return _say(f"{place}: {error.strerror}: change its permissions, or give another", USAGE)
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:
            raise
        return _unwritten(error)
    except MemoryError:
        return _say(_NO_MEMORY, FAILED)
    except RuntimeError as error:
        status = _status_of(error)
        if status is None and not _out_of_memory(error):
            raise
        return _say(_NO_MEMORY, FAILED) if status is None else _say(error, status)


def _out_of_memory(error: RuntimeError) -> bool:
    """Whether PyTorch found no memory, which on a CPU is an error without a name of its own."""
    return type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)


def flushed(status: int) -> int:
    """Write out what was printed; the status, or another where that cannot be done."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except OSError as error:
        return _unwritten(error)
    return status


def failure_status(errors: Sequence[RuntimeError]) -> int:
    """The status of several runs: 2 where every one that failed was refused, and 0 where none."""
    if not errors:
        return 0
    return USAGE if all(_status_of(error) == USAGE for error in errors) else FAILED


def _status_of(error: RuntimeError) -> int | None:
    """The status for errors of packages that need PyTorch; None for a fault of ours.

    Their classes are looked up among the loaded modules, so that `passnet list` need not import
    PyTorch to know them. A package that is missing can be installed, whatever needs it.
    """
    if isinstance(error.__cause__, ImportError):
        return USAGE
    for module, kind, status in _STATUSES:
        known = getattr(sys.modules.get(module), kind, None)
        if known is not None and isinstance(error, known):
            return status
    return None


def _unwritten(error: OSError) -> int:
    discard_output()
    reason = error.strerror or error
    return _say(f"output could not be written ({reason}): make room, or send it elsewhere", FAILED)


def _say(error: object, status: int) -> int:
    print(f"passnet: {error}", file=sys.stderr)
    return status
