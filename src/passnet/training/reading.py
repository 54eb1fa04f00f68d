"""Reading a run again: its experiment, its metrics, its network, its scores."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from passnet.config import Experiment
from passnet.tasks.task import Split
from passnet.training.distributed import choose_device, joined
from passnet.training.errors import RunError
from passnet.training.metrics import read_metrics
from passnet.training.model import Network, build_model
from passnet.training.problem import build_task
from passnet.training.result import Result
from passnet.training.run import RunFolder
from passnet.training.scoring import put_, score, scoring_batch_size, tensors_of


@final
@dataclass(frozen=True)
class Run:
    """A run on disk. `facts` is all of `experiment.json`: data, versions, commit, machine.

    result: None while the run is not complete.
    """

    folder: RunFolder
    experiment: Experiment
    facts: dict[str, Any]
    result: Result | None

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of `metrics.jsonl`; `kind` is train, valid or test, or seen for
        scores on validation data that are trained on."""
        return read_metrics(self.folder.metrics_file)

    def network(self, *, inputs: int, outputs: int, readout: Any, backend: str = "auto") -> Network:
        """The selected parameters (so far) in a network, on the CPU and without dropout."""
        network = build_model(
            self.experiment.model,
            inputs,
            outputs=outputs,
            readout=readout,
            seed=0,
            backend=backend,
        )
        weights = self.folder.weights()
        own = {name: tuple(tensor.shape) for name, tensor in tensors_of(network).items()}
        given = {name: tuple(tensor.shape) for name, tensor in weights.items()}
        if own != given:
            wrong = sorted(own.items() ^ given.items())[0][0]
            raise RunError(
                f"the weights in {self.folder.path} are not of its experiment: {wrong} has shape "
                f"{given.get(wrong)} and should have {own.get(wrong)}"
            )
        put_(network, weights)
        return network.eval()


def load_run(folder: str | os.PathLike[str]) -> Run:
    """The run in a folder, complete or not."""
    place = RunFolder(Path(folder))
    return Run(place, place.experiment(), place.read(), place.result())


def evaluate(
    folder: str | os.PathLike[str],
    *,
    split: Split = "test",
    device: str | torch.device | None = None,
    backend: str = "auto",
    data_dir: str | os.PathLike[str] | None = None,
) -> dict[str, float]:
    """Scores of a run's selected parameters on a split of its task; nothing is written.

    Data that are not those the run was trained on are refused, and so is a validation split that
    was trained on.
    """
    if split not in ("valid", "test"):
        raise ValueError(f"split={split!r}: choose 'valid' or 'test'")
    run = load_run(folder)
    with joined(choose_device(device)) as world:
        task = build_task(run.experiment.task, data_dir=data_dir).to(world.device)
        run.folder.check_data(task.record())
        if split == "valid" and not task.holds_out:
            raise RunError(
                f"the run in {run.folder.path} trained on its validation data (task.hold_out is "
                "false), so scores on them say nothing: evaluate the split 'test'"
            )
        network = run.network(
            inputs=task.input_size,
            outputs=task.output_size,
            readout=task.readout,
            backend=backend,
        ).to(world.device)
        return score(
            network,
            task,
            split=split,
            batch_size=scoring_batch_size(run.experiment, task),
            world=world,
            precision=run.experiment.precision,
        )
