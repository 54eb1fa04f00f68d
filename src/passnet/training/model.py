"""The network of an experiment: the one place that unpacks its model into layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from passnet.cells.batch_norm import BatchNorm
from passnet.config import Chrono, Model
from passnet.layers import GRU, LSTM, Highway, UnitaryRNN
from passnet.layers.recurrent import RecurrentLayer
from passnet.matrices.initialisation import fill_bias, fill_input
from passnet.ops import BackendRefused, unitary_backends
from passnet.ops.backend import refusal, unknown_backend
from passnet.tasks.task import Readout

State = tuple[Tensor, ...]


class Network(nn.Module, ABC):
    """Inputs of a batch to outputs of its task, with the state a stream carries on.

    A state is a tuple of real tensors whose second axis is the batch, or None for the initial one.
    """

    output: nn.Linear

    @abstractmethod
    def forward(
        self, inputs: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """(outputs, final state)."""

    @abstractmethod
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all parameters anew, the same numbers on every device."""

    @abstractmethod
    def backend(self, inputs: Tensor, lengths: Tensor | None = None) -> str:
        """Which backend runs these inputs; one asked for by name that cannot raises its reason."""

    @property
    @abstractmethod
    def random(self) -> bool:
        """Whether training draws random numbers."""


@final
class SequenceNetwork(Network):
    """A recurrent layer, an optional hidden layer, and an output at each step or after the last."""

    def __init__(
        self,
        rnn: RecurrentLayer | UnitaryRNN,
        *,
        features: int,
        hidden: int | None,
        outputs: int,
        readout: Readout,
        init: str,
    ) -> None:
        super().__init__()
        self.rnn = rnn
        self.hidden = None if hidden is None else nn.Linear(features, hidden)
        self.output = nn.Linear(features if hidden is None else hidden, outputs)
        self.readout = readout
        self.init = init

    def reset_parameters(self, generator: torch.Generator) -> None:
        self.rnn.reset_parameters(generator)
        for matrix in (self.hidden, self.output):
            if matrix is not None:
                _start(matrix, self.init, generator)

    def forward(
        self, inputs: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        # Whatever stands beyond the end is left out of the loss.
        words = {"zero_padding": False} if isinstance(self.rnn, RecurrentLayer) else {}
        features, final = self.rnn(inputs, self._enter(state), lengths=lengths, **words)
        if self.readout == "last":
            features = _last(features, lengths)
        if self.hidden is not None:
            features = F.relu(self.hidden(features))
        return self.output(features), self._leave(final)

    def _enter(self, state: State | None):
        if state is None:
            return None
        if isinstance(self.rnn, UnitaryRNN):
            return torch.view_as_complex(state[0][0])
        return state if isinstance(self.rnn, LSTM) else state[0]

    def _leave(self, final) -> State:
        if isinstance(self.rnn, UnitaryRNN):
            return (torch.view_as_real(final).unsqueeze(0),)
        return final if isinstance(final, tuple) else (final,)

    def backend(self, inputs: Tensor, lengths: Tensor | None = None) -> str:
        reasons = self.rnn.explain_backends(inputs, lengths=lengths)
        wanted = self.rnn.backend
        if wanted == "auto":
            return _first(reasons)
        reason = reasons[wanted]
        if reason is not None:
            raise BackendRefused(refusal(wanted, reason))
        return wanted

    @property
    def random(self) -> bool:
        return isinstance(self.rnn, RecurrentLayer) and self.rnn.dropouts.any()


@final
class HighwayNetwork(Network):
    """Input matrix, batch norm and ReLU, a stack of Highway layers, output matrix."""

    def __init__(
        self,
        highway: Highway,
        *,
        inputs: int,
        outputs: int,
        hidden: int | None,
        batch_norm: bool,
        dropout_input: float,
        dropout_output: float,
        init: str,
    ) -> None:
        super().__init__()
        size = highway.size
        # The shift of batch normalisation is the bias of the input matrix.
        self.entry = nn.Linear(inputs, size, bias=not batch_norm)
        self.norm = BatchNorm(size) if batch_norm else None
        self.highway = highway
        self.hidden = None if hidden is None else nn.Linear(size, hidden)
        self.output = nn.Linear(size if hidden is None else hidden, outputs)
        self.dropout_input = dropout_input
        self.dropout_output = dropout_output
        self.init = init

    def reset_parameters(self, generator: torch.Generator) -> None:
        self.highway.reset_parameters(generator)
        for matrix in (self.entry, self.hidden, self.output):
            if matrix is not None:
                _start(matrix, self.init, generator)

    def forward(
        self, inputs: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        del state, lengths
        x = self.entry(F.dropout(inputs, self.dropout_input, self.training))
        x = self.highway(F.relu(x if self.norm is None else self.norm(x)))
        x = F.dropout(x, self.dropout_output, self.training)
        if self.hidden is not None:
            x = F.relu(self.hidden(x))
        return self.output(x), ()

    def backend(self, inputs: Tensor, lengths: Tensor | None = None) -> str:
        del inputs, lengths
        return _first(self.highway.explain_backends(self.output.weight))

    @property
    def random(self) -> bool:
        inner = any(cell.dropout or cell.dropout_bottleneck for cell in self.highway.cells)
        return bool(inner or self.dropout_input or self.dropout_output)


def _first(reasons: dict[str, str | None]) -> str:
    """Which backend runs, of those that say why they cannot."""
    return next(name for name, reason in reasons.items() if reason is None)


def build_model(
    model: Model, inputs: int, *, outputs: int, readout: Readout, seed: int, backend: str = "auto"
) -> Network:
    """The network of an experiment for a task of these sizes, on the CPU, started from `seed`."""
    network: Network
    if model.cell == "highway":
        if backend != "auto":
            raise BackendRefused(
                f"backend={backend!r}: a Highway network has no scan; its device decides what runs "
                "it, so leave the backend at 'auto'"
            )
        network = _highway(model, inputs, outputs)
    else:
        network = SequenceNetwork(
            _recurrent(model, inputs, backend),
            features=2 * model.size if model.cell == "urnn" else model.size,
            hidden=model.head_hidden,
            outputs=outputs,
            readout=readout,
            init=model.init,
        )
    network.reset_parameters(torch.Generator().manual_seed(seed))
    return network


def _highway(model: Model, inputs: int, outputs: int) -> HighwayNetwork:
    # `Model` has refused a spread of carry biases for this cell.
    assert not isinstance(model.carry_bias, Chrono)
    highway = Highway(
        model.size,
        model.num_layers,
        matrix=model.matrix,
        activation=model.activation,
        transform_bias=0.0 if model.carry_bias is None else -model.carry_bias,
        batch_norm=model.batch_norm,
        dropout=model.dropout_state,
        dropout_bottleneck=model.dropout_bottleneck,
        max_row_norm=model.max_row_norm,
        init=model.init,
    )
    return HighwayNetwork(
        highway,
        inputs=inputs,
        outputs=outputs,
        hidden=model.head_hidden,
        batch_norm=model.batch_norm,
        dropout_input=model.dropout_input,
        dropout_output=model.dropout_output,
        init=model.init,
    )


def _recurrent(model: Model, inputs: int, backend: str) -> RecurrentLayer | UnitaryRNN:
    if model.cell == "urnn":
        names = [own.name for own in unitary_backends()]
        if backend not in ("auto", *names):
            raise BackendRefused(f"in a uRNN {unknown_backend(backend, names)}")
        return UnitaryRNN(inputs, model.size, backend=backend)
    shared = {
        "matrix": model.matrix,
        "carry_bias": model.carry_bias,
        "learn_initial_state": model.learn_initial_state,
        "weight_norm": model.weight_norm,
        "max_row_norm": model.max_row_norm,
        "init": model.init,
        "dropout_input": model.dropout_input,
        "dropout_input_per": model.dropout_input_per,
        "dropout_state": model.dropout_state,
        "dropout_output": model.dropout_output,
        "zoneout": model.zoneout,
        "backend": backend,
    }
    if model.cell == "lstm":
        return LSTM(inputs, model.size, model.num_layers, **shared)
    return GRU(
        inputs,
        model.size,
        model.num_layers,
        reset=model.reset,
        recurrent_bias=model.recurrent_bias,
        **shared,
    )


def _start(matrix: nn.Linear, init: str, generator: torch.Generator) -> None:
    units = matrix.in_features
    fill_input(matrix.weight, init, units=units, generator=generator)
    if matrix.bias is not None:
        fill_bias(matrix.bias, init, units=units, generator=generator)


def _last(features: Tensor, lengths: Tensor | None) -> Tensor:
    if lengths is None:
        return features[-1]
    return features[lengths - 1, torch.arange(features.shape[1], device=features.device)]
