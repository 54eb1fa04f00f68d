"""Make a trained torch.nn.GRU small: a character model, its score before, after and trained on."""

from __future__ import annotations

import argparse
import copy
import json
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import fmean

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional as F

import passnet
from passnet.tasks.corpus import Vocabulary, load_corpus
from passnet.training.machine import commit, versions

STEPS, BATCH, CURVE = 100, 64, 50


class Model(nn.Module):
    """Characters in, scores of the next one out."""

    def __init__(self, symbols: int, units: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, 32)
        self.rnn: nn.Module = nn.GRU(32, units)
        self.output = nn.Linear(units, symbols)

    def forward(self, symbols: Tensor) -> Tensor:
        return self.output(self.rnn(self.embedding(symbols))[0])


def windows(text: Tensor, seed: int) -> Iterator[Tensor]:
    """Random pieces of a text, `[STEPS + 1, BATCH]`, without end."""
    generator = torch.Generator().manual_seed(seed)
    steps = torch.arange(STEPS + 1).unsqueeze(1)
    while True:
        yield text[torch.randint(len(text) - STEPS, (BATCH,), generator=generator) + steps]


def cost(model: Model, window: Tensor) -> Tensor:
    """Mean nats for a character."""
    return F.cross_entropy(model(window[:-1]).flatten(0, 1), window[1:].flatten())


def train(model: Model, text: Tensor, *, updates: int, rate: float, seed: int) -> list[float]:
    """Adam with a rate that falls to zero; returns the mean bits of every CURVE updates."""
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(updates, 1))
    losses = []
    for window in track(islice(windows(text, seed), updates), "training", total=updates):
        loss = cost(model, window)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        losses.append(loss.item() / math.log(2))
    return [fmean(losses[first : first + CURVE]) for first in range(0, updates, CURVE)]


@torch.no_grad()
def bits(model: Model, text: Tensor) -> float:
    """Bits for a character of a text, cut into sequences of STEPS."""
    rows = text[: (len(text) - 1) // STEPS * STEPS + 1]
    inputs = rows[:-1].view(-1, STEPS).T
    targets = rows[1:].view(-1, STEPS).T
    nats = 0.0
    for read, said in zip(inputs.split(500, dim=1), targets.split(500, dim=1), strict=True):
        scores = model(read).flatten(0, 1)
        nats += F.cross_entropy(scores, said.flatten(), reduction="sum").item()
    return nats / targets.numel() / math.log(2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", help="a text file; without it, the small one that passnet has")
    parser.add_argument("--units", type=int, default=128, help="of the dense GRU (128)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 32], help="to try (8 32)")
    parser.add_argument("--updates", type=int, default=300, help="of the dense model (300)")
    parser.add_argument("--tuning", type=int, default=50, help="of each one after it (50)")
    parser.add_argument("--json", help="write the rows into this file, too")
    arguments = parser.parse_args()

    corpus = load_corpus("file" if arguments.text else "embedded", path=arguments.text)
    vocabulary = Vocabulary.of("\n".join(corpus.train))
    text, unseen = (
        torch.from_numpy(vocabulary.encode("\n".join(lines))).long()
        for lines in (corpus.train, corpus.valid)
    )
    torch.manual_seed(0)
    dense = Model(len(vocabulary), arguments.units)
    curve = train(dense, text, updates=arguments.updates, rate=2e-3, seed=0)
    # What the GRU usually reads tells which directions of its state matter.
    with torch.no_grad():
        examples = [dense.embedding(window[:-1]) for window in islice(windows(text, 1), 10)]
    tried = [("dense", "training", dense, curve)]
    for rank in arguments.ranks:
        matrix = passnet.LowRankPlusDiagonal(rank)
        for made, inputs in (("fit to matrices", None), ("fit to states", examples)):
            small = copy.deepcopy(dense)
            small.rnn = passnet.compress(dense.rnn, matrix, inputs=inputs)
            tried.append((matrix.describe(), made, small, []))
        # What as much training makes of the small structure by itself.
        fresh = Model(len(vocabulary), arguments.units)
        fresh.rnn = passnet.GRU(32, arguments.units, matrix=matrix)
        curve = train(fresh, text, updates=arguments.updates, rate=2e-3, seed=0)
        tried.append((matrix.describe(), "training from the start", fresh, curve))

    rows = []
    for matrix, made, model, curve in tried:
        row = {"matrix": matrix, "made": made, "curve": curve}
        row["parameters"] = passnet.count_parameters(model.rnn)
        row["bits"] = bits(model, unseen)
        row["curve_on"] = train(model, text, updates=arguments.tuning, rate=5e-4, seed=2)
        row["bits_trained_on"] = bits(model, unseen)
        rows.append(row)
    table = Table("state matrices", "made by", "parameters of the GRU", "bits", "trained on")
    for row in rows:
        scores = (f"{row[score]:.3f}" for score in ("bits", "bits_trained_on"))
        table.add_row(row["matrix"], row["made"], str(row["parameters"]), *scores)
    Console().print(table)
    if arguments.json:
        run = {"commit": commit(), "versions": versions(), "arguments": vars(arguments)}
        Path(arguments.json).write_text(json.dumps(run | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
