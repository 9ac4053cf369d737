"""Programs for CUDA, compiled here and run on the interpreter, against NumPy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_programs import MIXED, TWO, export, layout, objects, size, source, target, vectors
from test_cuda_target_functions import MEMREFS, STATIC_OP, bitcode, scalar, ukernel
from test_cuda_target_kernels import CONSTANTS, FIXED, SM_75, SM_80
from tools import DATA, compile_cu

import pydispatch as pd
from pydispatch.compiler.backends.cuda import tools


@pytest.fixture
def device() -> Any:
    return pd.device("ptx-interpreter?races=1")


N = "n"


def random(n: int, count: int = 2) -> Any:
    return np.random.default_rng(n).standard_normal((count, n), dtype=np.float32)


def test_the_program_of_the_document(device: Any) -> None:
    text = source({target(f"sm_{n}"): [DATA / f"kernels_sm_{n}.ptx"] for n in (75, 80, 90)}, TWO, MIXED)
    artifact = pd.compile(text, targets="cuda")
    for n in (1, 64, 1000):
        a, b = random(n)
        np.testing.assert_array_equal(np.asarray(device.load(artifact).mixed_invocation(a, b)), a * b * b)


def test_the_best_variant_is_chosen_by_capability_and_not_by_order(tmp_path: Path) -> None:
    """Every variant writes its own number."""
    kernel = """.version 8.0
.target sm_{0}
.address_size 64
.visible .entry which(.param .u64 out) {{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, {0};
  st.global.u32 [%rd2], %r1;
  ret;
}}"""
    for n in (75, 80, 90):
        (tmp_path / f"{n}.ptx").write_text(kernel.format(n))
    host = """func.func @which() -> tensor<1xi32> {
    %c1 = arith.constant 1 : index
    %r = flow.dispatch @executable::@which[%c1]() : () -> tensor<1xi32>
    return %r : tensor<1xi32>
  }"""
    for order in ((75, 80, 90), (90, 80, 75), (80, 90, 75)):
        keyed = {target(f"sm_{n}"): [tmp_path / f"{n}.ptx"] for n in order}
        program = source(keyed, export("which", 0, layout(0, "out"), size(1)), host)
        artifact = pd.compile(program, targets="cuda")
        for capability, expected in (("7.5", 75), ("8.0", 80), ("8.9", 80), ("9.0", 90), ("12.0", 90)):
            y = pd.device(f"ptx-interpreter?capability={capability}").load(artifact).which()
            assert np.asarray(y)[0] == expected, (order, capability)
        with pytest.raises(pd.DeviceUnavailableError, match="sm_75"):
            pd.device("ptx-interpreter?capability=7.0").load(artifact)


def test_scalars_blocks_memory_and_constants(device: Any) -> None:
    text = """func.func @f(%a: tensor<?xi64>, %k: i64, %x: f64, %s: i16) -> tensor<?xi64> {
    %c0 = arith.constant 0 : index
    %d = tensor.dim %a, %c0 : tensor<?xi64>
    %n = arith.index_cast %d : index to i32
    %r = flow.dispatch @executable::@scale[%d](%k, %x, %s, %n, %a) : (i64, f64, i16, i32, tensor<?xi64>{%d})
      -> tensor<?xi64>{%d}
    return %r : tensor<?xi64>
  }"""
    f = device.load(
        pd.compile(source({target(): [SM_75]}, export("scale", 0, layout(6, "in", "out")), text), targets="cuda")
    ).f
    a = np.arange(-50, 50)
    for k, x, s in ((3, 2.0**40, -7), (-(2**33), -7.0, 32767), (3, 2.0**40, -7)):
        np.testing.assert_array_equal(np.asarray(f(a, k, x, np.int16(s))), a * k + int(x) + s)

    shape = layout(0, "in", "out")
    text = """func.func @f(%a: tensor<256xf32>) -> tensor<256xf32> {
    %d = arith.constant 256 : index
    %r = flow.dispatch @executable::@reverse[%d](%a) : (tensor<256xf32>) -> tensor<256xf32>
    return %r : tensor<256xf32>
  }"""
    kernel = export("reverse", 0, shape, size(128, more=", workgroup_local_memory = 512 : index"), per=128)
    v = np.arange(256, dtype=np.float32)
    y = device.load(pd.compile(source({target(): [SM_80]}, kernel, text), targets="cuda")).f(v)
    np.testing.assert_array_equal(np.asarray(y), v.reshape(2, 128)[:, ::-1].reshape(-1))

    text = source({target(): [SM_75]}, export("affine", 0, layout(1, "in", "out")), vectors("affine", "i32", inputs=1),
                  CONSTANTS.format("factor"))  # fmt: skip
    v = np.arange(200, dtype=np.int32)
    np.testing.assert_array_equal(np.asarray(device.load(pd.compile(text, targets="cuda")).affine(v)), v * 5 + 11)

    text = """func.func @f() -> tensor<128xf32> {
    %d = arith.constant 128 : index
    %r = flow.dispatch @executable::@fixed[%d]() : () -> tensor<128xf32>
    return %r : tensor<128xf32>
  }"""
    y = device.load(
        pd.compile(source({target(): [FIXED]}, export("fixed", 0, layout(0, "out"), ""), text), targets="cuda")
    ).f()
    rows = np.arange(128) // 32 % 2
    np.testing.assert_array_equal(np.asarray(y), rows * 100 + np.arange(128) % 32)


@pytest.mark.parametrize("kind", [".ptx", ".c", ".bc", ".cu", "clang"])
def test_static_functions(kind: str, device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "clang":
        monkeypatch.setattr(tools, "has_cuda_compiler", lambda: False)
    files = {".ptx": DATA / "functions_sm_75.ptx", ".c": DATA / "functions.c", ".bc": bitcode(tmp_path)}
    file = files.get(kind, DATA / "functions.cu")
    for n in (1, 64, 1000):
        a, b = random(n)
        f = device.load(pd.compile(ukernel([file]), targets="cuda")).f
        np.testing.assert_array_equal(np.asarray(f(a, b)), a * b)
        f = device.load(
            pd.compile(scalar([file], STATIC_OP, "func.call @user_op(%x, %x) : (f32, f32) -> f32"), targets="cuda")
        ).f
        np.testing.assert_allclose(np.asarray(f(a)), a * a + 1, rtol=1e-6)


SCALARS = """#include <stdbool.h>
typedef signed char i8; typedef short i16; typedef long long i64; typedef unsigned short u16;
PRE bool f_i1(bool x) { return !x; }
PRE i8 f_i8(i8 x) { return x * 3; }
PRE i16 f_i16(i16 x) { return x * 3; }
PRE int f_i32(int x) { return x * 3; }
PRE i64 f_i64(i64 x) { return x * 3; }
PRE float f_f32(float x) { return x * 3; }
PRE double f_f64(double x) { return x * 3; }
PRE u16 f_f16(u16 x) { return x ^ 0x8000; }  // halves are their bits
PRE u16 f_bf16(u16 x) { return x ^ 0x8000; }
PRE u16 f_u16(u16 x) { return x >> 1; }
"""
GIVEN = {
    "i1": np.array([0, 1, 1, 0], np.bool_), "i8": np.array([-128, -1, 5, 127], np.int8),
    "i16": np.array([-32768, -1, 5, 32767], np.int16), "i32": np.array([-(2**31), -1, 5, 7], np.int32),
    "i64": np.array([-(2**63), -1, 5, 2**62], np.int64), "f32": np.float32([1, 2, -3, 0.5]),
    "f64": np.float64([1, 2, -3, 0.1]), "f16": np.float16([1, 2, -3, 0.5]),
}  # fmt: skip


@pytest.mark.parametrize("type", [*GIVEN, "u16"])
@pytest.mark.parametrize("kind", [".c", ".cu"])
def test_scalars_of_functions(kind: str, type: str, device: Any, tmp_path: Path) -> None:
    """Narrow integers are extended as C has it, by bitcode that is inlined and by calls in PTX."""
    head = 'extern "C" __device__' if kind == ".cu" else ""
    text = SCALARS.replace("PRE", head)
    (tmp_path / f"f{kind}").write_text(text if kind == ".c" else text.replace("#include <stdbool.h>", ""))
    v, of, mark = GIVEN["i16" if type == "u16" else type], "i16" if type == "u16" else type, ""
    if type == "u16":
        mark = " {llvm.zeroext}"
    declared = f"@f_{type}({of}{mark}) -> ({of}{mark}) attributes {{hal.import.static}}"
    program = scalar([tmp_path / f"f{kind}"], declared, f"func.call @f_{type}(%x) : ({of}) -> {of}", of)
    y = np.asarray(device.load(pd.compile(program, targets="cuda")).f(v)).view(v.dtype)
    with np.errstate(over="ignore"):
        wanted = {"i1": lambda: ~v, "f16": lambda: -v, "u16": lambda: (v.view(np.uint16) >> 1).view(np.int16)}
        np.testing.assert_array_equal(y, wanted.get(type, lambda: v * v.dtype.type(3))())


def test_one_c_source_for_both_devices(device: Any) -> None:
    """The same text, C included, on the CPU and on CUDA: the same bits where nothing is rounded twice."""
    text = ukernel([DATA / "functions.c"])
    a, b = random(300)
    artifact = pd.compile(text, targets=("cpu", "cuda"))
    on_cpu = pd.device("cpu").load(artifact).f(a, b)
    np.testing.assert_array_equal(np.asarray(device.load(artifact).f(a, b)), on_cpu)
    declaration = "@user_math(f64) -> f64 attributes {hal.import.static}"
    text = scalar([DATA / "functions.c"], declaration, "func.call @user_math(%x) : (f64) -> f64", "f64")
    x = np.abs(random(100, 1)[0]).astype(np.float64)
    y = np.asarray(device.load(pd.compile(text, targets="cuda")).f(x))
    np.testing.assert_allclose(y, np.exp(x) + np.sqrt(x) * np.tanh(x), rtol=1e-15)


def test_c_for_a_cpu_works_in_place(device: Any) -> None:
    """A function that knows nothing of threads is called once for each workgroup."""
    bare = "@serial_scale(memref<?xf32>, index, f32) attributes {hal.import.static, llvm.bareptr}"
    text = ukernel([DATA / "functions.c"])
    text = text.replace(f"@simple_mul_workgroup({MEMREFS}) attributes {{hal.import.static}}", bare)
    text = re.sub(r"func.call @simple_mul_workgroup.*",
                  "%s = arith.constant 2.0 : f32\n"
                  "func.call @serial_scale(%mb, %n, %s) : (memref<?xf32>, index, f32) -> ()",
                  text)  # fmt: skip
    text = text.replace("-> tensor<?xf32>{%n}\n    return", "-> %b{%n}\n    return").replace(
        ", %c: !stream.binding", ""
    )
    text = re.sub(r"%mc = .*", "", text).replace("ceildiv 64", "ceildiv 100000")
    a, b = random(100)
    y = device.load(pd.compile(text, targets="cuda")).f(a, b)
    np.testing.assert_allclose(np.asarray(y), b * 2 + 1, rtol=1e-6)


def test_imports_are_found_in_plugins(device: Any) -> None:
    artifact = pd.compile(ukernel([], ""), targets="cuda")
    with pytest.raises(pd.MissingImportError) as caught:
        device.load(artifact)
    assert 'extern "C" __device__ void simple_mul_workgroup(float* a0' in str(caught.value)
    device.add_plugin(DATA / "functions_sm_75.ptx")
    a, b = random(300)
    np.testing.assert_array_equal(np.asarray(device.load(artifact).f(a, b)), a * b)


def test_optional_imports_and_fallbacks(device: Any) -> None:
    own = """func.func @own(%a: memref<?xf32>, %b: memref<?xf32>, %c: memref<?xf32>, %n: index, %first: index) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        scf.parallel (%i) = (%c0) to (%n) step (%c1) {
          %x = memref.load %a[%i] : memref<?xf32>
          memref.store %x, %c[%i] : memref<?xf32>
          scf.reduce
        }
        return
      }
      func.func @entry("""
    text = ukernel([], "hal.import.optional, hal.import.fallback = @own").replace("func.func @entry(", own)
    artifact = pd.compile(text.replace("ceildiv 64", "ceildiv 100000"), targets="cuda")
    a, b = random(64)
    np.testing.assert_array_equal(np.asarray(device.load(artifact).f(a, b)), a)
    device.add_plugin(DATA / "functions_sm_75.ptx")
    np.testing.assert_array_equal(np.asarray(device.load(artifact).f(a, b)), a * b)


def test_machine_code_is_not_for_the_interpreter(device: Any, tmp_path: Path) -> None:
    (tmp_path / "k.cubin").write_bytes(compile_cu((DATA / "kernels.cu").read_text(), "-cubin", "-arch=sm_80"))
    artifact = pd.compile(source({target("sm_80"): [tmp_path / "k.cubin"]}, TWO, MIXED), targets="cuda")
    with pytest.raises(pd.Error, match="cubin"):
        device.load(artifact)


def test_declared_executables_are_given_at_run_time(device: Any) -> None:
    artifact = pd.compile(source({}, TWO, MIXED), targets="cuda")
    device.add_executable("executable", SM_75)
    a, b = random(200)
    np.testing.assert_array_equal(np.asarray(device.load(artifact).mixed_invocation(a, b)), a * b * b)


def test_whole_kernels_that_call_functions_of_others(device: Any) -> None:
    """Linked when another object has them, else when the program is loaded."""
    kernel, shape = DATA / "caller_kernels_sm_75.ptx", layout(1, "in", "in", "out")
    program = [export("apply", 0, shape), vectors("apply")]
    artifact = pd.compile(source({target(): [kernel, SM_75, DATA / "functions_sm_75.ptx"]}, *program), targets="cuda")
    (variant,) = artifact.executables[0].variants
    assert variant.imports == [] and len(variant.extra["ptx"]["modules"]) == 2  # the functions alone are used up
    a, b = random(200)
    expected = np.float32(a.astype(np.float64) * b + 1)
    np.testing.assert_allclose(np.asarray(device.load(artifact).apply(a, b)), expected, rtol=1e-6)

    artifact = pd.compile(source({target(): [kernel]}, *program), targets="cuda")
    (variant,) = artifact.executables[0].variants
    assert variant.imports == ["user_op"] and variant.extra["calls"][0]["exports"] == ["apply"]
    with pytest.raises(pd.MissingImportError, match=r"'user_op', which @apply calls\n.*user_op\(.b32, .b32\) -> .b32"):
        device.load(artifact)
    device.add_plugin(DATA / "functions_sm_75.ptx")
    np.testing.assert_allclose(np.asarray(device.load(artifact).apply(a, b)), expected, rtol=1e-6)
    with pytest.raises(pd.CompileError, match=r"has no kernel|is no entry of the objects"):
        pd.compile(source({target(): [DATA / "functions_sm_75.ptx"]}, *program), targets="cuda")


WIDE = """hal.executable.constant.block() -> (i64, f64, i32) as ("big", "real", "small") {
      %b = arith.constant 1311768467463790320 : i64
      %r = arith.constant 0.1 : f64
      %s = arith.constant -5 : i32
      hal.return %b, %r, %s : i64, f64, i32
    }"""


def test_executable_constants_of_64_bits(device: Any, tmp_path: Path) -> None:
    """Two words of a variable of 8 bytes; the same in kernels that are generated, on the CPU too."""
    (tmp_path / "wide.ptx").write_text(""".version 7.0
.target sm_75
.address_size 64
.visible .const .align 8 .b64 big;
.visible .const .align 8 .f64 real;
.visible .const .align 4 .u32 small;
.visible .entry wide(.param .u64 wide_0, .param .u64 wide_1) {
  .reg .b64 %rd<6>;
  .reg .f64 %fd<2>;
  ld.param.u64 %rd1, [wide_0];
  ld.param.u64 %rd4, [wide_1];
  ld.const.u64 %rd2, [big];
  ld.const.s32 %rd3, [small];
  add.s64 %rd2, %rd2, %rd3;
  ld.const.f64 %fd1, [real];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd4, %rd4;
  st.global.u64 [%rd1], %rd2;
  st.global.f64 [%rd4], %fd1;
  ret;
}""")
    host = """func.func @f() -> (tensor<1xi64>, tensor<1xf64>) {
    %c1 = arith.constant 1 : index
    %r:2 = flow.dispatch @executable::@wide[%c1]() : () -> (tensor<1xi64>, tensor<1xf64>)
    return %r#0, %r#1 : tensor<1xi64>, tensor<1xf64>
  }"""
    kernel = export("wide", 0, layout(0, "out", "out"), size(1))
    artifact = pd.compile(source({target(): [tmp_path / "wide.ptx"]}, kernel, host, WIDE), targets="cuda")
    assert artifact.executables[0].variants[0].extra["ptx"]["constants"] == ["big", "big", "real", "real", "small"]
    expected = 1311768467463790320 - 5
    n, x = device.load(artifact).f()
    assert np.asarray(n)[0] == expected and np.asarray(x)[0] == 0.1
    body = """builtin.module {
      func.func @wide() {
        %c0 = arith.constant 0 : index
        %a = hal.interface.binding.subspan layout(LAYOUT) binding(0) offset(%c0) : memref<1xi64>
        %b = hal.interface.binding.subspan layout(LAYOUT) binding(1) offset(%c0) : memref<1xf64>
        %big = hal.executable.constant.load "big" : i64
        %real = hal.executable.constant.load "real" : f64
        %small = hal.executable.constant.load "small" : i32
        %wide = arith.extsi %small : i32 to i64
        %sum = arith.addi %big, %wide : i64
        memref.store %sum, %a[%c0] : memref<1xi64>
        memref.store %real, %b[%c0] : memref<1xf64>
        return
      }
    }""".replace("LAYOUT", layout(0, "out", "out"))
    artifact = pd.compile(source({}, kernel, host, WIDE + body), targets=("cpu", "cuda"))
    for each in (device, pd.device("cpu")):
        n, x = each.load(artifact).f()
        assert np.asarray(n)[0] == expected and np.asarray(x)[0] == 0.1


def test_objects_in_place_need_no_name(device: Any) -> None:
    def data(path: Path) -> str:
        content = path.read_bytes()
        return f'dense<"0x{content.hex().upper()}"> : vector<{len(content)}xi8>'

    text = source({target("sm_75"): ["NAME"]}, TWO, MIXED).replace('path = "NAME"', f"data = {data(SM_75)}")
    a, b = random(100)
    y = device.load(pd.compile(text, targets="cuda")).mixed_invocation(a, b)
    np.testing.assert_array_equal(np.asarray(y), a * b * b)
    text = ukernel(["NAME"]).replace('path = "NAME"', f"data = {data(DATA / 'functions_sm_75.ptx')}")
    np.testing.assert_array_equal(np.asarray(device.load(pd.compile(text, targets="cuda")).f(a, b)), a * b)


# Match and replace


def test_a_python_pattern_is_replaced_by_ptx(device: Any) -> None:
    @pd.pattern
    def mul(a: pd.f32[N], b: pd.f32[N]):  # type: ignore[no-untyped-def, valid-type]
        return a * b

    kernel = pd.ptx(
        SM_75.read_bytes(), "simple_mul", constants=("n",), workgroups=(("n", 64),), workgroup_size=(64, 1, 1)
    )
    mul.replace(kernel)
    text = """func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %0 = arith.mulf %a, %b : tensor<?xf32>
    %1 = arith.addf %0, %b : tensor<?xf32>
    return %1 : tensor<?xf32>
  }"""
    artifact = pd.compile(text, targets="cuda", patterns=[mul], require_match=True)
    names = [v.extra["ptx"]["entries"] for e in artifact.executables for v in e.variants]
    assert [[0, "simple_mul"]] in names
    a, b = random(500)
    np.testing.assert_array_equal(np.asarray(device.load(artifact).f(a, b)), a * b + b)


def test_a_python_pattern_is_replaced_by_c(device: Any) -> None:
    """The same C on the CPU and on CUDA, where one thread of a block calls it."""

    @pd.pattern
    def mul(a: pd.f32[N], b: pd.f32[N]):  # type: ignore[no-untyped-def, valid-type]
        return a * b

    code = """#include <stddef.h>
void vmul(const float* a, const float* b, float* out, size_t n, size_t first) {
  size_t end = first + 64 < n ? first + 64 : n;
  for (size_t i = first; i < end; ++i) out[i] = a[i] * b[i];
}"""
    kernel = pd.CFunction(code, "vmul", "a", "b", "out", "n", "first", tile={"n": 64})
    text = """func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %0 = arith.mulf %a, %b : tensor<?xf32>
    %1 = arith.addf %0, %b : tensor<?xf32>
    return %1 : tensor<?xf32>
  }"""
    artifact = pd.compile(text, targets=("cpu", "cuda"), patterns=[mul.replace(kernel)], require_match=True)
    a, b = random(500)
    for each in (device, pd.device("cpu")):
        np.testing.assert_array_equal(np.asarray(each.load(artifact).f(a, b)), a * b + b)


def test_a_transform_spec_brings_ptx(device: Any, tmp_path: Path) -> None:
    spec = f"""module attributes {{transform.with_named_sequence}} {{
  util.func private @call_kernel(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {{
    %c0 = arith.constant 0 : index
    %d = tensor.dim %a, %c0 : tensor<?xf32>
    %n = arith.index_cast %d : index to i32
    %r = hal.dispatch.extern "simple_mul"[%d](%n, %a, %b) : (i32, tensor<?xf32>{{%d}}, tensor<?xf32>{{%d}})
        -> tensor<?xf32>{{%d}}
      count(%device: !hal.device, %w: index) -> (index, index, index) {{
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%w]
        %c1 = arith.constant 1 : index
        hal.return %x, %c1, %c1 : index, index, index
      }}
      layout({layout(1, "in", "in", "out")})
      objects({{ {target("sm_75")} ordinal(0) = [{objects([SM_75])}] }})
      attributes {{workgroup_size = [64 : index, 1 : index, 1 : index]}}
    util.return %r : tensor<?xf32>
  }}
  transform.named_sequence @match(%op: !transform.any_op {{transform.readonly}})
      -> (!transform.any_value, !transform.any_value) {{
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %op {{
      ^bb0(%a: tensor<?xf32>, %b: tensor<?xf32>):
      %0 = arith.mulf %a, %b : tensor<?xf32>
    }} : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    transform.yield %ins, %outs : !transform.any_value, !transform.any_value
  }}
  transform.named_sequence @rewrite(%ins: !transform.any_value, %out: !transform.any_value) {{
    %root = transform.get_defining_op %out : (!transform.any_value) -> !transform.any_op
    %module = transform.util.get_nearest_symbol_table %root : (!transform.any_op) -> !transform.any_op
    %function = transform.util.import_symbol @call_kernel into %module if undefined
        : (!transform.any_op) -> !transform.any_op
    transform.util.cast_and_call %function(%ins) -> %out after %root {{
      transform.type_conversion.tensor.cast_shape_dynamic_dims
    }} : (!transform.any_op, !transform.any_value, !transform.any_value, !transform.any_op) -> !transform.any_op
    transform.yield
  }}
  transform.named_sequence @__transform_main(%module: !transform.any_op) {{
    %funcs = transform.structured.match ops{{["func.func", "util.func"]}} in %module
        : (!transform.any_op) -> !transform.any_op
    transform.foreach %funcs : !transform.any_op {{
      ^bb1(%f: !transform.any_op):
        transform.foreach_match in %f @match -> @rewrite : (!transform.any_op) -> (!transform.any_op)
    }}
    transform.apply_dce to %module : !transform.any_op
    transform.yield
  }}
}}"""
    path = tmp_path / "spec.mlir"
    path.write_text(spec)
    text = """func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %0 = arith.mulf %a, %b : tensor<?xf32>
    return %0 : tensor<?xf32>
  }"""
    artifact = pd.compile(text, targets="cuda", transform_spec=path, require_match=True)
    (executable,) = artifact.executables
    assert executable.variants[0].extra["ptx"]["entries"] == [[0, "simple_mul"]]
    a, b = random(130)
    np.testing.assert_array_equal(np.asarray(device.load(artifact).f(a, b)), a * b)
