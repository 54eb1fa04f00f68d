"""Whatever ends or damages a run, it says so in a sentence and resuming ends at the same bits."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
from safetensors.numpy import load as load_safetensors

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and mounts are POSIX")

UPDATES = 240
SETTINGS = (
    f"updates={UPDATES}",
    "evaluate_every=20",
    "batch_size=4",
    "model.size=16",
    "model.matrix=LowRank(4)",
    "task.lag=5",
    "task.eval_size=50",
)
PICKLES = (*(b"\x80" + bytes([protocol]) for protocol in range(2, 6)), b"PK\x03\x04")


def start(
    folder: Path,
    *options: str,
    settings: tuple[str, ...] = SETTINGS,
    stderr: int | IO[str] = subprocess.PIPE,
) -> subprocess.Popen:
    command = [sys.executable, "-m", "passnet", "train", "quick/copy", "--set", *settings]
    return subprocess.Popen(
        [*command, "--device", "cpu", *options, "--out", str(folder)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def end(process: subprocess.Popen) -> tuple[int, str]:
    """The exit status and what was said on stderr, which is never a traceback."""
    _, said = process.communicate(timeout=120)
    assert "Traceback" not in said, said
    return process.returncode, said


def train(folder: Path, *options: str, settings: tuple[str, ...] = SETTINGS) -> tuple[int, str]:
    return end(start(folder, *options, settings=settings))


def finish(folder: Path) -> None:
    status, said = train(folder, "--quiet")
    assert status == 0
    # A kill within a save leaves a file that the next start mentions; nothing else is said.
    assert all("its save was cut short" in line for line in said.splitlines()), said


def last_update(folder: Path) -> int:
    try:
        lines = (folder / "metrics.jsonl").read_bytes().split(b"\n")
    except FileNotFoundError:
        return 0
    # The piece after the last line end may be half a line.
    return json.loads(lines[-2])["update"] if len(lines) > 1 else 0


def reach(process: subprocess.Popen, folder: Path, update: int) -> None:
    """Wait until the run has logged this update."""
    while last_update(folder) < update:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def assert_equal_runs(folder: Path, other: Path) -> None:
    for name in ("metrics.jsonl", "weights.safetensors"):
        assert (folder / name).read_bytes() == (other / name).read_bytes(), name
    results = [json.loads((run / "result.json").read_bytes()) for run in (folder, other)]
    for result in results:
        del result["seconds"]
    assert results[0] == results[1]


def assert_one_sentence(said: str) -> None:
    assert said.startswith("passnet: ") and said.count("\n") == 1 and said.endswith("\n"), said


def newest(folder: Path, suffix: str) -> Path:
    return max((folder / "checkpoints").glob(f"update-*{suffix}"))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    finish(folder)
    return folder


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> tuple[Path, dict[signal.Signals, tuple[int, str]]]:
    """A run stopped twice, which so has two checkpoints, and what each stop said."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    ends = {}
    for number, update in ((signal.SIGTERM, 20), (signal.SIGINT, 70)):
        process = start(folder, "--quiet")
        reach(process, folder, update)
        process.send_signal(number)
        ends[number] = end(process)
    return folder, ends


@pytest.fixture
def half(stopped, tmp_path) -> Path:
    """A fresh copy of the run that was stopped half way."""
    return Path(shutil.copytree(stopped[0], tmp_path / "run"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_a_sentence(stopped, number):
    status, said = stopped[1][number]
    assert status == 130
    assert_one_sentence(said)
    assert number.name in said and str(stopped[0]) in said


INTERRUPTING = """
import signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            signal.raise_signal({number})

sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.parametrize(
    ("number", "module"), [(signal.SIGTERM, "torch.nn"), (signal.SIGINT, "numpy.linalg")]
)
def test_a_signal_while_the_libraries_load_leaves_a_sentence(tmp_path, monkeypatch, number, module):
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    # Python runs this file first, so the signal falls on the same moment every time.
    text = INTERRUPTING.format(module=module, number=int(number))
    (hooks / "sitecustomize.py").write_text(text)
    paths = [str(hooks), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    status, said = train(tmp_path / "run", "--quiet")
    assert status == 130
    assert_one_sentence(said)


def kill(process: subprocess.Popen) -> None:
    process.kill()
    assert end(process) == (-signal.SIGKILL, "")


def test_killed_before_any_checkpoint(tmp_path, uninterrupted):
    folder = tmp_path / "run"
    process = start(folder, "--quiet")
    reach(process, folder, random.randrange(1, UPDATES // 2))
    kill(process)
    finish(folder)
    assert_equal_runs(folder, uninterrupted)


def test_killed_at_random_moments_after_a_checkpoint(half, uninterrupted):
    process = start(half, "--quiet")
    time.sleep(random.uniform(0, 1))
    kill(process)

    process = start(half, "--quiet")
    reach(process, half, last_update(half) + random.randrange(1, 50))
    kill(process)

    # The signal makes it save, so this kill may fall into the saving.
    process = start(half, "--quiet")
    reach(process, half, last_update(half) + 1)
    process.terminate()
    time.sleep(random.uniform(0, 0.03))
    process.kill()
    assert end(process)[0] in (-signal.SIGKILL, 130)

    finish(half)
    assert_equal_runs(half, uninterrupted)


def flip_a_bit(folder: Path) -> None:
    path = newest(folder, ".safetensors")
    data = bytearray(path.read_bytes())
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path.write_bytes(data)


def truncate(folder: Path) -> None:
    path = newest(folder, ".safetensors")
    os.truncate(path, random.randrange(path.stat().st_size))


def put_noise_as_manifest(folder: Path) -> None:
    newest(folder, ".json").write_bytes(random.randbytes(1000))


def put_foreign_json_as_manifest(folder: Path) -> None:
    newest(folder, ".json").write_text('{"name": "another-tool", "files": ["index.js"]}')


@pytest.mark.parametrize(
    "damage", [flip_a_bit, truncate, put_noise_as_manifest, put_foreign_json_as_manifest]
)
def test_a_damaged_newest_checkpoint_falls_back_aloud(
    half, uninterrupted, damage: Callable[[Path], None]
):
    damage(half)
    status, said = train(half)
    assert status == 0, said
    assert "warning: " in said and "falling back to update " in said, said
    assert_equal_runs(half, uninterrupted)


def test_falling_back_is_said_even_when_quiet(half):
    flip_a_bit(half)
    status, said = train(half, "--quiet")
    assert status == 0
    assert "falling back to update " in said


def test_another_experiment_in_the_folder_is_refused(half):
    before = contents(half)
    settings = (*SETTINGS[:2], "batch_size=5", *SETTINGS[3:])
    status, said = train(half, "--quiet", settings=settings)
    assert status in (1, 2)
    assert_one_sentence(said)
    assert "batch_size" in said
    assert contents(half) == before


def test_metrics_that_lost_their_last_bytes(half, uninterrupted):
    path = half / "metrics.jsonl"
    os.truncate(path, path.stat().st_size - 9)
    before = contents(half)
    status, said = train(half, "--quiet")
    if status == 0:
        assert_equal_runs(half, uninterrupted)
    else:
        assert status in (1, 2)
        assert_one_sentence(said)
        assert "metrics.jsonl" in said
        assert contents(half) == before


def test_a_second_process_is_refused_and_the_first_resumes_to_the_same_end(half, uninterrupted):
    first = start(half, "--quiet")
    try:
        reach(first, half, last_update(half) + 1)
        # Held still, it cannot finish before the second one has looked.
        first.send_signal(signal.SIGSTOP)
        before = contents(half)
        status, said = train(half, "--quiet")
        assert status in (1, 2)
        assert_one_sentence(said)
        assert contents(half) == before
        first.send_signal(signal.SIGCONT)
        assert end(first) == (0, "")
    finally:
        first.kill()
    assert_equal_runs(half, uninterrupted)


def test_a_folder_that_is_a_file(tmp_path):
    path = tmp_path / "run"
    path.write_text("mine")
    status, said = train(path, "--quiet")
    assert status in (1, 2)
    assert_one_sentence(said)
    assert path.read_text() == "mine"


def mount(folder: Path, options: str) -> None:
    command = ["mount", "-t", "tmpfs", "-o", options, "passnet-test", str(folder)]
    if os.geteuid() or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("cannot mount a tmpfs here")


@pytest.fixture
def disk(tmp_path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    yield folder
    subprocess.run(["umount", str(folder)], capture_output=True)


def test_a_full_disk_loses_nothing(disk, uninterrupted):
    # Room for what a run begins with, but not for its metrics and a checkpoint.
    mount(disk, "size=24k")
    status, said = train(disk / "run", "--quiet")
    assert status in (1, 2)
    assert_one_sentence(said)
    mount(disk, "remount,size=4m")
    finish(disk / "run")
    assert_equal_runs(disk / "run", uninterrupted)


def test_a_read_only_disk(disk):
    mount(disk, "ro")
    status, said = train(disk / "run", "--quiet")
    assert status in (1, 2)
    assert_one_sentence(said)


def test_a_run_does_not_end_because_nobody_reads_on(tmp_path, uninterrupted):
    process = start(tmp_path / "run")
    assert process.stderr is not None
    process.stderr.close()
    assert process.wait(120) == 0
    assert_equal_runs(tmp_path / "run", uninterrupted)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a stream that is always full")
def test_a_run_does_not_end_because_its_log_has_no_room(tmp_path, uninterrupted):
    with open("/dev/full", "w") as full:
        process = start(tmp_path / "run", stderr=full)
        assert process.wait(120) == 0
    assert_equal_runs(tmp_path / "run", uninterrupted)


def test_no_pickles_and_every_checkpoint_file_has_its_digest(stopped, uninterrupted):
    for folder in (stopped[0], uninterrupted):
        files = contents(folder)
        for name, data in files.items():
            assert not data.startswith(PICKLES), name
            if name.endswith(".safetensors"):
                assert load_safetensors(data), name
            elif name.endswith(".json"):
                json.loads(data)

        saved = {name for name in files if name.startswith("checkpoints/")}
        manifests = {name for name in saved if name.endswith(".json")}
        promised = {}
        for name in manifests:
            promised |= json.loads(files[name])["files"]
        assert manifests and {f"checkpoints/{name}" for name in promised} == saved - manifests
        for name, promise in promised.items():
            data = files[f"checkpoints/{name}"]
            assert promise["sha256"] == hashlib.sha256(data).hexdigest(), name
