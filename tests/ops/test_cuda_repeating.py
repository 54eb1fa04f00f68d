"""Which calls of a layer on a GPU take the short way when they come again."""

from __future__ import annotations

import pytest
import torch
from spying import forget_calls, record_tapes
from torch import nn
from torch.utils.checkpoint import checkpoint

import passnet
from passnet.layers import repeating
from passnet.ops import direct, gru_backends, scan_op
from passnet.ops.direct import Again
from passnet.ops.gru_scan.cuda import CudaGru

MATRIX = passnet.LowRankPlusDiagonal(4)
x = torch.randn(4, 2, 3)


@pytest.fixture(autouse=True)
def forgetful(on_cuda, monkeypatch) -> None:
    """Ops that remember no calls of other tests, on a chip that computes nothing."""
    forget_calls(monkeypatch)


@pytest.fixture
def short(monkeypatch) -> list[Again]:
    """The calls of layers that took the short way."""
    taken, run = [], Again.run

    def noted(self, *given):
        if self.ends:
            taken.append(self)
        return run(self, *given)

    monkeypatch.setattr(Again, "run", noted)
    return taken


def gru(**options) -> passnet.GRU:
    return passnet.GRU(3, 16, **{"matrix": MATRIX, **options})


@pytest.mark.parametrize(
    ("rnn", "call"),
    [
        (gru(), {}),
        (gru(reset="before", backend="cuda"), {}),
        (gru(matrix=passnet.Dense()), {}),
        (gru(bias=False, carry_bias=None), {}),
        (gru(batch_first=True), {}),
        (gru(dropout_state=0.5, dropout_input=0.1).eval(), {}),
        (passnet.LSTM(3, 16, matrix=MATRIX), {}),
        (gru().double().float(), {"input": x.clone().requires_grad_()}),
    ],
    ids=[
        "gru",
        "before",
        "dense",
        "no bias",
        "batch first",
        "dropout outside training",
        "lstm",
        "input gradient",
    ],
)
def test_one_scan_from_zero_takes_the_short_way(short, rnn, call):
    for count in (0, 1, 2):
        rnn(**{"input": x, **call})
        assert len(short) == count
    assert len(set(map(id, short))) == 1


ONE_SCAN, TWO_SCANS, NONE = [0, 0, 2, 4], [0, 0, 4, 8], [0, 0, 0, 0]
TWO_ALIKE = [0, 4, 8, 12]
"""The passes that were repeated after each of four calls; scans of equal shapes are of one kind."""


@pytest.mark.parametrize(
    ("rnn", "call", "passes"),
    [
        (gru(), {"hx": torch.zeros(1, 2, 16)}, ONE_SCAN),
        (gru(), {"lengths": [4, 2]}, ONE_SCAN),
        (passnet.LSTM(3, 16, matrix=MATRIX), {"lengths": [4, 2]}, ONE_SCAN),
        (gru(), {"input": torch.zeros(4, 2, dtype=torch.long)}, ONE_SCAN),
        (gru(), {"input": nn.Parameter(x.clone())}, ONE_SCAN),
        (gru(), {"input": x[:, 0].clone()}, ONE_SCAN),
        (gru(), {"input": x[:, 0]}, NONE),  # which is not dense
        (gru(learn_initial_state=True), {}, ONE_SCAN),
        (gru(num_layers=2), {}, TWO_SCANS),
        (gru(bidirectional=True), {}, TWO_ALIKE),
        (gru(dropout_state=0.5), {}, ONE_SCAN),
        (gru(zoneout=0.5), {}, ONE_SCAN),
        (gru(zoneout=0.5).eval(), {}, NONE),  # one number for all units
        (gru(weight_norm=True), {}, ONE_SCAN),
        (passnet.LSTM(3, 16, matrix=MATRIX), {"hx": torch.zeros(2, 1, 2, 16).unbind()}, ONE_SCAN),
        (gru(backend="eager"), {}, NONE),
    ],
)
def test_everything_else_is_read_anew_and_repeats_its_passes(short, monkeypatch, rnn, call, passes):
    played, counts = record_tapes(monkeypatch), []
    for _ in passes:
        rnn(**{"input": x, **call})[0].sum().backward()
        counts.append(len(played))
    assert counts == passes and not short


def under_autocast(rnn):
    with torch.autocast("cpu", torch.bfloat16):
        return rnn(x)


def under_vmap(rnn):
    return torch.vmap(rnn)(x.expand(2, *x.shape))


def forward_mode(rnn):
    with torch.autograd.forward_ad.dual_level():
        return rnn(torch.autograd.forward_ad.make_dual(x, x))


def with_other_parameters(rnn):
    others = {name: value * 2 for name, value in rnn.named_parameters()}
    return torch.func.functional_call(rnn, others, (x,))


def on_a_default_device(rnn):
    with torch.device("cpu"):
        return rnn(x)


@pytest.mark.parametrize(
    "how",
    [
        under_autocast,
        under_vmap,
        forward_mode,
        with_other_parameters,
        on_a_default_device,
    ],
)
def test_what_is_around_a_call_that_was_made_before_counts(short, how):
    rnn = gru()
    for _ in range(3):
        rnn(x)
    del short[:]
    how(rnn)
    assert not short


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_calls_without_gradients_take_the_short_way_too(short, mode):
    rnn = gru()
    for count in (0, 1, 2):
        with mode():
            output, state = rnn(x)
        assert len(short) == count and not (output.requires_grad or state.requires_grad)
    assert rnn(x)[0].requires_grad and len(short) == 3


def test_a_change_is_seen(short):
    rnn = gru(dropout_state=0.5)
    rnn.eval()
    for _ in range(3):
        rnn(x)
    assert len(short) == 2
    rnn.train()
    rnn(x)
    assert len(short) == 2
    rnn.eval()
    rnn(x)
    assert len(short) == 3
    rnn.backend = "eager"
    rnn(x)
    rnn.backend = "auto"
    assert len(short) == 3
    rnn.cells[0].bias = nn.Parameter(rnn.cells[0].bias.detach().clone())
    rnn(x)
    assert len(short) == 4, "another of the same kind is read where it lies"
    rnn.batch_first = True
    rnn(x.new_zeros(2, 2, 3))
    rnn.batch_first = False
    rnn(x.new_zeros(2, 2, 3))
    rnn(x.clone().requires_grad_())
    assert len(short) == 4
    rnn.bfloat16()
    rnn(x.bfloat16())
    assert len(short) == 4
    rnn.float().to("meta")
    with pytest.raises(ValueError, match="on cpu and the layer on meta"):
        rnn(x)
    rnn = gru()
    for _ in range(3):
        with pytest.raises(ValueError, match="5 features"):
            rnn(torch.randn(4, 2, 5))


def test_what_a_cuda_graph_is_made_of_goes_the_long_way(short, monkeypatch):
    rnn, played = gru(), record_tapes(monkeypatch)

    def back(output):
        torch.autograd.grad(output, list(rnn.parameters()), torch.ones_like(output))

    for _ in range(3):
        back(rnn(x)[0])
    assert len(short) == len(played) == 2
    output, _ = rnn(x)
    monkeypatch.setattr(direct, "captured", lambda tensor: True)
    back(output)
    assert len(played) == 3, "the forward"
    monkeypatch.setattr(repeating, "captured", lambda tensor: True)
    monkeypatch.setattr(scan_op, "captured", lambda tensor: True)
    rnn(x)
    assert len(short) == len(played) == 3


def test_a_scan_that_a_cuda_graph_is_made_of_goes_the_long_way(monkeypatch):
    rnn, played, state = gru(), record_tapes(monkeypatch), torch.zeros(1, 2, 16)
    for _ in range(3):
        rnn(x, state)
    assert len(played) == 1
    monkeypatch.setattr(scan_op, "captured", lambda tensor: True)
    rnn(x, state)
    assert len(played) == 1


def test_an_op_repeats_calls_of_one_engine_with_tensors_that_are_alike(monkeypatch):
    op, x = gru_backends()[0]._op, torch.zeros(2, 3)
    monkeypatch.setitem(op.engines, "another", op.engines["cuda"])

    def repeated(live, fixed, engine="cuda"):
        return isinstance(op._direct([live], [fixed], "", engine), Again)

    assert [repeated(x, x) for _ in range(3)] == [False, True, True]
    assert not repeated(x, x, "another")
    for other in (x.to("meta"), x.bfloat16(), x[:1]):
        assert not repeated(other, x) and not repeated(x, other)


def test_a_pass_without_a_tape_is_watched_once(short, monkeypatch):
    watched, record = [], CudaGru.record
    monkeypatch.setattr(CudaGru, "record", lambda *given: watched.append(1) or record(*given))
    rnn = gru(matrix=passnet.Dense())
    for _ in range(5):  # the gradient of their second bias is a sum of PyTorch's
        rnn(x)[0].sum().backward()
    assert len(short) == 4 and len(watched) == 2, "and never by the op, which saw one call"


def test_a_checkpoint_sees_the_same_tensors_saved_by_every_call():
    rnn = gru(weight_norm=True)
    for _ in range(3):  # the call of a kind that is looked into may be the one that computes again
        checkpoint(rnn, x, use_reentrant=False)[0].sum().backward()


def test_so_many_shapes_are_remembered(short):
    rnn = gru()
    lengths = range(1, repeating.MOST_CALLS + 1)
    for _ in range(3):
        for steps in lengths:
            rnn(torch.randn(steps, 2, 3))
    assert len(short) == 2 * repeating.MOST_CALLS
    for _ in range(3):
        rnn(torch.randn(repeating.MOST_CALLS + 1, 2, 3))
    assert len(short) == 2 * repeating.MOST_CALLS


def test_nothing_is_left_of_a_layer_that_is_gone(short):
    rnn = gru()
    for _ in range(3):
        rnn(x)
    before = len(repeating._memories)
    del rnn
    assert len(repeating._memories) == before - 1


def test_a_final_state_is_its_own(short):
    rnn = gru()
    for _ in range(3):
        output, state = rnn(x)
    assert short and state.shape == (1, 2, 16)
    state.detach_()
    assert output.requires_grad
    assert state.data_ptr() != output[-1].data_ptr()
