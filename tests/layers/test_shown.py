"""What layers show of themselves: all that is not as usual."""

from __future__ import annotations

import torch

import passnet


def test_what_a_layer_shows_of_itself():
    shown = repr(
        passnet.GRU(
            5,
            7,
            2,
            matrix=passnet.LowRank(3),
            reset="before",
            carry_bias=4.0,
            learn_initial_state=True,
            dropout=0.1,
            dropout_state=0.2,
            zoneout=0.3,
        )
    )
    first = "5, 7, matrix=LowRank(rank=3, tied=False), num_layers=2, dropout=0.1, reset='before'"
    then = "learn_initial_state=True, carry_bias=4.0, dropout_state=0.2, zoneout=0.3"
    assert f"{first}, {then}" in shown
    assert "5, 7, matrix=Dense()\n" in repr(passnet.GRU(5, 7))
    others = {"bias": False, "batch_first": True, "weight_norm": True, "max_row_norm": 2.0}
    others |= {"init": "balanced", "backend": "eager", "dropout_input": 0.5}
    shown = repr(passnet.LSTM(5, 7, **others, dropout_input_per="step"))
    assert all(f"{name}={value!r}" in shown for name, value in others.items())
    assert "dropout_input=0.5, dropout_input_per='step'" in shown
    assert "carry_bias=a vector" in repr(passnet.GRU(5, 7, carry_bias=torch.ones(7)))


def test_a_recurrent_bias_is_shown_where_torch_has_none_or_has_one():
    rank = passnet.LowRank(3)
    for unusual in (
        passnet.GRU(5, 7, recurrent_bias=False),
        passnet.GRU(5, 7, matrix=rank, recurrent_bias=True),
    ):
        assert f"recurrent_bias={unusual.recurrent_bias}" in repr(unusual)
    for usual in (passnet.GRU(5, 7), passnet.GRU(5, 7, matrix=rank), passnet.GRU(5, 7, bias=False)):
        assert "recurrent_bias" not in repr(usual)


def test_what_the_other_layers_show():
    others = {"num_layers": 2, "activation": "tanh", "transform_bias": -3.0, "batch_norm": True}
    others |= {"dropout": 0.1, "dropout_bottleneck": 0.2, "max_row_norm": 2.0, "init": "balanced"}
    matrix = passnet.LowRank(3)
    said = ", ".join(f"{name}={value!r}" for name, value in others.items())
    assert f"7, matrix={matrix!r}, {said}\n" in repr(passnet.Highway(7, matrix=matrix, **others))
    assert "7, matrix=Dense()\n" in repr(passnet.Highway(7))
    shown = repr(passnet.UnitaryRNN(5, 7, batch_first=True, backend="reference"))
    assert "5, 7, batch_first=True, backend='reference'\n" in shown
    assert "5, 7\n" in repr(passnet.UnitaryRNN(5, 7))
