"""Random scan calls over every combination of what a scan may be asked, and the loops for them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from layer_twins import signed
from plain_loops import dense_matrices, gru_loop, lstm_loop
from structures import SIZE, STRUCTURES
from torch import Tensor

from passnet.equations import STRUCTURES as EQUATIONS
from passnet.matrices import build_matrix
from passnet.ops import GruScan, LstmScan, gru_backends, lstm_backends
from passnet.ops.backend import choose


@dataclass(frozen=True)
class Case:
    """One kind of call; `hold` is "ends" (lengths) or "units" (zoneout), masks None, 1 or gates."""

    cell: str
    structure: str
    reset: str = "after"
    masks: str | None = None
    hold: str | None = None
    inner_bias: bool = False
    steps: int = 4
    batch: int = 5

    def __str__(self) -> str:
        words = [self.cell, self.structure, self.reset if self.cell == "gru" else ""]
        words += [f"masks-{self.masks}" if self.masks else "", f"hold-{self.hold or ''}"]
        words += ["inner" if self.inner_bias else "", f"T{self.steps}B{self.batch}"]
        return " ".join(word for word in words if word and word != "hold-")

    @property
    def gates(self) -> int:
        return 3 if self.cell == "gru" else 4


def grid(*structures: str) -> list[Case]:
    """Every combination of structure, reset, masks, holds and inner bias."""
    cases = []
    for structure, masks, hold in itertools.product(
        structures, (None, "one", "each"), (None, "ends", "units")
    ):
        shared = {"masks": masks, "hold": hold}
        cases.append(Case("gru", structure, "before", **shared))
        for inner in (False, True):
            cases.append(Case("gru", structure, "after", inner_bias=inner, **shared))
        cases.append(Case("lstm", structure, **shared))
    return cases


def make_call(case: Case, dtype: torch.dtype = torch.float64) -> GruScan | LstmScan:
    """A random call; every tensor that may have a gradient wants one."""
    matrix = build_matrix(STRUCTURES[case.structure], SIZE, gates=case.gates)

    def draw(*shape: int, scale: float = 1.0) -> Tensor:
        return (scale * signed(*shape)).to(dtype).requires_grad_()

    factors = tuple(draw(*f.shape, scale=0.6) for f in matrix.factors())
    shape = (case.steps, case.batch, SIZE)
    masks = None
    if case.masks is not None:
        count = 1 if case.masks == "one" else case.gates
        masks = torch.empty(count, *shape[1:], dtype=dtype).bernoulli_(0.6) / 0.6

    def hold() -> Tensor | None:
        if case.hold == "ends":
            ends = torch.randint(1, case.steps + 1, (case.batch,))
            return (torch.arange(case.steps)[:, None, None] >= ends[:, None]).to(dtype)
        return torch.rand(shape, dtype=dtype).round(decimals=2) if case.hold else None

    drive, start = draw(case.gates, *shape, scale=1.2), draw(*shape[1:])
    if case.cell == "lstm":
        return LstmScan(
            drive,
            start,
            draw(*shape[1:]),
            factors,
            matrix.structure.name,
            masks=masks,
            hold=hold(),
            hold_cell=hold(),
        )
    inner_bias = draw(SIZE) if case.inner_bias else None
    return GruScan(
        drive,
        start,
        factors,
        matrix.structure.name,
        case.reset,
        masks=masks,
        hold=hold(),
        inner_bias=inner_bias,
    )


def converted(call: GruScan | LstmScan, dtype: torch.dtype) -> GruScan | LstmScan:
    """The same numbers in another dtype, as fresh leaves."""
    live, fixed, layout = call.flatten()
    live = [tensor.detach().to(dtype).requires_grad_() for tensor in live]
    return type(call).unflatten(live, [tensor.to(dtype) for tensor in fixed], layout)


def plain(call: GruScan | LstmScan) -> list[Tensor]:
    """The scan's outputs by a textbook loop over dense matrices."""
    gates = call.drive.shape[0]
    names = EQUATIONS[call.structure].factors
    w = dense_matrices(call.structure, dict(zip(names, call.factors, strict=True)), gates)
    shared = {"masks": call.masks, "hold": call.hold}
    if isinstance(call, LstmScan):
        starts = call.initial, call.initial_cell
        return list(lstm_loop(call.drive, *starts, w, hold_cell=call.hold_cell, **shared))
    options = {"reset": call.reset, "inner_bias": call.inner_bias}
    return [gru_loop(call.drive, call.initial, w, **options, **shared)]


def backends_of(call: GruScan | LstmScan):
    return lstm_backends() if isinstance(call, LstmScan) else gru_backends()


def run_on(backend: str, call: GruScan | LstmScan) -> list[Tensor]:
    """The outputs by a backend; one that refuses this call raises why."""
    return choose(backends_of(call), backend, call).run(call)


@cache
def backend_names(cell: str, structure: str) -> tuple[str, ...]:
    """The backends that serve such calls on this machine's CPU."""
    call = make_call(Case(cell, structure), torch.float32)
    return tuple(b.name for b in backends_of(call) if b.refuses(call) is None)


def run_by_name(call: GruScan | LstmScan, name: str) -> list[Tensor]:
    """The named backend's outputs; a backend that refuses this call has nothing to show."""
    backend = next(b for b in backends_of(call) if b.name == name)
    reason = backend.refuses(call)
    if reason is not None:
        pytest.skip(f"{name}: {reason}")
    return backend.run(call)


def gradients(outputs: list[Tensor], call: GruScan | LstmScan, seed: int = 5) -> dict[str, Tensor]:
    """Outputs and the gradient of every live tensor, under one random loss."""
    generator = torch.Generator().manual_seed(seed)
    weights = [(0.5 + torch.rand(o.shape, generator=generator)).to(o.dtype) for o in outputs]
    live = call.flatten()[0]
    found = torch.autograd.grad(outputs, live, weights, retain_graph=True)
    named = {f"output {k}": value.detach() for k, value in enumerate(outputs)}
    return named | {f"gradient {k}": value for k, value in enumerate(found)}
