"""Hand-written shaders from GLSL to a result, compared with NumPy."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vulkan_programs import LAYOUT, MUL, PUSH, binary, buffers, export, source

import pydispatch as pd

Glsl = Callable[..., Path]


def vectors(n: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(n)
    return random.random(n, np.float32), random.random(n, np.float32)


@pytest.fixture
def mul(glsl: Glsl) -> Path:
    return glsl("mul", buffers("-a", "-b", "c") + PUSH + MUL)


MIXED = """func.func @mixed(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %d = tensor.dim %a, %c0 : tensor<?xf32>
    %n = arith.index_cast %d : index to i32
    %0 = flow.dispatch @executable::@mul[%d](%n, %a, %b) : (i32, tensor<?xf32>{%d}, tensor<?xf32>{%d})
      -> tensor<?xf32>{%d}
    %1 = flow.dispatch @executable::@inplace[%d](%n, %0, %b) : (i32, tensor<?xf32>{%d}, tensor<?xf32>{%d}) -> %b{%d}
    %2 = arith.addf %0, %1 : tensor<?xf32>
    return %2 : tensor<?xf32>
  }"""
INPLACE = "void main() { uint i = gl_GlobalInvocationID.x; if (i < n) b[i] *= a[i]; }"
TWO = export("mul", 0, 1, ("in", "in", "out")) + export("inplace", 1, 1, ("in", "out"))


def test_several_modules_and_generated_code_in_one_program(device: Any, mul: Path, glsl: Glsl) -> None:
    inplace = glsl("inplace", buffers("-a", "b") + PUSH + INPLACE)
    artifact = pd.compile(source([str(mul), str(inplace)], TWO, MIXED), targets="vulkan")
    program = device.load(artifact)
    for n in (1, 64, 1000, 4096):
        a, b = vectors(n)
        kept = b.copy()
        y = program.mixed(a, b)
        assert isinstance(y, pd.Buffer) and y.shape == (n,) and y.dtype == np.float32
        np.testing.assert_allclose(np.asarray(y), a * b + b * (a * b), rtol=1e-6)
        assert (b == kept).all()  # inputs are never written


def test_one_module_with_several_entry_points(device: Any, glsl: Glsl, tmp_path: Path) -> None:
    parts = [
        glsl(name, text, "local_size_x = 64", "", "-e", name, "--source-entrypoint", "main")
        for name, text in (
            ("mul", buffers("-a", "-b", "c") + PUSH + MUL),
            ("inplace", buffers("-a", "b") + PUSH + INPLACE),
        )
    ]
    both = tmp_path / "both.spv"
    subprocess.run(["spirv-link", "--target-env", "vulkan1.1", *map(str, parts), "-o", str(both)], check=True)
    exports = export("mul", 0, 1, ("in", "in", "out")) + export("inplace", 1, 1, ("in", "out"))
    program = device.load(pd.compile(source([str(both)], exports, MIXED), targets="vulkan"))
    a, b = vectors(300)
    np.testing.assert_allclose(np.asarray(program.mixed(a, b)), a * b + b * (a * b), rtol=1e-6)


def test_glsl_is_compiled(device: Any, tmp_path: Path) -> None:
    text = f"#version 450\nlayout(local_size_x = 64) in;\n{buffers('-a', '-b', 'c')}{PUSH}{MUL}"
    (tmp_path / "mul.glsl").write_text(text)
    exports = export("mul", 0, 1, ("in", "in", "out"))
    mlir = source(["mul.glsl"], exports, binary("mul"))
    program = device.load(pd.compile(mlir, targets="vulkan", object_search_path=tmp_path))
    a, b = vectors()
    np.testing.assert_array_equal(np.asarray(program.mul(a, b)), a * b)
    (tmp_path / "mul.glsl").write_text(text.replace("a[i] *", "nothing[i] *"))
    with pytest.raises(pd.CompileError, match=r"mul.glsl does not compile(.|\n)*'nothing' : undeclared"):
        pd.compile(mlir, targets="vulkan", object_search_path=tmp_path)


def test_cpu_and_vulkan_variants_of_one_program(mul: Path, device: Any, tmp_path: Path) -> None:
    text = """func.func @add(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
      %r = arith.addf %a, %b : tensor<?xf32>
      return %r : tensor<?xf32>
    }"""
    artifact = pd.compile(text, targets=("cpu", "vulkan"))
    assert [v.format.split("-")[0] for e in artifact.executables for v in e.variants] == ["embedded", "vulkan"]
    a, b = vectors()
    path = tmp_path / "both.pdx"
    artifact.save(path)
    np.testing.assert_array_equal(pd.device("cpu").load(path).add(a, b), a + b)
    np.testing.assert_array_equal(np.asarray(device.load(path).add(a, b)), a + b)
    only = pd.compile(source([str(mul)], export("mul", 0, 1, ("in", "in", "out")), binary("mul")), targets="vulkan")
    with pytest.raises(pd.DeviceUnavailableError, match="variant 'vulkan' has the format vulkan-spirv-fb"):
        pd.device("cpu").load(only)


def test_scalars_of_64_bits_are_two_words(device: Any, glsl: Glsl) -> None:
    head = "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require"
    push = "layout(push_constant) uniform P { int64_t k; double x; uint n; };"
    body = "void main() { uint i = gl_GlobalInvocationID.x; if (i < n) c[i] = a[i] * k + int64_t(x); }"
    spv = glsl("scale", buffers("-a", "c", type="int64_t") + push + body, "local_size_x = 32", head)
    text = """func.func @f(%a: tensor<?xi64>, %k: i64, %x: f64) -> tensor<?xi64> {
    %c0 = arith.constant 0 : index
    %d = tensor.dim %a, %c0 : tensor<?xi64>
    %n = arith.index_cast %d : index to i32
    %r = flow.dispatch @executable::@scale[%d](%k, %x, %n, %a) : (i64, f64, i32, tensor<?xi64>{%d}) -> tensor<?xi64>{%d}
    return %r : tensor<?xi64>
  }"""
    artifact = pd.compile(source([str(spv)], export("scale", 0, 5, ("in", "out"), per=32), text), targets="vulkan")
    assert {"Int64", "Float64"} <= set(artifact.executables[0].variants[0].requires)
    f = device.load(artifact).f
    a = np.arange(-50, 50)
    for k, x in ((3, 2.0**40), (-(2**33), -7.0), (3, 2.0**40)):  # other scalars, the same plan
        np.testing.assert_array_equal(np.asarray(f(a, k, x)), a * k + int(x))


def test_specialization_from_executable_constants(device: Any, glsl: Glsl) -> None:
    head = "layout(constant_id = 7) const uint factor = 1;\nlayout(constant_id = 3) const uint offset = 1;"
    body = "void main() { uint i = gl_GlobalInvocationID.x; if (i < n) c[i] = a[i] * b[i] * factor + offset; }"
    spv = glsl("mul", head + buffers("-a", "-b", "c", type="uint") + PUSH + body)
    constants = """hal.executable.constant.block() -> (i32, i32) as ("offset", "factor") {
      %o = arith.constant 11 : i32
      %f = arith.constant 5 : i32
      hal.return %o, %f : i32, i32
    }"""
    text = source([str(spv)], export("mul", 0, 1, ("in", "in", "out")), binary("mul", "i32"), constants)
    a = np.arange(200, dtype=np.int32)
    y = device.load(pd.compile(text, targets="vulkan")).mul(a, a)
    np.testing.assert_array_equal(np.asarray(y), a * a * 5 + 11)


@pytest.mark.parametrize("name", ["factor", "other"], ids=["by name", "by number"])
def test_a_specialization_constant_of_64_bits_gets_both_words(device: Any, glsl: Glsl, name: str) -> None:
    head = "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require"
    constants = f"layout(constant_id = 1) const int64_t {name} = 1; layout(constant_id = 0) const int small = 1;"
    body = f"void main() {{ uint i = gl_GlobalInvocationID.x; if (i < n) c[i] = a[i] + {name} + small; }}"
    spv = glsl("add", buffers("-a", "c", type="int64_t") + constants + PUSH + body, "local_size_x = 64", head)
    block = f"""hal.executable.constant.block() -> (i32, i64) as ("small", "factor") {{
      %s = arith.constant -7 : i32
      %f = arith.constant {-(2**40) + 3} : i64
      hal.return %s, %f : i32, i64
    }}"""
    text = """func.func @f(%a: tensor<?xi64>) -> tensor<?xi64> {
    %c0 = arith.constant 0 : index
    %d = tensor.dim %a, %c0 : tensor<?xi64>
    %n = arith.index_cast %d : index to i32
    %r = flow.dispatch @executable::@add[%d](%n, %a) : (i32, tensor<?xi64>{%d}) -> tensor<?xi64>{%d}
    return %r : tensor<?xi64>
  }"""
    a = np.arange(100)
    artifact = pd.compile(source([str(spv)], export("add", 0, 1, ("in", "out")), text, block), targets="vulkan")
    np.testing.assert_array_equal(np.asarray(device.load(artifact).f(a)), a - 2**40 + 3 - 7)


def test_profile_names_every_command(device: Any, mul: Path) -> None:
    program = device.load(
        pd.compile(source([str(mul)], export("mul", 0, 1, ("in", "in", "out")), binary("mul")), targets="vulkan")
    )
    (timing,) = program.mul.profile(*vectors())
    assert timing.command == "@executable::@mul 16x1x1" and 0 < timing.seconds < 1
    assert program.mul.plan_of(*vectors()) == ["region 0: dispatch @executable::@mul 16x1x1"]


def test_the_tools_of_this_suite_are_there() -> None:
    for tool in ("glslangValidator", "spirv-val", "spirv-link", "spirv-dis"):
        assert shutil.which(tool), tool
    found = [name for name in pd.devices() if name.startswith("vulkan")]
    assert LAYOUT and found == [f"vulkan:{i}" for i in range(len(found))] != []
