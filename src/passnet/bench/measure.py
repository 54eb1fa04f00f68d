"""Timing that can be trusted: checked first, interleaved, medians, one run for everybody."""

from __future__ import annotations

import contextlib
import copy
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from passnet.bench.cases import Case
from passnet.bench.check import check
from passnet.bench.contenders import STEPWISE, Among, Contender, contenders, gradients, states
from passnet.bench.memory import peak_bytes
from passnet.config.contender import GRAPH, GRAPHED, ONE_THREAD, OURS, ContenderName, read_name

Listener = Callable[[str], None]
STEPWISE_REPEATS = 4
"""Contenders that pay for every step in Python are timed fewer times than the others."""
TOGETHER, IN_A_ROW, STEPS_IN_A_ROW = 20.0, 20, 100
"""On a GPU calls are timed together, as in training: so many milliseconds of them, but at most
twenty. Steps of a stream are timed by the hundred everywhere."""
WARMING = 5
"""One more for each so many comes before those and is not timed: what ran last has filled the
caches with its own, as nothing does in a training loop or a stream."""


@dataclass(frozen=True)
class Row:
    """One measured number, as it stands in benchmarks/results."""

    shape: str
    n: int
    d: int
    T: int
    B: int
    dtype: str
    pass_: str
    contender: str
    milliseconds: float
    spread: float
    peak_bytes: int | None
    backend: str | None = None

    def record(self) -> dict[str, Any]:
        """The row as JSON values."""
        plain = asdict(self)
        return {("pass" if key == "pass_" else key): value for key, value in plain.items()}


def measure(
    case: Case,
    *,
    device: str,
    repeats: int,
    among: Among = "everyone",
    steps: bool = True,
    listener: Listener = print,
) -> list[Row]:
    """Contenders on one case: forward, forward and backward, and one streaming step, if asked."""
    if among == "everyone":
        torch.compiler.reset()  # every case compiles its own loop
    found = contenders(case, device=device, among=among)
    torch.manual_seed(1)
    x = torch.randn(case.T, case.B, case.m, device=device)
    grad = torch.randn(case.T, case.B, case.n, device=device)
    check(case, found, x, grad)
    rows = []
    for pass_ in ("forward", "forward+backward"):
        listener(f"{case.label}, {pass_}")
        works = dict(_works(found, x, grad, pass_))
        rows += _timed(case, found, works, pass_, device, repeats)
    if not steps:
        return rows
    listener(f"{case.label}, one step")
    return rows + _steps(case, found, device, repeats)


def _works(
    found: dict[str, Contender], x: Tensor, grad: Tensor, pass_: str
) -> Iterator[tuple[ContenderName, Callable[[], object]]]:
    for name, contender in ((read_name(text), contender) for text, contender in found.items()):
        inputs, upstream = x.to(contender.dtype), grad.to(contender.dtype)
        if pass_ == "forward":
            work = _without_grad(lambda c=contender, i=inputs: states(c.layer, i))
        else:
            work = gradients(contender.layer, inputs, upstream)
        yield name, work
        if x.is_cuda and name.layer not in STEPWISE:
            captured = _captured(contender, work)
            if captured is not None:
                yield replace(name, way=GRAPH), captured
            if pass_ == "forward+backward" and contender.plain:
                yield replace(name, way=ONE_THREAD), _in_one_thread(work)
                graphed = _graphed(contender, inputs, upstream)
                if graphed is not None:
                    yield replace(name, way=GRAPHED), graphed


def _without_grad(work: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        with torch.no_grad():
            return work()

    return run


def _in_one_thread(work: Callable[[], object]) -> Callable[[], object]:
    """The same work without autograd's thread for the GPU: short calls wait for that one."""

    def run() -> object:
        with torch.autograd.set_multithreading_enabled(False):
            return work()

    return run


def _captured(contender: Contender, work: Callable[[], object]) -> Callable[[], object] | None:
    """The same work as one CUDA graph, or None where it cannot be captured."""
    stream = torch.cuda.Stream()
    try:
        with contender.precision(), torch.cuda.stream(stream):
            for _ in range(3):
                work()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with contender.precision(), torch.cuda.graph(graph):
            work()
    except RuntimeError:
        torch.cuda.synchronize()
        return None
    return graph.replay


def _graphed(contender: Contender, inputs: Tensor, upstream: Tensor) -> Callable[[], object] | None:
    """A training loop's own calls of the layer, each pass of which is a graph; None as above."""
    layer = copy.deepcopy(contender.layer)  # its forward is replaced
    layer.flatten_parameters()  # copies of torch.nn's lie apart, and would be put together anew
    try:
        with contender.precision():
            torch.cuda.make_graphed_callables(layer, (inputs,))
    except RuntimeError:
        torch.cuda.synchronize()
        return None
    return gradients(layer, inputs, upstream)


def _timed(
    case: Case,
    found: dict[str, Contender],
    works: dict[ContenderName, Callable[[], object]],
    pass_: str,
    device: str,
    repeats: int,
) -> list[Row]:
    """A row for each work of a pass: its memory, then its times, taken in turn with the others."""
    peaks: dict[ContenderName, int | None] = {}
    calls: dict[ContenderName, int] = {}
    for name, work in works.items():
        with _of(found, name).precision():
            work()
            # What a graph needs it has taken when it was made, and takes nothing when it is run.
            graphed = name.way in (GRAPH, GRAPHED)
            peaks[name] = None if graphed else peak_bytes(work, device)
            rough = partial(_milliseconds, work, device, 2)
            calls[name] = _calls(name, pass_, device, rough)
    return [
        Row(
            shape=case.label.split(" n=")[0],
            n=case.n,
            d=case.d,
            T=case.T,
            B=case.B,
            dtype=str(_of(found, name).dtype).removeprefix("torch."),
            pass_=pass_,
            contender=str(name),
            milliseconds=round(statistics.median(samples), 4),
            spread=round(max(samples) - min(samples), 4),
            peak_bytes=peaks[name],
            backend=_backend(_of(found, name), case, device),
        )
        for name, samples in _samples(found, works, calls, device, repeats).items()
    ]


def _samples(
    found: dict[str, Contender],
    works: dict[ContenderName, Callable[[], object]],
    calls: dict[ContenderName, int],
    device: str,
    repeats: int,
) -> dict[ContenderName, list[float]]:
    """Milliseconds of a call in each turn; contenders that go step by step sit some turns out."""
    times: dict[ContenderName, list[float]] = {name: [] for name in works}
    with _no_collection():
        for repeat in range(repeats):
            for name, work in works.items():
                if name.layer in STEPWISE and repeat >= STEPWISE_REPEATS:
                    continue
                with _of(found, name).precision():
                    times[name].append(_milliseconds(work, device, calls[name]))
    return times


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Python collects its garbage before, not while somebody is timed."""
    was = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _steps(case: Case, found: dict[str, Contender], device: str, repeats: int) -> list[Row]:
    """Latency of one step for one sequence: our streaming step against torch's cell."""
    x = torch.randn(1, case.m, device=device)
    ours = found[OURS].layer.eval()
    kind = torch.nn.GRUCell if case.cell == "gru" else torch.nn.LSTMCell
    cell = kind(case.m, case.n, device=device)
    name = f"nn.{kind.__name__}"
    state = ours.step(x)[1]
    start = torch.zeros(1, case.n, device=device)
    theirs = start if case.cell == "gru" else (start, start)
    works = {
        ContenderName(OURS): lambda: ours.step(x, state),
        ContenderName(name): lambda: cell(x, theirs),
    }
    one = replace(case, T=1, B=1)
    cells = {OURS: found[OURS], name: Contender("cell", cell)}
    # Milliseconds on a CPU that others use too: more of them.
    often = max(repeats, 30 if device == "cpu" else 0)
    # A stream stops recording gradients once, not at every step.
    with torch.no_grad():
        rows = _timed(one, cells, works, "one step", device, often)
    ours.train()
    return rows


def _of(found: dict[str, Contender], name: ContenderName) -> Contender:
    return found[str(name.called)]


def _backend(contender: Contender, case: Case, device: str) -> str | None:
    explain = getattr(contender.layer, "explain_backends", None)
    if explain is None:
        return None
    if contender.layer.backend != "auto":
        return contender.layer.backend
    x = torch.zeros(case.T, case.B, case.m, device=device, dtype=contender.dtype)
    return next(name for name, reason in explain(x).items() if reason is None)


def _calls(name: ContenderName, pass_: str, device: str, rough: Callable[[], float]) -> int:
    """How many calls are timed together, by what one takes roughly where that decides."""
    if pass_ == "one step":
        return STEPS_IN_A_ROW
    if device == "cpu" or name.layer in STEPWISE:
        return 1
    return max(1, min(IN_A_ROW, round(TOGETHER / rough())))


def _milliseconds(work: Callable[[], object], device: str, calls: int) -> float:
    """Of one call among several in a row, behind some that are not timed; on a GPU nothing waits
    for each."""
    for _ in range(calls // WARMING):
        work()
    if device == "cpu":
        start = time.perf_counter()
        for _ in range(calls):
            work()
        return 1e3 * (time.perf_counter() - start) / calls
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    for _ in range(calls):
        work()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / calls
