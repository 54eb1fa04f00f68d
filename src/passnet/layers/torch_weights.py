"""Weights to and from torch.nn.GRU and torch.nn.LSTM, whose gates stand in the same order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from passnet.config.matrix import Dense
from passnet.matrices.structured import run_weight_hooks, stored


def torch_suffix(layer: int, reverse: int) -> str:
    """How torch.nn names the parameters of one layer and direction."""
    return f"_l{layer}{'_reverse' if reverse else ''}"


def rename_torch_weights(module, state_dict, prefix, *_) -> None:
    """Let `load_state_dict` take torch.nn's names wherever the layer is dense."""
    if f"{prefix}weight_ih_l0" not in state_dict:
        return
    if not isinstance(module.matrix, Dense):
        raise ValueError(
            f"these are weights of a dense torch.nn layer and this one has {module.matrix!r}: "
            f"load them into a dense {type(module).__name__}, without matrix=, and compress that "
            f"with passnet.compress(layer, {module.matrix!r})"
        )
    if getattr(module, "reset", "after") == "before":
        raise ValueError(
            "these are weights of a torch.nn.GRU, which resets after the product: under "
            "reset='before' they would be another function; use reset='after'"
        )
    projection = state_dict.get(f"{prefix}weight_hr_l0")
    refuse_projection(0 if projection is None else len(projection))
    _check_gates(module, state_dict.get(f"{prefix}weight_hh_l0"))
    for name in module.state_names:
        start = getattr(module, f"initial_{name}")
        if start is not None:  # torch.nn starts from zero
            state_dict.setdefault(f"{prefix}initial_{name}", torch.zeros_like(start))
    for index in range(len(module.cells)):
        suffix = torch_suffix(*divmod(index, module.directions))
        taken = {
            name: state_dict.pop(f"{prefix}{name}{suffix}", None)
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        }
        for name, tensor in from_torch_cell(module.cells[index], taken).items():
            state_dict[f"{prefix}cells.{index}.{name}"] = tensor


def _check_gates(module, recurrent: Tensor | None) -> None:
    """Raise a sentence where the matrices of a state are those of another kind of layer."""
    if recurrent is None:  # load_state_dict says what is missing
        return
    rows, units = recurrent.shape
    gates = len(module.cells[0].gate_names)
    if rows == gates * units:
        return
    kinds = {1: "torch.nn.RNN", 3: "torch.nn.GRU", 4: "torch.nn.LSTM"}
    whose = kinds.get(rows // units if rows % units == 0 else 0, "another kind of layer")
    raise ValueError(
        f"weight_hh_l0 has {rows} rows of {units} numbers, as that of {whose}: "
        f"passnet.{type(module).__name__} takes {gates} times as many rows as columns"
    )


def from_torch_cell(cell, taken: dict[str, Tensor | None]) -> dict[str, Tensor]:
    """A cell's own parameters from the four tensors torch.nn has for it."""
    gates = len(cell.gate_names)
    found = {}
    if taken["weight_ih"] is not None:
        found["input_weight"] = taken["weight_ih"].unflatten(0, (gates, -1))
    if taken["weight_hh"] is not None:
        found["recurrent.weight"] = taken["weight_hh"].unflatten(0, (gates, -1))
    if taken["bias_ih"] is None or taken["bias_hh"] is None:
        return found
    if cell.bias is None:
        raise ValueError("these weights have biases and this layer none: leave bias=False out")
    outer = taken["bias_ih"].unflatten(0, (gates, -1))
    inner = taken["bias_hh"].unflatten(0, (gates, -1))
    if getattr(cell, "inner_bias", None) is None:
        if "reset" in cell.gate_names and inner[2].any():
            raise ValueError(
                "torch.nn.GRU's second candidate bias stands behind the reset gate: without it "
                "these weights would be another function; leave recurrent_bias=False out"
            )
        found["bias"] = outer + inner
    else:
        # Only the candidate's second bias is not redundant: it sits behind the reset gate.
        found["bias"] = torch.cat((outer[:2] + inner[:2], outer[2:]))
        found["inner_bias"] = inner[2]
    return found


SOURCES = {
    "input_weight": ("weight_ih",),
    "recurrent": ("weight_hh",),
    "bias": ("bias_ih", "bias_hh"),
    "inner_bias": ("bias_hh",),
}
"""Which tensors of torch.nn a cell's own ones are made of."""


@torch.enable_grad()
def load_from_torch(layer, module: nn.RNNBase) -> None:
    """Fill a layer with what a torch.nn layer computes with, be it pruned or parametrised.

    What is made of frozen tensors alone is frozen.
    """
    run_weight_hooks(module)  # what they compute may be as old as the last call
    weights = {name: getattr(module, name) for name in module._flat_weights_names}
    found = layer.load_state_dict({n: w.detach() for n, w in weights.items()}, strict=False)
    if found.missing_keys:
        raise ValueError(
            f"torch.nn.{type(module).__name__} has no {', '.join(found.missing_keys)}: leave out "
            "what it cannot fill, such as weight_norm=True"
        )
    assert not found.unexpected_keys
    for index, cell in enumerate(layer.cells):
        suffix = torch_suffix(*divmod(index, layer.directions))
        for name, parameter in cell.named_parameters():
            sources = [weights[source + suffix] for source in SOURCES[name.partition(".")[0]]]
            parameter.requires_grad_(any(source.requires_grad for source in sources))


@torch.no_grad()
def to_torch_cell(cell) -> dict[str, Tensor]:
    """The four tensors of torch.nn from a cell, its matrices written out."""
    matrices = [cell.recurrent.gate(g).dense() for g in range(cell.recurrent.gates)]
    found = {
        "weight_ih": cell.input_matrix().flatten(0, 1),
        "weight_hh": torch.cat(matrices),
    }
    if cell.bias is not None:
        outer = stored(cell, "bias")
        inner = torch.zeros_like(outer)
        if getattr(cell, "inner_bias", None) is not None:
            inner[2] = stored(cell, "inner_bias")
        found |= {"bias_ih": outer.flatten(), "bias_hh": inner.flatten()}
    return found


@torch.no_grad()
def copy_to_torch(layer, target: nn.RNNBase) -> None:
    """Fill a torch.nn layer with what `layer` computes with; what is frozen stays so."""
    for index, cell in enumerate(layer.cells):
        suffix = torch_suffix(*divmod(index, layer.directions))
        trained = {n.partition(".")[0] for n, p in cell.named_parameters() if p.requires_grad}
        for name, tensor in to_torch_cell(cell).items():
            parameter = getattr(target, name + suffix).copy_(tensor)
            owners = {owner for owner, sources in SOURCES.items() if name in sources}
            parameter.requires_grad_(not trained.isdisjoint(owners))


def torch_arguments(layer, **options) -> dict[str, Any]:
    """The constructor arguments that our layers and torch.nn's share, and further ones."""
    weight = layer.weight_ih_l0 if isinstance(layer, nn.RNNBase) else layer.cells[0].input_weight
    names = (
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
    )
    shared = {name: getattr(layer, name) for name in names}
    shared |= {"device": weight.device, "dtype": weight.dtype}
    twice = ", ".join(sorted(shared.keys() & options.keys()))
    if twice:
        raise TypeError(
            f"{twice}: this comes from the layer itself, so leave it out (.to(...) moves and "
            "converts what comes of it)"
        )
    return shared | options


def refuse_projection(proj_size: int) -> None:
    """torch.nn.LSTM's projection is a tied low-rank LSTM that also shows less of its state."""
    if proj_size:
        raise ValueError(
            f"proj_size={proj_size} is not taken: LSTM(..., matrix=LowRank(rank={proj_size}, "
            "tied=True)) has the same recurrence and returns the whole state; project its output "
            "with a torch.nn.Linear if you want it small"
        )


def refuse_starting_values(options: Mapping[str, object]) -> None:
    """Raise for arguments that the weights of another layer would make pointless."""
    given = [name for name in ("carry_bias", "init") if name in options]
    if given:
        raise TypeError(
            f"{' and '.join(given)} would set starting values, and these parameters start as the "
            "module's: leave it out"
        )
