"""Random numbers as a pure function of (key, example, slot): nothing to seed, advance or save.

A draw is the SplitMix64 output at position `example * slots + slot` of the sequence that starts at
`key`. Integer arithmetic modulo 2**64 gives the same numbers on every device and in every version.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

_GAMMA = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_WORD = (1 << 64) - 1


def key(*words: int | str) -> int:
    """A 64-bit key that depends on every word and on their order."""
    state = 0
    for word in words:
        number = int.from_bytes(word.encode(), "little") if isinstance(word, str) else word
        # A tag keeps 1 and "\x01" apart; negative and very long words are folded, not cut.
        state = _mix_int(state + (2 if isinstance(word, str) else 1) * _GAMMA)
        while True:
            state = _mix_int(state ^ (number & _WORD))
            number >>= 64
            if number in (0, -1):
                break
        state = _mix_int(state + (number & 1))
    return state


def bits(key: int, examples: Int[Tensor, " B"], *, slots: int) -> Int[Tensor, "slots B"]:
    """Random int64 words, all 64 bits of each in use."""
    slot = torch.arange(slots, dtype=torch.int64, device=examples.device).unsqueeze(1)
    counter = examples.unsqueeze(0) * slots + slot
    return _mix(counter * _signed(_GAMMA) + _signed(key))


def uniform(key: int, examples: Int[Tensor, " B"], *, slots: int) -> Float[Tensor, "slots B"]:
    """Float32 numbers in [0, 1), multiples of 2**-24."""
    return _right(bits(key, examples, slots=slots), 40).to(torch.float32) * 2.0**-24


def integers(
    key: int, examples: Int[Tensor, " B"], *, slots: int, high: int
) -> Int[Tensor, "slots B"]:
    """Integers in 0 .. high - 1; high may be at most 2**31."""
    return _right(bits(key, examples, slots=slots), 32) * high >> 32


def shuffled(key: int, size: int, *, device: torch.device | str = "cpu") -> Int[Tensor, " size"]:
    """A permutation of 0 .. size - 1."""
    words = bits(key, torch.arange(size, dtype=torch.int64, device=device), slots=1)
    return torch.argsort(words.squeeze(0), stable=True)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _right(words: Tensor, places: int) -> Tensor:
    # torch shifts int64 arithmetically: the copies of the sign bit are masked away.
    return (words >> places) & ((1 << (64 - places)) - 1)


def _mix(words: Tensor) -> Tensor:
    words = (words ^ _right(words, 30)) * _signed(_FIRST)
    words = (words ^ _right(words, 27)) * _signed(_SECOND)
    return words ^ _right(words, 31)


def _mix_int(word: int) -> int:
    word &= _WORD
    word = ((word ^ (word >> 30)) * _FIRST) & _WORD
    word = ((word ^ (word >> 27)) * _SECOND) & _WORD
    return word ^ (word >> 31)
