"""The dense layers against torch.nn over the whole grid of its options, forward and gradients."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from accuracy import assert_accurate, assert_all_accurate
from layer_twins import doubled, randomised, signed
from structures import SIZE, STRUCTURES
from torch import nn
from torch.nn.utils import prune
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import passnet

M, T, B = 3, 5, 4
PAIRS = {"GRU": (passnet.GRU, nn.GRU), "LSTM": (passnet.LSTM, nn.LSTM)}
LENGTHS = {"packed": [5, 4, 2, 1], "packed unsorted": [2, 5, 1, 4]}
FORMS = ("batched", "unbatched", *LENGTHS)
GRID = list(
    itertools.product(PAIRS, (1, 2), (True, False), (False, True), (False, True), FORMS, (0, 1))
)


def grid_id(values) -> str:
    kind, layers, bias, batch_first, bidirectional, form, given = values
    flags = {"bias": bias, "batch_first": batch_first, "bidirectional": bidirectional}
    words = [kind, f"{layers} layers", *(name for name, on in flags.items() if on)]
    return " ".join([*words, form, *(["start"] if given else [])])


def inputs_of(form: str, batch_first: bool) -> torch.Tensor:
    if form == "unbatched":
        return signed(T, M)
    return signed(B, T, M) if batch_first else signed(T, B, M)


def feed(module, x, states, form: str):
    """Run a layer of either library; (outputs by name, gradients by name)."""
    x = x.clone().requires_grad_()
    states = [s.clone().requires_grad_() for s in states]
    given = x
    if form in LENGTHS:
        sorted_already = form == "packed"
        given = pack_padded_sequence(
            x, torch.tensor(LENGTHS[form]), module.batch_first, enforce_sorted=sorted_already
        )
    hx = None
    if states:
        hx = tuple(states) if len(states) == 2 else states[0]
    y, final = module(given, hx)
    outputs = {"output": y.data if isinstance(y, PackedSequence) else y}
    if form in LENGTHS:
        assert isinstance(y, PackedSequence)
        assert torch.equal(y.batch_sizes, given.batch_sizes)
        for name in ("sorted_indices", "unsorted_indices"):
            ours, theirs = getattr(y, name), getattr(given, name)
            assert (ours is None and theirs is None) or torch.equal(ours, theirs)
    finals = final if isinstance(final, tuple) else (final,)
    outputs |= {f"final {k}": s for k, s in enumerate(finals)}
    generator = torch.Generator().manual_seed(3)
    loss = 0
    for value in outputs.values():
        weight = 0.5 + torch.rand(value.shape, generator=generator)
        loss = loss + (weight.to(value.dtype) * value).sum()
    loss.backward()
    outputs |= {"input gradient": x.grad}
    outputs |= {f"start gradient {k}": s.grad for k, s in enumerate(states)}
    return {name: value.detach() for name, value in outputs.items()}


def torch_gradients(module: nn.RNNBase) -> dict[str, torch.Tensor]:
    return {name: parameter.grad for name, parameter in module.named_parameters()}


def our_gradients(layer) -> dict[str, torch.Tensor]:
    """Our gradients under torch.nn's names; both of torch's biases have that of our one."""
    found = {}
    for index, cell in enumerate(layer.cells):
        number, reverse = divmod(index, layer.directions)
        suffix = f"_l{number}" + ("_reverse" if reverse else "")
        found["weight_ih" + suffix] = cell.input_weight.grad.flatten(0, 1)
        found["weight_hh" + suffix] = cell.recurrent.weight.grad.flatten(0, 1)
        if cell.bias is not None:
            inner = cell.bias.grad.clone()
            if isinstance(layer, passnet.GRU):
                inner[2] = cell.inner_bias.grad
            found["bias_ih" + suffix] = cell.bias.grad.flatten()
            found["bias_hh" + suffix] = inner.flatten()
    return found


@pytest.mark.parametrize("values", GRID, ids=grid_id)
def test_grid(values):
    kind, layers, bias, batch_first, bidirectional, form, start = values
    ours_type, theirs_type = PAIRS[kind]
    options = {
        "num_layers": layers,
        "bias": bias,
        "batch_first": batch_first,
        "bidirectional": bidirectional,
    }
    theirs = randomised(theirs_type(M, SIZE, **options))
    ours = ours_type(M, SIZE, **options)
    missing, unexpected = ours.load_state_dict(theirs.state_dict())
    assert not missing and not unexpected
    x = inputs_of(form, batch_first)
    count = layers * (2 if bidirectional else 1)
    shape = (count, SIZE) if form == "unbatched" else (count, B, SIZE)
    states = [signed(*shape) for _ in range(2 if kind == "LSTM" else 1)] if start else []
    exact = doubled(theirs)
    got = feed(ours, x, states, form)
    reference = feed(theirs, x, states, form)
    truth = feed(exact, x.double(), [s.double() for s in states], form)
    assert_all_accurate(got, reference=reference, truth=truth)
    assert_all_accurate(
        our_gradients(ours), reference=torch_gradients(theirs), truth=torch_gradients(exact)
    )


def function_values(module, x):
    y, final = module(x)
    finals = final if isinstance(final, tuple) else (final,)
    return {"output": y} | {f"final {k}": s for k, s in enumerate(finals)}


def assert_same_function(got, theirs, exact, x) -> None:
    assert_all_accurate(
        function_values(got, x),
        reference=function_values(theirs, x),
        truth=function_values(exact, x.double()),
    )


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_from_torch_and_back(kind, bias, bidirectional):
    ours_type, theirs_type = PAIRS[kind]
    theirs = randomised(
        theirs_type(M, SIZE, 2, bias, batch_first=True, dropout=0.3, bidirectional=bidirectional)
    ).eval()
    before = copy.deepcopy(theirs.state_dict())
    ours = ours_type.from_torch(theirs)
    assert not ours.training
    assert type(ours.matrix) is passnet.Dense and ours.dropout == 0.3 and ours.batch_first
    x = signed(B, T, M)
    assert_same_function(ours, theirs, doubled(theirs), x)
    back = ours.to_torch()
    assert type(back) is theirs_type and not back.training and back.dropout == 0.3
    assert_same_function(back, theirs, doubled(theirs), x)
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(tensor, before[name])
        if "weight" in name:
            assert torch.equal(back.state_dict()[name], tensor)
    again = ours_type.from_torch(back)
    assert again.state_dict().keys() == ours.state_dict().keys()
    for name, tensor in again.state_dict().items():
        assert torch.equal(tensor, ours.state_dict()[name]), name


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("spec", STRUCTURES.values(), ids=STRUCTURES)
@pytest.mark.parametrize("weight_norm", [False, True], ids=["plain", "normed"])
def test_every_structure_written_out_for_torch(kind, spec, weight_norm):
    layer = PAIRS[kind][0](M, SIZE, 2, bidirectional=True, matrix=spec, weight_norm=weight_norm)
    randomised(layer)
    assert_same_function(layer, layer.to_torch(), doubled(layer).to_torch(), signed(T, B, M))


def test_a_recurrent_bias_beside_a_structured_matrix_reaches_torch():
    layer = passnet.GRU(M, SIZE, matrix=passnet.LowRank(2), recurrent_bias=True)
    randomised(layer)
    assert_same_function(layer, layer.to_torch(), doubled(layer).to_torch(), signed(T, B, M))


@pytest.mark.parametrize("kind", PAIRS)
def test_weights_inside_a_larger_module(kind):
    ours_type, theirs_type = PAIRS[kind]
    theirs = nn.ModuleDict({"body": theirs_type(M, SIZE), "head": nn.Linear(SIZE, 2)})
    ours = nn.ModuleDict({"body": ours_type(M, SIZE), "head": nn.Linear(SIZE, 2)})
    state = theirs.state_dict()
    ours.load_state_dict(state)
    assert set(state) == set(theirs.state_dict())
    x = signed(T, B, M)
    assert_same_function(ours["body"], theirs["body"], doubled(theirs["body"]), x)


@pytest.mark.parametrize("kind", PAIRS)
def test_from_torch_keeps_dtype_and_takes_further_options(kind):
    ours_type, theirs_type = PAIRS[kind]
    theirs = theirs_type(M, SIZE, dtype=torch.float64)
    ours = ours_type.from_torch(theirs, learn_initial_state=True, dropout_state=0.2)
    assert ours.cells[0].input_weight.dtype == torch.float64
    assert ours.learn_initial_state and ours.dropouts.state_rate == 0.2
    single, exact = copy.deepcopy(ours).float().eval(), doubled(theirs)
    assert_same_function(
        single, copy.deepcopy(theirs).float(), exact.float().double(), signed(T, B, M)
    )


@torch.no_grad()
def assert_same_outputs(ours, theirs, x) -> None:
    """The accuracy rule for outputs alone; a pruned module cannot be copied, and becomes double."""
    found, reference = ours(x)[0], theirs(x)[0]
    assert_accurate(found, reference=reference, truth=theirs.double()(x.double())[0])


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("options", [{}, {"learn_initial_state": True}], ids=str)
def test_from_torch_takes_pruned_and_parametrised_weights(kind, options):
    ours_type, theirs_type = PAIRS[kind]
    theirs = randomised(theirs_type(M, SIZE, 2))
    prune.random_unstructured(theirs, "weight_hh_l0", amount=0.5)
    nn.utils.parametrizations.weight_norm(theirs, "weight_ih_l1")
    x = signed(T, B, M)
    theirs(x)[0].square().sum().backward()
    torch.optim.SGD(theirs.parameters(), 0.1).step()  # the pruned weight is computed at a call
    ours = ours_type.from_torch(theirs, **options)
    assert_same_outputs(ours, theirs, x)


@pytest.mark.parametrize("kind", PAIRS)
def test_frozen_layers_stay_frozen(kind):
    ours_type, theirs_type = PAIRS[kind]
    for trained in (True, False):
        ours = ours_type.from_torch(theirs_type(M, SIZE).requires_grad_(trained))
        assert {p.requires_grad for p in ours.parameters()} == {trained}
        assert {p.requires_grad for p in ours.to_torch().parameters()} == {trained}
    half = theirs_type(M, SIZE)
    half.weight_hh_l0.requires_grad_(False)
    half.bias_ih_l0.requires_grad_(False)  # one of two that become one
    with torch.no_grad():
        ours = ours_type.from_torch(half)
    still = {name for name, p in ours.named_parameters() if not p.requires_grad}
    assert still == {"cells.0.recurrent.weight"}
    back = ours.to_torch()
    assert {name for name, p in back.named_parameters() if not p.requires_grad} == {"weight_hh_l0"}
    frozen = theirs_type(M, SIZE).requires_grad_(False)
    started = ours_type.from_torch(frozen, learn_initial_state=True)
    assert started.initial_hidden.requires_grad
    assert not any(p.requires_grad for p in started.cells.parameters())


@pytest.mark.parametrize("kind", PAIRS)
def test_a_learned_start_takes_torchs_weights_and_starts_from_zero(kind):
    ours_type, theirs_type = PAIRS[kind]
    theirs, ours = theirs_type(M, SIZE), ours_type(M, SIZE, learn_initial_state=True)
    for parameter in ours.parameters():
        nn.init.ones_(parameter)
    ours.load_state_dict(theirs.state_dict())
    assert_same_outputs(ours, theirs, torch.randn(4, 2, M))


def test_weights_of_another_kind_are_named():
    with pytest.raises(ValueError, match=r"28 rows of 7.*nn\.LSTM: passnet\.GRU takes 3 times"):
        passnet.GRU(M, 7).load_state_dict(nn.LSTM(M, 7).state_dict())
    with pytest.raises(ValueError, match=r"7 rows of 7.*nn\.RNN: passnet\.LSTM takes 4 times"):
        passnet.LSTM(M, 7).load_state_dict(nn.RNN(M, 7).state_dict())


def test_weights_with_a_projection_and_without_a_matrix_are_named():
    with pytest.raises(ValueError, match=r"proj_size=3 is not taken"):
        passnet.LSTM(M, 7).load_state_dict(nn.LSTM(M, 7, proj_size=3).state_dict())
    weights = nn.GRU(M, 7).state_dict()
    del weights["weight_hh_l0"]
    with pytest.raises(RuntimeError, match=r"Missing key.*cells\.0\.recurrent\.weight"):
        passnet.GRU(M, 7).load_state_dict(weights)


def test_what_from_torch_takes_from_the_module_is_not_given_again():
    with pytest.raises(TypeError, match="batch_first, device: this comes from the layer itself"):
        passnet.GRU.from_torch(nn.GRU(M, SIZE), batch_first=True, device="cpu")


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("options", [{"carry_bias": 4.0}, {"init": "torch"}], ids=str)
def test_from_torch_refuses_starting_values(kind, options):
    ours_type, theirs_type = PAIRS[kind]
    with pytest.raises(TypeError, match=f"{next(iter(options))} would set starting values"):
        ours_type.from_torch(theirs_type(M, SIZE), **options)


@pytest.mark.parametrize("kind", PAIRS)
def test_what_code_for_torch_asks_a_layer(kind):
    ours, theirs = PAIRS[kind]
    for name in ("mode", "proj_size", "bias", "num_layers", "bidirectional", "batch_first"):
        assert getattr(ours(M, SIZE), name) == getattr(theirs(M, SIZE), name)


@pytest.mark.parametrize("options", [{"reset": "before"}, {"recurrent_bias": False}], ids=str)
def test_from_torch_refuses_what_would_be_another_function(options):
    with pytest.raises(ValueError, match=r"another function; (use reset|leave recurrent_bias)"):
        passnet.GRU.from_torch(nn.GRU(M, SIZE), **options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: passnet.GRU(M, SIZE, reset="before"), "reset='before'"),
        (lambda: passnet.GRU(M, SIZE, learn_initial_state=True), "learn_initial_state"),
        (lambda: passnet.LSTM(M, SIZE, learn_initial_state=True), "learn_initial_state"),
        (lambda: passnet.GRU(M, SIZE, zoneout=0.1), "zoneout"),
        (lambda: passnet.GRU(M, SIZE, bias=False, recurrent_bias=True), "recurrent_bias"),
    ],
)
def test_what_torch_does_not_have_is_refused(make, words):
    with pytest.raises(ValueError, match=f"(?s){words}"):
        make().to_torch()


def test_wrong_kinds_are_refused():
    with pytest.raises(TypeError, match=r"GRU.from_torch takes a torch.nn.GRU, got .*rnn\.LSTM"):
        passnet.GRU.from_torch(nn.LSTM(M, SIZE))
    with pytest.raises(TypeError, match=r"takes a torch.nn.GRU, got passnet\.layers\.gru\.GRU"):
        passnet.GRU.from_torch(passnet.GRU(M, SIZE))
    with pytest.raises(ValueError, match=r"proj_size=2 is not taken: .*LowRank\(rank=2"):
        passnet.LSTM.from_torch(nn.LSTM(M, SIZE, proj_size=2))
    with pytest.raises(ValueError, match="proj_size=2 is not taken"):
        passnet.LSTM(M, SIZE, proj_size=2)
    with pytest.raises(ValueError, match=r"into a dense GRU, .* passnet\.compress\(.*LowRank"):
        passnet.GRU(M, SIZE, matrix=passnet.LowRank(2)).load_state_dict(
            nn.GRU(M, SIZE).state_dict()
        )


@pytest.mark.parametrize("kind", PAIRS)
def test_positional_arguments_are_torchs(kind):
    """In torch's order, and the same attributes."""
    # torch.nn.GRU documents device and dtype as its next two, but takes them by name only.
    positional = [M, SIZE, 2, False, True, 0.25, True]
    place = {"device": "cpu", "dtype": torch.float64}
    ours, theirs = (cls(*positional, **place) for cls in PAIRS[kind])
    for name in (
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
    ):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert next(ours.parameters()).dtype == torch.float64
    ours.flatten_parameters()


@pytest.mark.parametrize("kind", PAIRS)
def test_dense_count_is_torchs_without_its_redundant_biases(kind):
    ours, theirs = (cls(M, SIZE, 2, bidirectional=True) for cls in PAIRS[kind])
    redundant = 4 * SIZE * (2 if kind == "GRU" else 4)
    total = sum(p.numel() for p in theirs.parameters())
    assert passnet.count_parameters(ours) == total - redundant
