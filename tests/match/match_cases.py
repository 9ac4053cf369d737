# ruff: noqa: E501  (programs)
"""Programs, kernels and specs that several tests share: the square of a difference, and where its largest element is."""

from __future__ import annotations

from pydispatch.compiler.backends.cpu.target import host_format

# The kernel adds 100, so that a test sees that it ran.
KERNEL = """
#include <stddef.h>
void square_diff(const float* a, const float* b, float* out, size_t n, size_t first) {
  size_t end = first + 16 < n ? first + 16 : n;
  for (size_t i = first; i < end; ++i) out[i] = (a[i] - b[i]) * (a[i] - b[i]) + 100.0f;
}
"""

EXECUTABLE = (
    """
stream.executable private @kernels attributes {hal.executable.objects = [#hal.executable.object<{path = "square_diff.c"}>]} {
  stream.executable.export public @square_diff workgroups(%n: index) -> (index, index, index) {
    %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 16)>()[%n]
    %c1 = arith.constant 1 : index
    stream.return %x, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func private @square_diff(memref<f32>, memref<f32>, memref<f32>, index, index) attributes {hal.import.static, llvm.bareptr}
    func.func @entry(%b0: !stream.binding, %b1: !stream.binding, %b2: !stream.binding, %n: index) {
      %c0 = arith.constant 0 : index
      %id = stream.dispatch.workgroup.id[0] : index
      %first = affine.apply affine_map<()[s0] -> (s0 * 16)>()[%id]
      %a = stream.binding.subspan %b0[%c0] : !stream.binding -> memref<f32>
      %b = stream.binding.subspan %b1[%c0] : !stream.binding -> memref<f32>
      %o = stream.binding.subspan %b2[%c0] : !stream.binding -> memref<f32>
      func.call @square_diff(%a, %b, %o, %n, %first) : (memref<f32>, memref<f32>, memref<f32>, index, index) -> ()
      return
    }
  }
}
util.func private @call_square_diff(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?xf32>
  %r = flow.dispatch @kernels::@square_diff[%n](%a, %b, %n) : (tensor<?xf32>{%n}, tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
  util.return %r : tensor<?xf32>
}
""".replace("@entry(", "@square_diff_entry(")
    .replace("export public @square_diff workgroups", "export public @square_diff_entry workgroups")
    .replace("@kernels::@square_diff[", "@kernels::@square_diff_entry[")
)


def generic(name: str, op: str, inputs: list[str], out: str = "%e", type: str = "tensor<?xf32>", rank: int = 1) -> str:
    """`%name = op(inputs)` as a linalg.generic over whole tensors."""
    dims = ", ".join(f"d{i}" for i in range(rank))
    maps = ", ".join([f"affine_map<({dims}) -> ({dims})>"] * (len(inputs) + 1))
    iterators = ", ".join(['"parallel"'] * rank)
    arguments = ", ".join([*(f"%x{i}: f32" for i in range(len(inputs))), "%o: f32"])
    given = ", ".join(f"%x{i}" for i in range(len(inputs)))
    return f"""%{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}}
      ins({", ".join(inputs)} : {", ".join([type] * len(inputs))}) outs({out} : {type}) {{
    ^bb0({arguments}):
      %r = {op} {given} : f32
      linalg.yield %r : f32
    }} -> {type}"""


BODY = f"""
      %c0 = arith.constant 0 : index
      %n = tensor.dim %a, %c0 : tensor<?xf32>
      %e = tensor.empty(%n) {{"match.operation_name_only"}} : tensor<?xf32>
      {generic("d", "arith.subf", ["%a", "%b"])}
      {generic("s", "arith.mulf", ["%d", "%d"])}
"""

MATCH = f"""
transform.named_sequence @match(%root: !transform.any_op {{transform.readonly}}) -> (!transform.any_value, !transform.any_value) {{
  %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {{
    ^bb0(%a: tensor<?xf32>, %b: tensor<?xf32>):{BODY}
  }} : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
  transform.yield %ins, %outs : !transform.any_value, !transform.any_value
}}"""

ACT = """
transform.named_sequence @act(%ins: !transform.any_value {transform.readonly}, %out: !transform.any_value {transform.readonly}) {
  %root = transform.get_defining_op %out : (!transform.any_value) -> !transform.any_op
  %module = transform.util.get_nearest_symbol_table %root : (!transform.any_op) -> !transform.any_op
  %exe = transform.util.import_symbol @kernels into %module if undefined : (!transform.any_op) -> !transform.any_op
  %func = transform.util.import_symbol @call_square_diff into %module if undefined : (!transform.any_op) -> !transform.any_op
  transform.util.cast_and_call %func(%ins) -> %out after %root {
    transform.type_conversion.tensor.cast_shape_dynamic_dims
  } : (!transform.any_op, !transform.any_value, !transform.any_value, !transform.any_op) -> !transform.any_op
  transform.yield
}"""


def main(pairs: str = "@match -> @act", ops: str = "util.func") -> str:
    """The entry point."""
    return f"""
transform.named_sequence @__transform_main(%module: !transform.any_op) {{
  %funcs = transform.structured.match ops{{["{ops}"]}} in %module : (!transform.any_op) -> !transform.any_op
  transform.foreach %funcs : !transform.any_op {{
  ^bb1(%func: !transform.any_op):
    transform.foreach_match in %func {pairs} : (!transform.any_op) -> (!transform.any_op)
  }}
  transform.apply_dce to %module : !transform.any_op
  transform.yield
}}"""


def spec(*parts: str) -> str:
    return "module attributes {transform.with_named_sequence} {\n" + "\n".join(parts) + "\n}\n"


SPEC = spec(EXECUTABLE, MATCH, ACT, main())

DYNAMIC = f"""
func.func @f(%p: tensor<?xf32>, %q: tensor<?xf32>) -> tensor<?xf32> {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  {generic("d", "arith.subf", ["%p", "%q"])}
  {generic("s", "arith.mulf", ["%d", "%d"])}
  return %s : tensor<?xf32>
}}
"""
STATIC = f"""
func.func @f(%p: tensor<40xf32>, %q: tensor<40xf32>) -> tensor<40xf32> {{
  %e = tensor.empty() : tensor<40xf32>
  {generic("d", "arith.subf", ["%p", "%q"], type="tensor<40xf32>")}
  {generic("s", "arith.mulf", ["%d", "%d"], type="tensor<40xf32>")}
  return %s : tensor<40xf32>
}}
"""
ON_TENSORS = """
util.func public @f(%p: tensor<?xf32>, %q: tensor<?xf32>) -> tensor<?xf32> {
  %d = arith.subf %p, %q {stray} : tensor<?xf32>
  %s = arith.mulf %d, %d {note = "kept"} : tensor<?xf32>
  util.return %s : tensor<?xf32>
}
"""
NAMED = """
func.func @f(%p: tensor<40xf32>, %q: tensor<40xf32>) -> tensor<40xf32> {
  %e = tensor.empty() : tensor<40xf32>
  %d = linalg.sub ins(%p, %q : tensor<40xf32>, tensor<40xf32>) outs(%e : tensor<40xf32>) -> tensor<40xf32>
  %s = linalg.mul ins(%d, %d : tensor<40xf32>, tensor<40xf32>) outs(%e : tensor<40xf32>) -> tensor<40xf32>
  return %s : tensor<40xf32>
}
"""
FUSED = """
#id = affine_map<(d0) -> (d0)>
func.func @f(%p: tensor<40xf32>, %q: tensor<40xf32>) -> tensor<40xf32> {
  %e = tensor.empty() : tensor<40xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%p, %q : tensor<40xf32>, tensor<40xf32>) outs(%e : tensor<40xf32>) attrs = {stray = 1 : i32} {
    ^bb0(%x: f32, %y: f32, %o: f32):
      %d = arith.subf %x, %y : f32
      %r = arith.mulf %d, %d : f32
      linalg.yield %r : f32
    } -> tensor<40xf32>
  return %s : tensor<40xf32>
}
"""
CAST = """
func.func @f(%p: tensor<40xf32>, %q: tensor<40xf32>) -> tensor<40xf32> {
  %a = tensor.cast %p : tensor<40xf32> to tensor<?xf32>
  %b = tensor.cast %q : tensor<40xf32> to tensor<?xf32>
  %d = arith.subf %a, %b : tensor<?xf32>
  %t = tensor.cast %d : tensor<?xf32> to tensor<40xf32>
  %s = arith.mulf %t, %t : tensor<40xf32>
  return %s : tensor<40xf32>
}
"""
SPELLINGS = {
    "dynamic": DYNAMIC,
    "static": STATIC,
    "on tensors": ON_TENSORS,
    "named": NAMED,
    "fused": FUSED,
    "cast": CAST,
}
"""The same computation in several spellings; all take two vectors of 40 floats."""

ARGMAX = """
#in = affine_map<(d0, d1) -> (d0, d1)>
#out = affine_map<(d0, d1) -> (d0)>
func.func @f(%x: tensor<1x128xf32>) -> (tensor<1xf32>, tensor<1xi64>) {
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<1xf32>
  %ei = tensor.empty() : tensor<1xi64>
  %max = linalg.fill ins(%low : f32) outs(%e : tensor<1xf32>) -> tensor<1xf32>
  %at = linalg.fill ins(%zero : i64) outs(%ei : tensor<1xi64>) -> tensor<1xi64>
  %r:2 = linalg.generic {indexing_maps = [#in, #out, #out], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<1x128xf32>) outs(%max, %at : tensor<1xf32>, tensor<1xi64>) {
    ^bb0(%in: f32, %best: f32, %where: i64):
      %i = linalg.index 1 : index
      %n = arith.index_cast %i : index to i64
      %m = arith.maximumf %in, %best : f32
      %c = arith.cmpf ogt, %in, %best : f32
      %s = arith.select %c, %n, %where : i64
      linalg.yield %m, %s : f32, i64
    } -> (tensor<1xf32>, tensor<1xi64>)
  return %r#0, %r#1 : tensor<1xf32>, tensor<1xi64>
}
"""
FORMAT = host_format()
