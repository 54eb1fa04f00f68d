"""Whole layers on the fused CUDA scans, and everything PyTorch does around them."""

from __future__ import annotations

import copy

import pytest
import torch
from accuracy import assert_all_accurate
from spying import forget_calls, record_tapes, the_long_way

import passnet
from passnet.layers.streaming import short_step
from passnet.ops.cuda.tape import Tape

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

MATRICES = [
    passnet.LowRank(5),
    passnet.LowRankPlusDiagonal(24),
    passnet.LowRankPlusDiagonal(7, tied=True),
    passnet.Dense(),
]
KINDS = [(passnet.GRU, {"reset": "after"}), (passnet.GRU, {"reset": "before"}), (passnet.LSTM, {})]


@pytest.fixture
def played(monkeypatch) -> list[Tape]:
    """The tapes that are played; tests that ran before in this process have left none."""
    forget_calls(monkeypatch)
    return record_tapes(monkeypatch)


def layer(kind, options, *, backend="cuda", size=96, **more):
    torch.manual_seed(3)
    return kind(6, size, device="cuda", backend=backend, **options, **more)


def numbers(rnn, x, **words):
    """Outputs and every gradient, by name."""
    x = x.detach().requires_grad_(x.is_floating_point())
    output = rnn(x, **words)[0]
    torch.manual_seed(4)
    weights = torch.randn(output.shape, device="cuda", dtype=torch.float64).to(output.dtype)
    (output * weights).sum().backward()
    found = {"output": output} | ({"input": x.grad} if x.requires_grad else {})
    for name, parameter in rnn.named_parameters():
        if parameter.grad is not None:
            found[name.removeprefix("_orig_mod.")] = parameter.grad
    return {name: tensor.detach() for name, tensor in found.items()}


def second_numbers(rnn, x):
    """Derivatives of the squared gradient of the input, by name."""
    x = x.detach().requires_grad_()
    (first,) = torch.autograd.grad(rnn(x)[0].square().sum(), x, create_graph=True)
    named = {"input": x} | dict(rnn.named_parameters())
    grads = torch.autograd.grad(first.square().sum(), list(named.values()))
    return {"first": first.detach()} | dict(zip(named, grads, strict=True))


def judged(rnn, x, *, found=None, numbers=numbers, **words):
    """The accuracy rule, beside the plain loop; for what was found elsewhere, if that is given."""
    reference = copy.deepcopy(rnn)
    reference.backend = "reference"
    truth = copy.deepcopy(reference).double()
    assert_all_accurate(
        numbers(rnn, x, **words) if found is None else found,
        reference=numbers(reference, x, **words),
        truth=numbers(truth, x.double() if x.is_floating_point() else x, **words),
    )


@pytest.mark.parametrize("matrix", [*MATRICES, passnet.LowRankPlusDiagonal(50)], ids=repr)
@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("wanted", [False, True])
def test_calls_made_over_and_over_are_the_same_bit_for_bit(
    played, kind, options, matrix, dtype, wanted
):
    rnn = layer(kind, options, size=128, matrix=matrix, dtype=dtype)
    parameters = list(rnn.parameters())

    def called(x, weights):
        output, state = rnn(x)
        loss = (output * weights).sum() + (state[0] if isinstance(state, tuple) else state).sum()
        among = [x, *parameters] if wanted else parameters
        return [output.detach(), loss.detach(), *torch.autograd.grad(loss, among)]

    for call in range(5):
        x = torch.randn(33, 5, 6, device="cuda", dtype=dtype, requires_grad=wanted)
        weights = torch.randn(33, 5, 128, device="cuda", dtype=dtype)
        found, before = called(x, weights), len(played)
        with the_long_way():
            assert all(map(torch.equal, found, called(x, weights)))
        assert len(played) == before
        # The sum for a second bias of dense matrices is PyTorch's, so their backward is not taped.
        each = 1 if getattr(rnn, "recurrent_bias", False) else 2
        assert before == each * max(0, call - 1)
        with torch.no_grad():
            for parameter in parameters:
                parameter.mul_(1.01)


@pytest.mark.parametrize(
    "more",
    [
        {"learn_initial_state": True},
        {"dropout_state": 0.3, "dropout_input": 0.1},
        {"zoneout": 0.2},
        {"num_layers": 2, "dropout": 0.3, "bidirectional": True},
    ],
    ids=repr,
)
@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize("symbols", [False, True])
@pytest.mark.parametrize("lengths", [None, [33, 20, 8, 2, 1]], ids=["full", "lengths"])
def test_passes_made_over_and_over_are_the_same_bit_for_bit(
    played, kind, options, more, symbols, lengths
):
    rnn = layer(kind, options, size=128, matrix=passnet.LowRankPlusDiagonal(24), **more)

    def called(x):
        torch.manual_seed(5)  # of masks
        output, _ = rnn(x, lengths=lengths)
        loss = output.square().sum()
        return [output.detach(), *torch.autograd.grad(loss, list(rnn.parameters()))]

    for _ in range(4):
        x = torch.randn(33, 5, 6, device="cuda")
        x = x.argmax(-1) if symbols else x
        found, before = called(x), len(played)
        with the_long_way():
            assert all(map(torch.equal, found, called(x)))
        assert len(played) == before
    assert played


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_calls_without_gradients_over_and_over(played, kind, options):
    rnn = layer(kind, options, size=128, matrix=passnet.LowRankPlusDiagonal(24))
    for mode in (torch.no_grad, torch.no_grad, torch.inference_mode, torch.no_grad):
        x = torch.randn(33, 5, 6, device="cuda")
        with mode():
            output, _ = rnn(x)
            with the_long_way():
                assert torch.equal(output, rnn(x)[0])
    assert len(played) == 2


def test_calls_made_over_and_over_on_several_streams():
    rnn = layer(passnet.GRU, {}, size=128, matrix=passnet.LowRankPlusDiagonal(24))
    parameters = list(rnn.parameters())
    inputs = [torch.randn(200, 5, 6, device="cuda") for _ in range(3)]

    def gradients(x):
        return torch.autograd.grad(rnn(x)[0].square().sum(), parameters)

    expected = [gradients(x) for x in inputs]
    streams = [torch.cuda.Stream() for _ in inputs]
    torch.cuda.synchronize()
    for _ in range(20):
        found = []
        for stream, x in zip(streams, inputs, strict=True):
            with torch.cuda.stream(stream):
                found.append(gradients(x))
        torch.cuda.synchronize()
        for one, other in zip(found, expected, strict=True):
            assert all(map(torch.equal, one, other))


@pytest.mark.parametrize("matrix", MATRICES, ids=repr)
@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_one_layer(kind, options, matrix):
    judged(layer(kind, options, matrix=matrix), torch.randn(30, 5, 6, device="cuda"))


@pytest.mark.parametrize("matrix", [*MATRICES, passnet.BlockDiagonal(4)], ids=repr)
@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_one_layer_by_the_eager_engine(kind, options, matrix):
    rnn = layer(kind, options, matrix=matrix, backend="eager")
    judged(rnn, torch.randn(30, 5, 6, device="cuda"))


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_zoneout_outside_training_and_symbols(kind, options):
    rnn = layer(kind, options, matrix=passnet.LowRankPlusDiagonal(8), zoneout=0.2).eval()
    judged(rnn, torch.randn(30, 5, 6, device="cuda"))
    rnn = layer(kind, options, matrix=passnet.LowRankPlusDiagonal(8))
    judged(rnn, torch.randint(6, (30, 5), device="cuda"))


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_layers_directions_lengths_and_a_learned_start(kind, options):
    rnn = layer(
        kind,
        options,
        matrix=passnet.LowRankPlusDiagonal(8),
        num_layers=2,
        bidirectional=True,
        learn_initial_state=True,
    )
    judged(rnn, torch.randn(20, 4, 6, device="cuda"), lengths=torch.tensor([8, 1, 7, 3]))


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_a_state_over_the_whole_chip(kind, options):
    rnn = layer(kind, options, matrix=passnet.LowRankPlusDiagonal(64), size=1500)
    judged(rnn, torch.randn(12, 9, 6, device="cuda"))


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_compiled_without_a_break(kind, options):
    rnn = layer(kind, options, matrix=passnet.LowRankPlusDiagonal(8))
    x = torch.randn(30, 5, 6, device="cuda")
    found = numbers(torch.compile(copy.deepcopy(rnn), fullgraph=True), x)
    judged(rnn, x, found=found)


@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_runs_in_its_dtype(kind, options, dtype):
    rnn = layer(kind, options, matrix=passnet.LowRankPlusDiagonal(8))
    x = torch.randn(10, 3, 6, device="cuda")
    with torch.autocast("cuda", dtype=dtype):
        output, _ = rnn(x)
    assert output.dtype == dtype
    output.float().sum().backward()
    assert all(p.grad.dtype == torch.float32 for p in rnn.parameters())


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_captured_in_a_cuda_graph(kind, options):
    rnn = layer(kind, options, matrix=passnet.LowRankPlusDiagonal(8))
    x = torch.randn(10, 3, 6, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            rnn(x)[0].sum().backward()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    rnn.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        output = rnn(x)[0]
        output.sum().backward()
    x.copy_(torch.randn_like(x))
    graph.replay()
    assert torch.equal(output, rnn(x)[0])


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_second_derivatives_are_those_of_the_plain_loop(kind, options):
    rnn = layer(kind, options, matrix=passnet.LowRankPlusDiagonal(8))
    judged(rnn, torch.randn(10, 5, 6, device="cuda"), numbers=second_numbers)


@pytest.mark.parametrize("width", [6, 80], ids=["narrow", "wide"])
@pytest.mark.parametrize("size", [96, 1200])
@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_a_retained_graph_gives_the_same_gradients_again(kind, options, size, width):
    torch.manual_seed(3)
    rnn = kind(width, size, device="cuda", matrix=passnet.LowRankPlusDiagonal(8), **options)
    output = rnn(torch.randn(7, 3, width, device="cuda"))[0].square().sum()
    parameters = list(rnn.parameters())
    first = torch.autograd.grad(output, parameters, retain_graph=True)
    assert all(map(torch.equal, torch.autograd.grad(output, parameters), first))


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_a_backward_captured_by_itself_can_be_replayed(kind, options):
    rnn = layer(kind, options, matrix=passnet.LowRankPlusDiagonal(8))
    x, parameters = torch.randn(10, 3, 6, device="cuda"), list(rnn.parameters())
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            torch.autograd.grad(rnn(x)[0].sum(), parameters)
    torch.cuda.current_stream().wait_stream(stream)
    forward, backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(forward):
        output = rnn(x)[0].sum()
    with torch.cuda.graph(backward, pool=forward.pool()):
        grads = torch.autograd.grad(output, parameters, retain_graph=True)
    forward.replay()
    found = []
    for _ in range(2):
        backward.replay()
        found.append([grad.clone() for grad in grads])
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("size", [96, 1200])
@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_graphed_by_torch_the_numbers_are_the_same(kind, options, size):
    rnn = layer(kind, options, matrix=passnet.LowRankPlusDiagonal(8), size=size)
    plain = copy.deepcopy(rnn)
    sample = torch.randn(10, 3, 6, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(rnn, (sample,))
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(10, 3, 6, device="cuda")
        for each in (graphed, plain):  # a replay writes its gradients where the last ones lie
            each.zero_grad(set_to_none=True)
        found, expected = numbers(graphed, x), numbers(plain, x)
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            assert torch.equal(found[name], tensor), name


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_a_backward_in_the_calling_thread_is_the_same(kind, options):
    rnn = layer(kind, options, matrix=passnet.LowRankPlusDiagonal(8))
    x, alone = torch.randn(10, 3, 6, device="cuda"), copy.deepcopy(rnn)
    expected = numbers(rnn, x)
    with torch.autograd.set_multithreading_enabled(False):
        found = numbers(alone, x)
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


def peak(rnn, x) -> int:
    """Bytes that a forward and backward pass takes at most, beside what was there."""
    for _ in range(2):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        rnn(x)[0].sum().backward()
    return torch.cuda.max_memory_allocated() - before


@pytest.mark.parametrize("size, rank", [(128, 24), (256, 24), (1000, 64)])
@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_memory_is_less_than_that_of_torch(kind, options, size, rank):
    x = torch.randn(200, 20, 6, device="cuda")
    rnn = kind(6, size, device="cuda", matrix=passnet.LowRankPlusDiagonal(rank), **options)
    assert peak(rnn, x) < peak(kind.torch_type(6, size, device="cuda"), x)


def test_double_precision_is_refused_with_a_sentence():
    rnn = layer(passnet.GRU, {}, matrix=passnet.LowRank(4)).double()
    with pytest.raises(passnet.BackendRefused, match="float64"):
        rnn(torch.randn(3, 2, 6, device="cuda", dtype=torch.float64))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("size", [96, 1200])
@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_steps_are_the_sequence(kind, options, size, layers):
    more = {"matrix": passnet.LowRankPlusDiagonal(8), "num_layers": layers}
    rnn = layer(kind, options, size=size, **more).eval()
    x = torch.randn(7, 8, 6, device="cuda")

    def whole(rnn, x):
        outputs, state = rnn(x)
        return {"output": outputs[1:]} | dict(zip("hc", rnn._split(state), strict=False))

    with torch.no_grad():
        state, outputs = rnn(x[:1])[1], []
        assert short_step(rnn, x[1], state) is not None
        for x_t in x[1:]:
            output, state = rnn.step(x_t, state)
            outputs.append(output)
        found = {"output": torch.stack(outputs)}
        found |= dict(zip("hc", rnn._split(state), strict=False))
        judged(rnn, x, found=found, numbers=whole)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("width", [6, 80], ids=["narrow", "wide"])
@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_one_step_is_a_sequence_of_one(kind, options, width, dtype):
    rnn = kind(width, 96, device="cuda", dtype=dtype, matrix=passnet.LowRank(8), **options).eval()
    features = torch.randn(3, width, device="cuda", dtype=dtype)
    symbols = torch.tensor([width - 1, 0, 2], device="cuda")
    with torch.no_grad():
        for x in (features, symbols):
            state = rnn(features.unsqueeze(0))[1]
            assert short_step(rnn, x, state) is not None
            found, expected = rnn.step(x, state), rnn(x.unsqueeze(0), state)
            assert torch.equal(found[0], expected[0][0])
            for mine, other in zip(rnn._split(found[1]), rnn._split(expected[1]), strict=True):
                assert torch.equal(mine, other)
