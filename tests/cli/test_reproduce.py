"""`passnet reproduce`: plans, runs what is missing, publishes it, and rebuilds page and README."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from passnet.cli import main
from passnet.cli.reproduction import batches, train_and_publish
from passnet.config import LowRank, Model, RmsProp
from passnet.experiments import get, registry
from passnet.report import readme_disagreement
from passnet.report.plan import Places
from passnet.report.targets import targets

ADDITION = "addition-750/lr-gru-128-24"
RESULTS = Path(__file__).parents[2] / "results"
PUBLISHED = ["experiment.json", "metrics.jsonl", "result.json"]


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The paper's addition row made small, in a folder with a README that shows results."""
    monkeypatch.chdir(tmp_path)
    paper = get(ADDITION)
    small = replace(
        paper,
        task=replace(paper.task, steps=6, train_size=40, eval_size=20),
        model=Model(size=8, matrix=LowRank(2)),
        updates=8,
        evaluate_every=4,
        batch_size=4,
    )
    monkeypatch.setitem(registry._PRESETS, ADDITION, small)
    (tmp_path / "README.md").write_text("# made up\n\n<!-- results -->\n<!-- /results -->\n")
    return small


def reproduce(*arguments: str) -> int:
    return main(["reproduce", *arguments, "--device", "cpu"])


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def no_training(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("nothing should be trained")

    monkeypatch.setattr("passnet.training.together.train_together", refuse)


def test_a_table_is_run_published_and_reported(tiny, tmp_path, capsys, monkeypatch):
    assert reproduce("addition", "--seeds", "2") == 0
    said = capsys.readouterr()
    assert "2 runs: 2 missing" in said.err and "wrote report.html and README.md" in said.err
    (row,) = [line for line in said.out.splitlines() if line.startswith(f"{ADDITION}  ")]
    assert "0.003" in row and "not run" not in row
    for seed in (0, 1):
        folder = tmp_path / "results" / ADDITION / f"seed-{seed}"
        assert sorted(path.name for path in folder.iterdir()) == PUBLISHED
        assert json.loads((folder / "result.json").read_text())["seed"] == seed
    assert f"{ADDITION}/seed-1" in (tmp_path / "report.html").read_text()
    assert readme_disagreement("README.md", ["results"]) is None
    assert f"| `{ADDITION}` |" in (tmp_path / "README.md").read_text()

    before = files(tmp_path / "results")
    no_training(monkeypatch)
    assert reproduce("addition", "--seeds", "2", "--json", "--quiet") == 0
    said = capsys.readouterr()
    record = json.loads(said.out)
    assert [run["state"] for run in record["runs"]] == ["there", "there"]
    assert all(run["value"] is not None for run in record["runs"])
    assert record["written"] == ["report.html", "README.md"] and said.err == ""
    assert files(tmp_path / "results") == before


def test_what_is_said_of_all_rows_is_said_once(tmp_path, capsys, monkeypatch):
    shutil.copytree(RESULTS / "psmnist", tmp_path / "results" / "psmnist")
    monkeypatch.chdir(tmp_path)
    no_training(monkeypatch)
    assert reproduce("table1", "--seeds", "1", "--quiet") == 0
    said = capsys.readouterr().out
    assert said.count("validated every 3000 updates") == 1
    rest = "validated every 3000 updates, not 300; otherwise the paper's protocol"
    assert said.endswith(f"Every row that was run: {rest}.\n")
    assert said.startswith("Table 1. Sequential permuted MNIST\n") and "Table 2" not in said


def test_a_further_seed_is_all_that_is_run(tiny, tmp_path, capsys):
    assert reproduce("addition", "--seeds", "1", "--quiet") == 0
    before = files(tmp_path / "results")
    assert reproduce("addition", "--seeds", "0,5", "--quiet") == 0
    after = files(tmp_path / "results")
    assert {name.split("/")[2] for name in after.keys() - before.keys()} == {"seed-5"}
    assert before.items() <= after.items()


def test_what_train_has_finished_is_only_copied(tiny, tmp_path, capsys, monkeypatch):
    assert main(["train", ADDITION, "--device", "cpu", "--quiet"]) == 0
    no_training(monkeypatch)
    assert reproduce("addition", "--seeds", "1", "--dry-run") == 0
    assert "1 run: 1 finished and to be copied" in capsys.readouterr().out
    assert reproduce("addition", "--seeds", "1", "--quiet") == 0
    result = tmp_path / "results" / ADDITION / "seed-0" / "result.json"
    assert result.read_bytes() == (tmp_path / "runs" / ADDITION / "seed-0/result.json").read_bytes()


@pytest.mark.parametrize("folder", ["runs", "results"])
def test_a_run_of_other_settings_is_not_overwritten(tiny, tmp_path, capsys, folder):
    place = f"{folder}/{ADDITION}/seed-1"
    train = ["train", ADDITION, "--set", "batch_size=5", "--seed", "1", "--out", place]
    assert main([*train, "--device", "cpu", "--quiet"]) == 0
    before = files(tmp_path)
    capsys.readouterr()
    assert reproduce("addition", "--seeds", "2", "--dry-run") == 0
    assert f"blocked: {place} holds a run with batch_size=5" in capsys.readouterr().out
    assert reproduce("addition", "--seeds", "2") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and place in said and "batch_size=5" in said and "move" in said
    assert files(tmp_path) == before


def test_a_seed_that_diverges_counts_as_failed(tiny, tmp_path, capsys, monkeypatch):
    broken = replace(tiny, optimiser=RmsProp(1e30), clipping=None)
    monkeypatch.setitem(registry._PRESETS, ADDITION, broken)
    assert reproduce("addition", "--seeds", "1") == 0
    said = capsys.readouterr()
    assert f"passnet: {ADDITION} seed 0 diverged at update" in said.err
    assert "diverged at update" in said.out and "  0 (1 diverged)  " in said.out
    result = json.loads((tmp_path / "results" / ADDITION / "seed-0/result.json").read_text())
    assert result["value"] is None and result["stopped"].startswith("diverged: ")
    assert "*diverged at update" in (tmp_path / "README.md").read_text()
    no_training(monkeypatch)
    assert reproduce("addition", "--seeds", "1", "--dry-run") == 0
    assert "0 (failed)" in capsys.readouterr().out


def test_a_run_that_cannot_go_on_does_not_hold_up_the_others(tiny, tmp_path, capsys):
    fcntl = pytest.importorskip("fcntl")
    folder = tmp_path / "runs" / ADDITION / "seed-0"
    folder.mkdir(parents=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert reproduce("addition", "--seeds", "2", "--quiet") == 1
    assert "seed 0 failed: another process trains" in capsys.readouterr().err
    done = [path.name for path in (tmp_path / "results" / ADDITION).iterdir()]
    assert done == ["seed-1"]
    assert readme_disagreement("README.md", ["results"]) is None


@pytest.mark.parametrize(
    ("option", "place", "words"),
    [
        ("--out", "nowhere/report.html", "no folder nowhere"),
        ("--out", "taken", "is a folder"),
        ("--out", "pipe", "not a regular file"),
        ("--results", "README.md", "README.md is a file"),
        ("--results", "README.md/inner", "README.md is a file"),
        ("--runs", "README.md", "README.md is a file"),
    ],
)
def test_places_that_cannot_be_written_show_before_training(
    tiny, tmp_path, capsys, monkeypatch, option, place, words
):
    no_training(monkeypatch)
    (tmp_path / "taken").mkdir()
    os.mkfifo(tmp_path / "pipe")
    before = files(tmp_path)
    for more in ([], ["--dry-run"]):
        assert reproduce("addition", option, place, *more) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1
        assert said.err.startswith(f"passnet: {option} {place}: ") and words in said.err
    assert files(tmp_path) == before


@pytest.mark.parametrize("option", ["--results", "--runs"])
def test_a_closed_folder_shows_before_training(tiny, tmp_path, capsys, monkeypatch, option):
    no_training(monkeypatch)
    closed = tmp_path / "closed"
    closed.mkdir()
    opened = tempfile.TemporaryFile

    def open_elsewhere(*, dir):
        if Path(dir).resolve() == closed:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(dir=dir)

    monkeypatch.setattr("tempfile.TemporaryFile", open_elsewhere)
    assert reproduce("addition", option, "closed", "--dry-run") == 0
    capsys.readouterr()
    assert reproduce("addition", option, "closed") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "nothing can be written in closed (Permission denied)" in said
    # What is in the way may also lie deeper.
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / ADDITION.split("/")[0]).touch()
    assert reproduce("addition", option, "deep") == 2
    assert "is a file" in capsys.readouterr().err


@pytest.mark.parametrize("device", ["bogus", "cuda"])
def test_a_device_that_is_not_there_shows_before_training(
    tiny, tmp_path, capsys, monkeypatch, device
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    no_training(monkeypatch)
    assert main(["reproduce", "addition", "--device", device]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"passnet: device '{device}' was asked for") and said.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


def test_each_run_is_published_when_it_ends(tiny, tmp_path, monkeypatch):
    from passnet.training import together

    experiments = [replace(tiny, seed=seed) for seed in (0, 1)]
    places, there = Places(tmp_path / "results", tmp_path / "runs"), []
    begun = together.Session._begin

    def begin(session):
        there.append(sorted(path.parent.name for path in places.results.rglob("result.json")))
        begun(session)

    monkeypatch.setattr(together.Session, "_begin", begin)
    options = {"device": "cpu", "data_dir": None, "quiet": True}
    assert train_and_publish(experiments, places, **options) == 0
    assert there == [[], ["seed-0"]]
    assert all((places.result(experiment) / "result.json").is_file() for experiment in experiments)


@pytest.mark.parametrize("text", ["# no marks\n", None])
def test_a_readme_without_marks_is_left_alone(tiny, tmp_path, capsys, text):
    readme = tmp_path / "README.md"
    readme.unlink()
    if text is not None:
        readme.write_text(text)
    assert reproduce("addition", "--seeds", "1", "--quiet") == 0
    assert (readme.read_text() if readme.exists() else None) == text


def test_a_readme_elsewhere_is_left_alone(tiny, tmp_path):
    before = (tmp_path / "README.md").read_text()
    assert reproduce("addition", "--seeds", "1", "--quiet", "--results", "far/results") == 0
    assert (tmp_path / "README.md").read_text() == before


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["tabel1"], ["'tabel1'", "perhaps you meant 'table1'", "table2", "figure2", "all"]),
        (["figure1"], ["drawing", "figure2"]),
        (["speed"], ["speed: timings are not runs", "`passnet bench`"]),
        (["psmnist/lrd-gru-256-42"], ["perhaps you meant 'psmnist/lrd-gru-256-24'"]),
        (["table1", "--seeds", "0"], ["--seeds 0", "how many"]),
        (["table1", "--seeds", "many"], ["many", "0..4"]),
        (["table1", "--runs", "results"], ["--results and --runs are both results"]),
    ],
)
def test_mistakes_end_in_one_sentence(arguments, parts, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("passnet: ") and said.count("\n") == 1
    for part in parts:
        assert part in said
    assert list(tmp_path.iterdir()) == []


def test_help_names_everything_there_is(capsys):
    with pytest.raises(SystemExit):
        main(["reproduce", "--help"])
    shown = [line for line in capsys.readouterr().out.splitlines() if line.endswith(" runs")]
    lines = {line.split()[0]: line for line in shown}
    for target in targets():
        rows = len(target.presets)
        assert f" {rows} row" in lines[target.name] and f" {3 * rows} runs" in lines[target.name]


def test_a_dry_run_needs_no_torch_and_writes_nothing(tmp_path):
    code = (
        "import sys\nfrom passnet.cli import main\n"
        "status = main(['reproduce', 'all', '--dry-run', '--json'])\n"
        "assert not {'torch', 'numpy', 'altair'} & set(sys.modules)\nsys.exit(status)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    record = json.loads(done.stdout)
    assert len(record["runs"]) == 3 * len(targets()[-1].presets)
    assert {run["state"] for run in record["runs"]} == {"missing"}
    assert list(tmp_path.iterdir()) == []


def test_runs_share_a_gpu_and_take_turns_on_a_cpu(monkeypatch):
    names = ("quick/copy", "char-lm/lrd-gru-1000-64", ADDITION, "char-lm/lstm-1000-dropout")
    experiments = [replace(get(name), seed=seed) for name in names for seed in range(5)]
    copies, gru, additions, lstm = (experiments[i : i + 5] for i in range(0, 20, 5))
    assert batches(experiments, "cpu") == [[experiment] for experiment in experiments]
    chosen = "passnet.training.distributed.choose_device"
    monkeypatch.setattr(chosen, lambda device: torch.device("cuda", 0))
    assert batches(experiments, None) == [[*copies, *additions], gru, lstm]
    assert batches(gru, None) == [gru]
    assert batches([], None) == []


DRIVER = """
import sys
from dataclasses import replace
from passnet.cli import main
from passnet.config import apply_overrides
from passnet.experiments import get, registry

settings = ["updates=400", "evaluate_every=50", "batch_size=4", "model.size=16",
            "model.matrix=LowRank(4)", "task.lag=5", "task.eval_size=50"]
registry._PRESETS["tiny/copy"] = replace(
    apply_overrides(get("quick/copy"), settings), name="tiny/copy")
sys.exit(main(sys.argv[1:]))
"""


def start(folder: Path, *options: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, "reproduce", "tiny", *options],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_stopped_by_a_signal_the_same_command_goes_on(tmp_path):
    options = ("--seeds", "2", "--device", "cpu", "--quiet")
    metrics = tmp_path / "runs/tiny/copy/seed-0/metrics.jsonl"
    process = start(tmp_path, *options)
    while not metrics.exists() or metrics.read_bytes().count(b"\n") < 10:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 130
    assert said.startswith("passnet: ") and said.count("\n") == 1, said
    assert "tiny/copy seed 0 is saved in runs" in said and "the same command resumes" in said
    assert not (tmp_path / "results").exists()

    plan = json.loads(start(tmp_path, "--seeds", "2", "--dry-run", "--json").communicate()[0])
    assert [run["state"] for run in plan["runs"]] == ["unfinished", "missing"]
    reached = plan["runs"][0]["update"]
    assert 0 < reached < 400
    shown = start(tmp_path, "--seeds", "2", "--dry-run").communicate()[0]
    assert f"0 (update {reached})" in shown and "1 to resume, 1 missing" in shown

    process = start(tmp_path, *options)
    assert process.communicate(timeout=120)[1] == "" and process.returncode == 0
    for seed in (0, 1):
        folder = tmp_path / f"results/tiny/copy/seed-{seed}"
        assert sorted(path.name for path in folder.iterdir()) == PUBLISHED
        assert json.loads((folder / "result.json").read_text())["updates"] == 400


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_between_runs_the_same_command_goes_on(tmp_path, number):
    code = (
        "import signal, sys\nimport passnet.report\nfrom passnet.cli import main\n"
        f"passnet.report.write_page = lambda *a, **k: signal.raise_signal({int(number)})\n"
        "sys.exit(main(['reproduce', 'addition', '--quiet']))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 130
    assert done.stderr == f"passnet: stopped by {number.name}; the same command resumes\n"
