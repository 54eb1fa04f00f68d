"""What GRU and LSTM share: torch.nn's inputs and outputs, layers, directions and dropout."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from passnet.cells.recurrent import CarryBias, RecurrentCell, read_carry_bias
from passnet.config.initialisation import check_initialisation
from passnet.config.matrix import Dense, MatrixSpec
from passnet.layers.arguments import (
    check_dtype,
    check_flags,
    check_probability,
    check_row_norm,
    check_sizes,
)
from passnet.layers.describe import describe
from passnet.layers.dropout import Dropouts
from passnet.layers.repeating import again
from passnet.layers.same_function import check_reset, note_reset
from passnet.layers.scripting import refuse_script
from passnet.layers.sequences import Sequences, read_sequences
from passnet.layers.stack import Starts, run_stack, scan_call, starting_states
from passnet.layers.streaming import check_step, short_step, time_axis
from passnet.layers.torch_weights import (
    copy_to_torch,
    load_from_torch,
    refuse_projection,
    refuse_starting_values,
    rename_torch_weights,
    torch_arguments,
)
from passnet.matrices import GateMatrix, check_spec
from passnet.matrices.structured import stored
from passnet.ops.backend import Backend, check_backend, choose
from passnet.ops.scan import ScanCall

States = tuple[Tensor, ...]
State = TypeVar("State")
"""What users pass and receive: a tensor for a GRU, a pair of them for an LSTM."""


class RecurrentLayer(nn.Module, ABC, Generic[State]):
    """A stack of passthrough layers over time, called like its torch.nn namesake.

    Inside, sequences are time-first `[T, B, ...]` and the state is a tuple of `[L, B, n]` tensors
    with L = num_layers * directions, layer by layer, forward before reverse.
    """

    state_names: ClassVar[tuple[str, ...]]
    torch_type: ClassVar[type[nn.RNNBase]]
    mode: ClassVar[str]
    proj_size: ClassVar[int] = 0
    """These two are for code that was written for torch.nn, and asks."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
        *,
        matrix: MatrixSpec | None,
        carry_bias: CarryBias,
        learn_initial_state: bool,
        weight_norm: bool,
        max_row_norm: float | None,
        init: str,
        dropouts: Dropouts,
        backend: str,
    ) -> None:
        super().__init__()
        matrix = Dense() if matrix is None else matrix
        check_sizes(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        check_flags(
            bias=bias,
            batch_first=batch_first,
            bidirectional=bidirectional,
            learn_initial_state=learn_initial_state,
            weight_norm=weight_norm,
        )
        check_dtype(dtype)
        check_spec(matrix, hidden_size)
        check_initialisation(init)
        check_row_norm(max_row_norm)
        check_probability(dropout=dropout, up_to_one=True)
        check_backend(backend, self._backends())
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.batch_first = batch_first
        self.dropout = float(dropout)
        if dropout and num_layers == 1:
            warnings.warn(
                f"dropout={dropout} acts between layers, but this module has only one: "
                "use dropout_state for dropout inside it",
                stacklevel=3,
            )
        self.bidirectional = bidirectional
        self.directions = 2 if bidirectional else 1
        self.matrix = matrix
        self.carry_bias = read_carry_bias(carry_bias, size=hidden_size, bias=bias)
        self.learn_initial_state = learn_initial_state
        self.weight_norm = weight_norm
        self.max_row_norm = max_row_norm
        self.init = init
        self.dropouts = dropouts
        self.backend = backend
        widths = [input_size] + [hidden_size * self.directions] * (num_layers - 1)
        self.cells = nn.ModuleList(
            self._cell(width, bias=bias, weight_norm=weight_norm, device=device, dtype=dtype)
            for width in widths
            for _ in range(self.directions)
        )
        for name in self.state_names:
            start = torch.empty(len(self.cells), hidden_size, device=device, dtype=dtype)
            start = nn.Parameter(start) if learn_initial_state else None
            self.register_parameter(f"initial_{name}", start)
        self.register_state_dict_post_hook(note_reset)
        self.register_load_state_dict_pre_hook(check_reset)
        self.register_load_state_dict_pre_hook(rename_torch_weights)
        self.reset_parameters()

    @abstractmethod
    def _cell(
        self, input_size: int, *, bias: bool, weight_norm: bool, device, dtype
    ) -> RecurrentCell:
        """A cell of this layer's kind."""

    @abstractmethod
    def _backends(self) -> tuple[Backend, ...]:
        """The ways to run this kind of scan, fastest first."""

    def _scan(self, call: ScanCall) -> list[Tensor]:
        """Every state of every step, `[T, B, n]` each, the output first."""
        return choose(self._backends(), self.backend, call).run(call)

    @property
    def bias(self) -> bool:
        """Whether the gates have biases."""
        return self._at(0).bias is not None

    def _at(self, index: int) -> RecurrentCell:
        # By name: indexing the list takes a microsecond or two more.
        return self._modules["cells"]._modules[str(index)]  # pyright: ignore

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Reinitialise all parameters; initial states become zero."""
        if next(self.parameters()).is_meta:  # which has no numbers to draw
            return
        for index in range(len(self.cells)):
            self._at(index).start(self.init, carry_bias=self.carry_bias, generator=generator)
        for name in self.state_names:
            start = getattr(self, f"initial_{name}")
            if start is not None:
                nn.init.zeros_(start)

    @overload
    def forward(
        self,
        input: Tensor,
        hx: State | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        zero_padding: bool = True,
    ) -> tuple[Tensor, State]: ...

    @overload
    def forward(
        self, input: PackedSequence, hx: State | None = None, *, zero_padding: bool = True
    ) -> tuple[PackedSequence, State]: ...

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: State | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        zero_padding: bool = True,
    ) -> tuple[Tensor | PackedSequence, State]:
        """(output, final state), shaped as torch.nn's.

        `lengths` gives each sequence's number of steps in a padded batch: outputs beyond it are
        zero and the final state is that of its last real step, as with a PackedSequence. If you
        ignore outputs beyond the end, `zero_padding=False` saves a pass over all outputs and one
        over their gradients; these outputs may then hold any number. Integer inputs, without the
        feature axis, are symbols and give the same results as one-hot vectors.
        """
        quick = again(self, input, hx, lengths)
        if quick is not None:
            return quick[0], self._join(quick[1])
        x, dtype, starts, sequences = self._read(input, hx, lengths)
        output, finals = run_stack(self, x, dtype, starts, sequences, zero_padding)
        return sequences.write(output), self._join([sequences.write_state(s) for s in finals])

    def step(self, input: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One time step for streaming: (output, next state), equal to the sequence call.

        `input` is `[B, m]` or `[m]` (symbols: `[B]` or a scalar); states are as in the sequence
        call.
        """
        quick = None if state is None else short_step(self, input, state)
        if quick is not None:
            return quick
        check_step(self)
        time = time_axis(input, batch_first=self.batch_first)
        output, following = self(input.unsqueeze(time), state)
        return output.squeeze(time), following

    @torch.no_grad()
    def explain_backends(
        self,
        input: Tensor | PackedSequence,
        hx: State | None = None,
        lengths: Tensor | Sequence[int] | None = None,
    ) -> dict[str, str | None]:
        """For each backend, fastest first, why it cannot run this call, or None if it can.

        With `backend="auto"` the first that can is used.
        """
        x, dtype, starts, sequences = self._read(input, hx, lengths)
        ended = sequences.ended(x.device)
        call = scan_call(self, self._at(0), x, None, dtype, starts[0], ended, False)
        return {backend.name: backend.refuses(call) for backend in self._backends()}

    def recurrent_matrix(self, gate: str, *, layer: int = 0, reverse: bool = False) -> GateMatrix:
        """The state matrix of a gate, with `.dense()`; a view of the parameters."""
        if not -self.num_layers <= layer < self.num_layers:
            raise IndexError(f"layer={layer}: this module has layers 0 to {self.num_layers - 1}")
        if reverse and not self.bidirectional:
            raise ValueError("reverse=True: this module is not bidirectional")
        index = (layer % self.num_layers) * self.directions + int(reverse)
        return self._at(index).state_matrix(gate)

    @classmethod
    def from_torch(cls, module: nn.RNNBase, **options) -> Self:
        """A layer that computes what `module` computes; `options` are further arguments.

        Those that set starting values, `carry_bias` and `init`, are refused.
        torch.nn's two biases of a gate, of which only the sum matters, become one. In further
        training it moves half as far per step of plain gradient descent.
        """
        if not isinstance(module, cls.torch_type):
            raise TypeError(
                f"{cls.__name__}.from_torch takes a torch.nn.{cls.torch_type.__name__}, "
                f"got {type(module).__module__}.{type(module).__name__}"
            )
        refuse_projection(module.proj_size)
        refuse_starting_values(options)
        layer = cls(**torch_arguments(module, **options))
        load_from_torch(layer, module)
        return layer.train(module.training)

    def to_torch(self) -> nn.RNNBase:
        """A dense torch.nn layer that computes the same in `eval()`.

        What only acts in training and torch.nn does not have (dropout on the state) is lost.
        """
        refused = self._refuses_torch()
        if refused is not None:
            raise ValueError(f"torch.nn has no layer with {refused}, so to_torch() cannot make one")
        module = self.torch_type(**torch_arguments(self))
        copy_to_torch(self, module)
        return module.train(self.training)

    def _refuses_torch(self) -> str | None:
        """What of this layer torch.nn does not have."""
        if self.learn_initial_state:
            return "learn_initial_state (pass that state in the call instead)"
        return "zoneout" if self.dropouts.zoneout else None

    def flatten_parameters(self) -> None:
        """Does nothing: parameters are already contiguous. Here for code written for torch.nn."""

    def _read(self, input, hx, lengths) -> tuple[Tensor, torch.dtype, list[Starts], Sequences]:
        """(inputs, the dtype to compute in, initial states of every cell, form of all this)."""
        sequences = read_sequences(
            input, lengths, batch_first=self.batch_first, input_size=self.input_size
        )
        weight = stored(self._at(0), "input_weight")
        x = sequences.cast(weight.dtype, weight.device)
        dtype = x.dtype if x.is_floating_point() else sequences.compute_dtype(weight)
        starts = starting_states(self, hx, sequences, dtype, weight.device)
        return x, dtype, starts, sequences

    @abstractmethod
    def _split(self, hx: Any) -> States:
        """The state a user passes, as a tuple."""

    @abstractmethod
    def _join(self, parts: Iterable[Tensor]) -> State:
        """The state as a user receives it."""

    __prepare_scriptable__ = refuse_script

    def extra_repr(self) -> str:
        return describe(self)
