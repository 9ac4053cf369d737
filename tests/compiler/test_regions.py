# ruff: noqa: E501  (lines of MLIR)
"""flow.dispatch.region and flow.dispatch.workgroups with microkernels: run with linked C against NumPy, and as imports."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to
from pydispatch.compiler.kernel_ir.kernel import Binary
from pydispatch.errors import CompileError

sys.path.insert(0, str(Path(__file__).parents[1] / "emit"))
from kernels import Loaded, buffer

C = """
#include <stddef.h>
void mul(const float* a, size_t ao, const float* b, size_t bo, float* c, size_t co, size_t n, size_t id) {
  for (size_t i = 0; i < n; ++i) c[co + i] = a[ao + i] * b[bo + i];
}
void add_in_place(float* c, size_t co, size_t cs, size_t n, float x) {
  for (size_t i = 0; i < n; ++i) c[co + i * cs] += x;
}
float sum(const float* a, size_t ao, size_t s0, size_t s1, size_t rows, size_t columns) {
  float total = 0;
  for (size_t r = 0; r < rows; ++r) for (size_t k = 0; k < columns; ++k) total += a[ao + r * s0 + k * s1];
  return total;
}
void fill(float* c, size_t co, size_t s0, size_t rows, size_t columns, float x) {
  for (size_t r = 0; r < rows; ++r) for (size_t k = 0; k < columns; ++k) c[co + r * s0 + k] = x + r;
}
"""
LINKED = "fn_def_attrs {hal.import.static}"
OBJECTS = 'hal.executable.objects = [#hal.executable.object<{path = "kernels.c"}>]'

REGION = """
func.func @scaled(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %axis = arith.constant 0 : index
  %one = arith.constant 1 : index
  %groups = arith.constant 3 : index
  %n = tensor.dim %a, %axis : tensor<?xf32>
  %made = tensor.empty(%n) : tensor<?xf32>
  %y = flow.dispatch.region[%groups] -> (tensor<?xf32>{%n}) {
    %id = flow.dispatch.workgroup.id[0] : index
    %count = flow.dispatch.workgroup.count[0] : index
    %tile = affine.apply affine_map<()[s0, s1] -> (s0 ceildiv s1)>()[%n, %count]
    %wanted = affine.apply affine_map<()[s0, s1] -> (s0 * s1)>()[%id, %tile]
    %at = affine.min affine_map<(d0)[s0] -> (d0, s0)>(%wanted)[%n]
    %size = affine.min affine_map<(d0)[s0, s1] -> (s1 - d0, s0)>(%at)[%tile, %n]
    %x0 = tensor.extract_slice %a[%at] [%size] [1] : tensor<?xf32> to tensor<?xf32>
    %x1 = tensor.extract_slice %b[%at] [%size] [1] : tensor<?xf32> to tensor<?xf32>
    %x2 = tensor.extract_slice %made[%at] [%size] [1] : tensor<?xf32> to tensor<?xf32>
    %r = iree_codegen.ukernel.generic {ATTRS} "mul" ins(%x0, %x1 : tensor<?xf32>, tensor<?xf32>) outs(%x2 : tensor<?xf32>)
      (%size, %id : index, index) FN STRIDES -> tensor<?xf32>
    %z = tensor.insert_slice %r into %made[%at] [%size] [1] : tensor<?xf32> into tensor<?xf32>
    flow.return %z : tensor<?xf32>
  } count(%g: index) -> (index, index, index) {
    flow.return %g, %one, %one : index, index, index
  }
  return %y : tensor<?xf32>
}
"""
STRIDES = ("strided_outer_dims(0)", "strided_dims([[], [], []])")


def region(attributes: str = OBJECTS, fn: str = LINKED, strides: str = STRIDES[1]) -> str:
    return REGION.replace("ATTRS", attributes).replace("FN", fn).replace("STRIDES", strides)


@pytest.fixture()
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kernels.c").write_text(C)
    return tmp_path


def load(text: str, folder: Path) -> pd.Program:
    return pd.device("cpu").load(pd.compile(text, object_search_path=[folder]))


@pytest.mark.parametrize("strides", STRIDES)
@pytest.mark.parametrize("n", [0, 1, 2, 8, 1001])
def test_region_with_linked_microkernel(n: int, strides: str, folder: Path) -> None:
    program = load(region(strides=strides), folder)
    a, b = np.arange(n, dtype=np.float32), np.full(n, 2.5, np.float32)
    np.testing.assert_array_equal(program.scaled(a, b), a * b)


@pytest.mark.parametrize("strides", STRIDES)
def test_region_with_imported_microkernel(strides: str) -> None:
    """The same without an object: the call goes through the import table, with the fields that it asks for."""
    artifact = pd.compile(region("", 'fn_def_attrs {hal.import.fields = ["processor_id", "processor_data"]}', strides))
    (variant,) = artifact.executables[0].variants
    assert variant.imports == ["mul"]
    seen = []

    def mul(params: int, context: int, reserved: int) -> int:
        words = (ctypes.c_uint64 * 8).from_address(params)
        seen.append((*words, ctypes.c_uint32.from_address(params + 64).value))
        n = words[6]
        a, b, c = ((ctypes.c_float * n).from_address(words[i] + 4 * words[i + 1]) for i in (0, 2, 4))
        for i in range(n):
            c[i] = a[i] * b[i]
        return 0

    kernel = Loaded(Binary(bytes(artifact.read(variant.member)), ".so"), {"mul": mul})
    a, b, c = (buffer(np.full(8, x, np.float32)) for x in (2, 4, 0))
    assert kernel.run(a, b, c, constants=[8, 0, 8, 0], grid=(2, 1, 1)) == 0
    assert list(c) == [8.0] * 8
    pointers = [x.ctypes.data for x in (a, b, c)]
    assert seen == [(pointers[0], at, pointers[1], at, pointers[2], at, 4, group, 11) for group, at in ((0, 0), (1, 4))]


IN_PLACE = """
func.func @grown(%a: tensor<4x?xf32>, %x: f32) -> (tensor<4x?xf32>, tensor<4x?xf32>) {
  %axis = arith.constant 1 : index
  %n = tensor.dim %a, %axis : tensor<4x?xf32>
  %four = arith.constant 4 : index
  %y = flow.dispatch.region[%four] -> (tensor<4x?xf32>{%n}) {
    %row = flow.dispatch.workgroup.id[0] : index
    %s = tensor.extract_slice %a[%row, 0] [1, %n] [1, 1] : tensor<4x?xf32> to tensor<1x?xf32>
    %r = iree_codegen.ukernel.generic {hal.executable.objects = [#hal.executable.object<{path = "kernels.c"}>]} "add_in_place" outs(%s : tensor<1x?xf32>)
      (%n, %x : index, f32) fn_def_attrs {hal.import.static} strided_dims([[1]]) -> tensor<1x?xf32>
    %z = tensor.insert_slice %r into %a[%row, 0] [1, %n] [1, 1] : tensor<1x?xf32> into tensor<4x?xf32>
    flow.return %z : tensor<4x?xf32>
  } count(%g: index) -> (index, index, index) {
    %one = arith.constant 1 : index
    flow.return %g, %one, %one : index, index, index
  }
  return %y, %a : tensor<4x?xf32>, tensor<4x?xf32>
}
"""


def test_a_tensor_that_is_overwritten_is_copied_while_it_is_needed(folder: Path) -> None:
    a = np.arange(20, dtype=np.float32).reshape(4, 5)
    y, same = load(IN_PLACE, folder).grown(a, 10.0)
    np.testing.assert_array_equal(y, np.arange(20, dtype=np.float32).reshape(4, 5) + 10)
    np.testing.assert_array_equal(same, np.arange(20, dtype=np.float32).reshape(4, 5))
    np.testing.assert_array_equal(a, same)


IN_PLACE_TWICE = """
func.func @twice(%a: tensor<4x8xf32>, %x: f32) -> tensor<4x8xf32> {
  %four = arith.constant 4 : index
  %y = flow.dispatch.region[%four] -> (tensor<4x8xf32>) {
    %row = flow.dispatch.workgroup.id[0] : index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant 8 : index
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<1x8xf32>
    %f = iree_codegen.ukernel.generic "fill" outs(%empty : tensor<1x8xf32>) (%n, %x : index, f32) fn_def_attrs {hal.import.static} strided_dims([[1]]) -> tensor<1x8xf32>
    %part = tensor.extract_slice %f[0, 0] [1, 4] [1, 1] : tensor<1x8xf32> to tensor<1x4xf32>
    CALL
    %z = tensor.insert_slice %r into %a[%row, 0] [1, 8] [1, 1] : tensor<1x8xf32> into tensor<4x8xf32>
    flow.return %z : tensor<4x8xf32>
  } count(%g: index) -> (index, index, index) {
    %one = arith.constant 1 : index
    flow.return %g, %one, %one : index, index, index
  }
  return %y : tensor<4x8xf32>
}
"""
CALL = '%q = iree_codegen.ukernel.generic "add_in_place" outs(%f : tensor<1x8xf32>) (%n, %x : index, f32) fn_def_attrs {hal.import.static} strided_dims([[1]]) -> tensor<1x8xf32>'
FINAL_CALL = '%r = iree_codegen.ukernel.generic "add_in_place" outs(%q : tensor<1x8xf32>) (%n, %w : index, f32) fn_def_attrs {hal.import.static} strided_dims([[1]]) -> tensor<1x8xf32>'
LOOP = "%w = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zero) -> (f32) {"
READ = "%w = tensor.extract %f[%c0, %c1] : tensor<1x8xf32>"
TILE_CALL = CALL.replace("%q", "%t").replace("%f ", "%part ").replace("1x8", "1x4")
PUT_BACK = "%q = tensor.insert_slice %t into %f[0, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<1x8xf32>"
PUT_BACK_BOTH = [
    PUT_BACK.replace("%q", "%first"),
    PUT_BACK.replace("%t ", "%u ").replace("%f", "%first").replace("[0, 0]", "[0, 4]"),
]


def other_slice(column: int) -> list[str]:
    """Read an element of the slice of four columns of %f that begins at a column."""
    return [
        f"%other = tensor.extract_slice %f[0, {column}] [1, 4] [1, 1] : tensor<1x8xf32> to tensor<1x4xf32>",
        "%w = tensor.extract %other[%c0, %c1] : tensor<1x4xf32>",
    ]


def other_tile(column: int) -> str:
    """Overwrite the slice of four columns of %f that begins at a column by a microkernel."""
    call = TILE_CALL.replace("%t ", "%u ").replace("%part", "%other")
    return f"{other_slice(column)[0]}\n{call}"


@pytest.mark.parametrize(
    "reads",
    [
        pytest.param(["%w = tensor.extract %f[%c0, %c1] : tensor<1x8xf32>", CALL, FINAL_CALL], id="before"),
        pytest.param([LOOP, "%v = tensor.extract %f[%c0, %i] : tensor<1x8xf32>\nscf.yield %v : f32 }", CALL, FINAL_CALL], id="loop-before"),
        pytest.param([CALL, "%w = tensor.extract %q[%c0, %c1] : tensor<1x8xf32>", FINAL_CALL], id="result"),
        pytest.param([CALL, "%d = tensor.dim %f, %c1 : tensor<1x8xf32>\n%w = arith.constant 1.0 : f32", FINAL_CALL], id="size"),
        pytest.param([READ, TILE_CALL, PUT_BACK, FINAL_CALL], id="tensor-before-its-slice"),
        pytest.param([TILE_CALL, PUT_BACK, READ.replace("%f", "%q"), FINAL_CALL], id="result-of-a-slice"),
        pytest.param([TILE_CALL, *other_slice(4), PUT_BACK, FINAL_CALL], id="other-elements"),
        pytest.param([READ, TILE_CALL, other_tile(4), *PUT_BACK_BOTH, FINAL_CALL], id="tiles"),
    ],
)  # fmt: skip
def test_a_tensor_is_read_before_a_microkernel_overwrites_it(reads: list[str]) -> None:
    assert "@add_in_place" in compile_to("dispatches", IN_PLACE_TWICE.replace("CALL", "\n".join(reads)))


@pytest.mark.parametrize(
    "reads",
    [
        pytest.param([CALL, "%w = tensor.extract %f[%c0, %c1] : tensor<1x8xf32>", FINAL_CALL], id="after"),
        pytest.param([CALL, "%w = tensor.extract %part[%c0, %c1] : tensor<1x4xf32>", FINAL_CALL], id="slice"),
        pytest.param([CALL, LOOP, "%v = tensor.extract %f[%c0, %i] : tensor<1x8xf32>\nscf.yield %v : f32 }", FINAL_CALL], id="nested"),
        pytest.param([LOOP, "%v = tensor.extract %f[%c0, %i] : tensor<1x8xf32>", CALL, "scf.yield %v : f32 }", FINAL_CALL.replace("%q", "%f")], id="next-iteration"),
        pytest.param([LOOP, CALL, "scf.yield %old : f32 }", "%v = tensor.extract %f[%c0, %c1] : tensor<1x8xf32>", FINAL_CALL.replace("%q", "%f")], id="after-the-loop"),
        pytest.param([LOOP, CALL, "scf.yield %old : f32 }", FINAL_CALL.replace("%q", "%f")], id="call-in-next-iteration"),
        pytest.param([TILE_CALL, READ, PUT_BACK, FINAL_CALL], id="tensor-after-its-slice"),
        pytest.param([TILE_CALL, PUT_BACK, READ, FINAL_CALL], id="tensor-after-the-insertion"),
        pytest.param([TILE_CALL, *other_slice(2), PUT_BACK, FINAL_CALL], id="another-slice"),
        pytest.param([READ, TILE_CALL, other_tile(2), *(line.replace("[0, 4]", "[0, 2]") for line in PUT_BACK_BOTH), FINAL_CALL], id="tiles-that-overlap"),
    ],
)  # fmt: skip
def test_a_read_after_a_microkernel_has_overwritten_a_tensor_is_refused(reads: list[str]) -> None:
    with pytest.raises(CompileError, match="a tensor is used after a microkernel has overwritten it"):
        compile_to("dispatches", IN_PLACE_TWICE.replace("CALL", "\n".join(reads)))


def test_a_read_after_an_insertion_has_overwritten_a_tensor_is_refused() -> None:
    """The elements that an insertion copies are in the memory of the tensor that it inserts into."""
    insertion = PUT_BACK.replace("%t ", "%part ").replace("[0, 0]", "[0, 4]")
    before, after = ([READ, insertion, FINAL_CALL], [insertion, READ, FINAL_CALL])
    assert "@add_in_place" in compile_to("dispatches", IN_PLACE_TWICE.replace("CALL", "\n".join(before)))
    with pytest.raises(CompileError, match="a tensor is used after an insertion has overwritten it") as caught:
        compile_to("dispatches", IN_PLACE_TWICE.replace("CALL", "\n".join(after)))
    assert caught.value.location is not None and "read the tensor before it" in str(caught.value)


X86 = '#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">'


def test_objects_of_one_microkernel_for_all_targets_and_of_another_for_some() -> None:
    """The objects for all targets are those of every variant, also of targets that the other microkernel has no key for."""
    first, final = (f'#hal.executable.object<{{path = "{name}.o"}}>' for name in ("first", "final"))
    text = IN_PLACE_TWICE.replace("CALL", f"{CALL}\n{FINAL_CALL.replace('%w', '%x').replace('static', 'optional')}")
    text = text.replace('"add_in_place" outs(%f', f'{{hal.executable.objects = [{first}]}} "add_in_place" outs(%f')
    listed = f"#hal.executable.objects<{{{X86} = [{final}, {first}]}}>"
    text = text.replace('"add_in_place" outs(%q', f'{{hal.executable.objects = {listed}}} "add_in_place" outs(%q')
    outlined = compile_to("dispatches", text)
    for program in (text, outlined):
        lines = compile_to("executables", program, targets=["embedded-elf-x86_64", "embedded-elf-arm_64"]).splitlines()
        variants = [line for line in lines if "hal.executable.variant" in line]
        assert len(variants) == 2
        assert f"objects([{final}, {first}])" in variants[0] and f"objects([{first}])" in variants[1]


NO_COUNT = """
func.func @total(%a: tensor<?x?xf32>) -> tensor<3x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %rows = tensor.dim %a, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %a, %c1 : tensor<?x?xf32>
  %y = flow.dispatch.region -> (tensor<3x4xf32>) {
    %half = arith.divsi %columns, %c2 : index
    %part = tensor.extract_slice %a[0, 0] [%rows, %half] [1, 2] : tensor<?x?xf32> to tensor<?x?xf32>
    %s = iree_codegen.ukernel.generic {hal.executable.objects = [#hal.executable.object<{path = "kernels.c"}>]} "sum" ins(%part : tensor<?x?xf32>) (%rows, %half : index, index) fn_def_attrs {hal.import.static} -> f32
    %made = tensor.empty() : tensor<3x4xf32>
    %first = tensor.extract_slice %made[0, 0] [2, 4] [1, 1] : tensor<3x4xf32> to tensor<2x4xf32>
    %f = iree_codegen.ukernel.generic "fill" outs(%first : tensor<2x4xf32>) (%c2, %c4, %s : index, index, f32) fn_def_attrs {hal.import.static} strided_dims([[0]]) -> tensor<2x4xf32>
    %one = tensor.insert_slice %f into %made[0, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<3x4xf32>
    %row = tensor.extract_slice %one[0, 0] [1, 4] [1, 1] : tensor<3x4xf32> to tensor<1x4xf32>
    %two = tensor.insert_slice %row into %one[2, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<3x4xf32>
    flow.return %two : tensor<3x4xf32>
  }
  return %y : tensor<3x4xf32>
}
"""


def test_scalar_results_copies_and_several_kernels(folder: Path) -> None:
    """One workgroup without a grid; strides of a slice; a result that is a scalar; a slice that is copied."""
    a = np.arange(30, dtype=np.float32).reshape(5, 6)
    total = a[:, 0:6:2].sum()
    expected = np.array([[total] * 4, [total + 1] * 4, [total] * 4], np.float32)
    np.testing.assert_array_equal(load(NO_COUNT, folder).total(a), expected)


WORKGROUPS = """
func.func @scaled(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?xf32>
  %y = flow.dispatch.workgroups[%n](%a, %b, %n) : (tensor<?xf32>{%n}, tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n} =
      (%in0: !iree_tensor_ext.dispatch.tensor<readonly:tensor<?xf32>>, %in1: !iree_tensor_ext.dispatch.tensor<readonly:tensor<?xf32>>, %raw: index, %out: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<?xf32>>) {
    %size = iree_tensor_ext.dispatch.workload.ordinal %raw, 0 : index
    %id = flow.dispatch.workgroup.id[0] : index
    %at = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
    %part = affine.min affine_map<(d0)[s0] -> (s0 - d0, 64)>(%at)[%size]
    %x0 = iree_tensor_ext.dispatch.tensor.load %in0, offsets = [%at], sizes = [%part], strides = [1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<?xf32>>{%size} -> tensor<?xf32>
    %x1 = iree_tensor_ext.dispatch.tensor.load %in1, offsets = [%at], sizes = [%part], strides = [1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<?xf32>>{%size} -> tensor<?xf32>
    %e = tensor.empty(%part) : tensor<?xf32>
    %r = iree_codegen.ukernel.generic {hal.executable.objects = [#hal.executable.object<{path = "kernels.c"}>]} "mul" ins(%x0, %x1 : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) (%part, %id : index, index) fn_def_attrs {hal.import.static} strided_dims([[], [], []]) -> tensor<?xf32>
    iree_tensor_ext.dispatch.tensor.store %r, %out, offsets = [%at], sizes = [%part], strides = [1] : tensor<?xf32> -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<?xf32>>{%size}
    flow.return
  } count(%w: index) -> (index, index, index) {
    %c1 = arith.constant 1 : index
    %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%w]
    flow.return %x, %c1, %c1 : index, index, index
  }
  return %y : tensor<?xf32>
}
"""


@pytest.mark.parametrize("n", [1, 64, 1000])
def test_workgroups(n: int, folder: Path) -> None:
    a, b = np.arange(n, dtype=np.float32), np.full(n, -3, np.float32)
    np.testing.assert_array_equal(load(WORKGROUPS, folder).scaled(a, b), a * b)


READWRITE = """
func.func @shifted(%a: tensor<8xf32>) -> tensor<8xf32> {
  %four = arith.constant 4 : index
  %x = arith.constant 10.0 : f32
  %y = flow.dispatch.workgroups[%four](%a, %four, %x) : (tensor<8xf32>, index, f32) -> %a =
      (%io: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<8xf32>>, %n: index, %added: f32) {
    %c0 = arith.constant 0 : index
    %old = iree_tensor_ext.dispatch.tensor.load %io, offsets = [0], sizes = [4], strides = [1] : !iree_tensor_ext.dispatch.tensor<readwrite:tensor<8xf32>> -> tensor<4xf32>
    FIRST
    %r = iree_codegen.ukernel.generic {hal.executable.objects = [#hal.executable.object<{path = "kernels.c"}>]} "add_in_place" outs(%old : tensor<4xf32>)
      (%n, %added : index, f32) fn_def_attrs {hal.import.static} strided_dims([[0]]) -> tensor<4xf32>
    BETWEEN
    iree_tensor_ext.dispatch.tensor.store %r, %io, offsets = [0], sizes = [4], strides = [1] : tensor<4xf32> -> !iree_tensor_ext.dispatch.tensor<readwrite:tensor<8xf32>>
    AFTER
    flow.return
  } count(%w: index) -> (index, index, index) {
    %c1 = arith.constant 1 : index
    flow.return %c1, %c1, %c1 : index, index, index
  }
  return %y : tensor<8xf32>
}
"""
COPIED = "%copied = iree_tensor_ext.dispatch.tensor.load %io, offsets = [0], sizes = [4], strides = [1] : !iree_tensor_ext.dispatch.tensor<readwrite:tensor<8xf32>> -> tensor<4xf32>"


STORED_AGAIN = "iree_tensor_ext.dispatch.tensor.store %copied, %io, offsets = [4], sizes = [4], strides = [1] : tensor<4xf32> -> !iree_tensor_ext.dispatch.tensor<readwrite:tensor<8xf32>>"


def readwrite(load_position: str, store_position: str) -> str:
    """Return a program that adds 10 to four elements in place, and loads and stores a copy of them at two positions."""
    text = READWRITE
    for name in ("FIRST", "BETWEEN", "AFTER"):
        ops = (COPIED if name == load_position else "", STORED_AGAIN if name == store_position else "")
        text = text.replace(name, "\n    ".join(ops))
    return text


def test_a_load_after_the_store_of_a_slice_reads_its_new_elements(folder: Path) -> None:
    a = np.arange(8, dtype=np.float32)
    y = load(readwrite("AFTER", "AFTER"), folder).shifted(a.copy())
    np.testing.assert_array_equal(y, np.tile(a[:4] + 10, 2))


def test_a_load_and_its_use_before_a_slice_is_overwritten_read_its_old_elements(folder: Path) -> None:
    a = np.arange(8, dtype=np.float32)
    y = load(readwrite("FIRST", "FIRST"), folder).shifted(a.copy())
    np.testing.assert_array_equal(y, np.concatenate([a[:4] + 10, a[:4]]))


@pytest.mark.parametrize(
    "positions", [("FIRST", "BETWEEN"), ("FIRST", "AFTER"), ("BETWEEN", "BETWEEN"), ("BETWEEN", "AFTER")]
)
def test_a_use_of_old_elements_after_a_slice_is_overwritten_is_refused(positions: tuple[str, str]) -> None:
    with pytest.raises(CompileError, match="a slice is read after its binding was written") as caught:
        compile_to("dispatches", readwrite(*positions))
    assert caught.value.location is not None


def test_a_slice_that_is_loaded_by_another_name_of_its_binding_is_the_same_memory(folder: Path) -> None:
    """`flow.dispatch.tie_shape` returns the binding: a load of it before the write is in place, a later use is refused."""
    tie = "%tied = flow.dispatch.tie_shape %io : !iree_tensor_ext.dispatch.tensor<readwrite:tensor<8xf32>>"

    def tied(text: str) -> str:
        return text.replace("%c0 = arith.constant 0 : index", tie).replace("load %io,", "load %tied,")

    a = np.arange(8, dtype=np.float32)
    y = load(tied(readwrite("AFTER", "AFTER")), folder).shifted(a.copy())
    np.testing.assert_array_equal(y, np.tile(a[:4] + 10, 2))
    with pytest.raises(CompileError, match="a slice is read after its binding was written"):
        compile_to("dispatches", tied(readwrite("FIRST", "AFTER")))


def test_a_slice_is_read_after_a_write_of_another_slice(folder: Path) -> None:
    """Elements 4 to 7 are loaded first, and stored after elements 0 to 3 are overwritten, where they were."""
    a = np.arange(8, dtype=np.float32)
    text = readwrite("FIRST", "AFTER").replace(COPIED, COPIED.replace("offsets = [0]", "offsets = [4]"))
    y = load(text, folder).shifted(a.copy())
    np.testing.assert_array_equal(y, np.concatenate([a[:4] + 10, a[4:]]))


def in_loop(text: str) -> str:
    """Execute the microkernel and its store three times; the load of what it overwrites remains before the loop."""
    first, end = text.index("    %r = iree_codegen"), text.index("    flow.return\n")
    loop = f"%c1 = arith.constant 1 : index\n%c3 = arith.constant 3 : index\nscf.for %i = %c0 to %c3 step %c1 {{\n{text[first:end]}}}\n"
    return text[:first] + loop + text[end:]


def test_a_loop_reads_slices_that_it_loads_itself(folder: Path) -> None:
    """Each iteration adds to the elements that the previous one has stored. A slice that is loaded before the loop has the
    elements before all iterations, which the second iteration no longer finds in memory: that is refused."""
    before, a = readwrite("", ""), np.arange(8, dtype=np.float32)
    with pytest.raises(CompileError, match="a slice is read after its binding was written") as caught:
        compile_to("dispatches", in_loop(before))
    assert caught.value.location is not None
    loaded = before[before.index("    %old = ") :].splitlines()[0]
    inside = in_loop(before.replace(loaded, "")).replace("    %r = iree_codegen", loaded + "\n    %r = iree_codegen")
    np.testing.assert_array_equal(load(inside, folder).shifted(a.copy()), np.concatenate([a[:4] + 30, a[4:]]))


def test_a_slice_is_not_read_after_an_insertion_in_place(folder: Path) -> None:
    """An insertion into a loaded tensor writes to the memory that its result is stored in."""
    text = readwrite("FIRST", "")
    first, end = text.index("    %r = iree_codegen"), text.index("    flow.return\n")
    whole = STORED_AGAIN.replace("%copied", "%new").replace("[4]", "[0]", 1).replace("sizes = [4]", "sizes = [8]")
    read = "%element = tensor.extract %all[%c0] : tensor<8xf32>"
    ops = [
        COPIED.replace("%copied", "%all")
        .replace("sizes = [4]", "sizes = [8]")
        .replace("tensor<4xf32>", "tensor<8xf32>"),
        "%new = tensor.insert_slice %copied into %all[4] [4] [1] : tensor<4xf32> into tensor<8xf32>",
        whole.replace("tensor<4xf32>", "tensor<8xf32>"),
    ]
    lines = {position: "\n".join([*ops[:position], read, *ops[position:], ""]) for position in (1, 2)}
    a = np.arange(8, dtype=np.float32)
    y = load(text[:first] + lines[1] + text[end:], folder).shifted(a.copy())
    np.testing.assert_array_equal(y, np.tile(a[:4], 2))
    with pytest.raises(CompileError, match="a slice is read after its binding was written"):
        compile_to("dispatches", text[:first] + lines[2] + text[end:])


def test_export_config_is_the_size_of_the_export() -> None:
    """The stated size, filled up with ones, stands in the export and in what the loader reads of it."""
    config = "attributes {export_config = #iree_codegen.export_config<workgroup_size = [16, 2]>} {"
    text = region().replace("-> (tensor<?xf32>{%n}) {", f"-> (tensor<?xf32>{{%n}}) {config}")
    assert "workgroup_size = [16 : index, 2 : index, 1 : index]" in compile_to("executables", text)
    assert "workgroup_size" not in compile_to("executables", region())


def test_strides_of_a_call_are_those_of_the_peer() -> None:
    """Bases, offsets and strides in the order that IREE's lowering of the same operation gives (observed with its tool)."""
    text = compile_to("dispatches", NO_COUNT)
    assert "func.func private @sum(memref<f32>, index, index, index, index, index) -> f32" in text
    assert "func.func private @fill(memref<f32>, index, index, index, index, f32)" in text
    text = compile_to("dispatches", region())
    assert (
        "@mul(memref<f32>, index, memref<f32>, index, memref<f32>, index, index, index) attributes {llvm.bareptr = true"
        in text
    )


@pytest.mark.parametrize(
    ("program", "old", "new", "message"),
    [
        (region(), "into %made[%at]", "into %made[%size]", "what is written here is not put back where it was taken from"),
        (region(), "%x2 = tensor.extract_slice %made", "%x2 = tensor.extract_slice %b", "what is written here is not put back"),
        (region(), "strided_dims([[], [], []])", "strided_dims([[], [], [4]])", "strided_dims gives [4] for operand 2 of rank 1"),
        (region(), "%z = tensor.insert_slice", "%w = arith.addf %r, %r : tensor<?xf32>\n%z = tensor.insert_slice", "'arith.addf' on tensors is not understood inside a dispatch"),
        (region(), "count(%g: index) -> (index, index, index) {\n    flow.return %g, %one, %one : index, index, index\n  }", "", "asks for its workgroup id but has no grid"),
        (IN_PLACE, "%z = tensor.insert_slice %r", "%e = tensor.extract %s[%row, %row] : tensor<1x?xf32>\n%z = tensor.insert_slice %r", "used after a microkernel has overwritten it"),
        (NO_COUNT, "outs(%first : tensor<2x4xf32>)", "outs(%first, %made : tensor<2x4xf32>, tensor<3x4xf32>)", "1 tensor results and 2 tensors in outs"),
    ],
)  # fmt: skip
def test_what_is_refused(program: str, old: str, new: str, message: str) -> None:
    assert old in program
    with pytest.raises(CompileError) as caught:
        compile_to("dispatches", program.replace(old, new))
    assert message in caught.value.message and caught.value.location is not None
