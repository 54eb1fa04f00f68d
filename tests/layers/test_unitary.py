"""The uRNN against its scalar transcription: states, lengths, streaming and gradients."""

from __future__ import annotations

import pytest
import torch
from accuracy import assert_accurate
from layer_twins import doubled, randomised, signed
from oracle import urnn as urnn_oracle
from plain_loops import unitary_matrix
from structures import SIZE
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import passnet
from passnet.ops.cuda.unitary import refuses

M, T, B = 3, 5, 4


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("lengths", [None, [5, 1, 3, 4]], ids=["whole", "lengths"])
def test_unitary(batch_first, lengths):
    layer = passnet.UnitaryRNN(M, SIZE, batch_first=batch_first)
    randomised(layer)
    cell = layer.cell
    x = signed(T, B, M)
    double = doubled(layer).cell
    reflections = torch.view_as_complex(double.reflections.detach())
    start = torch.view_as_complex(double.initial_state.detach()).expand(B, -1)
    numbers = (double.angles.detach().numpy(), reflections.numpy(), cell.permutation.numpy())
    truth = torch.from_numpy(
        urnn_oracle.urnn(
            x.double().numpy(),
            start.numpy(),
            *double.input_weight.detach().numpy(),
            *numbers,
            double.modulus_bias.detach().numpy(),
        )
    )
    w = torch.from_numpy(urnn_oracle.unitary_matrix(*numbers)).to(torch.complex64)
    h, states = start.to(torch.complex64), []
    for t in range(T):
        moved = h @ w.mT + torch.complex(*(x[t] @ v.mT for v in cell.input_weight))
        h = torch.polar((moved.abs() + cell.modulus_bias).relu(), moved.angle())
        states.append(h)
    reference = torch.stack(states)
    if lengths is not None:
        ends = torch.tensor(lengths)
        x = x.masked_fill(torch.arange(T)[:, None, None] >= ends[:, None], float("nan"))
    y, final = layer(x.transpose(0, 1) if batch_first else x, lengths=lengths)
    y = y.transpose(0, 1) if batch_first else y
    ends = torch.tensor(lengths or [T] * B)
    late = torch.arange(T)[:, None, None] >= ends[:, None]
    last = (ends - 1, torch.arange(B))
    assert_accurate(final, reference=reference[last], truth=truth[last])
    halves = torch.complex(*y.chunk(2, dim=-1))
    expected = {"reference": reference.masked_fill(late, 0), "truth": truth.masked_fill(late, 0)}
    assert_accurate(halves, **expected)
    explicit = unitary_matrix(cell.angles, reflections.to(torch.complex64), cell.permutation)
    truth = torch.from_numpy(urnn_oracle.unitary_matrix(*numbers))
    assert_accurate(layer.recurrent_matrix(), reference=explicit, truth=truth)


def test_unitary_steps_are_the_sequence():
    layer = randomised(passnet.UnitaryRNN(M, SIZE, batch_first=True))
    x = signed(B, T, M)
    y, final = layer(x)
    state, steps = None, []
    for t in range(T):
        output, state = layer.step(x[:, t], state)
        steps.append(output)
    double = doubled(layer)
    truth = double(x.double())
    assert_accurate(torch.stack(steps, 1), reference=y, truth=truth[0])
    assert_accurate(state, reference=final, truth=truth[1])


def test_unitary_gradients():
    layer = randomised(passnet.UnitaryRNN(2, 4, dtype=torch.float64))
    names = [name for name, _ in layer.named_parameters()]
    x = signed(3, 2, 2).double().requires_grad_()

    def outputs(x, *parameters):
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(layer, given, (x,), {"lengths": [3, 2]})[0]

    assert torch.autograd.gradcheck(outputs, (x, *layer.parameters()))


def test_autocast_leaves_complex_numbers_alone():
    layer = passnet.UnitaryRNN(3, 5)
    x = torch.randn(4, 2, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, _ = layer(x)
    assert torch.equal(output, layer(x)[0])


@torch.no_grad()
def test_parameters_in_one_vector():
    """Where pairs of reals may begin at an odd place."""
    layer = randomised(passnet.UnitaryRNN(M, 7))
    x, state = signed(T, B, M), torch.complex(*torch.randn(2, B, 7))

    def results():
        return layer(x)[0], layer(x, state)[0], layer.recurrent_matrix()

    expected, parameters = results(), list(layer.parameters())
    vector_to_parameters(parameters_to_vector(parameters), parameters)
    assert layer.cell.reflections.storage_offset() % 2
    assert all(map(torch.equal, results(), expected))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_complex_numbers_of_half_precision_are_refused(dtype):
    with pytest.raises(ValueError, match=r"complex units need torch.float32 or torch.float64"):
        passnet.UnitaryRNN(3, 5, dtype=dtype)


def test_a_state_on_another_device_is_refused():
    state = torch.zeros(2, 5, dtype=torch.complex64, device="meta")
    with pytest.raises(ValueError, match="on meta and the layer on cpu: move it"):
        passnet.UnitaryRNN(3, 5)(torch.randn(4, 2, 3), state)


def test_what_does_not_fit_is_named():
    assert "shared memory" in str(refuses(5000, shared_limit=232448))
    assert "registers" in str(refuses(3001, shared_limit=232448))
    assert refuses(721, shared_limit=232448) is None


def test_what_is_no_input_of_a_unitary_step():
    layer = passnet.UnitaryRNN(3, 4)
    with pytest.raises(TypeError, match="the input of a step is a list: give a tensor"):
        layer.step([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"shape \(1, 2, 3\): expected \[B, m\] or \[m\] features"):
        layer.step(torch.zeros(1, 2, 3))
