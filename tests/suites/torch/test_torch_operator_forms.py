"""Operators of PyTorch in each of their forms give what eager PyTorch gives, with static and with dynamic sizes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import pydispatch as pd
from pydispatch.frontends.torch.nodes import random
from pydispatch.frontends.torch.nodes.embedding_bags import embedding_bag_with_any_padding
from pydispatch.frontends.torch.nodes.products import scaled_mm
from pydispatch.graph.builder import Builder, Input
from pydispatch.graph.dtypes import DTYPES

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "frontends" / "torch")]

from cases import flat  # noqa: E402
from operator_forms import OPERATOR_FORMS  # noqa: E402
from operators import Call  # noqa: E402
from size_forms import SIZE_FORMS  # noqa: E402
from test_torch_export import check  # noqa: E402

FORMS = {**OPERATOR_FORMS, **SIZE_FORMS}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    form = FORMS[name]
    model = Call(form.function)
    sizes = [{axis: torch.export.Dim.DYNAMIC for axis in axes} for axes in form.dynamic]
    with torch.no_grad():
        program = torch.export.export(model, form.inputs[0], dynamic_shapes=(tuple(sizes),) if sizes else None)
    loaded = pd.device("local-sync").load(pd.compile(program))
    for inputs in form.inputs:
        check(loaded, inputs, flat(model(*inputs)))


CHECKED = ("inv", "svd", "eigh", "pinv", "solve", "cholesky", "lu", "det", "linalg of sizes, dynamic")
"""Forms whose decompositions check their results, in an order that tokens keep."""


@pytest.mark.parametrize("name", CHECKED)
def test_decompositions_with_checks_and_compiled(name: str) -> None:
    form = FORMS[name]
    model = Call(form.function)
    sizes = [{axis: torch.export.Dim.DYNAMIC for axis in axes} for axes in form.dynamic]
    with torch.no_grad():
        program = torch.export.export(model, form.inputs[0], dynamic_shapes=(tuple(sizes),) if sizes else None)
    loaded = pd.device("local-sync").load(pd.compile(program.run_decompositions()))
    torch._dynamo.reset()
    compiled = torch.compile(form.function, backend="pydispatch", dynamic=bool(sizes))
    for inputs in form.inputs:
        expected = flat(model(*inputs))
        check(loaded, inputs, expected)
        with torch.no_grad():
            torch.testing.assert_close(flat(compiled(*inputs)), expected, rtol=3e-5, atol=3e-5)


def written(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.as_strided((2, 2), (1, 1)).add_(1)
    return y


REFUSED = {
    "QR with all columns": (lambda x: torch.linalg.qr(x, mode="complete"),
                            r"QR in the mode 'complete'; supported are 'reduced' and 'r'"),
    "eigenvalues of half floats": (lambda x: torch.ops.aten._linalg_eigh(x.half()),
                                   r"eigenvalues of f16\[4, 4\]: expected square matrices of f32 or f64"),
    "a write by strides": (written, r"may or may not share, depending on its strides(.|\n)*run_decompositions"),
    "scales of tokens": (lambda x: torch.ops.quantized_decomposed.choose_qparams_per_token(x, torch.uint8),
                         r"scales of tokens as u8; PyTorch has them for int8 alone"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    function, says = REFUSED[name]
    program = torch.export.export(Call(function), (torch.randn(4, 4),))
    with pytest.raises(pd.CompileError, match=says) as error:
        pd.compile(program)
    assert "operators.py" in str(error.value)  # the line of the model


EMPTY_AXES = {
    "median": (lambda x: x.median(0), "the median along axis 0 of f32.*: the axis has the size 0"),
    "nanmedian": (lambda x: x.nanmedian(-2), "the median along axis 0 of f32.*: the axis has the size 0"),
    "mode": (lambda x: x.mode(0), "the mode along axis 0 of f32.*: the axis has the size 0"),
    "median of integers": (lambda x: x.int().median(), "the median of i32.*: it has no elements, and i32 has no NaN"),
}


@pytest.mark.parametrize("name", EMPTY_AXES)
def test_order_statistics_of_an_empty_axis_are_refused(name: str) -> None:
    function, says = EMPTY_AXES[name]
    empty = torch.empty(0, 3)
    with pytest.raises(pd.CompileError, match=says):
        pd.compile(torch.export.export(Call(function), (empty,)))
    full = torch.randn(4, 3)
    program = torch.export.export(Call(function), (full,), dynamic_shapes=(({0: torch.export.Dim("n", min=0)},),))
    loaded = pd.device("local-sync").load(pd.compile(program))
    check(loaded, (full,), flat(function(full)))
    with pytest.raises(pd.InvalidArgumentError, match=says):
        loaded.main(empty.numpy())


def test_antialiasing_of_dynamic_sizes_is_refused() -> None:
    def smaller(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True)

    sizes = ({2: torch.export.Dim("rows", min=4)},)
    says = r"an axis of .* is resized to .* elements with antialiasing: both sizes must be known(.|\n)*antialias=False"
    with pytest.raises(pd.CompileError, match=says):
        pd.compile(torch.export.export(Call(smaller), (torch.randn(1, 2, 8, 8),), dynamic_shapes=(sizes,)))


def test_interpolation_of_integers_is_refused() -> None:
    x = torch.randint(0, 256, (1, 2, 4, 4), dtype=torch.uint8)
    with pytest.raises(pd.CompileError, match=r"u8\[1, 2, 4, 4\] is interpolated; expected floats(.|\n)*float32 first"):
        pd.compile(torch.export.export(Call(lambda x: F.interpolate(x, size=(7, 7), mode="bilinear")), (x,)))


def test_memory_that_is_no_part_of_the_program_is_refused() -> None:
    x = torch.randn(1, 4)
    says = r"as_strided of f32\[3, 4\] with the strides \[0, 1\]: the memory between(.|\n)*views, expand or unfold"
    with pytest.raises(pd.CompileError, match=says):
        pd.compile(torch.export.export(Call(lambda x: x.expand(3, 4).as_strided((2, 2), (1, 1))), (x,)))


def test_as_strided_beyond_the_memory_is_refused_in_the_call() -> None:
    def first(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.as_strided((y.shape[0],), (2,))

    given = (torch.randn(12), torch.randn(3))
    sizes = ((None, {0: torch.export.Dim("n", max=9)}),)
    program = pd.device("local-sync").load(pd.compile(torch.export.export(Call(first), given, dynamic_shapes=sizes)))
    check(program, (given[0], torch.randn(6)), [given[0][::2]])
    with pytest.raises(pd.InvalidArgumentError, match="as_strided reads element 12; the last one of its memory is 11"):
        program.main(given[0].numpy(), torch.randn(7).numpy())


def test_as_strided_before_the_memory_is_refused_in_the_call() -> None:
    def second(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.as_strided((2,), (1,), y.shape[0] - 3)

    given = (torch.randn(12), torch.randn(5))
    sizes = ((None, {0: torch.export.Dim("n", max=9)}),)
    program = pd.device("local-sync").load(pd.compile(torch.export.export(Call(second), given, dynamic_shapes=sizes)))
    check(program, given, [given[0][2:4]])
    with pytest.raises(pd.InvalidArgumentError, match="as_strided reads element -1; the first one of its memory is 0"):
        program.main(given[0].numpy(), torch.randn(2).numpy())


def test_a_number_that_is_a_size_of_a_tensor() -> None:
    def shifted(x: torch.Tensor, n: int) -> torch.Tensor:
        return x + torch.arange(n)

    auto = torch.export.Dim.AUTO
    exported = torch.export.export(Call(shifted), (torch.ones(3), 3), dynamic_shapes=(({0: auto}, auto),))
    program = pd.device("local-sync").load(pd.compile(exported))
    np.testing.assert_array_equal(program.main(np.ones(4, np.float32), 4), [1, 2, 3, 4])
    with pytest.raises(pd.InvalidArgumentError, match=r"argument .* is 5, and the size .* is 4: PyTorch exported"):
        program.main(np.ones(4, np.float32), 5)


class Counted(torch.nn.Module):
    """Module with constants of which some are written in place, and one is read to compute a shape."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.row, self.shape = torch.zeros(3), torch.zeros(2, 3), torch.tensor([3, 1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        self.row[1].mul_(2).add_(x)
        return x + self.count + self.row.view(6)[3:] + self.shape.sum()


@pytest.mark.parametrize("shape", [(3,), (1, 1, 1), (3, 1)])
def test_scales_of_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    """PyTorch exports no such scales; a changed file may have them."""
    b = Builder("m.pt2")
    f8, f32 = DTYPES["f8E4M3FN"], DTYPES["f32"]
    inputs = ((f8, (2, 3)), (f8, (3, 3)), (f32, shape), (f32, ()))
    x, y, scale, one = b.begin([Input(f"x{n}", dtype, sizes) for n, (dtype, sizes) in enumerate(inputs)])
    with pytest.raises(pd.CompileError, match=r"'scale_a' is f32\[.*\]; expected f32\[\] or f32\[2, 1\]"):
        scaled_mm(b, x, y, scale, one)
    assert scaled_mm(b, x, y, one, b.constant([[1.0, 2.0, 3.0]], f32)).shape == (2, 3)


def test_padding_from_the_end_of_a_dynamic_table_is_refused() -> None:
    """PyTorch exports such a table with a static size; a changed file may have another one."""
    b = Builder("m.pt2")
    inputs = ((DTYPES["f32"], ("n", 3)), (DTYPES["i64"], (2,)), (DTYPES["i64"], (1,)))
    table, indices, offsets = b.begin([Input(f"x{n}", dtype, sizes) for n, (dtype, sizes) in enumerate(inputs)])
    with pytest.raises(pd.CompileError, match=r"row -1, from the end, is the padding of bags of f32\[n, 3\]"):
        embedding_bag_with_any_padding(b, table, indices, offsets, padding_idx=-1)


def test_constants_that_are_written_are_state() -> None:
    x = torch.ones(3)
    with torch.no_grad():
        exported = torch.export.export(Counted(), (x,))
    program = pd.device("local-sync").load(pd.compile(exported))
    module = Counted()
    for tensor, name in ((module.count, "count"), (module.row, "row")):
        tensor.copy_(exported.constants[name])
    for _ in range(3):
        np.testing.assert_array_equal(program.main(x.numpy()), module(x).numpy())


def drawn(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
    """What a program of random numbers gives. A program that is loaded draws the same ones as before."""
    program = pd.device("local-sync").load(pd.compile(torch.export.export(Call(function), inputs)))
    return torch.from_numpy(np.array(program.main(*(x.numpy() for x in inputs))))


def test_exponential_numbers() -> None:
    made = drawn(lambda x: torch.empty_like(x).exponential_(2.0), torch.empty(20000))
    assert made.min() > 0 and abs(made.mean() - 0.5) < 0.02 and abs((made > 0.5).float().mean() - math.exp(-1)) < 0.02


EXTREME = np.array([0.0, 2.0**-23, 2.0**-22, 1 - 2.0**-22, 1 - 2.0**-23], np.float32)
"""The smallest and the largest f32 numbers that random bits give, and 0."""


@pytest.fixture
def _extreme(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let operators draw EXTREME instead of uniform random numbers."""
    monkeypatch.setattr(random, "_unit", lambda builder, shape: builder.constant(EXTREME))


@pytest.mark.usefixtures("_extreme")
def test_exponential_numbers_of_extreme_uniform_numbers() -> None:
    exact = torch.from_numpy(-np.log1p(-np.maximum(EXTREME.astype(np.float64), 2.0**-24)))
    x = torch.empty(len(EXTREME))
    made = drawn(lambda x: torch.empty_like(x).exponential_(2.0), x)
    torch.testing.assert_close(made.double(), exact / 2, rtol=1e-6, atol=0)
    made = drawn(lambda x: torch.empty_like(x).geometric_(0.25), x)
    torch.testing.assert_close(made.double(), (exact / -math.log(0.75)).ceil(), rtol=0, atol=0)
    assert made.min() == 1


@pytest.mark.usefixtures("_extreme")
def test_multinomial_draws_no_element_of_probability_0() -> None:
    weights = torch.tensor([0.0, 1.0, 3.0, 0.0, 4.0])
    made = drawn(lambda w: torch.multinomial(w, 3), weights)
    assert sorted(made.tolist()) == [1, 2, 4]


DISTRIBUTIONS = {
    "log_normal": (lambda x: x.log_normal_(0.0, 0.5), math.exp(0.125), 1.0),
    "cauchy": (lambda x: x.cauchy_(1.0, 2.0).atan(), None, math.pi / 4),
    "geometric": (lambda x: x.geometric_(0.25), 4.0, 3.0),
    "normal of tensors": (lambda x: torch.normal(x * 0 + 3.0, x * 0 + 2.0), 3.0, 3.0),
    "normal of a size": (lambda x: torch.normal(3.0, 2.0, (20000,)) + x * 0, 3.0, 3.0),
}
"""Numbers that are drawn, their mean where they have one, and their median. Of Cauchy's the arc tangents are taken."""


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(name: str) -> None:
    function, mean, median = DISTRIBUTIONS[name]
    made = drawn(lambda x: function(x.clone()), torch.zeros(20000))
    assert abs(made.median() - median) < 0.1 and made.unique().numel() > 10
    assert mean is None or abs(made.mean() - mean) < 0.1


def test_bernoulli_numbers_of_a_tensor_of_probabilities() -> None:
    chances = torch.tensor([0.0, 0.3, 1.0])
    made = drawn(lambda x, p: torch.ops.aten.bernoulli.Tensor(x, p), torch.empty(2000, 3), chances)
    zero, some, one = made.mean(0).tolist()
    assert zero == 0 and abs(some - 0.3) < 0.05 and one == 1


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial_numbers(replacement: bool) -> None:
    weights = torch.tensor([0.0, 1.0, 3.0, 0.0, 4.0, 0.0]).repeat(4000, 1)
    made = drawn(lambda w: torch.multinomial(w, 2, replacement), weights)
    assert made.dtype == torch.int64 and made.shape == (4000, 2)
    share = torch.bincount(made[:, 0], minlength=6) / 4000
    assert torch.all((share - weights[0] / 8).abs() < 0.04) and torch.all(share[weights[0] == 0] == 0)
    assert replacement or torch.all(made[:, 0] != made[:, 1])


def test_rrelu_in_training() -> None:
    x = torch.randn(5000)
    slopes = drawn(lambda x: F.rrelu(x, 0.2, 0.4, training=True), x) / x
    assert torch.all(slopes[x > 0] == 1) and torch.all((slopes[x < 0] > 0.199) & (slopes[x < 0] < 0.401))
    assert abs(slopes[x < 0].mean() - 0.3) < 0.01 and slopes[x < 0].unique().numel() > 1000
