"""The paper's conclusions, each with the rows that it is about."""

from __future__ import annotations

from passnet.report.claims import (
    Claim,
    above,
    as_printed,
    exceeds,
    fails,
    no_worse,
    solves,
    sooner,
    within,
)

_DIGITS, _MEMORY = "section 3, sequential MNIST task", "section 3, memory task"
_CHARACTERS = "section 3, character-level language modelling"


def _digits(*names: str) -> tuple[str, ...]:
    return tuple(f"psmnist/{name}" for name in names)


def _memory(name: str) -> tuple[str, ...]:
    return tuple(f"copy-{form}/{name}" for form in ("500", "variable-length", "variable-lag"))


def _characters(*names: str) -> tuple[str, ...]:
    return tuple(f"char-lm/{name}" for name in names)


_GRU, _LOW, _SHORT, _SMALL, _MIDDLE, _LARGE = _digits(
    "gru-128", "lr-gru-128-24", "lr-gru-512-4", "lrd-gru-64-24", "lrd-gru-128-24", "lrd-gru-256-24"
)
_LRD, _NORM, _UNITARY = map(_memory, ("lrd-gru-128-50", "lrd-gru-128-50-wn", "urnn-721"))
_DENSE_500 = "copy-500/gru-128"
_C_GRU, _C_GRU_DROP, _C_1000, _C_3298, _C_3298_DROP, _C_5459, _C_5459_TIED = _characters(
    "gru-1000",
    "gru-1000-dropout",
    "lrd-gru-1000-64",
    "lrd-gru-3298-128",
    "lrd-gru-3298-128-dropout",
    "lrd-gru-5459-64-dropout",
    "lrd-gru-5459-64-tied-dropout",
)
_C_1000_TIED, _C_4480_TIED, _C_6985_TIED, _C_LSTM, _C_LRD_LSTM = _characters(
    "lrd-gru-1000-64-tied",
    "lrd-gru-4480-128-tied-dropout",
    "lrd-gru-6985-64-tied-dropout",
    "lstm-1000-dropout",
    "lrd-lstm-1740-300-dropout",
)
_ADDITION = "addition-750/lr-gru-128-24"
_HIGHWAY, _HIGHWAY_DIAGONAL = "highway-mnist/lr-1024-256", "highway-mnist/lrd-1024-256"

CONCLUSIONS = (
    Claim(
        "On permuted MNIST all models except the low-rank GRU 512/4 exceed the uRNN's 91.4 %.",
        _DIGITS,
        (_GRU, _LOW, _SHORT, _SMALL, _MIDDLE, _LARGE),
        tuple(exceeds(name, 0.914) for name in (_GRU, _LOW, _SMALL, _MIDDLE, _LARGE)),
    ),
    Claim(
        "The low-rank GRU is slightly less accurate than the dense GRU of the same state size.",
        _DIGITS,
        (_LOW, _GRU),
        (above(_GRU, _LOW),),
    ),
    Claim(
        "Low-rank plus diagonal is more accurate than dense of the same state size, and than "
        "low-rank: the diagonal is useful.",
        _DIGITS,
        (_MIDDLE, _GRU, _LOW),
        (above(_MIDDLE, _GRU), above(_MIDDLE, _LOW)),
    ),
    Claim(
        "The model of 256 units is the best, on par with the 94.0 % of networks with time-skip "
        "connections.",
        f"table 1; {_DIGITS}",
        (_LARGE, _MIDDLE),
        (above(_LARGE, _MIDDLE), exceeds(_LARGE, 0.94)),
    ),
    Claim(
        "A dense GRU solves the memory task with N = 500, but much more slowly than the uRNN.",
        _MEMORY,
        (_DENSE_500, _UNITARY[0]),
        (solves(_DENSE_500), sooner(_UNITARY[0], _DENSE_500)),
    ),
    Claim(
        "The low-rank plus diagonal GRU solves the memory task with N = 500 in under 35 000 "
        "updates, with variable length in under 30 000, with variable lag in under 38 000.",
        _MEMORY,
        _LRD,
        tuple(solves(name) for name in _LRD),
        with_others=True,
    ),
    Claim(
        "A uRNN with about as many parameters is perfect on the training sequences of N = 500 in "
        "under 2000 updates, but overfits.",
        _MEMORY,
        _UNITARY[:1],
        (within(_UNITARY[0], 2000), fails(_UNITARY[0])),
    ),
    Claim(
        "The uRNN learns faster than the low-rank plus diagonal GRU on variable length, and fails "
        "on variable lag.",
        _MEMORY,
        (_UNITARY[1], _LRD[1], _UNITARY[2]),
        (sooner(_UNITARY[1], _LRD[1]), fails(_UNITARY[2])),
    ),
    Claim(
        "With weight norm and max-norm the low-rank plus diagonal GRU converges faster, on a par "
        "with the uRNN on variable length.",
        _MEMORY,
        (*(name for pair in zip(_NORM, _LRD, strict=True) for name in pair), _UNITARY[1]),
        (
            *(sooner(norm, plain) for norm, plain in zip(_NORM, _LRD, strict=True)),
            solves(_NORM[1]),
        ),
    ),
    Claim(
        "The low-rank GRU reaches a squared error of 0.003 in 14 500 updates of the addition task.",
        "section 3, addition task",
        (_ADDITION,),
        (as_printed(_ADDITION),),
    ),
    Claim(
        "Low-rank plus diagonal has a lower perplexity than a dense GRU, with fewer parameters or "
        "about as many.",
        _CHARACTERS,
        (_C_1000, _C_GRU, _C_3298_DROP, _C_GRU_DROP),
        (above(_C_1000, _C_GRU), above(_C_3298_DROP, _C_GRU_DROP)),
    ),
    Claim(
        "Tied projections do as well as untied ones of the same state size.",
        _CHARACTERS,
        (_C_1000_TIED, _C_1000, _C_5459_TIED, _C_5459),
        (no_worse(_C_1000_TIED, _C_1000), no_worse(_C_5459_TIED, _C_5459)),
    ),
    Claim(
        "At the same number of parameters tied projections do better, presumably because the "
        "state is larger.",
        _CHARACTERS,
        (_C_6985_TIED, _C_5459, _C_4480_TIED, _C_3298_DROP),
        (above(_C_6985_TIED, _C_5459), above(_C_4480_TIED, _C_3298_DROP)),
    ),
    Claim(
        "Dropout lowers the perplexity of the dense GRU and of 3298 units of rank 128.",
        "table 2",
        (_C_GRU_DROP, _C_GRU, _C_3298_DROP, _C_3298),
        (above(_C_GRU_DROP, _C_GRU), above(_C_3298_DROP, _C_3298)),
    ),
    Claim(
        "The low-rank plus diagonal LSTM has a notably lower perplexity than the dense LSTM.",
        _CHARACTERS,
        (_C_LRD_LSTM, _C_LSTM),
        (above(_C_LRD_LSTM, _C_LSTM),),
        with_others=True,
    ),
    Claim(
        "The diagonal does not help the Highway network.",
        "appendix A.1",
        (_HIGHWAY_DIAGONAL, _HIGHWAY),
        (no_worse(_HIGHWAY, _HIGHWAY_DIAGONAL),),
    ),
)
