"""Programs of every tensor operation with sizes known only at run time, run and compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import pydispatch as pd

Case = tuple[str, Sequence[Any], Callable[..., Any]]
RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def indices(*values: int, column: bool = True) -> Any:
    return np.array([[v] for v in values] if column else values, np.int32)


def replaced(array: Any, place: Any, value: Any) -> Any:
    copy = array.copy()
    copy[place] = value
    return copy


CASES: dict[str, Case] = {
    "gather": (
        """
        func.func @f(%x: tensor<?x7xf32>, %i: tensor<?x1xi32>) -> tensor<?x7xf32> {
         %y = tensor.gather %x[%i] gather_dims([0]) : (tensor<?x7xf32>, tensor<?x1xi32>) -> tensor<?x7xf32>
         return %y : tensor<?x7xf32> }
        """,
        [floats(5, 7), indices(3, 0, 4)],
        lambda x, i: x[i[:, 0]],
    ),
    "gather that keeps its dimension": (
        """
        func.func @f(%x: tensor<3x8x6xf32>, %i: tensor<?x1xi32>) -> (tensor<?x3x?x6xf32>, index) {
         %y = tensor.gather %x[%i] gather_dims([1]) : (tensor<3x8x6xf32>, tensor<?x1xi32>) -> tensor<?x3x?x6xf32>
         %c2 = arith.constant 2 : index
         %n = tensor.dim %y, %c2 : tensor<?x3x?x6xf32>
         return %y, %n : tensor<?x3x?x6xf32>, index }
        """,
        [floats(3, 8, 6), indices(3, 0, 4)],
        lambda x, i: (np.moveaxis(x[:, i], 1, 0), 1),
    ),
    "scatter": (
        """
        func.func @f(%x: tensor<2x7xf32>, %d: tensor<?x7xf32>, %i: tensor<2x1xi32>) -> tensor<?x7xf32> {
         %y = tensor.scatter %x into %d[%i] scatter_dims([0]) unique
            : (tensor<2x7xf32>, tensor<?x7xf32>, tensor<2x1xi32>) -> tensor<?x7xf32>
         return %y : tensor<?x7xf32> }
        """,
        [floats(2, 7), floats(5, 7), indices(3, 0)],
        lambda s, d, i: replaced(d, i[:, 0], s),
    ),
    "generate": (
        """
        func.func @f(%n: index) -> tensor<?x4xindex> {
         %y = tensor.generate %n {
         ^bb0(%i: index, %j: index):
          %k = arith.muli %i, %j : index
          tensor.yield %k : index
         } : tensor<?x4xindex>
         return %y : tensor<?x4xindex> }
        """,
        [3],
        lambda n: np.arange(n)[:, None] * np.arange(4),
    ),
    "from_elements": (
        """
        func.func @f(%a: f32, %b: f32) -> tensor<2xf32> {
         %y = tensor.from_elements %a, %b : tensor<2xf32>
         return %y : tensor<2xf32> }
        """,
        [1.5, 2.5],
        lambda a, b: np.array([a, b]),
    ),
    "from_elements without elements": (
        """
        func.func @f(%x: tensor<0x3xf32>) -> tensor<0x3xf32> {
         %e = tensor.from_elements : tensor<0x3xf32>
         %y = arith.addf %e, %x : tensor<0x3xf32>
         return %y : tensor<0x3xf32> }
        """,
        [floats(0, 3)],
        lambda x: x,
    ),
    "insert": (
        """
        func.func @f(%x: tensor<?x7xf32>, %a: f32, %i: index) -> tensor<?x7xf32> {
         %c1 = arith.constant 1 : index
         %y = tensor.insert %a into %x[%i, %c1] : tensor<?x7xf32>
         return %y : tensor<?x7xf32> }
        """,
        [floats(5, 7), 9.0, 2],
        lambda x, a, i: replaced(x, (i, 1), a),
    ),
    "pad": (
        """
        func.func @f(%x: tensor<?x7xf32>, %l: index) -> tensor<?x?xf32> {
         %c = arith.constant 2.0 : f32
         %y = tensor.pad %x low[%l, 1] high[2, %l] {
         ^bb0(%i: index, %j: index):
          tensor.yield %c : f32
         } : tensor<?x7xf32> to tensor<?x?xf32>
         %z = math.absf %y : tensor<?x?xf32>
         return %z : tensor<?x?xf32> }
        """,
        [floats(5, 7), 3],
        lambda x, n: np.abs(np.pad(x, ((n, 2), (1, n)), constant_values=2)),
    ),
    "concat": (
        """
        func.func @f(%x: tensor<?x7xf32>, %y: tensor<?x7xf32>) -> tensor<?x7xf32> {
         %z = tensor.concat dim(0) %x, %y : (tensor<?x7xf32>, tensor<?x7xf32>) -> tensor<?x7xf32>
         return %z : tensor<?x7xf32> }
        """,
        [floats(5, 7), floats(3, 7)],
        lambda x, y: np.concatenate([x, y]),
    ),
    "slice": (
        """
        func.func @f(%x: tensor<?x7xf32>, %o: index, %n: index) -> tensor<?x3xf32> {
         %z = tensor.extract_slice %x[%o, 1] [%n, 3] [2, 2] : tensor<?x7xf32> to tensor<?x3xf32>
         %w = arith.addf %z, %z : tensor<?x3xf32>
         return %w : tensor<?x3xf32> }
        """,
        [floats(9, 7), 1, 4],
        lambda x, o, n: 2 * x[o : o + 2 * n : 2, 1:7:2],
    ),
    "reshape": (
        """
        func.func @f(%x: tensor<?x7xf32>, %n: index) -> tensor<?x?xf32> {
         %c7 = arith.constant 7 : index
         %s = tensor.from_elements %c7, %n : tensor<2xindex>
         %a = math.absf %x : tensor<?x7xf32>
         %z = tensor.reshape %a(%s) : (tensor<?x7xf32>, tensor<2xindex>) -> tensor<?x?xf32>
         %w = arith.addf %z, %z : tensor<?x?xf32>
         return %w : tensor<?x?xf32> }
        """,
        [floats(5, 7), 5],
        lambda x, n: 2 * np.abs(x).reshape(7, n),
    ),
    "reshape by a tensor": (
        """
        func.func @f(%x: tensor<?x7xf32>, %s: tensor<2xi32>) -> tensor<?x?xf32> {
         %z = tensor.reshape %x(%s) : (tensor<?x7xf32>, tensor<2xi32>) -> tensor<?x?xf32>
         %w = arith.addf %z, %z : tensor<?x?xf32>
         return %w : tensor<?x?xf32> }
        """,
        [floats(5, 7), indices(7, 5, column=False)],
        lambda x, s: 2 * x.reshape(7, 5),
    ),
    "dims": (
        """
        func.func @f(%x: tensor<?x7xf32>) -> (index, tensor<?x7xf32>) {
         %c0 = arith.constant 0 : index
         %y = tensor.concat dim(0) %x, %x : (tensor<?x7xf32>, tensor<?x7xf32>) -> tensor<?x7xf32>
         %n = tensor.dim %y, %c0 : tensor<?x7xf32>
         return %n, %y : index, tensor<?x7xf32> }
        """,
        [floats(5, 7)],
        lambda x: (10, np.concatenate([x, x])),
    ),
    "gather in a body": (
        """
        func.func @f(%t: tensor<?x7xf32>, %i: tensor<4xi32>) -> tensor<4x7xf32> {
         %e = tensor.empty() : tensor<4x7xf32>
         %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>]
          , iterator_types = ["parallel", "parallel"]}
          ins(%i : tensor<4xi32>) outs(%e : tensor<4x7xf32>) {
         ^bb0(%a: i32, %o: f32):
          %k = arith.index_cast %a : i32 to index
          %j = linalg.index 1 : index
          %v = tensor.extract %t[%k, %j] : tensor<?x7xf32>
          linalg.yield %v : f32
         } -> tensor<4x7xf32>
         return %y : tensor<4x7xf32> }
        """,
        [floats(5, 7), indices(4, 4, 0, 1, column=False)],
        lambda t, i: t[i],
    ),
    "cache update": (
        """
        func.func @f(%c: tensor<8x4xf32>, %n: tensor<1x4xf32>, %p: index) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
         %d = arith.addf %n, %n : tensor<1x4xf32>
         %y = tensor.insert_slice %d into %c[%p, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<8x4xf32>
         %z = arith.addf %y, %c : tensor<8x4xf32>
         return %y, %z : tensor<8x4xf32>, tensor<8x4xf32> }
        """,
        [floats(8, 4), floats(1, 4), 3],
        lambda c, n, p: (replaced(c, p, 2 * n[0]), replaced(c, p, 2 * n[0]) + c),
    ),
    "two insertions": (
        """
        func.func @f(%a: tensor<8x2xf32>, %b: tensor<8x3xf32>) -> tensor<8x5xf32> {
         %e = tensor.empty() : tensor<8x5xf32>
         %y = tensor.insert_slice %a into %e[0, 0] [8, 2] [1, 1] : tensor<8x2xf32> into tensor<8x5xf32>
         %z = tensor.insert_slice %b into %y[0, 2] [8, 3] [1, 1] : tensor<8x3xf32> into tensor<8x5xf32>
         return %z : tensor<8x5xf32> }
        """,
        [floats(8, 2), floats(8, 3)],
        lambda a, b: np.concatenate([a, b], 1),
    ),
    "several results": (
        """
        func.func @f(%x: tensor<?x64xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?x64xf32>) {
         %c0 = arith.constant 0 : index
         %n = tensor.dim %x, %c0 : tensor<?x64xf32>
         %z = arith.constant 0.0 : f32
         %s = tensor.splat %z[%n] : tensor<?xf32>
         %a = linalg.reduce { arith.addf }
          ins(%x : tensor<?x64xf32>) outs(%s : tensor<?xf32>) dimensions = [1]
         %b = linalg.reduce { arith.maximumf }
          ins(%x : tensor<?x64xf32>) outs(%s : tensor<?xf32>) dimensions = [1]
         %c = math.absf %x : tensor<?x64xf32>
         return %a, %b, %c : tensor<?xf32>, tensor<?xf32>, tensor<?x64xf32> }
        """,
        [floats(6, 64)],
        lambda x: (x.sum(1), np.maximum(x.max(1), 0), np.abs(x)),
    ),
    "if": (
        """
        func.func @f(%x: tensor<?xf32>, %c: i1) -> tensor<?xf32> {
         %r = scf.if %c -> (tensor<?xf32>) {
          %a = math.absf %x : tensor<?xf32>
          scf.yield %a : tensor<?xf32>
         } else {
          %b = arith.negf %x : tensor<?xf32>
          scf.yield %b : tensor<?xf32>
         }
         %t = arith.addf %r, %x : tensor<?xf32>
         return %t : tensor<?xf32> }
        """,
        [floats(6), True],
        lambda x, c: np.abs(x) + x,
    ),
    "while": (
        """
        func.func @f(%x: tensor<f32>) -> tensor<f32> {
         %h = arith.constant 100.0 : f32
         %r = scf.while (%a = %x) : (tensor<f32>) -> tensor<f32> {
          %v = tensor.extract %a[] : tensor<f32>
          %c = arith.cmpf olt, %v, %h : f32
          scf.condition(%c) %a : tensor<f32>
         } do {
         ^bb0(%a: tensor<f32>):
          %b = arith.addf %a, %a : tensor<f32>
          scf.yield %b : tensor<f32>
         }
         return %r : tensor<f32> }
        """,
        [np.array(3, np.float32)],
        lambda x: np.array(192),
    ),
    "no elements": (
        """
        func.func @f(%x: tensor<?x7xf32>) -> (tensor<7xf32>, tensor<?x7xf32>) {
         %z = arith.constant dense<1.0> : tensor<7xf32>
         %a = linalg.reduce { arith.addf }
          ins(%x : tensor<?x7xf32>) outs(%z : tensor<7xf32>) dimensions = [0]
         %b = math.exp %x : tensor<?x7xf32>
         return %a, %b : tensor<7xf32>, tensor<?x7xf32> }
        """,
        [floats(0, 7)],
        lambda x: (np.ones(7), x),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_against_numpy(name: str) -> None:
    text, arguments, expected = CASES[name]
    found = pd.device("local").load(pd.compile(text)).f(*arguments)
    wanted = expected(*arguments)
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for got, value in pairs:
        np.testing.assert_allclose(np.asarray(got), value, rtol=1e-5, atol=1e-5)
