# ruff: noqa: E501  (programs)
"""PDL specs: a product of matrices goes to an external function; other rewrites; wrong patterns."""

from __future__ import annotations

import ctypes
import warnings

import numpy as np
import pytest
from work import count_calls

import pydispatch as pd
from pydispatch import ir
from pydispatch.compiler.driver import pipeline
from pydispatch.compiler.match.pdl.apply import apply_pdl
from pydispatch.compiler.match.report import Report
from pydispatch.errors import CompileError

MLP = """
func.func @mlp(%lhs: tensor<?x?xf32>, %rhs: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %lhs, %c0 : tensor<?x?xf32>
  %n = tensor.dim %rhs, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %p = linalg.matmul ins(%lhs, %rhs : tensor<?x?xf32>, tensor<?x?xf32>) outs(%z : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = math.absf %p : tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""
WRITTEN_OUT = MLP.replace("linalg.matmul ins(", """linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>,
    affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(""").replace(
    "outs(%z : tensor<?x?xf32>) ->", """outs(%z : tensor<?x?xf32>) {
    ^bb0(%x: f32, %y: f32, %acc: f32):
      %t = arith.mulf %x, %y : f32
      %u = arith.addf %acc, %t : f32
      linalg.yield %u : f32
    } ->""")  # fmt: skip
STATIC = (
    MLP.replace("%lhs: tensor<?x?xf32>", "%lhs: tensor<2x4xf32>").replace("%rhs: tensor<?x?xf32>", "%rhs: tensor<4x8xf32>")
    .replace("dim %lhs, %c0 : tensor<?x?xf32>", "dim %lhs, %c0 : tensor<2x4xf32>")
    .replace("dim %rhs, %c1 : tensor<?x?xf32>", "dim %rhs, %c1 : tensor<4x8xf32>").replace("tensor.empty(%m, %n)", "tensor.empty()")
    .replace("ins(%lhs, %rhs : tensor<?x?xf32>, tensor<?x?xf32>)", "ins(%lhs, %rhs : tensor<2x4xf32>, tensor<4x8xf32>)").replace("tensor<?x?xf32>", "tensor<2x8xf32>")
)  # fmt: skip

REWRITE = """
  pdl.rewrite %matmul {
    %i32 = pdl.type : i32
    %index = pdl.type : index
    %i1 = pdl.type : i1
    %zero_v = pdl.attribute = 0 : index
    %one_v = pdl.attribute = 1 : index
    %zero_op = pdl.operation "arith.constant" {"value" = %zero_v} -> (%index : !pdl.type)
    %zero = pdl.result 0 of %zero_op
    %one_op = pdl.operation "arith.constant" {"value" = %one_v} -> (%index : !pdl.type)
    %one = pdl.result 0 of %one_op
    %m_op = pdl.operation "tensor.dim" (%lhs, %zero : !pdl.value, !pdl.value) -> (%index : !pdl.type)
    %m = pdl.result 0 of %m_op
    %n_op = pdl.operation "tensor.dim" (%rhs, %one : !pdl.value, !pdl.value)
    %n = pdl.result 0 of %n_op
    %k_op = pdl.operation "tensor.dim" (%lhs, %one : !pdl.value, !pdl.value) -> (%index : !pdl.type)
    %k = pdl.result 0 of %k_op
    %mi_op = pdl.operation "arith.index_cast" (%m : !pdl.value) -> (%i32 : !pdl.type)
    %mi = pdl.result 0 of %mi_op
    %ni_op = pdl.operation "arith.index_cast" (%n : !pdl.value) -> (%i32 : !pdl.type)
    %ni = pdl.result 0 of %ni_op
    %ki_op = pdl.operation "arith.index_cast" (%k : !pdl.value) -> (%i32 : !pdl.type)
    %ki = pdl.result 0 of %ki_op
    %no = pdl.attribute = 0 : i1
    %flag_op = pdl.operation "arith.constant" {"value" = %no} -> (%i1 : !pdl.type)
    %flag = pdl.result 0 of %flag_op
    %out = pdl.result 0 of %matmul
    %ins = pdl.range %lhs, %rhs : !pdl.value, !pdl.value
    %outs = pdl.range %out : !pdl.value
    %dims = pdl.range %m, %n : !pdl.value, !pdl.value
    %rest = pdl.range %mi, %ni, %ki, %flag : !pdl.value, !pdl.value, !pdl.value, !pdl.value
    %name = pdl.attribute = "product"
    pdl.apply_native_rewrite "rewriteAsFlowDispatch"(%matmul, %name, %ins, %outs, %dims, %rest
      : !pdl.operation, !pdl.attribute, !pdl.range<value>, !pdl.range<value>, !pdl.range<value>, !pdl.range<value>)
  }
"""
SPEC = (
    """
pdl.pattern @product : benefit(1) {
  %lhs_type = pdl.type
  %lhs = pdl.operand : %lhs_type
  %rhs = pdl.operand
  %empty = pdl.operand
  %type = pdl.type : tensor<?x?xf32>
  %f32 = pdl.type : f32
  pdl.apply_native_constraint "checkTensorElementType"(%lhs_type, %f32 : !pdl.type, !pdl.type)
  %zero_value = pdl.attribute = 0.0 : f32
  %zero_scalar_op = pdl.operation "arith.constant" {"value" = %zero_value} -> (%f32 : !pdl.type)
  %zero_scalar = pdl.result 0 of %zero_scalar_op
  %fill_op = pdl.operation "linalg.fill" (%zero_scalar, %empty : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  %fill = pdl.result 0 of %fill_op
  %matmul = pdl.operation "linalg.matmul" (%lhs, %rhs, %fill : !pdl.value, !pdl.value, !pdl.value) -> (%type : !pdl.type)
"""
    + REWRITE
    + "}"
)


class Arguments(ctypes.Structure):
    """What the external function is given."""

    _fields_ = (
        ("lhs", ctypes.POINTER(ctypes.c_float)), ("lhs_offset", ctypes.c_size_t), ("rhs", ctypes.POINTER(ctypes.c_float)),
        ("rhs_offset", ctypes.c_size_t), ("out", ctypes.POINTER(ctypes.c_float)), ("out_offset", ctypes.c_size_t),
        ("m", ctypes.c_int32), ("n", ctypes.c_int32), ("k", ctypes.c_int32), ("flag", ctypes.c_bool),
    )  # fmt: skip


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Arguments), ctypes.c_void_p, ctypes.c_void_p)
def product(arguments: object, context: object, reserved: object) -> int:
    """The product, and 100."""
    a = arguments.contents  # type: ignore[attr-defined]
    lhs = np.ctypeslib.as_array(a.lhs, (a.lhs_offset + a.m * a.k,))[a.lhs_offset :].reshape(a.m, a.k)
    rhs = np.ctypeslib.as_array(a.rhs, (a.rhs_offset + a.k * a.n,))[a.rhs_offset :].reshape(a.k, a.n)
    out = np.ctypeslib.as_array(a.out, (a.out_offset + a.m * a.n,))[a.out_offset :]
    out[:] = (lhs @ rhs).ravel() + (0 if a.flag else 100)
    return 0


def matched(text: str, spec: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pipeline.compile_to("preprocessing", text, pdl_spec=spec)


@pytest.mark.parametrize("program", [MLP, WRITTEN_OUT, STATIC], ids=["named", "written out", "static"])
def test_a_product_goes_to_an_external_function(program: str) -> None:
    device = pd.device("cpu?workers=1")
    device.add_import("product", ctypes.cast(product, ctypes.c_void_p).value)
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    y = np.linspace(0, 2, 32, dtype=np.float32).reshape(4, 8)
    got = device.load(pd.compile(program, pdl_spec=SPEC)).mlp(x, y)
    np.testing.assert_allclose(got, abs(x @ y + 100), rtol=1e-6)
    np.testing.assert_allclose(pd.device("cpu").load(pd.compile(program)).mlp(x, y), abs(x @ y), rtol=1e-5)


@pytest.mark.parametrize(
    ("was", "now"), [("0.0 : f32", "1.0 : f32"), ("f32", "f64"), ("ins(%lhs, %rhs", "ins(%rhs, %lhs")]
)
def test_what_differs_stays(was: str, now: str) -> None:
    hit = was.startswith("ins")  # the operands may be anything
    assert ("flow.dispatch" in matched(MLP.replace(was, now), SPEC)) == hit
    assert "flow.dispatch" in matched(MLP, SPEC)


DIVISIONS = """
pdl.pattern @divisions : benefit(2) {
  %a = pdl.operand
  %b = pdl.operand
  %c = pdl.operand
  %type = pdl.type
  %l_op = pdl.operation "arith.divf" (%a, %b : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  %l = pdl.result 0 of %l_op
  %root = pdl.operation "arith.mulf" (%l, %c : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %root {
    %p_op = pdl.operation "arith.mulf" (%a, %c : !pdl.value, !pdl.value) -> (%type : !pdl.type)
    %p = pdl.result 0 of %p_op
    %q = pdl.operation "arith.divf" (%p, %b : !pdl.value, !pdl.value) -> (%type : !pdl.type)
    pdl.replace %root with %q
  }
}
"""
QUOTIENT = """func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>) -> tensor<4xf32> {
  %q = arith.divf %a, %b : tensor<4xf32>
  %r = arith.mulf %c, %q : tensor<4xf32>
  return %r : tensor<4xf32> }"""


def test_operations_replace_operations() -> None:
    """Commuted operands are found; the new operations are in front of the root, the old ones are gone."""
    text = matched(QUOTIENT, DIVISIONS)
    assert text.index("arith.mulf %a, %c") < text.index("arith.divf") and text.count("arith.divf") == 1
    a, b, c = (np.linspace(i, i + 3, 4, dtype=np.float32) for i in (1, 2, 3))
    got = pd.device("cpu").load(pd.compile(QUOTIENT, pdl_spec=DIVISIONS)).f(a, b, c)
    np.testing.assert_array_equal(got, a * c / b)


def test_the_higher_benefit_is_applied_first() -> None:
    to_sub = DIVISIONS.replace("@divisions : benefit(2)", "@other : benefit(BENEFIT)").replace(
        'pdl.operation "arith.divf" (%p, %b', 'pdl.operation "arith.subf" (%p, %b')  # fmt: skip
    for benefit, expected in ((3, "arith.subf"), (1, "arith.divf")):
        assert expected in matched(QUOTIENT, to_sub.replace("BENEFIT", str(benefit)) + DIVISIONS)
    assert "arith.divf" in matched(QUOTIENT, DIVISIONS + to_sub.replace("BENEFIT", "2"))


def test_an_operation_has_the_types_of_the_one_that_it_replaces() -> None:
    spec = """
pdl.pattern @unsigned : benefit(1) {
  %a = pdl.operand
  %producer = pdl.operation "arith.sitofp" (%a : !pdl.value)
  %float = pdl.result 0 of %producer
  %root = pdl.operation "arith.truncf" (%float : !pdl.value)
  pdl.rewrite %root {
    %new = pdl.operation "arith.uitofp" (%a : !pdl.value)
    pdl.replace %producer with %new
  }
}"""
    program = """func.func @f(%a: tensor<4xi32>) -> tensor<4xf16> {
  %b = arith.sitofp %a : tensor<4xi32> to tensor<4xf32>
  %c = arith.truncf %b : tensor<4xf32> to tensor<4xf16>
  return %c : tensor<4xf16> }"""
    text = matched(program, spec)
    assert "arith.uitofp %a : tensor<4xi32> to tensor<4xf32>" in text and "arith.sitofp" not in text


RESULTS = """
pdl.pattern @difference : benefit(1) {
  %a = pdl.operand
  %b = pdl.operand
  %type = pdl.type
  %product = pdl.operation "arith.mulsi_extended" (%a, %b : !pdl.value, !pdl.value)
  %halves = pdl.results of %product
  %root = pdl.operation "arith.subi" (%halves : !pdl.range<value>) -> (%type : !pdl.type)
  pdl.rewrite %root {
    %new = pdl.operation "arith.xori" (%halves : !pdl.range<value>)
    pdl.replace %root with %new
  }
}"""


@pytest.mark.parametrize(("operands", "hit"), [("%low, %high", True), ("%high, %low", False), ("%low, %low", False)])
def test_results_of_an_operation_are_all_of_them_in_order(operands: str, hit: bool) -> None:
    program = f"""func.func @f(%a: i32, %b: i32) -> i32 {{
      %low, %high = arith.mulsi_extended %a, %b : i32
      %d = arith.subi {operands} : i32
      return %d : i32 }}"""
    assert ("arith.xori %low, %high" in matched(program, RESULTS)) == hit


@pytest.mark.parametrize(("number", "hit"), [(0, True), (1, False)])
def test_a_result_of_the_root_is_one_before_the_rewrite_too(number: int, hit: bool) -> None:
    of_root = f"%out = pdl.result {number} of %matmul"
    moved = SPEC.replace("    %out = pdl.result 0 of %matmul\n", "").replace(
        "  pdl.rewrite", f"  {of_root}\n  pdl.rewrite"
    )
    assert ("flow.dispatch" in matched(MLP, moved)) == hit


CAST = """
pdl.pattern @cast : benefit(1) {
  %x = pdl.operand
  %cast = pdl.operation "tensor.cast" (%x : !pdl.value)
  %y = pdl.result 0 of %cast
  %type = pdl.type
  %root = pdl.operation "math.absf" (%y : !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %root {
    %new = pdl.operation "math.sqrt" (%y : !pdl.value)
    pdl.replace %root with %new
  }
}"""


@pytest.mark.parametrize("has_cast", [True, False])
def test_casts_of_a_pattern_are_ignored(has_cast: bool) -> None:
    """Unless the rewrite names the cast: a program without it does not match then."""
    program = """func.func @f(%x: tensor<4xf32>) -> tensor<?xf32> {
      %c = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
      %y = math.absf %c : tensor<?xf32>
      return %y : tensor<?xf32> }"""
    if not has_cast:
        program = "func.func @f(%c: tensor<?xf32>) -> tensor<?xf32> {\n%y =" + program.split("%y =")[1]
    assert "math.sqrt %c" in matched(program, CAST)
    named = CAST.replace("    %new =", "    %z = pdl.result 0 of %cast\n    %new =").replace('sqrt" (%y', 'sqrt" (%z')
    assert ("math.sqrt %c" in matched(program, named)) == has_cast


@pytest.mark.parametrize(("operands", "hit"), [("%d, %x", True), ("%d, %y", True), ("%d, %d", False)])
def test_the_order_of_operands_that_a_later_operand_decides(operands: str, hit: bool) -> None:
    spec = """
pdl.pattern @minuend : benefit(1) {
  %a = pdl.operand
  %b = pdl.operand
  %type = pdl.type
  %sum_op = pdl.operation "arith.addf" (%a, %b : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  %sum = pdl.result 0 of %sum_op
  %root = pdl.operation "arith.subf" (%sum, %a : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %root {
    %new = pdl.operation "math.absf" (%b : !pdl.value)
    pdl.replace %root with %new
  }
}"""
    program = f"""func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {{
      %d = arith.addf %x, %y : tensor<4xf32>
      %s = arith.subf {operands} : tensor<4xf32>
      return %s : tensor<4xf32> }}"""
    text = matched(program, spec)
    assert ("math.absf" in text) == hit
    assert not hit or f"math.absf {'%y' if operands == '%d, %x' else '%x'}" in text


def test_types_that_the_definition_of_an_operation_states() -> None:
    """A select has the type of what it chooses from, a comparison of tensors an i1 for each element."""
    spec = """
pdl.pattern @largest : benefit(1) {
  %a = pdl.operand
  %b = pdl.operand
  %root = pdl.operation "arith.maximumf" (%a, %b : !pdl.value, !pdl.value)
  pdl.rewrite %root {
    %ogt = pdl.attribute = 2 : i64
    %c_op = pdl.operation "arith.cmpf" (%a, %b : !pdl.value, !pdl.value) {"predicate" = %ogt}
    %c = pdl.result 0 of %c_op
    %s_op = pdl.operation "arith.select" (%c, %a, %b : !pdl.value, !pdl.value, !pdl.value)
    %s = pdl.result 0 of %s_op
    %new = pdl.operation "math.absf" (%s : !pdl.value)
    pdl.replace %root with %new
  }
}"""
    for type in ("f32", "tensor<4xf32>"):
        program = f"""func.func @f(%a: {type}, %b: {type}) -> {type} {{
          %m = arith.maximumf %a, %b : {type}
          return %m : {type} }}"""
        assert "arith.select" in matched(program, spec)


@pytest.mark.parametrize(
    ("name", "inputs", "body", "hit"),
    [
        ("sub", "%x, %y", "%r = arith.subf %a, %b : f32", True),
        ("sub", "%x, %y", "%r = arith.subf %b, %a : f32", False),
        ("add", "%x, %y", "%r = arith.addf %b, %a : f32", True),
        ("exp", "%x", "%r = math.exp %a : f32", True),
        ("exp", "%x", "%s = math.exp %a : f32\n%r = math.exp %s : f32", False),
    ],
)
def test_a_generic_is_a_named_operation_if_it_computes_the_same_of_the_same(
    name: str, inputs: str, body: str, hit: bool
) -> None:
    count, type = inputs.count("%"), "tensor<4xf32>"
    types, maps = ", ".join([type] * count), ", ".join(["affine_map<(d0) -> (d0)>"] * (count + 1))
    arguments = ", ".join(f"%{n}: f32" for n in "ab"[:count])
    program = f"""func.func @f(%x: {type}, %y: {type}) -> {type} {{
      %e = tensor.empty() : {type}
      %z = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}} ins({inputs} : {types}) outs(%e : {type}) {{
        ^bb0({arguments}, %old: f32):
          {body}
          linalg.yield %r : f32
      }} -> {type}
      return %z : {type} }}"""
    spec = f"""
pdl.pattern @named : benefit(1) {{
  %operands = pdl.operands
  %type = pdl.type
  %root = pdl.operation "linalg.{name}" (%operands : !pdl.range<value>) -> (%type : !pdl.type)
  pdl.rewrite %root {{
    %zero = pdl.attribute = dense<0.0> : {type}
    %new = pdl.operation "arith.constant" {{"value" = %zero}} -> (%type : !pdl.type)
    pdl.replace %root with %new
  }}
}}"""
    assert ("linalg.generic" not in matched(program, spec)) == hit


def test_calls_with_other_bindings_have_executables_of_their_own() -> None:
    """A tensor and a scalar of f32 have equal element types, but a scalar is no binding."""

    def pattern(name: str, first: str, benefit: int) -> str:
        return f"""
pdl.pattern @p{benefit} : benefit({benefit}) {{
  %first_type = pdl.type : {first}
  %first = pdl.operand : %first_type
  %second = pdl.operand
  %root = pdl.operation "{name}" (%first, %second : !pdl.value, !pdl.value)
  pdl.rewrite %root {{
    %out = pdl.result 0 of %root
    %ins = pdl.range %first, %second : !pdl.value, !pdl.value
    %outs = pdl.range %out : !pdl.value
    %none = pdl.range : !pdl.range<value>
    %name = pdl.attribute = "scale"
    pdl.apply_native_rewrite "rewriteAsFlowDispatch"(%root, %name, %ins, %outs, %none, %none
      : !pdl.operation, !pdl.attribute, !pdl.range<value>, !pdl.range<value>, !pdl.range<value>, !pdl.range<value>)
  }}
}}"""

    t = "tensor<4xf32>"
    program = f"""func.func @f(%x: {t}, %y: {t}, %k: f32) -> ({t}, {t}, {t}) {{
      %a = arith.divf %x, %y : {t}
      %b = linalg.fill ins(%k : f32) outs(%x : {t}) -> {t}
      %c = arith.divf %y, %x : {t}
      return %a, %b, %c : {t}, {t}, {t} }}"""
    text = matched(program, pattern("arith.divf", t, 1) + pattern("linalg.fill", "f32", 2))
    assert text.count("stream.executable private") == 2
    of_tensors, of_scalar = "@scale_f32_f32_f32_executable::", "@scale_f32_f32_f32_executable_1::"
    if f"%c = flow.dispatch {of_tensors}" not in text:
        of_tensors, of_scalar = of_scalar, of_tensors
    assert text.count(f"flow.dispatch {of_tensors}") == 2 and text.count(f"flow.dispatch {of_scalar}") == 1


FOREVER = """
pdl.pattern @again : benefit(1) {
  %a = pdl.operand
  %type = pdl.type
  %root = pdl.operation "math.absf" (%a : !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %root {
    %q = pdl.operation "math.absf" (%a : !pdl.value) -> (%type : !pdl.type)
    pdl.replace %root with %q
  }
}"""
GROWING = FOREVER.replace(
    "pdl.replace %root with %q",
    """
    %r = pdl.result 0 of %q
    %p = pdl.operation "math.absf" (%r : !pdl.value) -> (%type : !pdl.type)
    %s = pdl.result 0 of %p
    %sum = pdl.operation "arith.addf" (%r, %s : !pdl.value, !pdl.value) -> (%type : !pdl.type)
    pdl.replace %root with %sum""",
)
WRONG = {
    "growing": (GROWING, "@again still matches after the program has grown to", "contains what it matches"),
    "twice": (DIVISIONS.replace("pdl.replace %root with %q", "pdl.replace %root with %q\n    pdl.replace %root with %q"), "'arith.mulf' was replaced or erased before", "each operation once"),
    "endless": (FOREVER, "@again still matches after", "contains what it matches"),
    "no pattern": ("func.func @f() { return }", "has no pdl.pattern", None),
    "unknown constraint": (SPEC.replace("checkTensorElementType", "checkTensor"), "no native constraint 'checkTensor'", "checkTensorElementType"),
    "unknown rewrite": (SPEC.replace("rewriteAsFlowDispatch", "rewriteAsDispatch"), "no native rewrite 'rewriteAsDispatch'", "rewriteAsFlowDispatch"),
    "unknown operation": (DIVISIONS.replace('"arith.divf" (%p', '"arith.divg" (%p'), "operation 'arith.divg' is not known", None),
    "other type": (DIVISIONS.replace('%q = pdl.operation "arith.divf" (%p, %b : !pdl.value, !pdl.value) -> (%type', '%f = pdl.type : f32\n    %q = pdl.operation "arith.divf" (%p, %b : !pdl.value, !pdl.value) -> (%f'), "the pattern makes a bad 'arith.divf'", None),
    "type not stated": (DIVISIONS.replace('%p_op = pdl', '%i_op = pdl.operation "arith.uitofp" (%a : !pdl.value)\n    %i = pdl.result 0 of %i_op\n    %p_op = pdl'), "the result types of 'arith.uitofp' are not given", "after it"),
    "missing result": (DIVISIONS.replace("%p = pdl.result 0", "%p = pdl.result 1"), "'arith.mulf' has 1 result(s), asked for number 1", None),
    "still used": (DIVISIONS.replace("pdl.replace %root with %q", "pdl.erase %root"), "'arith.mulf' is erased, but its result is still used", "replace it"),
    "sizes": (SPEC.replace("%dims = pdl.range %m, %n : !pdl.value, !pdl.value", "%dims = pdl.range %m : !pdl.value"), "have 2 sizes, 2 of them dynamic, but 1 are given", "every dimension"),
    "replaced operand": (SPEC.replace("%outs = pdl.range %out", "%outs = pdl.range %mi"), "cannot replace a result of type i32", "tensors that operations of the match give"),
    "index": (SPEC.replace("%rest = pdl.range %mi", "%rest = pdl.range %m"), "cannot be given a index", "cast an index"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_spec_is_a_located_error(name: str) -> None:
    text, message, note = WRONG[name]
    program = MLP + QUOTIENT
    module = ir.parse(program)
    before = ir.print_module(module)
    with pytest.raises(CompileError) as error, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pd.compile(module, pdl_spec=text)
    assert message in error.value.message
    assert error.value.location is not None
    assert note is None or note in (error.value.note or "")
    assert ir.print_module(module) == before


def test_hundreds_of_patterns_of_one_root() -> None:
    """Attributes of the root decide; what is refused once is refused for every operation of the kind."""
    rows = [
        f"""pdl.pattern @p{i} : benefit(1) {{
          %x = pdl.operand
          %type = pdl.type
          %tag = pdl.attribute = {i} : i32
          %root = pdl.operation "math.absf" (%x : !pdl.value) {{"tag" = %tag}} -> (%type : !pdl.type)
          pdl.rewrite %root {{
            %q = pdl.operation "math.sqrt" (%x : !pdl.value) -> (%type : !pdl.type)
            pdl.replace %root with %q
          }} }}"""
        for i in range(300)
    ]
    lines = [
        f"%v{i} = math.absf %v{i - 1 if i else '_'} {{tag = {300 - i % 3} : i32}} : tensor<4xf32>" for i in range(600)
    ]
    program = ir.parse(
        "func.func @f(%v_: tensor<4xf32>) -> tensor<4xf32> {\n" + "\n".join(lines) + "\nreturn %v599 : tensor<4xf32> }"
    )
    spec = ir.parse("\n".join(rows))
    report = Report()
    count_calls(lambda: apply_pdl(spec, program, report), limit=4_000_000)  # it makes 1.4 million, of 180,000 pairs
    assert len(report.found) == 400 and {f.pattern for f in report.found} == {"@p298", "@p299"}
