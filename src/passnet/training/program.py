"""A run's network as a module of tensors alone, with an example of what it takes."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from passnet.tasks.corpus import Vocabulary
from passnet.training.errors import Refused
from passnet.training.model import Network
from passnet.training.problem import build_task
from passnet.training.reading import Run, load_run

STEPS, ROWS = 3, 2
"""Of an example."""


@final
@dataclass(frozen=True)
class Program:
    """What an exporter needs of a run; `facts` say where it is from and what its symbols mean."""

    module: nn.Module
    example: tuple[Tensor, ...]
    input_names: list[str]
    output_names: list[str]
    facts: dict[str, str]


def program_of(
    folder: str | os.PathLike[str], *, data_dir: str | os.PathLike[str] | None = None
) -> Program:
    """The selected parameters of a run as a program.

    A character model takes and returns its state, zeros at first, so that a text can be read in
    pieces; it needs no text. All others read a batch of their task's data.
    """
    run = load_run(folder)
    facts = {"experiment": run.experiment.name, "passnet": run.facts["versions"]["passnet"]}
    if run.experiment.task.kind == "character":
        return _of_stream(run, facts)
    task = build_task(run.experiment.task, data_dir=data_dir)
    run.folder.check_data(task.record())
    network = run.network(inputs=task.input_size, outputs=task.output_size, readout=task.readout)
    batch = task.batch("test", 0, batch_size=ROWS)
    names, example = ["inputs"], (batch.inputs,)
    if batch.lengths is not None:
        names, example = [*names, "lengths"], (batch.inputs, batch.lengths)
    return Program(_Answers(network), example, names, ["outputs"], facts)


def _of_stream(run: Run, facts: dict[str, str]) -> Program:
    if run.experiment.model.learn_initial_state:
        raise Refused(
            f"the model in {run.folder.path} has a learned initial state, but an exported "
            "character model takes its state as an input"
        )
    vocabulary = Vocabulary(run.facts["data"]["vocabulary"])
    symbols = [vocabulary.decode([symbol]) for symbol in range(len(vocabulary))]
    network = run.network(inputs=len(symbols), outputs=len(symbols), readout="steps")
    inputs = torch.zeros(STEPS, ROWS, dtype=torch.long)
    with torch.no_grad():
        states = tuple(torch.zeros_like(state) for state in network(inputs)[1])
    names = ["hidden", "cell"][: len(states)]
    return Program(
        _Stream(network),
        (inputs, *states),
        ["inputs", *names],
        ["outputs", *(f"next_{name}" for name in names)],
        facts | {"symbols": json.dumps(symbols)},
    )


class _Stream(nn.Module):
    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        outputs, following = self.network(inputs, states)
        return outputs, *following


class _Answers(nn.Module):
    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.network(inputs, lengths=lengths)[0]
