"""`#pyd.array`: constants that are arrays of the compiling process."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
    bf16,
    f32,
    i1,
    i8,
    i32,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

import pydispatch as pd
from pydispatch import ir
from pydispatch.compiler.driver.pipeline import compile_to
from pydispatch.ir.dialects.pyd.array import NumPyArrayAttr
from pydispatch.ir.dialects.util import dialect as util


def module_of(arrays: dict[str, np.ndarray[Any, Any]], element: Attribute, sizes: list[int]) -> ModuleOp:
    """A function that returns each array, which are globals of one type."""
    type_ = TensorType(element, sizes)
    names = list(arrays)
    types = ", ".join([str(type_)] * len(names))
    loads = "\n".join(f"  %{n} = util.global.load @{n} : {type_}" for n in names)
    module = ir.parse(
        f"{''.join(f'util.global private @{n} : {type_}' + chr(10) for n in names)}"
        f"func.func @f() -> ({types}) {{\n{loads}\n  return {', '.join(f'%{n}' for n in names)} : {types}\n}}"
    )
    for op in module.body.block.ops:
        if isinstance(op, util.GlobalOp):
            name = op.sym_name.data
            op.properties["initial_value"] = NumPyArrayAttr.of(f"model/{name}", type_, arrays[name])
    return module


def results(module: ModuleOp) -> list[np.ndarray[Any, Any]]:
    found = pd.device("cpu").load(pd.compile(module)).f()
    return list(found) if isinstance(found, tuple) else [found]


def test_arrays_become_constants() -> None:
    weights = np.random.default_rng(1).standard_normal((20, 30), np.float32)
    small = np.arange(600, dtype=np.float32).reshape(20, 30)
    got = results(module_of({"w": weights, "v": small[::-1], "u": small.T.copy().T}, f32, [20, 30]))
    for result, expected in zip(got, (weights, small[::-1], small), strict=True):
        assert result.tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("count", [3, 300])
@pytest.mark.parametrize(
    ("element", "array"),
    [
        (i1, np.tile([True, False, True], 100)),
        (i1, np.tile([3, 0, 1], 100).astype(np.uint8)),
        (i8, np.arange(300).astype(np.int8)),
        (i8, np.arange(300).astype(np.uint8)),
        (IntegerType(4), np.tile([1, -8, 7], 100).astype(np.int8)),
        (bf16, np.arange(300, dtype=np.float32).view(np.uint16)[1::2].copy()),
    ],
    ids=str,
)
def test_every_kind_of_element(element: Attribute, array: np.ndarray[Any, Any], count: int) -> None:
    (got,) = results(module_of({"w": array[:count]}, element, [count]))
    expected = array[:count].astype(bool) if element == i1 else array[:count]
    assert got.view(expected.dtype).tobytes() == expected.tobytes()


def test_equal_arrays_are_stored_once() -> None:
    a = np.arange(100_000, dtype=np.float32)
    other = a.copy()
    other[12_345] = -1  # not where the sample is
    artifact = pd.compile(module_of({"a": a, "b": a.copy(), "c": other, "d": a}, f32, [100_000]))
    assert [c.member for c in artifact.manifest.constants] == ["constants/0.npy", "constants/1.npy"]
    a_, b_, c_, d_ = pd.device("cpu").load(artifact).f()
    for result, expected in zip((a_, b_, c_, d_), (a, a, other, a), strict=True):
        assert result.tobytes() == expected.tobytes()


def test_a_mapped_file_is_stored_without_copies(tmp_path: Path) -> None:
    size = 8 << 20
    np.save(tmp_path / "w.npy", np.random.default_rng(2).standard_normal(size // 4, np.float32))
    mapped = np.load(tmp_path / "w.npy", mmap_mode="r")
    module = module_of({"w": mapped}, f32, [size // 4])
    pd.compile(module)  # what the compiler keeps for every program
    tracemalloc.start()
    artifact = pd.compile(module)
    artifact.save(tmp_path / "w.pdx")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < size // 2, f"{peak} bytes on the side of an array of {size}"
    stored = pd.Artifact.from_file(tmp_path / "w.pdx").read("constants/0.npy")
    assert np.load(tmp_path / "w.npy").tobytes() == bytes(stored[-size:])
    assert bytes(artifact.read("constants/0.npy")) == bytes(stored)
    assert pd.device("cpu").load(artifact).f().tobytes() == mapped.tobytes()


def test_small_arrays_are_part_of_kernels() -> None:
    module = module_of({"w": np.arange(4, dtype=np.float32)}, f32, [4])
    assert "dense<[0.000000e+00, 1.000000e+00" in compile_to("dispatches", module)
    (got,) = results(module)
    np.testing.assert_array_equal(got, [0, 1, 2, 3])


def test_mutable_globals_begin_with_arrays() -> None:
    module = ir.parse("""
util.global private mutable @n : tensor<80xi32>
func.func @next() -> tensor<80xi32> {
  %0 = util.global.load @n : tensor<80xi32>
  %1 = arith.addi %0, %0 : tensor<80xi32>
  util.global.store %1, @n : tensor<80xi32>
  return %0 : tensor<80xi32>
}""")
    first = next(iter(module.body.block.ops))
    first.properties["initial_value"] = NumPyArrayAttr.of("n", TensorType(i32, [80]), np.arange(80, dtype=np.int32))
    program = pd.device("cpu").load(pd.compile(module))
    for factor in (1, 2, 4):
        np.testing.assert_array_equal(program.next(), factor * np.arange(80))


def test_the_text_has_the_name_and_the_type() -> None:
    module = module_of({"w": np.zeros(100, np.float32)}, f32, [100])
    text = ir.print_module(module)
    assert 'util.global private @w = #pyd.array<"model/w"> : tensor<100xf32>' in text
    with pytest.raises(pd.CompileError, match=r"its elements are not in the text.*compile the module itself"):
        ir.parse(text)


@pytest.mark.parametrize(
    ("array", "sizes", "message"),
    [
        (np.zeros(3, np.float32), [4], r"'w' has 12 bytes \(float32, shape \(3,\)\), but tensor<4xf32> has 16"),
        (np.zeros(4, np.float64), [4], "has 32 bytes"),
        (np.zeros(4, ">f4"), [4], "native byte order"),
        (np.zeros(4, object), [4], "elements of object"),
        (np.zeros(4, np.float32), [-1], "has static sizes"),
    ],
)
def test_an_array_that_does_not_fit(array: np.ndarray[Any, Any], sizes: list[int], message: str) -> None:
    with pytest.raises(VerifyException, match=message):
        NumPyArrayAttr.of("w", TensorType(f32, sizes), array)


def test_attributes_of_one_array_are_equal() -> None:
    array = np.zeros(4, np.float32)
    type_ = TensorType(f32, [4])
    one, same = NumPyArrayAttr.of("w", type_, array), NumPyArrayAttr.of("w", type_, array)
    assert one == same and hash(one) == hash(same)
    assert one != NumPyArrayAttr.of("w", type_, array.copy())
    assert one.key == StringAttr("w") and one.count == 4
