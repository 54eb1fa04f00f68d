"""A row of the paper as one line of words: its number, ours, and what became of the seeds."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from passnet.config import experiment_parameter_counts
from passnet.experiments import get
from passnet.report import numbers
from passnet.report.describe import seeds_text, standing, updates_text
from passnet.report.groups import Group
from passnet.report.otherwise import otherwise
from passnet.report.paper import aim_remark, compare, paper_score, remarks

HEADER = (
    "preset", "parameters", "metric", "paper", "passnet", "seeds", "updates", "beside the paper",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """The words of a row; `scored` tells whether `ours` is a score or says why there is none."""

    preset: str
    parameters: str
    metric: str
    paper: str
    ours: str
    seeds: str
    updates: str
    verdict: str
    scored: bool

    @property
    def cells(self) -> tuple[str, ...]:
        """The words below `HEADER`."""
        start = (self.preset, self.parameters, self.metric, self.paper)
        return (*start, self.ours, self.seeds, self.updates, self.verdict)


def write_line(
    name: str, group: Group | None, groups: Iterable[Group] = (), *, said: Collection[str] = ()
) -> Line:
    """The line of a preset and its runs, if there are any, and what other `groups` say of it.

    Remarks that were `said` of the whole table are left out.
    """
    experiment = get(name)
    metric = experiment.metric
    done = group if group is not None and group.finished else None
    found = None if done is None else done.summary()
    verdict = compare(done)
    words = [] if verdict is None else [f"{verdict.word}, {verdict.text}"]
    words += aim_remark(experiment, done)
    words += [] if done is None else remarks(done, said)
    words += [] if verdict is None else otherwise(name, groups)
    return Line(
        preset=name,
        parameters=numbers.count(experiment_parameter_counts(experiment).model),
        metric=metric.replace("_", " "),
        paper=paper_score(experiment),
        ours=standing(group) if found is None else numbers.summary(metric, found),
        seeds="" if done is None else seeds_text(done),
        updates="" if done is None else updates_text(done),
        verdict="; ".join(words),
        scored=found is not None,
    )
