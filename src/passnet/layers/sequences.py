"""Every form of input that torch.nn's layers take, read into one and written back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from passnet.layers.scripting import refuse_proxy
from passnet.ops.precision import autocast_on
from passnet.ops.transforms import readable

SYMBOL_TYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

_SYMBOL_SHAPES = "[T, B] or [T], since whole numbers are symbols; make features real with .float()"


@dataclass(frozen=True)
class Sequences:
    """A batch of sequences, time first, and how its owner wants the results shaped."""

    x: Tensor
    lengths: Tensor | None
    batched: bool
    batch_first: bool
    packed: PackedSequence | None

    @property
    def batch(self) -> int:
        return self.x.shape[1]

    def ended(self, device: torch.device) -> Tensor | None:
        """[T, B, 1]: true after a sequence's last step."""
        if self.lengths is None:
            return None
        steps = torch.arange(self.x.shape[0], device=device)
        return (steps[:, None] >= self.lengths.to(device)[None, :]).unsqueeze(-1)

    def compute_dtype(self, weight: Tensor) -> torch.dtype:
        """The dtype a layer with this weight computes in: autocast's where it is on."""
        kind = weight.device.type
        return torch.get_autocast_dtype(kind) if _autocast(kind, weight.dtype) else weight.dtype

    def cast(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The inputs on the layer's device, in the dtype it computes in."""
        x = self.x
        if x.device != device:
            raise ValueError(
                f"the input is on {x.device} and the layer on {device}: move one with .to(...)"
            )
        if not x.is_floating_point():
            return x.long()
        ended = None if self.packed is not None else self.ended(device)
        if ended is not None:
            # Padding may hold anything, and a NaN would outlive being multiplied by zero.
            x = x.masked_fill(ended, 0)
        if _autocast(device.type, x.dtype, dtype):
            return x.to(torch.get_autocast_dtype(device.type))
        if x.dtype != dtype:
            otherwise = "" if autocast_on(device.type) else ", or run under torch.autocast"
            raise ValueError(
                f"the input is {x.dtype} and the layer {dtype}: convert one with .to(...)"
                + otherwise
            )
        return x.resolve_neg()  # kernels read what lies there

    def read_state(
        self,
        state: Tensor,
        name: str,
        shape: tuple[int, int, int],
        dtype: torch.dtype,
        device: torch.device,
    ) -> Tensor:
        """A given initial state as [L, B, n]."""
        count, _, size = shape
        expected = shape if self.batched else (count, size)
        if tuple(state.shape) != expected:
            form = "layers x directions, batch, units" if self.batched else "layers, units"
            raise ValueError(
                f"the initial {name} state has shape {tuple(state.shape)}: "
                f"expected {expected} ({form})"
                + ("" if state.is_floating_point() else "; numbers of steps go in lengths=")
            )
        if state.device != device:
            raise ValueError(
                f"the initial {name} state is on {state.device} and the layer on {device}: "
                "move it with .to(...)"
            )
        if state.dtype != dtype and not _autocast(device.type, state.dtype):
            raise ValueError(
                f"the initial {name} state is {state.dtype} and the layer computes in {dtype}: "
                "convert it with .to(...)"
            )
        state = state.to(dtype).resolve_neg()
        return state if self.batched else state.unsqueeze(1)

    def write(self, output: Tensor) -> Tensor | PackedSequence:
        """The outputs in the form of the inputs."""
        if self.packed is not None:
            return _repack(output, self.lengths, self.packed)
        if not self.batched:
            return output.squeeze(1)
        return output.transpose(0, 1) if self.batch_first else output

    def write_state(self, state: Tensor) -> Tensor:
        """A final state in the form of the inputs."""
        return state if self.batched else state.squeeze(1)


def read_sequences(
    given: Tensor | PackedSequence,
    lengths: Tensor | Sequence[int] | None,
    *,
    batch_first: bool,
    input_size: int,
) -> Sequences:
    """The input as a time-first batch; raises a sentence for anything that is not one."""
    if isinstance(given, PackedSequence):
        return _unpack(given, lengths, input_size)
    if not isinstance(given, Tensor):
        refuse_proxy(given)
        raise TypeError(f"the input is a {type(given).__name__}: give a tensor or PackedSequence")
    if given.is_nested:
        raise TypeError(
            "the input is a nested tensor: give a padded one (torch.nested.to_padded_tensor) and "
            "lengths=, or a PackedSequence"
        )
    if given.layout is not torch.strided:
        raise TypeError(f"the input is {given.layout}: give a dense one, with .to_dense()")
    features = given.is_floating_point()
    if not features and given.dtype not in SYMBOL_TYPES:
        raise TypeError(
            f"the input is {given.dtype}: give real features, or symbols of torch.int64"
        )
    axes = given.dim() - features
    if axes not in (1, 2):
        raise ValueError(
            f"the input has shape {tuple(given.shape)}: expected "
            + ("[T, B, m] or [T, m] features" if features else _SYMBOL_SHAPES)
        )
    batched = axes == 2
    x = given if batched else given.unsqueeze(1)
    if batched and batch_first:
        x = x.transpose(0, 1)
    _check_shape(x, input_size)
    if lengths is not None:
        if not batched:
            raise ValueError("lengths needs a batch: an unbatched sequence has its own length")
        lengths = read_lengths(lengths, batch=x.shape[1], steps=x.shape[0])
    found = Sequences(x, lengths, batched, batch_first, None)
    if lengths is not None and not features and not _all_known(x, input_size):
        # Padding may hold anything, such as -1.
        ended = found.ended(x.device)
        assert ended is not None
        found = replace(found, x=x.masked_fill(ended.squeeze(-1), 0))
    if not features:
        _check_symbols(found.x, input_size)
    return found


def read_lengths(lengths: Tensor | Sequence[int], *, batch: int, steps: int) -> Tensor:
    """Lengths as whole numbers from 1 to the number of steps, one for each sequence."""
    try:
        found = lengths if isinstance(lengths, Tensor) else torch.tensor(lengths, device="cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"lengths={lengths!r}: give a whole number for each sequence") from error
    whole = not (found.is_floating_point() or found.is_complex() or found.dtype == torch.bool)
    if not whole and found.numel():  # an empty list has no type of its own
        raise TypeError(
            f"lengths are {found.dtype}: give whole numbers of steps (torch.int64), "
            "no missing values"
        )
    found = found.long()  # PyTorch finds no least of unsigned ones
    if tuple(found.shape) != (batch,):
        raise ValueError(
            f"lengths has shape {tuple(found.shape)}: expected ({batch},), one for each sequence"
        )
    if readable(found):
        low, high = int(found.min()), int(found.max())
        if low < 1 or high > steps:
            wrong = low if low < 1 else high
            raise ValueError(
                f"lengths contains {wrong}: each must be from 1 to {steps}, the number of steps; "
                "leave empty sequences out of the batch"
            )
    return found


def _check_shape(x: Tensor, input_size: int) -> None:
    shape = x.shape
    if shape[0] < 1:
        raise ValueError(
            f"the input has {shape[0]} steps of {shape[1]} sequences: give at least one step"
        )
    if x.is_floating_point() and shape[-1] != input_size:
        raise ValueError(
            f"the input has {shape[-1]} features and the layer input_size={input_size}: "
            "check the last axis (and batch_first)"
        )


def _all_known(symbols: Tensor, input_size: int) -> bool | None:
    """Whether all symbols are of the alphabet; None where nobody may look."""
    if symbols.device.type != "cpu" or not readable(symbols):
        return None
    return int(symbols.min()) >= 0 and int(symbols.max()) < input_size


def _check_symbols(x: Tensor, input_size: int) -> None:
    if _all_known(x, input_size) is False:
        low, high = int(x.min()), int(x.max())
        raise ValueError(
            f"the input holds symbol {low if low < 0 else high}: "
            f"expected 0 to {input_size - 1} (input_size={input_size})"
        )


def _unpack(packed: PackedSequence, lengths, input_size: int) -> Sequences:
    if lengths is not None:
        raise ValueError("lengths given with a PackedSequence, which has its own: drop one")
    if torch.compiler.is_exporting():
        raise ValueError(
            "the sizes of a PackedSequence are unknown here: give a padded batch and lengths="
        )
    sizes = packed.batch_sizes
    if sizes.numel() < 1 or bool((sizes[1:] > sizes[:-1]).any()) or int(sizes.min()) < 1:
        raise ValueError(
            f"the PackedSequence's batch_sizes {sizes.tolist()} do not shrink step by step: pack "
            "with torch.nn.utils.rnn.pack_padded_sequence(..., enforce_sorted=False)"
        )
    x, lengths = pad_packed_sequence(packed)
    _check_shape(x, input_size)
    if not x.is_floating_point():
        _check_symbols(x, input_size)
    return Sequences(x, lengths, True, False, packed)


def _repack(output: Tensor, lengths: Tensor | None, like: PackedSequence) -> PackedSequence:
    assert lengths is not None
    if like.sorted_indices is not None:
        output = output.index_select(1, like.sorted_indices)
        lengths = lengths[like.sorted_indices.cpu()]
    data = pack_padded_sequence(output, lengths).data
    return PackedSequence(data, like.batch_sizes, like.sorted_indices, like.unsorted_indices)


def _autocast(kind: str, *dtypes: torch.dtype) -> bool:
    """Whether autocast converts these: it leaves float64 alone."""
    return autocast_on(kind) and torch.float64 not in dtypes
