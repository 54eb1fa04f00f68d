"""The moving average against its weighted sum written out."""

from __future__ import annotations

import torch

from passnet.training.averaging import Average


def test_weights_fall_by_the_decay_and_sum_to_one():
    average, decay = Average(0.8), 0.8
    values = [torch.randn(3, 2, dtype=torch.float64) for _ in range(12)]
    for count, value in enumerate(values, start=1):
        average.add({"w": value})
        powers = [decay ** (count - 1 - k) for k in range(count)]
        weights = [power / sum(powers) for power in powers]
        expected = sum(w * v for w, v in zip(weights, values, strict=False))
        torch.testing.assert_close(average.tensors["w"], expected, rtol=1e-12, atol=1e-13)
    assert average.count == 12


def test_the_first_parameters_are_the_average_and_are_copied():
    average, value = Average(0.999), torch.ones(2)
    average.add({"w": value})
    value.zero_()
    assert torch.equal(average.tensors["w"], torch.ones(2))


def test_restart_forgets():
    average = Average(0.9)
    for _ in range(5):
        average.add({"w": torch.randn(2)})
    average.restart({"w": torch.full((2,), 7.0)})
    assert torch.equal(average.tensors["w"], torch.full((2,), 7.0))
    assert average.count == 1
