"""What the emulation has to notice, in kernels made for it and in the real ones made worse."""

from __future__ import annotations

import re

import pytest
import torch
from emulated_scans import CRAMPED, scaled, use_tensor_cores, where
from emulator import BACKWARDS, IN_ORDER, EmulationError, Emulator
from gpu.highway_cases import Norm
from gpu.input_cases import compared, made
from gpu.scan_cases import Case, cast, kernel, make
from gpu.unitary_cases import Case as UnitaryCase
from gpu.unitary_cases import kernel as unitary_kernel
from gpu.unitary_cases import made as made_unitary
from gpu.unitary_cases import single

from passnet.ops.cuda import large, small
from passnet.ops.cuda.compile import SOURCES, read_source
from passnet.ops.cuda.highway import KERNELS

ORDERS = (BACKWARDS, 2, 3, 4, 5, 6)


def probe(chip, parameters: str, body: str, *, shared: int = 0, io_type: int = 0):
    head = read_source("ptx.cuh", "common.cuh")
    entry = 'extern "C" __global__ void __launch_bounds__(64)'
    text = f"{head}\n{entry}\nprobe({parameters}) {{\n{body}\n}}"
    return chip.kernel(text, "probe", options=(f"-DIO_TYPE={io_type}",), shared=shared)


def run(kernel, *arguments, blocks: int = 1, cooperative: bool = False) -> None:
    kernel.launch((blocks, 1, 1), 64, list(arguments), cooperative=cooperative)


@pytest.mark.parametrize(
    "body, message",
    [
        ("if (threadIdx.x == 5) return;\n __syncthreads();", "63 wait at .*, 1 have ended"),
        ("if (threadIdx.x < 9) __syncthreads();\n else __syncthreads();", "9 wait at .* 55 wait"),
        ("if (threadIdx.x < 9) __shfl_xor_sync(0xffffffffu, 1.0f, 1);", "9 wait for their warp"),
        ("while (load_packet(out).x == 0.0f) {}", "64 wait for a packet"),
        ("out[threadIdx.x] = in[threadIdx.x + 1];", "outside of argument 0 at byte 256 of 256"),
        ("out[threadIdx.x + 1] = in[threadIdx.x];", "outside of argument 1 at byte 256 of 256"),
        ("const_cast<float*>(in)[3] = 1.0f;", "writes the constant argument 0 at byte 12"),
        ("load_packet(out + 1);", "a packet is not aligned"),
        ("out[0] = reinterpret_cast<float4*>(out + 1)->x;", "an address that is not aligned"),
        ("extern __shared__ float smem[]; smem[64] = 0.0f;", "byte 256 of shared memory"),
        ("extern __shared__ float smem[]; copy_async<8>(smem, in + 1, true);", "not aligned"),
        (
            "extern __shared__ float smem[]; copy_async<4>(smem + threadIdx.x, in, true);",
            "its copies",
        ),
        (
            "extern __shared__ float smem[]; copy_async<4>(smem + threadIdx.x, in + 64, true);\n"
            "end_group();\n wait_for_groups<0>();",
            "outside of argument 0 at byte 256 of 256",
        ),
    ],
)
def test_mistakes_are_reported(emulator, body, message):
    for order in (IN_ORDER, 2):
        mistaken = probe(emulator(order=order), "const float* in, float* out", body, shared=256)
        with pytest.raises(EmulationError, match=message):
            run(mistaken, torch.zeros(64), torch.zeros(64))


def test_a_kernel_is_given_its_parameters(emulator):
    made = probe(emulator(), "float* out, int count", "out[threadIdx.x] = count;")
    out = torch.zeros(64)
    run(made, out, 7)
    assert (out == 7).all()
    for wrong in ([out], [out, 7, 7], [7, out], [out.double(), 7]):
        with pytest.raises(EmulationError, match=r"parameters|elements"):
            run(made, *wrong)


def test_arguments_that_overlap_are_one_memory(emulator):
    body = "out[threadIdx.x] = 1.0f;\n __syncthreads();\n sums[threadIdx.x] = in[threadIdx.x];"
    made = probe(emulator(), "const float* in, float* out, float* sums", body)
    whole, sums = torch.zeros(100), torch.zeros(64)
    run(made, whole[20:84], whole, sums)
    assert sums.tolist() == [1.0] * 44 + [0.0] * 20
    assert whole.tolist() == [1.0] * 64 + [0.0] * 36
    whole = torch.zeros(100)
    run(made, whole, whole[20:84], sums)  # what is written lies inside of what is read
    assert sums.tolist() == [0.0] * 20 + [1.0] * 44
    assert whole.tolist() == [0.0] * 20 + [1.0] * 64 + [0.0] * 16
    whole = torch.zeros(100)
    run(made, whole[:64], whole[36:], sums)  # neither holds the other
    assert sums.tolist() == [0.0] * 36 + [1.0] * 28
    assert whole.tolist() == [0.0] * 36 + [1.0] * 64
    chain = (
        "out[threadIdx.x] = 1.0f;\n __syncthreads();\n sums[threadIdx.x] = in[threadIdx.x + 20];"
    )
    made = probe(emulator(), "const float* in, const float* more, float* out, float* sums", chain)
    whole = torch.zeros(120)
    run(made, whole[10:100], whole, whole[20:84], sums)
    assert sums.tolist() == [1.0] * 54 + [0.0] * 10


def test_a_missing_barrier_changes_the_result(emulator):
    text = "extern __shared__ float smem[]; smem[threadIdx.x] = threadIdx.x;\n{}\n"
    text += "out[threadIdx.x] = smem[(threadIdx.x + 1) % 64];"
    for barrier in ("", "__syncthreads();"):
        found = []
        for order in (IN_ORDER, *ORDERS):
            out = torch.zeros(64)
            chip = emulator(order=order)
            run(probe(chip, "float* out", text.replace("{}", barrier), shared=256), out)
            found.append(out)
        right = [torch.equal(out, torch.arange(1, 65) % 64) for out in found]
        assert all(right) if barrier else not any(right)
        assert found[0].isnan().sum() == (0 if barrier else 63)


@pytest.mark.parametrize("ended", [True, False])
def test_copies_arrive_when_their_group_is_waited_for(emulator, ended):
    """Three groups, the last of them empty or not yet ended; zeros come from outside."""
    text = "extern __shared__ float smem[]; float* own = smem + threadIdx.x;\n"
    for i in range(3 - ended):
        text += f"copy_async<4>(own + {64 * i}, in + threadIdx.x, {int(i != 1)});\n"
        text += "end_group();\n" if i < 2 else ""
    text += "end_group();\n" if ended else ""
    for which, left in enumerate((2, 1, 0)):
        text += f"wait_for_groups<{left}>();\n"
        text += (
            f"for (int i = 0; i < 3; i++) out[{which * 192} + i * 64 + threadIdx.x] = own[i * 64];"
        )
    text += "" if ended else "end_group();\n wait_for_groups<0>();"
    value, out = torch.arange(1.0, 65), torch.zeros(3, 3, 64)
    run(probe(emulator(), "const float* in, float* out", text, shared=768), value, out)
    first = 0 if ended else 1  # the wait after which the first group is there
    for which in range(3):
        assert torch.equal(out[which, 0], value) if which >= first else out[which, 0].isnan().all()
        second = which >= first + 1
        assert (out[which, 1] == 0).all() if second else out[which, 1].isnan().all()
        assert out[which, 2].isnan().all()


def test_blocks_run_together_only_when_asked_to(emulator):
    """The first block waits for the second."""
    body = "if (blockIdx.x == 0) while (load_packet(out).x == 0.0f) {}\n"
    body += "else if (threadIdx.x == 0) store_packet(out, 1, 1, 1, 1);"
    for order in (IN_ORDER, *ORDERS):
        made = probe(emulator(order=order), "float* out", body)
        run(made, torch.zeros(4), blocks=2, cooperative=True)
    made = probe(emulator(), "float* out", body)
    with pytest.raises(EmulationError, match="wait for a packet"):
        run(made, torch.zeros(4), blocks=2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_short_formats_round_as_they_should(emulator, dtype):
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype).float()
    every = every[every.isfinite()]
    between = (every[1:] + every[:-1]) / 2
    values = torch.cat([every, between, between.nextafter(every[1:]), torch.randn(1000) * 1e5])
    values = values[: len(values) // 64 * 64].contiguous()
    name = {torch.bfloat16: "bfloat16", torch.float16: "float16"}[dtype]
    body = "const int i = blockIdx.x * 64 + threadIdx.x;\n"
    body += f"const unsigned short bits = to_{name}(in[i]);\nout[i] = bits;\n"
    body += "back[i] = from_float16(bits);"
    made = probe(emulator(), "const float* in, unsigned short* out, float* back", body)
    out, back = torch.zeros(len(values), dtype=torch.int16), torch.zeros_like(values)
    run(made, values, out, back, blocks=len(values) // 64)
    assert torch.equal(out.view(dtype), values.to(dtype))
    if dtype == torch.float16:
        assert torch.equal(back, values.half().float())


@pytest.mark.parametrize(
    "name, short, dtype",
    [("mma", "to_float16", torch.float16), ("mma_bfloat16", "to_bfloat16", torch.bfloat16)],
    ids=["float16", "bfloat16"],
)
def test_the_tensor_core_multiplies_its_fragments(emulator, name, short, dtype):
    """The layout of fragments is that of the PTX manual, for mma.m16n8k16 with either format."""
    body = """
      const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4 * 2;
      auto pack = [&](float lower, float upper) { return SHORT(lower) | SHORT(upper) << 16; };
      auto left_at = [&](int row, int k) -> unsigned {
        return pack(a[row * 16 + k], a[row * 16 + k + 1]);
      };
      auto right_at = [&](int k, int column) -> unsigned {
        return pack(b[k * 8 + column], b[k * 8 + 8 + column]);
      };
      const unsigned left[4] = {left_at(g, t), left_at(g + 8, t), left_at(g, t + 8),
                                left_at(g + 8, t + 8)};
      const unsigned right[2] = {right_at(t, g), right_at(t + 8, g)};
      float sum[4] = {1.0f, 1.0f, 1.0f, 1.0f};
      MMA(sum, left, right);
      for (int i = 0; i < 4; i++) c[(g + i / 2 * 8) * 8 + t + i % 2] = sum[i];"""
    body = body.replace("SHORT", short).replace("MMA", name)
    made = probe(emulator(), "const float* a, const float* b, float* c", body)
    a, b, c = torch.randn(16, 16), torch.randn(16, 8), torch.zeros(16, 8)
    run(made, a, b, c)
    exact = a.to(dtype).double() @ b.to(dtype).double() + 1
    assert ((c - exact).abs() <= exact.abs() * 2**-23).all()
    assert (c.abs() <= exact.abs()).all(), "a tensor core rounds towards zero"


def test_the_tensor_core_multiplies_its_fragments_in_tf32(emulator):
    """The layout of fragments is that of the PTX manual, for mma.m16n8k8 with tf32."""
    body = """
      const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
      auto left_at = [&](int row, int k) { return __float_as_uint(a[row * 8 + k]); };
      auto right_at = [&](int k, int column) { return __float_as_uint(b[k * 8 + column]); };
      const unsigned left[4] = {left_at(g, t), left_at(g + 8, t), left_at(g, t + 4),
                                left_at(g + 8, t + 4)};
      const unsigned right[2] = {right_at(t, g), right_at(t + 4, g)};
      float sum[4] = {1.0f, 1.0f, 1.0f, 1.0f};
      mma_tf32(sum, left, right);
      for (int i = 0; i < 4; i++) c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];"""
    made = probe(emulator(), "const float* a, const float* b, float* c", body)
    a, b, c = torch.randn(16, 8), torch.randn(8, 8), torch.zeros(16, 8)
    run(made, a, b, c)
    short = [(m.view(torch.int32) & ~0x1FFF).view(torch.float32).double() for m in (a, b)]
    exact = short[0] @ short[1] + 1
    assert ((c - exact).abs() <= exact.abs() * 2**-23).all()
    assert (c.abs() <= exact.abs()).all(), "a tensor core rounds towards zero"


@pytest.mark.parametrize("io_type", [0, 1, 2])
@pytest.mark.parametrize("name", ["sigmoid", "tanh_of"])
def test_activations_are_right_to_a_unit_or_so_in_the_last_place(emulator, name, io_type):
    """In sixteen bits, to a few units of float32 beside one: far below what rounding takes."""
    body = f"const int i = blockIdx.x * 64 + threadIdx.x; out[i] = {name}(in[i]);"
    made = probe(emulator(), "const float* in, float* out", body, io_type=io_type)
    values = torch.cat([torch.randn(4096) * scale for scale in (0.01, 0.3, 1.0, 3.0, 8.0)])
    out = torch.zeros_like(values)
    run(made, values, out, blocks=len(values) // 64)
    exact = getattr(torch, name.removesuffix("_of"))(values.double())
    error = (out - exact).abs() / (1.0 if io_type else exact.abs())
    assert error.max() < (6 if io_type else 3) * 2**-24

    beyond = torch.tensor(
        [float("inf"), -float("inf"), float("nan"), 1e30, -1e30, 0.0, 90.0, -90.0]
    )
    values, out = beyond.repeat(8), torch.zeros(64)
    run(made, values, out)
    expected = getattr(torch, name.removesuffix("_of"))(beyond)
    torch.testing.assert_close(out[:8], expected, rtol=1e-6, atol=1e-37, equal_nan=True)


BARRIER = re.compile(r"(if \([^)]*\) )?__syncthreads\(\);|wait_for_groups<[^<>]*>\(\);")


def barriers():
    for path in sorted(SOURCES.glob("*.cu*")):
        if path.name == "ptx.cuh":
            continue
        text = path.read_text(encoding="utf-8")
        for match in BARRIER.finditer(text):
            line = text[: match.start()].count("\n") + 1
            for wide in (False, True) if path.name == "weights.cu" else (False,):
                name = f"{path.name}:{line}{' wide' if wide else ''}"
                yield pytest.param(path.name, match.span(), wide, id=name)


class Worse(Emulator):
    """Compiles sources with one barrier, or one wait for copies, taken out."""

    def without(self, name: str, span: tuple[int, int]) -> Emulator:
        self.text = read_source(name)
        self.less = self.text[: span[0]] + ";" + self.text[span[1] :]
        return self

    def kernel(self, source: str, name: str, *, options: tuple[str, ...], shared: int):
        source = source.replace(self.text, self.less)
        return super().kernel(source, name, options=options, shared=shared)


def depends_on_order(chip: Emulator, results) -> bool:
    """Whether any order of threads changes a bit, makes it NaN, or cannot come to an end."""
    try:
        expected = results()
        for chip.order in ORDERS:
            found = results()
            if not all(torch.equal(value, expected[name]) for name, value in found.items()):
                return True
    except EmulationError:
        return True
    return False


def resting(case: Case, **words) -> dict:
    """Every other step moves nobody, and gradients are too large for the usual scale."""
    data = make(case, **words)
    data["hold"] = (torch.arange(case.steps) % 2).double()[:, None, None].repeat(1, case.batch, 1)
    return data | {"grad": data["grad"] * 1e5}


@pytest.mark.parametrize("name, span, wide", list(barriers()))
def test_every_barrier_of_the_kernels_is_needed(emulator, monkeypatch, name, span, wide):
    """Without it, some order of threads gives other bits: the check by orders would find it."""
    if wide:
        use_tensor_cores(monkeypatch)

    def chip(**size) -> Emulator:
        return Worse(emulator().folder, **size).without(name, span)

    def scan(
        d: int | None, chip: Emulator, family=None, data=None, cell="gru_before", hold=0, **others
    ):
        case = Case(cell, 64, d, 4, 5, hold=hold, **others)
        data = cast((data or make)(case, device="cpu"), case.dtype)
        return chip, lambda: kernel(case, data, **where(chip, family))

    def drive(chip: Emulator, kind: str = "features", width=10, dtype=torch.float32):
        exact, grad = made((4, 80, 4, 37, width), kind, False, True, dtype, "cpu")

        def results():
            triples = compared(exact, grad, dtype, chip)
            return {which: triple[0] for which, triple in triples.items()}

        return chip, results

    def unitary(chip: Emulator):
        call, grad = made_unitary(UnitaryCase(77, 3, 2))
        call, grad = single(call), grad.float()
        return chip, lambda: unitary_kernel(call, grad, chips=lambda device: chip)

    def norm(chip: Emulator):
        monkeypatch.setattr(KERNELS, "chip_of", lambda device: chip)
        monkeypatch.setattr(KERNELS, "device_type", "cpu")
        return chip, lambda: Norm(20, 33, 2).numbers(0, torch.float32)

    if name == "drive.cu":
        trials = [drive(chip(processors=1))]
    elif name == "wide_drive.cu":
        use_tensor_cores(monkeypatch)
        trials = [drive(chip(processors=1), width=17, dtype=torch.bfloat16)]
    elif name == "symbols.cu":
        trials = [drive(chip(processors=1), "symbols")]
    elif name == "normalise.cu":
        trials = [norm(chip())]
    elif name.startswith("large"):
        cramped = chip(processors=4, shared_limit=CRAMPED["gru_before"])
        trials = [scan(33, cramped, large), scan(None, chip(processors=12), large)]
        trials += [scan(33, chip(processors=8), large, data=scaled)]
        trials += [scan(33, chip(processors=8), large, data=resting, cell="gru_after", hold=1)]
        trials += [scan(33, chip(processors=8), large, cell="gru_after", dtype=torch.bfloat16)]
    elif name.startswith("unitary"):
        trials = [unitary(chip())]
    else:
        trials = [scan(33, chip(), small)]
    assert any(depends_on_order(*trial) for trial in trials)
    if name.startswith("small") and not between_factors(name, span):
        assert depends_on_order(*scan(None, chip(), small))


def between_factors(name: str, span: tuple[int, int]) -> bool:
    """Whether scans of dense matrices do not come by a barrier."""
    before = read_source(name)[: span[0]]
    return "}" not in before[before.rfind("if (!DENSE) {") :]
