"""The unitary evolution RNN as a layer over sequences."""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Complex
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from passnet.cells.urnn import UnitaryCell
from passnet.layers.arguments import check_sizes
from passnet.layers.sequences import Sequences, read_sequences
from passnet.ops.precision import no_autocast


@final
class UnitaryRNN(nn.Module):
    """The uRNN of Arjovsky, Shah and Bengio (2015), Fourier transforms included.

    Called like a one-layer torch.nn RNN. The output is real, `[T, B, 2 n]`: real parts, then
    imaginary parts, of the complex state; the final state is complex, `[B, n]`. The initial state
    is a parameter.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_sizes(input_size=input_size, hidden_size=hidden_size)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.batch_first = batch_first
        self.cell = UnitaryCell(input_size, hidden_size, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all parameters anew."""
        self.cell.reset_parameters(generator)

    def forward(
        self,
        input: Tensor | PackedSequence,
        state: Complex[Tensor, "B n"] | None = None,
        lengths: Tensor | list[int] | None = None,
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        """(output, final state); after a sequence's length outputs are zero, its state is held."""
        sequences = read_sequences(
            input, lengths, batch_first=self.batch_first, input_size=self.input_size
        )
        weight = self.cell.input_weight
        x = sequences.cast(weight.dtype, weight.device)
        ended = sequences.ended(weight.device)
        state = self._start(state, sequences)
        # There is no complex number of half precision, so autocast ends here.
        with no_autocast(weight.device):
            drive = self.cell.drive(x.to(weight.dtype) if x.is_floating_point() else x)
            visited, state = self._run(drive, state, ended)
        output = torch.cat((visited.real, visited.imag), dim=-1)
        if ended is not None:
            output = output.masked_fill(ended, 0)
        return sequences.write(output), state if sequences.batched else state.squeeze(0)

    def _start(self, state: Tensor | None, sequences: Sequences) -> Complex[Tensor, "B n"]:
        learned = torch.view_as_complex(self.cell.initial_state)
        if state is None:
            return learned.expand(sequences.batch, -1)
        expected = (sequences.batch, self.hidden_size) if sequences.batched else learned.shape
        if tuple(state.shape) != tuple(expected) or state.dtype != learned.dtype:
            raise ValueError(
                f"the initial state is {state.dtype} of shape {tuple(state.shape)}: "
                f"expected {learned.dtype} (complex) of shape {tuple(expected)}"
            )
        return state if sequences.batched else state.unsqueeze(0)

    def _run(self, drive: Tensor, state: Tensor, ended: Tensor | None) -> tuple[Tensor, Tensor]:
        """(every state [T, B, n], the last one)."""
        states = []
        for t, step_drive in enumerate(drive):
            proposed = self.cell.step(state, step_drive)
            state = proposed if ended is None else torch.where(ended[t], state, proposed)
            states.append(state)
        return torch.stack(states), state

    def step(self, input: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """One time step for streaming: (output, next state)."""
        batched = input.dim() == (2 if input.is_floating_point() else 1)
        time = 1 if batched and self.batch_first else 0
        output, next_state = self(input.unsqueeze(time), state)
        return output.squeeze(time), next_state

    def recurrent_matrix(self) -> Complex[Tensor, "n n"]:
        """The unitary matrix written out."""
        return self.cell.matrix()

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"
