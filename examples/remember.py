"""Train a low-rank GRU to remember four symbols over a gap, in a plain PyTorch training loop."""

from __future__ import annotations

import torch
from rich.progress import track
from torch import nn
from torch.nn import functional as F

import passnet

SYMBOLS, LENGTH, GAP = 6, 4, 10
BLANK, GO = SYMBOLS, SYMBOLS + 1
STEPS = 2 * LENGTH + GAP


def batch(size: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """(what is read, what must be said), [T, B] symbols each."""
    secret = torch.randint(SYMBOLS, (LENGTH, size), generator=generator)
    read = torch.full((STEPS, size), BLANK)
    read[:LENGTH], read[-LENGTH - 1] = secret, GO
    said = torch.full((STEPS, size), BLANK)
    said[-LENGTH:] = secret
    return read, said


def main() -> None:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    rnn = passnet.GRU(
        SYMBOLS + 2,
        96,
        matrix=passnet.LowRankPlusDiagonal(rank=16),
        reset="before",
        carry_bias=2.0,
        learn_initial_state=True,
    )
    readout = nn.Linear(96, SYMBOLS + 1)
    parameters = [*rnn.parameters(), *readout.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=4e-3)
    for _ in track(range(1500), description="training"):
        read, said = batch(64, generator)
        loss = F.cross_entropy(readout(rnn(read)[0]).flatten(0, 1), said.flatten())
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
    read, said = batch(1000, generator)
    with torch.no_grad():
        guess = readout(rnn(read)[0]).argmax(-1)
    right = (guess[-LENGTH:] == said[-LENGTH:]).double().mean().item()
    print(
        f"recalled {100 * right:.1f} % of the symbols; a model without memory recalls "
        f"{100 / SYMBOLS:.1f} %"
    )


if __name__ == "__main__":
    main()
