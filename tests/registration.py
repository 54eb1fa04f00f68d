"""A scan's registered ops under PyTorch's own checker, and the calls they are checked with."""

from __future__ import annotations

import torch
from scan_calls import Case, make_call, plain

# Sizes that differ: a tracer takes equal ones, such as those of steps and gates, for one.
SIZES = {"steps": 7, "batch": 5}
CASES = [
    Case("gru", "diagonal", "before", masks="each", hold="units", **SIZES),
    Case("gru", "diagonal tied", "after", hold="ends", inner_bias=True, **SIZES),
    Case("gru", "dense", "after", **SIZES),
    Case("lstm", "diagonal", masks="each", hold="units", **SIZES),
]
"""That every engine serves."""
DECLARED = ("test_schema", "test_autograd_registration", "test_faketensor")
TRACED = ("test_aot_dispatch_static", "test_aot_dispatch_dynamic")
"""Number by number beside the op itself, which needs kernels that compute."""


def check_registration(case: Case, dtype: torch.dtype, engine: str, *, device: str = "cpu") -> None:
    """Both passes of one call, as declared and traced, with their gradients."""
    forward = getattr(torch.ops.passnet, f"{case.cell}_scan").default
    backward = getattr(torch.ops.passnet, f"{case.cell}_scan_backward").default
    made = make_call(case, dtype)
    live, fixed, layout = made.flatten()
    live = [tensor.detach().to(device).requires_grad_() for tensor in live]
    fixed = [tensor.to(device) for tensor in fixed]
    arguments = live, fixed, layout, engine
    # Kernels leave room in what they keep for gradients to come: nothing to compare is there.
    tests = (*DECLARED, *TRACED) if engine == "eager" else DECLARED
    torch.library.opcheck(forward, arguments, test_utils=tests)
    count = len(plain(made))
    found = forward(*arguments)
    grads = [torch.randn_like(output) for output in found[:count]]
    for dynamic in (False, True):
        torch.compiler.reset()
        compiled = torch.compile(
            lambda *given: forward(*given)[:count],
            backend="aot_eager",
            fullgraph=True,
            dynamic=dynamic,
        )
        sides = []
        for outputs in (found[:count], compiled(*arguments)):
            sides.append([*outputs, *torch.autograd.grad(outputs, live, grads)])
        assert all(map(torch.equal, *sides)), "traced, the op computes something else"
        found = forward(*arguments)
    kept = [tensor.detach() for tensor in found]
    live = [tensor.detach() for tensor in live]
    torch.library.opcheck(
        backward, (grads, live, fixed, kept, layout, engine), test_utils=(*DECLARED, *TRACED)
    )
