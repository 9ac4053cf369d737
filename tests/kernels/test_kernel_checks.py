"""What kernels state, and indices outside of views, are found when they run, with the line of Python."""

from __future__ import annotations

import inspect
import re
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd

Vector = Annotated[pd.View, pd.f32["n"]]
Matrix = Annotated[pd.View, pd.f32["m", "n"]]


@pd.kernel
def roots(x: Vector, y: Vector) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        assert x[i] >= 0.0, "a root of a negative number"
        assert x[i] < 100.0
        y[i] = math_sqrt(x[i])


def math_sqrt(a: Any) -> Any:
    assert a != 50.0
    return pd.sqrt(a)


@pd.kernel(grid=2)
def shifted(x: Vector, y: Vector, by: Annotated[int, pd.i32]) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i + by]


@pd.kernel(workgroup=8, grid=1)
def columns(x: Matrix, y: Matrix, column: Annotated[int, pd.i32]) -> None:
    row = pd.local_id(0)
    if row < x.shape[0]:
        y[row, column] += x[row, 0]


def line_of(function: Any, text: str) -> str:
    lines, first = inspect.getsourcelines(function)
    (number,) = (n for n, line in enumerate(lines) if text in line)
    return f"{__file__}:{first + number}:{lines[number].index(text) + 1}: "


@pytest.mark.parametrize(
    ("value", "at", "function", "text"),
    [
        (-1.0, "assert x[i] >= 0.0", roots.__wrapped__, "a root of a negative number"),
        (200.0, "assert x[i] < 100.0", roots.__wrapped__, "x[i] < 100.0"),
        (50.0, "assert a != 50.0", math_sqrt, "a != 50.0"),
    ],
    ids=["with a message", "without", "in a helper"],
)
def test_an_assert_names_its_line(value: float, at: str, function: Any, text: str) -> None:
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    roots(x, y)
    assert y.all()
    x[70] = value
    with pytest.raises(pd.KernelError) as caught:
        roots(x, y)
    assert str(caught.value) == f"{line_of(function, at)}{text}, in workgroup (1, 0, 0) of 'roots'"
    assert caught.value.workgroup == (1, 0, 0)
    with pytest.raises(pd.KernelError) as caught:
        roots[2](x, y)
    assert text in str(caught.value)


def test_an_assert_with_a_message_of_several_lines() -> None:
    @pd.kernel
    def positive(x: Vector, y: Vector) -> None:
        i = pd.global_id(0)
        if i < x.shape[0]:
            assert x[i] >= 0.0, 'a "root" \\0A of\n\ta negative n\u00famber\f'
            y[i] = x[i]

    with pytest.raises(pd.KernelError) as caught:
        positive(np.full(4, -1, np.float32), np.zeros(4, np.float32))
    assert 'a "root" \\0A of\n\ta negative n\u00famber\f, in workgroup' in str(caught.value)


@pytest.mark.parametrize(("by", "workgroups"), [(1, "1"), (-1, "0"), (1 << 30, "01")], ids=["behind", "before", "far"])
def test_an_index_outside_is_found(by: int, workgroups: str) -> None:
    """workgroups: those that have such an index, of which any is named."""
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    checked = shifted.checked()
    checked(x, y, 0)
    assert y.all()
    with pytest.raises(pd.KernelError) as caught:
        checked(x, y, by)
    begin = line_of(shifted.__wrapped__, "i + by")
    what = f"{begin}the index i + by is outside of dimension 0, in workgroup"
    assert str(caught.value) in [f"{what} ({number}, 0, 0) of 'shifted'" for number in workgroups]


def test_the_dimension_is_named() -> None:
    x, y = np.ones((4, 5), np.float32), np.zeros((4, 5), np.float32)
    checked = columns.checked()
    checked(x, y, 4)
    np.testing.assert_array_equal(y[:, 4], np.ones(4))
    with pytest.raises(pd.KernelError, match="the index column is outside of dimension 1"):
        checked(x, y, 5)


def test_plain_kernels_compare_no_indices() -> None:
    assert "cf.assert" not in columns.mlir().partition("func.func @columns(%a_x")[0]
    text = columns.checked().mlir()
    assert text.count(" is outside of ") == 4  # two of y, which is found once, and two of x
    assert text.count(" by another invocation ") == 2 and "race" not in columns.mlir()  # y alone is written


def test_a_device_checks() -> None:
    device = pd.device("cpu?checks=1&workers=1")
    assert device.name == "cpu?workers=1&checks=1"
    x, y = device.upload(np.ones(100, np.float32)), device.upload(np.zeros(100, np.float32))
    shifted(x, y, 0)
    assert np.asarray(y).all()
    with pytest.raises(pd.KernelError, match="the index i \\+ by is outside of dimension 0"):
        shifted(x, y, 1)


Indices = Annotated[pd.View, pd.i32["n"]]


@pd.kernel(workgroup=32)
def scattered(x: Vector, at: Indices, y: Annotated[pd.View, pd.f32["m"], pd.partial]) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[at[i]] = x[i]


scattered = pd.kernel(workgroup=32, grid=lambda x, at, y: pd.cdiv(x.shape[0], 32))(scattered.__wrapped__)


def test_writes_of_one_element_are_races() -> None:
    """Whatever the places are, in one workgroup or in several on two threads: a race is where two are the same."""
    checked, random = scattered.checked(), np.random.default_rng(5)
    found = set()
    for count in (2, 7, 32, 33, 100, 100):
        for double in (False, True):
            x, y = np.ones(count, np.float32), np.zeros(2 * count, np.float32)
            at = random.permutation(2 * count)[:count].astype(np.int32)
            if double:
                first, second = random.permutation(count)[:2]
                at[first] = at[second]
                found.add(bool(first // 32 != second // 32))
                with pytest.raises(pd.KernelError, match=r"y\[at\[i\]\] is written here and read or written by an"):
                    checked(x, at, y)
            else:
                checked(x, at, y)
                assert (y[at] == 1).all() and y.sum() == count
    assert found == {False, True}


def turned(x: Vector, y: Vector, rounds: Annotated[int, pd.i32]) -> None:
    memory = pd.shared(64, pd.f32)
    lane, i = pd.local_id(0), pd.global_id(0)
    memory[lane] = x[i] if i < x.shape[0] else 0.0
    for _ in range(rounds):
        pd.barrier()
        other = memory[63 - lane]
        pd.barrier()
        memory[lane] = other
    if i < x.shape[0]:
        y[i] = memory[lane]


def turned_at_once(x: Vector, y: Vector, rounds: Annotated[int, pd.i32]) -> None:
    memory = pd.shared(64, pd.f32)
    lane, i = pd.local_id(0), pd.global_id(0)
    memory[lane] = x[i] if i < x.shape[0] else 0.0
    for _ in range(rounds):
        pd.barrier()
        memory[lane] = memory[63 - lane]
    if i < x.shape[0]:
        y[i] = memory[lane]


def turned_too_early(x: Vector, y: Vector, rounds: Annotated[int, pd.i32]) -> None:
    memory = pd.shared(64, pd.f32)
    lane, i = pd.local_id(0), pd.global_id(0)
    memory[lane] = x[i] if i < x.shape[0] else 0.0
    for _ in range(rounds):
        other = memory[63 - lane]
        pd.barrier()
        memory[lane] = other
    if i < x.shape[0]:
        y[i] = memory[lane]


@pytest.mark.parametrize("count", [64, 100])
def test_barriers_put_accesses_in_order(count: int) -> None:
    """Memory of workgroups: the same kernel with both barriers, and without one or the other, in a loop."""
    x = np.arange(count, dtype=np.float32)
    rows = np.pad(x, (0, -count % 64)).reshape(-1, 64)
    for rounds in (0, 1, 2):
        y = np.zeros_like(x)
        pd.kernel(workgroup=64)(turned).checked()(x, y, rounds)
        np.testing.assert_array_equal(y, (rows[:, ::-1] if rounds % 2 else rows).reshape(-1)[:count])
    for function in (turned_at_once, turned_too_early):
        kernel = pd.kernel(workgroup=64)(function).checked()
        kernel(x, y, 0)
        begin = line_of(function, "memory[63 - lane]")
        text = f"{begin}memory[63 - lane] is read here and written by another invocation at the same time"
        with pytest.raises(pd.KernelError, match=re.escape(text)):
            kernel(x, y, 2)


@pd.kernel(workgroup=16)
def sums(x: Vector, y: Annotated[pd.View, pd.i32[1]], z: Vector) -> None:
    """Reads of the same element, and atomic operations, are no races; reductions put accesses in order."""
    i = pd.global_id(0)
    if i < x.shape[0]:
        pd.atomic_add(y, 0, pd.i32(x[0]))
        z[i] = x[i]
    most = pd.group_max(x[i] if i < x.shape[0] else 0.0)
    other = i ^ 1
    if other < x.shape[0]:
        z[other] = most


@pd.kernel(workgroup=16)
def neighbours(x: Vector, y: Vector) -> None:
    i = pd.global_id(0)
    if i + 1 < x.shape[0]:
        y[i] = x[i] + y[i + 1]


def test_reads_and_atomic_operations_are_no_races() -> None:
    x, y, z = np.ones(100, np.float32), np.zeros(1, np.int32), np.zeros(100, np.float32)
    pd.kernel(workgroup=16, grid=lambda x, y, z: 7)(sums.__wrapped__).checked()(x, y, z)
    assert y[0] == 100 and (z == 1).all()
    with pytest.raises(pd.KernelError, match="by another invocation at the same time"):
        neighbours.checked()(x, z)


def rows(q: Matrix, o: Matrix) -> None:
    i = pd.global_id(0)
    if i < q.shape[0]:
        for c in range(q.shape[1]):
            o[i, c] = 2.0 * q[i, c]


def rows_in_place(q: Matrix, o: Matrix) -> None:
    i = pd.global_id(0)
    if i < q.shape[0]:
        for c in range(q.shape[1]):
            o[i, c] = o[i, c] + q[i, c]


def rows_in_part(q: Matrix, o: Annotated[pd.View, pd.f32["m", "n"], pd.partial]) -> None:
    i = pd.global_id(0)
    if i < q.shape[0]:
        for c in range(q.shape[1]):
            o[i, c] = 2.0 * q[i, c]


def counts(x: Indices, y: Annotated[pd.View, pd.i32["m"]]) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        pd.atomic_add(y, x[i], 1)


def short(function: Any) -> pd.Kernel:
    """Return a kernel whose grid covers 64 rows, checked."""
    return pd.kernel(workgroup=64, grid=1)(function).checked()


@pytest.mark.parametrize("shape", [(100, 64), (65, 1), (64, 5), (1, 3), (0, 4)], ids=str)
def test_elements_that_are_left_unwritten_are_found(shape: tuple[int, int]) -> None:
    """A grid that ends too early leaves rows as they are."""
    q, o = np.ones(shape, np.float32), np.full(shape, -1, np.float32)
    pd.kernel(workgroup=64)(rows).checked()(q, o)
    assert (o == 2).all()
    missed = (shape[0] - 64) * shape[1]
    for call in (short(rows), pd.kernel(workgroup=64)(rows).checked()[1]):
        if missed <= 0:
            call(q, o)
            continue
        with pytest.raises(pd.KernelError) as caught:
            call(q, o)
        assert str(caught.value).startswith(
            f"{line_of(rows, 'def rows')}kernel 'rows' leaves {missed} of {shape[0] * shape[1]} elements of 'o' "
            "unwritten, the first is o[64, 0]; "
        )


def test_views_that_are_read_or_marked_may_keep_elements() -> None:
    q = np.ones((100, 3), np.float32)
    for function, expected in ((rows_in_place, 1), (rows_in_part, 2)):
        o = np.zeros_like(q)
        short(function)(q, o)
        assert (o[:64] == expected).all() and (o[64:] == 0).all()
    x, y = np.array([1, 1, 4], np.int32), np.zeros(6, np.int32)
    short(counts)(x, y)
    assert y.tolist() == [0, 2, 0, 0, 1, 0]


def test_the_view_with_untouched_elements_is_named_among_several() -> None:
    def pair(x: Vector, y: Vector, z: Vector) -> None:
        i = pd.global_id(0)
        if i < x.shape[0]:
            y[i] = x[i]
            if i > 2 and i != 7:
                z[i] = x[i]

    x, y, z = (np.ones(10, np.float32) for _ in range(3))
    with pytest.raises(pd.KernelError, match=r"'pair' leaves 4 of 10 elements of 'z' unwritten, the first is z\[0\]"):
        pd.kernel(pair).checked()(x, y, z)


def test_a_device_that_checks_finds_untouched_elements() -> None:
    device = pd.device("cpu?checks=1&workers=2")
    kernel = pd.kernel(workgroup=64, grid=lambda q, o: pd.cdiv(q.shape[1], 64))(rows)
    q, o = device.upload(np.ones((100, 64), np.float32)), device.upload(np.zeros((100, 64), np.float32))
    with pytest.raises(pd.KernelError, match=r"leaves 2304 of 6400 elements of 'o' unwritten, the first is o\[64, 0\]"):
        kernel(q, o)
    kernel[2](q, o)
    assert (np.asarray(o) == 2).all()


def test_artifacts_of_checked_kernels_return_their_views_alone() -> None:
    artifact = pd.compile(short(rows), cpu="generic")
    assert [len(f.outputs) for f in artifact.manifest.functions] == [1]
