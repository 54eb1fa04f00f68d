"""What is checked before anything is timed catches whoever computes something else."""

from __future__ import annotations

import pytest
import torch

from passnet.bench.cases import Case
from passnet.bench.check import Wrong, check
from passnet.bench.contenders import Contender, contenders
from passnet.bench.loop import LoopRNN
from passnet.cli import main
from passnet.layers import GRU
from passnet.ops.cpu.engine import CpuEngine
from passnet.ops.scan import Engine

AFTER = Case("small", 32, 5, 20, 4, 6)
CASES = [
    AFTER,
    Case("small", 32, 5, 20, 4, 6, reset="before"),
    Case("small", 32, 5, 20, 4, 6, tied=True),
    Case("small", 32, 5, 20, 4, 6, cell="lstm"),
]
OURS = ["passnet", "passnet eager", "passnet reference", "passnet bf16"]
PARAMETERS = ["input_weight", "bias", "recurrent.expand", "recurrent.project", "recurrent.diagonal"]


def found_for(case: Case) -> dict[str, Contender]:
    """All contenders of a CPU, and ours in the precision that it has on a GPU."""
    found = contenders(case, device="cpu")
    layer = contenders(case, device="cpu", among="layers")["passnet"].layer.bfloat16()
    return found | {"passnet bf16": Contender("passnet bf16", layer, torch.bfloat16)}


def checked(case: Case, found: dict[str, Contender]) -> None:
    x, grad = torch.randn(case.T, case.B, case.m), torch.randn(case.T, case.B, case.n)
    check(case, found, x, grad)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_ours_pass_with_every_backend_and_precision(case):
    found = found_for(case)
    assert set(OURS) <= found.keys()
    checked(case, found)


@pytest.mark.parametrize("parameter", PARAMETERS)
@pytest.mark.parametrize("name", OURS)
def test_a_wrong_gradient_of_one_parameter_is_named(name, parameter):
    found = found_for(AFTER)
    factor = 1.1 if name == "passnet bf16" else 1 + 1e-4
    tensor = found[name].layer.get_parameter(f"cells.0.{parameter}")
    tensor.register_hook(lambda grad: factor * grad)
    words = rf"{AFTER.label}: {name}: the gradient of cells\.0\.{parameter} is off by \d\.\de-\d\d"
    with pytest.raises(Wrong, match=rf"{words} and by backend 'reference' in .* by \d\.\de-\d\d"):
        checked(AFTER, found)


def test_a_wrong_gradient_of_the_input_is_named():
    found = found_for(AFTER)

    def scaled(module, given):
        if given[0].requires_grad:
            given[0].register_hook(lambda grad: 1.0001 * grad)

    found["passnet eager"].layer.register_forward_pre_hook(scaled)
    with pytest.raises(Wrong, match="passnet eager: the gradient of the input is off"):
        checked(AFTER, found)


@pytest.mark.parametrize(
    ("graded", "what"),
    [(False, "the output is off"), (True, "the output with gradients to come is off")],
)
def test_wrong_outputs_are_named_with_gradients_and_without(graded, what):
    found = found_for(AFTER)

    def shifted(module, given, output):
        states, last = output
        return states + (1e-4 if states.requires_grad == graded else 0), last

    found["passnet eager"].layer.register_forward_hook(shifted)
    with pytest.raises(Wrong, match=f"passnet eager: {what}"):
        checked(AFTER, found)


def test_a_wrong_step_of_a_stream_is_named():
    found = found_for(AFTER)
    layer = found["passnet eager"].layer
    step = layer.step

    def shifted(*given):
        output, state = step(*given)
        return output + 1e-4, state

    layer.step = shifted
    with pytest.raises(Wrong, match="passnet eager: the output of a stream is off"):
        checked(AFTER, found)


@pytest.mark.parametrize("name", ["passnet eager", "passnet bf16"])
def test_other_weights_are_something_else(name):
    found = found_for(AFTER)
    found[name].layer.reset_parameters()
    with pytest.raises(Wrong, match=f"{name}: the output is off"):
        checked(AFTER, found)


def test_nothing_that_is_no_number_passes():
    found = found_for(AFTER)
    found["passnet bf16"].layer.cells[0].bias.register_hook(lambda grad: grad * float("nan"))
    with pytest.raises(Wrong, match=r"passnet bf16: the gradient of cells\.0\.bias is off by nan"):
        checked(AFTER, found)


def test_a_reference_without_half_of_its_digits_measures_nobody(monkeypatch):
    scan = GRU._scan

    def rough(layer, call):
        states = scan(layer, call)
        coarse = layer.backend == "reference" and call.dtype == torch.float32
        return [states[0] * 1.001 if coarse else states[0]]

    monkeypatch.setattr(GRU, "_scan", rough)
    with pytest.raises(Wrong, match="the output by backend 'reference' in float32, the yardstick"):
        checked(AFTER, found_for(AFTER))


@pytest.mark.parametrize("factor", [1 + 1e-5, float("nan")])
def test_a_truth_that_another_loop_contradicts_is_none(monkeypatch, factor):
    weights_of = LoopRNN.weights_of

    def changed(self, layer):
        found = weights_of(self, layer)
        return found | {"inputs.1.weight": found["inputs.1.weight"] * factor}

    found = found_for(AFTER)
    monkeypatch.setattr(LoopRNN, "weights_of", changed)
    with pytest.raises(Wrong, match="the output by backend 'reference' and by a loop of PyTorch's"):
        checked(AFTER, found)


LOOP_PARAMETERS = (
    "inputs.1.weight",
    "inputs.1.bias",
    "expand.1.weight",
    "project.1.weight",
    "diagonal.1",
)


@pytest.mark.parametrize(
    ("theirs", "own"),
    list(zip(LOOP_PARAMETERS, PARAMETERS, strict=True)),
)
def test_a_truth_whose_gradients_another_loop_contradicts_is_none(monkeypatch, theirs, own):
    weights_of = LoopRNN.weights_of

    def changed(self, layer):
        found = weights_of(self, layer)
        found[theirs].register_hook(lambda grad: grad * (1 + 1e-6))
        return found

    found = found_for(AFTER)
    monkeypatch.setattr(LoopRNN, "weights_of", changed)
    with pytest.raises(Wrong, match=rf"the gradient of cells\.0\.{own} by backend 'reference' and"):
        checked(AFTER, found)


def test_layers_of_others_are_not_judged():
    found = found_for(AFTER)
    for name in ("nn.GRU", "nn.LSTM(proj_size=5)", "loop"):
        for parameter in found[name].layer.parameters():
            parameter.register_hook(lambda grad: 2 * grad)
    checked(AFTER, found)


def test_bench_times_nothing_that_is_wrong(capsys, monkeypatch):
    def wrong(gradients):
        def input_gradients(engine, *given):
            weight, bias = gradients(engine, *given)
            return weight, 1.01 * bias

        return input_gradients

    for engine in (CpuEngine, Engine):  # whichever is there to be timed
        monkeypatch.setattr(engine, "input_gradients", wrong(engine.input_gradients))
    arguments = ["bench", "psmnist: LSTM", "--quick", "--repeats", "1", "--no-loops"]
    assert main([*arguments, "--device", "cpu"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert said.err.startswith("passnet: psmnist: LSTM n=128")
    assert "passnet: the gradient of cells.0.bias is off by" in said.err
    assert "so nothing was timed" in said.err
