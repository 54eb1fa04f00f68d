"""What the two character language models share: a text as symbols, and its scores."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from passnet.config.tasks import CharacterTask
from passnet.tasks.corpus import END, Vocabulary, load_corpus
from passnet.tasks.labels import step_nats
from passnet.tasks.task import Batch, Shard, Split, Task, Totals, check_split


class Character(Task):
    """What both readings of a text share: the symbols, the scores and the chance level.

    A text is one tensor: symbol 0, then the characters of each line followed by symbol 0. The input
    at each place is the symbol there and the target the next one, so every character and every line
    end is predicted and counted exactly once.
    `chance` sees the character before and nothing earlier: pairs counted in the training text, with
    each of the V symbols given 1/V of an occurrence more.
    """

    readout = "steps"

    def __init__(self, given: CharacterTask, *, data_dir: str | None = None) -> None:
        super().__init__()
        self.given = given
        corpus = load_corpus(given.source, path=given.path, data_dir=data_dir, unk=given.unk)
        self.origin = corpus.origin
        self._digest = corpus.digest()
        self.vocabulary = Vocabulary.of("".join(corpus.train))
        self.input_size = self.output_size = len(self.vocabulary)
        self._sizes: dict[str, np.ndarray] = {}
        self._facts: dict[str, dict[str, int]] = {}
        for split in ("train", "valid", "test"):
            kept = self._kept(split, getattr(corpus, split))
            symbols = self.vocabulary.encode("\n" + "\n".join(kept) + "\n")
            narrow = symbols.astype(np.int16) if len(self.vocabulary) < 2**15 else symbols
            self._store[split] = torch.from_numpy(narrow)
            self._sizes[split] = np.diff(np.flatnonzero(symbols == END))
            self._facts[split] = {
                "lines": len(kept),
                "targets": len(symbols) - 1,
                "unknown": int((symbols == 1).sum()),
            }

    @abstractmethod
    def _kept(self, split: str, lines: Sequence[str]) -> Sequence[str]:
        """The lines of a split that are used."""

    def _costs(self, outputs: Tensor, batch: Batch) -> Tensor:
        return batch.counted(step_nats(outputs, batch.targets))

    @torch.no_grad()
    def totals(self, outputs: Tensor, batch: Batch) -> Totals:
        costs = self._costs(outputs, batch).double()
        counts = batch.counted(torch.ones_like(costs))
        right = (outputs.argmax(-1) == batch.targets).double() * counts
        sums = {"nats": costs.sum(), "characters": counts.sum(), "right": right.sum()}
        return Totals(sums | self._sentence_sums(costs, counts, batch))

    @abstractmethod
    def _sentence_sums(self, costs: Tensor, counts: Tensor, batch: Batch) -> dict[str, Tensor]:
        """What `finish` needs for the mean over sentences, from costs and counts [T, B]."""

    @abstractmethod
    def _sentence_mean(self, totals: Totals) -> float:
        """The mean over sentences of each sentence's mean cost."""

    def finish(self, totals: Totals) -> dict[str, float]:
        characters = totals.sums["characters"].item()
        nats = totals.sums["nats"].item() / characters
        macro = self._sentence_mean(totals)
        return {
            "cross_entropy_nats_micro": nats,
            "cross_entropy_nats_macro": macro,
            "bits_per_character_micro": nats / math.log(2),
            "perplexity_micro": _exp(nats),
            "perplexity_macro": _exp(macro),
            "accuracy": totals.sums["right"].item() / characters,
        }

    def chance(self, split: Split = "test") -> dict[str, float]:
        check_split(split)
        symbols = len(self.vocabulary)
        text = self._store["train"].long()
        pairs = torch.bincount(text[:-1] * symbols + text[1:], minlength=symbols**2).double()
        table = pairs.view(symbols, symbols) + 1 / symbols
        table = (table / table.sum(-1, keepdim=True)).log()
        sums = Totals()
        count = self._pass_count(split, batch_size=64)
        for index in range(count):
            batch = self._pass_batch(split, index, batch_size=64, shard=None)
            sums = sums + self.totals(table[batch.inputs], batch)
        return self.finish(sums)

    @abstractmethod
    def _pass_count(self, split: Split, *, batch_size: int) -> int:
        """Batches in one pass that scores every target of a split once."""

    @abstractmethod
    def _pass_batch(
        self, split: Split, index: int, *, batch_size: int, shard: Shard | None
    ) -> Batch:
        """Batch `index` of that pass."""

    def record(self) -> dict[str, object]:
        return {
            "task": self.name,
            "text": self.origin,
            "text_sha256": self._digest,
            "unk": self.given.unk,
            "vocabulary": self.vocabulary.characters,
            "splits": self._facts,
        }


def _exp(nats: float) -> float:
    # A model that has diverged has no finite perplexity; that is a score too.
    return math.exp(nats) if nats < 700 else math.inf
