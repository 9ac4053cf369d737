# ruff: noqa: E501  (programs)
"""Transform specs: kernels take the place of what they match, whatever the spelling, and only of that."""

from __future__ import annotations

import warnings
from pathlib import Path

import match_cases as cases
import numpy as np
import pytest
from match_cases import ACT, ARGMAX, EXECUTABLE, FORMAT, MATCH, SPEC, generic, main, spec

import pydispatch as pd
from pydispatch import ir
from pydispatch.compiler.driver import pipeline

P = np.linspace(-3, 5, 40, dtype=np.float32)
Q = np.linspace(2, -1, 40, dtype=np.float32)


def matched(text: str, **options: object) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pipeline.compile_to("preprocessing", text, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("spelling", cases.SPELLINGS)
def test_every_spelling_is_replaced(spelling: str, kernels: Path) -> None:
    artifact = pd.compile(cases.SPELLINGS[spelling], transform_spec=SPEC, object_search_path=[kernels])
    got = pd.device("cpu").load(artifact).f(P, Q)
    np.testing.assert_allclose(got, (P - Q) ** 2 + 100, rtol=1e-6)
    plain = pd.device("cpu").load(pd.compile(cases.SPELLINGS[spelling])).f(P, Q)
    np.testing.assert_allclose(plain, (P - Q) ** 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("arith.subf %p, %q", "arith.addf %p, %q"),  # another operation
        ("arith.mulf %d, %d", "arith.mulf %d, %p"),  # not the square
        ("tensor<?xf32>", "tensor<?xf64>"),  # another element type
        ("tensor<?xf32>", "tensor<?x?xf32>"),  # another rank
    ],
)
def test_what_differs_stays(was: str, now: str) -> None:
    program = cases.ON_TENSORS.replace(was, now)
    assert "util.call" not in matched(program, transform_spec=SPEC)
    assert "util.call" in matched(cases.ON_TENSORS, transform_spec=SPEC)


def test_static_sizes_of_a_pattern_are_required() -> None:
    only_40 = SPEC.replace("^bb0(%a: tensor<?xf32>, %b: tensor<?xf32>)", "^bb0(%a: tensor<40xf32>, %b: tensor<40xf32>)")
    only_40 = only_40.replace(
        cases.BODY, cases.BODY.replace("?xf32", "40xf32").replace("tensor.empty(%n)", "tensor.empty()")
    )
    assert "util.call" in matched(cases.STATIC, transform_spec=only_40)
    assert "util.call" not in matched(cases.STATIC.replace("40", "41"), transform_spec=only_40)
    assert "util.call" not in matched(cases.DYNAMIC, transform_spec=only_40)


@pytest.mark.parametrize(("program", "hit"), [("%x, %x", True), ("%x, %y", False)])
def test_repeated_operands(program: str, hit: bool) -> None:
    """One input given twice in the pattern is one value in the program."""
    body = f"%c0 = arith.constant 0 : index\n%n = tensor.dim %a, %c0 : tensor<?xf32>\n%e = tensor.empty(%n) : tensor<?xf32>\n{generic('s', 'arith.mulf', ['%a', '%a'])}"
    match = MATCH.replace(cases.BODY, body).replace(
        "^bb0(%a: tensor<?xf32>, %b: tensor<?xf32>)", "^bb0(%a: tensor<?xf32>)"
    )
    act = ACT.replace("@call_square_diff", "@call").replace("@kernels", "@call")
    one = "util.func private @call(%a: tensor<?xf32>) -> tensor<?xf32> { util.return %a : tensor<?xf32> }"
    text = f"func.func @f(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {{ %r = arith.mulf {program} : tensor<?xf32> return %r : tensor<?xf32> }}"
    assert ("util.call" in matched(text, transform_spec=spec(one, match, act, main()))) == hit


def test_commuted_operands() -> None:
    """a * (a - b) is found as (a - b) * a; a - (a * b) is not found as (a * b) - a."""
    head = "%c0 = arith.constant 0 : index\n%n = tensor.dim %a, %c0 : tensor<?xf32>\n%e = tensor.empty(%n) : tensor<?xf32>\n"
    for outer, inner, hit in (("arith.mulf", "arith.subf", True), ("arith.subf", "arith.mulf", False)):
        body = head + generic("d", inner, ["%a", "%b"]) + "\n" + generic("s", outer, ["%d", "%a"])
        text = f"""func.func @f(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {{
          %d = {inner} %x, %y : tensor<?xf32>
          %s = {outer} %x, %d : tensor<?xf32>
          return %s : tensor<?xf32> }}"""
        assert ("util.call" in matched(text, transform_spec=SPEC.replace(cases.BODY, body))) == hit


@pytest.mark.parametrize(
    ("operands", "hit"), [("%d, %x", True), ("%d, %y", True), ("%d, %d", False), ("%x, %d", False)]
)
def test_the_order_of_operands_that_a_later_operand_decides(operands: str, hit: bool) -> None:
    """(a + b) - a is found as (x + y) - y: b is x then."""
    head = "%c0 = arith.constant 0 : index\n%n = tensor.dim %a, %c0 : tensor<?xf32>\n%e = tensor.empty(%n) : tensor<?xf32>\n"
    body = head + generic("d", "arith.addf", ["%a", "%b"]) + "\n" + generic("s", "arith.subf", ["%d", "%a"])
    text = f"""func.func @f(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {{
      %d = arith.addf %x, %y : tensor<?xf32>
      %s = arith.subf {operands} : tensor<?xf32>
      return %s : tensor<?xf32> }}"""
    got = matched(text, transform_spec=SPEC.replace(cases.BODY, body))
    assert ("util.call" in got) == hit
    if hit:
        assert f"@call_square_diff({'%x, %y' if operands == '%d, %x' else '%y, %x'})" in got


@pytest.mark.parametrize(("then", "hit"), [("%p, %p", True), ("%p, %q", False)])
def test_a_body_with_branches_that_read_its_arguments(then: str, hit: bool) -> None:
    """The branches of an `scf.if` in a body compare by what they compute of the arguments of the body."""

    def body(a: str, b: str, product: str) -> str:
        return f"""%c0 = arith.constant 0 : index
          %n = tensor.dim {a}, %c0 : tensor<?xf32>
          %e = tensor.empty(%n) : tensor<?xf32>
          %s = linalg.generic {{indexing_maps = [{", ".join(["affine_map<(d0) -> (d0)>"] * 3)}],
              iterator_types = ["parallel"]}} ins({a}, {b} : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) {{
            ^bb0(%p: f32, %q: f32, %old: f32):
              %less = arith.cmpf olt, %p, %q : f32
              %r = scf.if %less -> (f32) {{
                %m = arith.mulf {product} : f32
                scf.yield %m : f32
              }} else {{
                scf.yield %q : f32
              }}
              linalg.yield %r : f32
          }} -> tensor<?xf32>"""

    program = f"""func.func @f(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {{
      {body("%x", "%y", then)}
      return %s : tensor<?xf32> }}"""
    text = SPEC.replace(cases.BODY, body("%a", "%b", "%p, %p"))
    assert ("util.call" in matched(program, transform_spec=text)) == hit


def test_values_that_are_used_elsewhere_stay() -> None:
    text = cases.ON_TENSORS.replace("-> tensor<?xf32> {", "-> (tensor<?xf32>, tensor<?xf32>) {")
    text = text.replace("util.return %s : tensor<?xf32>", "util.return %s, %d : tensor<?xf32>, tensor<?xf32>")
    got = matched(text, transform_spec=SPEC)
    assert "util.call" in got and "arith.subf" in got


@pytest.mark.parametrize("ops", ["util.func", "func.func"])
def test_functions_are_found_in_either_spelling(ops: str) -> None:
    for program in (cases.ON_TENSORS, cases.STATIC):
        assert "util.call" in matched(program, transform_spec=spec(EXECUTABLE, MATCH, ACT, main(ops=ops)))


def test_reshapes_read_what_earlier_steps_put_there() -> None:
    """A step that rejects the reader of reshapes does not keep the operand that they have then."""
    reshapes = """%e = tensor.expand_shape OPERAND [[0, 1]] output_shape [1, 40] : tensor<40xf32> into tensor<1x40xf32>
      %g = tensor.expand_shape %e [[0, 1], [2]] output_shape [1, 1, 40] : tensor<1x40xf32> into tensor<1x1x40xf32>"""
    reader = f"{reshapes}\n%r = math.exp %g : tensor<1x1x40xf32>"
    text = f"""util.func public @f(%p: tensor<40xf32>, %q: tensor<40xf32>) -> tensor<1x1x40xf32> {{
      %d = arith.subf %p, %q : tensor<40xf32>
      %s = arith.mulf %d, %d : tensor<40xf32>
      {reader.replace("OPERAND", "%s")}
      util.return %r : tensor<1x1x40xf32> }}"""
    second = f"""util.func private @second(%a: tensor<40xf32>) -> tensor<1x1x40xf32> {{
      {reshapes.replace("OPERAND", "%a")}
      util.return %g : tensor<1x1x40xf32> }}"""
    match = MATCH.replace("^bb0(%a: tensor<?xf32>, %b: tensor<?xf32>)", "^bb0(%a: tensor<40xf32>)")
    match_exp = match.replace("@match", "@match_exp").replace(cases.BODY, reader.replace("OPERAND", "%a"))
    twice = f"%h = math.exp %a : tensor<40xf32>\n{reader.replace('OPERAND', '%h')}"
    rejects = match.replace("@match", "@rejects").replace(cases.BODY, twice)
    act = ACT.replace("@act", "@act2").replace("@call_square_diff", "@second")
    steps = """@rejects -> @act2 : (!transform.any_op) -> (!transform.any_op)
    transform.foreach_match in %func @match -> @act, @match_exp -> @act2"""
    got = matched(text, transform_spec=spec(EXECUTABLE, second, MATCH, ACT, match_exp, rejects, act, main(steps)))
    assert got.count("util.call @call_square_diff") == 1 and got.count("util.call @second") == 1
    assert "arith.subf" not in got


@pytest.mark.parametrize(("inputs", "yielded", "hit"), [
    ("%x, %y", "%a, %b", True), ("%x, %y", "%b, %a", False), ("%x, %y", "%a, %a", False), ("%x, %y", "%a, %r", False),
])  # fmt: skip
def test_a_passthrough_yields_all_inputs_in_order(inputs: str, yielded: str, hit: bool) -> None:
    t, map = "tensor<4xf32>", "affine_map<(d0) -> (d0)>"
    program = f"""func.func @f(%x: {t}, %y: {t}) -> ({t}, {t}) {{
      %e = tensor.empty() : {t}
      %c:2 = linalg.generic {{indexing_maps = [{map}, {map}, {map}, {map}], iterator_types = ["parallel"]}}
          ins({inputs} : {t}, {t}) outs(%e, %e : {t}, {t}) {{
        ^bb0(%a: f32, %b: f32, %o: f32, %p: f32):
          %r = math.absf %b : f32
          linalg.yield {yielded} : f32, f32
      }} -> ({t}, {t})
      return %c#0, %c#1 : {t}, {t} }}"""
    match = """transform.named_sequence @match(%root: !transform.any_op {transform.readonly}) -> (!transform.any_op) {
      %m = transform.match.structured %root : (!transform.any_op) -> (!transform.any_op) {
      ^bb1(%op: !transform.any_op):
        transform.match.structured.body %op {passthrough} : !transform.any_op
        transform.match.structured.yield %op : !transform.any_op
      }
      transform.yield %m : !transform.any_op }"""
    mark = 'transform.named_sequence @mark(%op: !transform.any_op) { transform.annotate %op "seen" : !transform.any_op transform.yield }'
    got = matched(program, transform_spec=spec(match, mark, main("@match -> @mark", ops="func.func")))
    assert ("seen" in got) == hit


def test_an_action_may_replace_the_root_that_it_is_restricted_to() -> None:
    steps = """%muls = transform.structured.match ops{["arith.mulf"]} in %module : (!transform.any_op) -> !transform.any_op
      %left = transform.foreach_match restrict_root in %muls @match -> @act_and_clean : (!transform.any_op) -> (!transform.any_op)
      %count = transform.num_associations %left : (!transform.any_op) -> !transform.any_param
      transform.annotate %module "left" = %count : !transform.any_op, !transform.any_param"""
    clean = ACT.replace("@act(", "@act_and_clean(").replace(
        "  transform.yield\n", "  transform.apply_dce to %module : !transform.any_op\n  transform.yield\n"
    )
    entry = f"transform.named_sequence @__transform_main(%module: !transform.any_op) {{\n{steps}\ntransform.yield }}"
    got = matched(cases.ON_TENSORS, transform_spec=spec(EXECUTABLE, MATCH, clean, entry))
    assert "util.call @call_square_diff" in got and "arith.mulf" not in got and "left = 0" in got
    other = cases.ON_TENSORS.replace("arith.mulf %d, %d", "arith.mulf %d, %p")
    assert "left = 1" in matched(other, transform_spec=spec(EXECUTABLE, MATCH, clean, entry))


def test_two_patterns_and_the_first_wins() -> None:
    """Two matcher → action pairs: each operation is given to the first that agrees."""
    other = ACT.replace("@act", "@act2").replace("@call_square_diff", "@second")
    second = "util.func private @second(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> { util.return %a : tensor<?xf32> }"
    add = MATCH.replace("@match", "@match_add").replace(
        cases.BODY, cases.BODY.replace("arith.subf", "arith.addf"))  # fmt: skip
    text = """func.func @f(%x: tensor<?xf32>, %y: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
      %d = arith.subf %x, %y : tensor<?xf32>
      %s = arith.mulf %d, %d : tensor<?xf32>
      %e = arith.addf %x, %y : tensor<?xf32>
      %t = arith.mulf %e, %e : tensor<?xf32>
      return %s, %t : tensor<?xf32>, tensor<?xf32> }"""
    got = matched(
        text,
        transform_spec=spec(EXECUTABLE, second, MATCH, add, ACT, other, main("@match -> @act, @match_add -> @act2")),
    )
    assert got.count("util.call @call_square_diff") == 1 and got.count("util.call @second") == 1
    got = matched(
        text, transform_spec=spec(EXECUTABLE, second, MATCH, ACT, other, main("@match -> @act2, @match -> @act"))
    )
    assert "util.call @second" in got and "util.call @call_square_diff" not in got


WHOLE = """
#include "pydispatch/library_author.h"
int32_t argmax(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,
               const pyd_workgroup_state_t* workgroup) {
  const float* x = pyd_binding(dispatch, 0);
  int64_t* at = pyd_binding(dispatch, 1);
  uint32_t n = pyd_constant(dispatch, 0), best = 0;
  for (uint32_t i = 1; i < n; ++i) if (x[i] > x[best]) best = i;
  at[0] = best + 1000;
  return 0;
}
"""
INLINE = f"""
func.func private @argmax(%x: tensor<1x?xf32>) -> tensor<1xi64> {{
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<1x?xf32>
  %n32 = arith.index_cast %n : index to i32
  %r = hal.dispatch.extern "argmax"[%n](%n32, %x) : (i32, tensor<1x?xf32>{{%n}}) -> tensor<1xi64>
    count(%device: !hal.device, %w: index) -> (index, index, index) {{
      %one = arith.constant 1 : index
      hal.return %one, %one, %one : index, index, index
    }}
    layout(#hal.pipeline.layout<constants = 1, bindings = [
      #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>]>)
    objects({{
      #hal.executable.target<"llvm-cpu", "{FORMAT}"> ordinal(0) = [#hal.executable.object<{{path = "argmax.c"}}>],
      #hal.executable.target<"metal-spirv", "metal-msl-fb"> ordinal(0) = [#hal.executable.object<{{path = "argmax.metal"}}>]
    }})
  return %r : tensor<1xi64>
}}"""
LOOPS = """
transform.named_sequence @match(%generic: !transform.any_op {transform.readonly}) -> (!transform.any_op) {
  transform.match.operation_name %generic ["linalg.generic"] : !transform.any_op
  %matched = transform.match.structured failures(propagate) %generic : (!transform.any_op) -> (!transform.any_op) {
  ^bb1(%op: !transform.any_op):
    %c2 = transform.param.constant 2 : i64 -> !transform.param<i64>
    %c1 = transform.param.constant 1 : i64 -> !transform.param<i64>
    %rank = transform.match.structured.rank %op : (!transform.any_op) -> !transform.param<i64>
    transform.match.param.cmpi eq %rank, %c2 : !transform.param<i64>
    transform.match.structured.dim %op[0] {parallel} : !transform.any_op
    transform.match.structured.dim %op[-1] {reduction} : !transform.any_op
    %ins = transform.match.structured.num_inputs %op : (!transform.any_op) -> !transform.param<i64>
    transform.match.param.cmpi eq %ins, %c1 : !transform.param<i64>
    %outs = transform.match.structured.num_inits %op : (!transform.any_op) -> !transform.param<i64>
    transform.match.param.cmpi eq %outs, %c2 : !transform.param<i64>
    transform.match.structured.yield %op : !transform.any_op
  }
  %in0 = transform.get_operand %matched[0] : (!transform.any_op) -> !transform.any_value
  transform.iree.match.cast_compatible_type %in0 = tensor<1x64xf32, array<i1: false, true>> : !transform.any_value
  transform.iree.match.dim_is_multiple_of %in0[1], 32 : !transform.any_value
  transform.iree.match.regions %matched : !transform.any_op {
    ^bb0(%t: tensor<1x?xf32>, %a: tensor<1xf32>, %b: tensor<1xi64>):
      %r:2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>,
          affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
          ins(%t : tensor<1x?xf32>) outs(%a, %b : tensor<1xf32>, tensor<1xi64>) {
        ^bb0(%in: f32, %best: f32, %where: i64):
          %i = linalg.index 1 : index
          %n = arith.index_cast %i : index to i64
          %m = arith.maximumf %best, %in : f32
          %c = arith.cmpf olt, %best, %in : f32
          %s = arith.select %c, %n, %where : i64
          linalg.yield %m, %s : f32, i64
        } -> (tensor<1xf32>, tensor<1xi64>)
  }
  transform.yield %generic : !transform.any_op
}
transform.named_sequence @act(%op: !transform.any_op {transform.readonly}) {
  %module = transform.iree.get_nearest_symbol_table %op : (!transform.any_op) -> !transform.any_op
  %func = transform.iree.import_symbol @argmax into %module : (!transform.any_op) -> !transform.any_op
  %in = transform.get_operand %op[0] : (!transform.any_op) -> !transform.any_value
  %out = transform.get_result %op[1] : (!transform.any_op) -> !transform.any_value
  transform.func.cast_and_call %func(%in) -> %out before %op {
    transform.type_conversion.tensor.cast_shape_dynamic_dims
  } : (!transform.any_op, !transform.any_value, !transform.any_value, !transform.any_op) -> !transform.any_op
  transform.yield
}"""
ARGMAX_SPEC = spec(INLINE, LOOPS, main(ops="func.func"))


def test_one_of_two_results_by_a_whole_kernel(tmp_path: Path) -> None:
    """A reduction is matched by its loops, types and body; a kernel given inline makes its second result."""
    (tmp_path / "argmax.c").write_text(WHOLE)
    x = np.sin(np.arange(128, dtype=np.float32)).reshape(1, 128)
    artifact = pd.compile(ARGMAX, transform_spec=ARGMAX_SPEC, object_search_path=[tmp_path])
    best, at = pd.device("cpu").load(artifact).f(x)
    np.testing.assert_array_equal(at, x.argmax(1) + 1000)
    np.testing.assert_array_equal(best, x.max(1))


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("1x128xf32", "1x96xf32"),  # no multiple of 64
        ("1x128xf32", "2x128xf32"),
        ("cmpf ogt", "cmpf oge"),  # the last of the largest
        ("arith.maximumf", "arith.maxnumf"),
    ],
)
def test_another_reduction_stays(was: str, now: str) -> None:
    program = ARGMAX.replace(was, now)
    program = (
        program.replace("tensor<1xf32>", "tensor<2xf32>").replace("tensor<1xi64>", "tensor<2xi64>")
        if "2x128" in now
        else program
    )
    assert "func.call" not in matched(program, transform_spec=ARGMAX_SPEC)
    assert "func.call" in matched(ARGMAX, transform_spec=ARGMAX_SPEC)


def test_equal_extern_dispatches_share_an_executable(tmp_path: Path) -> None:
    twice = INLINE.replace("private @argmax", "public @one") + INLINE.replace("private @argmax", "public @two")
    text = pipeline.compile_to("dispatches", "module {" + twice + "}")
    assert text.count("hal.executable private") == 1 and text.count("flow.dispatch @") == 2
    assert text.count("hal.executable.variant") == 1  # of the two targets, the one that this build knows
    other = INLINE.replace("private @argmax", "public @two").replace(
        "constant 1 : index\n      hal", "constant 2 : index\n      hal"
    )
    text = pipeline.compile_to(
        "dispatches", "module {" + INLINE.replace("private @argmax", "public @one") + other + "}"
    )
    assert text.count("hal.executable private") == 2


STEPS = {
    "defining_op, parent, consumers": """
      %d = transform.get_producer_of_operand %op[0] : (!transform.any_op) -> !transform.any_op
      transform.match.operation_name %d ["arith.subf"] : !transform.any_op
      %u = transform.get_consumers_of_result %d[0] : (!transform.any_op) -> !transform.any_op
      %p = transform.get_parent_op %op {op_name = "func.func"} : (!transform.any_op) -> !transform.any_op
      transform.annotate %p "seen" : !transform.any_op""",
    "split and merge": """
      %a, %b = transform.split_handle %both : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
      %m = transform.merge_handles deduplicate %a, %b, %a : !transform.any_op
      %n = transform.num_associations %m : (!transform.any_op) -> !transform.any_param
      transform.annotate %a "seen" = %n : !transform.any_op, !transform.any_param""",
    "include": """
      transform.include @mark failures(propagate) (%op) : (!transform.any_op) -> ()""",
    "cast": """
      %c = transform.cast %op : !transform.any_op to !transform.op<"arith.mulf">
      transform.annotate %c "seen" : !transform.op<"arith.mulf">""",
}


@pytest.mark.parametrize("steps", STEPS)
def test_steps_between_handles(steps: str) -> None:
    text = spec(
        'transform.named_sequence @mark(%op: !transform.any_op) { transform.annotate %op "seen" : !transform.any_op transform.yield }',
        f"""transform.named_sequence @__transform_main(%module: !transform.any_op) {{
          %op = transform.structured.match ops{{["arith.mulf"]}} in %module : (!transform.any_op) -> !transform.any_op
          %both = transform.structured.match ops{{["arith.mulf", "arith.subf"]}} in %module : (!transform.any_op) -> !transform.any_op
          {STEPS[steps]}
          transform.yield
        }}""",
    )
    assert "seen" in matched(cases.ON_TENSORS, transform_spec=text)


@pytest.mark.parametrize(("types", "hit"), [
    ("[tensor<40xf32>]", True), ("[tensor<?xf32>]", False),
    ("[tensor<40xf32>, tensor<40xf32>, tensor<40xf32>]", True), ("[tensor<40xf32>, tensor<40xf32>]", False),
])  # fmt: skip
def test_operations_are_found_by_the_types_of_their_operands(types: str, hit: bool) -> None:
    """One type is that of all operands, several are those of each."""
    text = spec(f"""transform.named_sequence @__transform_main(%m: !transform.any_op) {{
      %op = transform.structured.match ops{{["linalg.mul"]}} filter_operand_types = {types} in %m : (!transform.any_op) -> !transform.any_op
      transform.annotate %op "seen" : !transform.any_op
      transform.yield
    }}""")  # fmt: skip
    assert ("seen" in matched(cases.NAMED, transform_spec={"input": text})) == hit


IMPORTED = """
  util.func private @relu(%x: f32) -> f32 {
    %r = util.call @limit(%x) : (f32) -> f32
    util.return %r : f32
  }
  util.func private @limit(%x: f32) -> f32 {
    %zero = arith.constant 0.0 : f32
    %r = arith.maximumf %x, %zero : f32
    util.return %r : f32
  }"""


def test_a_symbol_is_imported_into_each_module() -> None:
    text = spec(
        IMPORTED,
        """transform.named_sequence @__transform_main(%m: !transform.any_op) {
          %inner = transform.structured.match ops{["builtin.module"]} in %m : (!transform.any_op) -> !transform.any_op
          %both = transform.merge_handles %m, %inner : !transform.any_op
          %f = transform.util.import_symbol @relu into %both : (!transform.any_op) -> !transform.any_op
          transform.annotate %f "seen" : !transform.any_op
          transform.yield }""",
    )
    got = matched(f"builtin.module @inner {{ }}\n{cases.ON_TENSORS}", transform_spec=text)
    outer, inner = got.split("module @inner")
    for name in ("util.func private @relu", "util.func private @limit", "seen"):
        assert (outer + inner).count(name) == 2 and inner.count(name) >= 1


@pytest.mark.parametrize("own", ["equal", "another", "another, and 'if undefined'"])
def test_a_symbol_that_an_imported_one_references(own: str) -> None:
    """It is that of the spec, unless the program has an equal one, or the spec lets the program define it."""
    limit = IMPORTED[IMPORTED.index("  util.func private @limit") :]
    program = cases.ON_TENSORS + (limit if own == "equal" else limit.replace("0.0", "1.0"))
    text = spec(
        IMPORTED,
        f"""transform.named_sequence @__transform_main(%m: !transform.any_op) {{
          %f = transform.util.import_symbol @relu into %m {"if undefined" if "undefined" in own else ""}
              : (!transform.any_op) -> !transform.any_op
          transform.yield }}""",
    )
    if own == "another":
        with pytest.raises(
            pd.CompileError, match="'@limit' of its own, which '@relu' of the spec does not mean"
        ) as caught:
            matched(program, transform_spec=text)
        assert "if undefined" in (caught.value.note or "")
    else:
        got = matched(program, transform_spec=text)
        assert got.count("util.func private @relu") == got.count("util.func private @limit") == 1


def test_clean_up_steps(capfd: pytest.CaptureFixture[str]) -> None:
    program = """func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %a = math.absf %x : tensor<4xf32>
      %b = math.absf %x : tensor<4xf32>
      %unused = math.sqrt %x : tensor<4xf32>
      %c = tensor.cast %a : tensor<4xf32> to tensor<?xf32>
      %d = tensor.cast %c : tensor<?xf32> to tensor<4xf32>
      %s = arith.addf %d, %b : tensor<4xf32>
      return %s : tensor<4xf32> }
    func.func private @unused() { return }"""

    def after(*steps: str) -> str:
        body = "\n".join(steps)
        return matched(
            program,
            transform_spec=spec(
                f"transform.named_sequence @__transform_main(%m: !transform.any_op) {{ {body} transform.yield }}"
            ),
        )

    assert after().count("math.absf") == 2
    assert after("transform.apply_cse to %m : !transform.any_op").count("math.absf") == 1
    dce = after("transform.apply_dce to %m : !transform.any_op")
    assert "math.sqrt" not in dce and "@unused" not in dce and dce.count("math.absf") == 2
    simple = after("transform.apply_patterns to %m { transform.apply_patterns.canonicalization } : !transform.any_op")
    assert "tensor.cast" not in simple
    passes = after('%n = transform.apply_registered_pass "canonicalize" to %m : (!transform.any_op) -> !transform.any_op',
                   '%o = transform.apply_registered_pass "cse" to %n : (!transform.any_op) -> !transform.any_op')  # fmt: skip
    assert "tensor.cast" not in passes and passes.count("math.absf") == 1
    after('transform.print %m {name = "here"} : !transform.any_op')
    assert "[[[ here ]]]" in (shown := capfd.readouterr().err) and "math.sqrt" in shown


@pytest.mark.parametrize("phase", ["input", "preprocessing", "global-optimization"])
def test_specs_attach_to_a_phase(phase: str, kernels: Path) -> None:
    """The computation is found in all three; names of named operations are there until they are normalised."""
    artifact = pd.compile(cases.NAMED, transform_spec={phase: SPEC}, object_search_path=[kernels])
    np.testing.assert_allclose(pd.device("cpu").load(artifact).f(P, Q), (P - Q) ** 2 + 100, rtol=1e-6)
    by_name = spec('''transform.named_sequence @__transform_main(%m: !transform.any_op) {
      %op = transform.structured.match ops{["linalg.mul"]} in %m : (!transform.any_op) -> !transform.any_op
      transform.annotate %op "named" : !transform.any_op
      transform.print %op : !transform.any_op
      transform.yield }''')  # fmt: skip
    text = matched(cases.NAMED, transform_spec={phase: by_name}) if phase != "global-optimization" else (
        pipeline.compile_to("global-optimization", cases.NAMED, transform_spec={phase: by_name}))  # fmt: skip
    assert ("named" in text.replace("named_", "")) == (phase != "global-optimization")


def test_the_text_of_the_dialect_survives_printing() -> None:
    for text in (SPEC, ARGMAX_SPEC):
        once = ir.print_module(ir.parse(text))
        assert ir.print_module(ir.parse(once)) == once


LAYER = """
func.func @f(%lhs: tensor<2x4xf32>, %rhs: tensor<4x8xf32>) -> tensor<2x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %p = linalg.matmul ins(%lhs, %rhs : tensor<2x4xf32>, tensor<4x8xf32>) outs(%z : tensor<2x8xf32>) -> tensor<2x8xf32>
  %r = linalg.max ins(%z, %p : tensor<2x8xf32>, tensor<2x8xf32>) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
  return %r : tensor<2x8xf32>
}
"""
LAYER_KERNEL = "#include <stddef.h>\nvoid layer(const float* a, const float* b, float* out, size_t m, size_t k, size_t n) { for (size_t i = 0; i < m * n; ++i) { float s = 0; for (size_t j = 0; j < k; ++j) s += a[i / n * k + j] * b[j * n + i % n]; out[i] = (s < 0 ? 0 : s) + 100; } }"
LAYER_SPEC = spec(
    """
stream.executable private @layers attributes {hal.executable.objects = [#hal.executable.object<{path = "layer.c"}>]} {
  stream.executable.export public @entry workgroups() -> (index, index, index) {
    %c1 = arith.constant 1 : index
    stream.return %c1, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func private @layer(memref<f32>, memref<f32>, memref<f32>, index, index, index) attributes {hal.import.static, llvm.bareptr}
    func.func @entry(%b0: !stream.binding, %b1: !stream.binding, %b2: !stream.binding, %m: index, %k: index, %n: index) {
      %c0 = arith.constant 0 : index
      %a = stream.binding.subspan %b0[%c0] : !stream.binding -> memref<f32>
      %b = stream.binding.subspan %b1[%c0] : !stream.binding -> memref<f32>
      %o = stream.binding.subspan %b2[%c0] : !stream.binding -> memref<f32>
      func.call @layer(%a, %b, %o, %m, %k, %n) : (memref<f32>, memref<f32>, memref<f32>, index, index, index) -> ()
      return
    }
  }
}
util.func private @call_layer(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %i: tensor<?x?xf32>, %j: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %a, %c0 : tensor<?x?xf32>
  %k = tensor.dim %a, %c1 : tensor<?x?xf32>
  %n = tensor.dim %b, %c1 : tensor<?x?xf32>
  %r = flow.dispatch @layers::@entry(%a, %b, %m, %k, %n) : (tensor<?x?xf32>{%m, %k}, tensor<?x?xf32>{%k, %n}, index, index, index) -> tensor<?x?xf32>{%m, %n}
  util.return %r : tensor<?x?xf32>
}
transform.named_sequence @match(%root: !transform.any_op {transform.readonly}) -> (!transform.any_value, !transform.any_value) {
  %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %i: tensor<?x?xf32>, %j: tensor<?x?xf32>):
      %zero = arith.constant 0.0 : f32
      %z = linalg.fill ins(%zero : f32) outs(%i : tensor<?x?xf32>) -> tensor<?x?xf32>
      %p = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%z : tensor<?x?xf32>) -> tensor<?x?xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
          ins(%p : tensor<?x?xf32>) outs(%j : tensor<?x?xf32>) {
        ^bb0(%x: f32, %o: f32):
          %m = arith.maximumf %x, %zero : f32
          linalg.yield %m : f32
        } -> tensor<?x?xf32>
  } : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
  transform.yield %ins, %outs : !transform.any_value, !transform.any_value
}""",
    ACT.replace("@call_square_diff", "@call_layer").replace("@kernels", "@layers"),
    main(),
)


@pytest.mark.parametrize("phase", ["preprocessing", "global-optimization"])
def test_a_layer_of_named_operations(phase: str, tmp_path: Path) -> None:
    """Fill, product and the larger of zero; the pattern names output tensors that the program may not have."""
    (tmp_path / "layer.c").write_text(LAYER_KERNEL)
    artifact = pd.compile(LAYER, transform_spec={phase: LAYER_SPEC}, object_search_path=[tmp_path], require_match=True)
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    y = np.linspace(1, -2, 32, dtype=np.float32).reshape(4, 8)
    got = pd.device("cpu").load(artifact).f(x, y)
    np.testing.assert_allclose(got, np.maximum(x @ y, 0) + 100, rtol=1e-6)
