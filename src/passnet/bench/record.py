"""A benchmark run as a dated file, and its numbers as ratios."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from passnet.bench.measure import Row
from passnet.config.contender import FLOAT32, GRAPH, OURS, TF32, ContenderName, read_name
from passnet.training.machine import commit, machine, versions


def record(rows: Sequence[Row], *, device: str, measured: str | None = None) -> dict[str, Any]:
    """The rows with everything needed to judge them."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(torch.device(device)),
        "versions": versions() | {"cudnn": torch.backends.cudnn.version()},
        "commit": measured or commit(),
        "rows": [row.record() for row in rows],
    }


def write(content: dict[str, Any], path: Path) -> None:
    """One JSON file, a row a line."""
    head = {key: value for key, value in content.items() if key != "rows"}
    lines = ",\n".join(f"  {json.dumps(row)}" for row in content["rows"])
    text = json.dumps(head, indent=1)[:-2] + f',\n "rows": [\n{lines}\n ]\n}}\n'
    path.write_text(text)


def ratios(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """How many times as long as passnet each other contender took, case by case.

    `ratio` is to our layer in float32, called as it is; `like`, of others, to ours in the same
    precision and the same way (as a graph, in one thread, in graphed calls), None where it was not
    timed so.
    """
    times = {(_case(row), row.contender): row.milliseconds for row in rows}
    found = []
    for row in rows:
        case, ours = _case(row), times.get((_case(row), OURS))
        if row.contender == OURS or ours is None:
            continue
        name = read_name(row.contender)
        twin = None if name.ours else times.get((case, str(_twin(name))))
        like = None if twin is None else row.milliseconds / twin
        found.append(row.record() | {"ratio": row.milliseconds / ours, "like": like})
    return found


def _twin(name: ContenderName) -> ContenderName:
    """Our layer, run as somebody else's is; ours has no faster mode in float32."""
    precision = FLOAT32 if name.precision == TF32 else name.precision
    return ContenderName(OURS, precision, name.way)


def _case(row: Row) -> tuple[object, ...]:
    return row.shape, row.n, row.d, row.T, row.B, row.pass_


def growth(rows: Sequence[Row]) -> list[str]:
    """How our times grow where cases differ in one size only, doubled from each to the next.

    Those of CUDA graphs where there are any: of a call a part is the host's.
    """
    graph = str(ContenderName(OURS, way=GRAPH))
    ours = graph if any(row.contender == graph for row in rows) else OURS
    lines = []
    for size, rest in (("T", "d"), ("d", "T")):
        sweeps: dict[tuple[object, ...], list[Row]] = {}
        for row in rows:
            if row.contender == ours and row.shape.startswith(f"growth in {size}"):
                key = (row.shape, row.n, getattr(row, rest), row.B, row.pass_)
                sweeps.setdefault(key, []).append(row)
        for (_, n, other, batch, pass_), found in sweeps.items():
            if len(found) < 2:  # the others were filtered out
                continue
            found.sort(key=lambda row: getattr(row, size))
            times = [row.milliseconds for row in found]
            factors = ", ".join(f"{b / a:.2f}x" for a, b in pairwise(times))
            sizes = ", ".join(str(getattr(row, size)) for row in found)
            lines.append(
                f"n={n} {rest}={other} B={batch}, {pass_}, {size} = {sizes}:\n"
                f"  {', '.join(f'{t:.3f}' for t in times)} ms ({factors} for each doubling)"
            )
    return lines
