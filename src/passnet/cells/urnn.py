"""The uRNN cell: a unitary state matrix in few parameters."""

from __future__ import annotations

import math
from typing import final

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from passnet.equations import UnitaryFactors, unitary_map, urnn_step


@final
class UnitaryCell(nn.Module):
    """A complex state of n units; complex parameters are stored as pairs of reals.

    Starting values follow the original: angles uniform on the circle, reflections and inputs
    Glorot-like, the modulus bias near zero, the initial state short.
    """

    permutation: Tensor

    def __init__(self, input_size: int, size: int, *, device=None, dtype=None) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        self.size = size
        self.angles = nn.Parameter(torch.empty(3, size, **place))
        self.reflections = nn.Parameter(torch.empty(2, size, 2, **place))
        self.input_weight = nn.Parameter(torch.empty(2, size, input_size, **place))
        self.modulus_bias = nn.Parameter(torch.empty(size, **place))
        self.initial_state = nn.Parameter(torch.empty(size, 2, **place))
        permutation = torch.empty(size, dtype=torch.int64, device=device)
        self.register_buffer("permutation", permutation)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw starting values and the fixed permutation."""
        size, inputs = self.input_weight.shape[1:]
        bounds = {
            "angles": math.pi,
            "reflections": 1.0,
            "input_weight": math.sqrt(6 / (inputs + size)),
            "modulus_bias": 0.01,
            "initial_state": math.sqrt(3 / (2 * size)),
        }
        for name, bound in bounds.items():
            tensor = getattr(self, name)
            draw = torch.empty(tensor.shape).uniform_(-bound, bound, generator=generator)
            tensor.copy_(draw)
        self.permutation.copy_(torch.randperm(size, generator=generator))

    def factors(self) -> UnitaryFactors:
        """What determines the unitary matrix."""
        reflections = torch.view_as_complex(self.reflections)
        return UnitaryFactors(self.angles, reflections, self.permutation)

    def drive(self, x: Float[Tensor, "T B m"] | Int[Tensor, "T B"]) -> Complex[Tensor, "T B n"]:
        """What the inputs add at every step; integers are symbols."""
        if x.is_floating_point():
            real, imaginary = (F.linear(x, weight) for weight in self.input_weight)
        else:
            real, imaginary = (F.embedding(x, weight.mT) for weight in self.input_weight)
        return torch.complex(real, imaginary)

    def step(self, state: Complex[Tensor, "B n"], drive: Complex[Tensor, "B n"]) -> Tensor:
        """The next state."""
        return urnn_step(state, drive, self.factors(), bias=self.modulus_bias)

    def matrix(self) -> Complex[Tensor, "n n"]:
        """The unitary matrix written out."""
        eye = torch.eye(self.size, dtype=torch.view_as_complex(self.reflections).dtype)
        return unitary_map(eye.to(self.angles.device), self.factors()).mT
