"""Checkpoints: tensors and numbers that are loaded exactly as written, or not at all.

A checkpoint is `update-N.json`, a manifest with the SHA-256 of itself and of its tensor file
`update-N-DIGEST.safetensors`. The manifest is renamed into place last, so a save that was cut short
leaves the checkpoint before it untouched.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from passnet.config.whole_files import sync_folder, write_whole
from passnet.training.errors import CheckpointError

FORMAT, VERSION = "passnet-checkpoint", 1
KEPT = 2
_NAME = re.compile(r"update-(\d+)(?:-[0-9a-f]+)?\.(json|safetensors)(\.tmp)?")


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name and a record of JSON values, after `update` updates of one experiment."""

    update: int
    identity: str
    record: dict[str, Any]
    tensors: dict[str, Tensor]

    @staticmethod
    def shared(own: Checkpoint | None, send: Callable[[bytes], bytes]) -> Checkpoint | None:
        """What the first process has, in every process; `send` hands its bytes to all."""
        facts = None if own is None else [own.update, own.identity, own.record]
        facts = json.loads(send(json.dumps(facts).encode()))
        if facts is None:
            return None
        content = send(b"" if own is None else safetensors.torch.save(own.tensors))
        update, identity, record = facts
        return Checkpoint(update, identity, record, safetensors.torch.load(content))


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint, then remove all but the newest two; returns its manifest."""
    tensors = {name: t.detach().cpu().contiguous() for name, t in checkpoint.tensors.items()}
    content = safetensors.torch.save(tensors)
    digest = hashlib.sha256(content).hexdigest()
    stem = f"update-{checkpoint.update:09d}"
    data = folder / f"{stem}-{digest[:12]}.safetensors"
    body = {
        "format": FORMAT,
        "version": VERSION,
        "update": checkpoint.update,
        "identity": checkpoint.identity,
        "files": {data.name: {"sha256": digest, "bytes": len(content)}},
        "record": checkpoint.record,
    }
    manifest = folder / f"{stem}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(data, content)
        write_whole(manifest, _manifest_bytes(body))
    except OSError as error:
        kept = [path.stem for path in _manifests(folder)]
        state = f"the last good one is {kept[-1]}" if kept else "there is none before it"
        raise CheckpointError(
            f"could not save update {checkpoint.update} in {folder} ({error.strerror or error}); "
            f"{state}: make room and run the same command again"
        ) from error
    _prune(folder)
    return manifest


def load_newest(
    folder: Path,
    *,
    identities: Collection[str] | None = None,
    warn: Callable[[str], None],
    set_aside: bool = False,
) -> Checkpoint | None:
    """The newest good checkpoint, or None where none was ever completed.

    A damaged one is passed over with a warning, and with `set_aside` renamed to `*.damaged`. When
    all are damaged, that is an error: nothing is removed.
    """
    manifests = _manifests(folder)
    for data in _orphans(folder, manifests):
        warn(f"{data} has no manifest, so its save was cut short or the manifest is lost: ignored")
    faults: list[tuple[Path, str]] = []
    for manifest in reversed(manifests):
        try:
            checkpoint = load_checkpoint(manifest, identities=identities)
        except CheckpointError as error:
            faults.append((manifest, str(error)))
            continue
        for damaged, fault in faults:
            warn(f"{fault}; falling back to update {checkpoint.update}")
            if set_aside:
                _set_aside(damaged)
        return checkpoint
    if faults:
        reasons = "; ".join(fault for _, fault in faults)
        raise CheckpointError(
            f"no checkpoint in {folder} can be used ({reasons}): restore one from a copy, or "
            "train in another folder"
        )
    return None


def load_checkpoint(manifest: Path, *, identities: Collection[str] | None = None) -> Checkpoint:
    """Read and verify one checkpoint by its manifest; of one of `identities`, if given."""
    body = _read_manifest(manifest)
    if identities is not None and body["identity"] not in identities:
        raise CheckpointError(f"{manifest} belongs to another experiment")
    (name, facts), *_ = body["files"].items()
    data = manifest.with_name(name)
    try:
        content = data.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{data} cannot be read ({error.strerror or error})") from error
    if len(content) != facts["bytes"]:
        raise CheckpointError(f"{data} has {len(content)} bytes and should have {facts['bytes']}")
    if hashlib.sha256(content).hexdigest() != facts["sha256"]:
        raise CheckpointError(f"{data} is damaged: its SHA-256 is not the one in its manifest")
    try:
        tensors = safetensors.torch.load(content)
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(f"{data} holds no tensors: {error}") from error
    return Checkpoint(body["update"], body["identity"], body["record"], tensors)


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _manifest_bytes(body: dict[str, Any]) -> bytes:
    text = json.dumps(body, indent=1, allow_nan=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return (json.dumps({"sha256": digest} | body, indent=1, allow_nan=False) + "\n").encode()


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: it is not JSON") from error
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not the manifest of a passnet checkpoint")
    if body.get("version") != VERSION:
        raise CheckpointError(
            f"{path} has format version {body.get('version')!r} and this passnet reads {VERSION}"
        )
    digest = body.pop("sha256", None)
    if digest != hashlib.sha256(json.dumps(body, indent=1).encode()).hexdigest():
        raise CheckpointError(f"{path} is damaged: its SHA-256 does not match its content")
    return body


def _manifests(folder: Path) -> list[Path]:
    found = [path for path in folder.glob("update-*.json") if _NAME.fullmatch(path.name)]
    return sorted(found, key=_number)


def _number(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1])


def _data_file(manifest: Path) -> str | None:
    try:
        return next(iter(_read_manifest(manifest)["files"]))
    except CheckpointError:
        return None


def _orphans(folder: Path, manifests: list[Path]) -> list[Path]:
    numbers = {_number(manifest) for manifest in manifests}
    return sorted(p for p in folder.glob("update-*.safetensors") if _number(p) not in numbers)


def _set_aside(manifest: Path) -> None:
    for path in (manifest, *manifest.parent.glob(f"{manifest.stem}-*.safetensors")):
        path.rename(path.with_name(f"{path.name}.damaged"))


def _prune(folder: Path) -> None:
    newest = _manifests(folder)[-KEPT:]
    kept = {path.name for path in newest} | {_data_file(path) or "" for path in newest}
    for path in folder.glob("update-*"):
        if _NAME.fullmatch(path.name) and path.name not in kept:
            path.unlink(missing_ok=True)
    sync_folder(folder)
