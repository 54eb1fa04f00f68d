"""What can be reproduced, by name: the paper's tables and figures, and rows of them."""

from __future__ import annotations

from dataclasses import dataclass

from passnet.config import ConfigurationError
from passnet.config.nearest import nearest
from passnet.experiments import names
from passnet.report.figures import figure_two_presets
from passnet.report.paper import BEYOND, ROWS, TABLES


@dataclass(frozen=True)
class Target:
    """A table or figure, and the presets whose runs it shows."""

    name: str
    title: str
    presets: tuple[str, ...]


def targets() -> tuple[Target, ...]:
    """The tables and figures by name, in the order of the report."""
    tables = {table.anchor: table for table in TABLES}
    copy = tuple(name for name in ROWS if name.startswith("copy-"))
    return (
        *(
            Target(anchor.replace("-", ""), tables[anchor].title, tables[anchor].presets)
            for anchor in ("table-1", "table-2")
        ),
        Target("copy", "Memory task, in its three forms", copy),
        Target("addition", tables["addition"].title, tables["addition"].presets),
        Target("highway", tables["highway"].title, tables["highway"].presets),
        Target("figure2", "Figure 2. Curves of copy, addition and table1", figure_two_presets()),
        Target("paper", "Every table and figure of the paper", ROWS),
        Target("beyond", BEYOND.title, BEYOND.presets),
        Target("all", "The paper and beyond", (*ROWS, *BEYOND.presets)),
    )


def find_target(name: str) -> Target:
    """The table or figure of that name, or the preset or the group of presets."""
    known = {target.name: target for target in targets()}
    spelled = "".join(letter for letter in name.casefold() if letter.isalnum())
    if spelled in known:
        return known[spelled]
    rows = tuple(preset for preset in names() if f"{preset}/".startswith(f"{name.rstrip('/')}/"))
    if rows and name:
        return Target(name.rstrip("/"), "Presets of this name", rows)
    if spelled == "figure1":
        raise ConfigurationError(
            "figure1 is a drawing of the structures, so there is nothing to run: "
            f"what can be reproduced is {_list(known)}"
        )
    if spelled in ("speed", "bench", "benchmark", "benchmarks"):
        raise ConfigurationError(
            f"{name}: timings are not runs that are trained: `passnet bench` takes them on this "
            "machine"
        )
    groups = dict.fromkeys(preset.partition("/")[0] for preset in names())
    found = nearest(name, [*known, *groups, *names()])
    hint = "" if found is None else f"perhaps you meant {found!r}; "
    raise ConfigurationError(
        f"nothing to reproduce is called {name!r}: {hint}what can be is {_list(known)}"
    )


def _list(known: dict[str, Target]) -> str:
    return f"{', '.join(known)}, or a preset or group of presets that `passnet list` shows"
