"""The compiled scans against the plain loop, by the one accuracy rule."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from accuracy import assert_accurate, assert_all_accurate
from cpu_cases import CASES, Case, cast
from scan_calls import run_on

from passnet.bench.accuracy import rms
from passnet.ops import GruScan, LstmScan
from passnet.ops.cpu import Library, installed
from passnet.ops.cpu.engine import driving
from passnet.ops.gru_scan.cpu import CpuGru
from passnet.ops.inputs import Inputs
from passnet.ops.lstm_scan.cpu import CpuLstm
from passnet.ops.scan import of_live

if isinstance(installed(), str):
    pytest.skip(installed(), allow_module_level=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_every_gradient(case: Case) -> None:
    live, fixed = case.tensors()
    truth = case.run(live, fixed, "reference")
    single = cast(live, torch.float32), cast(fixed, torch.float32)
    assert_all_accurate(
        case.run(*single, "cpu"), reference=case.run(*single, "reference"), truth=truth
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_double_precision(case: Case) -> None:
    live, fixed = case.tensors()
    got, truth = case.run(live, fixed, "cpu"), case.run(live, fixed, "reference")
    # There is no wider type to be the truth: some units in the last place, of either.
    for name, value in truth.items():
        assert rms(got[name] - value) <= 64 * torch.finfo(torch.float64).eps * rms(value), name


@pytest.mark.parametrize("case", [Case("after"), Case("before"), Case("lstm")], ids=str)
def test_a_long_scan_does_not_drift(case: Case) -> None:
    case = Case(case.cell, steps=1500, batch=2, units=40, rank=3)
    live, fixed = case.tensors()
    truth = case.run(live, fixed, "reference")
    single = cast(live, torch.float32), cast(fixed, torch.float32)
    assert_all_accurate(
        case.run(*single, "cpu"), reference=case.run(*single, "reference"), truth=truth
    )


@pytest.mark.parametrize("cell", ["after", "before", "lstm"])
def test_gradcheck(cell: str) -> None:
    case = Case(cell, steps=3, batch=2, units=5, rank=2, masks="each", hold="units")
    live, fixed = case.tensors()

    def scan(*tensors):
        given = dict(zip(live, tensors, strict=True))
        factors = tuple(given[name] for name in ("expand", "project", "diagonal"))
        if cell == "lstm":
            starts = given["initial"], given["initial_cell"]
            call = LstmScan(given["drive"], *starts, factors, case.structure, **fixed)
        else:
            call = GruScan(given["drive"], given["initial"], factors, case.structure, cell, **fixed)
        engine = CpuLstm() if cell == "lstm" else CpuGru()
        assert engine.refuses(call) is None
        return tuple(run_on("cpu", call))

    inputs = [tensor.requires_grad_() for tensor in live.values()]
    assert torch.autograd.gradcheck(scan, inputs)


def _strided(tensor):
    wide = torch.empty(*tensor.shape[:-1], 2 * tensor.shape[-1], dtype=tensor.dtype)
    wide[..., ::2] = tensor
    return wide[..., ::2]


def _negated(tensor):
    """The same numbers, where memory holds their negatives."""
    return torch._neg_view(-tensor) if tensor.is_floating_point() else tensor


@pytest.mark.parametrize("lie", [_strided, _negated])
@pytest.mark.parametrize("inputs", [None, "features with gradients", "symbols"])
@pytest.mark.parametrize("cell", ["after", "before", "lstm"])
def test_tensors_may_lie_otherwise(cell: str, inputs: str | None, lie) -> None:
    case = Case(cell, masks="each", hold="units", inputs=inputs)
    live, fixed = case.tensors()
    otherwise = [{name: lie(t) for name, t in part.items()} for part in (live, fixed)]
    got = case.run(*otherwise, "cpu", arrive=lie)
    for name, value in case.run(live, fixed, "cpu").items():
        torch.testing.assert_close(got[name], value, rtol=1e-12, atol=1e-12)


EACH_SET = [*CASES[:12], *(c for c in CASES if c.tied or c.units == 130 or c.inputs)]


def _at(name: str, case: Case, live, fixed) -> list[torch.Tensor]:
    """Outputs and gradients of all live tensors, at one instruction set of this machine."""
    library = installed()
    assert isinstance(library, Library)
    engine = (CpuLstm if case.cell == "lstm" else CpuGru)(library.using(name))
    call = case.call({k: t.requires_grad_(k == "x") for k, t in live.items()}, fixed)
    outputs = engine.forward(call)
    alone = engine.outputs(call)
    assert len(alone) == call.output_count
    assert all(map(torch.equal, alone, outputs)), "where nothing is kept"
    kept = outputs[call.output_count :]
    outputs = outputs[: call.output_count]
    generator = torch.Generator().manual_seed(3)
    arriving = [
        torch.randn(o.shape, generator=generator, dtype=torch.float64).to(o.dtype) for o in outputs
    ]
    of_all = engine.gradients(call, arriving, call.flatten()[0], [*outputs, *kept], last=False)
    return [*outputs, *of_live(call, engine, *of_all)]


@pytest.mark.parametrize("case", EACH_SET, ids=str)
def test_every_instruction_set(case: Case) -> None:
    live, fixed = case.tensors()
    live, fixed = cast(live, torch.float32), cast(fixed, torch.float32)
    plain = case.run(live, fixed, "reference")
    truth = case.run(cast(live, torch.float64), cast(fixed, torch.float64), "reference")
    for name in installed().supported:
        for got, wanted in zip(_at(name, case, live, fixed), plain, strict=True):
            assert_accurate(
                got, reference=plain[wanted], truth=truth[wanted], name=f"{name} {wanted}"
            )


@pytest.mark.parametrize("case", EACH_SET, ids=str)
def test_every_instruction_set_in_double_precision(case: Case) -> None:
    live, fixed = case.tensors()
    truth = case.run(live, fixed, "reference")
    for name in installed().supported:
        for got, (wanted, value) in zip(_at(name, case, live, fixed), truth.items(), strict=True):
            limit = 64 * torch.finfo(torch.float64).eps * rms(value)  # as above
            assert rms(got - value) <= limit, f"{name} {wanted}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_infinite_and_missing_numbers_pass_through_as_in_the_plain_loop(dtype) -> None:
    drive = torch.zeros(3, 2, 1, 20, dtype=dtype)
    for gate in range(3):
        special = torch.tensor([float("inf"), -float("inf"), float("nan")])
        drive[gate, 0, 0, 4 * gate : 4 * gate + 3] = special
    factors = [torch.zeros(3, *sizes, dtype=dtype) for sizes in ((20, 2), (2, 20), (20,))]
    start = torch.ones(1, 20, dtype=dtype)
    call = GruScan(drive, start, tuple(factors), "low_rank_plus_diagonal", "after")
    (got,), (wanted,) = run_on("cpu", call), run_on("reference", call)
    assert torch.equal(got.isnan(), wanted.isnan())
    smallest = 2 * torch.finfo(dtype).tiny  # to which e^-x falls, not to zero
    torch.testing.assert_close(got, wanted, rtol=0, atol=smallest, equal_nan=True)


def test_symbols_that_do_not_exist_are_refused() -> None:
    """A layer says so itself; what was compiled or exported comes here as it is given."""
    case = Case(inputs="symbols")
    live, fixed = case.tensors()
    for wrong in (-1, 3):
        fixed["x"][2, 1] = wrong
        with pytest.raises(IndexError, match=rf"symbols go from .*{wrong}.*expected 0 to 2"):
            run_on("cpu", case.call(live, fixed))


@pytest.mark.parametrize("other", ["narrow", "scaled"])
def test_symbols_of_other_kinds(other: str) -> None:
    case = Case(inputs="symbols")
    call = case.call(*case.tensors())
    assert isinstance(call, GruScan) and isinstance(call.source, Inputs)
    x = call.source.x
    changes = {"x": x.int()} if other == "narrow" else {"scale": torch.rand(x.shape).double()}
    call = replace(call, source=replace(call.source, **changes))
    (found,), (wanted,) = run_on("cpu", call), run_on("reference", call)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("batch, width, forms", [(4, 3, True), (3, 3, False), (4, 4000, False)])
def test_where_the_scan_multiplies_features_itself(batch: int, width: int, forms: bool) -> None:
    case = Case(inputs="features", units=130, batch=batch, width=width)
    assert ("input" in driving(case.call(*case.tensors()))) == forms


@pytest.mark.parametrize("cell", ["after", "before", "lstm"])
def test_hooks_hand_saved_tensors_back_that_lie_otherwise(cell: str) -> None:
    case = Case(cell, masks="each")
    live, fixed = case.tensors()
    wanted = case.run(live, fixed, "cpu")
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, _strided):
        got = case.run(live, fixed, "cpu")
    for name, value in wanted.items():
        assert torch.equal(got[name], value), name


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_may_be_written_where_the_gates_lie(case: Case) -> None:
    call = case.call(*case.tensors())
    engine = CpuLstm() if isinstance(call, LstmScan) else CpuGru()
    found = engine.forward(call)
    outputs, kept = found[: call.output_count], found[call.output_count :]
    arriving = [torch.randn_like(output) for output in outputs]
    gates = kept[0].clone()
    wanted = engine.backward(call, arriving, outputs, kept)
    assert torch.equal(kept[0][: case.gates], gates[: case.gates]), "others may read them yet"
    place = kept[0][-case.gates :]
    got = engine._gradients(call, arriving, outputs, kept, place)
    assert got[0].data_ptr() == place.data_ptr()
    assert all(map(torch.equal, got, wanted))


@pytest.mark.parametrize("inputs", [None, "features with gradients", "symbols"])
@pytest.mark.parametrize("cell", ["after", "before", "lstm"])
def test_a_graph_that_is_kept_gives_the_same_gradients_again(cell: str, inputs) -> None:
    case = Case(cell, masks="each", hold="units", inputs=inputs)
    live, fixed = case.tensors()
    live = {name: t.requires_grad_() for name, t in live.items()}
    call = case.call(live, fixed)
    loss = sum(output.square().sum() for output in run_on("cpu", call))
    first = torch.autograd.grad(loss, list(live.values()), retain_graph=True)
    kept = [grad.clone() for grad in first]
    for grad in first:
        grad.zero_()  # as a caller may, to whom they belong
    again = torch.autograd.grad(loss, list(live.values()), retain_graph=True)
    assert all(map(torch.equal, again, kept))
