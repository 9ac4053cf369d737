"""Sorting, scans, scatters and gathers on random shapes, compared with NumPy."""

from __future__ import annotations

import re
from collections import Counter

import ml_dtypes
import numpy as np
import orderings
import pytest
from harness import Body, examples, run
from hypothesis import given
from hypothesis import strategies as st

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to

SIZES = st.sampled_from(["static", "dynamic", "mixed"])
LENGTH = st.sampled_from([0, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17])
SHAPE = st.lists(LENGTH, min_size=1, max_size=3)
NUMBERS = st.sampled_from(["i8", "i16", "i32", "i64", "index", "f16", "bf16", "f32", "f64"])
INDICES = st.sampled_from(["i32", "i64", "index"])
SEEDS = st.integers(0, 2**32 - 1)
PLACE = st.integers(0, 10)
DIALECT = st.sampled_from(["iree_linalg_ext", "tm_tensor"])


@examples(1)
@given(shape=SHAPE, place=PLACE, element=NUMBERS, other=st.sampled_from([None, "i32", "i64", "f32"]),
       more=st.booleans(), sizes=SIZES, seed=SEEDS, dialect=DIALECT)  # fmt: skip
def test_sort(shape, place, element, other, more, sizes, seed, dialect):
    body = Body(sizes, seed=seed % 1000)
    orderings.sort(body, shape, place % len(shape), element, other, more, dialect)
    run(body)


@pytest.mark.parametrize("shape", [(255,), (256,), (257,), (1000,), (3, 700), (600, 2)], ids=str)
@pytest.mark.parametrize("sizes", ["static", "dynamic"])
def test_sort_of_many(shape, sizes):
    """Rows of several blocks, of which the last one may be short."""
    bodies = []
    for along in range(len(shape)):
        body = Body(sizes, seed=along)
        orderings.sort(body, shape, along, "i16", "i32", False)
        bodies.append(body)
    run(*bodies)


def test_sizes_of_sorted_tensors_that_differ_in_a_call_are_refused() -> None:
    types = "tensor<?x3xf32>, tensor<?x?xi32>"
    program = pd.device("cpu").load(
        pd.compile(f"""
      func.func @main(%a: tensor<?x3xf32>, %b: tensor<?x?xi32>) -> ({types}) {{
        %r:2 = iree_linalg_ext.sort dimension(0) outs(%a, %b : {types}) {{
        ^bb0(%x: f32, %y: f32, %i: i32, %j: i32):
          %c = arith.cmpf olt, %x, %y : f32
          iree_linalg_ext.yield %c : i1
        }} -> {types}
        return %r#0, %r#1 : {types}
      }}""")
    )
    x = np.array([[3, 1, 2], [1, 2, 3]], np.float32)
    values, indices = program.main(x, np.array([[0, 0, 0], [1, 1, 1]], np.int32))
    np.testing.assert_array_equal(values, np.sort(x, 0))
    np.testing.assert_array_equal(indices, np.argsort(x, 0))
    for shape, message in (((5, 3), "axis 0 of tensor 1 has 5 elements, that of tensor 0 has 2"),
                           ((2, 4), "axis 1 of tensor 1 has 4 elements, that of tensor 0 has 3")):  # fmt: skip
        with pytest.raises(pd.InvalidArgumentError, match=f"'iree_linalg_ext.sort': {message} .*:3:"):
            program.main(x, np.zeros(shape, np.int32))


def test_passes_of_a_sort_share_a_kernel():
    text = """func.func @f(%x: tensor<4x1000xf32>) -> tensor<4x1000xf32> {
      %r = iree_linalg_ext.sort dimension(1) outs(%x : tensor<4x1000xf32>) {
      ^bb0(%a: f32, %b: f32):
        %c = arith.cmpf olt, %a, %b : f32
        iree_linalg_ext.yield %c : i1
      } -> tensor<4x1000xf32>
      return %r : tensor<4x1000xf32>
    }"""
    dispatched = Counter(re.findall(r"flow\.dispatch (\S*recurrence\w*)", compile_to("dispatches", text)))
    assert sorted(dispatched.values()) == [1, 9]  # of ten passes, the first one merges single elements


def test_sort_with_nans_as_the_comparator_says():
    """An order in which NaN is the largest is one like any other."""
    body = Body()
    values = [3.0, float("nan"), 1.0, float("-inf"), float("nan"), 2.0, float("inf"), -0.0]
    value = body.input(values, "f32")
    code = (
        "%less = arith.cmpf olt, %a0, %a1 : f32\n    %nan = arith.cmpf uno, %a1, %a1 : f32\n"
        "    %number = arith.cmpf ord, %a0, %a0 : f32\n    %last = arith.andi %nan, %number : i1\n"
        "    %r = arith.ori %less, %last : i1"
    )
    (found,) = orderings.operation(body, "iree_linalg_ext.sort dimension(0)", [], [value], code, ["f32", "f32"], "i1")
    body.expect(found, sorted(values, key=lambda x: (x != x, x)))
    run(body)


@examples(1)
@given(shape=st.lists(st.sampled_from([1, 2, 3, 5, 8, 13, 17]), min_size=1, max_size=3), place=PLACE, count=PLACE,
       element=NUMBERS, indices=INDICES, more=st.booleans(), given_=st.booleans(), sizes=SIZES, seed=SEEDS,
       dialect=DIALECT)  # fmt: skip
def test_topk(shape, place, count, element, indices, more, given_, sizes, seed, dialect):
    body = Body(sizes, seed=seed % 1000)
    along = place % len(shape)
    orderings.topk(body, shape, along, count % shape[along] + 1, element, indices, more, given_, dialect)
    run(body)


@pytest.mark.parametrize("targets", [("cpu",), ("cpu", "webgpu")])
@pytest.mark.parametrize("sizes", ["static", "dynamic"])
@pytest.mark.parametrize("count", [0, 1, 3, 8, 20])
def test_topk_of_many(count, sizes, targets):
    """Of long rows only the first elements of runs are merged, and few are selected, in segments; for CPUs alone a heap
    selects them.
    """
    bodies = []
    for shape, along in (((1000,), 0), ((2, 129), 1), ((129, 3), 0), ((2, 2100), 1)):
        body = Body(sizes, seed=count)
        orderings.topk(body, shape, along, count, "i16", "i32", True, False)
        bodies.append(body)
    run(*bodies, targets=targets)


@pytest.mark.parametrize("order", ["ascending", "descending", "equal", "random"])
def test_top_k_visits_each_block(order):
    """Rows whose elements precede the root always, never and sometimes, also in what is left of the last block."""
    text = """func.func @f(%x: tensor<?x?xi64>) -> (tensor<?x40xi64>, tensor<?x40xi32>) {
      %0:2 = pyd.top_k %x before {
      ^bb0(%a: i64, %b: i64):
        %greater = arith.cmpi sgt, %a, %b : i64
        linalg.yield %greater : i1
      } : tensor<?x?xi64> -> tensor<?x40xi64>, tensor<?x40xi32>
      return %0#0, %0#1 : tensor<?x40xi64>, tensor<?x40xi32>
    }"""
    program = pd.device("cpu").load(pd.compile(text))
    for size in (40, 41, 103, 104, 120, 168, 1000):
        x = np.stack([np.arange(size) // 3, np.arange(size)])
        if order == "descending":
            x = -x
        elif order == "equal":
            x[:] = 7
        elif order == "random":
            x = np.random.default_rng(size).integers(-30, 30, (2, size))
        values, positions = program.f(x)
        wanted = np.argsort(-x, 1, kind="stable")[:, :40]
        np.testing.assert_array_equal(positions, wanted)
        np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 1))


def test_top_k_of_frontends_is_one_dispatch():
    text = """func.func @f(%x: tensor<64x1000xf32>) -> (tensor<64x50xf32>, tensor<64x50xi64>) {
      %v = tensor.empty() : tensor<64x50xf32>
      %i = tensor.empty() : tensor<64x50xi64>
      %r:2 = iree_linalg_ext.topk_v2 dimension(1) is_sorted ins(%x : tensor<64x1000xf32>)
          outs(%v, %i : tensor<64x50xf32>, tensor<64x50xi64>) {
      ^bb0(%a: f32, %b: f32):
        %c = arith.cmpf ogt, %a, %b : f32
        iree_linalg_ext.yield %c : i1
      } -> tensor<64x50xf32>, tensor<64x50xi64>
      return %r#0, %r#1 : tensor<64x50xf32>, tensor<64x50xi64>
    }"""
    assert compile_to("dispatches", text).count("flow.dispatch @") == 1


@pytest.mark.parametrize("sizes", [("2, 5",), ("2, 5", "2, 40"), ("2, 5", "1, 5")])
def test_slices_of_a_sort(sizes):
    """Where only the same first elements are read, no more are sorted."""
    slices, types = [], []
    for i, size in enumerate(sizes):
        types.append(f"tensor<{size.replace(', ', 'x')}xf32>")
        slices.append(f"%s{i} = tensor.extract_slice %r[0, 0] [{size}] [1, 1] : tensor<2x2100xf32> to {types[-1]}")
    text = f"""func.func @f(%x: tensor<2x2100xf32>) -> ({", ".join(types)}) {{
      %r = iree_linalg_ext.sort dimension(1) outs(%x : tensor<2x2100xf32>) {{
      ^bb0(%a: f32, %b: f32):
        %c = arith.cmpf ogt, %a, %b : f32
        iree_linalg_ext.yield %c : i1
      }} -> tensor<2x2100xf32>
      {chr(10).join(slices)}
      return {", ".join(f"%s{i}" for i in range(len(sizes)))} : {", ".join(types)}
    }}"""
    x = np.random.default_rng(3).integers(-300, 300, (2, 2100)).astype(np.float32)
    results = pd.device("cpu").load(pd.compile(text)).f(x)
    for size, result in zip(sizes, results if len(sizes) > 1 else [results], strict=True):
        rows, count = map(int, size.split(", "))
        np.testing.assert_array_equal(result, -np.sort(-x[:rows], 1)[:, :count])
    has_whole_rows = "tensor<2x2304xf32>" in compile_to("dispatches", text)  # in 9 blocks of 256
    assert has_whole_rows == (len(sizes) > 1)


def test_selected_elements_appear_once_among_nan():
    """A comparison with NaN is no order: which elements come first is open, but no element is selected twice."""
    text = """func.func @f(%x: tensor<64x40xf32>, %i: tensor<64x40xi32>) -> (tensor<64x5xf32>, tensor<64x5xi32>) {
      %r:2 = iree_linalg_ext.sort dimension(1) outs(%x, %i : tensor<64x40xf32>, tensor<64x40xi32>) {
      ^bb0(%a: f32, %b: f32, %p: i32, %q: i32):
        %c = arith.cmpf olt, %a, %b : f32
        iree_linalg_ext.yield %c : i1
      } -> tensor<64x40xf32>, tensor<64x40xi32>
      %v = tensor.extract_slice %r#0[0, 0] [64, 5] [1, 1] : tensor<64x40xf32> to tensor<64x5xf32>
      %w = tensor.extract_slice %r#1[0, 0] [64, 5] [1, 1] : tensor<64x40xi32> to tensor<64x5xi32>
      return %v, %w : tensor<64x5xf32>, tensor<64x5xi32>
    }"""
    random = np.random.default_rng(5)
    x = np.where(random.random((64, 40)) < 0.3, np.nan, random.permuted(np.tile(np.arange(40), (64, 1)), axis=1))
    x, positions = x.astype(np.float32), np.tile(np.arange(40, dtype=np.int32), (64, 1))
    values, indices = pd.device("cpu").load(pd.compile(text)).f(x, positions)
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, 1))
    assert all(len(set(row)) == 5 for row in indices.tolist())


def test_topk_of_too_few():
    text = """func.func @f(%x: tensor<?xf32>) -> tensor<4xf32> {
      %v = tensor.empty() : tensor<4xf32>
      %r = iree_linalg_ext.topk_v2 dimension(0) is_sorted ins(%x : tensor<?xf32>) outs(%v : tensor<4xf32>) {
      ^bb0(%a: f32, %b: f32):
        %c = arith.cmpf ogt, %a, %b : f32
        iree_linalg_ext.yield %c : i1
      } -> tensor<4xf32>
      return %r : tensor<4xf32>
    }"""
    program = pd.device("cpu").load(pd.compile(text))
    assert list(np.asarray(program["f"](np.array([1, 5, 2, 7, 3], np.float32)))) == [7, 5, 3, 2]
    with pytest.raises(pd.Error, match="the first 4 elements are wanted of fewer"):
        program["f"](np.zeros(3, np.float32))


@examples(1)
@given(shape=SHAPE, place=PLACE, element=NUMBERS, indices=st.sampled_from(["i32", "i64", "i8"]),
       base=st.sampled_from([None, 0, 7]), sizes=SIZES, seed=SEEDS)  # fmt: skip
def test_arg_compare(shape, place, element, indices, base, sizes, seed):
    body = Body(sizes, seed=seed % 1000)
    orderings.arg_compare(body, shape, place % len(shape), element, indices, base)
    run(body)


@examples(1.5)
@given(shape=SHAPE, place=PLACE, element=NUMBERS, kind=st.sampled_from(["add", "max", "sub"]),
       inclusive=st.booleans(), sizes=SIZES, seed=SEEDS, dialect=DIALECT)  # fmt: skip
def test_scan(shape, place, element, kind, inclusive, sizes, seed, dialect):
    body = Body(sizes, seed=seed % 1000)
    orderings.scan(body, shape, place % len(shape), element, kind, inclusive, dialect)
    run(body)


@pytest.mark.parametrize("shape, along", [((2049,), 0), ((2, 3, 5000), 2), ((5, 700), 0), ((3, 4, 40), 1)], ids=str)
@pytest.mark.parametrize("sizes", ["static", "dynamic"])
def test_scan_of_many(shape, along, sizes):
    """Blocks of long rows, and rows side by side."""
    bodies = []
    for kind in ("add", "max", "sub"):
        for inclusive in (True, False):
            body = Body(sizes, seed=3)
            orderings.scan(body, shape, along, "i32", kind, inclusive)
            bodies.append(body)
    run(*bodies)


@examples(1.5)
@given(whole=SHAPE, count=LENGTH, element=NUMBERS, indices=INDICES,
       kind=st.sampled_from(["add", "max", "sub", "update"]), unique=st.booleans(), masked=st.booleans(),
       places=st.permutations(range(3)), depth=PLACE, into_zeros=st.booleans(), sizes=SIZES, seed=SEEDS)  # fmt: skip
def test_scatter(whole, count, element, indices, kind, unique, masked, places, depth, into_zeros, sizes, seed):
    body = Body(sizes, seed=seed % 1000)
    order = [d for d in places if d < len(whole)][: depth % len(whole) + 1]
    if unique:
        rooms = 1
        for d in order:
            rooms *= whole[d] + 2
        count = min(count, rooms)
    orderings.scatter(body, whole, count, element, indices, kind, unique, masked, order, into_zeros)
    run(body)


@pytest.mark.parametrize("sizes", ["static", "dynamic"])
@pytest.mark.parametrize("whole", [(7,), (7, 40), (5, 3, 33)], ids=str)
def test_scatter_of_many(whole, sizes):
    """So many that the destination has parts."""
    body = Body(sizes, seed=1)
    orderings.scatter(body, whole, 9000, "i32", "i32", "sub", False, False, [0], False)
    run(body)


@examples(1)
@given(whole=SHAPE, batch=st.lists(LENGTH, min_size=1, max_size=2), element=NUMBERS, indices=INDICES,
       places=st.permutations(range(3)), depth=PLACE, sizes=SIZES, seed=SEEDS)  # fmt: skip
def test_gather(whole, batch, element, indices, places, depth, sizes, seed):
    body = Body(sizes, seed=seed % 1000)
    order = [d for d in places if d < len(whole)][: depth % len(whole) + 1]
    orderings.gather(body, whole, batch, element, indices, order)
    run(body)


@examples(1)
@given(shape=SHAPE, element=NUMBERS, steps=st.integers(1, 3), sizes=SIZES, seed=SEEDS, former=st.booleans())
def test_maps(shape, element, steps, sizes, seed, former):
    body = Body(sizes, seed=seed % 1000)
    orderings.map_store(body, shape, element, steps, "map_scatter" if former else "map_store")
    orderings.map_load(body, shape, element, "map_gather" if former else "map_load")
    run(body)


@pytest.mark.parametrize("sizes", ["static", "dynamic"])
@pytest.mark.parametrize("unique", ["true", "false"])
def test_scatter_of_blocks_that_begin_at_an_index(unique, sizes):
    """Slices with the dimensions that are indexed too: what an element has as index there is added."""
    body = Body(sizes, seed=4)
    target, old = orderings.small(body, [7, 5], "i32")
    updates, new = orderings.small(body, [2, 3, 2, 2], "i32")
    starts = np.array([[[0, 0], [2, 2], [6, 4]], [[4, 1], [-1, 3], [9, 0]]])
    if unique == "false":
        starts[0, 1] = [1, 1]
    places = body.input(starts, "i64", 1)
    text = f"iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices({unique})"
    code = "%r = arith.subi %a0, %a1 : i32"
    (found,) = orderings.operation(body, text, [updates, places], [target], code, ["i32", "i32"], "i32")
    result = old.copy()
    for batch in np.ndindex(2, 3):
        for offset in np.ndindex(2, 2):
            at = tuple(starts[batch] + offset)
            if 0 <= at[0] < 7 and 0 <= at[1] < 5:
                result[at] = new[(*batch, *offset)] - result[at]
    body.expect(found, result)
    run(body)


@pytest.mark.parametrize("sizes", ["static", "dynamic"])
def test_indices_without_a_last_dimension(sizes):
    """One index for each slice, in two dimensions of slices."""
    body = Body(sizes, seed=5)
    target, old = orderings.small(body, [7, 3], "f32")
    updates, new = orderings.small(body, [4, 2, 3], "f32")
    numbers = np.array([[0, 3], [3, 8], [-2, 6], [3, 0]])
    places = body.input(numbers, "i32")
    text = "iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)"
    code = "%r = arith.addf %a0, %a1 : f32"
    (found,) = orderings.operation(body, text, [updates, places], [target], code, ["f32", "f32"], "f32")
    result = old.copy()
    inside = (numbers >= 0) & (numbers < 7)
    np.add.at(result, numbers[inside], new[inside])
    body.expect(found, result)
    out = body.empty([4, 2, 3], "f32")
    (rows,) = orderings.operation(
        body, "iree_linalg_ext.gather dimension_map = [0]", [target, places], [out], "", [], ""
    )
    body.expect(rows, old[np.clip(numbers, 0, 6)])
    run(body)


def test_gather_with_a_mask():
    body = Body("static", seed=6)
    source, array = orderings.small(body, [5, 2], "i32")
    out, before = orderings.small(body, [4, 2], "i32")
    places = body.input([[0], [4], [2], [3]], "i32")
    mask = body.input([True, False, True, False], "i1")
    (found,) = orderings.operation(
        body, "iree_linalg_ext.gather dimension_map = [0]", [source, places, mask], [out], "", [], ""
    )
    body.expect(found, np.where([[1], [0], [1], [0]], array[[0, 4, 2, 3]], before))
    run(body)


@pytest.mark.parametrize("device", ["cpu", "vulkan:0", "ptx-interpreter"])
def test_elements_that_share_a_byte(device):
    """Rows of three i4: two of them meet in a byte."""
    text = """func.func @f(%x: tensor<6x3xi8>, %i: tensor<4x1xi32>)
        -> (tensor<6x3xi8>, tensor<6x3xi8>, tensor<6x3xi8>) {
      %p = arith.trunci %x : tensor<6x3xi8> to tensor<6x3xi4>
      %z = arith.constant dense<0> : tensor<6xi4>
      %s = iree_linalg_ext.sort dimension(1) outs(%p : tensor<6x3xi4>) {
      ^bb0(%a: i4, %b: i4):
        %r = arith.cmpi slt, %a, %b : i4
        iree_linalg_ext.yield %r : i1
      } -> tensor<6x3xi4>
      %t:2 = iree_linalg_ext.scan dimension(1) inclusive(true) ins(%p : tensor<6x3xi4>)
          outs(%p, %z : tensor<6x3xi4>, tensor<6xi4>) {
      ^bb0(%a: i4, %b: i4):
        %r = arith.maxsi %a, %b : i4
        iree_linalg_ext.yield %r : i4
      } -> tensor<6x3xi4>, tensor<6xi4>
      %u = tensor.extract_slice %p[0, 0] [4, 3] [1, 1] : tensor<6x3xi4> to tensor<4x3xi4>
      %v = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
          ins(%u, %i : tensor<4x3xi4>, tensor<4x1xi32>) outs(%s : tensor<6x3xi4>) {
      ^bb0(%a: i4, %b: i4):
        %r = arith.maxsi %a, %b : i4
        iree_linalg_ext.yield %r : i4
      } -> tensor<6x3xi4>
      %0 = arith.extsi %s : tensor<6x3xi4> to tensor<6x3xi8>
      %1 = arith.extsi %t#0 : tensor<6x3xi4> to tensor<6x3xi8>
      %2 = arith.extsi %v : tensor<6x3xi4> to tensor<6x3xi8>
      return %0, %1, %2 : tensor<6x3xi8>, tensor<6x3xi8>, tensor<6x3xi8>
    }"""
    targets = {"c": "cpu", "v": "vulkan", "p": "cuda"}[device[0]]
    x = np.random.default_rng(2).integers(-8, 8, (6, 3)).astype(np.int8)
    i = np.array([[5], [1], [5], [7]], np.int32)
    found = pd.device(device).load(pd.compile(text, targets=targets))["f"](x, i)
    updated = np.sort(x, 1)
    np.maximum.at(updated, i[:3, 0], x[:3])
    for got, expected in zip(found, (np.sort(x, 1), np.maximum.accumulate(x, 1), updated), strict=True):
        np.testing.assert_array_equal(np.asarray(got), expected)


@pytest.mark.parametrize("name", ["f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f32"])
def test_scans_of_types_with_and_without_infinities(name):
    """A maximum in blocks begins with the least number."""
    numbers = np.random.default_rng(0).integers(-15, -1, (2, 5000))
    dtype = np.dtype("f4") if name == "f32" else getattr(ml_dtypes, f"float8_{name[2:].lower()}")
    text = f"""func.func @f(%x: tensor<2x5000x{name}>) -> tensor<2x5000x{name}> {{
      %o = tensor.empty() : tensor<2x5000x{name}>
      %z = arith.constant dense<-16.0> : tensor<2x{name}>
      %r:2 = iree_linalg_ext.scan dimension(1) inclusive(true) ins(%x : tensor<2x5000x{name}>)
             outs(%o, %z : tensor<2x5000x{name}>, tensor<2x{name}>) {{
      ^bb0(%a: {name}, %b: {name}):
        %c = arith.maximumf %a, %b : {name}
        iree_linalg_ext.yield %c : {name}
      }} -> tensor<2x5000x{name}>, tensor<2x{name}>
      return %r#0 : tensor<2x5000x{name}> }}"""
    x = numbers.astype(dtype)
    got = pd.device("cpu").load(pd.compile(text)).f(x)
    np.testing.assert_array_equal(got.astype(np.float32), np.maximum.accumulate(x.astype(np.float32), 1))
