"""Kernels that always follow each other, as one CUDA graph: a single launch for all of them.

Unlike a captured graph it is not bound to certain tensors: arguments are set before each launch,
which takes the host a microsecond per kernel, where a separate launch takes five.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import NamedTuple

from passnet.ops.cuda.launches import Grid
from passnet.ops.cuda.libcuda import check, enter, leave, libcuda

Queued = tuple[Callable[..., int], tuple]
"""A function of the driver, and what it is called with."""


class Link(NamedTuple):
    """One kernel of a chain."""

    function: ctypes.c_void_p
    grid: Grid
    threads: int
    shared: int
    arguments: ctypes.Array[ctypes.c_void_p]
    """Where each of its arguments stands whenever the chain is queued."""


class _Parameters(ctypes.Structure):
    """The driver's CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("threads", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class Chain:
    """Some kernels of a device. Launches of one chain never overlap, whichever their streams."""

    def __init__(self, device: int, links: Sequence[Link], stream: ctypes.c_void_p) -> None:
        """`stream` is read each time it is queued, and so are the arguments of every link."""
        self._links = links  # whose arguments must not go away
        self._graph, self._ready = ctypes.c_void_p(), ctypes.c_void_p()
        before = enter(device)
        try:
            check(libcuda().cuGraphCreate(ctypes.byref(self._graph), 0))
            weakref.finalize(self, _destroy, "cuGraphDestroy", self._graph).atexit = False
            set_arguments, node = [], None
            for link in links:
                parameters = _parameters(link)
                node = self._added(parameters, node)
                change = libcuda().cuGraphExecKernelNodeSetParams_v2
                set_arguments.append((change, (self._ready, node, ctypes.byref(parameters))))
            ready, flags = ctypes.byref(self._ready), ctypes.c_ulonglong(0)
            check(libcuda().cuGraphInstantiateWithFlags(ready, self._graph, flags))
            weakref.finalize(self, _destroy, "cuGraphExecDestroy", self._ready).atexit = False
        finally:
            leave(before)
        self.queued: list[Queued] = [
            *set_arguments,
            (libcuda().cuGraphLaunch, (self._ready, stream)),
        ]
        """What queues it, in this order."""

    def _added(self, parameters: _Parameters, before: ctypes.c_void_p | None) -> ctypes.c_void_p:
        """The node of a kernel that follows another, or none."""
        node = ctypes.c_void_p()
        follows = (None, ctypes.c_size_t(0))
        if before is not None:
            follows = (ctypes.byref(before), ctypes.c_size_t(1))
        about = (*follows, ctypes.byref(parameters))
        check(libcuda().cuGraphAddKernelNode_v2(ctypes.byref(node), self._graph, *about))
        return node


def _parameters(link: Link) -> _Parameters:
    arguments = ctypes.addressof(link.arguments)
    return _Parameters(link.function, link.grid, (link.threads, 1, 1), link.shared, arguments)


def _destroy(how: str, what: ctypes.c_void_p) -> None:
    """Launches that are queued yet come to their end all the same."""
    getattr(libcuda(), how)(what)
