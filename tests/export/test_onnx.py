"""Exported programs beside the layers they were made of, in ONNX Runtime and at other sizes."""

from __future__ import annotations

import sys

import onnx
import onnxruntime
import pytest
import torch
from structures import MAIN, SIZE, STRUCTURES
from torch import nn
from torch.nn.utils import prune
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence
from torch.testing import assert_close

import passnet
from passnet.export.errors import Disagreement, Unexportable

WIDTH, LRD = 5, passnet.LowRankPlusDiagonal(3)


@pytest.fixture
def place(tmp_path):
    return tmp_path / "model.onnx"


def filled(module: nn.Module) -> nn.Module:
    """With parameters that are all far from their plain starting values."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 2)
    return module.eval()


def draw(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def answers(place, *inputs: torch.Tensor) -> list[torch.Tensor]:
    session = onnxruntime.InferenceSession(place, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    fed = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
    return [torch.from_numpy(found) for found in session.run(None, fed)]


def flat(outputs) -> list[torch.Tensor]:
    return torch.utils._pytree.tree_leaves(outputs)


def loops(place) -> int:
    return sum(node.op_type == "Scan" for node in onnx.load(place).graph.node)


@pytest.mark.parametrize(
    ("layer", "structure"),
    [*((passnet.GRU, name) for name in STRUCTURES), *((passnet.LSTM, name) for name in MAIN)],
)
def test_every_structure_at_other_sizes(place, layer, structure):
    rnn = filled(layer(WIDTH, SIZE, matrix=STRUCTURES[structure]))
    passnet.export_onnx(rnn, draw(4, 4, WIDTH), place)
    x = draw(9, 6, WIDTH, seed=2)
    assert_close(answers(place, x), flat(rnn(x)))
    assert loops(place) == 1


OPTIONS = {
    "reset before": passnet.GRU(WIDTH, SIZE, matrix=LRD, reset="before"),
    "bias": passnet.GRU(WIDTH, SIZE, matrix=LRD, recurrent_bias=True),
    "weight norm": passnet.LSTM(WIDTH, SIZE, matrix=LRD, weight_norm=True),
    "learned start": passnet.LSTM(WIDTH, SIZE, matrix=LRD, learn_initial_state=True),
    "dropout": passnet.GRU(WIDTH, SIZE, 2, matrix=LRD, dropout=0.5, dropout_state=0.5),
    "zoneout": passnet.LSTM(WIDTH, SIZE, matrix=LRD, zoneout=0.25),
    "no bias": passnet.LSTM(WIDTH, SIZE, matrix=LRD, bias=False),
    "stack": passnet.LSTM(WIDTH, SIZE, 2, matrix=LRD, bidirectional=True),
    "double": passnet.GRU(WIDTH, SIZE, matrix=LRD).double(),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_layers(place, name):
    rnn = filled(OPTIONS[name])
    kind = next(rnn.parameters()).dtype
    passnet.export_onnx(rnn, draw(4, 3, WIDTH).to(kind), place)
    x = draw(9, 6, WIDTH, seed=2).to(kind)
    assert_close(answers(place, x), flat(rnn(x)))


@pytest.mark.parametrize("rate", [0.2, 1e-40, 0.25])
def test_numbers_in_double_precision_keep_all_their_digits(place, rate):
    rnn = filled(passnet.LSTM(WIDTH, SIZE, 2, matrix=LRD, zoneout=rate).double())
    passnet.export_onnx(rnn, draw(4, 3, WIDTH).double(), place)
    x = draw(9, 6, WIDTH, seed=2).double()
    assert_close(answers(place, x), flat(rnn(x)), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])
def test_given_states_and_lengths(place, layer):
    rnn = filled(layer(WIDTH, SIZE, matrix=LRD, bidirectional=True, batch_first=True))
    count = len(rnn.state_names)

    def given(batch: int, steps: int):
        states = tuple(draw(2, batch, SIZE, seed=3 + index) for index in range(count))
        lengths = torch.arange(batch) % steps + 1
        return draw(batch, steps, WIDTH), states if count > 1 else states[0], lengths

    signature = passnet.export_onnx(rnn, given(3, 4), place)
    names = list(rnn.state_names)
    assert signature.inputs["input"] == ("batch", "steps", WIDTH)
    assert signature.inputs["lengths"] == ("batch",)
    assert list(signature.inputs) == ["input", *names, "lengths"]
    assert list(signature.outputs) == ["output", *(f"next_{name}" for name in names)]
    x, states, lengths = given(7, 5)
    assert_close(answers(place, *flat((x, states, lengths))), flat(rnn(x, states, lengths=lengths)))


def test_unbatched_sequences_keep_no_batch(place):
    rnn = filled(passnet.GRU(WIDTH, SIZE, matrix=LRD))
    signature = passnet.export_onnx(rnn, draw(4, WIDTH), place)
    assert signature.inputs == {"input": ("steps", WIDTH)}
    x = draw(9, WIDTH, seed=2)
    assert_close(answers(place, x), flat(rnn(x)))


def test_symbols_that_a_layer_reads_itself(place):
    rnn = filled(passnet.LSTM(WIDTH, SIZE, matrix=LRD, zoneout=0.25))
    example = torch.arange(12).reshape(4, 3).int() % WIDTH
    signature = passnet.export_onnx(rnn, (example, None, torch.tensor([4, 2, 1])), place)
    assert signature.inputs == {"input": ("steps", "batch"), "lengths": ("batch",)}
    symbols, lengths = torch.arange(14).reshape(7, 2).int() % WIDTH, torch.tensor([7, 3])
    symbols[3:, 1] = -1
    assert_close(answers(place, symbols, lengths), flat(rnn(symbols, None, lengths)))


def test_sequences_of_two_lengths_that_were_one_tensor(place):
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = passnet.GRU(WIDTH, SIZE, matrix=LRD)

        def forward(self, source, target):
            return self.rnn(target, self.rnn(source)[1])[0]

    model, x = filled(Two()), draw(4, 3, WIDTH)
    signature = passnet.export_onnx(model, (x, x), place)
    assert str(signature) == (
        "source [steps, batch, 5], target [steps_, batch, 5] -> output [steps_, batch, 8]"
    )
    source, target = draw(9, 6, WIDTH, seed=2), draw(2, 6, WIDTH, seed=3)
    assert_close(answers(place, source, target), [model(source, target)])


def test_a_loop_holds_only_what_changes_and_no_foreign_operators(place):
    passnet.export_onnx(filled(passnet.GRU(WIDTH, SIZE, matrix=LRD)), draw(4, 3, WIDTH), place)
    model = onnx.load(place)
    onnx.checker.check_model(model, full_check=True)
    assert {part.domain for part in model.opset_import} == {""}
    (scan,) = (node for node in model.graph.node if node.op_type == "Scan")
    (body,) = (part.g for part in scan.attribute if part.name == "body")
    assert not {"Transpose", "Constant"} & {node.op_type for node in body.node}
    assert not body.initializer


def test_highway(place):
    highway = filled(passnet.Highway(SIZE, 3, matrix=LRD))
    passnet.export_onnx(highway, draw(4, SIZE), place)
    x = draw(9, SIZE, seed=2)
    assert_close(answers(place, x), [highway(x)])


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, WIDTH)
        self.rnn = passnet.GRU(WIDTH, SIZE, 2, matrix=LRD)
        self.output = nn.Linear(SIZE, 11)

    def forward(self, symbols, state=None):
        outputs, state = self.rnn(self.embedding(symbols), state)
        return {"scores": self.output(outputs), "state": state}


def test_a_model_with_names_and_facts(place):
    model = filled(Model())
    signature = passnet.export_onnx(
        model,
        (torch.arange(12).reshape(4, 3) % 11, torch.zeros(2, 3, SIZE)),
        place,
        input_names=["symbols", "before"],
        output_names=["scores", "after"],
        metadata={"symbols": "abc"},
    )
    assert str(signature) == (
        "symbols [steps, batch], before [2, batch, 8] -> "
        "scores [steps, batch, 11], after [2, batch, 8]"
    )
    symbols, state = torch.arange(35).reshape(7, 5) % 11, draw(2, 5, SIZE)
    assert_close(answers(place, symbols, state), flat(model(symbols, state)))
    assert {p.key: p.value for p in onnx.load(place).metadata_props}["symbols"] == "abc"


@pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])
def test_one_step_has_no_loop_and_can_be_called_in_turn(place, layer):
    rnn = filled(layer(WIDTH, SIZE, matrix=LRD, zoneout=0.25))
    count = len(rnn.state_names)
    states = [torch.zeros(1, 3, SIZE)] * count
    given = tuple(states) if count > 1 else states[0]
    passnet.export_onnx(rnn, (draw(1, 3, WIDTH), given), place)
    assert loops(place) == 0
    x, outputs = draw(6, 3, WIDTH, seed=2), []
    for step in x.split(1):
        output, *states = answers(place, step, *states)
        outputs.append(output)
    assert_close(torch.cat(outputs), rnn(x)[0])


def test_a_module_that_calls_step(place):
    class Stepping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = passnet.GRU(WIDTH, SIZE, matrix=LRD)

        def forward(self, x, state):
            return self.rnn.step(x, state)

    model = filled(Stepping())
    signature = passnet.export_onnx(model, (draw(3, WIDTH), draw(1, 3, SIZE)), place)
    assert loops(place) == 0
    assert str(signature) == (
        "x [batch, 5], state [1, batch, 8] -> output_0 [batch, 8], output_1 [1, batch, 8]"
    )
    x, state = draw(6, WIDTH), draw(1, 6, SIZE)
    assert_close(answers(place, x, state), flat(model(x, state)))


def test_the_module_stays_as_it_was(place):
    rnn = passnet.GRU(WIDTH, SIZE, matrix=LRD, dropout_state=0.5, backend="reference")
    before = {name: tensor.clone() for name, tensor in rnn.state_dict().items()}
    passnet.export_onnx(rnn, draw(4, 3, WIDTH), place)
    assert rnn.training and rnn.backend == "reference"
    assert all(parameter.requires_grad for parameter in rnn.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in rnn.state_dict().items())


def test_a_program_holds_every_matrix_once_and_no_padding(place):
    rnn = filled(passnet.GRU(WIDTH, 100, matrix=passnet.LowRankPlusDiagonal(10)))
    passnet.export_onnx(rnn, draw(4, 3, WIDTH), place)
    assert place.stat().st_size < 4 * passnet.count_parameters(rnn) + 10_000


def test_a_program_does_not_say_where_it_was_made(place):
    passnet.export_onnx(filled(Model()), torch.arange(12).reshape(4, 3) % 11, place)
    assert b".py" not in place.read_bytes()


def test_layers_of_torch_are_exported_without_remarks_but_keep_their_steps(place, recwarn):
    rnn = nn.GRU(WIDTH, SIZE)
    signature = passnet.export_onnx(rnn, (draw(4, 3, WIDTH), torch.zeros(1, 3, SIZE)), place)
    assert signature.inputs["input"][0] == 4
    assert not recwarn.list


def test_what_is_pruned_is_exported_as_it_is_and_stays_pruned(place, recwarn):
    model = filled(Model())
    for module, name in ((model.rnn.cells[1].recurrent, "expand"), (model.output, "weight")):
        prune.random_unstructured(module, name, amount=0.5)
    symbols = torch.arange(12).reshape(4, 3) % 11
    passnet.export_onnx(model, symbols, place)
    assert_close(answers(place, symbols), flat(model(symbols)))
    assert prune.is_pruned(model.output) and prune.is_pruned(model.rnn)
    assert not [str(seen.message) for seen in recwarn if "during export" in str(seen.message)]


def test_scores_that_are_masked_may_be_infinite(place):
    masked = Returning(lambda x: torch.where(x > 0, x, -torch.inf))
    passnet.export_onnx(masked, draw(4, 3), place)
    x = draw(6, 5, seed=2)
    assert_close(answers(place, x), [masked(x)])


class Otherwise(nn.Module):
    def __init__(self, exported, answer=lambda x: x) -> None:
        super().__init__()
        self.exported, self.answer = exported, answer

    def forward(self, x):
        return (self.exported if torch.compiler.is_exporting() else self.answer)(x)


@pytest.mark.parametrize(
    ("exported", "answer", "words"),
    [
        (lambda x: x * 1.001, lambda x: x, "differs from PyTorch's by 1.0e-03 of its size, for"),
        (lambda x: (100 * x).int(), lambda x: (100 * x).int() + 1, "differs from PyTorch's by "),
        (lambda x: x.double(), lambda x: x, r"is float64 \[4, 4\] in ONNX and float32 \[4, 4\] in"),
        (lambda x: x * 4, lambda x: x * len(x), r"inputs of .*\(5, 6\)"),
        (lambda x: x * x.shape[1], lambda x: x * x.shape[0], r"inputs of .*\(5, 6\)"),
    ],
)
def test_a_program_that_computes_something_else_is_not_written(place, exported, answer, words):
    place.write_bytes(b"before")
    with pytest.raises(Disagreement, match=f"output .*{words}.* nothing was written"):
        passnet.export_onnx(Otherwise(exported, answer), draw(4, 4), place)
    assert place.read_bytes() == b"before" and list(place.parent.iterdir()) == [place]


class Returning(nn.Module):
    def __init__(self, answer) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, x):
        return self.answer(x)


@pytest.mark.parametrize("answer", [-torch.inf, torch.nan, 3.0])
def test_an_infinite_number_is_compared_as_such(place, answer):
    module = Otherwise(lambda x: x / 0, lambda x: torch.full_like(x, answer))
    with pytest.raises(Disagreement, match=r"differs from PyTorch's by .* nothing was written"):
        passnet.export_onnx(module, torch.ones(4, 3), place)


class Halved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = passnet.GRU(WIDTH, SIZE, matrix=LRD)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.rnn(x)[0].float()


@pytest.mark.parametrize(
    ("module", "inputs", "error", "sentence"),
    [
        (passnet.GRU, draw(4, 3, WIDTH), TypeError, "got the class GRU: give a layer or a model"),
        (passnet.UnitaryRNN(WIDTH, SIZE), draw(4, 3, WIDTH), Unexportable, "no complex numbers"),
        (passnet.GRU(WIDTH, SIZE).half(), draw(4, 3, WIDTH), Unexportable, r"\.float\(\) first"),
        (passnet.GRU(WIDTH, SIZE), draw(4, 3, 7), ValueError, "has 7 features"),
        (passnet.GRU(WIDTH, SIZE), {"input": draw(4, 3, 5)}, TypeError, "inputs is a dict: give a"),
        (passnet.GRU(WIDTH, SIZE), draw(4, 3, 5).numpy(), TypeError, "inputs is a ndarray: give a"),
        (passnet.GRU(WIDTH, SIZE), pack_sequence([draw(4, 5)]), TypeError, "no PackedSequence"),
        (passnet.GRU(WIDTH, SIZE), [pack_sequence([draw(4, 5)])], TypeError, "no PackedSequence"),
        (
            passnet.GRU(WIDTH, SIZE),
            (draw(4, 3, 5), None, [4, 2, 1]),
            TypeError,
            "the example holds 4, a int: give lengths as a tensor",
        ),
        (Returning(torch.Tensor.half), draw(4, 3), Unexportable, r"returns torch.float16: leave"),
        (Halved(), draw(4, 3, 5), Unexportable, r"computes in torch.bfloat16: leave out [a-z.]*$"),
        (passnet.GRU(WIDTH, SIZE), draw(4, 0, WIDTH), ValueError, "has nothing in it"),
        (Returning(len), draw(4, 3), Unexportable, "returns int: a program returns tensors"),
        (Returning(torch.special.i0), draw(4, 3), Unexportable, "bessel_i0.*: export the part of"),
        (
            Returning(lambda x: x if x.sum() > 0 else -x),
            draw(4, 3),
            Unexportable,
            r"torch\.export of PyTorch cannot translate Returning \(GuardOnDataDep",
        ),
    ],
)
def test_what_cannot_be_a_program_is_a_sentence(place, module, inputs, error, sentence):
    with pytest.raises(error, match=sentence):
        passnet.export_onnx(module, inputs, place)
    assert not place.exists()


def test_a_model_that_packs_is_told_of_lengths_and_nothing_else_is_said(place, capfd):
    class Packing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = passnet.GRU(WIDTH, SIZE, matrix=LRD)

        def forward(self, x, lengths):
            return self.rnn(pack_padded_sequence(x, lengths, enforce_sorted=False))[1]

    capfd.readouterr()
    with pytest.raises(Unexportable, match="give a padded batch and lengths="):
        passnet.export_onnx(Packing(), (draw(4, 3, WIDTH), torch.tensor([4, 2, 1])), place)
    assert capfd.readouterr() == ("", "")


class Telling(nn.Module):
    def forward(self, x):
        print("here", file=sys.stderr)
        return 2 * x


def test_what_a_module_says_itself_is_not_lost(place, capfd):
    passnet.export_onnx(Telling(), draw(4, 3), place)
    # On the example, twice while it is read, and twice beside the program.
    assert capfd.readouterr().err.count("here") == 5


def test_places_and_names(tmp_path):
    rnn, x = passnet.GRU(WIDTH, SIZE), draw(4, 3, WIDTH)
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere for model\.onnx"):
        passnet.export_onnx(rnn, x, tmp_path / "nowhere" / "model.onnx")
    with pytest.raises(IsADirectoryError, match="is a folder: give the name of a file"):
        passnet.export_onnx(rnn, x, tmp_path)
    for wrong in (
        {"input_names": ["a", "b"]},
        {"output_names": ["same", "same"]},
        {"input_names": "x"},
        {"input_names": [""]},
        {"input_names": [1]},
    ):
        with pytest.raises(ValueError, match=r"give \d different names, one for each"):
            passnet.export_onnx(rnn, x, tmp_path / "model.onnx", **wrong)
    with pytest.raises(ValueError, match=r"'h' would be an input and an output: give other"):
        names = {"input_names": ["h"], "output_names": ["y", "h"]}
        passnet.export_onnx(rnn, x, tmp_path / "model.onnx", **names)
    with pytest.raises(TypeError, match=r"metadata has 'units': 8: give texts"):
        passnet.export_onnx(rnn, x, tmp_path / "model.onnx", metadata={"units": 8})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("package", ["onnx", "onnx_ir", "onnxscript", "onnxruntime"])
def test_a_missing_package_is_one_sentence(place, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(Unexportable, match=rf"package {package}: run pip install '\.\[onnx\]' in"):
        passnet.export_onnx(passnet.GRU(WIDTH, SIZE), draw(4, 3, WIDTH), place)
