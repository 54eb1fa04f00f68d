"""What the library says of its arguments, in the words of the command line's options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_AS_OPTIONS = (
    ("Use backend='auto'", "Use --backend auto"),
    ("train in another folder", "train in another folder (--out FOLDER)"),
)


def as_options(error: object) -> str:
    """The text of an error of a training run, with the options of `passnet train` in it."""
    text = str(error)
    for of_library, of_command in _AS_OPTIONS:
        text = text.replace(of_library, of_command)
    return text


@contextmanager
def in_options() -> Iterator[None]:
    """Errors of training runs are raised with the options of `passnet train` in their text."""
    try:
        yield
    except RuntimeError as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (as_options(error), *error.args[1:])
        raise
