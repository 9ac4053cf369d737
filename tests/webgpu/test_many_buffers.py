"""Kernels with more storage buffers than a device binds: arrays of one type become parts of one buffer."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from webgpu_programs import PUSH, export, kernel, source

import pydispatch as pd
from pydispatch.formats.wgsl.merge import least_buffer_count, with_merged_buffers
from pydispatch.formats.wgsl.read import read

TYPES = {"f32": np.float32, "i32": np.int32, "u32": np.int32}


@pytest.fixture
def device() -> Any:
    """One with eight buffers, as every device has."""
    return pd.device("webgpu:0?standard=1")


def shader(types: list[str], writes: set[int], body: str) -> str:
    declared = "\n".join(
        f"@group(0) @binding({i}) var<storage, {'read_write' if i in writes else 'read'}> b{i}: array<{type_}>;"
        for i, type_ in enumerate(types)
    )
    return declared + PUSH + kernel("many", f"if (i < given.n) {{ {body} }}")


def program(wgsl: Any, text: str, types: list[str], writes: set[int], dynamic: str = "?") -> pd.Artifact:
    """f(the buffers that are read..., workload) → those that are written, which come last."""
    ins = [i for i in range(len(types)) if i not in writes]
    element = {"f32": "f32"}
    shapes = [f"tensor<{dynamic}x{element.get(t, 'i32')}>" for t in types]
    results = ", ".join(shapes[i] for i in sorted(writes))
    shown = ", ".join(f"{shapes[i]}{{%d}}" for i in ins)
    outs = ", ".join(f"{shapes[i]}{{%d}}" for i in sorted(writes))
    host = f"""func.func @many({", ".join(f"%a{i}: {shapes[i]}" for i in ins)}, %w: index) -> ({results}) {{
      %c0 = arith.constant 0 : index
      %d = tensor.dim %a{ins[0]}, %c0 : {shapes[ins[0]]}
      %n = arith.index_cast %d : index to i32
      %r:{len(writes)} = flow.dispatch @executable::@many[%w](%n, {", ".join(f"%a{i}" for i in ins)}) :
        (i32, {shown}) -> ({outs})
      return {", ".join(f"%r#{k}" for k in range(len(writes)))} : {results}
    }}"""
    slots = tuple("out" if i in writes else "in" for i in range(len(types)))
    exports = export("many", 0, 1, slots, per=64)
    return pd.compile(source([wgsl("many", text)], exports, host), targets="webgpu")


@pytest.mark.parametrize("seed", range(4))
def test_kernels_of_the_user(device: Any, wgsl: Any, seed: int) -> None:
    """Random types, numbers of inputs and results, lengths that are no multiple of four elements."""
    rng = random.Random(seed)
    count = rng.randint(9, 16)
    types = rng.choices(list(TYPES), k=count)
    writes = set(range(count - rng.randint(1, 6), count))
    reads = [i for i in range(count) if i not in writes]
    sums = " + ".join(f"f32(b{i}[i]) * {i + 1}.0" for i in reads)
    body = f"let s = {sums}; " + " ".join(f"b{i}[i] = {types[i]}(s) + {types[i]}({i});" for i in writes)
    artifact = program(wgsl, shader(types, writes, body), types, writes)
    f = device.load(artifact).many
    assert artifact.executables[0].variants[0].requires == []
    generator = np.random.default_rng(seed)
    for n in (1, 5, 333):
        given = {i: generator.integers(0, 50, n).astype(TYPES[types[i]]) for i in reads}
        found = f(*given.values(), n)
        total = sum(given[i] * (i + 1) for i in reads)
        for i, each in zip(sorted(writes), found if len(writes) > 1 else [found], strict=True):
            np.testing.assert_array_equal(np.asarray(each), total + i)


def test_merged_buffers_at_constants_are_copied_back(device: Any, wgsl: Any) -> None:
    types, writes = ["f32"] * 10, set(range(1, 10))
    text = shader(types, writes, " ".join(f"b{i}[i] = b0[i] + {i}.0;" for i in writes))
    text = "const FIRST = 1;\n" + text.replace("@binding(1)", "@binding(FIRST)").replace(
        "@binding(2)", "@binding(FIRST + 1)"
    )
    f = device.load(program(wgsl, text, types, writes)).many
    given = np.arange(5, dtype=np.float32)
    for i, found in enumerate(f(given, 5), 1):
        np.testing.assert_array_equal(found, given + i)


def test_a_large_grid_of_many_buffers(device: Any, wgsl: Any) -> None:
    types, writes = ["i32"] * 11, {9, 10}
    body = "b9[i] = b0[i] + b8[i]; b10[i] = b9[i] * 2;"
    text = shader(types, writes, body).replace("workgroup_size(64)", "workgroup_size(1)")
    f = device.load(program(wgsl, text, types, writes)).many
    given = [np.arange(70_000, dtype=np.int32) + k for k in range(9)]
    first, second = f(*given, 64 * 70_000)
    np.testing.assert_array_equal(first, 2 * given[0] + 8)
    np.testing.assert_array_equal(second, 4 * given[0] + 16)


def test_what_cannot_be_merged_is_named(device: Any, wgsl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    types, writes = ["f32"] * 10, {9}
    text = shader(types, writes, "b9[i] = b0[i] + " + " + ".join(f"f32(arrayLength(&b{k}))" for k in range(1, 9)) + ";")
    artifact = program(wgsl, text, types, writes)
    given = [np.ones(4, np.float32)] * 9
    with pytest.raises(pd.DeviceUnavailableError, match=r"needs maxStorageBuffersPerShaderStage>=9 \(it has 8\)"):
        device.load(artifact)
    np.testing.assert_array_equal(pd.device("webgpu:0").load(artifact).many(*given, 4), np.full(4, 33, np.float32))
    text = shader(types, writes, f"b9[i] = {' + '.join(f'b{k}[i]' for k in range(9))};")
    f = device.load(program(wgsl, text, types, writes)).many
    monkeypatch.setitem(device._context.limits, "maxStorageBufferBindingSize", 1000)
    long = [np.ones(99, np.float32)] * 9
    with pytest.raises(pd.InvalidArgumentError, match=r"bindings 0, 1, 2 in one buffer: 1200 bytes, .* at most 1000"):
        f(*long, 99)
    monkeypatch.undo()
    np.testing.assert_array_equal(f(*given, 4), given[0] * 9)


def test_buffers_that_a_kernel_does_not_use(device: Any, wgsl: Any) -> None:
    types, writes = ["f32"] * 10, {9}
    given = [np.arange(5, dtype=np.float32)] * 9
    one = device.load(program(wgsl, shader(types, writes, "b9[i] = b4[i];"), types, writes)).many
    np.testing.assert_array_equal(one(*given, 5), given[4])
    none = device.load(program(wgsl, shader(types, writes, ""), types, writes)).many
    assert np.asarray(none(*given, 5)).shape == (5,)


def test_text() -> None:
    """What other entry points need is left out; indices in indices; members and comments stay what they are."""
    declared = "\n".join(f"@group(0) @binding({i}) var<storage, read_write> b{i}: array<vec2u>;" for i in range(10))
    text = f"""enable f16;
{declared}
struct S {{ b3: array<u32, 4> }}
var<workgroup> lost: u32;
fn inner(i: u32) -> u32 {{ var s: S; s.b3[0] = 1u; return b3[b4[i].x /* b5[0] */ + s.b3[0]].y; }}
@compute @workgroup_size(1) fn f() {{ b0[0].x = inner(b1[2].x); b2[0] = b5[0] + b6[0] + b7[0] + b8[b9[0].x]; }}
@compute @workgroup_size(1) fn g() {{ lost = b0[0].x; }}"""
    module = read(text.encode(), "f.wgsl")
    f, g = (module.entry(name) for name in "fg")
    assert f is not None and g is not None
    assert (least_buffer_count(module, f), least_buffer_count(module, g)) == (1, 1)
    made = with_merged_buffers(module, f, 8)
    assert made is not None and made.bindings == ((0,), (1, 3, 4), (2,), (5,), (6,), (7,), (8,), (9,))
    assert made.written == {0, 2} and made.bytes == (8,) * 8
    assert "return merged_1[merged_offsets[0].z + u32(merged_1[merged_offsets[0].w + u32(i)].x" in made.text
    assert "s.b3[0] = 1u" in made.text and "lost" not in made.text and made.text.startswith("enable f16;")
    again = read(made.text.encode(), "f.wgsl")
    assert least_buffer_count(again, again.entry_points[0]) == 1 and with_merged_buffers(module, f, 0) is None


def test_a_single_operation_on_thirteen_tensors(device: Any) -> None:
    """A generated kernel that cannot be split: elements that share words, and pairs of words, too."""
    types = ["f32", "i32", "i8", "f16", "i64"] * 3
    dtypes = {"i8": np.int8, "f16": np.float16, "i64": np.int64, **TYPES}
    terms = [
        f"%t{i} = arith.{'extf' if t == 'f16' else 'sitofp'} %x{i} : {t} to f32" if t != "f32"
        else f"%t{i} = arith.addf %x{i}, %zero : f32"
        for i, t in enumerate(types)
    ]  # fmt: skip
    sums = [f"%s{i} = arith.addf %{f's{i - 1}' if i > 1 else 't0'}, %t{i} : f32" for i in range(1, len(types))]
    lines = "\n".join([*terms, *sums])
    text = f"""func.func @f({", ".join(f"%a{i}: tensor<?x{t}>" for i, t in enumerate(types))}) -> tensor<?xf32> {{
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0.0 : f32
      %d = tensor.dim %a0, %c0 : tensor<?xf32>
      %e = tensor.empty(%d) : tensor<?xf32>
      %r = linalg.generic {{indexing_maps = [{", ".join(["affine_map<(d0) -> (d0)>"] * (len(types) + 1))}],
          iterator_types = ["parallel"]}}
        ins({", ".join(f"%a{i}" for i in range(len(types)))} : {", ".join(f"tensor<?x{t}>" for t in types)})
        outs(%e : tensor<?xf32>) {{
      ^bb0({", ".join(f"%x{i}: {t}" for i, t in enumerate(types))}, %o: f32):
        {lines}
        linalg.yield %s{len(types) - 1} : f32
      }} -> tensor<?xf32>
      return %r : tensor<?xf32>
    }}"""
    artifact = pd.compile(text, targets="webgpu")
    assert artifact.executables[0].variants[0].requires == []
    for n in (1, 7, 300):
        given = [np.random.default_rng(i).integers(-9, 9, n).astype(dtypes[t]) for i, t in enumerate(types)]
        expected = sum(each.astype(np.float32) for each in given)
        np.testing.assert_array_equal(device.load(artifact).f(*given), expected)


def test_f64_in_merged_buffers(device: Any) -> None:
    """The root of a sum over nine arguments, computed with integers: exact."""
    count = 9
    numbers = range(count)
    tensor = "tensor<50xf64>"
    sums = "\n".join(f"%s{i + 1} = arith.addf %s{i}, %x{i} : f64" for i in numbers)
    text = f"""func.func @f({", ".join(f"%a{i}: {tensor}" for i in numbers)}) -> {tensor} {{
      %e = tensor.empty() : {tensor}
      %r = linalg.generic {{indexing_maps = [{", ".join(["affine_map<(i) -> (i)>"] * (count + 1))}],
          iterator_types = ["parallel"]}} ins({", ".join(f"%a{i}" for i in numbers)} : {", ".join([tensor] * count)})
          outs(%e : {tensor}) {{
      ^bb0({", ".join(f"%x{i}: f64" for i in numbers)}, %o: f64):
        %s0 = arith.mulf %x0, %x0 : f64
        {sums}
        %q = math.sqrt %s{count} : f64
        linalg.yield %q : f64
      }} -> {tensor}
      return %r : {tensor}
    }}"""
    arrays = [np.random.default_rng(i).random(50) for i in numbers]
    wanted = arrays[0] * arrays[0]
    for array in arrays:
        wanted = wanted + array
    found = device.load(pd.compile(text, targets="webgpu")).f(*arrays)
    np.testing.assert_array_equal(np.asarray(found), np.sqrt(wanted))
