"""Commands that train and use what was trained, on models small enough for a test."""

from __future__ import annotations

import argparse
import io
import json
import os
import shlex
import subprocess
import sys

import pytest
import torch
from rich.console import Console

from passnet.bench.cases import GPU_CASES
from passnet.bench.contenders import Contender
from passnet.bench.measure import Row, _calls, _in_one_thread, _of
from passnet.bench.record import growth, ratios
from passnet.cli import bench, main, training
from passnet.cli.live import live
from passnet.config.contender import BF16, WAYS, ContenderName
from passnet.training.events import Evaluated, Started, Updated
from passnet.training.together import AT_ONCE

SMALL = [
    "--set",
    "updates=6",
    "evaluate_every=3",
    "batch_size=4",
    "model.size=12",
    "model.matrix=LowRank(3)",
]


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(*arguments: str) -> int:
    return main(["train", *arguments, "--device", "cpu"])


def test_train_again_evaluate_and_sample(in_folder, capsys, monkeypatch):
    assert train("quick/character-stream", *SMALL, "--json", "--quiet") == 0
    first = json.loads(capsys.readouterr().out)
    assert first["updates"] == 6 and first["metric"] in first["chance"]

    run = "runs/quick/character-stream/seed-0"
    assert train(run, "--json", "--quiet") == 0
    assert json.loads(capsys.readouterr().out) == first

    assert main(["evaluate", run, "--device", "cpu", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scores"] == first["test"]

    sample = ["sample", run, "--prompt", "The ", "--length", "20", "--device", "cpu"]
    assert main(sample) == 0
    text = capsys.readouterr().out
    assert text.startswith("The ") and len(text) == len("The ") + 20 + 1
    assert main(sample) == 0 and capsys.readouterr().out == text

    with monkeypatch.context() as patched:

        def until_ctrl_c(*arguments, **options):
            yield "X"
            raise KeyboardInterrupt

        patched.setattr("passnet.training.sampling.stream_text", until_ctrl_c)
        assert main(sample) == 130
    assert capsys.readouterr().out == "The X\n"  # the shell's next line is a line of its own

    assert main(["sample", run, "--prompt", "The \N{SNOWMAN}", "--device", "cpu"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and "never seen '\N{SNOWMAN}'" in said.err
    for command in ("evaluate", "sample"):
        assert main([command, run, "--device", "bogus"]) == 2
        said = capsys.readouterr()
        assert said.out == "" and "device 'bogus' was asked for" in said.err
    assert train("runs/quick/character-stream") == 2
    assert f"holds no run: give the folder of a run, such as {run}" in capsys.readouterr().err


def test_a_text_of_the_users(in_folder, capsys):
    (in_folder / "mine.txt").write_text("abab cdcd abab cdcd\n" * 60)
    arguments = ["quick/character-sentences", "--text", "mine.txt", *SMALL, "--json", "--quiet"]
    assert train(*arguments) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["paper_value"] is None
    record = json.loads(
        (in_folder / "runs/quick/character-sentences/seed-0/experiment.json").read_text()
    )
    assert record["experiment"]["task"]["source"] == "file"


def test_a_text_too_short_is_one_sentence(in_folder, capsys):
    (in_folder / "mine.txt").write_text("abab\n" * 20)
    assert train("quick/character-stream", "--text", "mine.txt") == 2
    said = capsys.readouterr().err
    assert said.startswith("passnet: the 80 training characters do not fill batch_size=16 lanes")
    assert said.count("\n") == 1


def test_what_one_run_lacks_takes_nothing_from_the_others(in_folder, capsys):
    presets = ["quick/character-stream", "quick/character-sentences"]
    assert train(*presets, *SMALL, "batch_size=1000", "--json", "--quiet") == 2
    said = capsys.readouterr()
    assert [result["preset"] for result in json.loads(said.out)] == presets[1:]
    assert "quick/character-stream seed 0: the " in said.err and said.err.count("\n") == 1


def test_several_seeds_have_their_own_folders(in_folder, capsys):
    assert train("quick/copy", *SMALL, "--seeds", "0..1", "--json", "--quiet") == 0
    results = json.loads(capsys.readouterr().out)
    assert [result["seed"] for result in results] == [0, 1]
    assert results[0]["value"] != results[1]["value"]
    assert sorted(p.name for p in (in_folder / "runs/quick/copy").iterdir()) == ["seed-0", "seed-1"]


def test_several_presets_have_their_own_folders(in_folder, capsys):
    assert train(*SMALL, "quick/copy", "quick/addition", "--out", "mine", "--json", "--quiet") == 0
    results = json.loads(capsys.readouterr().out)
    assert [result["preset"] for result in results] == ["quick/copy", "quick/addition"]
    assert (in_folder / "mine/quick/addition/seed-0/result.json").is_file()
    folders = ["mine/quick/copy/seed-0", "mine/quick/addition/seed-0"]
    assert train(*folders, "--json", "--quiet") == 0
    assert json.loads(capsys.readouterr().out) == results


def test_one_folder_named_twice_is_refused(in_folder, capsys):
    assert train("quick/copy", *SMALL, "--out", "run", "--quiet") == 0
    capsys.readouterr()
    assert train("run", "./run", "--quiet") == 2
    assert "two of these runs are in" in capsys.readouterr().err


def test_runs_are_not_put_into_a_run(in_folder, capsys):
    assert train("quick/copy", *SMALL, "--out", "run", "--quiet") == 0
    capsys.readouterr()
    assert train("quick/copy", "--seeds", "0..1", "--out", "run", "--quiet") == 2
    assert "run is itself the folder of a run: give a folder outside it" in capsys.readouterr().err
    assert not (in_folder / "run" / "seed-0").exists()


def test_how_a_run_is_given_more_updates_is_said(in_folder, capsys):
    assert train("quick/copy", *SMALL, "--out", "run", "--quiet") == 0
    capsys.readouterr()
    assert train("run", "--set", "updates=40") == 2
    said = "name its preset, with --out run and --set updates=... to give it more updates"
    assert said in capsys.readouterr().err
    for option, words in (
        (["--seed", "3"], "name its preset; each seed has its own folder"),
        (["--seeds", "0..2"], "name its preset; each seed has its own folder"),
        (["--text", "my.txt"], "with another --out for another text"),
        (["--out", "other"], "leave out --out"),
    ):
        assert train("run", *option) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"passnet: {option[0]}: run is the folder of a run, which resumes")
        assert words in said and "updates" not in said


@pytest.mark.parametrize("seeds", ["0..1000000000", "0..10000000000000000000000"])
def test_more_seeds_than_anybody_means(in_folder, capsys, seeds):
    assert train("quick/copy", "--seeds", seeds) == 2
    assert "--seeds asks for more than 1000 runs each" in capsys.readouterr().err
    assert main(["reproduce", "addition", "--seeds", seeds.removeprefix("0.."), "--dry-run"]) == 2
    assert "--seeds asks for more than 1000 runs each" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes."),
    ],
    ids=["Python", "GPU", "CPU"],
)
def test_too_little_memory_is_a_sentence(in_folder, capsys, monkeypatch, error):
    def raises(*_, **__):
        raise error

    monkeypatch.setattr("passnet.training.assembly.build_model", raises)
    assert train("quick/copy", *SMALL, "--quiet") == 1
    assert "passnet: there is not enough memory for this" in capsys.readouterr().err


def test_a_copy_without_weights_cannot_be_evaluated(in_folder, capsys):
    assert train("quick/copy", *SMALL, "--out", "run", "--quiet") == 0
    (in_folder / "run" / "weights.safetensors").unlink()
    capsys.readouterr()
    assert main(["evaluate", "run"]) == 1
    said = capsys.readouterr().err
    assert "run has a result and no weights.safetensors, as copies in results/ have none" in said


def test_a_highway_network_has_no_backend_to_choose(in_folder, capsys):
    assert main(["train", "quick/highway-digits", "--backend", "reference", "--quiet"]) == 2
    assert "a Highway network has no scan" in capsys.readouterr().err


def test_cases_of_the_bench_tell_tied_from_untied():
    labels = [case.label for case in GPU_CASES]
    assert len(set(labels)) == len(labels) and any(" tied n=" in label for label in labels)


def test_a_changed_experiment_in_the_same_folder_is_refused(in_folder, capsys):
    assert train("quick/copy", *SMALL, "--quiet") == 0
    capsys.readouterr()
    assert train("quick/copy", *SMALL, "batch_size=8", "--quiet") == 2
    said = capsys.readouterr().err
    assert "batch_size was 4 and is 8" in said and said.count("\n") == 1
    assert "train in another folder (--out FOLDER)" in said


def test_what_was_asked_wrongly_is_no_failed_run(in_folder, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (in_folder / "afile").touch()
    for wrong, words in (
        (["--out", "afile"], "--out afile: afile is a file, but"),
        (["--out", "afile", "--seeds", "0..1"], "--out afile/seed-0: afile is a file, but"),
        (["--backend", "cuda", "--out", "mine"], "Use --backend auto to let"),
        (["--backend", "cuda", "--seeds", "0..1"], "Use --backend auto to let"),
        (["--device", "cuda"], "PyTorch sees no GPU"),
    ):
        assert main(["train", "quick/copy", *SMALL, "--device", "cpu", *wrong]) == 2
        said = capsys.readouterr()
        assert said.out == "" and words in said.err and "starts" not in said.err
        assert [path.name for path in in_folder.iterdir()] == ["afile"]
    assert train("quick/copy", *SMALL, "--out", "mine", "--quiet") == 0


def test_without_tensorboard_the_extra_is_named(in_folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert train("quick/copy", *SMALL, "--tensorboard") == 2
    assert "run pip install '.[tensorboard]' in passnet's folder" in capsys.readouterr().err


def test_how_many_runs_share_a_gpu_is_the_librarys_number():
    parser = argparse.ArgumentParser()
    training.add(parser.add_subparsers())
    assert parser.parse_args(["train", "quick/copy"]).at_once == AT_ONCE


def test_missing_data_leave_no_folder(in_folder, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(in_folder))
    monkeypatch.delenv("PASSNET_DATA", raising=False)
    assert train("psmnist/lrd-gru-64-24", "char-lm/gru-1000") == 2
    assert capsys.readouterr().err.count("was not found in") == 2
    assert list(in_folder.iterdir()) == []


def test_settings_on_a_folder_are_refused(in_folder, capsys):
    assert train("quick/copy", *SMALL, "--quiet") == 0
    capsys.readouterr()
    assert train("runs/quick/copy/seed-0", "--set", "batch_size=8") == 2
    assert "--set" in capsys.readouterr().err


def test_plain_lines_where_there_is_no_terminal(in_folder, capsys):
    assert train("quick/copy", *SMALL) == 0
    said = capsys.readouterr()
    assert "starts: 6 updates" in said.err and "finished" in said.err
    assert "chance" in said.out and "runs/quick/copy/seed-0" in said.out
    assert "  cross-entropy in nats  " in said.out and "Next: " not in said.out


def test_the_result_fits_a_terminal_and_says_what_is_next(in_folder, capsys, monkeypatch):
    assert train("quick/copy", *SMALL, "--quiet") == 0
    folder = "runs/quick/copy/seed-0"
    for width in (80, 120):
        monkeypatch.setattr("passnet.cli.training.terminal_width", lambda width=width: width)
        capsys.readouterr()
        assert train(folder, "--quiet") == 0
        header, row, *_, after = capsys.readouterr().out.splitlines()
        assert row.startswith(folder) and max(len(header), len(row)) <= width
        assert ("params" in header) == (width == 120)
        assert after == f"Next: passnet report {folder}"
    assert train("quick/copy", *SMALL, "--seeds", "0..1", "--quiet") == 0
    assert capsys.readouterr().out.endswith("Next: passnet report runs/quick/copy\n")
    assert main(["evaluate", folder, "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert "\ncross-entropy in nats  " in shown and " %  " in shown


def test_a_narrow_terminal_keeps_counter_and_values():
    run = "copy-variable-length/lrd-gru-128-50 seed 0"
    metric = "cross_entropy_nats"
    chance = {metric: 2.3}
    started = Started(run, 0, 0, 35_000, 1, "cpu", "cpu", None, metric, chance, None)
    for width in (40, 60, 80, 150):
        shown = io.StringIO()
        console = Console(file=shown, width=width, force_terminal=True, color_system=None)
        with live(console) as listener_for:
            listen = listener_for(run)
            listen(started)
            listen(Updated(run, 12_345, 35_000, None, 0.12345, 1e-3, 9.9, 60.0))
            listen(Evaluated(run, 12_345, "valid", {metric: 0.0421}, metric, True))
        line = " ".join(shown.getvalue().splitlines()[-2].split())
        assert "12345/35000 loss 0.1235 0.0421" in line
        assert (run in line) == (width == 150)


def test_a_closed_standard_error_does_not_stop_a_run(in_folder):
    options = ["train", "quick/copy", *SMALL, "--device", "cpu", "--json"]
    command = f"{shlex.join([sys.executable, '-m', 'passnet', *options])} 2>&-"
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, text=True, check=True)
    assert json.loads(done.stdout)["updates"] == 6


def test_two_processes_train_one_model(in_folder):
    single = _command(["-m", "passnet"], "one")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    double = _command([*launcher, "-m", "passnet"], "two")
    assert double["updates"] == single["updates"]
    assert double["value"] == pytest.approx(single["value"])


def _command(how: list[str], out: str) -> dict:
    options = ["train", "quick/copy", *SMALL, "--device", "cpu", "--quiet", "--json", "--out", out]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *how, *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_growth_is_told_size_by_size():
    def row(shape, d, steps, milliseconds, pass_="forward", contender="passnet"):
        sizes = (256, d, steps, 20, "float32")
        return Row(f"growth in {shape}: GRU", *sizes, pass_, contender, milliseconds, 0.0, None)

    rows = [row("T", 24, 200, 2.1), row("T", 24, 100, 1.0)]
    rows += [row("d", 8, 100, 1.0), row("d", 16, 100, 1.5), row("d", 16, 100, 7.0, contender="x")]
    assert growth(rows) == [
        "n=256 d=24 B=20, forward, T = 100, 200:\n  1.000, 2.100 ms (2.10x for each doubling)",
        "n=256 T=100 B=20, forward, d = 8, 16:\n  1.000, 1.500 ms (1.50x for each doubling)",
    ]
    graphs = [row("T", 24, steps, steps / 200, contender="passnet graph") for steps in (100, 200)]
    assert growth(rows + graphs) == [
        "n=256 d=24 B=20, forward, T = 100, 200:\n  0.500, 1.000 ms (2.00x for each doubling)"
    ]
    assert growth(rows[:1] + rows[2:3]) == [], "one size of each: the others were filtered out"


def test_ratios_to_ours_as_it_is_and_like_for_like():
    def row(contender, milliseconds, dtype="float32"):
        return Row("copy", 128, 50, 520, 20, dtype, "forward", contender, milliseconds, 0.0, None)

    short = "bfloat16"
    rows = [row("passnet", 2.0), row("passnet graph", 1.0), row("passnet bf16", 1.6, short)]
    rows += [row("nn.GRU", 8.0), row("nn.GRU tf32", 6.0), row("nn.GRU graph", 7.0)]
    rows += [row("nn.GRU bf16", 4.0, short), row("nn.GRU bf16 graph", 3.0, short)]
    rows += [row("passnet fp16", 0.5, "float16"), row("nn.GRU fp16", 3.0, "float16")]
    found = {r["contender"]: (r["ratio"], r["like"]) for r in ratios(rows)}
    assert found == {
        "passnet graph": (0.5, None),
        "passnet bf16": (0.8, None),
        "passnet fp16": (0.25, None),
        "nn.GRU fp16": (1.5, 6.0),
        "nn.GRU": (4.0, 4.0),
        "nn.GRU tf32": (3.0, 3.0),  # ours has no faster mode that has to be asked for
        "nn.GRU graph": (3.5, 7.0),
        "nn.GRU bf16": (2.0, 2.5),
        "nn.GRU bf16 graph": (1.5, None),  # ours was not timed so
    }
    title, _, header, *lines = bench._tables(rows).splitlines()
    assert title == "copy n=128 d=50 T=520 B=20"
    assert header.split("  ")[0] == "forward" and header.endswith("  / passnet  / alike")
    assert lines[5].split()[-2:] == ["3.50x", "7.00x"]


def test_the_tables_of_bench_fit_a_terminal():
    shape = "char-lm: GRU reset-after tied", 5459, 64, 128, 32, "float32", "forward+backward"
    rows = [
        Row(*shape, name, 99999.9, 0.0, 2**33, "cuda" if name.startswith("passnet") else None)
        for name in ("passnet", "passnet graphed calls", "nn.LSTM(proj_size=300) graphed calls")
    ]
    lines = bench._tables(rows).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[3].split() == ["passnet", "(cuda)", "99999.900", "8192.0"]


def test_bench_names_its_cases_when_none_is_meant(capsys):
    assert main(["bench", "nothing like it", "--device", "cpu"]) == 2
    said = capsys.readouterr().err
    assert "'nothing like it'" in said and "psmnist: LSTM n=128 d=24 T=196 B=20" in said


def test_bench_needs_the_gpu_it_was_told(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["bench", "--device", "cuda"]) == 2
    said = capsys.readouterr().err
    assert said == "passnet: device 'cuda' was asked for, but PyTorch sees no GPU: use 'cpu'\n"


def test_ways_of_running_a_contender_are_its_own():
    found = {name: Contender(name, None) for name in ("passnet", "passnet bf16")}
    for way in WAYS:
        assert _of(found, ContenderName("passnet", way=way)) is found["passnet"]
        assert _of(found, ContenderName("passnet", BF16, way)) is found["passnet bf16"]


def test_one_thread_is_one_only_while_it_is_timed():
    threads = torch._C._is_multithreading_enabled
    assert _in_one_thread(threads)() is False and threads()


def test_how_many_calls_are_timed_together():
    def calls(name, pass_, device, milliseconds=None):
        return _calls(ContenderName(name), pass_, device, lambda: milliseconds)

    assert calls("nn.GRU", "forward", "cuda", 0.1) == 20
    assert calls("nn.GRU", "forward", "cuda", 5.0) == 4
    assert calls("nn.GRU", "forward", "cuda", 90.0) == 1
    # Where it does not depend on how long one takes, none is made to find out.
    assert calls("nn.GRU", "forward", "cpu") == calls("loop", "forward", "cuda") == 1
    assert calls("passnet", "one step", "cpu") == 100


def test_bench_checks_then_times(capsys, tmp_path):
    out = tmp_path / "rows.json"
    arguments = ["bench", "psmnist: LSTM", "--quick", "--repeats", "1", "--no-loops"]
    assert main([*arguments, "--device", "cpu", "--json", "--out", str(out)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert json.loads(out.read_text())["rows"] == found["rows"]
    assert {row["pass"] for row in found["rows"]} == {"forward", "forward+backward", "one step"}
    assert {"passnet", "nn.LSTM"} <= {row["contender"] for row in found["rows"]}
