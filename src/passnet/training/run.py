"""A run is a folder of plain files: this is where they are named, written and read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from passnet.config import (
    ConfigurationError,
    Experiment,
    differences,
    from_json,
    identity,
    to_json,
    why_not_longer,
)
from passnet.config.run_folder import (
    EXPERIMENT_FILE,
    FORMAT,
    METRICS_FILE,
    RESULT_FILE,
    VERSION,
    fault_in,
)
from passnet.config.whole_files import write_whole
from passnet.training.checkpoint import load_newest, under
from passnet.training.errors import Refused, RunError
from passnet.training.plain_json import json_bytes, plain
from passnet.training.result import Result

_MEND_EXPERIMENT = "restore it from a copy, or train in another folder"
_MEND_RESULT = "restore it from a copy, or remove it and train the folder again"


@final
@dataclass(frozen=True)
class RunFolder:
    """The files of a run.

    `experiment.json` is written once, and again if the run is given more updates; `metrics.jsonl`
    grows, `checkpoints/` holds the newest states, `weights.safetensors` and, last of all,
    `result.json` appear when the run is complete; one that diverged has no weights.
    """

    path: Path

    @property
    def experiment_file(self) -> Path:
        return self.path / EXPERIMENT_FILE

    @property
    def metrics_file(self) -> Path:
        return self.path / METRICS_FILE

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def weights_file(self) -> Path:
        return self.path / "weights.safetensors"

    @property
    def result_file(self) -> Path:
        return self.path / RESULT_FILE

    def exists(self) -> bool:
        """Whether a run began here."""
        return self.experiment_file.exists()

    def begin(self, experiment: Experiment, facts: dict[str, Any]) -> None:
        """Write what the run is, with `facts` about data, versions and machine beside it."""
        record = {
            "format": FORMAT,
            "version": VERSION,
            "identity": identity(experiment),
            "experiment": to_json(experiment),
        }
        self._write(self.experiment_file, record | facts)

    def read(self) -> dict[str, Any]:
        """The content of `experiment.json`."""
        record = _read_json(self.experiment_file, mend=_MEND_EXPERIMENT)
        fault = fault_in(record)
        if fault is not None:
            raise RunError(f"{self.experiment_file} {fault}")
        return record

    def experiment(self) -> Experiment:
        """The experiment of this run."""
        try:
            return from_json(self.read()["experiment"])
        except (ConfigurationError, KeyError) as error:
            raise RunError(f"{self.experiment_file} cannot be understood: {error}") from error

    def check_experiment(self, experiment: Experiment) -> None:
        """Raise when the folder's run is of another experiment; with more updates it is not."""
        before = self.experiment()
        changed = differences(before, experiment)
        longer = changed.keys() == {"updates"}
        reason = why_not_longer(before, experiment) if longer else None
        if changed and (reason is not None or not longer):
            words = [f"{key} was {old!r} and is {new!r}" for key, (old, new) in changed.items()]
            because = "" if reason is None else f", and {reason}"
            raise Refused(
                f"{self.path} holds a run of another experiment ({'; '.join(words[:5])}{because}): "
                "train in another folder, or with the old settings"
            )

    def lengthen(self, experiment: Experiment) -> None:
        """Note down how many updates the run is to have, if they are more than it began with."""
        record = self.read()
        if differences(self.experiment(), experiment):
            earlier = {"identity": identity(experiment), "earlier": self.identities()}
            self._write(
                self.experiment_file, record | earlier | {"experiment": to_json(experiment)}
            )

    def identities(self) -> list[str]:
        """Those of the run, which has another one with every number of updates it was given."""
        record = self.read()
        return [record["identity"], *record.get("earlier", [])]

    def check_data(self, data: dict[str, Any]) -> None:
        """Raise when the folder's run began with other data than those of this record."""
        before, now = self.read().get("data") or {}, json.loads(json.dumps(plain(data)))
        # What an earlier version did not record is a setting that the experiment has.
        other = sorted(key for key in now.keys() & before.keys() if before[key] != now[key])
        if other:
            raise Refused(
                f"the data are not those the run in {self.path} began with ({', '.join(other)} "
                "changed): restore them, or train in another folder"
            )

    def finish(self, result: Result) -> None:
        """Write the result, the last file of a run."""
        self._write(self.result_file, result.record())

    def can_go_on(self) -> bool:
        """Whether there is a checkpoint, which copies among results have not."""
        return any(self.checkpoints.glob("*.json"))

    def reopen(self) -> None:
        """A run that goes on has no result any more."""
        self.result_file.unlink(missing_ok=True)

    def result(self) -> Result | None:
        """The result, or None while the run is not complete."""
        if not self.result_file.exists():
            return None
        try:
            return Result.of(_read_json(self.result_file, mend=_MEND_RESULT))
        except KeyError as error:
            raise RunError(
                f"{self.result_file} is damaged: it has no {error.args[0]!r}; {_MEND_RESULT}"
            ) from error

    def write_weights(self, tensors: dict[str, Tensor]) -> str:
        """Keep the selected parameters; returns their SHA-256."""
        content = safetensors.torch.save(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        )
        self._write_bytes(self.weights_file, content)
        return hashlib.sha256(content).hexdigest()

    def weights(self) -> dict[str, Tensor]:
        """The selected parameters; of a run without an end, the best of its newest checkpoint."""
        result = self.result()
        if result is None or result.diverged:
            saved = load_newest(self.checkpoints, warn=lambda text: None)
            if saved is None:
                raise RunError(self._no_weights(result))
            best = under("best.", saved.tensors)
            if best and self.experiment().selection.keep == "best":
                return best
            return under("model.", saved.tensors) | under("average.", saved.tensors)
        try:
            content = self.weights_file.read_bytes()
            if hashlib.sha256(content).hexdigest() != result.weights_sha256:
                raise RunError(
                    f"{self.weights_file} is damaged: its SHA-256 is not the one in {RESULT_FILE}"
                )
            return safetensors.torch.load(content)
        except FileNotFoundError as error:
            raise RunError(
                f"{self.path} has a result and no {self.weights_file.name}, as copies in results/ "
                "have none: give the folder in which the run trained, or train it again"
            ) from error
        except OSError as error:
            raise RunError(f"{self.weights_file} cannot be read ({error.strerror})") from error
        except SafetensorError as error:
            raise RunError(f"{self.weights_file} cannot be read: {error}") from error

    def _no_weights(self, result: Result | None) -> str:
        if result is None:
            return f"{self.path} has no weights yet: train it first"
        return (
            f"the run in {self.path} diverged at update {result.updates}, before anything was "
            "saved, so it has no weights: train it with other settings in another folder"
        )

    def _write(self, path: Path, record: dict[str, Any]) -> None:
        self._write_bytes(path, json_bytes(record))

    def _write_bytes(self, path: Path, content: bytes) -> None:
        try:
            write_whole(path, content)
        except OSError as error:
            raise RunError(
                f"could not write {path} ({error.strerror or error}); what was saved before is "
                "kept: make room and run the same command again"
            ) from error


def _read_json(path: Path, *, mend: str) -> dict[str, Any]:
    try:
        record = json.loads(path.read_bytes())
    except OSError as error:
        raise Refused(
            f"{path} cannot be read ({error.strerror or error}): is this the folder of a run?"
        ) from error
    except ValueError as error:
        raise RunError(f"{path} is damaged: it is not JSON ({error}); {mend}") from error
    if not isinstance(record, dict):
        raise RunError(f"{path} is damaged: expected a JSON object; {mend}")
    return record
