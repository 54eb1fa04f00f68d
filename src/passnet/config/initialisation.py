"""How parameters start: the schemes of the paper and ours, by name."""

from __future__ import annotations

INITIALISATIONS = {
    "glorot": "Glorot uniform on every factor by its own shape, diagonals within 0.01 "
    "(copy, addition, sequential MNIST, Highway)",
    "orthogonal-normal": "square matrices orthogonal, all others 0.01 N(0, 1), diagonals within "
    "0.01 (character GRUs)",
    "uniform": "everything uniform within 0.04 (character LSTMs)",
    "quasi-orthogonal": "factors and diagonal fitted to a random orthogonal matrix (Highway)",
    "balanced": "semi-orthogonal factors: every non-zero singular value of L R is 1 at any size",
    "torch": "everything uniform within 1 / sqrt(n), as torch.nn.GRU and torch.nn.LSTM; a bias is "
    "the sum of two, which they have",
}


def check_initialisation(name: str) -> None:
    """Raise ValueError for a scheme that does not exist."""
    if name not in INITIALISATIONS:
        known = ", ".join(repr(known) for known in INITIALISATIONS)
        raise ValueError(f"init={name!r} is unknown: choose one of {known}")
