"""Draws are SplitMix64 at a place: checked against whole numbers, and for being uniform."""

from __future__ import annotations

import pytest
import torch

from passnet.tasks import draws

WORD = 2**64 - 1


def splitmix(state: int, count: int) -> list[int]:
    """The published generator, one word after another, on Python's integers."""
    words = []
    for _ in range(count):
        z = state & WORD
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
        words.append(z ^ (z >> 31))
        state += 0x9E3779B97F4A7C15
    return words


@pytest.mark.parametrize("key", [0, 1, 2**63, WORD, draws.key("copy", 3)])
def test_bits_are_the_published_generator(key: int) -> None:
    drawn = draws.bits(key, torch.arange(5), slots=3)
    expected = torch.tensor([word - 2**64 * (word >> 63) for word in splitmix(key, 15)])
    assert torch.equal(drawn.t().flatten(), expected)


def test_known_first_output_of_seed_zero() -> None:
    # The published first output for seed 0 is after one step of the state.
    assert splitmix(0, 2)[1] == 0xE220A8397B1DCDAF


def test_uniform_and_integers_take_the_high_bits() -> None:
    words = splitmix(9, 6)
    rows = torch.arange(6)
    assert draws.uniform(9, rows, slots=1)[0].tolist() == [(w >> 40) / 2**24 for w in words]
    drawn = draws.integers(9, rows, slots=1, high=10)[0].tolist()
    assert drawn == [((w >> 32) * 10) >> 32 for w in words]


def test_uniform_is_uniform_and_below_one() -> None:
    drawn = draws.uniform(draws.key(1), torch.arange(20_000), slots=10).double()
    assert drawn.min() >= 0 and drawn.max() < 1
    assert abs(drawn.mean() - 0.5) < 4 * (1 / 12) ** 0.5 / 200_000**0.5
    counts = torch.histc(drawn, 64, 0, 1)
    assert ((counts - 3125) ** 2 / 3125).sum() < 110
    # Neighbouring slots and neighbouring examples are not related.
    assert abs(torch.corrcoef(drawn[:2])[0, 1]) < 0.03
    assert abs(torch.corrcoef(torch.stack((drawn[0, :-1], drawn[0, 1:])))[0, 1]) < 0.03


def test_a_draw_depends_on_nothing_but_its_place() -> None:
    whole = draws.bits(5, torch.arange(100), slots=7)
    some = torch.tensor([93, 4, 4, 17])
    assert torch.equal(draws.bits(5, some, slots=7), whole[:, some])


def test_keys_differ() -> None:
    words = [
        (), (0,), (0, 0), (1,), (-1,), (2**64,), (2**64 - 1,), (2**64 + 1,), ("",), ("\x01",),
        ("a", "b"), ("ab",), ("b", "a"), (1, "a"), ("a", 1), (1, 2), (2, 1),
        ("a sentence of more than eight letters",), ("a sentence of more than eight letterz",),
    ]  # fmt: skip
    assert len({draws.key(*word) for word in words}) == len(words)
    assert all(0 <= draws.key(*word) <= WORD for word in words)


def test_shuffled_is_a_permutation_and_uniform() -> None:
    assert draws.shuffled(3, 1000).sort().values.tolist() == list(range(1000))
    places = torch.stack([draws.shuffled(draws.key("p", i), 4) for i in range(2400)])
    orders = (places * torch.tensor([64, 16, 4, 1])).sum(1)
    counts = torch.unique(orders, return_counts=True)[1]
    assert len(counts) == 24
    assert ((counts - 100.0) ** 2 / 100).sum() < 50


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_draws_the_same_numbers() -> None:
    rows = torch.arange(10_000)
    there = rows.to("cuda")
    assert torch.equal(draws.bits(7, there, slots=5).cpu(), draws.bits(7, rows, slots=5))
    assert torch.equal(draws.uniform(7, there, slots=5).cpu(), draws.uniform(7, rows, slots=5))
    assert torch.equal(draws.shuffled(7, 999, device="cuda").cpu(), draws.shuffled(7, 999))
