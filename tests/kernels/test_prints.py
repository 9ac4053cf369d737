"""`print` in checked kernels."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd

Line = pd.f32["n"]
Vector = Annotated[pd.View, Line]


@pd.kernel(workgroup=2, grid=1)
def shown(x: Vector) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        print("element", i, "is", x[i], x[i] > 1, -3)
        x[i] = 2 * x[i]
    if i == 0:
        print("done")


def test_lines_of_a_checked_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    expected = ["element 0 is 1.5 True -3", "done", "element 1 is 0.1 False -3"]
    x = np.array([1.5, 0.1], np.float32)
    shown.checked()(x)
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(expected)
    np.testing.assert_array_equal(x, np.float32([3, 0.2]))
    x = np.array([1.5, 0.1], np.float32)
    shown.python(x)
    assert capsys.readouterr().out.splitlines() == expected


@pd.kernel(workgroup=1, grid=1)
def shown_numbers(
    i: Annotated[pd.View, pd.i64[2]], u: Annotated[pd.View, pd.u64[1]], b: Annotated[pd.View, pd.i8[1]],
    f: Annotated[pd.View, pd.f64[2]], h: Annotated[pd.View, pd.f16[1]],
) -> None:  # fmt: skip
    print(i[0], i[1], u[0], b[0], f[0], f[1], h[0])
    b[0] = 1


def test_numbers_are_printed_with_all_digits(capsys: pytest.CaptureFixture[str]) -> None:
    arrays = (
        np.array([2**53 + 1, -(2**63)]), np.array([2**64 - 1], np.uint64), np.array([-3], np.int8),
        np.array([0.1, -np.inf]), np.array([0.1], np.float16),
    )  # fmt: skip
    shown_numbers.checked()(*arrays)
    assert capsys.readouterr().out == "9007199254740993 -9223372036854775808 18446744073709551615 -3 0.1 -inf 0.1\n"


def test_other_devices_print_nothing() -> None:
    device = pd.device("ptx-interpreter")
    with pytest.raises(pd.InvalidArgumentError, match="kernel 'shown' prints, which it does on CPUs only"):
        shown.checked()(device.upload(np.zeros(2, np.float32)))


def test_programs_refuse_kernels_that_print() -> None:
    """Also where they are differentiated: no line is printed once more for the gradients."""
    checked = shown.checked()

    @pd.program
    def total(x: Line) -> Any:
        y = x.copy()
        checked(y)
        return y.sum()

    for program in (total, pd.grad(total)):
        with pytest.raises(pd.CompileError, match="kernel 'shown' prints, which kernels in programs do not"):
            program(np.ones(2, np.float32))
