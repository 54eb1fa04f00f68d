"""The layer as most people write it in PyTorch: one module for each product, a list of states."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor, nn

from passnet.bench.cases import Case
from passnet.layers import GRU, LSTM


@final
class LoopRNN(nn.Module):
    """A low-rank-plus-diagonal GRU or LSTM over a Python loop and autograd."""

    def __init__(self, case: Case, *, device: str) -> None:
        super().__init__()
        self.case = case
        gates = range(3 if case.cell == "gru" else 4)
        self.size = case.n
        self.inputs = nn.ModuleList(nn.Linear(case.m, case.n, device=device) for _ in gates)
        self.project = nn.ModuleList(
            nn.Linear(case.n, case.d, bias=False, device=device) for _ in gates
        )
        self.expand = nn.ModuleList(
            nn.Linear(case.d, case.n, bias=False, device=device) for _ in gates
        )
        self.diagonal = nn.ParameterList(torch.zeros(case.n, device=device) for _ in gates)

    def copy_from(self, layer: GRU | LSTM) -> LoopRNN:
        """Take over the weights of a passnet layer."""
        self.load_state_dict(self.weights_of(layer))
        return self

    def weights_of(self, layer: GRU | LSTM) -> dict[str, Tensor]:
        """Those of a passnet layer by this one's names, as views that autograd can follow."""
        cell: Any = layer.cells[0]
        found = {}
        for gate in range(len(self.inputs)):
            shared = 0 if self.case.tied else gate
            found |= {
                f"inputs.{gate}.weight": cell.input_weight[gate],
                f"inputs.{gate}.bias": cell.bias[gate],
                f"project.{gate}.weight": cell.recurrent.project[shared],
                f"expand.{gate}.weight": cell.recurrent.expand[gate],
                f"diagonal.{gate}": cell.recurrent.diagonal[gate],
            }
        return found

    def recurrent(self, gate: int, h: Tensor) -> Tensor:
        return self.expand[gate](self.project[gate](h)) + self.diagonal[gate] * h

    def gru_step(self, driven: list[Tensor], h: Tensor) -> Tensor:
        r = torch.sigmoid(driven[0] + self.recurrent(0, h))
        u = torch.sigmoid(driven[1] + self.recurrent(1, h))
        if self.case.reset == "after":
            c = torch.tanh(driven[2] + r * self.recurrent(2, h))
        else:
            c = torch.tanh(driven[2] + self.recurrent(2, r * h))
        return (1 - u) * c + u * h

    def lstm_step(self, driven: list[Tensor], h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        i, f, g, o = (driven[gate] + self.recurrent(gate, h) for gate in range(4))
        c = torch.sigmoid(i) * torch.tanh(g) + torch.sigmoid(f) * c
        return torch.sigmoid(o) * torch.tanh(c), c

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = c = x.new_zeros(x.shape[1], self.size)
        driven = [layer(x).unbind() for layer in self.inputs]
        states = []
        for step in zip(*driven, strict=True):
            if self.case.cell == "gru":
                h = self.gru_step(list(step), h)
            else:
                h, c = self.lstm_step(list(step), h, c)
            states.append(h)
        return torch.stack(states), h
