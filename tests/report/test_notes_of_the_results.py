"""The notes beside the results in the repository: what they list is what the files say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from passnet.report.markdown import read_blocks
from passnet.report.numbers import score

RESULTS = Path(__file__).parents[2] / "results"
NOTES = (RESULTS / "NOTES.md").read_text()


def short(commit: str) -> str:
    digits, dirty, _ = commit.partition("-dirty")
    return digits[:7] + dirty


def commits() -> dict[str, tuple[str, str]]:
    """For each run with a result the commit that it began under and the one it ended under."""
    found = {}
    for file in RESULTS.rglob("result.json"):
        began = json.loads((file.parent / "experiment.json").read_text())["commit"]
        ended = json.loads(file.read_text())["commit"]
        place = str(file.parent.relative_to(RESULTS))
        found[place] = (short(began), short(ended))
    return found


def table(head: str) -> list[list[str]]:
    """The cells below the head of a table of the notes, which `head` begins."""
    tables = [block.text.splitlines() for block in read_blocks(NOTES) if block.kind == "table"]
    (lines,) = [lines for lines in tables if lines[0].startswith(head)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def runs_in(cell: str) -> list[str]:
    patterns = re.findall(r"`([^`]+)`", cell)
    found = {pattern: [f for f in RESULTS.glob(pattern) if f.is_dir()] for pattern in patterns}
    assert patterns and all(found.values()), found
    return [str(folder.relative_to(RESULTS)) for folders in found.values() for folder in folders]


def test_all_runs_that_were_trained_under_two_commits_are_listed():
    listed = {
        run: (began, ended)
        for began, ended, runs in table("| began | ended |")
        for run in runs_in(runs)
    }
    assert listed == {run: pair for run, pair in commits().items() if pair[0] != pair[1]}


def test_all_runs_of_a_dirty_commit_are_listed():
    listed = {
        run: commit for commit, runs, _ in table("| commit | runs |") for run in runs_in(runs)
    }
    dirty = {}
    for run, pair in commits().items():
        for commit in pair:
            if commit.endswith("-dirty"):
                dirty[run] = commit
    assert listed == dirty


@pytest.mark.parametrize(
    ("number", "recipe", "trials"),
    [
        (0, "beyond/psmnist-42k/seed-0", "beyond/psmnist-42k-trials"),
        (1, "beyond/psmnist-21k/seed-0", "beyond/psmnist-21k-trials"),
        (2, "", "beyond/psmnist-pooled"),
    ],
)
def test_the_trials_in_the_tables_have_the_scores_of_their_files(number, recipe, trials):
    tables = [block.text.splitlines() for block in read_blocks(NOTES) if block.kind == "table"]
    lines = [lines for lines in tables if lines[0].startswith("| trial |")][number]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    seen = set()
    for trial, epochs, validation, test, _ in rows:
        folder = RESULTS / (recipe if trial == "the recipe" else f"{trials}/{trial.strip('`')}")
        seen.add(folder.name)
        result = json.loads((folder / "result.json").read_text())
        experiment = json.loads((folder / "experiment.json").read_text())["experiment"]
        assert str(experiment["epochs"]) == epochs
        found = result["validation"].get("accuracy")
        assert [score("accuracy", found), score("accuracy", result["value"])] == [validation, test]
    there = {folder.name for folder in (RESULTS / trials).iterdir()}
    assert seen == there | ({"seed-0"} if recipe else set())


def test_lines_are_short_enough_to_read():
    lines = [line for line in NOTES.splitlines() if not line.startswith("|")]
    assert max(map(len, lines)) <= 110
