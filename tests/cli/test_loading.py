"""Commands before PyTorch is there: packages that are missing, Ctrl-C meanwhile, cheap refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import passnet
from passnet.cli.errors import USAGE, explained
from passnet.cli.packages import NEEDED, missing_package
from passnet.report.errors import ReportError

SOURCE = Path(passnet.__file__).parents[1]
ENTRY_POINT = "import sys; from passnet.cli import main; sys.exit(main())"


def python(*arguments: str, first: Path = SOURCE, cwd: Path | None = None):
    path = os.pathsep.join((str(first), str(SOURCE)))
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": path},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        # What was started in the background ignores Ctrl-C, and so would what it starts.
        preexec_fn=_heeding_ctrl_c if os.name == "posix" else None,
    )


def _heeding_ctrl_c():
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def without_packages(*words: str):
    """The command where nothing is installed: Python's -S leaves all packages out."""
    return python("-S", "-m", "passnet", *words)


@pytest.mark.parametrize("words", ["show quick/copy", "train quick/copy", "bench"])
def test_without_torch_a_command_is_one_sentence(words, tmp_path):
    done = python("-S", "-m", "passnet", *words.split(), cwd=tmp_path)
    said = f"passnet: PyTorch is not installed for this Python ({sys.executable}): "
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == said + "pip install 'torch>=2.9'\n"


def test_without_torch_doctor_still_tells_versions():
    done = without_packages("doctor")
    rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "PyTorch is not installed for this Python" in done.stderr
    assert rows["passnet"] == passnet.__version__
    assert rows["torch"] == rows["numpy"] == rows["jaxtyping"] == "not installed"
    found = json.loads(without_packages("doctor", "--json").stdout)
    assert found["versions"]["torch"] == "not installed"


def test_doctor_says_when_torch_is_broken(tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libtorch_cpu.so: no such file')\n")
    done = python("-m", "passnet", "doctor", first=tmp_path)
    assert done.returncode == 1 and done.stdout.startswith("package ")
    assert done.stderr == (
        "passnet: passnet's packages cannot be loaded (libtorch_cpu.so: no such file): install "
        "them again\n"
    )


def test_what_is_to_be_installed_is_what_the_project_declares():
    project = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text())["project"]
    assert [requirement for _, requirement in NEEDED.values()] == project["dependencies"]


def raising(error):
    def command():
        raise error

    return command


def test_other_modules_that_are_missing_are_a_fault_of_ours():
    error = ModuleNotFoundError("No module named 'passnet.none'", name="passnet.none")
    assert missing_package(error) is None
    with pytest.raises(ModuleNotFoundError):
        explained(raising(error))


def test_a_missing_extra_is_a_usage_error(capsys):
    error = ReportError("the page needs altair")
    error.__cause__ = ModuleNotFoundError(name="altair")
    assert explained(raising(error)) == USAGE
    assert capsys.readouterr().err == "passnet: the page needs altair\n"


needs_signals = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")


@needs_signals
@pytest.mark.parametrize("how", [["-m", "passnet"], ["-c", ENTRY_POINT]], ids=["-m", "script"])
def test_ctrl_c_while_the_command_line_loads_is_quiet(how, tmp_path):
    (tmp_path / "argparse.py").write_text("import os\nos.kill(os.getpid(), 2)\n")
    done = python(*how, "list", first=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@needs_signals
@pytest.mark.parametrize("words", ["show quick/copy", "doctor", "bench", "sample .", "evaluate ."])
def test_ctrl_c_while_torch_loads_is_a_sentence(words, tmp_path):
    # As extensions do, it makes something else of the exception.
    (tmp_path / "torch.py").write_text(
        "import os\ntry:\n    os.kill(os.getpid(), 2)\nexcept BaseException:\n    pass\n"
        "raise ImportError('half-way')\n"
    )
    (tmp_path / "experiment.json").touch()
    done = python("-m", "passnet", *words.split(), first=tmp_path, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "passnet: stopped by SIGINT; nothing was running\n"


@needs_signals
def test_a_second_ctrl_c_says_that_the_command_resumes(tmp_path):
    # Where a run noted the first one, the second is for whoever handled signals before it.
    code = (
        "import signal\nfrom passnet.cli import main\nimport passnet.training.loop as loop\n"
        "loop.train = lambda *a, **k: signal.raise_signal(signal.SIGINT)\n"
        "main(['train', 'quick/copy', '--out', 'run'])\n"
    )
    done = python("-c", code, cwd=tmp_path)
    assert done.returncode == 130
    assert done.stderr == (
        "passnet: stopped by SIGINT; the same command resumes from the newest checkpoint\n"
    )


def test_what_is_refused_cheaply_needs_no_torch(tmp_path):
    (tmp_path / "afile").touch()
    lines = [
        "sample nofolder",
        "evaluate nofolder",
        "evaluate .",
        "sample . --device tpu",
        "train quick/copy --device tpu",
        "train quick/copy --out afile",
        "train quick/copy --seeds 3",
        "bench --plot a.bmp",
        "bench --device tpu",
        "reproduce table1 --device cuda:first",
    ]
    code = (
        "import sys\nfrom passnet.cli import main\n"
        f"for line in {lines!r}:\n"
        "    assert main(line.split()) == 2, line\n"
        "    assert 'torch' not in sys.modules, line\n"
    )
    done = python("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == len(lines)
    for part in ("there is no folder nofolder", "device 'tpu'", "--out afile", ".svg, .png"):
        assert part in done.stderr
