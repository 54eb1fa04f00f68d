"""Weights that fit two GRUs which compute differently: a `state_dict` says whose they are."""

from __future__ import annotations


def note_reset(module, state_dict, prefix, local_metadata) -> None:
    """Write where a GRU resets beside its version, where torch keeps such notes."""
    if hasattr(module, "reset"):
        local_metadata["reset"] = module.reset


def check_reset(module, state_dict, prefix, local_metadata, *_) -> None:
    """Refuse weights of a GRU that resets elsewhere; those without a note are taken."""
    theirs, ours = local_metadata.get("reset"), getattr(module, "reset", None)
    if theirs is None or theirs == ours:
        return
    if ours is None:
        kind = type(module).__name__
        raise ValueError(f"these are weights of a passnet.GRU and this layer is a passnet.{kind}")
    raise ValueError(
        f"these are weights of a GRU with reset={theirs!r} and this layer has reset={ours!r}: "
        f"they would be another function; make it with reset={theirs!r}"
    )
