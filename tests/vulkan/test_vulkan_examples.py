# ruff: noqa: E501  (programs)
"""Whole programs around hand-written shaders: given as source, inline, and put in by a spec; and kernels for two kinds of device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vulkan_programs import MUL, PUSH, TARGET, buffers, layout

import pydispatch as pd
from pydispatch.compiler.backends.cpu.target import host_format

Glsl = Callable[..., Path]
CPU = f'#hal.executable.target<"llvm-cpu", "{host_format()}">'

# One workgroup of 32 looks through a row: each invocation at its own elements, then pairs of invocations compare.
# It adds a marker, so that a test sees that it ran.
LARGEST = """
layout(set = 0, binding = 0) readonly buffer Row { float row[]; };
layout(set = 0, binding = 1) buffer At { uvec2 at; };
layout(push_constant) uniform Sizes { uint count; };
shared float best[32];
shared uint where[32];
void main() {
  uint me = gl_LocalInvocationID.x;
  uint found = me;
  for (uint i = me + 32; i < count; i += 32) if (row[i] > row[found]) found = i;
  best[me] = row[found];
  where[me] = found;
  for (uint half_ = 16; half_ > 0; half_ /= 2) {
    barrier();
    if (me < half_) {
      uint other = me + half_;
      if (best[other] > best[me] || (best[other] == best[me] && where[other] < where[me])) {
        best[me] = best[other];
        where[me] = where[other];
      }
    }
  }
  if (me == 0) at = uvec2(where[0] + 1000, 0);
}
"""
LARGEST_C = """
#include "pydispatch/library_author.h"
int32_t largest(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,
                const pyd_workgroup_state_t* workgroup) {
  const float* row = pyd_binding(dispatch, 0);
  int64_t* at = pyd_binding(dispatch, 1);
  uint32_t count = pyd_constant(dispatch, 0), found = 0;
  for (uint32_t i = 1; i < count; ++i) if (row[i] > row[found]) found = i;
  at[0] = found + 2000;
  return 0;
}
"""
# The sum is generated; where its largest element is, only the index is used.
PROGRAM = """
func.func @f(%x: tensor<1x128xf32>, %y: tensor<1x128xf32>) -> tensor<1xi64> {
  %sum = arith.addf %x, %y : tensor<1x128xf32>
  %first = arith.constant 0 : i64
  %least = arith.constant 0xFF800000 : f32
  %no_index = tensor.empty() : tensor<1xi64>
  %index = linalg.fill ins(%first : i64) outs(%no_index : tensor<1xi64>) -> tensor<1xi64>
  %no_value = tensor.empty() : tensor<1xf32>
  %value = linalg.fill ins(%least : f32) outs(%no_value : tensor<1xf32>) -> tensor<1xf32>
  %best:2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>,
      affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%sum : tensor<1x128xf32>) outs(%value, %index : tensor<1xf32>, tensor<1xi64>) {
  ^bb0(%in: f32, %largest: f32, %at: i64):
    %i = linalg.index 1 : index
    %n = arith.index_cast %i : index to i64
    %m = arith.maximumf %in, %largest : f32
    %c = arith.cmpf ogt, %in, %largest : f32
    %s = arith.select %c, %n, %at : i64
    linalg.yield %m, %s : f32, i64
  } -> (tensor<1xf32>, tensor<1xi64>)
  return %best#1 : tensor<1xi64>
}
"""
GRID = """count(%device: !hal.device, %w: index) -> (index, index, index) {
      %one = arith.constant 1 : index
      hal.return %one, %one, %one : index, index, index
    }"""


def inline(objects: str) -> str:
    """A function around a dispatch whose kernel is given in place."""
    return f"""func.func private @largest_of_row(%row: tensor<1x?xf32>) -> tensor<1xi64> {{
  %c1 = arith.constant 1 : index
  %n = tensor.dim %row, %c1 : tensor<1x?xf32>
  %count = arith.index_cast %n : index to i32
  %at = hal.dispatch.extern "largest"[%n](%count, %row) : (i32, tensor<1x?xf32>{{%n}}) -> tensor<1xi64>
    {GRID}
    layout({layout(1, "in", "out")})
    objects({{ {objects} }})
  return %at : tensor<1xi64>
}}"""


def spec(objects: str) -> str:
    return f"""module attributes {{transform.with_named_sequence}} {{
{inline(objects)}
transform.named_sequence @is_largest_of_row(%op: !transform.any_op {{transform.readonly}}) -> (!transform.any_op) {{
  transform.match.operation_name %op ["linalg.generic"] : !transform.any_op
  %found = transform.match.structured failures(propagate) %op : (!transform.any_op) -> (!transform.any_op) {{
  ^bb1(%loops: !transform.any_op):
    %two = transform.param.constant 2 : i64 -> !transform.param<i64>
    %rank = transform.match.structured.rank %loops : (!transform.any_op) -> !transform.param<i64>
    transform.match.param.cmpi eq %rank, %two : !transform.param<i64>
    transform.match.structured.dim %loops[0] {{parallel}} : !transform.any_op
    transform.match.structured.dim %loops[-1] {{reduction}} : !transform.any_op
    transform.match.structured.yield %loops : !transform.any_op
  }}
  %row = transform.get_operand %found[0] : (!transform.any_op) -> !transform.any_value
  transform.iree.match.cast_compatible_type %row = tensor<1x32xf32, array<i1: false, true>> : !transform.any_value
  transform.iree.match.regions %found : !transform.any_op {{
    ^bb0(%t: tensor<1x?xf32>, %v: tensor<1xf32>, %w: tensor<1xi64>):
      %r:2 = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>,
          affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}}
          ins(%t : tensor<1x?xf32>) outs(%v, %w : tensor<1xf32>, tensor<1xi64>) {{
        ^bb0(%in: f32, %largest: f32, %at: i64):
          %i = linalg.index 1 : index
          %n = arith.index_cast %i : index to i64
          %m = arith.maximumf %in, %largest : f32
          %c = arith.cmpf ogt, %in, %largest : f32
          %s = arith.select %c, %n, %at : i64
          linalg.yield %m, %s : f32, i64
        }} -> (tensor<1xf32>, tensor<1xi64>)
  }}
  transform.yield %op : !transform.any_op
}}
transform.named_sequence @call_shader(%op: !transform.any_op {{transform.readonly}}) {{
  %module = transform.iree.get_nearest_symbol_table %op : (!transform.any_op) -> !transform.any_op
  %function = transform.iree.import_symbol @largest_of_row into %module : (!transform.any_op) -> !transform.any_op
  %row = transform.get_operand %op[0] : (!transform.any_op) -> !transform.any_value
  %at = transform.get_result %op[1] : (!transform.any_op) -> !transform.any_value
  transform.func.cast_and_call %function(%row) -> %at before %op {{
    transform.type_conversion.tensor.cast_shape_dynamic_dims
  }} : (!transform.any_op, !transform.any_value, !transform.any_value, !transform.any_op) -> !transform.any_op
  transform.yield
}}
transform.named_sequence @__transform_main(%module: !transform.any_op) {{
  %functions = transform.structured.match ops{{["func.func"]}} in %module : (!transform.any_op) -> !transform.any_op
  transform.foreach %functions : !transform.any_op {{
  ^bb1(%function: !transform.any_op):
    transform.foreach_match in %function @is_largest_of_row -> @call_shader : (!transform.any_op) -> (!transform.any_op)
  }}
  transform.apply_dce to %module : !transform.any_op
  transform.yield
}}
}}"""


def objects(target: str, path: Path | str) -> str:
    return f'{target} ordinal(0) = [#hal.executable.object<{{path = "{path}"}}>]'


def rows() -> list[tuple[np.ndarray, np.ndarray, int]]:
    """Pairs of rows, and where their sum is largest."""
    random = np.random.default_rng(128)
    pairs = [tuple(random.standard_normal((2, 1, 128), np.float32)) for _ in range(3)]
    pairs.append((np.full((1, 128), 4, np.float32), np.full((1, 128), 3, np.float32)))  # the first of equal ones
    last = np.zeros((1, 128), np.float32)
    last[0, 127] = 1
    pairs.append((last, last))
    return [(x, y, int((x + y).argmax())) for x, y in pairs]


@pytest.fixture
def largest(glsl: Glsl) -> Path:
    return glsl("largest", LARGEST, "local_size_x = 32")


def test_a_spec_puts_a_shader_in(device: Any, largest: Path) -> None:
    text = spec(objects(TARGET, largest))
    artifact = pd.compile(PROGRAM, targets="vulkan", transform_spec=text, require_match=True)
    program, plain = device.load(artifact), device.load(pd.compile(PROGRAM, targets="vulkan"))
    for x, y, at in rows():
        assert np.asarray(program.f(x, y)).tolist() == [at + 1000]
        assert np.asarray(plain.f(x, y)).tolist() == [at]


ENVIRONMENT = """#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", {spirv.target_env = #spirv.target_env<
  #spirv.vce<v1.3, [Shader, GroupNonUniform, GroupNonUniformArithmetic], [SPV_KHR_storage_buffer_storage_class]>,
  #spirv.resource_limits<max_compute_workgroup_size = [128, 128, 64], subgroup_size = 64>>}>"""
INFORMATION = """#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", {iree_codegen.target_info = #iree_gpu.target<
  arch = "", features = "spirv:v1.3,cap:Shader", wgp = <compute = fp32|int32, storage = b32, subgroup = arithmetic,
  subgroup_size_choices = [64, 64], max_workgroup_sizes = [128, 128, 64], max_thread_count_per_workgroup = 128,
  max_workgroup_memory_bytes = 16384, max_workgroup_counts = [65535, 65535, 65535]>>}>"""


@pytest.mark.parametrize("target", [TARGET, ENVIRONMENT, INFORMATION])
def test_a_shader_in_place(device: Any, largest: Path, target: str) -> None:
    """What the target's attributes claim is a hint: a subgroup size that the device does not have stops nothing."""
    program = f"""#target = {target}
module attributes {{hal.device.targets = [#hal.device.target<"vulkan", [#target]>]}} {{
{inline(objects("#target", largest))}
func.func @f(%x: tensor<1x128xf32>, %y: tensor<1x128xf32>) -> tensor<1xi64> {{
  %sum = arith.addf %x, %y : tensor<1x128xf32>
  %row = tensor.cast %sum : tensor<1x128xf32> to tensor<1x?xf32>
  %at = func.call @largest_of_row(%row) : (tensor<1x?xf32>) -> tensor<1xi64>
  return %at : tensor<1xi64>
}}
}}"""
    loaded = device.load(pd.compile(program, targets="vulkan"))
    for x, y, at in rows():
        assert np.asarray(loaded.f(x, y)).tolist() == [at + 1000]


@pytest.mark.parametrize(("was", "now"), [("1x128xf32", "1x100xf32"), ("cmpf ogt", "cmpf oge")])
def test_a_spec_leaves_what_the_shader_cannot_do(device: Any, largest: Path, was: str, now: str) -> None:
    """Rows that are no multiple of 32, and the last of equal elements."""
    with pytest.warns(UserWarning):
        artifact = pd.compile(
            PROGRAM.replace(was, now), targets="vulkan", transform_spec=spec(objects(TARGET, largest))
        )
    x = np.ones((1, 100 if "100" in now else 128), np.float32)
    assert np.asarray(device.load(artifact).f(x, x)).tolist() == [0 if "100" in now else 127]


def test_a_spec_with_a_kernel_for_each_device(device: Any, largest: Path, tmp_path: Path) -> None:
    (tmp_path / "largest.c").write_text(LARGEST_C)
    text = spec(objects(CPU, "largest.c") + ",\n" + objects(TARGET, largest))
    artifact = pd.compile(
        PROGRAM, targets=("cpu", "vulkan"), transform_spec=text, object_search_path=[tmp_path], require_match=True
    )
    here, there = pd.device("cpu").load(artifact), device.load(artifact)
    for x, y, at in rows():
        assert np.asarray(here.f(x, y)).tolist() == [at + 2000]
        assert np.asarray(there.f(x, y)).tolist() == [at + 1000]


MUL_C = """
#include "pydispatch/library_author.h"
int32_t mul(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch, const pyd_workgroup_state_t* workgroup) {
  const float* a = pyd_binding(dispatch, 0);
  const float* b = pyd_binding(dispatch, 1);
  float* c = pyd_binding(dispatch, 2);
  uint32_t n = pyd_constant(dispatch, 0), first = 64 * workgroup->workgroup_id_x;
  for (uint32_t i = first; i < first + 64 && i < n; ++i) c[i] = a[i] * b[i];
  return 0;
}
int32_t mul_inplace(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch, const pyd_workgroup_state_t* workgroup) {
  const float* a = pyd_binding(dispatch, 0);
  float* b = pyd_binding(dispatch, 1);
  uint32_t n = pyd_constant(dispatch, 0), first = 64 * workgroup->workgroup_id_x;
  for (uint32_t i = first; i < first + 64 && i < n; ++i) b[i] *= a[i];
  return 0;
}
"""
MUL_INPLACE = "void main() { uint i = gl_GlobalInvocationID.x; if (i < n) b[i] *= a[i]; }"
T = "tensor<?xf32>"
MIXED = f"""func.func @mixed(%a: {T}, %b: {T}) -> {T} {{
  %c0 = arith.constant 0 : index
  %d = tensor.dim %a, %c0 : {T}
  %n = arith.index_cast %d : index to i32
  %0 = flow.dispatch @executable::@mul[%d](%n, %a, %b) : (i32, {T}{{%d}}, {T}{{%d}}) -> {T}{{%d}}
  %1 = arith.addf %0, %b : {T}
  %2 = flow.dispatch @executable::@mul_inplace[%d](%n, %0, %1) : (i32, {T}{{%d}}, {T}{{%d}}) -> %1{{%d}}
  %3 = arith.subf %2, %a : {T}
  return %3 : {T}
}}"""
COUNT = """count(%device: !hal.device, %w: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%w]
      %c1 = arith.constant 1 : index
      hal.return %x, %c1, %c1 : index, index, index
    }"""
EXPORTS = f"""hal.executable.export public @mul ordinal(0) layout({layout(1, "in", "in", "out")}) {COUNT}
    hal.executable.export public @mul_inplace ordinal(1) layout({layout(1, "in", "out")}) {COUNT}"""


def listed(*paths: Path | str) -> str:
    return "[" + ", ".join(f'#hal.executable.object<{{path = "{path}"}}>' for path in paths) + "]"


def as_source(*shaders: Path) -> str:
    return f"""hal.executable.source private @executable attributes {{
    objects = #hal.executable.objects<{{{CPU} = {listed("mul.c")}, {TARGET} = {listed(*shaders)}}}>
  }} {{ {EXPORTS} }}
{MIXED}"""


def as_variants(*shaders: Path) -> str:
    return f"""hal.executable private @executable {{
    hal.executable.variant public @native target({CPU}) objects({listed("mul.c")}) {{ {EXPORTS} }}
    hal.executable.variant public @shaders target({TARGET}) objects({listed(*shaders)}) {{ {EXPORTS} }}
  }}
{MIXED}"""


@pytest.mark.parametrize("form", [as_source, as_variants])
def test_an_executable_for_both_devices(device: Any, glsl: Glsl, tmp_path: Path, form: Callable[..., str]) -> None:
    """One artifact, whose hand-written kernels are C for the processor and shaders for Vulkan, with generated ones between."""
    shaders = (
        glsl("mul", buffers("-a", "-b", "c") + PUSH + MUL),
        glsl("mul_inplace", buffers("-a", "b") + PUSH + MUL_INPLACE),
    )
    (tmp_path / "mul.c").write_text(MUL_C)
    artifact = pd.compile(form(*shaders), targets=("cpu", "vulkan"), object_search_path=[tmp_path])
    artifact.save(tmp_path / "both.pdx")
    (here, there) = (d.load(tmp_path / "both.pdx") for d in (pd.device("cpu"), device))
    for n in (1, 64, 1001):
        a, b = np.random.default_rng(n).random((2, n), np.float32)
        expected = (a * b + b) * (a * b) - a
        for program in (here, there):
            np.testing.assert_allclose(np.asarray(program.mixed(a, b)), expected, rtol=2e-6, atol=1e-6)
