# ruff: noqa: E501  (programs)
"""Wrong specs: an error at the place in the spec, with a remedy, and the program of the caller as it was."""

from __future__ import annotations

import match_cases as cases
import pytest
from match_cases import ACT, EXECUTABLE, MATCH, SPEC, main, spec

import pydispatch as pd
from pydispatch import ir
from pydispatch.errors import CompileError


def entry(body: str) -> str:
    return spec(f"transform.named_sequence @__transform_main(%m: !transform.any_op) {{\n{body}\ntransform.yield }}")


WRONG = {
    "unknown operation": (SPEC.replace("transform.apply_dce", "transform.apply_dcf"), "operation 'transform.apply_dcf' is not known", "transform.apply_dce"),
    "types of matcher and action": (
        spec(EXECUTABLE, MATCH, "transform.named_sequence @act(%op: !transform.any_op, %out: !transform.any_value) { transform.yield }", main()),
        "the matcher @match gives (!transform.any_value, !transform.any_value), its action @act takes (!transform.any_op, !transform.any_value)",
        "exactly what the matcher yields",
    ),
    "missing symbol": (spec(MATCH, ACT, main()), "the spec has no symbol '@kernels'", "symbols:"),
    "missing sequence": (spec(EXECUTABLE, MATCH, main()), "there is no sequence '@act'", "@match"),
    "no entry": (spec(EXECUTABLE, MATCH, ACT), "no transform.named_sequence @__transform_main", "@match, @act"),
    "unknown pass": (entry('%r = transform.apply_registered_pass "canonicalise" to %m : (!transform.any_op) -> !transform.any_op'), "no pass 'canonicalise' (nearest: canonicalize)", "passes:"),
    "call in front of its operands": (SPEC.replace("after %root", "before %first").replace(
        "%root = transform.get_defining_op %out : (!transform.any_value) -> !transform.any_op",
        "%root = transform.get_defining_op %out : (!transform.any_value) -> !transform.any_op\n%p = transform.get_parent_op %root : (!transform.any_op) -> !transform.any_op\n"
        '%all = transform.structured.match ops{["arith.constant"]} in %p : (!transform.any_op) -> !transform.any_op\n%first = transform.cast %all : !transform.any_op to !transform.any_op'),
        "before its definition", "'after'"),
    "wrong number of inputs": (SPEC.replace("@call_square_diff(%a: tensor<?xf32>, %b: tensor<?xf32>)", "@call_square_diff(%a: tensor<?xf32>)").replace("[%n](%a, %b, %n)", "[%n](%a, %a, %n)"),
        "takes 1 and gives 1 value(s), the match has 2 input(s)", "@call_square_diff is (tensor<?xf32>) -> (tensor<?xf32>)"),
    "wrong type of an input": (SPEC.replace("@call_square_diff(%a: tensor<?xf32>", "@call_square_diff(%a: tensor<?x?xf32>").replace("(%a, %b, %n) : (tensor<?xf32>{%n}", "(%a, %b, %n) : (tensor<?x?xf32>{%n, %n}").replace("tensor.dim %a, %c0 : tensor<?xf32>\n  %r", "tensor.dim %a, %c0 : tensor<?x?xf32>\n  %r"),
        "argument 0 of @call_square_diff: tensor<?xf32> cannot become tensor<?x?xf32>", "@call_square_diff is"),
    "handle of values": (entry('%v = transform.get_result %m[all] : (!transform.any_op) -> !transform.any_value\ntransform.apply_dce to %v : !transform.any_value\n%o = transform.structured.match ops{["arith.mulf"]} in %m : (!transform.any_op) -> !transform.any_op\n%r = transform.get_result %o[0] : (!transform.any_op) -> !transform.any_value\ntransform.apply_dce to %r : !transform.any_value'),
        "needs a handle of operations, this one holds values", None),
    "handle of what is gone": (entry('%o = transform.structured.match ops{["math.sqrt"]} in %m : (!transform.any_op) -> !transform.any_op\ntransform.apply_dce to %m : !transform.any_op\ntransform.annotate %o "x" : !transform.any_op'),
        "uses a handle of an operation that is gone", "before that step"),
    "call beside functions": (SPEC.replace("-> %out after %root", "-> %out before %module"), "a call is put inside of a function, this handle holds builtin.module", "that matched"),
    "unused input": (SPEC.replace("^bb0(%a: tensor<?xf32>, %b: tensor<?xf32>):", "^bb0(%a: tensor<?xf32>, %b: tensor<?xf32>, %z: tensor<?xf32>):"), "input %z of the pattern is used by no operation", "leave the input out"),
    "symbol of another meaning": (SPEC.replace(" if undefined", ""), "the program has a symbol '@kernels' of its own", "if undefined"),
}  # fmt: skip
PROGRAM = cases.ON_TENSORS.replace("%s =", "%unused = math.sqrt %p : tensor<?xf32>\n  %s =")


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_spec_is_a_located_error(name: str) -> None:
    text, message, note = WRONG[name]
    program = PROGRAM
    if name == "symbol of another meaning":
        program = "util.func private @kernels() { util.return }" + program
    if name == "call in front of its operands":
        program = program.replace(
            "%d =", "%first = arith.constant 0 : index\n  %x = math.absf %p : tensor<?xf32>\n  %d ="
        ).replace("%p, %q {stray}", "%x, %q")
    module = ir.parse(program)
    before = ir.print_module(module)
    with pytest.raises(CompileError) as error:
        pd.compile(module, transform_spec=text)
    assert message in error.value.message
    assert error.value.location is not None
    assert note is None or note in (error.value.note or "")
    assert ir.print_module(module) == before
    ir.verify(module)


def test_the_right_twin_compiles() -> None:
    pd.compile(
        ir.parse(PROGRAM),
        targets="x86_64",
        transform_spec=SPEC.replace(
            'path = "square_diff.c"',
            f'path = "square_diff.c", data = dense<"0x{cases.KERNEL.encode().hex().upper()}"> : vector<{len(cases.KERNEL)}xi8>',
        ),
    )


def test_an_unknown_phase() -> None:
    with pytest.raises(CompileError, match="cannot be attached to 'late'"):
        pd.compile(PROGRAM, transform_spec={"late": SPEC})
