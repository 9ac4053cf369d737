"""What different releases write for the same thing is the same after parsing."""

import pytest

from pydispatch import ir
from pydispatch.ir.dialects.hal import dialect as hal

TARGET = '#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {a = 1 : index}>'
OBJECT = '#hal.executable.object<{path = "f.o"}>'
LAYOUT = "#hal.pipeline.layout<constants = 1, bindings = [{}]>".format(
    "#hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>"
)
COUNT = "%c1 = arith.constant 1 : index hal.return %w, %c1, %c1 : index, index, index"


def variant(head: str, body: str = "") -> str:
    return f"hal.executable private @e {{ hal.executable.variant public @v {head} {{ {body} }} }}"


def export(tail: str, layout: str = LAYOUT) -> str:
    return variant(f"target({TARGET})", f"hal.executable.export public @f ordinal(0) layout({layout}) {tail}")


def dispatch(text: str) -> str:
    return (
        "func.func @f(%a: tensor<?xf32>, %d: index) -> tensor<?xf32> {\n"
        f"  %0 = flow.dispatch @e::@x[%d](%a, %d){text}\n  return %0 : tensor<?xf32>\n}}"
    )


SAME = {
    "device target: list, dictionary, alias type": [
        f'module attributes {{d = #hal.device.target<"local", [{TARGET}]> : !hal.device}} {{}}',
        f'module attributes {{d = #hal.device.target<"local", [{TARGET}]>}} {{}}',
        f'module attributes {{d = #hal.device.target<"local", {{executable_targets = [{TARGET}]}}>}} {{}}',
        f'#x = {TARGET}\n#d = #hal.device.target<"local", [#x]> : !hal.device\nmodule attributes {{d = #d}} {{}}',
        f'module attributes {{d = #d}} {{}}\n#d = #hal.device.target<"local", [#x]> : !hal.device\n#x = {TARGET}',
    ],
    "variant: clauses": [
        variant(f"target({TARGET}) objects([{OBJECT}])"),
        variant(f", target = {TARGET}, objects = [{OBJECT}]"),
        variant(f"objects([{OBJECT}]) target({TARGET.replace('#hal.executable.target', '')})"),
    ],
    "source: objects": [
        f"hal.executable.source private @s attributes {{objects = {o}}} {{}}"
        if i == 0
        else f"hal.executable.source private @s objects({o}) {{}}"
        if i == 1
        else f"hal.executable.source private @s attributes {{hal.executable.objects = {o}}} {{}}"
        for i, o in enumerate([f"#hal.executable.objects<{{{TARGET} = [{OBJECT}]}}>"] * 3)
    ],
    "query: default with its type, without it, before a comment": [
        variant(
            f"target({TARGET})",
            "hal.executable.condition(%d: !hal.device) -> i1 {\n%ok, %value = hal.device.query<%d : !hal.device> "
            f'key("x" :: "y") : i1, i32 = {default}\nhal.return %ok : i1 }}',
        )
        for default in ("-4 : i32", "-4", "-4 // a: b")
    ],
    "layout: bindings, sets, shorthand": [
        export("", LAYOUT),
        export("", LAYOUT.removeprefix("#hal.pipeline.layout")),
        export("", LAYOUT.replace("#hal.pipeline.binding", "")),
        export("", "#hal.pipeline.layout<push_constants = 1, sets = [<0, bindings = ["
               "<0, storage_buffer, ReadOnly>, <1, storage_buffer>]>]>"),
        export("", "#hal.pipeline.layout<push_constants = 1, sets = [#hal.descriptor_set.layout<0, bindings = ["
               "#hal.descriptor_set.binding<1, storage_buffer>,"
               "#hal.descriptor_set.binding<0, storage_buffer, ReadOnly>]>]>"),
    ],
    "export: workgroup size": [
        export("attributes {workgroup_size = [64 : index, 1 : index, 1 : index]}"),
        export("<workgroup_size = [64 : index, 1 : index, 1 : index]>"),
    ],
    "export: count": [
        export(f"count(%device: !hal.device, %w: index) -> (index, index, index) {{ {COUNT} }}"),
        export(f"{{ ^bb0(%device: !hal.device, %w: index): {COUNT} }}"),
        export(f"attributes {{}} {{ ^bb0(%device: !hal.device, %w: index): {COUNT} }}"),
    ],
    "flags": [
        export("", '#hal.pipeline.layout<bindings = [<storage_buffer, "ReadOnly|Indirect">]>'),
        export("", "#hal.pipeline.layout<bindings = [<storage_buffer, ReadOnly|Indirect>], flags = None>"),
    ],
    "dispatch: tied result": [
        dispatch(" : (tensor<?xf32>{%d}, index) -> %a{%d}"),
        dispatch(" : (tensor<?xf32>{%d}, index) -> %a as tensor<?xf32>{%d}"),
        dispatch(" {} : (tensor<?xf32>{%d}, index) -> (%a{%d})"),
    ],
    "hexadecimal floats are bits": [
        "util.global private @g = dense<[0x3F800000, 0x40000000]> : tensor<2xf32>",
        "util.global private @g = dense<[1.0, 2.0]> : tensor<2xf32>",
    ],
    "resources": [
        "util.global private @g = dense_resource<w> : tensor<2xf32>\n"
        '{-# dialect_resources: { builtin: { w: "0x040000000000803F00000040" } } #-}',
        'util.global private @g = dense<"0x0000803F00000040"> : tensor<2xf32>',
    ],
    "resources of complex numbers": [
        "util.global private @g = dense_resource<w> : tensor<1xcomplex<f64>>\n"
        '{-# dialect_resources: { builtin: { w: "0x04000000000000000000F03F0000000000000040" } } #-}',
        'util.global private @g = dense<(1.0, 2.0)> : tensor<1xcomplex<f64>>',
    ],
    "texts beyond ASCII, which MLIR prints with escapes": [
        f'func.func @"{text}"(%a: i1 {{"{text}" = "{text}"}}) attributes {{"{text}"}} {{\n'
        f' cf.assert %a, "{text}" {{"{text}" = ["{text}"]}}\n return\n}}'
        for text in ("\u00e9\\22\u2028", "\\C3\\A9\\22\\E2\\80\\A8")
    ],
    "names of attributes that are no identifiers": [
        'func.func @f(%a: i32 {"$q", ".a" = 1 : i32, "q\\22\\5C", "1", "a-b", "_"}) {\n return\n}',
        'func.func @f(%a: i32 {"$q", ".a" = 1 : i32, "q\\"\\\\", "1", "a-b", _}) {\n return\n}',
    ],
    "locations are ignored": [
        "func.func @f(%a: index) {\n return\n}",
        '#l = loc("a.py":1:2)\nfunc.func @f(%a: index loc("x")) {\n return loc(fused<"p">["a":1:2, #l])\n} loc(#l)\n#m = loc(#l)',  # noqa: E501
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_spellings_agree(name: str) -> None:
    first, *others = [ir.parse(text) for text in SAME[name]]
    for other in others:
        assert first.is_structurally_equivalent(other), f"{ir.print_module(first)}\n{ir.print_module(other)}"
    assert first.is_structurally_equivalent(ir.parse(ir.print_module(first)))


KERNEL = "func.func @k(%c0: index, %n: index) {{\n  %0 = {}\n  return\n}}"


@pytest.mark.parametrize(
    "text",
    [
        "hal.interface.binding.subspan set(0) binding(1) type(storage_buffer) alignment(64) offset(%c0) : memref<?xf32>{%n}",  # noqa: E501
        f"hal.interface.binding.subspan layout({LAYOUT}) binding(1) alignment(64) offset(%c0) : memref<?xf32>{{%n}}",
        f'hal.interface.binding.subspan layout({LAYOUT}) binding(1) offset(%c0) flags("ReadOnly|Indirect") : memref<4xf32>',  # noqa: E501
        "hal.interface.constant.load[0] : i32",
        f"hal.interface.constant.load layout({LAYOUT}) ordinal(0) alignment(4) values([1 : i32, 2 : i32]) : i32",
        "hal.interface.workgroup.id[2] upper_bound 65535 : index",
        'hal.executable.constant.load "k" : i64',
    ],
)
def test_kernel_operations_round_trip(text: str) -> None:
    module = ir.parse(KERNEL.format(text))
    assert module.is_structurally_equivalent(ir.parse(ir.print_module(module)))


@pytest.mark.parametrize("terminator", ["hal.return", "stream.return", "flow.return", "util.return", "return"])
def test_terminators_of_any_dialect(terminator: str) -> None:
    text = (
        "stream.executable private @e { stream.executable.export public @f workgroups(%w: index) -> "
        "(index, index, index) { %c1 = arith.constant 1 : index " + terminator
        + " %w, %c1, %c1 : index, index, index } builtin.module { func.func @f() { return } } }"
    )  # fmt: skip
    if terminator == "return":
        # A plain `return` belongs to the dialect of the operation around it.
        module = ir.parse(text)
        assert "stream.return" in ir.print_module(module)
    else:
        assert terminator in ir.print_module(ir.parse(text))


def test_fields_have_plain_values() -> None:
    module = ir.parse(
        export(
            f"count(%device: !hal.device, %w: index) -> (index, index, index) {{ {COUNT} }} "
            "<subgroup_size = 32 : index>"
        )
    )
    op = next(o for o in module.walk() if isinstance(o, hal.ExecutableExportOp))
    assert op.sym_name.data == "f"
    assert op.ordinal.value.data == 0
    assert op.layout.constants.data == 1
    assert [b.read_only for b in op.layout.bindings] == [True, False]
    assert op.subgroup_size.value.data == 32
    assert not op.condition.blocks
    assert len(op.count.block.args) == 2


def test_unknown_attributes_are_kept() -> None:
    text = (
        "func.func @f() attributes {translation_info = #iree_codegen.translation_info<pipeline = CPUDefault "
        "workgroup_size = [1], {x = [1, 2]}>, "
        'b = #some.thing<"a > b", f(x) -> y>, c = !other.type} {\n  return\n}'
    )
    printed = ir.print_module(ir.parse(text))
    assert "#iree_codegen.translation_info<pipeline = CPUDefault workgroup_size = [1], {x = [1, 2]}>" in printed
    assert '#some.thing<"a > b", f(x) -> y>' in printed
    assert "!other.type" in printed


LOWERING = "#iree_codegen.lowering_config<tile_sizes = [[64], [8, 0], []]>"
TRANSLATION = "#iree_codegen.translation_info<{}CPUDoubleTilingExpert{}>"


@pytest.mark.parametrize(
    "translation",
    [
        TRANSLATION.format("", ""),
        TRANSLATION.format("", ", tile_size = [[]]"),
        TRANSLATION.format("pipeline = ", " workgroup_size = [64, 1, 1] subgroup_size = 32, {x = 1}"),
    ],
)
def test_how_others_would_compile_it_is_read_and_kept(translation: str) -> None:
    """On exports, functions and operations, through aliases or in place."""
    info = f"#iree_codegen.compilation_info<lowering_config = {LOWERING}, translation_info = {translation}>"
    short = info.replace("= #iree_codegen.lowering_config", "= ").replace("= #iree_codegen.translation_info", "= ")
    text = (
        f"#lowering = {LOWERING}\n#translation = {translation}\n#info = #iree_codegen.compilation_info<"
        "lowering_config = #lowering, translation_info = #translation>\n"
        + export("attributes {translation_info = #translation}")
        + f"\nfunc.func @f(%a: tensor<4xf32>) -> tensor<4xf32> attributes {{compilation_info = {short}}} {{\n"
        "  %0 = arith.addf %a, %a {compilation_info = #info} : tensor<4xf32>\n"
        f"  %1 = arith.addf %0, %a {{compilation_info = {info}, lowering_config = #lowering}} : tensor<4xf32>\n"
        "  return %1 : tensor<4xf32>\n}"
    )
    module = ir.parse(text)
    assert module.is_structurally_equivalent(ir.parse(ir.print_module(module)))
    assert ir.print_module(module).count("compilation_info<") == 3
