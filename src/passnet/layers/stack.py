"""A recurrent layer's calls: its cells one after the other, with dropout and holds between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from passnet.cells.recurrent import RecurrentCell
from passnet.layers.sequences import Sequences
from passnet.ops.scan import ScanCall

if TYPE_CHECKING:
    from passnet.layers.recurrent import RecurrentLayer

Starts = tuple[Tensor | None, ...]


def starting_states(
    layer: RecurrentLayer,
    hx: Any,
    sequences: Sequences,
    dtype: torch.dtype,
    device: torch.device,
) -> list[Starts]:
    """Those of every cell: as given, as learned, or none where they are zero."""
    cells, batch, names = layer.num_layers * layer.directions, sequences.batch, layer.state_names
    if hx is not None:
        shape = cells, batch, layer.hidden_size
        given = zip(layer._split(hx), names, strict=True)
        read = [sequences.read_state(s, name, shape, dtype, device) for s, name in given]
    elif layer.learn_initial_state:
        learned = [getattr(layer, f"initial_{name}") for name in names]
        rows = [start.to(dtype).unsqueeze(1).expand(-1, batch, -1) for start in learned]
        read = [part.contiguous() for part in rows]  # once, and not in every pass
    else:
        return [(None,) * len(names)] * cells
    return [tuple([part[index] for part in read]) for index in range(cells)]


def run_stack(
    layer: RecurrentLayer,
    x: Tensor,
    dtype: torch.dtype,
    starts: list[Starts],
    sequences: Sequences,
    zero_padding: bool,
    seen: list[tuple[ScanCall, list[Tensor]]] | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """(outputs, final states); every scan and its states are added to `seen`."""
    ended = sequences.ended(x.device)
    x, scale = layer.dropouts.input(x, layer.input_size, dtype, training=layer.training)
    finals, directions = [], layer.directions
    for level in range(layer.num_layers):
        outputs = []
        for index in range(level * directions, (level + 1) * directions):
            reverse = index % directions == 1
            cell = layer._at(index)
            call = scan_call(layer, cell, x, scale, dtype, starts[index], ended, reverse)
            states = layer._scan(call)
            if seen is not None:
                seen.append((call, states))
            finals.append(states)
            outputs.append(states[0].flip(0) if reverse else states[0])
        x = outputs[0] if directions == 1 else torch.cat(outputs, dim=-1)
        scale = None
        if level < layer.num_layers - 1:
            x = nn.functional.dropout(x, layer.dropout, layer.training)
    x = layer.dropouts.output(x, training=layer.training)
    if ended is not None and zero_padding:
        x = torch.where(ended, 0.0, x)  # masked_fill() would copy x first, and its gradient
    # Copies: a final state that were a view of the outputs could not be detached in place.
    if len(finals) == 1:
        return x, [part[-1:].clone() for part in finals[0]]
    return x, [torch.stack([s[-1] for s in part]) for part in zip(*finals, strict=True)]


def scan_call(
    layer: RecurrentLayer,
    cell: RecurrentCell,
    x: Tensor,
    scale: Tensor | None,
    dtype: torch.dtype,
    start: Starts,
    ended: Tensor | None,
    reverse: bool,
) -> ScanCall:
    """What one cell is asked for: inputs, start, masks and holds."""
    if reverse:
        # Padding then comes first, where the state is held at its start: no gather is needed.
        x, scale = x.flip(0), None if scale is None else scale.flip(0)
    source = cell.inputs(x, dtype, scale=scale)
    steps, batch = x.shape[:2]
    masks = None
    if layer.training and layer.dropouts.state_rate:
        shape = cell.recurrent.masks_needed, batch, layer.hidden_size
        masks = layer.dropouts.state_masks(shape, dtype, x.device)
    shape = steps, batch, layer.hidden_size
    holds = layer.dropouts.holds(
        shape, dtype, x.device, ended, count=len(layer.state_names), training=layer.training
    )
    if reverse:
        holds = tuple(None if hold is None else hold.flip(0) for hold in holds)
    return cell.scan(source, start, masks=masks, holds=holds)
