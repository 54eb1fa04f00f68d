"""The parameter counts the paper prints and the convention which produces them."""

from __future__ import annotations

from dataclasses import dataclass

STRUCTURES = ("dense", "low_rank", "low_rank_plus_diagonal")


def matrix_count(n, d, gates, tied, structure):
    """Parameters of the recurrent matrices, without biases; a tied R is counted once."""
    if structure not in STRUCTURES:
        raise ValueError(f"structure must be one of {STRUCTURES}, not {structure!r}")
    if structure == "dense":
        return gates * n * n
    total = 0
    for _ in range(gates):
        total += n * d
    for _ in range(1 if tied else gates):
        total += d * n
    if structure == "low_rank_plus_diagonal":
        for _ in range(gates):
            total += n
    return total


def recurrent_count(n, d, gates, tied, structure):
    """Recurrent matrices and gate biases, the paper's "in the recurrent layer"."""
    return matrix_count(n, d, gates, tied, structure) + gates * n


def parameter_count(n, d, gates, tied, m, k, structure, input_matrices=1, initial_state=False):
    """The total by the paper's convention: recurrent layer + m n + n k + k.

    The convention counts one input matrix instead of one for each gate, and no initial state.
    input_matrices=gates and initial_state=True count the model as equations 6 to 8 define it.
    """
    total = recurrent_count(n, d, gates, tied, structure)
    total += input_matrices * m * n
    total += n * k + k
    if initial_state:
        total += n
    return total


@dataclass(frozen=True)
class PublishedCount:
    """One count as printed.

    printed is the number of parameters and precision the unit of its last printed digit. scope is
    "total" or "recurrent". structure is one of STRUCTURES, or the name of another architecture
    for which the convention has no formula. consistent says whether the convention, rounded to
    that precision, gives the printed number, and is None where there is no formula; explanation
    says why not, or what qualifies the number.
    """

    name: str
    n: int | None
    d: int | None
    gates: int | None
    tied: bool
    m: int | None
    k: int | None
    structure: str
    printed: int
    precision: int
    scope: str = "total"
    consistent: bool | None = True
    explanation: str = ""

    def by_convention(self):
        """The count the paper's convention gives, or None for another architecture."""
        if self.structure not in STRUCTURES:
            return None
        if self.scope == "recurrent":
            return recurrent_count(self.n, self.d, self.gates, self.tied, self.structure)
        return parameter_count(
            self.n, self.d, self.gates, self.tied, self.m, self.k, self.structure
        )


DENSE = "dense"
LR = "low_rank"
LRD = "low_rank_plus_diagonal"

PSMNIST_COUNTS = (
    PublishedCount("psmnist GRU 128", 128, None, 3, False, 1, 10, DENSE, 51_000, 100),
    PublishedCount("psmnist LR-GRU 128/24", 128, 24, 3, False, 1, 10, LR, 20_200, 100),
    PublishedCount("psmnist LR-GRU 512/4", 512, 4, 3, False, 1, 10, LR, 19_500, 100),
    PublishedCount("psmnist LRD-GRU 64/24", 64, 24, 3, False, 1, 10, LRD, 10_300, 100),
    PublishedCount("psmnist LRD-GRU 128/24", 128, 24, 3, False, 1, 10, LRD, 20_600, 100),
    PublishedCount("psmnist LRD-GRU 256/24", 256, 24, 3, False, 1, 10, LRD, 41_200, 100),
)

CHARLM_COUNTS = (
    PublishedCount("charlm GRU 1000", 1000, None, 3, False, 51, 51, DENSE, 3_110_000, 10_000),
    PublishedCount(
        "charlm GRU 1000, dropout", 1000, None, 3, False, 51, 51, DENSE, 3_110_000, 10_000
    ),
    PublishedCount(
        "charlm GRU 3298, dropout", 3298, None, 3, False, 51, 51, DENSE, 33_000_000, 100_000
    ),
    PublishedCount(
        "charlm LSTM 1000, dropout",
        1000,
        None,
        4,
        False,
        49,
        49,
        DENSE,
        4_250_000,
        10_000,
        consistent=False,
        explanation=(
            "The convention gives 4.10 M; this row alone counts one input matrix for each gate, "
            "which gives 4 249 049."
        ),
    ),
    PublishedCount("charlm LRD-GRU 1000/64", 1000, 64, 3, False, 51, 51, LRD, 490_000, 10_000),
    PublishedCount("charlm LRD-GRU 3298/128", 3298, 128, 3, False, 51, 51, LRD, 2_890_000, 10_000),
    PublishedCount(
        "charlm LRD-GRU 3298/128, dropout", 3298, 128, 3, False, 51, 51, LRD, 2_890_000, 10_000
    ),
    PublishedCount(
        "charlm LRD-GRU 5459/64, dropout", 5459, 64, 3, False, 51, 51, LRD, 2_690_000, 10_000
    ),
    PublishedCount(
        "charlm tied LRD-GRU 5459/64, dropout", 5459, 64, 3, True, 51, 51, LRD, 1_990_000, 10_000
    ),
    PublishedCount(
        "charlm tied LRD-GRU 1000/64",
        1000,
        64,
        3,
        True,
        51,
        51,
        LRD,
        460_000,
        10_000,
        consistent=False,
        explanation="The convention gives 0.364 M; 0.46 is probably a misprint of 0.36.",
    ),
    PublishedCount(
        "charlm tied LRD-GRU 4480/128, dropout", 4480, 128, 3, True, 51, 51, LRD, 2_780_000, 10_000
    ),
    PublishedCount(
        "charlm tied LRD-GRU 6985/64, dropout", 6985, 64, 3, True, 51, 51, LRD, 2_540_000, 10_000
    ),
    PublishedCount(
        "charlm LRD-LSTM 1740/300, dropout",
        1740,
        300,
        4,
        False,
        49,
        49,
        LRD,
        4_250_000,
        10_000,
        consistent=False,
        explanation=(
            "4.36 M by the convention, 4.62 M with one input matrix for each gate, and 4.63 M with "
            "those and the 51 symbols of the GRU models."
        ),
    ),
)

COPY_COUNTS = (
    PublishedCount(
        "copy GRU 128, recurrent",
        128,
        None,
        3,
        False,
        10,
        10,
        DENSE,
        50_000,
        1_000,
        scope="recurrent",
        explanation="Printed as nearly 50 000; the layer holds 49 536.",
    ),
    PublishedCount(
        "copy LRD-GRU 128/50, recurrent",
        128,
        50,
        3,
        False,
        10,
        10,
        LRD,
        39_168,
        1,
        scope="recurrent",
    ),
    PublishedCount("copy LRD-GRU 128/50", 128, 50, 3, False, 10, 10, LRD, 41_738, 1),
    PublishedCount(
        "copy uRNN of its own paper",
        None,
        None,
        None,
        False,
        10,
        10,
        "urnn",
        6_500,
        100,
        consistent=None,
        explanation="Printed as about 6 500 and quoted from the uRNN paper, without a state size.",
    ),
    PublishedCount(
        "copy Associative LSTM",
        None,
        None,
        None,
        False,
        None,
        None,
        "associative_lstm",
        65_505,
        1,
        consistent=None,
        explanation="Quoted from another paper, whose architecture is not described in this one.",
    ),
)

ADDITION_COUNTS = (
    PublishedCount(
        "addition LR-GRU 128/24, recurrent",
        128,
        24,
        3,
        False,
        2,
        1,
        LR,
        6_140,
        10,
        scope="recurrent",
        consistent=False,
        explanation=(
            "6 144 is one of the three recurrent matrices; all three hold 18 432, and 18 816 with "
            "their biases."
        ),
    ),
)

PUBLISHED_COUNTS = PSMNIST_COUNTS + CHARLM_COUNTS + COPY_COUNTS + ADDITION_COUNTS
