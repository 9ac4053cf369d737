"""Whole CUDA kernels, from objects to what an artifact says about them, and what is refused with which words."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_programs import IN_IN_OUT, MIXED, MUL, TWO, export, layout, objects, size, source, target, vectors
from tools import DATA, assemble, compile_cu, nvcc

import pydispatch as pd
from pydispatch.compiler.backends.cuda import backend
from pydispatch.compiler.backends.cuda.objects import UNNAMED, with_kind
from pydispatch.compiler.kernel_ir.kernel import ObjectFile
from pydispatch.formats.elf import cubin

SM_75, SM_80, SM_90 = (DATA / f"kernels_sm_{n}.ptx" for n in (75, 80, 90))
FIXED = DATA / "fixed_sm_90.ptx"
SOURCE = (DATA / "kernels.cu").read_text()
SCALE = export("scale", 0, layout(6, "in", "out"))


def build(text: str, targets: Any = "cuda", **options: Any) -> Any:
    return pd.compile(text, targets=targets, **options)


def only(artifact: Any) -> Any:
    """The one variant of the one executable."""
    (executable,) = artifact.executables
    (variant,) = executable.variants
    return variant


def test_what_the_manifest_says_about_kernels() -> None:
    artifact = build(source({target("sm_80"): [SM_80]}, TWO, MIXED))
    variant = only(artifact)
    text = SM_80.read_bytes()
    assert variant.format == "cuda-nvptx-fb" and variant.member.endswith(".ptx") and variant.alignment == 16
    assert bytes(artifact.read(variant.member)) == text
    assert variant.extra["ptx"] == {
        "modules": [[0, len(text), "ptx"]], "entries": [[0, "simple_mul"], [0, "simple_mul_inplace"]],
        "blocks": [[64, 1, 1], [64, 1, 1]], "shared": [0, 0], "parameters": [[4], [4]], "constants": [],
    }  # fmt: skip
    assert {"sm_50", "sm_75", "sm_80"} <= set(variant.requires) and "sm_86" not in variant.requires
    assert artifact.warnings == []


def test_one_variant_for_each_architecture_that_the_objects_name() -> None:
    text = source({target(f"sm_{n}"): [DATA / f"kernels_sm_{n}.ptx"] for n in (90, 75, 80)}, TWO, MIXED)
    newest = lambda v: max(int(n[3:]) for n in v.requires)  # noqa: E731
    variants = build(text).executables[0].variants
    assert [newest(v) for v in variants] == [90, 75, 80]
    # Named architectures take the newest that runs on them.
    for names, expected in ((("sm_87",), [80]), (("sm_80", "sm_120"), [80, 90]), ("cuda:sm_75", [75])):
        assert [newest(v) for v in build(text, names).executables[0].variants] == expected
    with pytest.raises(pd.CompileError, match="no objects of 'executable' match the target"):
        build(text, "sm_70")
    for name in ("sm_81", "sm_80a", "sm_86f"):  # suffixes exist from sm_90a and sm_100f on
        with pytest.raises(pd.CompileError, match=rf"there is no CUDA architecture '{name}'(.|\n)*known: sm_50, sm_52"):
            build(text, name)


@pytest.mark.parametrize(("symbol", "name"), [
    ("_Z6squarePf", "square"), ("_ZN5works6squareEPf", "square"), ("_Z1aPf", "a"),
])  # fmt: skip
def test_names_in_cpp(symbol: str, name: str) -> None:
    assert backend._is_mangled(symbol, name)
    assert not backend._is_mangled(symbol, name[:-1] or "b")
    assert not backend._is_mangled(f"_Z1{len(name)}{name}_of_others_Pf", name)  # a length of two digits


@pytest.mark.parametrize(
    "key",
    [
        target("sm_80"), target("sm_80", "target_arch"),
        target().replace(">", ', {iree.gpu.target = #iree_gpu.target<arch = "sm_80", features = "+ptx76", wgp = '
                         "<compute = fp64|fp32, storage = b64|b32, subgroup = shuffle, dot = none, mma = [], "
                         "subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 64]>>}>"),
        target().replace(">", ', {iree_codegen.target_info = #iree_gpu.target<arch = "sm_80", features = "">}>'),
    ],
    ids=["target", "target_arch", "iree.gpu.target", "target_info"],
)  # fmt: skip
def test_spellings_of_the_architecture(key: str) -> None:
    for text in (
        source({key: [SM_80]}, TWO, MIXED),
        # The program's own targets, with the device of the peer around them.
        source({key: [SM_80]}, TWO, MIXED).replace(
            "module {",
            f'module attributes {{hal.device.targets = [#hal.device.target<"cuda", [{key}]> : !hal.device]}} {{',
        ),
    ):
        variant = only(build(text, None if "device.targets" in text else "cuda"))
        assert variant.name == "cuda_nvptx_fb_sm_80" and "sm_80" in variant.requires


def test_a_target_that_differs_is_a_warning_and_the_text_decides() -> None:
    text = source({target("sm_52"): [SM_80]}, TWO, MIXED)
    with pytest.warns(pd.CompileWarning, match=r"kernels_sm_80.ptx' of .* is for sm_80, its target declares sm_52"):
        artifact = build(text)
    assert "sm_80" in only(artifact).requires
    assert len(artifact.warnings) == 1 and "devices are chosen by sm_80" in artifact.warnings[0]
    again = pd.Artifact.from_bytes(artifact.to_bytes())
    assert again.warnings == artifact.warnings


def test_scalars_of_all_sizes() -> None:
    variant = only(build(source({target("sm_75"): [SM_75]}, SCALE, "")))
    assert variant.extra["ptx"]["parameters"] == [[8, 8, 2, 4]]


def test_block_sizes_and_workgroup_memory() -> None:
    fixed = export("fixed", 0, layout(0, "out"), "")
    assert only(build(source({target("sm_90"): [DATA / "fixed_sm_90.ptx"]}, fixed, ""))).extra["ptx"]["blocks"] == [
        [32, 2, 1]
    ]
    shared = export("reverse", 0, layout(0, "in", "out"), size(128, more=", workgroup_local_memory = 512 : index"))
    notes = only(build(source({target("sm_75"): [SM_75]}, shared, ""))).extra["ptx"]
    assert notes["blocks"] == [[128, 1, 1]] and notes["shared"] == [512]


CONSTANTS = """hal.executable.constant.block() -> (i32, i32) as ("offset", "{}") {{
      %o = arith.constant 11 : i32
      %f = arith.constant 5 : i32
      hal.return %o, %f : i32, i32
    }}"""


def test_executable_constants_are_variables() -> None:
    affine = export("affine", 0, layout(1, "in", "out"))
    text = source({target("sm_75"): [SM_75]}, affine, "", CONSTANTS.format("factor"))
    assert only(build(text)).extra["ptx"]["constants"] == ["offset", "factor"]
    with pytest.raises(pd.CompileError) as caught:
        build(source({target("sm_75"): [SM_75]}, affine, "", CONSTANTS.format("faktor")))
    said = str(caught.value)
    assert "executable constant 'faktor' is no variable of the objects of executable '@executable'" in said
    assert "__constant__ int faktor; variables: offset, factor" in said


def test_several_modules_of_one_variant(tmp_path: Path) -> None:
    """Each with an entry, in one member."""
    text = SM_80.read_text()
    start = text.index(".visible .entry simple_mul(")
    second = text.index(".visible .entry simple_mul_inplace(")
    third = text.index(".visible .entry scale(")
    (tmp_path / "mul.ptx").write_text(text[:second])
    (tmp_path / "inplace.ptx").write_text(text[:start] + text[second:third])
    artifact = build(source({target("sm_80"): ["mul.ptx", "inplace.ptx"]}, TWO, MIXED), object_search_path=tmp_path)
    notes, member = only(artifact).extra["ptx"], bytes(artifact.read(only(artifact).member))
    assert notes["entries"] == [[0, "simple_mul"], [1, "simple_mul_inplace"]]
    for (offset, length, kind), name in zip(notes["modules"], ("mul.ptx", "inplace.ptx"), strict=True):
        assert kind == "ptx" and member[offset : offset + length] == (tmp_path / name).read_bytes()
    with pytest.raises(pd.CompileError, match=r"'@simple_mul' is an entry of several objects: .*mul.ptx:18, .*sm_80"):
        build(source({target("sm_80"): ["mul.ptx", SM_80]}, TWO, MIXED), object_search_path=tmp_path)


def test_inline_data_and_extern() -> None:
    data = f'dense<"0x{SM_75.read_bytes().hex().upper()}"> : vector<{SM_75.stat().st_size}xi8>'
    text = f"""func.func @f(%a: tensor<100xf32>, %b: tensor<100xf32>) -> tensor<100xf32> {{
    %d = arith.constant 100 : index
    %n = arith.constant 100 : i32
    %r = hal.dispatch.extern "simple_mul"[%d](%n, %a, %b) : (i32, tensor<100xf32>, tensor<100xf32>) -> tensor<100xf32>
      count(%device: !hal.device, %w: index) -> (index, index, index) {{
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        hal.return %c2, %c1, %c1 : index, index, index
      }}
      layout({IN_IN_OUT})
      objects({{ {target("sm_75")} ordinal(0) = [#hal.executable.object<{{path = "k.ptx", data = {data}}}>] }})
      {size(64)}
    return %r : tensor<100xf32>
  }}"""
    artifact = build(text)
    assert only(artifact).extra["ptx"]["blocks"] == [[64, 1, 1]]
    assert bytes(artifact.read(only(artifact).member)) == SM_75.read_bytes()


FACTOR = """.version 7.0
.target sm_75
.address_size 64
.visible .const .align 4 .u32 factor = 1;
.visible .const .align 4 .u32 offset = 0;
.visible .func (.param .b32 result) scaled(.param .b32 x)
{
  .reg .f32 %f<5>;
  .reg .b32 %r<3>;
  ld.param.f32 %f1, [x];
  ld.const.u32 %r1, [factor];
  ld.const.u32 %r2, [offset];
  cvt.rn.f32.u32 %f2, %r1;
  cvt.rn.f32.u32 %f3, %r2;
  fma.rn.f32 %f4, %f1, %f2, %f3;
  st.param.f32 [result], %f4;
  ret;
}
"""
SCALED = """.version 7.0
.target sm_75
.address_size 64
.extern .func (.param .b32 result) scaled(.param .b32 x);
.visible .entry scaling(.param .u64 in, .param .u64 out, .param .u32 n)
{
  .reg .f32 %f<3>;
  .reg .b64 %d<6>;
  .reg .b32 %r<2>;
  ld.param.u64 %d1, [in];
  ld.param.u64 %d2, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %d3, %r1, 4;
  add.u64 %d4, %d1, %d3;
  add.u64 %d5, %d2, %d3;
  ld.global.f32 %f1, [%d4];
  {
    .param .b32 x;
    .param .b32 result;
    st.param.f32 [x], %f1;
    call.uni (result), scaled, (x);
    ld.param.f32 %f2, [result];
  }
  st.global.f32 [%d5], %f2;
  ret;
}
"""
SCALING = export("scaling", 0, layout(1, "in", "out"))


def with_data(text: str, contents: list[str]) -> str:
    """The program with unnamed objects that have these contents in place of its files."""
    listed = ", ".join(
        f'#hal.executable.object<{{data = dense<"0x{content.encode().hex().upper()}"> : vector<{len(content)}xi8>}}>'
        for content in contents
    )
    return re.sub(r"= \[#hal.executable.object<.*\]\n", lambda _: f"= [{listed}]\n", text)


@pytest.mark.parametrize("contents", [[SCALED, FACTOR], [FACTOR, SCALED]])
def test_unnamed_objects_are_several(contents: list[str]) -> None:
    """A kernel in one calls a function in the other, also where that has a name of its own."""
    variant = only(build(with_data(source({target("sm_75"): ["x"]}, SCALING, ""), contents)))
    assert not variant.imports
    assert variant.extra["ptx"]["entries"] == [[0, "scaling"]]


MEMBERS = b'extern "C" __global__ void f(P p) { if (p.version > 1) q(p.target); }\n'
CUBIN = b"\x7fELF\x02\x01\x01" + bytes(9) + (2).to_bytes(2, "little") + cubin.MACHINE.to_bytes(2, "little")


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (SCALED.encode(), "inline.ptx"),
        (b"// a line\n\n/* lines **\n// */ " + SCALED.encode(), "inline.ptx"),
        (MEMBERS, "inline.cu"),
        (b"// .version 7.0 .target sm_80\n" + MEMBERS, "inline.cu"),
        (CUBIN + SCALED.encode(), "inline.cubin"),  # as in the section .nv_debug_ptx_txt
        (b"BC\xc0\xde" + SCALED.encode(), "inline.bc"),
        (b"BC f(P p);\n" + MEMBERS, "inline.cu"),
        (b"//" * 50_000 + b"/**/" * 50_000, "inline.cu"),
    ],
)
def test_unnamed_objects_are_recognized_by_their_beginning(data: bytes, name: str) -> None:
    assert with_kind(ObjectFile(UNNAMED, data)).name == name


def test_executable_constants_are_variables_of_linked_objects(tmp_path: Path) -> None:
    (tmp_path / "kernel.ptx").write_text(SCALED)
    (tmp_path / "factor.ptx").write_text(FACTOR)
    text = source({target("sm_75"): ["kernel.ptx", "factor.ptx"]}, SCALING, "", CONSTANTS.format("factor"))
    variant = only(build(text, object_search_path=tmp_path))
    assert variant.extra["ptx"]["constants"] == ["offset", "factor"]
    said = refused(text.replace('factor")', 'faktor")'), object_search_path=tmp_path)
    assert "'faktor' is no variable" in said and "variables: factor, offset" in said


def test_declared_executables_keep_what_their_exports_say() -> None:
    variant = only(build(source({}, TWO.replace(size(64), "", 1), MIXED)))
    assert variant.extra["dynamic"] is True
    assert variant.extra["ptx"] == {"blocks": [None, [64, 1, 1]], "shared": [0, 0], "constants": []}


def test_hand_written_variants() -> None:
    rows = "".join(
        f"""hal.executable.variant public @{name} target({key}) objects([{objects([path])}]) {{
        {MUL}
      }}\n"""
        for name, key, path in (("older", target("sm_75"), SM_75), ("newer", target("sm_90"), SM_90))
    )
    text = f"module {{ hal.executable private @executable {{ {rows} }}\n{vectors('simple_mul')} }}"
    for targets in (None, "cuda", "sm_80"):  # the device chooses
        variants = build(text, targets).executables[0].variants
        assert [v.name for v in variants] == ["older", "newer"]
        assert "sm_90" in variants[1].requires and "sm_80" not in variants[0].requires


# What is refused


def refused(text: str, **options: Any) -> str:
    with pytest.raises(pd.CompileError) as caught:
        build(text, **options)
    return str(caught.value)


def test_a_missing_entry_lists_those_there_are() -> None:
    said = refused(source({target("sm_80"): [SM_80]}, export("simple_mull", 0, IN_IN_OUT), ""))
    assert "export '@simple_mull' is no entry of the objects of executable '@executable'" in said
    assert f"entries: 'simple_mul' ({SM_80}:18), 'simple_mul_inplace' ({SM_80}:59)" in said
    said = refused(source({target("sm_80"): [SM_80]}, export("mangled", 0, layout(0, "out")), ""))
    assert "'_Z7mangledPf' is its name in C++: declare it extern \"C\"" in said


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (
            layout(1, "in", "out"),
            r"kernels_sm_80.ptx:18\): its 2 parameters after the 2 pointers \(line 18\) takes? 3",
        ),
        (layout(2, "in", "in", "out"), r"takes? 1 constant of 32 bits .*, the layout has 2"),
        (
            layout(1, "in", "in", "out", "out"),
            r"'simple_mul_param_3' \(line 22\) is .u32 of 4 bytes, expected a pointer",
        ),
        (layout(0, *["in"] * 7), r"it has 4 parameters \(line 18\), the layout has 7 bindings"),
    ],
)
def test_parameters_that_do_not_fit(shape: str, expected: str) -> None:
    said = refused(source({target("sm_80"): [SM_80]}, export("simple_mul", 0, shape), ""))
    assert re.search(expected, said), said
    assert "export '@simple_mul' does not fit entry 'simple_mul'" in said


@pytest.mark.parametrize(
    ("name", "block", "file", "expected"),
    [
        ("simple_mul", "", SM_80, "has no workgroup_size, and 'simple_mul' (.*:18) no .reqntid: the block size is not"),
        ("simple_mul", size(1024, 2), SM_80, r"1024x2x1 is 2048 threads, CUDA has up to 1024 in a block"),
        ("simple_mul", size(1, 1, 128), SM_80, r"1x1x128 is 128 threads, CUDA has up to 1024 in a block and 1024x"),
        ("fixed", size(64), FIXED, r"states .reqntid 32, 2, 1 \(line 15\), the workgroup size is 64x1x1"),
        ("bounded", size(128), SM_80, r"states .maxntid 64, 1, 1 \(line \d+\), 64 threads; the workgroup size 128x1x1"),
        ("reverse", size(64, more=", workgroup_local_memory = 300000 : index"), SM_80, r"300000 more at launch, a"),
    ],
)  # fmt: skip
def test_block_sizes_that_cannot_be(name: str, block: str, file: Path, expected: str) -> None:
    shapes = {"simple_mul": IN_IN_OUT, "reverse": layout(0, "in", "out")}
    said = refused(source({target(): [file]}, export(name, 0, shapes.get(name, layout(0, "out")), block), ""))
    assert re.search(expected.replace("(.*:18)", r"\(.*:18\)"), said), said


def test_texts_that_are_broken(tmp_path: Path) -> None:
    def said(text: str, name: str = "k.ptx") -> str:
        (tmp_path / name).write_text(text)
        return refused(source({target("sm_80"): [name]}, MUL, ""), object_search_path=tmp_path)

    good = SM_80.read_text()
    assert re.search(r"k.ptx:\d+:\d+: ", said(good.replace("ld.param.u64 	%rd1,", "ld.param.u64 	%rd1")))
    assert "nvcc -ptx -arch=sm_80" in said("#include <stdio.h>")
    assert "no architecture" in said(good.replace(".target sm_80", ".target sm_81"))
    assert "needs .version 7.0" in said(good.replace(".version 9.0", ".version 6.0"))
    assert "of kind '.spv' cannot hold whole CUDA kernels" in said("x", "k.spv")
    assert "known kinds: .ptx, .cubin, .cu" in said("x", "k.o")


def test_ptxas_has_a_second_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What our reader lets pass and no driver would."""
    assert assemble(SM_80.read_bytes(), "sm_80") == ""
    text = SM_80.read_text().replace("mul.f32", "mul.rn.ftz.sat.f32.f32", 1)
    (tmp_path / "k.ptx").write_text(text)
    monkeypatch.setenv("PYDISPATCH_CACHE_DIR", str(tmp_path / "cache"))
    program = source({target("sm_80"): ["k.ptx"]}, MUL, "")
    said = refused(program, object_search_path=tmp_path)
    assert re.search(r"k.ptx' is not valid PTX:\n.*k.ptx, line \d+; error", said), said
    monkeypatch.setenv("PYDISPATCH_PTXAS", "off")
    build(program, object_search_path=tmp_path)


# CUDA C++ and cubins


def test_sources_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvcc()
    (tmp_path / "factor.h").write_text("#define FACTOR 1.0f\n")
    text = '#include "factor.h"\n' + SOURCE.replace("binding0[tid] *", "FACTOR * binding0[tid] *")
    (tmp_path / "k.cu").write_text(text)
    program = source({target("sm_90"): ["k.cu"]}, TWO, MIXED)
    artifact = build(program, object_search_path=tmp_path)
    code = bytes(artifact.read(only(artifact).member))
    assert b".target sm_90" in code and b"simple_mul_inplace" in code
    assert build(program, object_search_path=tmp_path).to_bytes() == artifact.to_bytes()
    (tmp_path / "factor.h").write_text("#define FACTOR nothing\n")
    said = refused(program, object_search_path=tmp_path)
    assert re.search(r'k.cu does not compile for sm_90:\n.*k.cu\(\d+\): error: identifier "nothing" is undefined', said)
    said = refused(program.replace("sm_90", "sm_50"), object_search_path=tmp_path)
    assert "this compiler knows no sm_50 any more" in said
    for tool in ("NVCC", "PTXAS"):
        monkeypatch.setenv(f"PYDISPATCH_{tool}", "off")
    monkeypatch.setitem(__import__("sys").modules, "cuda.bindings", None)
    said = refused(program, object_search_path=tmp_path)
    assert "needs nvcc or NVRTC, and neither is there" in said and "pip install cuda-bindings nvidia-cuda-nvrtc" in said


def test_cubins(tmp_path: Path) -> None:
    data = compile_cu(SOURCE, "-cubin", "-arch=sm_86")
    (tmp_path / "k.cubin").write_bytes(data)
    facts = cubin.read(data)
    assert facts.architecture == 86
    assert {e.name: e.parameters for e in facts.entries}["scale"] == (8, 8, 8, 8, 2, 4)
    artifact = build(source({target("sm_86"): ["k.cubin"]}, TWO, MIXED), object_search_path=tmp_path)
    variant = only(artifact)
    assert variant.member.endswith(".cubin") and bytes(artifact.read(variant.member)) == data
    assert variant.extra["ptx"]["modules"] == [[0, len(data), "cubin"]]
    assert variant.extra["ptx"]["parameters"] == [[4], [4]]
    # Machine code runs on later devices of its own major version, which PTX does not ask.
    assert {"cubin_sm_80", "cubin_sm_86", "sm_86"} <= set(variant.requires) and "cubin_sm_89" not in variant.requires
    from pydispatch.formats.ptx.interface import capabilities

    assert set(variant.requires) <= capabilities(8, 9)
    assert not set(variant.requires) <= capabilities(8, 0)
    assert not set(variant.requires) <= capabilities(9, 0)


def test_cubins_that_do_not_fit(tmp_path: Path) -> None:
    data = compile_cu(SOURCE, "-cubin", "-arch=sm_80")
    (tmp_path / "k.cubin").write_bytes(data)

    def said(exports: str) -> str:
        return refused(source({target("sm_80"): ["k.cubin"]}, exports, ""), object_search_path=tmp_path)

    assert "take 1 words of 32 bits, the layout has 3 constants" in said(
        export("simple_mul", 0, layout(3, "in", "in", "out"))
    )
    assert "its parameter 3 has 4 bytes, expected a pointer of 8" in said(
        export("simple_mul", 0, layout(0, *["in"] * 4))
    )
    assert "at most 64 threads, the workgroup size is 128x1x1" in said(
        export("bounded", 0, layout(0, "out"), size(128))
    )
    (tmp_path / "k.cubin").write_bytes(data[: len(data) // 2])
    assert "is a broken cubin" in said(MUL)
    (tmp_path / "k.cubin").write_bytes(compile_cu(SOURCE, "-cubin", "-rdc=true", "-arch=sm_80"))
    assert "relocatable cubin, which has to be linked" in said(MUL)
    (tmp_path / "k.cubin").write_bytes(Path("/bin/sh").read_bytes())
    assert "k.cubin" in said(MUL)


def test_a_cubin_cut_anywhere_is_an_error_and_nothing_worse() -> None:
    data = compile_cu(SOURCE, "-cubin", "-arch=sm_80")
    random = np.random.default_rng(0)
    for _ in range(300):
        hurt = bytearray(data[: int(random.integers(0, len(data) + 1))])
        for _ in range(int(random.integers(0, 4))):
            if hurt:
                hurt[int(random.integers(0, len(hurt)))] = int(random.integers(0, 256))
        with contextlib.suppress(pd.ArtifactError):
            cubin.read(bytes(hurt))
