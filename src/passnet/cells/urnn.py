"""The uRNN cell: a unitary state matrix in few parameters."""

from __future__ import annotations

import math
from typing import final

import torch
from jaxtyping import Bool, Complex, Float, Int
from torch import Tensor, nn

from passnet.equations import UnitaryFactors, unitary_map
from passnet.matrices.initialisation import fill_uniform
from passnet.matrices.structured import stored
from passnet.ops import UnitaryScan
from passnet.ops.inputs import Inputs, needs_gradient


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
    def start(self, generator: torch.Generator | None = None) -> None:
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
            fill_uniform(getattr(self, name), bound, generator)
        self.permutation.copy_(torch.randperm(size, generator=generator, device="cpu"))

    def factors(self) -> UnitaryFactors:
        """What determines the unitary matrix."""
        reflections = torch.complex(*stored(self, "reflections").unbind(-1))
        return UnitaryFactors(stored(self, "angles"), reflections, self.permutation)

    def scan(
        self,
        x: Float[Tensor, "T B m"] | Int[Tensor, "T B"],
        initial: Float[Tensor, "B 2n"],
        *,
        hold: Bool[Tensor, "T B 1"] | None,
    ) -> UnitaryScan:
        """The call that runs this cell over time; integers are symbols."""
        return UnitaryScan(
            Inputs(x, stored(self, "input_weight"), needs_gradient=needs_gradient(x)),
            initial,
            (stored(self, "angles"), stored(self, "reflections")),
            self.permutation,
            stored(self, "modulus_bias"),
            hold=hold,
        )

    def matrix(self) -> Complex[Tensor, "n n"]:
        """The unitary matrix written out."""
        eye = torch.eye(self.size, dtype=self.angles.dtype.to_complex())
        return unitary_map(eye.to(self.angles.device), self.factors()).mT
