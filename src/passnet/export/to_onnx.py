"""A model with passnet layers as an ONNX file that does the same."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import prune
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree

from passnet.config.whole_files import write_whole
from passnet.export.errors import Unexportable
from passnet.export.scans import DTYPES
from passnet.export.signature import Signature
from passnet.layers import UnitaryRNN
from passnet.layers.copying import copied
from passnet.layers.recurrent import RecurrentLayer

PACKAGES = ("onnx", "onnx_ir", "onnxscript", "onnxruntime")


def export_onnx(
    module: nn.Module,
    inputs: Tensor | Sequence[Any],
    path: str | os.PathLike[str],
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Signature:
    """Write `module`, a layer or a model that contains some, as it computes in `eval()`.

    `inputs` are example arguments. Sizes of 1 stay 1, and with one step there is no loop; all other
    sizes that the module does not fix are free. The file is written only after ONNX Runtime has
    given the same numbers as PyTorch, on the example and on larger inputs. Returns the names and
    shapes of the file's inputs and outputs.
    """
    given = _arguments(inputs)
    place = Path(os.path.realpath(path))
    _check(module, place)
    _check_metadata(metadata or {})
    _check_packages()
    # These need packages that nothing but an export needs.
    import onnx_ir as ir

    from passnet.export.agreement import check_agreement
    from passnet.export.building import build
    from passnet.export.names import signature

    module = _exportable(module)
    given = pytree.tree_map_only(Tensor, lambda tensor: tensor.detach().cpu().clone(), given)
    _check_example(module, given)
    model = build(
        module,
        given,
        input_names=input_names,
        output_names=output_names,
        metadata=metadata or {},
    )
    described, program = signature(model.graph), ir.to_proto(model).SerializeToString()
    check_agreement(program, described, module, given)
    write_whole(place, program, shared=True)
    return described


def _arguments(inputs: Any) -> tuple[Any, ...]:
    if isinstance(inputs, Tensor):
        return (inputs,)
    if not isinstance(inputs, tuple | list):
        raise TypeError(
            f"inputs is a {type(inputs).__name__}: give a tensor, or a tuple of the module's "
            "arguments in order"
        )
    if any(isinstance(part, PackedSequence) for part in (inputs, *inputs)):
        raise TypeError(
            "a program takes no PackedSequence: give a padded batch and its lengths, such as "
            "(x, None, lengths) for a layer"
        )
    return tuple(inputs)


def _check_metadata(metadata: Mapping[str, str]) -> None:
    for name, text in metadata.items():
        if not (isinstance(name, str) and isinstance(text, str)):
            raise TypeError(f"metadata has {name!r}: {text!r}: give texts by name, as with str()")


def _check(module: nn.Module, path: Path) -> None:
    if not isinstance(module, nn.Module):
        given = f"the class {module.__name__}" if isinstance(module, type) else repr(module)
        raise TypeError(f"got {given}: give a layer or a model, an nn.Module")
    if any(isinstance(part, UnitaryRNN) for part in module.modules()):
        raise Unexportable(
            "the state of a UnitaryRNN is complex, and ONNX has no complex numbers: only models "
            "without one can be exported"
        )
    kinds = {p.dtype for p in module.parameters() if p.is_floating_point()}
    for kind in kinds - set(DTYPES):
        raise Unexportable(f"the parameters are {kind}: convert the module with .float() first")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} for {path.name}: make it first")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file, such as model.onnx")


def _check_example(module: nn.Module, given: tuple[Any, ...]) -> None:
    """Raise what the module itself says of these arguments, and for what a program cannot be."""
    for part in pytree.tree_leaves(given):
        if isinstance(module, RecurrentLayer) and not isinstance(part, Tensor | None):
            raise TypeError(
                f"the example holds {part!r}, a {type(part).__name__}: give lengths as a tensor"
            )
        if isinstance(part, Tensor) and part.numel() == 0:
            raise ValueError(
                f"an example of shape {list(part.shape)} has nothing in it: give some steps of "
                "some sequences"
            )
    with torch.no_grad():
        found = pytree.tree_leaves(module(*given))
    strangers = {type(part).__name__ for part in found if not isinstance(part, Tensor)}
    if strangers or not found:
        raise Unexportable(
            f"the module returns {' and '.join(sorted(strangers)) or 'nothing'}: a program returns "
            "tensors, in tuples, lists or dicts if there are several"
        )
    for part in found:
        if part.is_floating_point() and part.dtype not in DTYPES:
            raise Unexportable(
                f"the module returns {part.dtype}: leave out torch.autocast, or convert what it "
                "returns with .float()"
            )


def _check_packages() -> None:
    for name in PACKAGES:
        try:
            import_module(name)
        except ImportError as error:
            raise Unexportable(
                f"an export needs the package {name}: run pip install '.[onnx]' in passnet's folder"
            ) from error


def _exportable(module: nn.Module) -> nn.Module:
    """A copy on the CPU in which every layer runs an op that `decompositions` knows, and what was
    pruned is stored."""
    found = copied(module).cpu().eval().requires_grad_(False)
    for part in found.modules():
        if isinstance(part, RecurrentLayer):
            part.backend = "auto"
        for hook in [*part._forward_pre_hooks.values()]:
            if isinstance(hook, prune.BasePruningMethod):
                prune.remove(part, hook._tensor_name)
    return found
