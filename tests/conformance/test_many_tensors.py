"""Operations on more tensors than devices bind in one dispatch."""

from __future__ import annotations

import warnings
from functools import reduce
from operator import add
from typing import Annotated, Any

import numpy as np
import pytest
from backends import Backend
from xdsl.dialects.builtin import TensorType

import pydispatch as pd
from pydispatch.compiler.driver.options import Options
from pydispatch.compiler.driver.pipeline import Pipeline
from pydispatch.compiler.driver.sources import load_source
from pydispatch.ir.dialects.flow import dialect as flow

LIMITS = {"cpu": 64, "vulkan": 16, "webgpu": 8}


def concat(count: int, row: str, axis: int = 0) -> str:
    """A concatenation of `count` arguments of type `row`."""
    shape = row.split("x")
    sizes = [1 if axis else 1 + i % 3 for i in range(count)]
    types = [f"tensor<{row if '?' in row else 'x'.join([str(n), *shape[1:]])}>" for n in sizes]
    whole = row if "?" in row else f"{sum(sizes)}x{'x'.join(shape[1:])}"
    names = [f"%a{i}" for i in range(count)]
    return f"""func.func @f({", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))}) -> tensor<{whole}> {{
      %r = tensor.concat dim({axis}) {", ".join(names)} : ({", ".join(types)}) -> tensor<{whole}>
      return %r : tensor<{whole}>
    }}"""


def elementwise(count: int, n: str) -> str:
    """Sums and maxima in turn of `count` arguments, every third of which is transposed; and rows of it, scaled."""
    t, tt = f"tensor<{n}x5xf32>", f"tensor<5x{n}xf32>"
    types = [t if i % 3 else tt for i in range(count)]
    same, turned = "affine_map<(i, j) -> (i, j)>", "affine_map<(i, j) -> (j, i)>"
    maps = ", ".join([*(same if i % 3 else turned for i in range(count)), turned, same])
    body = "\n".join(
        f"%s{i} = arith.{'addf' if i % 2 else 'maximumf'} {'%x0' if i == 1 else f'%s{i - 1}'}, %x{i} : f32"
        for i in range(1, count)
    )
    size = "%n" if n == "?" else ""
    return f"""func.func @f({", ".join(f"%a{i}: {types[i]}" for i in range(count))}) -> ({tt}, {t}) {{
      %c1 = arith.constant 1 : index
      %n = tensor.dim %a0, %c1 : {tt}
      %e = tensor.empty({size}) : {tt}
      %g = tensor.empty({size}) : {t}
      %r:2 = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel"]}}
          ins({", ".join(f"%a{i}" for i in range(count))} : {", ".join(types)}) outs(%e, %g : {tt}, {t}) {{
      ^bb0({", ".join(f"%x{i}: f32" for i in range(count))}, %p: f32, %q: f32):
        {body}
        %i = linalg.index 0 : index
        %k = arith.index_cast %i : index to i32
        %l = arith.sitofp %k : i32 to f32
        %y = arith.mulf %s{count - 1}, %l : f32
        linalg.yield %s{count - 1}, %y : f32, f32
      }} -> ({tt}, {t})
      return %r#0, %r#1 : {tt}, {t}
    }}"""


def column_sums(count: int) -> str:
    """A reduction of the sum of `count` arguments, which cannot be split."""
    t = "tensor<4x5xf32>"
    maps = ", ".join(["affine_map<(i, j) -> (i, j)>"] * count)
    body = "\n".join(f"%s{i} = arith.addf {f'%s{i - 1}' if i else '%q'}, %x{i} : f32" for i in range(count))
    return f"""func.func @f({", ".join(f"%a{i}: {t}" for i in range(count))}) -> tensor<4xf32> {{
      %e = arith.constant dense<0.0> : tensor<4xf32>
      %r = linalg.generic {{indexing_maps = [{maps}, affine_map<(i, j) -> (i)>],
          iterator_types = ["parallel", "reduction"]}}
          ins({", ".join(f"%a{i}" for i in range(count))} : {", ".join([t] * count)}) outs(%e : tensor<4xf32>) {{
      ^bb0({", ".join(f"%x{i}: f32" for i in range(count))}, %q: f32):
        {body}
        linalg.yield %s{count - 1} : f32
      }} -> tensor<4xf32>
      return %r : tensor<4xf32>
    }}"""


def whole_numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).integers(-9, 9, shape).astype(np.float32)


@pytest.mark.parametrize("row", ["1x5xf32", "?x5xf32", "?x?xf32"])
@pytest.mark.parametrize("count", [3, 17, 70, 200])
def test_concatenations(backend: Backend, count: int, row: str) -> None:
    given = [whole_numbers(1 + i % 3, 5) for i in range(count)]
    np.testing.assert_array_equal(backend.load(concat(count, row)).f(*given), np.concatenate(given))


@pytest.mark.parametrize("count", [9, 70])
def test_concatenations_of_columns(backend: Backend, count: int) -> None:
    given = [whole_numbers(3, 1 + i % 3) for i in range(count)]
    np.testing.assert_array_equal(backend.load(concat(count, "?x?xf32", 1)).f(*given), np.concatenate(given, 1))


@pytest.mark.parametrize("n", ["4", "?"])
@pytest.mark.parametrize("count", [5, 20, 70])
def test_elementwise_operations_of_the_user(backend: Backend, count: int, n: str) -> None:
    given = [whole_numbers(4, 5) if i % 3 else whole_numbers(5, 4) for i in range(count)]
    rows = [x if i % 3 else x.T for i, x in enumerate(given)]
    expected = rows[0]
    for number, x in enumerate(rows[1:], 1):
        expected = expected + x if number % 2 else np.maximum(expected, x)
    turned, scaled = backend.load(elementwise(count, n)).f(*given)
    np.testing.assert_array_equal(turned, expected.T)
    np.testing.assert_array_equal(scaled, expected * np.arange(4, dtype=np.float32)[:, None])


def of_arrays(function: Any, count: int) -> Any:
    """A program of `count` parameters."""
    names = [f"x{i}" for i in range(count)]
    made = eval(f"lambda {', '.join(names)}: function([{', '.join(names)}])", {"function": function})
    made.__name__ = "f"
    made.__annotations__ = dict.fromkeys(names, Annotated[np.ndarray, pd.f32[4, "n"]])
    return pd.program(made)


@pytest.mark.parametrize("function", [np.stack, lambda xs: reduce(add, xs), lambda xs: np.stack(xs, 1) + xs[0][0, 0]])
@pytest.mark.parametrize("count", [3, 60])
def test_python_programs(backend: Backend, function: Any, count: int) -> None:
    given = [whole_numbers(4, 3) + i for i in range(count)]
    np.testing.assert_array_equal(backend.load(of_arrays(function, count)).f(*given), function(given))


@pytest.mark.parametrize("target", LIMITS)
@pytest.mark.parametrize("source", [concat(200, "1x5xf32"), concat(90, "?x?xf32"), elementwise(90, "?")])
def test_no_dispatch_exceeds_the_limit(target: str, source: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline = Pipeline(load_source(source)[0], Options(targets=(target,)))
        pipeline.run_to("dispatches")
    dispatches = [op for op in pipeline.module.walk() if isinstance(op, flow.DispatchOp)]
    counts = [sum(isinstance(v.type, TensorType) for v in (*d.operands, *d.results)) for d in dispatches]
    assert len(counts) > 1 and max(counts) <= LIMITS[target]


@pytest.mark.parametrize(("target", "count"), [("webgpu", 9), ("vulkan", 20)])
def test_a_warning_names_what_cannot_be_split(target: str, count: int) -> None:
    text = rf":3:12: 'linalg.generic' reads and writes {count + 1} tensors; .* no more than {LIMITS[target]} storage"
    with pytest.warns(pd.CompileWarning, match=text):
        pd.compile(column_sums(count), targets=target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pd.compile(column_sums(5), targets=target)
