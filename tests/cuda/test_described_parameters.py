# ruff: noqa: F821, UP037  (sizes of a pattern are names)
"""Kernels whose parameters are described: in another order, structs by value, descriptors of arrays."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_fake import device, fake
from cuda_programs import export, layout, size, source, target

import pydispatch as pd
from pydispatch.formats.ptx.parameters import Field, parameters_of, words_of

__all__ = ["device", "fake"]  # fixtures

HEAD = ".version 7.0\n.target sm_70\n.address_size 64\n"
X = np.arange(100, dtype=np.float32)
Y = np.linspace(3, -2, 100, dtype=np.float32)


def entry(name: str, parameters: str, loads: str) -> str:
    """out[i] = scale * x[i] + y[i] for i < n. loads: %f1 = scale, %rd1 to %rd3 the addresses, %r1 = n."""
    return (
        HEAD
        + f"""
.visible .entry {name}({parameters}) {{
  .reg .pred %p<2>; .reg .f32 %f<6>; .reg .b32 %r<8>; .reg .b64 %rd<16>; .reg .f64 %fd<2>; .reg .b16 %h<3>;
  {loads}
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %p1, %r5, %r1;
  @%p1 bra $end;
  mul.wide.s32 %rd4, %r5, 4;
  add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd2, %rd4; add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f2, [%rd5]; ld.global.f32 %f3, [%rd6];
  fma.rn.f32 %f4, %f1, %f2, %f3;
  st.global.f32 [%rd7], %f4;
$end:
  ret;
}}
"""
    )


def array(binding: int) -> list[str]:
    """A one-dimensional array as Numba passes it: meminfo, parent, nitems, itemsize, data, shape, strides."""
    count = "extend(constant(1)) : i64"
    return ["0 : i64", "0 : i64", count, "4 : i64", f"binding({binding})", count, "4 : i64"]


ARRAYS = ", ".join([".param .f32 p0", *(f".param .u64 p{i}" for i in range(1, 22))])
CASES: dict[str, tuple[str, list[Any]]] = {
    "scalars first": (
        entry("axpy", ".param .f32 a, .param .u32 n, .param .u64 z, .param .u64 x, .param .u64 y",
              "ld.param.f32 %f1, [a]; ld.param.u32 %r1, [n]; ld.param.u64 %rd3, [z]; ld.param.u64 %rd1, [x]; "
              "ld.param.u64 %rd2, [y];"),
        ["constant(0) : f32", "constant(1)", "binding(2)", "binding(0)", "binding(1)"],
    ),
    "arrays of Numba": (
        entry("axpy", ARRAYS,
              "ld.param.f32 %f1, [p0]; ld.param.u64 %rd1, [p5]; ld.param.u64 %rd2, [p12]; ld.param.u64 %rd3, [p19]; "
              "ld.param.u64 %rd8, [p20]; cvt.u32.u64 %r1, %rd8;"),
        ["constant(0) : f32", *array(0), *array(1), *array(2)],
    ),
    "one struct": (
        entry("axpy", ".param .align 8 .b8 p[40]",
              "ld.param.u64 %rd1, [p]; ld.param.f32 %f1, [p+8]; ld.param.u32 %r1, [p+12]; ld.param.u64 %rd2, [p+16]; "
              "ld.param.u64 %rd3, [p+24];"),
        [["binding(0)", "constant(0) : f32", "constant(1)", "binding(1)", "binding(2)", "7 : i8"]],
    ),
    "structs among others": (
        entry("axpy", ".param .u8 skip, .param .align 8 .b8 p[24], .param .align 4 .b8 q[12], .param .u64 z",
              "ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [p+16]; ld.param.f32 %f1, [q+4]; ld.param.u32 %r1, [q+8]; "
              "ld.param.u64 %rd3, [z];"),
        ["constant(0) : i8", ["binding(0)", ["-1 : i16"], "binding(1)"],
         ["1 : i8", ["constant(0) : f32", "constant(1) : i32"]], "binding(2)"],
    ),
}  # fmt: skip
FUNCTION = """func.func @axpy(%s: f32, %x: tensor<100xf32>, %y: tensor<100xf32>) -> tensor<100xf32> {
    %n = arith.constant 100 : i32
    %w = arith.constant 100 : index
    %r = flow.dispatch @executable::@axpy[%w](%s, %n, %x, %y)
      : (f32, i32, tensor<100xf32>, tensor<100xf32>) -> tensor<100xf32>
    return %r : tensor<100xf32>
  }"""


def text_of(given: Any) -> str:
    return f'"{given}"' if isinstance(given, str) else f"[{', '.join(map(text_of, given))}]"


def program(paths: list[Any], described: Any, constants: int = 2, name: str = "axpy") -> str:
    shape = layout(constants, "in", "in", "out")
    exports = export(name, 0, shape, size(64, more=f", pydispatch.parameters = {text_of(described)}"))
    return source({target(): paths} if paths else {}, exports, FUNCTION.replace("::@axpy", f"::@{name}"))


@pytest.mark.parametrize("case", CASES)
def test_they_run_on_the_interpreter(case: str, tmp_path: Path) -> None:
    text, described = CASES[case]
    (tmp_path / "k.ptx").write_text(text)
    loaded = pd.device("ptx-interpreter").load(pd.compile(program([tmp_path / "k.ptx"], described), targets="cuda"))
    np.testing.assert_allclose(loaded.axpy(2.5, X, Y), 2.5 * X + Y, rtol=1e-6)


@pytest.mark.parametrize("case", ["arrays of Numba", "structs among others"])
def test_they_run_on_the_device(case: str, tmp_path: Path, device: Any) -> None:
    text, described = CASES[case]
    (tmp_path / "k.ptx").write_text(text)
    loaded = device.load(pd.compile(program([tmp_path / "k.ptx"], described), targets="cuda"))
    np.testing.assert_allclose(loaded.axpy(2.5, X, Y), 2.5 * X + Y, rtol=1e-6)


def test_the_page_describes_arrays_of_numba() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "cuda.md").read_text()
    names: dict[str, Any] = {}
    exec(page.partition("float32[::1]` whose length")[2].partition("```python\n")[2].partition("```")[0], names)
    assert names["parameters"] == CASES["arrays of Numba"][1]


def test_code_given_at_run_time(tmp_path: Path) -> None:
    text, described = CASES["one struct"]
    artifact = pd.compile(program([], described), targets="cuda")
    at = pd.device("ptx-interpreter")
    at.add_executable("executable", text.encode())
    np.testing.assert_allclose(at.load(artifact).axpy(2.5, X, Y), 2.5 * X + Y, rtol=1e-6)
    at.add_executable("executable", CASES["scalars first"][0].encode())
    with pytest.raises(pd.ArtifactError, match=r"entry 'axpy': it has 5 parameters .line 5., 1 are described"):
        at.load(artifact)


def test_the_only_entry_may_have_any_name(tmp_path: Path) -> None:
    """Numba's names have hundreds of characters."""
    text, described = CASES["scalars first"]
    (tmp_path / "k.ptx").write_text(text.replace("entry axpy", "entry _ZN8__main__4axpyB2v1"))
    loaded = pd.device("ptx-interpreter").load(pd.compile(program([tmp_path / "k.ptx"], described), targets="cuda"))
    np.testing.assert_allclose(loaded.axpy(2.5, X, Y), 2.5 * X + Y, rtol=1e-6)


def test_in_python() -> None:
    @pd.pattern
    def product(a: pd.f32["n"], b: pd.f32["n"]):
        return a * b

    text, _ = CASES["one struct"]
    described = [["binding(0)", "0 : i32", "constant(0)", "binding(1)", "binding(2)", "7 : i8"]]
    options: dict[str, Any] = {"constants": ("n",), "workgroups": (("n", 64),), "workgroup_size": (64, 1, 1)}
    product.replace(pd.ptx(text, "axpy", **options, parameters=described))
    model = """func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
      %r = arith.mulf %a, %b : tensor<?xf32>
      return %r : tensor<?xf32>
    }"""
    loaded = pd.device("ptx-interpreter").load(pd.compile(model, patterns=[product], targets="cuda"))
    np.testing.assert_array_equal(loaded.f(X, Y), Y)  # 0 * a + b: the kernel ran
    with pytest.raises(pd.InvalidArgumentError, match="WholeKernel: parameters: expected a tuple of strings, or lists"):
        pd.ptx(text, "axpy", parameters=[1])


def test_structs_are_those_of_c() -> None:
    class Inner(ctypes.Structure):
        _fields_ = (("a", ctypes.c_int16), ("b", ctypes.c_double))

    class Outer(ctypes.Structure):
        _fields_ = (("c", ctypes.c_int8), ("inner", Inner), ("d", ctypes.c_int32), ("e", ctypes.c_int8))

    described = parameters_of(
        ["1 : i8", ["constant(0) : i8", ["-2 : i16", "constant(1) : f64"], "constant(3)", "9 : i8"], "binding(0)"]
    )
    base = Outer.inner.offset
    assert described.sizes == (1, ctypes.sizeof(Outer), 8)
    assert described.alignments == (1, ctypes.alignment(Outer), 8)
    assert described.offsets == (0, 8, 8 + ctypes.sizeof(Outer))
    assert [field.offset - 8 for field in described.fields[1:6]] == [
        0, base, base + Inner.b.offset, Outer.d.offset, Outer.e.offset,
    ]  # fmt: skip
    words = struct.unpack("<4I", struct.pack("<idi", 0x1FF, 2.5, -7))
    values = list(words_of(described.fields, [0x1234], words))
    assert values == [1, 0xFF, 0xFFFE, struct.unpack("<Q", struct.pack("<d", 2.5))[0], 0xFFFFFFF9, 9, 0x1234]
    assert described.fields[-1] == Field(8 + ctypes.sizeof(Outer), 8, "binding", 0)
    (extended,) = words_of(parameters_of(["extend(constant(3)) : i64"]).fields, [], words)
    assert extended == (1 << 64) - 7


@pytest.mark.parametrize(
    ("described", "message"),
    [
        (["constant(0) : f32"], "binding 0 of the layout is in no parameter"),
        (["binding(0)", "binding(1)", "binding(2)", "constant(0)"], "constant 1 of the layout is in no parameter"),
        (["binding(3)"], "there is no binding 3: the layout has 3"),
        (["binding(0)", "binding(1)", "binding(2)", "constant(1) : i64"], "there is no constant 2: the layout has 2"),
        (["binding(0)", "binding(1)", "binding(2)", "constant(0)", "constant(1)"],
         r"parameter 0 'a' \(line 5\) is 4 bytes, the description has 8"),
        (["constant(0)", "constant(1)", ["binding(0)", "binding(1)", "binding(2)"]],
         r"it has 5 parameters \(line 5\), 3 are described"),
        (["buffer(0)"], r"parameter 0 is 'buffer\(0\)', expected binding\(0\), constant\(0\) : i32, extend"),
        (["binding(0)", []], r"parameter 1 is \[\], expected binding\(0\)"),
        (["300 : i8"], "parameter 0 is '300 : i8', which does not fit into i8"),
        (["constant(0) : i7"], r"parameter 0 is 'constant\(0\) : i7', whose type is none of i8, i16"),
        (["1 : f32"], "parameter 0 is '1 : f32', whose type is none of i8, i16, i32, i64"),
        ([["0 : i64"] * 4000, ["0 : i64"] * 4000], "the parameters have more than 32764 bytes"),
    ],
)  # fmt: skip
def test_what_does_not_fit(described: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(CASES["scalars first"][0])
    with pytest.raises(pd.CompileError, match=message):
        pd.compile(program([tmp_path / "k.ptx"], described), targets="cuda")


def test_alignment_and_form_of_the_attribute(tmp_path: Path) -> None:
    text, described = CASES["one struct"]
    (tmp_path / "k.ptx").write_text(text.replace(".align 8", ".align 16"))
    with pytest.raises(pd.CompileError, match=r"'p' .line 5. is aligned to 16 bytes, the description to 8"):
        pd.compile(program([tmp_path / "k.ptx"], described), targets="cuda")
    mlir = program([tmp_path / "k.ptx"], described)
    with pytest.raises(pd.CompileError, match=r"pydispatch.parameters is a list of parameters, such as"):
        pd.compile(mlir.replace(text_of(described), '"binding(0)"'), targets="cuda")
    with pytest.raises(pd.CompileError, match=r"a parameter is a string, or a list of strings for a struct, got 7"):
        pd.compile(mlir.replace(text_of(described), "[7]"), targets="cuda")


def test_the_note_of_other_mismatches_names_descriptions(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(CASES["scalars first"][0])
    plain = program([tmp_path / "k.ptx"], ["x"]).replace(', pydispatch.parameters = ["x"]', "")
    with pytest.raises(pd.CompileError) as caught:
        pd.compile(plain, targets="cuda")
    assert "pydispatch.parameters of the export describes other parameters" in (caught.value.note or "")
