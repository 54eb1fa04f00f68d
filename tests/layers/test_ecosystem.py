"""Living with the rest of PyTorch: compile, export, copies, parametrisations, DDP."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys

import pytest
import torch
from accuracy import assert_all_accurate
from layer_twins import doubled, randomised, signed
from structures import MAIN, SIZE, STRUCTURES
from torch import nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

import passnet
from passnet.ops import unitary_backends

M, T, B = 3, 5, 4
SPEC = passnet.LowRankPlusDiagonal(3, tied=True)
MODULES = {
    "GRU": lambda: passnet.GRU(M, SIZE, 2, matrix=SPEC, carry_bias=passnet.Chrono(9)),
    "GRU dense": lambda: passnet.GRU(M, SIZE, bidirectional=True, learn_initial_state=True),
    "LSTM": lambda: passnet.LSTM(M, SIZE, 2, matrix=SPEC, weight_norm=True, zoneout=0.1),
    "uRNN": lambda: passnet.UnitaryRNN(M, SIZE),
    "Highway": lambda: passnet.Highway(M, 2, matrix=passnet.LowRank(2), batch_norm=True),
}
each_module = pytest.mark.parametrize("kind", MODULES)


def first_output(module, x):
    y = module(x)
    return y[0] if isinstance(y, tuple) else y


def trained(module, x, **call) -> dict[str, torch.Tensor]:
    """Outputs and gradients of every parameter and the input."""
    x = x.clone().requires_grad_()
    y, state = module(x, **call)
    parts = state if isinstance(state, tuple) else (state,)
    loss = y.square().sum() + sum(part.sum() for part in parts)
    parameters = {n.removeprefix("_orig_mod."): p for n, p in module.named_parameters()}
    grads = torch.autograd.grad(loss, [x, *parameters.values()])
    named = dict(zip(("input", *parameters), grads, strict=True))
    return {"output": y.detach()} | named


@pytest.mark.parametrize(
    ("make", "call"),
    [
        (lambda: passnet.GRU(M, SIZE, 2, matrix=SPEC, reset="before"), {}),
        (
            lambda: passnet.LSTM(M, SIZE, bidirectional=True, learn_initial_state=True),
            {"lengths": torch.tensor([5, 1, 2, 4])},
        ),
        (lambda: passnet.GRU(M, 96, matrix=passnet.LowRankPlusDiagonal(8)), {}),
    ],
    ids=["GRU", "LSTM with lengths", "wide GRU"],
)
def test_compile_without_graph_breaks(make, call):
    module = randomised(make())
    x = signed(T, B, M)
    compiled = torch.compile(module, fullgraph=True)
    assert_all_accurate(
        trained(compiled, x, **call),
        reference=trained(module, x, **call),
        truth=trained(doubled(module), x.double(), **call),
    )


def test_compile_with_dropout():
    """Everything random stays in the graph: new masks at every call."""
    options = {"dropout_state": 0.5, "dropout_input": 0.5, "zoneout": 0.2}
    module = passnet.GRU(M, SIZE, matrix=SPEC, **options)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    x = signed(T, B, M)
    first, second = compiled(x)[0], compiled(x)[0]
    assert not torch.equal(first, second)
    first.sum().backward()
    assert all(p.grad is not None for p in module.parameters())


@pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])
def test_export_of_a_step_and_a_sequence(layer):
    module = randomised(layer(M, SIZE, matrix=passnet.LowRank(3))).eval()
    x = signed(T, B, M)
    _, state = module(x)
    exported = torch.export.export(module, (x[:1], state)).module()
    y, _ = exported(x[1:2], state)
    assert torch.equal(y[0], module.step(x[1], state)[0])


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])
def test_export_for_any_number_of_steps_and_sequences(layer, strict):
    module = randomised(layer(M, SIZE, 2, matrix=SPEC)).eval()
    free = {0: torch.export.Dim("T", min=2), 1: torch.export.Dim("B", min=2)}
    exported = torch.export.export(
        module, (signed(T, B, M),), dynamic_shapes={"input": free}, strict=strict
    )
    x = signed(T + 4, B + 3, M)
    torch.testing.assert_close(exported.module()(x), module(x))


@pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])
def test_a_program_runs_where_the_engine_it_names_does_not(layer, monkeypatch):
    module, x = randomised(layer(M, SIZE, 2, matrix=SPEC)).eval(), signed(T, B, M)
    exported = torch.export.export(module, (x,)).module()
    expected = trained(module, x)
    engine = next(b._engine for b in module._backends() if b.name == "cpu")
    monkeypatch.setattr(engine, "_given", "there is no compiled scan on this machine")
    assert module.explain_backends(x)["cpu"] == "there is no compiled scan on this machine"
    torch.testing.assert_close(trained(exported, x), expected)


def test_a_unitary_program_of_a_gpu_runs_without_one():
    """Where no engine serves, the plain loop does, and its gradients."""
    cell = randomised(passnet.UnitaryRNN(M, SIZE)).cell
    call = cell.scan(signed(T, B, M), signed(B, 2 * SIZE), hold=None)
    live, fixed, layout = call.flatten()
    (states,) = torch.ops.passnet.unitary_scan(live, fixed, layout, "cuda")
    (expected,) = unitary_backends()[-1].run(call)
    assert torch.equal(states, expected)
    weights = list(cell.parameters())[:4]
    found = torch.autograd.grad(states.square().sum(), weights)
    wanted = torch.autograd.grad(expected.square().sum(), weights)
    torch.testing.assert_close(found, wanted)


LOADED = """
import sys, torch
if len(sys.argv) > 2:
    import passnet.ops
program, x = torch.export.load(sys.argv[1]).module(), torch.ones(5, 4, 3)
print(program(x)[0].sum().item())
"""


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated")
@pytest.mark.parametrize(
    "layer", [passnet.GRU(2, 3), passnet.LSTM(2, 3), passnet.UnitaryRNN(2, 3), passnet.Highway(3)]
)
def test_a_script_is_refused_in_a_sentence(layer):
    for module in (layer, nn.Sequential(layer)):
        with pytest.raises(TypeError, match=rf"{type(layer).__name__}: use torch\.compile"):
            torch.jit.script(module)


class LeafTracer(torch.fx.Tracer):
    def is_leaf_module(self, m, module_qualified_name):
        return type(m).__module__.startswith("passnet")


@pytest.mark.parametrize(
    "layer", [passnet.GRU(2, 3), passnet.LSTM(2, 3), passnet.UnitaryRNN(2, 3), passnet.Highway(2)]
)
def test_fx_is_told_to_take_a_layer_as_a_leaf(layer):
    module = nn.Sequential(layer)
    with pytest.raises(TypeError, match=r"name it a leaf \(Tracer\.is_leaf_module\)"):
        torch.fx.symbolic_trace(module)
    traced = torch.fx.GraphModule(module, LeafTracer().trace(module))
    x = signed(T, B, 2)
    torch.testing.assert_close(traced(x), module(x), rtol=0, atol=0)


def test_a_program_is_loaded_where_its_ops_are_imported(tmp_path):
    module = randomised(passnet.GRU(M, SIZE)).eval()
    path = tmp_path / "program.pt2"
    torch.export.save(torch.export.export(module, (torch.ones(T, B, M),)), path)

    def run(*more):
        command = [sys.executable, "-c", LOADED, str(path), *more]
        return subprocess.run(command, capture_output=True, text=True)

    loaded = run("with passnet.ops")
    assert loaded.returncode == 0, loaded.stderr
    assert float(loaded.stdout) == module(torch.ones(T, B, M))[0].sum().item()
    assert "torch.ops.passnet.gru_scan" in run().stderr


@each_module
def test_copies_compute_the_same_and_are_independent(kind):
    module = randomised(MODULES[kind]()).eval()
    x = signed(T, B, M)
    expected = first_output(module, x)
    stream = io.BytesIO()
    torch.save(module, stream)
    stream.seek(0)
    copies = [
        copy.deepcopy(module),
        pickle.loads(pickle.dumps(module)),
        torch.load(stream, weights_only=False),
    ]
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1)
    for other in copies:
        assert torch.equal(first_output(other, x), expected)
        assert not torch.equal(first_output(module, x), expected)


@each_module
def test_state_dict_round_trip(kind):
    module, other = randomised(MODULES[kind]()), MODULES[kind]()
    for buffer in module.buffers():
        if buffer.is_floating_point():
            buffer.add_(0.25)
    missing, unexpected = other.load_state_dict(module.state_dict())
    assert not missing and not unexpected
    x = signed(T, B, M)
    assert torch.equal(first_output(other.eval(), x), first_output(module.eval(), x))
    with pytest.raises(RuntimeError, match=r"Missing key|size mismatch"):
        passnet.GRU(M, SIZE + 1).load_state_dict(module.state_dict())


@each_module
def test_to_moves_everything(kind):
    module = MODULES[kind]().to(torch.float64)
    floating = [t for t in module.state_dict().values() if t.is_floating_point()]
    assert floating and all(t.dtype == torch.float64 for t in floating)
    assert first_output(module, signed(T, B, M).double()).dtype == torch.float64
    module.to("meta")
    assert all(p.is_meta for p in module.parameters())
    assert "(" in repr(module)


@pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])
def test_device_and_dtype_at_construction(layer):
    module = layer(M, SIZE, matrix=SPEC, device="meta", dtype=torch.bfloat16)
    assert all(p.is_meta and p.dtype == torch.bfloat16 for p in module.parameters())
    module = module.to_empty(device="cpu")
    module.reset_parameters()
    assert torch.isfinite(module(signed(T, B, M).bfloat16())[0]).all()


@pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])
def test_functional_call_uses_the_given_parameters(layer):
    module = randomised(layer(M, SIZE, 2, matrix=SPEC, weight_norm=True))
    other = randomised(copy.deepcopy(module))
    x = signed(T, B, M)
    given = {name: p.detach().requires_grad_() for name, p in other.named_parameters()}
    y, _ = torch.func.functional_call(module, given, (x,))
    assert torch.equal(y, other(x)[0])
    y.sum().backward()
    assert all((p.grad != 0).any() for p in given.values())
    assert all(p.grad is None for p in module.parameters())


class Doubled(nn.Module):
    def forward(self, raw):
        return 2 * raw


@pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])
@pytest.mark.parametrize("batch_first", [False, True])
def test_what_a_checkpoint_forgets_is_computed_again(layer, batch_first):
    module = randomised(layer(M, SIZE, matrix=SPEC, weight_norm=True, batch_first=batch_first))
    x = signed(T, B, M).requires_grad_()
    wanted = [x, *module.parameters()]
    expected = torch.autograd.grad(copy.deepcopy(module)(x)[0].sum(), [x])
    for _ in range(3):  # the second call of a kind looks for shorter ways
        y = checkpoint(lambda x: module(x)[0], x, use_reentrant=False)
        found = torch.autograd.grad(y.sum(), wanted)
        assert torch.equal(found[0], expected[0])
        torch.testing.assert_close(found, torch.autograd.grad(module(x)[0].sum(), wanted))


@pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])
@pytest.mark.parametrize("name", ["expand", "project", "diagonal"])
def test_a_parametrised_factor_still_trains(layer, name):
    module = randomised(layer(M, SIZE, matrix=passnet.LowRankPlusDiagonal(3)))
    count = passnet.count_parameters(module)
    raw = getattr(module.cells[0].recurrent, name).detach().clone()
    x = signed(T, B, M)
    plain = copy.deepcopy(module)
    parametrize.register_parametrization(module.cells[0].recurrent, name, Doubled())
    assert passnet.count_parameters(module) == count
    with torch.no_grad():
        getattr(plain.cells[0].recurrent, name).copy_(2 * raw)
    y, expected = module(x)[0], plain(x)[0]
    assert torch.equal(y, expected)
    y.sum().backward()
    expected.sum().backward()
    original = module.cells[0].recurrent.parametrizations[name].original
    # A factor of two is exact.
    assert torch.equal(original.grad, 2 * getattr(plain.cells[0].recurrent, name).grad)
    torch.optim.SGD(module.parameters(), lr=0.1).step()
    assert not torch.equal(module(x)[0], y)
    parametrize.remove_parametrizations(module.cells[0].recurrent, name)
    assert module(x)[0].shape == y.shape


def _train_on_one_rank(rank: int, size: int, path: str, batch, how: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{path}", rank=rank, world_size=size
    )
    torch.manual_seed(0)
    layer = passnet.GRU(M, SIZE, 2, matrix=SPEC)
    if how == "DDP":
        module = nn.parallel.DistributedDataParallel(layer)
    else:  # imported here: it takes a second
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        module = fully_shard(layer, mesh=init_device_mesh("cpu", (size,)))
    share = batch[:, rank::size]
    module(share)[0].square().mean().backward()
    grads = {n: p.grad for n, p in layer.named_parameters()}
    if how == "FSDP":
        grads = {n: grad.full_tensor() for n, grad in grads.items()}
    if rank == 0:
        torch.save(grads, path + ".grads")
    torch.distributed.barrier()
    # Not by way of gloo's teardown, which now and then waits for a peer that has gone.
    os._exit(0)


@pytest.mark.parametrize("how", ["DDP", "FSDP"])
def test_two_data_parallel_processes_give_the_gradient_of_the_whole_batch(tmp_path, how):
    path, batch = str(tmp_path / "meeting"), signed(T, B, M)
    torch.multiprocessing.spawn(_train_on_one_rank, (2, path, batch, how), nprocs=2)
    got = torch.load(path + ".grads")
    torch.manual_seed(0)
    module = passnet.GRU(M, SIZE, 2, matrix=SPEC)
    exact = doubled(module)
    module(batch)[0].square().mean().backward()
    exact(batch.double())[0].square().mean().backward()
    assert_all_accurate(
        got,
        reference={n: p.grad for n, p in module.named_parameters()},
        truth={n: p.grad for n, p in exact.named_parameters()},
    )


@pytest.mark.parametrize("layer", [passnet.GRU, passnet.LSTM])
@pytest.mark.parametrize("name", MAIN)
def test_recurrent_matrices_are_live_views(layer, name):
    module = layer(M, SIZE, 2, bidirectional=True, matrix=STRUCTURES[name])
    gates = module.cells[0].gate_names
    for index in range(4):
        for gate in gates:
            matrix = module.recurrent_matrix(gate, layer=index // 2, reverse=bool(index % 2))
            expected = module.cells[index].recurrent.gate(gates.index(gate)).dense()
            assert torch.equal(matrix.dense(), expected)
            assert matrix.dense().requires_grad
    carry = module.recurrent_matrix("carry", layer=-1)
    assert torch.equal(carry.dense(), module.recurrent_matrix("carry", layer=1).dense())
    assert gates.index("carry") == 1


def test_training_reaches_what_a_dense_layer_reaches():
    """A structured layer learns to remember one symbol over a gap."""
    module = nn.ModuleDict(
        {
            "body": passnet.GRU(4, 12, matrix=passnet.LowRankPlusDiagonal(3), carry_bias=2.0),
            "head": nn.Linear(12, 3),
        }
    )
    optimiser = torch.optim.Adam(module.parameters(), lr=0.03)
    for _ in range(60):
        target = torch.randint(3, (32,))
        symbols = torch.full((8, 32), 3)
        symbols[0] = target
        y, _ = module["body"](symbols)
        logits = module["head"](y[-1])
        loss = nn.functional.cross_entropy(logits, target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert torch.equal(logits.argmax(-1), target)


def test_weights_of_a_gru_that_resets_elsewhere_are_refused(tmp_path):
    def model(reset):
        return nn.Sequential(passnet.GRU(3, 5, matrix=passnet.LowRank(2), reset=reset))

    after, before = model("after"), model("before")
    torch.save(before.state_dict(), tmp_path / "weights.pt")
    kept = {name: value.clone() for name, value in after.state_dict().items()}
    with pytest.raises(ValueError, match=r"with reset='before' and this layer has reset='after'"):
        after.load_state_dict(torch.load(tmp_path / "weights.pt"))
    with pytest.raises(ValueError, match=r"weights of a passnet\.GRU .* a passnet\.LSTM"):
        nn.Sequential(passnet.LSTM(3, 5)).load_state_dict(before.state_dict())
    assert all(torch.equal(value, kept[name]) for name, value in after.state_dict().items())
    model("before").load_state_dict(torch.load(tmp_path / "weights.pt"))
    after.load_state_dict(dict(before.state_dict()))  # no note, nothing to go by
