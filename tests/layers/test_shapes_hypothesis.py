"""Shapes of every kind, found by hypothesis: outputs and states are shaped as torch's."""

from __future__ import annotations

import torch
from accuracy import assert_accurate
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_twins import doubled, randomised, signed
from torch import nn

import passnet

few = settings(max_examples=30, deadline=None, derandomize=True)


@st.composite
def structures(draw, size: int):
    rank = draw(st.integers(1, size))
    tied = draw(st.booleans())
    blocks = draw(st.sampled_from([k for k in range(1, size + 1) if size % k == 0]))
    return draw(
        st.sampled_from(
            [
                passnet.Dense(),
                passnet.LowRank(rank, tied),
                passnet.LowRankPlusDiagonal(rank, tied),
                passnet.BlockDiagonal(blocks),
                passnet.BlockDiagonalPlusLowRank(blocks, rank, tied),
            ]
        )
    )


@st.composite
def calls(draw, least: int = 1):
    size = draw(st.integers(least, 9))
    steps, batch = draw(st.integers(1, 5)), draw(st.integers(least, 6))
    return {
        "size": size,
        "steps": steps,
        "batch": batch,
        "inputs": draw(st.integers(1, 4)),
        "layers": draw(st.integers(1, 3)),
        "bidirectional": draw(st.booleans()),
        "batch_first": draw(st.booleans()),
        "batched": draw(st.booleans()),
        "bias": draw(st.booleans()),
        "given": draw(st.booleans()),
        "symbols": draw(st.booleans()),
        "lengths": draw(
            st.none() | st.lists(st.integers(1, steps), min_size=batch, max_size=batch)
        ),
        "lstm": draw(st.booleans()),
        "reset": draw(st.sampled_from(["before", "after"])),
        "matrix": draw(structures(size)),
        "weight_norm": draw(st.booleans()),
        "learn": draw(st.booleans()),
    }


def build(c):
    """(our layer, torch's dense layer of the same sizes)."""
    shared = {
        "num_layers": c["layers"],
        "bias": c["bias"],
        "batch_first": c["batch_first"],
        "bidirectional": c["bidirectional"],
    }
    ours = shared | {
        "matrix": c["matrix"],
        "weight_norm": c["weight_norm"],
        "learn_initial_state": c["learn"],
    }
    if c["lstm"]:
        layers = passnet.LSTM(c["inputs"], c["size"], **ours), nn.LSTM
    else:
        layers = passnet.GRU(c["inputs"], c["size"], reset=c["reset"], **ours), nn.GRU
    return randomised(layers[0]), layers[1](c["inputs"], c["size"], **shared)


@few
@given(calls())
def test_any_call_has_torchs_shapes_and_reaches_every_parameter(c):
    torch.manual_seed(0)
    module, theirs = build(c)
    lead = (c["steps"],)
    if c["batched"]:
        lead = (c["batch"], c["steps"]) if c["batch_first"] else (c["steps"], c["batch"])
    lengths = c["lengths"] if c["batched"] else None
    x = torch.randint(c["inputs"], lead) if c["symbols"] else signed(*lead, c["inputs"])
    cells = c["layers"] * (2 if c["bidirectional"] else 1)
    shape = (cells, c["batch"], c["size"]) if c["batched"] else (cells, c["size"])
    state = None
    if c["given"]:
        state = (signed(*shape), signed(*shape)) if c["lstm"] else signed(*shape)
    y, final = module(x, state, lengths=lengths)
    expected, expected_final = theirs(signed(*lead, c["inputs"]), state)
    assert y.shape == expected.shape
    finals = final if c["lstm"] else (final,)
    for part, other in zip(finals, expected_final if c["lstm"] else (expected_final,), strict=True):
        assert part.shape == other.shape
    (y.sum() + sum(part.sum() for part in finals)).backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None or (c["given"] and name.startswith("initial")), name
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), name


@few
@given(calls(least=4))
def test_any_call_is_its_steps(c):
    """The whole sequence against one step at a time; enough numbers for a mean square."""
    torch.manual_seed(0)
    module, _ = build(c | {"bidirectional": False, "batch_first": False})
    x = signed(c["steps"], c["batch"], c["inputs"])
    whole, _ = module(x)
    state, steps = None, []
    for x_t in x:
        y, state = module.step(x_t, state)
        steps.append(y)
    truth, _ = doubled(module)(x.double())
    assert_accurate(torch.stack(steps), reference=whole, truth=truth)
