"""What the host does around the kernels of a scan: reading the call, launching them."""

from __future__ import annotations

import ctypes
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
import torch

import passnet
from passnet.ops.cuda import chain, engine, large_plan, libcuda, unitary_plan
from passnet.ops.cuda import driver as cuda_driver
from passnet.ops.cuda.call import Call, refuses_anywhere
from passnet.ops.cuda.families import family_of, fastest_family, served_by
from passnet.ops.cuda.launches import Launch
from passnet.ops.cuda.small_plan import candidates

OURS, ANOTHER, STREAM = 0x1000, 0x2000, 7
GRAPHS, NODES, FUNCTIONS, READY = 0x3000, 0x4000, 0x5000, 0x6000
"""Where the driver's handles begin; that of a graph made ready is so far behind its own."""


@pytest.mark.parametrize("kind", [passnet.GRU, passnet.LSTM])
@pytest.mark.parametrize("rank", [4, 50], ids=["factors", "whole matrices"])
def test_a_call_is_described_once_to_choose_and_once_a_pass(on_cuda, monkeypatch, kind, rank):
    described = []

    def noted(call, cell):
        described.append(call.structure)
        return facts(call, cell)

    facts = engine.facts
    monkeypatch.setattr(engine, "facts", noted)
    layer = kind(3, 128, matrix=passnet.LowRankPlusDiagonal(rank))
    output, _ = layer(torch.randn(4, 2, 3))
    assert described == ["low_rank_plus_diagonal"] * 2
    output.sum().backward()
    assert described == ["low_rank_plus_diagonal"] * 3


def test_equal_descriptions_are_looked_up_alike():
    call = ("gru_after", 128, 24, torch.float32, True, False, 0, 0, 0, False)
    one, other = Call(*call), Call(*call)
    assert one == other and hash(one) == hash(other)
    assert one != Call(*call[:-1], True)


def test_a_type_that_no_kernel_computes_in_is_named():
    wide = Call("gru_after", 128, 24, torch.float64)
    said = "the CUDA scan computes float32, bfloat16 and float16, not float64"
    assert refuses_anywhere(wide) == said


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("cell", ["gru_after", "gru_before", "lstm"])
def test_layouts_keep_to_the_shared_memory_there_is(cell, backward):
    for rank in (4, 24, None):
        call = Call(cell, 100, rank, torch.float32)
        least = min(p.shared_bytes for p in candidates(call, backward=backward, shared_limit=10**7))
        fitting = candidates(call, backward=backward, shared_limit=least)
        assert fitting and {plan.shared_bytes for plan in fitting} == {least}
        assert not candidates(call, backward=backward, shared_limit=least - 1)
        limit = 10**7
        while found := large_plan.plan(call, backward=backward, processors=8, shared_limit=limit):
            assert found.shared_bytes <= limit
            limit = found.shared_bytes - 1
        assert limit < 10**7


@pytest.mark.parametrize("backward", [False, True])
def test_complex_vectors_keep_to_the_shared_memory_there_is(backward):
    least = unitary_plan.shared_bytes(21, 64)  # with the fewest threads
    assert unitary_plan.plan(21, backward=backward, shared_limit=least)
    assert unitary_plan.plan(21, backward=backward, shared_limit=least - 1) is None


@pytest.mark.parametrize("units", [128, 500, 900])
def test_no_layout_keeps_less_than_no_weights_in_registers(units):
    for rank, backward in product((8, None), (False, True)):
        call = Call("lstm", units, rank, torch.float32)
        for plan in candidates(call, backward=backward, shared_limit=10**9):
            assert min(plan.constants.values()) >= 0


@pytest.mark.parametrize("families", [family_of, fastest_family])
def test_a_call_that_no_kernel_serves_says_why(on_cuda, families):
    with pytest.raises(ValueError, match="not float64"):
        served_by(families, ("gru_after", 128, 24, torch.float64), on_cuda)


class Driver:
    """What a launch asks of libcuda, noted."""

    def __init__(self) -> None:
        self.current, self.status, self.launched = OURS, 0, []
        self.counts, self.graphs, self.nodes, self.destroyed = {}, {}, {}, []
        self.stream, self.chains = STREAM, 0

    def cuModuleGetFunction(self, at, module, name):
        at._obj.value = FUNCTIONS + len(self.counts)
        self.counts[at._obj.value] = None
        return 0

    def cuCtxGetCurrent(self, at):
        at._obj.value = self.current
        return 0

    def cuCtxSetCurrent(self, context):
        self.current = context.value
        return 0

    def cuLaunchKernel(self, function, *place):
        *sizes, stream, pointers, extra = place
        assert stream.value == self.stream and extra in (None, "together")
        self.launched.append((self.current, [*sizes, extra == "together"], values_at(pointers)))
        return self.status

    def cuLaunchCooperativeKernel(self, *place):
        return self.cuLaunchKernel(*place, "together")

    def cuGraphCreate(self, at, flags):
        at._obj.value = GRAPHS + len(self.graphs)
        self.graphs[at._obj.value] = []
        return 0

    def cuGraphAddKernelNode_v2(self, at, graph, follows, count, about):
        assert self.current == OURS
        nodes = self.graphs[graph.value]
        assert (follows and follows._obj.value) == (nodes[-1] if nodes else None)
        assert count.value == len(nodes[-1:])
        at._obj.value = NODES + len(self.nodes)
        nodes.append(at._obj.value)
        self.nodes[at._obj.value] = {"sizes": sizes_of(about._obj)}
        return 0

    def cuGraphInstantiateWithFlags(self, at, graph, flags):
        assert self.current == OURS
        at._obj.value = READY + graph.value
        return 0

    def cuGraphExecKernelNodeSetParams_v2(self, ready, node, about):
        known = self.nodes[node.value]
        assert node.value in self.graphs[ready.value - READY]
        assert sizes_of(about._obj) == known["sizes"]
        given = ctypes.c_void_p * self.counts[about._obj.function]
        known["values"] = values_at(given.from_address(about._obj.arguments))
        return self.status

    def cuGraphLaunch(self, ready, stream):
        assert stream.value == self.stream
        self.chains += 1
        for node in self.graphs[ready.value - READY]:
            known = self.nodes[node]
            self.launched.append((self.current, [*known["sizes"], False], known["values"]))
        return self.status

    def cuGraphDestroy(self, graph):
        self.destroyed.append(graph.value)
        return 0

    cuGraphExecDestroy = cuGraphDestroy

    def cuGetErrorString(self, status, at):
        at._obj.value = b"out of luck"
        return 0


def values_at(pointers):
    return [ctypes.c_uint64.from_address(at).value for at in pointers]


def sizes_of(about):
    return [*about.grid, *about.threads, about.shared]


@pytest.fixture
def driver(monkeypatch) -> Driver:
    made = Driver()
    for module in (libcuda, chain, cuda_driver):
        monkeypatch.setattr(module, "libcuda", lambda: made)
    for module in (libcuda, cuda_driver):
        monkeypatch.setattr(module, "context_of", lambda device: ctypes.c_void_p(OURS))
    current = "_cuda_getCurrentRawStream"
    monkeypatch.setattr(torch._C, current, lambda device: made.stream, raising=False)
    monkeypatch.setattr(cuda_driver, "device_limits", lambda device: (132, 232448, "sm_90"))
    monkeypatch.setattr(cuda_driver, "cubin", lambda *_, **__: b"")
    monkeypatch.setattr(cuda_driver, "_loaded", lambda binary: None)
    return made


def kernel() -> cuda_driver.Kernel:
    return cuda_driver.Kernel("text", "name", device=0, options=(), shared=64)


def test_what_a_launch_hands_over(driver):
    given = torch.zeros(3)
    kernel().launch((5, 2, 1), 128, [given, None, 2**40])
    ((context, sizes, values),) = driver.launched
    assert (context, sizes) == (OURS, [5, 2, 1, 128, 1, 1, 64, False])
    assert values == [given.data_ptr(), 0, 2**40]


def volley(driver, *launches):
    """Some launches, each of a grid, threads and places, to be made again."""
    numbered = []
    for *how, places in launches:
        made = kernel()
        driver.counts[made.function.value] = len(places)
        numbered.append((Launch(made, *how, [], False), places))
    return cuda_driver.Kernel.together(numbered)


def test_launches_that_were_prepared_hand_over_the_same(driver):
    first, second = torch.zeros(3), torch.zeros(5)
    driver.current = ANOTHER
    prepared = volley(
        driver,
        ((5, 2, 1), 128, [1, 0, 3]),
        ((7, 1, 1), 64, [2, 1]),
        ((1, 1, 4), 32, [4]),
    )
    for one, other in ((first, second), (second, first), (first, second)):
        driver.launched.clear()
        prepared([one, other], [2**40, 6])
        assert driver.launched == [
            (OURS, [5, 2, 1, 128, 1, 1, 64, False], [one.data_ptr(), 0, 2**40]),
            (OURS, [7, 1, 1, 64, 1, 1, 64, False], [other.data_ptr(), one.data_ptr()]),
            (OURS, [1, 1, 4, 32, 1, 1, 64, False], [6]),
        ]
        assert driver.current == ANOTHER
    assert driver.chains == 2, "all but the first, for which nothing is known of the stream"


def test_prepared_launches_on_streams_in_turn_do_not_wait_for_each_other(driver):
    prepared = volley(driver, ((1, 1, 1), 32, [1]), ((2, 1, 1), 32, [2]))
    chains = []
    for stream in (1, 1, 2, 1, 2, 2, 2, 1):
        driver.stream = stream
        driver.launched.clear()
        prepared([], [5, 6])
        assert [values for *_, values in driver.launched] == [[5], [6]]
        chains.append(driver.chains)
    assert chains == [0, 1, 1, 1, 1, 2, 3, 3]


def test_prepared_launches_that_fail_say_why(driver):
    prepared = volley(driver, ((1, 1, 1), 32, [1]), ((2, 1, 1), 32, [1]))
    for count in (1, 0):  # one by one, as a chain
        driver.launched.clear()
        driver.current, driver.status = ANOTHER, 701
        with pytest.raises(cuda_driver.CompileError, match="701: out of luck"):
            prepared([torch.zeros(1)], [])
        assert len(driver.launched) == count and driver.current == ANOTHER


def test_the_driver_forgets_launches_that_nobody_prepares_any_more(driver):
    kept = volley(driver, ((1, 1, 1), 32, [1]))
    dropped = volley(driver, ((1, 1, 1), 32, [1]))
    graph = GRAPHS + 1
    assert driver.destroyed == []
    del dropped
    assert set(driver.destroyed) == {graph, READY + graph}
    kept([torch.zeros(1)], [])


def test_a_launch_leaves_the_context_as_it_was(driver):
    made = kernel()
    driver.current = ANOTHER
    made.launch((1, 1, 1), 32, [1])
    assert driver.launched[0][0] == OURS and driver.current == ANOTHER


def test_a_launch_that_fails_says_why(driver):
    made = kernel()
    driver.current, driver.status = ANOTHER, 701
    with pytest.raises(cuda_driver.CompileError, match="701: out of luck"):
        made.launch((1, 1, 1), 32, [1])
    assert driver.current == ANOTHER


@pytest.mark.parametrize("ahead", [False, True])
def test_threads_do_not_mix_their_arguments(driver, ahead):
    made, before = kernel(), sys.getswitchinterval()
    prepared = volley(driver, ((1, 1, 1), 32, [1] * 12))

    def launch(number):
        prepared([], [number]) if ahead else made.launch((1, 1, 1), 32, [number] * 12)

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(launch, range(400)))
    finally:
        sys.setswitchinterval(before)
    assert all(len(set(values)) == 1 for _, _, values in driver.launched)
    assert {values[0] for _, _, values in driver.launched} == set(range(400))
