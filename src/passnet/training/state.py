"""Everything that training changes, and its way into a checkpoint and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from passnet.training.averaging import Average
from passnet.training.checkpoint import under
from passnet.training.distributed import World, share_sizes
from passnet.training.model import Network
from passnet.training.progress import Progress
from passnet.training.scoring import put_, tensors_of
from passnet.training.update import Carried, Meters


@dataclass
class Training:
    """The mutable parts of a run. Batches and dropout masks are functions of the update's number,
    so no generator is among them.

    best: the best parameters and buffers so far, by name.
    carried: the states a stream's pieces go on from.
    """

    network: Network
    optimiser: torch.optim.Optimizer
    meters: Meters
    progress: Progress = field(default_factory=Progress)
    average: Average | None = None
    best: dict[str, Tensor] = field(default_factory=dict)
    carried: Carried = field(default_factory=list)


def packed(training: Training, *, world: World, lanes: int) -> dict[str, Tensor]:
    """All tensors of a run under names that do not depend on how many processes hold it.

    Every process calls this; `lanes` is the batch size, over which a carried state is spread.
    """
    parameters = dict(training.network.named_parameters())
    tensors = {f"model.{n}": t.detach() for n, t in tensors_of(training.network).items()}
    for name, parameter in parameters.items():
        for key, value in training.optimiser.state.get(parameter, {}).items():
            tensors[f"optimiser.{key}.{name}"] = value
    if training.average is not None:
        tensors |= {f"average.{n}": t for n, t in training.average.tensors.items()}
    tensors |= {f"best.{n}": t for n, t in training.best.items()}
    tensors |= {f"meter.{n}": t for n, t in training.meters.tensors.items()}
    tensors |= _joined_lanes(training.carried, world, lanes)
    return tensors


@torch.no_grad()
def restored_(
    training: Training,
    tensors: dict[str, Tensor],
    record: dict[str, Any],
    *,
    world: World,
    lanes: int,
) -> None:
    """Bring a freshly built run to the state of a checkpoint.

    Values are copied into memory that PyTorch allocated: sums over differently aligned tensors may
    round differently.
    """
    training.progress = Progress(**record)
    put_(training.network, under("model.", tensors))
    for name, parameter in training.network.named_parameters():
        for key, value in _optimiser_state(tensors, name).items():
            # Adam keeps its counter on the CPU unless the step may be captured.
            on_device = value.dim() > 0 or _capturable(training.optimiser)
            device = parameter.device if on_device else torch.device("cpu")
            training.optimiser.state[parameter][key] = _fresh(value, device)
    if training.average is not None:
        training.average.count = training.progress.averaged
        training.average.tensors = _moved(under("average.", tensors), world.device)
    training.best = _moved(under("best.", tensors), world.device)
    for name, value in training.meters.tensors.items():
        value.copy_(tensors[f"meter.{name}"])
    _divide_lanes(training, under("carried.", tensors), world, lanes)


def _optimiser_state(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    found = {}
    for key, value in under("optimiser.", tensors).items():
        kind, _, parameter = key.partition(".")
        if parameter == name:
            found[kind] = value
    return found


def _capturable(optimiser: torch.optim.Optimizer) -> bool:
    return isinstance(optimiser.param_groups[0]["lr"], Tensor)


def _joined_lanes(carried: Carried, world: World, lanes: int) -> dict[str, Tensor]:
    if not carried or carried[0] is None:
        return {}
    pieces = len(carried)
    sizes = share_sizes(lanes, world.size * pieces)
    widths = [sum(sizes[r * pieces : (r + 1) * pieces]) for r in range(world.size)]
    parts = zip(*[state for state in carried if state is not None], strict=True)
    return {
        f"carried.{index}": world.join_lanes(torch.cat(part, dim=1), widths)
        for index, part in enumerate(parts)
    }


def _divide_lanes(training: Training, joined: dict[str, Tensor], world: World, lanes: int) -> None:
    pieces = len(training.carried)
    if not joined:
        training.carried = [None] * pieces
        return
    sizes = share_sizes(lanes, world.size * pieces)
    own = slice(world.rank * pieces, (world.rank + 1) * pieces)
    split = [joined[str(index)].split(sizes, dim=1)[own] for index in range(len(joined))]
    training.carried = [
        tuple(_fresh(part[piece], world.device) for part in split) for piece in range(pieces)
    ]


def _fresh(value: Tensor, device: torch.device) -> Tensor:
    return torch.empty(value.shape, dtype=value.dtype, device=device).copy_(value)


def _moved(tensors: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {name: _fresh(value, device) for name, value in tensors.items()}
