"""Programs in Python: control flow, state, kernels, other programs, on every device; what is refused, with its line."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any

os.environ.setdefault("LP_NUM_THREADS", "0")  # lavapipe: threads cost more than they bring on small grids

import numpy as np
import pytest
from work import count_calls

import pydispatch as pd

Vector = Annotated[np.ndarray, pd.f32["n"]]
Matrix = Annotated[np.ndarray, pd.f32["n", 6]]
View = Annotated[pd.View, pd.f32["n", "m"]]
DEVICES = {"cpu": "cpu", "vulkan": "vulkan", "webgpu": "webgpu", "ptx-interpreter": "cuda"}
X = np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32)


@pd.kernel
def swish(x: View, y: View, beta: Annotated[float, pd.f32]) -> None:
    i, j = pd.global_id(1), pd.global_id(0)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = x[i, j] / (1 + pd.exp(-beta * x[i, j]))


DTYPES = {"bool": pd.i1, "uint8": pd.u8, "int32": pd.i32, "float16": pd.f16, "float32": pd.f32}

count = pd.state(np.zeros((), np.int64))
rows = pd.state(np.zeros((2, 3, 4), np.float32))


@pd.program
def normalized(x: Matrix) -> Any:
    return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)


@pd.program
def everything(x: Matrix, steps: pd.static = 3) -> Any:
    out = np.zeros_like(x)
    swish(x, out, 2.0)
    swish[1, x.shape[0]](out, out, np.ones_like(x)[:1, :1])
    count.value = count.value + 1
    doubled = pd.loop(lambda v: v.sum() < 100, lambda v: v * 2 + 1, np.abs(x))
    total, last = pd.loop(steps, lambda i, a, b: (a + b, b * 2), x, np.ones_like(x))
    chosen = pd.cond(x[0, 0] > 0, lambda v: v + 1, lambda v: v - 1, x)
    results = {"out": out, "doubled": doubled, "total": total + last, "chosen": chosen, "own": normalized(x)}
    return {**results, "count": count.value}


def expected(x: Any) -> dict[str, Any]:
    out = x / (1 + np.exp(-2 * x))
    out = out / (1 + np.exp(-out))
    doubled = np.abs(x)
    while doubled.sum() < 100:
        doubled = doubled * 2 + 1
    return {"out": out, "doubled": doubled, "total": x + 7 + 8, "chosen": x + (1 if x[0, 0] > 0 else -1),
            "own": normalized.python(x)}  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
def test_everything(device: str) -> None:
    program = pd.device(device).load(pd.compile(everything, targets=DEVICES[device]))
    for number, x in enumerate((X, -X, X[:2]), 1):
        results = dict(zip(["out", "doubled", "total", "chosen", "own", "count"], program.everything(x), strict=True))
        assert np.asarray(results.pop("count")) == number
        for name, each in expected(x).items():
            np.testing.assert_allclose(np.asarray(results[name]), each, rtol=2e-5, atol=2e-5, err_msg=name)


def test_each_loaded_program_has_its_state() -> None:
    artifact = pd.compile(everything)
    first, second = (pd.device("cpu").load(artifact) for _ in range(2))
    assert [first.everything(X)[-1], first.everything(X)[-1], second.everything(X)[-1]] == [1, 2, 1]


@pd.program
def put(x: Annotated[Any, pd.f32[2, 4]], group: Annotated[Any, pd.i32[2]], row: Annotated[Any, pd.i32[2]]) -> Any:
    rows[group, row] = x
    rows[1, :, 0] += 1
    pd.cond(x[0, 0] > 0, lambda: rows[0] + 1, lambda: rows[1])  # a branch reads it
    before, shown = rows.value.copy(), rows[0, 1]
    shown[2] = 7
    return rows[group, row], rows[0], before


@pytest.mark.parametrize("device", DEVICES)
def test_elements_of_state(device: str) -> None:
    program = pd.device(device).load(pd.compile(put, targets=DEVICES[device]))
    rows.value = rows.first.copy()
    for x, places in ((X[:2, :4], ([0, 1], [2, 1])), (X[2:, :4], ([1, 0], [0, 2])), (X[1:3, 1:5], ([0, 1], [-1, 1]))):
        arguments = x.copy(), *(np.array(along, np.int32) for along in places)
        for value, expected in zip(program.put(*arguments), put.python(*arguments), strict=True):
            np.testing.assert_array_equal(np.asarray(value), expected)


def test_calls_and_statics() -> None:
    np.testing.assert_allclose(normalized(X), normalized.python(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(everything.specialize(steps=1)(X)[2], X + 3, rtol=1e-6)
    assert "func.func @normalized" in normalized.mlir()
    assert repr(normalized) == "<pydispatch program normalized(x: f32[n, 6])>"


def test_python_runs_control_flow() -> None:
    plain = pd.loop(lambda v: v < 5, lambda v: v + 2, 0), pd.loop(3, lambda i, a, b: (a + i, b * 2), 0, 1)
    assert plain == (6, (3, 8)) and pd.cond(True, lambda: 1, lambda: 2) == 1
    own = pd.state([1.0, 2.0])
    own.value = own.value * 2
    assert own.value.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("size", [0, 4])
def test_the_count_of_a_loop_is_a_size(size: int) -> None:
    """The loop is traced also if its initial values are numbers."""

    @pd.program
    def counted(x: Annotated[np.ndarray, pd.f32["n"]]) -> Any:
        n = x.shape[0]
        return pd.loop(n, lambda i, total: total + x[i], np.float32(0)), pd.loop(n, lambda i, total: total + i, 0)

    x = np.arange(size, dtype=np.float32)
    assert list(map(float, counted(x))) == [x.sum(), sum(range(size))]


@pytest.mark.parametrize(("start", "grow"), [
    (np.int32([1, 2]), lambda v: v + np.int64(2**31)), (np.uint8([200, 3]), lambda v: v * np.int16(2)),
    (np.float32([1, 2]), lambda v: v * np.array([1 / 3], np.float64)), (np.float16([1, 2]), lambda v: 3),
])  # fmt: skip
def test_values_of_a_loop_keep_their_types(start: Any, grow: Callable[[Any], Any]) -> None:
    def grown(x: Any) -> Any:
        return pd.loop(3, lambda i, v: np.zeros_like(x) + grow(v), x), pd.loop(2, lambda i, v: v + 1.25, x * 1.0)

    grown.__annotations__ = {"x": DTYPES[start.dtype.name][2]}
    program = pd.program(grown)
    for result, expected in zip(program(start), program.python(start), strict=True):
        assert np.asarray(result).dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)
    assert program.python(start)[0].dtype == start.dtype


@pytest.mark.parametrize(("start", "body"), [
    (np.int32([1, 2]), lambda i, v: v * 1.5), (np.bool([0, 1]), lambda i, v: v + 1),
    (np.float32([1, 2]), lambda i, v: v * 1j),
])  # fmt: skip
def test_values_of_a_loop_of_another_kind_are_refused(start: Any, body: Callable[..., Any]) -> None:
    def changed(x: Any) -> Any:
        return pd.loop(2, body, x)

    changed.__annotations__ = {"x": DTYPES[start.dtype.name][2]}
    message = f"a loop begins with a value of {start.dtype}, and its body returns"
    with pytest.raises(pd.CompileError, match=message) as error:
        pd.compile(pd.program(changed))
    assert "begin with that type" in (error.value.note or "")
    with pytest.raises(pd.InvalidArgumentError, match=f"{message} .* for it: begin with that type"):
        changed(start)


BAD: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "a branch": (lambda x: x if x.sum() > 0 else -x, "cannot branch on a value", "pydispatch.cond"),
    "a number": (lambda x: [1, 2, 3][x.argmax()], "cannot use a value of an array as a number", "use it as an array"),
    "an unknown function": (lambda x: np.linalg.pinv(x), "numpy.linalg.pinv is not a part", "docs/python-programs.md"),
    "an unknown ufunc": (lambda x: np.nextafter(x, 1), "numpy.nextafter is not a part", "docs/python-programs.md"),
    "conditions as an index": (lambda x: x[x > 0], "gives as many elements as hold", "numpy.where"),
    "too many indices": (lambda x: x[0, 0, 0], "3 indices of", ""),
    "shapes that do not fit": (lambda x: x + np.ones(5, np.float32), "", ""),
    "where alone": (lambda x: np.where(x > 0), "as many places as hold", "give both values"),
    "nothing": (lambda x: None, "returns nothing", "return an array"),
    "len": (lambda x: len(x), "len of", "use x.shape"),
    "unequal parts": (lambda x: np.split(x, 4, axis=1)[0], "cannot be divided into 4 equal parts", ""),
    "types of branches": (lambda x: pd.cond(x.sum() > 0, lambda: x, lambda: x[0]), "", ""),
    "values of a loop": (lambda x: pd.loop(3, lambda i, a: (a, a), x), "returns 2 values, expected 1", ""),
    "state in a branch": (lambda x: pd.cond(x[0, 0] > 0, lambda: _count(x), lambda: x), "in a branch", "assign it"),
    "a kernel's arguments": (lambda x: swish(x, x), "takes 3 arguments", ""),
    "a kernel's types": (lambda x: swish(x.astype(np.int32), x, 1.0), "'x' of kernel 'swish' is f32", "convert it"),
    "elements for a number": (
        lambda x: swish(x, np.zeros_like(x), x[0]), "'beta' of kernel 'swish' is f32, and this is f32[6]", "x[0]"
    ),
    "a kernel's sizes for a number": (
        lambda x: swish(x, np.zeros_like(x), x[:, 0]), "'beta' of kernel 'swish' is f32, and this is f32[n]", "x[0]"
    ),
    "what a kernel writes": (lambda x: swish(x, X, 1.0), "writes 'y', which is no array of the program", "zeros_like"),
    "rounding": (lambda x: np.round(x, 2), "rounding to decimals", "multiply"),
}  # fmt: skip


def _count(x: Any) -> Any:
    count.value = count.value + 1
    return x


@pytest.mark.parametrize("name", BAD)
def test_is_refused_with_its_line(name: str) -> None:
    function, message, note = BAD[name]

    def bad(x: Matrix) -> Any:
        return function(x)

    with pytest.raises(pd.CompileError) as error:
        pd.compile(pd.program(bad))
    assert message in str(error.value) and note in str(error.value), str(error.value)
    assert "test_traced_programs.py:" in str(error.value) and "\n  " in str(error.value), str(error.value)


def test_parameters() -> None:
    def untyped(x):  # type: ignore[no-untyped-def]
        return x

    with pytest.raises(pd.InvalidArgumentError, match="parameter 'x' needs a type; write x: Annotated"):
        pd.program(untyped)
    with pytest.raises(pd.InvalidArgumentError, match="expected a function"):
        pd.program(3)  # type: ignore[arg-type]
    with pytest.raises(pd.InvalidArgumentError, match="has no static parameter 'step'"):
        everything.specialize(step=3)
    with pytest.raises(pd.InvalidArgumentError, match="float64"):
        normalized(X.astype(np.float64))


def test_work_grows_with_the_number_of_operations() -> None:
    @pd.program
    def long(x: Vector, steps: pd.static) -> Any:
        y = x
        for _ in range(steps):
            y = y + x
        return y

    def calls(steps: int) -> int:
        program = long.specialize(steps=steps)
        return count_calls(lambda: program.module())

    calls(1)  # imports modules and fills caches
    assert calls(200) < 4.4 * calls(50)
