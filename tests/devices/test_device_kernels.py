"""Kernels of users on every device: in place, given at run time, on views of buffers, and those that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_device_programs import CONSTANTS, SCALE
from cuda_programs import vectors as unary
from device_table import BLOCK, DEVICES, INPLACE, MUL, PTX, Device, name_of
from vulkan_programs import binary, export, layout

import pydispatch as pd


def vectors(n: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(n)
    return random.random(n, np.float32), random.random(n, np.float32)


def test_several_kernels_in_one_program(program: Any) -> None:
    for n in (0, 1, 64, 1000, 4096):
        a, b = vectors(n)
        kept = b.copy()
        y = program.mixed(a, b)
        assert isinstance(y, pd.Buffer) and y.shape == (n,) and y.dtype == np.float32
        np.testing.assert_array_equal(np.asarray(y), b * (a * b))
        assert (b == kept).all()  # inputs are never written


def test_inline_extern(row: Device, device: Any, tmp_path: Path) -> None:
    text = f"""func.func @f(%a: tensor<100xf32>, %b: tensor<100xf32>) -> tensor<100xf32> {{
    %d = arith.constant 100 : index
    %n = arith.constant 100 : i32
    %r = hal.dispatch.extern "mul"[%d](%n, %a, %b) : (i32, tensor<100xf32>, tensor<100xf32>) -> tensor<100xf32>
      count(%device: !hal.device, %w: index) -> (index, index, index) {{
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        hal.return %c2, %c1, %c1 : index, index, index
      }}
      layout({layout(1, "in", "in", "out")}) {BLOCK}
      objects({{ {row.attribute} ordinal(0) = [#hal.executable.object<{{path = "{row.kernels(tmp_path)[0]}"}}>] }})
    return %r : tensor<100xf32>
  }}"""
    a, b = vectors(100)
    np.testing.assert_array_equal(np.asarray(device.load(pd.compile(text, targets=row.target)).f(a, b)), a * b)


def test_dynamic_executable(row: Device, device: Any, tmp_path: Path) -> None:
    artifact = row.compiled([], MUL, binary("mul"))
    assert artifact.executables[0].variants[0].extra["dynamic"]
    path = row.kernels(tmp_path)[0]
    with pytest.raises(pd.MissingImportError, match=rf"add_executable\('executable', 'kernels{path.suffix}'\)"):
        device.load(artifact)
    a, b = vectors(1000)
    good = path.read_bytes()
    for given in (path, good):
        device.add_executable("executable", given)
        np.testing.assert_array_equal(np.asarray(device.load(artifact).mul(a, b)), a * b)
    device.add_executable("executable", row.misfit.broken(tmp_path, good))
    with pytest.raises(pd.ArtifactError, match=row.misfit.message):
        device.load(artifact)
    with pytest.raises(pd.ArtifactError, match=row.misfit.foreign_message):
        device.add_executable("executable", row.misfit.foreign)


def test_entry_points_and_sizes(row: Device, tmp_path: Path) -> None:
    objects = row.kernels(tmp_path)
    other = export("mull", 1, 1, ("in", "in", "out"), more=BLOCK)
    with pytest.raises(pd.CompileError, match=f"export '@mull' {row.misfit.no_entry}"):
        row.compiled(objects, MUL + other, binary("mul"))
    with pytest.raises(pd.CompileError, match=rf"object file 'nowhere\{objects[0].suffix}' was not found"):
        row.compiled([Path("nowhere").with_suffix(objects[0].suffix)])
    if row.target != "cuda":  # PTX has no size of its own
        wrong = MUL.replace("[64", "[32")
        with pytest.raises(pd.CompileError, match=r"declares workgroup_size = \[32, 1, 1\], the shader has \[64, 1, 1"):
            row.compiled(objects, wrong + INPLACE)


def test_views_copies_and_fills_that_the_device_cannot_express(program: Any) -> None:
    """Bindings at offsets below the device's alignment, patterns of one and eight bytes, lengths that are odd."""
    a, b = vectors(100)
    r, s, t, u = (np.asarray(value) for value in program.views(a, b))
    expected = a.copy()
    expected[9:12] = a[5:8] * b[17:20]
    np.testing.assert_array_equal(r, a[5:8] * b[17:20])
    np.testing.assert_array_equal(s, expected)
    assert (t == -5).all() and t.shape == (7,) and (u == 0x123456789ABCDEF).all() and u.shape == (9,)


@pytest.mark.parametrize("row", [row for row in DEVICES if row.target == "vulkan"], ids=name_of, indirect=True)
def test_misaligned_bindings_are_moved(device: Any, program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that wants 256 bytes still takes views at any offset, and in-place results go back to their place."""
    monkeypatch.setattr(device._context, "alignment", 256)
    test_views_copies_and_fills_that_the_device_cannot_express(program)
    text = """func.func @g(%a: tensor<96xf32>) -> tensor<96xf32> {
    %f = arith.addf %a, %a : tensor<96xf32>
    %p = tensor.extract_slice %f[32] [16] [1] : tensor<96xf32> to tensor<16xf32>
    %q = arith.mulf %p, %p : tensor<16xf32>
    %s = tensor.insert_slice %q into %f[48] [16] [1] : tensor<16xf32> into tensor<96xf32>
    return %s : tensor<96xf32>
  }"""
    a = vectors(96)[0]
    expected = a + a
    expected[48:64] = expected[32:48] ** 2
    np.testing.assert_array_equal(np.asarray(device.load(pd.compile(text, targets="vulkan")).g(a)), expected)


CUDA = pytest.mark.parametrize("row", [row for row in DEVICES if row.target == "cuda"], ids=name_of, indirect=True)


@CUDA
def test_scalars_of_all_sizes(row: Device, device: Any) -> None:
    scale = export("scale", 0, 6, ("in", "out"), more=BLOCK)
    f = device.load(row.compiled([PTX], scale, SCALE)).scale
    a = np.arange(-50, 50)
    np.testing.assert_array_equal(f(a, 1 << 40, -7.9, -3), (a << 40) - 7 - 3)
    np.testing.assert_array_equal(f(a, -1, 1e15, 2), -a + 10**15 + 2)


@CUDA
def test_executable_constants(row: Device, device: Any) -> None:
    affine = export("affine", 0, 1, ("in", "out"), more=BLOCK)
    artifact = row.compiled([PTX], affine + CONSTANTS, unary("affine", "i32", inputs=1))
    a = np.arange(100, dtype=np.int32)
    first, second = device.load(artifact), device.load(artifact)  # each has its own
    np.testing.assert_array_equal(first.affine(a), a * -5 + 11)
    np.testing.assert_array_equal(second.affine(a), a * -5 + 11)


@CUDA
def test_grids_that_cuda_does_not_start(row: Device, device: Any, tmp_path: Path) -> None:
    wide = MUL.replace("hal.return %x, %c1, %c1", "hal.return %c1, %x, %c1")
    program = device.load(row.compiled(row.kernels(tmp_path), wide, binary("mul")))
    a = np.zeros(65536 * 64, np.float32)
    with pytest.raises(pd.InvalidArgumentError, match="@executable::@mul: a grid of 1 x 65536 x 1 workgroups"):
        program.mul(a, a)


def test_the_cpu_names_the_format(row: Device, artifact_of: Any) -> None:
    artifact = artifact_of(row)
    form = artifact.executables[0].variants[0].format
    with pytest.raises(pd.DeviceUnavailableError, match=f"has the format {form}"):
        pd.device("cpu").load(artifact)
