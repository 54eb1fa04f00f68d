"""A layer's state matrices, one for each gate, as one module."""

from __future__ import annotations

from abc import ABC
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import prune
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from passnet.config.matrix import MatrixSpec
from passnet.equations import Structure
from passnet.matrices.initialisation import fill_diagonal, fill_matrix
from passnet.ops.precision import in_dtype, without_autocast


class StructuredMatrix(nn.Module, ABC):
    """The matrices W_g, g < gates, of n x n; their factors carry a leading gate axis.

    With `weight_norm` every factor that is a matrix is used with rows of a trainable length, the
    projections with rows of length 1; the stored rows then only give directions.
    """

    spec: MatrixSpec
    """The value this module was built from."""
    structure: Structure
    normalised: tuple[str, ...] = ()
    """Factors that weight normalisation applies to, with a trainable scale for each row."""
    normalised_to_one: tuple[str, ...] = ()
    """The same with rows fixed at length 1."""

    def __init__(
        self, spec: MatrixSpec, size: int, gates: int, *, weight_norm: bool = False
    ) -> None:
        super().__init__()
        self.spec = spec
        self.size = size
        self.gates = gates
        self.weight_norm = weight_norm

    def start(
        self, init: str, *, keep: float = 1.0, generator: torch.Generator | None = None
    ) -> None:
        """Draw starting values; `keep` is for schemes that correct for dropout."""
        for name in self.structure.factors:
            fill = fill_diagonal if name == "diagonal" else fill_matrix
            fill(getattr(self, name), init, units=self.size, generator=generator)
        self.reset_scales()

    @property
    def masks_needed(self) -> int:
        """How many dropout masks the state wants: one for each gate, one when they share R."""
        return 1 if getattr(self.spec, "tied", False) else self.gates

    def factors(self) -> tuple[Tensor, ...]:
        """The factors as the equations use them, in the structure's order."""
        names = self.structure.factors
        if not self.weight_norm:
            return tuple([stored(self, name) for name in names])
        return tuple([self.factor(name) for name in names])

    def factors_in(self, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """The factors in the dtype to compute in."""
        factors = self.factors()
        return tuple([in_dtype(factor, dtype) for factor in factors])

    def factor(self, name: str) -> Tensor:
        """One factor, normalised where this layer normalises it."""
        raw = stored(self, name)
        if not self.weight_norm:
            return raw
        if name in self.normalised:
            return unit_rows(raw) * getattr(self, f"{name}_scale").unsqueeze(-1)
        return unit_rows(raw) if name in self.normalised_to_one else raw

    def add_factor(self, name: str, *shape: int, device=None, dtype=None) -> None:
        """Register a factor, and its row scales where it is normalised with some."""
        empty = torch.empty(*shape, device=device, dtype=dtype)
        self.register_parameter(name, nn.Parameter(empty))
        if self.weight_norm and name in self.normalised:
            scale = torch.empty(*shape[:-1], device=device, dtype=dtype)
            self.register_parameter(f"{name}_scale", nn.Parameter(scale))

    @torch.no_grad()
    def reset_scales(self) -> None:
        """Start every row scale at its row's length, so that normalising changes nothing yet."""
        if self.weight_norm:
            for name in self.normalised:
                rows = getattr(self, name)
                getattr(self, f"{name}_scale").copy_(rows.norm(dim=-1))

    @property
    def matrix_factors(self) -> tuple[str, ...]:
        """The factors whose rows a max-norm constraint clips: all but diagonals."""
        return (*self.normalised, *self.normalised_to_one)

    def forward(self, x: Float[Tensor, "... n"]) -> Float[Tensor, "gates ... n"]:
        """Every gate's matrix applied to the same vectors."""
        return apply_structure(self.structure, self.factors(), x)

    def gate(self, index: int) -> GateMatrix:
        """One gate's matrix, a differentiable view of this module's factors."""
        picked = [f if f.shape[0] == 1 else f[index : index + 1] for f in self.factors()]
        return GateMatrix(self.size, self.structure, tuple(picked))

    def extra_repr(self) -> str:
        return f"{self.size}, gates={self.gates}, {self.spec.describe()}"


class GateMatrix:
    """A single n x n matrix W: call it for W x, `transpose` for W^T y, `dense()` to see it."""

    def __init__(self, size: int, structure: Structure, factors: tuple[Tensor, ...]) -> None:
        self.size = size
        self.structure = structure
        self._factors = factors

    @property
    def factors(self) -> dict[str, Tensor]:
        """The factors by name, such as `expand` (L) and `project` (R)."""
        pairs = zip(self.structure.factors, self._factors, strict=True)
        return {name: factor[0] for name, factor in pairs}

    def __call__(self, x: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        return apply_structure(self.structure, self._factors, x)[0]

    def transpose(self, y: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        rows = y.reshape(1, -1, y.shape[-1])
        return self.structure.transpose(rows, *self._factors).reshape(y.shape)

    def dense(self) -> Float[Tensor, "n n"]:
        """The matrix written out, in its own precision under autocast too."""
        like = self._factors[0]
        if self.structure.name == "dense":  # which a product may round
            return like[0].clone()
        eye = torch.eye(self.size, dtype=like.dtype, device=like.device)
        return without_autocast(like.device, self, eye).mT

    def __repr__(self) -> str:
        shapes = ", ".join(f"{k} {tuple(v.shape)}" for k, v in self.factors.items())
        return f"GateMatrix({self.structure.name}: {shapes})"


def stored(module: nn.Module, name: str) -> Any:
    """`getattr(module, name)` of a parameter, which torch looks for everywhere else first.

    One that is pruned or normalised by a hook is computed anew: such hooks wait for a module to be
    called, and neither matrices nor cells are.
    """
    parameters = module._parameters
    if name in parameters:
        return parameters[name]
    run_weight_hooks(module)
    return getattr(module, name)


def run_weight_hooks(module: nn.Module) -> None:
    """Compute what `torch.nn.utils` prunes or normalises by hooks, as a call of a module would."""
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, prune.BasePruningMethod | WeightNorm | SpectralNorm):
            hook(module, ())


def apply_structure(
    structure: Structure, factors: tuple[Tensor, ...], x: Float[Tensor, "... n"]
) -> Float[Tensor, "gates ... n"]:
    """Stacked matrices applied to vectors of any leading shape."""
    out = structure.apply(x.reshape(1, -1, x.shape[-1]), *factors)
    return out.reshape(out.shape[0], *x.shape)


def unit_rows(matrix: Float[Tensor, "... k"]) -> Float[Tensor, "... k"]:
    """Each row divided by its length; a row of zeros stays zero."""
    length = torch.linalg.vector_norm(matrix, dim=-1, keepdim=True)
    return matrix / length.clamp_min(torch.finfo(matrix.dtype).tiny)
