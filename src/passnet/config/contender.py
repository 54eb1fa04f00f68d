"""The name of a contender in a benchmark: whose layer, in which precision, called in which way."""

from __future__ import annotations

from dataclasses import dataclass, replace

OURS = "passnet"
PRECISIONS = FLOAT32, TF32, BF16, FP16 = "float32", "tf32", "bf16", "fp16"
WAYS = CALL, ONE_THREAD, GRAPHED, GRAPH = "call", "one thread", "graphed calls", "graph"
"""An ordinary call from Python; with the backward in the calling thread; as calls that
`make_graphed_callables` makes; all of it as one CUDA graph."""


@dataclass(frozen=True)
class ContenderName:
    """A layer, one of the precisions, and one of the ways to run it.

    As text, which files of timings hold, what is usual is left out: `nn.GRU bf16 graph`, `passnet`.
    """

    layer: str
    precision: str = FLOAT32
    way: str = CALL

    def __str__(self) -> str:
        words = (self.layer, self.precision, self.way)
        return " ".join(word for word in words if word not in (FLOAT32, CALL))

    @property
    def ours(self) -> bool:
        """Whether it is a layer of ours, on any backend."""
        return self.layer.partition(" ")[0] == OURS

    @property
    def called(self) -> ContenderName:
        """The same, called ordinarily."""
        return replace(self, way=CALL)


def read_name(text: str) -> ContenderName:
    """The name that its text stands for."""
    text, way = _ending(text, WAYS, CALL)
    layer, precision = _ending(text, PRECISIONS, FLOAT32)
    return ContenderName(layer, precision, way)


def _ending(text: str, known: tuple[str, ...], usual: str) -> tuple[str, str]:
    """What stands before the known words at the end of a text, and those."""
    found = next((words for words in known if text.endswith(f" {words}")), None)
    return (text, usual) if found is None else (text.removesuffix(f" {found}"), found)
