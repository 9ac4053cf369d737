# ruff: noqa: E501  (lines of PTX)
"""PTX as data: what nvcc, LLVM and people write."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from ptx_texts import AROUND, HEAD, OPERANDS, kernel, registers
from tools import DATA, assemble

from pydispatch.formats.ptx.module import (
    Address,
    Arguments,
    Immediate,
    Instruction,
    Not,
    Operand,
    PtxLabel,
    PtxSymbol,
    Register,
    Vector,
)
from pydispatch.formats.ptx.read import read

SPECIAL = ("%tid", "%ntid", "%ctaid", "%nctaid", "%laneid", "%warpid", "%clock64", "%lanemask_lt")
OF_NVCC = sorted(DATA.glob("*_sm_*.ptx"))


def body_of(text: str, declarations: str = "") -> tuple[Instruction | PtxLabel, ...]:
    found = read(kernel(text, declarations), "k.ptx").functions[-1].body
    assert found is not None
    assert isinstance(found[-1], Instruction) and found[-1].opcode == "ret"
    return found[:-1]


def one(text: str, declarations: str = "") -> Instruction:
    (found,) = body_of(text, declarations)
    assert isinstance(found, Instruction)
    return found


# What is read


@pytest.mark.parametrize("path", OF_NVCC, ids=lambda path: path.name)
def test_what_nvcc_writes(path: Any) -> None:
    text = path.read_text()
    module = read(path.read_bytes() + b"\0", path.name)
    assert module.version == (9, 0) and module.address_size == 64
    assert module.target == re.search(r"sm_\d+", path.name)[0]  # type: ignore[index]
    # As many of each as a search for the words finds.
    assert len(module.entries) == len(re.findall(r"^\.visible \.entry", text, re.M))
    bodies = [f for f in module.functions if f.body is not None]
    assert len(bodies) == len(re.findall(r"^\{", text, re.M))
    assert len([f for f in module.functions if not f.is_entry]) == len(re.findall(r"\.func\b", text))
    statements = 0
    for function in bodies:
        assert function.body is not None
        lines = text.splitlines()
        for item in function.body:
            shown = lines[item.line - 1]
            if isinstance(item, PtxLabel):
                assert re.search(rf"(?:^|; ){re.escape(item.name.partition('$2')[0])}:", shown)
                continue
            statements += 1
            assert ".".join((item.opcode, *item.modifiers)) in shown
            for register in re.findall(r"%\w+", shown):
                assert register in function.registers or register in SPECIAL, register
        assert module.text[function.start : function.end].rstrip().endswith("}")
    plain = re.sub(r"//.*", "", text)
    code = "".join(re.findall(r"^\{(.*?)^\}", plain, re.M | re.S))
    declared = re.findall(r"(?<=\s)\.(?:reg|param|shared|local|pragma|callprototype)\b[^;]*;", code)
    assert statements == code.count(";") - len(declared)


def test_parts_of_a_module_that_nvcc_wrote() -> None:
    module = read((DATA / "language_sm_80.ptx").read_bytes(), "language_sm_80.ptx")
    by_name = {variable.name: variable for variable in module.variables}
    table = by_name["table"]
    assert (table.space, table.type, table.align, table.size, table.linkage) == ("const", "b8", 4, 16, "visible")
    assert np.frombuffer(bytes(table.values), "<f4").tolist() == [1, 2, 3, 4]  # type: ignore[arg-type]
    assert by_name["counter"].values == (7,) and by_name["counter"].sizes == ()
    (pointed,) = by_name["greeting"].values
    assert isinstance(pointed, PtxSymbol)
    assert by_name[pointed.name].size == 7  # and what lacks a value is 0
    assert bytes(by_name[pointed.name].values) == b"hello\n"  # type: ignore[arg-type]
    dynamic = next(variable for variable in module.variables if variable.space == "shared")
    assert dynamic.linkage == "extern" and dynamic.sizes == (0,) and dynamic.size == 0 and dynamic.align == 16

    tile = module.function("tile")
    assert tile is not None and tile.is_entry and tile.directives == {"maxntid": (256, 1, 1), "minnctapersm": (2,)}
    assert [(p.type, p.size, p.align) for p in tile.params] == [
        ("u64", 8, 8), ("u64", 8, 8), ("b8", 24, 8), ("u32", 4, 4),
    ]  # fmt: skip
    assert [v.size for v in tile.variables if v.space == "shared"] == [16 * 17 * 4]
    assert module.text[tile.start : tile.end].startswith(".visible .entry tile(")

    user_op = module.function("user_op")
    assert user_op is not None and user_op.body is None and user_op.linkage == "extern"
    assert [p.size for p in (*user_op.returns, *user_op.params)] == [4, 4, 4]

    calls = module.function("calls")
    assert calls is not None and calls.body is not None
    (prototype,) = calls.tables.values()
    assert prototype == (".callprototype (.param .b32 _) _ (.param .b32 _)",)
    direct, indirect = (i for i in calls.body if isinstance(i, Instruction) and i.opcode == "call")
    assert direct.operands[1] == PtxSymbol("user_op") and len(direct.operands) == 3
    assert isinstance(indirect.operands[1], Register) and indirect.operands[3] == PtxSymbol(next(iter(calls.tables)))
    # The parameters of the two calls have names of their own though both are `param0` in the text.
    first, second = (call.operands[2] for call in (direct, indirect))
    assert first == Arguments((PtxSymbol("param0"), PtxSymbol("param1"))) and second == Arguments(
        (PtxSymbol("param0$2"),)
    )

    # Two pieces of inline assembly, each with its own p and done.
    assembly = module.function("assembly")
    assert assembly is not None and assembly.body is not None
    assert [item.name for item in assembly.body if isinstance(item, PtxLabel)] == ["done", "done$2"]
    jumps = [i for i in assembly.body if isinstance(i, Instruction) and i.opcode == "bra"]
    assert [(jump.guard, jump.operands) for jump in jumps] == [
        (Register("p"), (PtxSymbol("done"),)), (Not(Register("p$2")), (PtxSymbol("done$2"),)),
    ]  # fmt: skip
    assert assembly.registers["p"] == assembly.registers["p$2"] == "pred"


def test_what_llvm_writes() -> None:
    from llvmlite import binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    text = """
        @tile = internal addrspace(3) global [64 x float] undef, align 16
        @table = internal addrspace(4) constant [2 x i32] [i32 5, i32 -6], align 4
        @place = addrspace(1) global ptr addrspacecast (ptr addrspace(1) @words to ptr), align 8
        @words = addrspace(1) global [4 x i16] [i16 1, i16 2, i16 3, i16 4], align 2
        declare float @user_op(float, float)
        declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
        declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
        define ptx_kernel void @k(ptr noalias align 16 %a, i32 %n, {i64, i32} %s) "nvvm.reqntid"="64,1,1" {
          %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
          %w = zext i32 %t to i64
          %p = getelementptr float, ptr %a, i64 %w
          %x = load float, ptr %p
          %y = call float @user_op(float %x, float -0.5)
          %q = getelementptr [64 x float], ptr addrspace(3) @tile, i64 0, i64 %w
          store float %y, ptr addrspace(3) %q
          call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
          %c = getelementptr i32, ptr addrspace(4) @table, i64 %w
          %v = load i32, ptr addrspace(4) %c
          %d = icmp slt i32 %v, %n
          br i1 %d, label %yes, label %no
        yes:
          %m = sub i64 63, %w
          %e = getelementptr [64 x float], ptr addrspace(3) @tile, i64 0, i64 %m
          %z = load float, ptr addrspace(3) %e
          store float %z, ptr %p
          br label %no
        no:
          ret void
        }
    """
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    machine = target.create_target_machine(cpu="sm_80", features="+ptx70", opt=2)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = "nvptx64-nvidia-cuda", str(machine.target_data)
    found = read(machine.emit_assembly(module), "llvm.ptx")
    assert (found.version, found.target) == ((7, 0), "sm_80")
    (entry,) = found.entries
    assert entry.directives == {"reqntid": (64, 1, 1)}
    assert [(p.size, p.align) for p in entry.params] == [(8, 8), (4, 4), (16, 8)]
    variables = {v.name: v for v in found.variables}
    assert variables["table"].space == "const" and variables["words"].size == 8
    assert np.frombuffer(bytes((*variables["words"].values, 0)), "<i2").tolist() == [1, 2, 3, 4]  # type: ignore[arg-type]
    (pointer,) = variables["place"].values
    assert isinstance(pointer, PtxSymbol) and pointer.name == "words"
    assert entry.body is not None
    opcodes = {i.opcode for i in entry.body if isinstance(i, Instruction)}
    assert {"ld", "st", "call", "setp", "bra", "ret"} <= opcodes


@pytest.mark.parametrize("text, operands", OPERANDS, ids=lambda value: value if isinstance(value, str) else "")
def test_operands(text: str, operands: tuple[Operand | None, ...]) -> None:
    found = one(text, AROUND)
    assert found.operands == operands and found.line == 8
    opcode, *modifiers = text.split()[0].rstrip(";").split(".")
    assert (found.opcode, found.modifiers) == (opcode, tuple(modifiers))


def test_spaces_comments_and_guards() -> None:
    found = one("@ ! %p1 /* a\n; */ ld .global // }\n .v2.u32\t{%r1 ,%r2},\n [ %rd1 + 4 ] ;")
    assert found == Instruction(
        "ld", ("global", "v2", "u32"), (Vector(registers("%r1", "%r2")), Address(Register("%rd1"), 4)), 9,
        Not(Register("%p1")),
    )  # fmt: skip
    module = read(kernel('.loc 1 2 3, function_name $L__info0 + 4, inlined_at 1 5 6\n.pragma "nounroll"; L: L2: trap;'))
    body = module.functions[0].body
    assert body is not None and [type(item).__name__ for item in body] == [
        "PtxLabel",
        "PtxLabel",
        "Instruction",
        "Instruction",
    ]
    assert read(kernel("").replace("\n", "\r\n")).entries[0].line == 5


def test_names_of_scopes_are_their_own() -> None:
    module = read(
        kernel(
            ".reg .u32 a; .shared .u32 s; mov.u32 a, s;\n"
            "{ .reg .f32 a; .shared .f32 s; .reg .f32 %r<2>; ld.shared.f32 a, [s]; mov.f32 %r1, a; mov.u32 %r2, 1;\n"
            "  { .reg .u64 a; mov.u64 a, 1; bra L; L: }\n"
            "}\n"
            "{ bra L; L: mov.u32 a, %r1; }"
        )
    )
    function = module.functions[0]
    assert function.body is not None
    lines: dict[int, list[Any]] = {}
    for item in function.body:
        lines.setdefault(item.line, []).append(item.name if isinstance(item, PtxLabel) else item.operands)
    assert lines[8] == [(Register("a"), PtxSymbol("s"))]
    assert lines[9] == [
        (Register("a$2"), Address(PtxSymbol("s$2"))), registers("%r1", "a$2"), (Register("%r2"), Immediate(1)),
    ]  # fmt: skip
    assert lines[10] == [(Register("a$3"), Immediate(1)), (PtxSymbol("L"),), "L"]
    assert lines[12] == [(PtxSymbol("L$2"),), "L$2", registers("a", "%r1$2")]
    kinds = {name: function.registers[name] for name in ("a", "a$2", "a$3", "%r1", "%r1$2", "%r2")}
    assert kinds == {"a": "u32", "a$2": "f32", "a$3": "u64", "%r1": "f32", "%r1$2": "b32", "%r2": "b32"}
    assert [(v.name, v.type) for v in function.variables] == [("s", "u32"), ("s$2", "f32")]


def test_variables_of_functions_are_told_apart() -> None:
    body = "{{ .global .u32 state = {0}; .shared .u32 s; .local .u32 l; .reg .u32 r; mov.u32 r, s; ret; }}"
    module = read(HEAD + "".join(f".entry e{n} {body.format(n)}\n" for n in range(2)))
    assert [[v.name for v in function.variables] for function in module.functions] == [
        ["state", "s", "l"], ["state$2", "s$2", "l"],
    ]  # fmt: skip


def test_vectors_of_registers_are_registers() -> None:
    function = read(kernel(".reg .v4 .u32 v; mov.v4.u32 v, %tid; add.u32 %r1, v.x, v.a;")).functions[0]
    parts = registers("v.x", "v.y", "v.z", "v.w")
    assert function.body is not None
    assert [i.operands for i in function.body[:-1] if isinstance(i, Instruction)] == [
        (Vector(parts), Register("%tid")), registers("%r1", "v.x", "v.w"),
    ]  # fmt: skip
    assert function.registers == {**{part.name: "u32" for part in parts}, "%r1": "b32"}


def test_tables_of_labels() -> None:
    function = read(kernel("ts: .branchtargets A, B;\nbrx.idx %r1, ts; A: trap; B: mov.u32 %r1, 2;")).functions[0]
    assert function.tables == {"ts": ("A", "B")}


def variable(text: str) -> Any:
    return read(HEAD + text).variables[-1]


def test_variables() -> None:
    assert variable(".global .u32 a[2][3] = {{1}, {4, 5, -6}};").values == (1, 0, 0, 4, 5, -6)
    assert variable(".global .u16 a[] = {1, 2, 3};").size == 6
    assert variable(".global .f32 a[2] = {0f3FC00000, -2.5};").values == (1.5, -2.5)
    made = variable(".visible .global .align 32 .v2 .f32 a[3];")
    assert (made.sizes, made.size, made.align, made.linkage) == ((3, 2), 24, 32, "visible")
    assert variable(".const .v4 .f32 a;").align == 16
    assert variable(".global .u32 x[4]; .global .u64 a[] = {generic(x)+8, x, 0};").values == (
        PtxSymbol("x", 8), PtxSymbol("x"), 0,
    )  # fmt: skip
    packed = ", ".join(f"0x{0xFF << shift:x}(generic(x)+1)" for shift in range(0, 64, 8))
    assert variable(f".global .u32 x; .global .u8 a[9] = {{7, {packed}}};").values == (
        7, *(PtxSymbol("x", 1, shift) for shift in range(0, 64, 8)),
    )  # fmt: skip
    two = read(HEAD + ".global .u32 a, b[2] = {1, 2};").variables
    assert [(v.name, v.size, v.values) for v in two] == [("a", 4, ()), ("b", 8, (1, 2))]
    assert variable(".global .attribute(.managed) .u32 a = 3;").values == (3,)
    assert variable(".weak .global .align 8 .b8 a[16];").linkage == "weak"


def test_functions_and_what_they_state() -> None:
    text = (
        '.file 1 "a.cu", 12, 34\n.extern .func (.param .b32 r) f (.param .b32 _, .param .align 8 .b8 s[12]);\n'
        ".func (.reg .u32 r) g (.reg .u32 a, .reg .pred b) .noreturn { mov.u32 r, a; ret; }\n"
        '.entry e (.param .u64 .ptr .global .align 16 p, .param .f16 h) .maxntid 16, 2, 1 .maxnreg 32 .pragma "x";\n'
        "{ ret; }\n.visible .func h2 (.param .b32 a);\n.visible .func h1 (.param .b32 a) { ret; }\n.alias h2, h1;\n"
        ".section .debug_str\n{\nL: .b8 1,2\n.b32 .debug_abbrev\n}\n"
    )
    module = read(HEAD.replace("sm_80", "sm_80, debug") + text, "f.ptx")
    assert module.options == ("debug",) and module.text[module.start :].startswith(".file")
    f, g, e = (module.function(name) for name in "fge")
    assert f is not None and g is not None and e is not None and g.body is not None
    assert [(p.size, p.align, p.count) for p in f.params] == [(4, 4, 0), (12, 8, 12)] and f.body is None
    assert g.registers == {"r": "u32", "a": "u32", "b": "pred"} and g.directives == {"noreturn": ()}
    assert [p.align for p in e.params] == [8, 2] and e.directives == {"maxntid": (16, 2, 1), "maxnreg": (32,)}
    alias = module.function("h2")
    assert alias is not None and alias.body == module.function("h1").body  # type: ignore[union-attr]
    assert module.text[alias.start : alias.end] == ".alias h2, h1;"
    assert [function.name for function in module.entries] == ["e"]


def test_only_registers_that_appear_count() -> None:
    function = read(kernel(".reg .b32 %many<10000000>; mov.u32 %many9999999, 1;")).functions[0]
    assert function.registers == {"%many9999999": "b32"}


# What ptxas takes

STATEMENTS = [
    *(text for text, _ in OPERANDS if "vadd" not in text and "tensor" not in text and "[64]" not in text),
    "ld .global .u32 %r1, [%rd1 + 4];", "ld.global.u32 %r1, [%rd1+(4+4)];", "@!%p1 mov.u32 %r1, 1;",
    "match.all.sync.b32 %r1|%p1, %r2, -1;", "mov.u32 %r1, !5;", "mov.u32 %r1, (.s64) 5;", "mov.u32 %r1, 5 == 3 || 1;",
    "{ .reg .b32 t; mov.b32 t, %r1; { .reg .b32 t; mov.b32 t, 3; mov.b32 %r2, t; } }", "bra.uni X; X: mov.u32 %r1, 1;",
    "ts: .branchtargets A,B; brx.idx %r1, ts; A: B: mov.u32 %r1,2;", '.pragma "nounroll";', "bar.red.popc.u32 %r1, 0, %p1;",
    ".reg .v4 .u32 v; mov.v4.u32 v, %tid; add.u32 %r1, v.r, v.a;", ".reg .u32 %z<3>, b; mov.u32 %z2, b;",
    ".shared .u32 s[4][4]; mov.u32 %r1, s+4;", ".local .v4 .f32 l4; mov.u64 %rd1, l4;", "mov.pred %p1, 1;",
    ".shared .u32 s[4]; ld.shared.u32 %r1, s[2];", "lop3.or.b32 %r1|%p1, %r2, %r3, %r4, 0xE8, %p2;",
    "ld.global.L1::no_allocate.L2::256B.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1];", "bar.sync 0, 64;", "exit;", "trap;",
    "cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16, %r2;", "st.global.v2.b32 [%rd1], {1, 2};",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};",
    "{ .param .b32 a0; .param .b32 r0; mov.u64 %rd1, pf; st.param.b32 [a0], %r1; "
    "proto: .callprototype (.param .b32 _) _ (.param .b32 _); call (r0), %rd1, (a0), proto; }",
    "{ .param .b32 a0; .param .b32 r0; mov.u64 %rd1, pf; tt: .calltargets pf; call (r0), %rd1, (a0), tt; }",
    "createpolicy.fractional.L2::evict_last.b64 %rd1, 1.0;", "mov.b32 %r1, {%h1, %h2};", "mov.u32 %r1, %envreg3;",
    "mov.u32 %r1, %dynamic_smem_size;", "mov.u32 %r1, %pm0;", "mov.u64 %rd1, %globaltimer;", "mov.u32 %r1, %lanemask_lt;",
    "vadd.s32.s32.s32 %r1, %r2.b0, %r3.h1;", "fma.rn.ftz.f16 %h1, %h2, %h3, %h4;", "fence.acq_rel.gpu;",
    ".global .u32 inner; ld.global.u32 %r1, [inner];", ".const .u32 three = 3; ld.const.u32 %r1, [three];",
    "mov.b64 %rd1, 0xFFFFFFFFFFFFFFFFU;", ".loc 1 2 3\ntrap;",
]  # fmt: skip
DECLARATIONS = [
    ".global .u32 a{} = 3;", ".global .u32 a{}[2][2] = {{{{1}},{{3,4}}}};", ".global .v2 .f32 a{}[2] = {{{{1.0,2.0}},{{3.0,4.0}}}};",
    ".global .u32 a{0}, b{0} = 3, c{0}[2];", ".global .u32 x{0}[4]; .global .u64 a{0}[2] = {{generic(x{0})+8, x{0}}};",
    ".extern .shared .align 16 .b8 a{}[];", ".common .global .u32 a{};", ".weak .func a{} {{ ret; }}", ".const .align 16 .u32 a{}[4] = {{1}};",
    ".global .u32 x{0}; .global .u8 a{0}[9] = {{1, 0xff(generic(x{0})), 0xFF00(x{0}), 0, 0, 0, 0, 0, 0XFF00000000000000(x{0})}};",
    ".func (.reg .u32 r) a{} (.reg .u32 p) {{ mov.u32 r, p; ret; }}", ".func a{} () .noreturn {{ exit; }}",
    ".visible .func a{0} (.param .b32 a); .visible .func b{0} (.param .b32 a) {{ ret; }} .alias a{0}, b{0};",
    ".entry a{} () .maxntid 128, 2, 1 .minnctapersm 2 .maxnreg 32 {{ ret; }}", '.entry a{} () .reqntid 128 .pragma "x"; {{ ret; }}',
    ".entry a{} (.param .u64 .ptr .global .align 16 p, .param .u64 .ptr q) {{ ret; }}", ".global .attribute(.managed) .u32 a{};",
    '.file 1 "a.cu", 123, 45', ".global .u32 a{} = 1+2*3;", ".global .b128 a{};",
    ".func c{0} () {{ ret; }} .entry a{0} () {{ .reg .u32 c{0}; mov.u32 c{0}, 1; ret; }}", ".global .b8 a{}[4] = {{255, -1, 256, 3}};",
]  # fmt: skip


def test_what_ptxas_takes_is_read() -> None:
    declarations = [text.format(number) for number, text in enumerate(DECLARATIONS)]
    around = AROUND.replace(".extern .func f", ".func f").replace(".extern .func (.reg .b32 r) g;", "")
    around = around.replace("b);", "b) { ret; }") + ".func (.reg .b32 r) g { mov.b32 r, 1; ret; }"
    around += ".func (.param .b32 r) pf (.param .b32 a) { ret; }"
    statements = "\n".join(f"{{ {text} }}" for text in STATEMENTS)
    whole = kernel(statements, "\n".join([around, *declarations])).replace(".version 8.0", ".version 8.3")
    module = read(whole, "whole.ptx")
    assert len(module.functions) == 4 + sum(text.count(".func") + text.count(".entry") for text in DECLARATIONS) + 1
    assert assemble(whole, "sm_80", "-c") == ""
