"""The unitary evolution RNN as a layer over sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from passnet.cells.urnn import UnitaryCell
from passnet.layers.arguments import check_flags, check_sizes
from passnet.layers.describe import unusual
from passnet.layers.scripting import refuse_script
from passnet.layers.sequences import Sequences, read_sequences
from passnet.layers.streaming import time_axis
from passnet.matrices.structured import stored
from passnet.ops import UnitaryScan, unitary_backends
from passnet.ops.backend import check_backend, choose
from passnet.ops.precision import without_autocast


@final
class UnitaryRNN(nn.Module):
    """The uRNN of Arjovsky, Shah and Bengio (2015), including its Fourier transforms.

    It accepts the same forms of input as a one-layer torch.nn.GRU. The output is real,
    `[T, B, 2 * hidden_size]`: the real parts of the state, then the imaginary parts. States are
    complex, `[B, hidden_size]`, without an axis for layers. The initial state is a parameter.

    dtype: the type of the real and imaginary parts, float32 or float64.
    backend: "auto", or a name from `explain_backends(x)`. A named backend runs the call or raises
        `BackendRefused` with the reason.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        check_sizes(input_size=input_size, hidden_size=hidden_size)
        check_flags(batch_first=batch_first)
        check_backend(backend, unitary_backends())
        _check_parts(dtype or torch.get_default_dtype())
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.batch_first = batch_first
        self.backend = backend
        self.cell = UnitaryCell(input_size, hidden_size, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Reinitialise all parameters, and draw a new permutation for the matrix."""
        if next(self.parameters()).is_meta:  # which has no numbers to draw
            return
        self.cell.start(generator)

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: Complex[Tensor, "B n"] | None = None,
        lengths: Tensor | Sequence[int] | None = None,
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        """(output, final state).

        With `lengths`, outputs after the end of a sequence are zero and its final state is that of
        its last step. Integer inputs, without the feature axis, are symbols.
        """
        call, sequences = self._read(input, hx, lengths)
        if sequences.batch:
            (output,) = choose(unitary_backends(), self.backend, call).run(call)
        else:  # no Fourier transform takes nothing
            output = call.like.new_zeros((len(sequences.x), 0, 2 * self.hidden_size))
        final = torch.complex(*output[-1].chunk(2, dim=-1))
        if call.hold is not None:
            output = output.masked_fill(call.hold, 0)
        return sequences.write(output), final if sequences.batched else final.squeeze(0)

    @torch.no_grad()
    def explain_backends(
        self,
        input: Tensor | PackedSequence,
        hx: Complex[Tensor, "B n"] | None = None,
        lengths: Tensor | Sequence[int] | None = None,
    ) -> dict[str, str | None]:
        """The reason why each backend, fastest first, cannot run this call; None if it can.

        With `backend="auto"` the first that can is used.
        """
        call, _ = self._read(input, hx, lengths)
        return {backend.name: backend.refuses(call) for backend in unitary_backends()}

    def _read(self, input, hx, lengths) -> tuple[UnitaryScan, Sequences]:
        sequences = read_sequences(
            input, lengths, batch_first=self.batch_first, input_size=self.input_size
        )
        weight = self.cell.input_weight
        _check_parts(weight.dtype)
        # There is no complex number of half precision: autocast does not reach in here.
        x = without_autocast(weight.device, sequences.cast, weight.dtype, weight.device)
        start, ended = self._start(hx, sequences), sequences.ended(weight.device)
        return self.cell.scan(x, start, hold=ended), sequences

    def _start(self, state: Tensor | None, sequences: Sequences) -> Float[Tensor, "B 2n"]:
        learned = stored(self.cell, "initial_state")
        if state is None:
            return learned.mT.flatten().expand(sequences.batch, -1)
        if not isinstance(state, Tensor):
            raise TypeError(f"the initial state is a {type(state).__name__}: give a complex tensor")
        dtype = learned.dtype.to_complex()
        expected = (*([sequences.batch] if sequences.batched else []), self.hidden_size)
        if tuple(state.shape) != expected or state.dtype != dtype:
            raise ValueError(
                f"the initial state is {state.dtype} of shape {tuple(state.shape)}: "
                f"expected {dtype} (complex) of shape {expected}"
            )
        if state.device != learned.device:
            raise ValueError(
                f"the initial state is on {state.device} and the layer on {learned.device}: "
                "move it with .to(...)"
            )
        halves = torch.cat((state.real, state.imag), dim=-1)
        return halves if sequences.batched else halves.unsqueeze(0)

    def step(self, input: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """One time step for streaming: (output, next state). `input` is `[B, m]` or `[m]`."""
        time = time_axis(input, batch_first=self.batch_first)
        output, next_state = self(input.unsqueeze(time), state)
        return output.squeeze(time), next_state

    def recurrent_matrix(self) -> Complex[Tensor, "n n"]:
        """The unitary matrix written out."""
        return self.cell.matrix()

    __prepare_scriptable__ = refuse_script

    def extra_repr(self) -> str:
        usual = {"batch_first": False, "backend": "auto"}
        return ", ".join((f"{self.input_size}, {self.hidden_size}", *unusual(self, usual)))


def _check_parts(dtype: torch.dtype) -> None:
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"dtype={dtype}: complex units need torch.float32 or torch.float64 for their parts"
        )
