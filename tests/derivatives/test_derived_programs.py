"""Programs of gradients: arguments and results, kernels with derivatives, other programs, devices, and refusals."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.graph.dtypes import F64
from pydispatch.integrations.gradients import loaded
from pydispatch.operations.reductions import reduce_with
from pydispatch.programs.array import Array

Vector = Annotated[np.ndarray, pd.f64["n"]]
Matrix = Annotated[np.ndarray, pd.f64[3, "n"]]
Integers = Annotated[np.ndarray, pd.i32["n"]]
View = Annotated[pd.View, pd.f64["n"]]
X, Y = np.array([0.5, -1.0, 2.0]), np.array([1.0, 3.0, -2.0])
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/training/mlp.py"


@pd.kernel(workgroup=64)
def cubed(x: View, y: View) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] * x[i] * x[i]


@pd.kernel(workgroup=64)
def cubed_backward(x: View, dy: View, dx: View) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        dx[i] = 3 * x[i] * x[i] * dy[i]


@pd.kernel(workgroup=64)
def halved(x: View, y: View) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] / 2


@pd.kernel(workgroup=64)
def scaled(x: View, s: View) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        x[i] = x[i] * s[i]


@pd.program
def scaled_backward(s: Vector, dx: Vector) -> Any:
    return dx * s


@pd.program
def halved_backward(y: Vector, dy: Vector) -> Any:
    return dy * y / (2 * y)


pd.vjp(cubed, cubed_backward)
pd.vjp(halved, halved_backward)
pd.vjp(scaled, scaled_backward)


@pd.program
def product(x: Vector, y: Vector) -> Any:
    return (x * x * y).sum()


@pd.program
def several(x: Vector, y: Vector) -> Any:
    return {"sums": x + 2 * y, "total": (x * y).sum()}


@pd.program
def rows(x: Vector, i: Annotated[np.ndarray, pd.i64["m"]]) -> Any:
    return x[i] ** 2


@pd.program
def through_kernels(x: Vector) -> Any:
    out, half = np.zeros_like(x), np.zeros_like(x)
    cubed(np.sin(x), out)
    halved(out, half)
    return (half * x).sum()


def test_gradients_have_the_form_of_wrt() -> None:
    dx, dy = pd.grad(product)(X, Y)
    np.testing.assert_allclose(dx, 2 * X * Y)
    np.testing.assert_allclose(dy, X * X)
    np.testing.assert_allclose(pd.grad(product, wrt="y")(X, Y), X * X)
    (only,) = pd.value_and_grad(product, wrt=["y"])(X, Y)[1:]
    np.testing.assert_allclose(only, X * X)
    assert pd.grad(product).name == "product_grad"
    with pytest.raises(pd.InvalidArgumentError, match="'product_grad' is derived and has no Python function"):
        pd.grad(product).python(X, Y)


def test_a_product_has_its_start_as_a_factor() -> None:
    @pd.program
    def scaled_product(x: Matrix, y: Vector) -> Any:
        start = x.program_trace.constant(-1.5, F64)  # NumPy's products start with 1, those of the graph with any number
        (result,) = reduce_with(
            x.program_trace,
            [x.tensor],
            [start],
            [0],
            lambda s, products, factors: [s.binary("mul", products[0], factors[0])],
        )
        return (Array(x.program_trace, result) * y).sum()

    x = np.stack([X, Y, np.array([4.0, 0.0, 0.5])])  # one column has a zero
    dx, dy = pd.grad(scaled_product)(x, Y)
    others = [np.delete(x, row, axis=0).prod(axis=0) for row in range(3)]
    np.testing.assert_allclose(dx, -1.5 * Y * np.stack(others))
    np.testing.assert_allclose(dy, -1.5 * x.prod(axis=0))


def test_gradients_of_several_results() -> None:
    program = pd.vjp(several, wrt=["y", "x"])
    assert list(program.parameters) == ["x", "y", "dsums", "dtotal"]
    dy, dx = program(X, Y, np.ones(3), np.float64(10))
    np.testing.assert_allclose(dx, 1 + 10 * Y)
    np.testing.assert_allclose(dy, 2 + 10 * X)
    with pytest.raises(pd.InvalidArgumentError, match="dsums"):
        program(X, Y, np.ones(4), np.float64(10))
    gradient = loaded(several).gradient
    assert gradient is not None
    assert gradient.positions == (1, 0)


def test_an_argument_passed_twice_has_two_gradients() -> None:
    gradient = pd.grad(product)

    @pd.program
    def twice(x: Vector) -> Any:
        dx, dy = gradient(x, x)
        return dx, dy, gradient(y=x, x=2 * x)[0]

    dx, dy, of_double = twice(X)
    np.testing.assert_allclose(dx, 2 * X * X)
    np.testing.assert_allclose(dy, X * X)
    np.testing.assert_allclose(of_double, 4 * X * X)


def test_second_derivatives() -> None:
    @pd.program
    def squared(x: Vector) -> Any:
        return (pd.grad(product, wrt="x")(x, x) ** 2).sum()

    np.testing.assert_allclose(pd.grad(squared)(X), 16 * X**3)

    @pd.program
    def of_rows(x: Vector) -> Any:
        return (pd.vjp(rows)(x, np.array([0, 1, 0, 2]), x[np.array([2, 1, 1, 0])]) * x).sum()

    # of_rows is 2 * x0 * x0 * (x2 + x1) + 2 * x1 * x1 * x1 + 2 * x2 * x2 * x0
    x0, x1, x2 = X
    expected = [4 * x0 * (x1 + x2) + 2 * x2 * x2, 2 * x0 * x0 + 6 * x1 * x1, 2 * x0 * x0 + 4 * x2 * x0]
    np.testing.assert_allclose(pd.grad(of_rows)(X), expected)


def test_kernels_and_their_derivatives() -> None:
    sine, cosine = np.sin(X), np.cos(X)
    np.testing.assert_allclose(pd.grad(through_kernels)(X), sine**3 / 2 + 1.5 * sine**2 * cosine * X)


@pytest.mark.parametrize("device", ["cpu", "vulkan:0"])
def test_the_example_learns(device: str) -> None:
    spec = importlib.util.spec_from_file_location("mlp", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    losses = example.train(device, 40)
    assert losses[-1] < 0.5 * losses[0]


@pd.program
def rounded(x: Vector, y: Vector) -> Any:
    return np.rint(x) + y, x * y


@pd.program
def straight_through(x: Vector, y: Vector, da: Vector, db: Vector) -> Any:
    return da + db * y


pd.vjp(rounded, straight_through, wrt=["x"])


def test_stated_derivatives_of_programs_that_a_program_calls() -> None:
    @pd.program
    def loss(x: Vector) -> Any:
        near, scaled = rounded(3 * x, x)
        inner, _ = rounded(near * near, y=scaled)
        return (inner * x).sum()

    near = np.rint(3 * X) + X
    inner = np.rint(near**2) + 3 * X * X
    np.testing.assert_allclose(loss(X), (inner * X).sum())
    np.testing.assert_allclose(pd.grad(loss)(X), inner + X * 2 * near * 3)

    @pd.program
    def identity(x: Vector) -> Any:
        return rounded(x, x)[0]

    np.testing.assert_allclose(pd.vjp(identity)(X, Y), Y)


def test_branches() -> None:
    @pd.program
    def branched(x: Vector, y: Vector) -> Any:
        a, b = pd.cond(x[0] > 0, lambda: (np.exp(x) * y, x[1:]), lambda: (rounded(x, y)[1], 2 * y[1:]))
        return (a * a).sum() + b.sum()

    gradient = pd.grad(branched)
    dx, dy = gradient(X, Y)
    np.testing.assert_allclose(dx, 2 * (np.exp(X) * Y) ** 2 + [0, 1, 1])
    np.testing.assert_allclose(dy, 2 * np.exp(2 * X) * Y)
    dx, dy = gradient(-X, Y)
    np.testing.assert_allclose(dx, -2 * X * Y * Y)
    np.testing.assert_allclose(dy, [0, 2, 2])  # rounded states no derivative by y


def test_static_parameters_and_values_from_outside() -> None:
    scale = np.array([2.0])

    @pd.program
    def raised(x: Vector, power: pd.static) -> Any:
        return (x**power * scale).sum()

    with pytest.raises(pd.InvalidArgumentError, match=r"write raised.specialize\(power=\.\.\.\)"):
        pd.vjp(raised)
    np.testing.assert_allclose(pd.vjp(raised.specialize(power=2))(X, np.float64(1)), 4 * X)
    gradient = pd.grad(raised).specialize(power=3)
    np.testing.assert_allclose(gradient(X), 6 * X * X)
    scale[0] = 1
    np.testing.assert_allclose(gradient(X), 3 * X * X)


def of(function: Callable[[Any], Any]) -> Any:
    @pd.program
    def refused(x: Vector) -> Any:
        return function(x)

    return refused


def uses_kernel(kernel: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        out = x * 1
        kernel(*((out, x) if kernel is scaled else (x, out)), *((x * 1,) if kernel is ambiguous_results else ()))
        return out.sum()

    return function


@pd.kernel(workgroup=64)
def ambiguous(dy: View, y: View) -> None:
    i = pd.global_id(0)
    if i < dy.shape[0]:
        y[i] = dy[i]


@pd.program
def ambiguous_backward(dy: Vector) -> Any:
    return dy


pd.vjp(ambiguous, ambiguous_backward)


@pd.kernel(workgroup=64)
def ambiguous_results(x: View, y: View, dy: View) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i]
        dy[i] = 2 * x[i]


@pd.program
def ambiguous_results_backward(dy: Vector) -> Any:
    return dy


pd.vjp(ambiguous_results, ambiguous_results_backward, wrt=["x"])


@pd.kernel(workgroup=64)
def without_derivative(x: View, y: View) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i]


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "running maxima": (lambda x: np.maximum.accumulate(x).sum(), "there is none of a running result other than"),
    "a loop with a condition": (
        lambda x: pd.loop(lambda v: v.sum() < 9, lambda v: v * x, x).sum(),
        "there is none of a loop that runs while a condition holds",
    ),
    "eigenvalues": (lambda x: np.linalg.eigvalsh(np.outer(x, x)).sum(), "there is none of a loop that runs while"),
    "a kernel": (uses_kernel(without_derivative), r"name its backward kernel: pydispatch.vjp\(without_derivative, "),
    "an ambiguous name": (uses_kernel(ambiguous), "'ambiguous' has an argument 'dy', and its derivative takes a"),
    "ambiguous results": (uses_kernel(ambiguous_results), "'ambiguous_results' has an argument 'dy', and its deriva"),
    "a changed view": (uses_kernel(scaled), "the array that kernel 'scaled' takes as 'x' and changes"),
    "an array": (lambda x: x * 2, "'refused' returns f64.n.; a gradient is that of one float of rank 0"),
    "an integer": (lambda x: x.argmax(), "'refused' returns i64..; a gradient is that of one float of rank 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises(pd.CompileError, match=message) as error:
        pd.grad(of(function)).mlir()
    assert error.value.location is not None
    assert error.value.location.file == __file__


def test_a_constant_result_has_the_gradient_0() -> None:
    np.testing.assert_array_equal(pd.grad(of(lambda x: (x > 0).astype(np.float64).sum()))(X), 0 * X)
    np.testing.assert_array_equal(pd.grad(of(lambda x: np.float64(3)))(X), 0 * X)


@pytest.mark.parametrize(("function", "derivative", "at"), [
    (np.arcsin, lambda x: 1 / np.sqrt(1 - x * x), [0.9999, -0.999999, 0.5]),
    (np.arccos, lambda x: -1 / np.sqrt(1 - x * x), [0.9999, -0.999999, 0.5]),
    (np.arctanh, lambda x: 1 / (1 - x * x), [0.9999, -0.999999, 0.5]),
    (np.arccosh, lambda x: 1 / np.sqrt(x * x - 1), [1.0001, 1.000001, 3.0, 1e20]),
])  # fmt: skip
def test_gradients_beside_the_ends_of_domains(function: Any, derivative: Any, at: list[float]) -> None:
    @pd.program
    def total(x: Annotated[np.ndarray, pd.f32["n"]]) -> Any:
        return function(x).sum()

    x = np.array(at, np.float32)
    np.testing.assert_allclose(pd.grad(total)(x), derivative(x.astype(np.float64)), rtol=1e-6)


def test_gradients_of_angles_whose_squares_are_out_of_range() -> None:
    @pd.program
    def angles(y: Annotated[np.ndarray, pd.f32["n"]], x: Annotated[np.ndarray, pd.f32["n"]]) -> Any:
        return np.arctan2(y, x).sum()

    y = np.array([1e-30, 0, 3e-30, 1e20, -4e20, 2e30], np.float32)
    x = np.array([0, 1e-30, 4e-30, 1e15, 1e25, -1e30], np.float32)
    wide_y, wide_x = y.astype(np.float64), x.astype(np.float64)
    squares = wide_x**2 + wide_y**2
    for gradient, expected in zip(pd.grad(angles)(y, x), (wide_x / squares, -wide_y / squares), strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-6)


def test_gradients_of_angles_of_infinities_are_finite_where_one_argument_is() -> None:
    @pd.program
    def angle(y: Annotated[np.ndarray, pd.f32["n"]]) -> Any:
        return np.arctan2(y, np.ones_like(y)).sum()

    np.testing.assert_array_equal(pd.grad(angle)(np.array([np.inf, -np.inf, 0], np.float32)), [0, 0, 1])


@pytest.mark.parametrize("divisor", [1.0, 2.0, -2.0])
def test_gradients_of_remainders_at_multiples(divisor: float) -> None:
    @pd.program
    def total(x: Annotated[np.ndarray, pd.f32["n"]]) -> Any:
        return (x % divisor).sum()

    x = np.array([-4, -2, 0, 2, 4, 0.5], np.float32)
    np.testing.assert_array_equal(pd.grad(total)(x), np.ones(6))


def test_wrong_arguments() -> None:
    @pd.program
    def mixed(x: Vector, i: Integers) -> Any:
        return x[i].sum()

    np.testing.assert_allclose(pd.grad(mixed)(X, np.array([0, 0, 2], np.int32)), [2, 0, 1])
    with pytest.raises(pd.InvalidArgumentError, match=r"arguments of 'mixed' \(x\), got 'i'; other arguments have no"):
        pd.grad(mixed, wrt="i")
    with pytest.raises(pd.InvalidArgumentError, match="expected a program"):
        pd.grad(cubed)
    with pytest.raises(pd.InvalidArgumentError, match=r"call the program that vjp\(function\) returns"):
        pd.vjp(product, X, Y)  # type: ignore[arg-type]
    with pytest.raises(pd.InvalidArgumentError, match="the kernel 'cubed' needs a kernel or a program"):
        pd.vjp(cubed)

    @pd.program
    def of_integers(x: Vector, i: Integers) -> Any:
        return pd.grad(mixed)(i, i)

    with pytest.raises(pd.CompileError, match=r"argument 'x' of 'mixed' is i32\[n\], which has no gradient"):
        of_integers.mlir()

    @pd.program
    def too_few(x: Vector) -> Any:
        return pd.grad(mixed)(x)

    with pytest.raises(pd.CompileError, match="'mixed_grad' takes the arguments x, i, got 1"):
        too_few.mlir()

    @pd.program
    def twice_the_same(x: Vector, i: Integers) -> Any:
        return pd.grad(mixed)(x + 100.0, i, x=x)

    with pytest.raises(pd.CompileError, match="argument 'x' of program 'mixed_grad' is passed by position and by name"):
        twice_the_same.mlir()
