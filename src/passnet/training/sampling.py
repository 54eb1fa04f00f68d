"""Text from a character model, one character at a time."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator

import torch

from passnet.tasks.corpus import END, UNKNOWN, Vocabulary
from passnet.training.distributed import choose_device
from passnet.training.errors import Refused
from passnet.training.model import Network
from passnet.training.reading import Run, load_run


def sample_text(
    folder: str | os.PathLike[str],
    prompt: str = "",
    *,
    length: int = 400,
    temperature: float = 1.0,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> str:
    """`length` characters that a run's model writes after `prompt`, which is not repeated."""
    return "".join(
        stream_text(
            folder, prompt, length=length, temperature=temperature, seed=seed, device=device
        )
    )


def stream_text(
    folder: str | os.PathLike[str],
    prompt: str = "",
    *,
    length: int = 400,
    temperature: float = 1.0,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> Iterator[str]:
    """The characters of `sample_text` as they are drawn; what cannot be drawn is refused at once.

    At temperature 0 the likeliest character is taken each time. A model of sentences forgets at
    every line end, as it did in training.
    """
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature={temperature}: expected a number of at least 0")
    if length < 0:
        raise ValueError(f"length={length}: expected at least 0 characters")
    run = load_run(folder)
    vocabulary = _vocabulary(run)
    symbols = _prompt_symbols(prompt, vocabulary)
    place = choose_device(device)
    size = len(vocabulary)
    network = run.network(inputs=size, outputs=size, readout="steps").to(place)
    forgets = run.facts["data"]["task"] == "character_sentences"
    drawn = _drawn(network, symbols, temperature=temperature, forgets=forgets, seed=seed)
    return (vocabulary.decode([symbol]) for symbol in itertools.islice(drawn, length))


@torch.no_grad()
def _drawn(
    network: Network, symbols: list[int], *, temperature: float, forgets: bool, seed: int
) -> Iterator[int]:
    """Symbols without end after those given."""
    place = network.output.weight.device
    generator = torch.Generator().manual_seed(seed)
    state = None
    while True:
        if forgets and END in symbols[1:]:
            start = len(symbols) - 1 - symbols[::-1].index(END)
            symbols, state = symbols[start:], None
        inputs = torch.tensor(symbols, device=place).unsqueeze(1)
        outputs, state = network(inputs, state)
        symbol = _draw(outputs[-1, 0].double().cpu(), temperature, generator)
        yield symbol
        symbols = [symbol]
        if forgets and symbol == END:
            state = None


def _vocabulary(run: Run) -> Vocabulary:
    characters = run.facts.get("data", {}).get("vocabulary")
    if run.experiment.task.kind != "character" or not isinstance(characters, str):
        raise Refused(
            f"{run.folder.path} is a run of the {run.experiment.task.kind} task: only a character "
            "model writes text"
        )
    return Vocabulary(characters)


def _prompt_symbols(prompt: str, vocabulary: Vocabulary) -> list[int]:
    symbols = vocabulary.encode("\n" + prompt).tolist()
    if UNKNOWN in symbols:
        strange = sorted({c for c in prompt if vocabulary.encode(c)[0] == UNKNOWN})
        raise Refused(
            f"the model has never seen {', '.join(map(repr, strange))}: it knows the line end and "
            f"{vocabulary.characters!r}"
        )
    return symbols


def _draw(outputs: torch.Tensor, temperature: float, generator: torch.Generator) -> int:
    # The unknown character stands for many and cannot be written.
    outputs[UNKNOWN] = -torch.inf
    if temperature == 0:
        return int(outputs.argmax())
    shares = torch.softmax(outputs / temperature, dim=0)
    return int(torch.multinomial(shares, 1, generator=generator))
