"""Kernels under plain Python: what the gallery does not have, and errors."""

from __future__ import annotations

import linecache
import sys
from typing import Annotated, Any

import numpy as np
import pytest
from test_scans import M, N, scans
from test_subgroups import N as COUNT
from test_subgroups import subgroups
from test_tuples_of_views import scaled

import pydispatch as pd

Vector = Annotated[pd.View, pd.f32["n"]]
Bytes = Annotated[pd.View, pd.u8["n"]]
SignedBytes = Annotated[pd.View, pd.i8["n"]]


@pytest.mark.parametrize(
    ("kernel", "shapes"),
    [
        (subgroups, [(np.float32, COUNT), (np.int32, COUNT), (np.float32, COUNT), (np.uint32, COUNT),
                     (np.float32, COUNT)]),
        (scans, [*[(np.float32, (M, N))] * 3, (np.int32, (2, M)), (np.float32, (1, N)), (np.float32, 3)]),
    ],
)  # fmt: skip
def test_equals_the_compiled_kernel(kernel: Any, shapes: list[tuple[Any, Any]]) -> None:
    shape = kernel.passed[0].type.shape
    x = np.random.default_rng(4).integers(-5, 6, shape).astype(np.float32)
    emulated, compiled = ([np.zeros(size, dtype) for dtype, size in shapes] for _ in range(2))
    kernel.python(x, *emulated)
    kernel(x, *compiled)
    for one, other in zip(emulated, compiled, strict=True):
        np.testing.assert_array_equal(one, other)


@pd.kernel
def rounded_up(x: Bytes, y: SignedBytes, of_x: Bytes, of_y: SignedBytes, by_x: Bytes) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        of_x[i] = pd.cdiv(x[i], 7)
        of_y[i] = pd.cdiv(y[i], 7)
        by_x[i] = pd.cdiv(200, x[i])


def test_quotients_that_are_rounded_up_do_not_wrap() -> None:
    x, y = np.uint8([16, 255, 14, 1]), np.int8([-128, 127, -14, 0])
    expected = [np.uint8([3, 37, 2, 1]), np.int8([-18, 19, -2, 0]), np.uint8([13, 1, 15, 200])]
    for run in (rounded_up, rounded_up.python):
        results = [np.zeros_like(x), np.zeros_like(y), np.zeros_like(x)]
        run(x, y, *results)
        for result, right in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, right)


@pd.kernel(workgroup=4, grid=1)
def as_bf16(x: Vector, y: Vector) -> None:
    y[0:4] = pd.f32(pd.bf16(x[0:4]))


def test_each_element_of_a_tile_becomes_a_bf16() -> None:
    x = np.float32([1, -2.5, 3.0078125, np.inf])
    for run in (as_bf16, as_bf16.python):
        y = np.zeros_like(x)
        run(x, y)
        np.testing.assert_array_equal(y, [1, -2.5, 3, np.inf])


@pd.kernel(grid=1)
def as_integers(x: Vector, y: Bytes, z: SignedBytes, longs: Annotated[pd.View, pd.i64["n"]]) -> None:
    for i in range(x.shape[0]):
        y[i] = pd.u8(x[i])
        z[i] = pd.i8(x[i])
        longs[i] = pd.i64(x[i])


@pd.kernel(workgroup=4, grid=1)
def tile_of_integers(x: Vector, y: SignedBytes) -> None:
    y[0:8] = pd.i8(x[0:8])


def test_floats_out_of_range_become_the_nearest_integer() -> None:
    x = np.float32([260, -336, 127.5, -0.75, np.nan, np.inf, -np.inf, 3e9])
    signed = [127, -128, 127, 0, 0, 127, -128, 127]
    least, largest = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    for run in (as_integers, as_integers.python):
        y, z, longs = np.zeros(8, np.uint8), np.zeros(8, np.int8), np.zeros(8, np.int64)
        run(x, y, z, longs)
        np.testing.assert_array_equal(y, [255, 0, 127, 0, 0, 255, 0, 255])
        np.testing.assert_array_equal(z, signed)
        np.testing.assert_array_equal(longs, [260, -336, 127, 0, 0, largest, least, 3_000_000_000])
    for run in (tile_of_integers, tile_of_integers.python):
        z = np.zeros(8, np.int8)
        run(x, z)
        np.testing.assert_array_equal(z, signed)


def test_tuples_of_views() -> None:
    x = [np.arange(n, dtype=np.float32) for n in (5, 70, 1)]
    one, other = ([np.zeros_like(view) for view in x] for _ in range(2))
    scaled.python(x, one, 2.0)
    scaled(x, other, 2.0)
    for emulated, compiled in zip(one, other, strict=True):
        np.testing.assert_array_equal(emulated, compiled)


@pd.kernel(workgroup=4, grid=1)
def beyond(x: Vector) -> None:
    x[pd.local_id(0)] = 1.0


@pd.kernel(workgroup=4, grid=1)
def uneven(x: Vector) -> None:
    if pd.local_id(0) < x.shape[0]:
        pd.barrier()
    x[0] = 1.0


@pd.kernel(workgroup=4)
def failing(x: Vector) -> None:
    total = pd.group_sum(1.0)
    i = pd.global_id(0)
    if i < x.shape[0]:
        assert total < 0, "it is 4"
        x[i] = total


@pd.kernel(workgroup=1, grid=1)
def alone(x: Vector) -> None:
    total = pd.group_sum(x[0])
    x[0] = total + 1.0


def test_a_workgroup_of_one_invocation() -> None:
    x = np.ones(1, np.float32)
    alone.python(x)
    assert x[0] == 2


def wait() -> None:
    pd.barrier()


@pd.kernel(workgroup=4, grid=1)
def nested(x: Vector) -> None:
    wait()
    x[0] = 1.0


def test_errors_are_those_of_python() -> None:
    x = np.zeros(3, np.float32)
    with pytest.raises(pd.KernelError, match="the index 3 is outside of dimension 0 of 'x', whose size is 3"):
        beyond.python(x)
    with pytest.raises(pd.KernelError, match="invocations of a workgroup have ended while others wait"):
        uneven.python(x)
    with pytest.raises(AssertionError, match="it is 4"):
        failing.python(x)
    with pytest.raises(pd.InvalidArgumentError, match=r"kernel 'beyond' takes 1 arguments \(x\), got 2"):
        beyond.python(x, x)
    with pytest.raises(pd.InvalidArgumentError, match=r"'x': expected a NumPy array f32\[n\], got one of int8"):
        beyond.python(np.zeros(3, np.int8))
    with pytest.raises(pd.KernelError, match=r"pydispatch\.barrier in a function that the kernel calls"):
        nested.python(x)
    with pytest.raises(pd.InvalidArgumentError, match=r"pydispatch\.global_id is for functions under"):
        pd.global_id(0)
    with pytest.raises(pd.InvalidArgumentError, match=r"load is for .*; to load a program: pydispatch.device\("):
        pd.load("program.pdx")


def stop_if_large(part: Any) -> None:
    if part > 2:
        breakpoint()


@pd.kernel(workgroup=2, grid=2)
def stopping(x: Vector, y: Annotated[pd.View, pd.f32["m"]]) -> None:
    i = pd.global_id(0)
    half = x[i] / 2
    total = pd.group_sum(half)
    if i == 1:
        breakpoint()
    stop_if_large(half)
    y[i] = total


@pytest.mark.parametrize("grid", [None, 2])
def test_breakpoints_of_a_checked_kernel(grid: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    stops = []

    def hook() -> None:
        frame = sys._getframe(1)
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        stops.append((frame.f_code.co_name, line, frame.f_locals.get("i"), frame.f_locals.get("part")))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    checked = stopping.checked()
    x, y = np.float32([1, 2, 3, 6]), np.zeros(4, np.float32)
    (checked if grid is None else checked[grid])(x, y)
    np.testing.assert_array_equal(y, [1.5, 1.5, 4.5, 4.5])
    assert stops == [("stopping", "breakpoint()", 1, None), ("stop_if_large", "breakpoint()", None, 3.0)]

    device = pd.device("cpu?checks=1")
    stopping(device.upload(x), device.upload(y))
    assert len(stops) == 4
    local = pd.device("local-sync")
    checked(local.upload(x), local.upload(y))
    assert len(stops) == 6
    with pytest.raises(pd.KernelError, match="the index 2 is outside of dimension 0 of 'y'"):
        checked(x, y[:2])
    interpreter = pd.device("ptx-interpreter")
    with pytest.raises(pd.InvalidArgumentError, match="'stopping' has a breakpoint, at which it stops on CPUs only"):
        checked(interpreter.upload(x), interpreter.upload(y))
    with pytest.raises(pd.CompileError, match="breakpoint is not a part of kernels"):
        stopping(x, y)
