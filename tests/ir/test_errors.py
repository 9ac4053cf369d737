"""Each error says what, where and, where there is a remedy, what to do."""

import pytest

from pydispatch import ir
from pydispatch.errors import CompileError

T = '#hal.executable.target<"a", "b">'
L = "#hal.pipeline.layout<constants = 1, bindings = [#hal.pipeline.binding<storage_buffer>]>"


def fn(body: str, args: str = "%a: tensor<?xf32>, %d: index, %i: i32") -> str:
    return f"func.func @f({args}) {{\n  {body}\n  return\n}}\n"


# text, line, column, what the message or note says
CASES = {
    "unknown operation": (fn("%0 = arith.adf %d, %d : index"), 2, 8, "operation 'arith.adf' is not known"),
    "nearest operation": (fn("%0 = arith.adf %d, %d : index"), 2, 8, "nearest: arith.addf"),
    "unknown dialect": (fn("%0 = foo.bar %d : index"), 2, 8, "dialect 'foo' is not known"),
    "type mismatch": (fn("%0 = arith.addi %d, %i : index"), 2, 23, "type index"),
    "undefined value": (fn("%0 = arith.addi %d, %zz : index"), 2, 23, "value '%zz' is not defined"),
    "undefined alias": ("module attributes {a = #nope} {}", 1, 24, "alias '#nope' is not defined"),
    "alias cycle": ("#a = [#b]\n#b = [#a]\nmodule attributes {x = #a} {}", 1, 7, "defined by itself"),
    "alias twice, after a use": (
        "#b = [#a]\n#a = 1 : i32\n#a = 2 : i32\nmodule {}", 3, 1, "alias '#a' is defined twice"),
    "alias twice": ("#a = 1 : i32\n#a = 2 : i32\nmodule {}", 2, 1, "defined twice"),
    "property twice": (
        'util.global private @g attributes {sym_name = "h"} : i32', 1, 35,
        "'sym_name' of 'util.global' is given twice"),
    "clause twice": (
        fn("%0 = tosa.clamp %a min_val(1.0 : f32) min_val(2.0 : f32) : (tensor<?xf32>) -> tensor<?xf32>"), 2, 41,
        "'min_val' of 'tosa.clamp' is given twice"),
    "clause and entry": (
        fn("%0 = tosa.clamp %a min_val(1.0 : f32) {min_val = 2.0 : f32} : (tensor<?xf32>) -> tensor<?xf32>"), 2, 41,
        "'min_val' of 'tosa.clamp' is given twice"),
    "reduced values without a comma": (fn("scf.reduce(%d %i : index, i32)"), 2, 17, "expected ':'"),
    "reduced values that end with a comma": (fn("scf.reduce(%d, : index)"), 2, 18, "expected a value, got ':'"),
    "no reduced values": (fn("scf.reduce( : index)"), 2, 15, "expected a value, got ':'"),
    "reductions without a comma": (
        fn("scf.reduce(%d, %d : index, index) { ^bb0(%x: index, %y: index): scf.reduce.return %x : index } "
           "{ ^bb0(%x: index, %y: index): scf.reduce.return %x : index }"), 2, 98, "expected ','"),
    "missing dims": (
        fn("%0 = flow.dispatch @e::@x(%a) : (tensor<?xf32>) -> tensor<?xf32>{%d}"), 2, 49, "1 dynamic dimension(s)"),
    "too many dims": (
        fn("%0 = flow.dispatch @e::@x(%a) : (tensor<?xf32>{%d, %d}) -> tensor<4xf32>"), 2, 49, "2 value(s) are given"),
    "tied to a stranger": (
        fn("%0 = flow.dispatch @e::@x(%d) : (index) -> %a{%d}"), 2, 46, "not an operand of this operation"),
    "tied to another result": (
        "func.func @f(%c: index, %u: tensor<2xf32>) {\n  %t:2 = func.call @g() : () -> (tensor<4xf32>, tensor<4xf32>)\n"
        "  %r = flow.tensor.update %u, %t#1[%c] : tensor<2xf32> -> %t as tensor<4xf32>\n  return\n}\n"
        "func.func private @g() -> (tensor<4xf32>, tensor<4xf32>)", 3, 59, "the result is tied to %t, expected %t#1"),
    "operand types": (fn("%0 = flow.dispatch @e::@x(%a, %d) : (index) -> index"), 2, 39, "2 operand(s) are given"),
    "entry point": (fn("%0 = flow.dispatch 5(%a) : (index) -> index"), 2, 22, "expected @executable::@export"),
    "dimension": (fn("%0 = hal.interface.workgroup.id[3] : index"), 2, 35, "expected 0, 1 or 2"),
    "binding type": (
        fn("%0 = hal.interface.binding.subspan binding(0) type(texture) : memref<4xf32>"), 2, 54, "binding type 'texture'"),  # noqa: E501
    "binding set": (
        fn("%0 = hal.interface.binding.subspan set(1) binding(0) : memref<4xf32>"), 2, 42, "there is one set"),
    "binding outside layout": (
        fn(f"%0 = hal.interface.binding.subspan layout({L}) binding(1) : memref<4xf32>"), 2, 8, "binding(1) is not in"),
    "constant outside layout": (
        fn(f"%0 = hal.interface.constant.load layout({L}) ordinal(1) : i32"), 2, 8, "ordinal(1) is not in the layout"),
    "alignment": (
        fn("%0 = hal.interface.binding.subspan binding(0) alignment(48) : memref<4xf32>"), 2, 8, "not a power of two"),
    "no target": ("hal.executable @e { hal.executable.variant @v { } }", 1, 44, "a variant needs a target"),
    "no layout": (
        f"hal.executable @e {{ hal.executable.variant @v target({T}) {{ hal.executable.export @f ordinal(0) }} }}",
        1, None, "an export needs a layout"),
    "ordinal twice": (
        f"hal.executable @e {{\n hal.executable.variant @v target({T}) {{ hal.executable.export @f ordinal(0) layout({L})"  # noqa: E501
        f" hal.executable.export @g ordinal(0) layout({L}) }} }}", 2, 2, "ordinal 0 is given to two exports"),
    "workgroup size": (
        f"hal.executable @e {{ hal.executable.variant @v target({T}) {{\n hal.executable.export @f ordinal(0) layout({L})"  # noqa: E501
        " attributes {workgroup_size = [0 : index]} } }", 2, 2, "three positive integers"),
    "fallback alone": (
        f"hal.executable @e {{ hal.executable.variant @v target({T}) {{\n hal.executable.export @f ordinal(0) layout({L})"  # noqa: E501
        " fallback(@g) } }", 2, 2, "no condition"),
    "unknown callee": (
        fn("%0 = func.call @ff(%i) : (i32) -> i32"), 2, 8, "did you mean @f? the module has @f; declare an external"),
    "symbol twice": (fn("") + fn(""), 5, 1, "the name @f is taken by 'func.func' at line 1"),
    "elements that differ": (
        fn("%0 = tensor.concat dim(0) %a, %b : (tensor<?xf32>, tensor<4xi32>) -> tensor<?xf32>",
           "%a: tensor<?xf32>, %b: tensor<4xi32>"), 2, 8, "f32 is wanted where it has i32"),
    "sizes of a splat": (
        fn("%0 = tensor.splat %i : tensor<?xi32>"), 2, 8, "as in tensor.splat %value[%size]"),
    "inputs of a map": (
        fn("%0 = linalg.map { arith.addf } ins(%a : tensor<?xf32>) outs(%a : tensor<?xf32>)"), 2, 8,
        "takes 2 elements, ins(...) has 1"),
    "operands of the generic form": (
        fn('%0 = "arith.addi"(%d) : (index) -> index'), 2, 8, "'arith.addi': 2 operand(s) are wanted, it has 1"),
    "two sets": (
        "module attributes {l = #hal.pipeline.layout<push_constants = 0, sets = [<0, bindings = [<0, storage_buffer>]>,"
        " <1, bindings = [<0, storage_buffer>]>]>} {}", 1, None, "move its bindings into set 0"),
    "binding gap": (
        "module attributes {l = #hal.pipeline.layout<sets = [<0, bindings = [<1, storage_buffer>]>]>} {}",
        1, None, "expected 0 to 0 without a gap"),
    "object": ("module attributes {o = #hal.executable.object<{size = 1}>} {}", 1, 47, "needs a 'path' or 'data'"),
    "count results": (
        "stream.executable @e { stream.executable.export @f workgroups(%w: index) -> (index, index) { } }",
        1, 74, "this region returns (index, index, index)"),
    "count return": (
        "stream.executable @e {\n stream.executable.export @f workgroups(%w: index) -> (index, index, index) "
        "{ stream.return %w : index } }", 2, 2, "returns (index), expected (index, index, index)"),
    "executable body": ("stream.executable @e {\n func.func @f() { return } }", 1, 1, "cannot hold 'func.func'"),
    "modules of a variant": (
        "hal.executable @e {\n hal.executable.variant @v target(" + T + ") { module { } module { } } }", 2, 2,
        "'hal.executable.variant' holds more than one 'builtin.module'"),
    "modules of an executable": (
        "stream.executable @e { module { } module { } }", 1, 1, "'stream.executable' holds more than one"),
    "condition of a workload": (
        "hal.executable @e { hal.executable.variant @v target(" + T + ") {\n hal.executable.condition(%d: !hal.device, "
        "%n: index) -> i1 { %c = arith.constant true hal.return %c : i1 } } }", 2, 2,
        "the condition region takes only the device, got index"),
    "constants of a workload": (
        "hal.executable @e { hal.executable.variant @v target(" + T + ") {\n hal.executable.constant.block(%n: index) "
        '-> i32 as "c" { %c = arith.constant 1 : i32 hal.return %c : i32 } } }', 2, 2,
        "the constant region takes only the device, got index"),
    "condition of several blocks": (
        "hal.executable @e { hal.executable.variant @v target(" + T + ") {\n hal.executable.condition(%d: !hal.device) "
        "-> i1 { %c = arith.constant true cf.br ^bb1 ^bb1: hal.return %c : i1 } } }", 2, 2,
        "the condition region has 2 blocks, expected one; arith.select chooses"),
    "query default": (
        "hal.executable @e { hal.executable.variant @v target(" + T + ") { hal.executable.condition(%d: !hal.device) -> i1 "  # noqa: E501
        '{\n  %a, %b = hal.device.query<%d : !hal.device> key("x" :: "y") : i1, i1 = 5 : i32 hal.return %b : i1 } } }',
        2, None, "the default is of type i32, expected i1"),
    "return types": (
        "util.func @f(%a: index) -> i32 {\n  util.return %a : index\n}", 1, 1, "@f returns (index), but is declared"),
    "no terminator": ("util.func @f(%a: index) {\n  %0 = arith.addi %a, %a : index\n}", 2, 8, "does not end with"),
    "resource": (
        "util.global private @g = dense_resource<__elided__> : tensor<2xf32>", 1, 40, "not in this text"),
    "resource size": (
        'util.global private @g = dense_resource<w> : tensor<4xf32>\n{-# dialect_resources: { builtin: { w: '
        '"0x0400000000000000FFFFFFFF" } } #-}', 1, None, "has 8 bytes, but tensor<4xf32> has 16"),
    "resource of complex numbers": (
        'util.global private @g = dense_resource<w> : tensor<2xcomplex<f64>>\n{-# dialect_resources: { builtin: { w: '
        '"0x04000000' + "00" * 24 + '" } } #-}', 1, None, "has 24 bytes, but tensor<2xcomplex<f64>> has 32"),
    "resource of a dynamic shape": (
        "util.global private @g = dense_resource<w> : tensor<?xf32>", 1, 46, "the shape of a constant is static"),
    "assumption": (fn("%0 = util.assume.int %d<uneven = 1> : index"), 2, 27, "expected umin, umax or udiv"),
    "cast": (fn("%0 = arith.index_castui %d : index to index"), 2, 8, "between index and an integer"),
    "truncation": (fn("%0 = arith.trunci %i : i32 to i64"), 2, 8, "narrows, got i32 to i64"),
    "used too early": (
        "util.func @f() {\n  util.optimization_barrier %c : index\n  %c = arith.constant 1 : index\n  util.return\n}",
        2, 3, "uses %c before its definition"),
    "first token": ("# = 1", 1, 1, "xpected"),
    "open string": ('module attributes {a = "' + "x" * 200 + "} {}", 1, 24, "this string is not closed"),
    "unbalanced": ("module attributes {a = #some.thing<(>} {}", 1, None, "'>' does not match any open bracket"),
    "unfinished": ("module {", 1, 9, "expected an operation, a block label or '}'"),
    "results": (fn("%0, %1 = arith.addi %d, %d : index"), 2, 3, "1 result(s), but 2 name(s)"),
    "name without percent": (fn("%0 = arith.addi d, %d : index"), 2, 19, "names of values begin with %: %d"),
    "number for a value": (fn("%0 = arith.addi %d, 1 : index"), 2, 23, "%name = arith.constant 1 : type"),
    "end of line": (fn("%0 = arith.addi %d, %d // sum"), 2, 25, "expected ':'"),
    "end of line after a string": ('module attributes {a = "http://x.y" // an address\n', 1, 36, "'}' expected"),
    "arrow": (fn("%0 = flow.dispatch @e::@x(%d) : (index)"), 2, 42, "expected '->'"),
    "type of a value": (fn("%0 = arith.addi %i, %d : i32"), 2, 23, "%d has type index, but is used here with type i32"),
    "type of another language": (fn("%0 = arith.constant 1 : int32"), 2, 27, "nearest: i32"),
    "type misspelt": (fn("%0 = tensor.empty() : tenser<4xf32>"), 2, 25, "nearest: tensor"),
    "shape": (fn("%0 = tensor.empty() : tensor<4,f32>"), 2, 33, "tensor<4x?xf32>"),
    "sizes of a new tensor": (fn("%0 = tensor.empty() : tensor<?xf32>"), 2, 8, "has 1 dynamic size(s), got 0 value(s)"),
    "name twice": (fn("%d = arith.constant 1 : index"), 2, 3, "value %d is defined twice"),
    "executable alone": (fn("%0 = flow.dispatch @e(%d) : (index) -> index"), 2, 22, "expected @executable::@export"),
    "names for some arguments": ("func.func private @f(%a: i8, i8)", 1, 30, "either all arguments have names"),
    "body without names": ("func.func @f(i8) { return }", 1, 13, "have names"),
    "constant of a dynamic shape": (
        fn("%0 = arith.constant dense<1.0> : tensor<?xf32>"), 2, 36, "the shape of a constant is static"),
    "constant of a scalar": (fn("%0 = arith.constant dense<1.0> : f32"), 2, 36, "tensor, vector or memref of numbers"),
    "no yield": (
        fn("%c = arith.constant true\n  %0 = scf.if %c -> (f32) { } else { }"), 3, 8, "yields (), expected (f32)"),
    "gather": (
        "func.func @f(%a: tensor<4xf32>, %i: tensor<3x2xindex>) {\n  %0 = tensor.gather %a[%i] gather_dims([0]) : "
        "(tensor<4xf32>, tensor<3x2xindex>) -> tensor<3x1xf32>\n  return\n}", 2, 8, "must be 1, one for each"),
    "parallel": (fn("affine.parallel (%j, %k) = (0) to (4) { }"), 2, 19, "2 loop variable(s) have 1 start(s)"),
    "parallel steps": (fn("affine.parallel (%j) = (0) to (4) step (0) { }"), 2, 3,
                       "expected a positive step for each of 1 loop(s), got [0]"),
    "parallel steps of the generic form": (
        fn('"affine.parallel"() <{'
           'lowerBoundsMap = affine_map<() -> (0)>, lowerBoundsGroups = dense<1> : tensor<1xi32>, '
           'upperBoundsMap = affine_map<() -> (4)>, upperBoundsGroups = dense<1> : tensor<1xi32>, steps = [1, 1], '
           'reductions = []}> ({ ^bb0(%j: index): affine.yield }) : () -> ()'), 2, 3,
        "expected a positive step for each of 1 loop(s), got [1, 1]"),
    "groups of bounds of other loops": (
        fn('"affine.parallel"() <{'
           'lowerBoundsMap = affine_map<() -> (0)>, lowerBoundsGroups = dense<[2, -1]> : tensor<2xi32>, '
           'upperBoundsMap = affine_map<() -> (4)>, upperBoundsGroups = dense<1> : tensor<1xi32>, steps = [1], '
           'reductions = []}> ({ ^bb0(%j: index): affine.yield }) : () -> ()'), 2, 3,
        "a group of lower bounds for each of 1 loop(s), 1 bound(s) in all, got the sizes [2, -1]"),
    "loop variable in its own bound": (fn("affine.parallel (%j) = (%j) to (4) { }"), 2, 3, "value that is not defined"),
    "result out of range": (
        "func.func @f(%d: index) {\n  util.optimization_barrier %0#1 : index\n  %0 = arith.addi %d, %d : index\n"
        "  return\n}", 3, 3, "SSA value %0 is referenced with an index larger than its size"),
    "character": (fn("%0 = arith.addi %d; %d : index"), 2, 21, "unexpected character"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_error(name: str) -> None:
    text, line, column, message = CASES[name]
    with pytest.raises(CompileError) as caught:
        ir.parse(text, "prog.mlir")
    error = caught.value
    assert message in str(error)
    assert error.location is not None
    assert (error.location.file, error.location.line) == ("prog.mlir", line)
    if column is not None:
        assert error.location.column == column, str(error)
    if error.location.text:
        assert "^" in error.location.caret()
