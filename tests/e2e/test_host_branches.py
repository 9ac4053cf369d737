"""Branches, loops, read-backs, globals and checks of host code, against Python."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydispatch as pd


def load(text: str) -> Any:
    return pd.device("local-sync").load(pd.compile(text))


@cache
def loaded(text: str) -> Any:
    """Compile and load a program when its first test runs, not while tests are collected."""
    return load(text)


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(np.float32)


LOOPS = """
func.func @scalars(%n: i64) -> (i64, i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %s, %t = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c0, %b = %c1) -> (i64, i64) : i64 {
    %x = arith.addi %a, %i : i64
    %y = arith.addi %a, %b : i64
    scf.yield %x, %y : i64, i64
  }
  return %s, %t : i64, i64
}
func.func @power(%a: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant 1.0 : f32
  %d = tensor.dim %a, %c0 : tensor<?xf32>
  %init = tensor.splat %one[%d] : tensor<?xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%p = %init) -> (tensor<?xf32>) {
    %q = arith.mulf %p, %a : tensor<?xf32>
    scf.yield %q : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}
func.func @swap(%a: tensor<3xf32>, %b: tensor<3xf32>, %n: index) -> (tensor<3xf32>, tensor<3xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a, %y = %b) -> (tensor<3xf32>, tensor<3xf32>) {
    scf.yield %y, %x : tensor<3xf32>, tensor<3xf32>
  }
  return %r#0, %r#1 : tensor<3xf32>, tensor<3xf32>
}
func.func @nested(%n: index, %m: index) -> index {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c0) -> (index) {
    %s = scf.for %j = %i to %m step %c1 iter_args(%b = %a) -> (index) {
      %p = arith.muli %i, %j : index
      %q = arith.addi %b, %p : index
      scf.yield %q : index
    }
    scf.yield %s : index
  }
  return %r : index
}
func.func @halve_until(%a: tensor<4xf32>, %limit: f32) -> (tensor<4xf32>, i32) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %half = arith.constant dense<0.5> : tensor<4xf32>
  %r:2 = scf.while (%x = %a, %k = %z) : (tensor<4xf32>, i32) -> (tensor<4xf32>, i32) {
    %e = tensor.extract %x[%c0] : tensor<4xf32>
    %c = arith.cmpf ogt, %e, %limit : f32
    scf.condition(%c) %x, %k : tensor<4xf32>, i32
  } do {
  ^bb0(%x: tensor<4xf32>, %k: i32):
    %y = arith.mulf %x, %half : tensor<4xf32>
    %l = arith.addi %k, %one : i32
    scf.yield %y, %l : tensor<4xf32>, i32
  }
  return %r#0, %r#1 : tensor<4xf32>, i32
}
func.func @bad_step(%s: index) -> index {
  %c0 = arith.constant 0 : index
  %c9 = arith.constant 9 : index
  %r = scf.for %i = %c0 to %c9 step %s iter_args(%a = %c0) -> (index) {
    %b = arith.addi %a, %i : index
    scf.yield %b : index
  }
  return %r : index
}
"""


@settings(deadline=None, max_examples=25)
@given(n=st.integers(0, 9), m=st.integers(0, 9))
def test_loops(n: int, m: int) -> None:
    a, b = 0, 1
    for i in range(n):
        a, b = a + i, a + b
    assert tuple(int(v) for v in loaded(LOOPS).scalars(n)) == (a, b)
    x = numbers(m, seed=n)
    np.testing.assert_array_equal(loaded(LOOPS).power(x, n % 5), x ** (n % 5))
    y, z = numbers(3), numbers(3, seed=1)
    swapped = loaded(LOOPS).swap(y, z, n)
    np.testing.assert_array_equal(swapped, (z, y) if n % 2 else (y, z))
    assert int(loaded(LOOPS).nested(n, m)) == sum(i * j for i in range(n) for j in range(i, m))


def test_a_loop_until_an_element_is_small() -> None:
    a = np.array([100, 1, 2, 3], np.float32)
    r, k = loaded(LOOPS).halve_until(a, 3.0)
    assert int(k) == 6
    np.testing.assert_array_equal(r, a / 64)
    r, k = loaded(LOOPS).halve_until(a, 200.0)
    assert int(k) == 0
    np.testing.assert_array_equal(r, a)


def test_a_loop_needs_a_positive_step() -> None:
    assert int(loaded(LOOPS).bad_step(3)) == 9
    with pytest.raises(pd.Error, match="step of a loop must be positive"):
        loaded(LOOPS).bad_step(0)


BRANCHES = """
func.func private @absolute(%x: tensor<?xf32>, %c: i1) -> tensor<?xf32> {
  cf.cond_br %c, ^negate, ^keep
^negate:
  %n = arith.negf %x : tensor<?xf32>
  cf.br ^end(%n : tensor<?xf32>)
^keep:
  cf.br ^end(%x : tensor<?xf32>)
^end(%r: tensor<?xf32>):
  return %r : tensor<?xf32>
}
func.func @choose(%x: tensor<?xf32>, %c: i1) -> tensor<?xf32> {
  %r = func.call @absolute(%x, %c) : (tensor<?xf32>, i1) -> tensor<?xf32>
  %s = arith.addf %r, %r : tensor<?xf32>
  return %s : tensor<?xf32>
}
func.func @choose_twice(%x: tensor<?xf32>, %c: i1, %d: i1) -> tensor<?xf32> {
  %r = func.call @absolute(%x, %c) : (tensor<?xf32>, i1) -> tensor<?xf32>
  %s = func.call @absolute(%r, %d) : (tensor<?xf32>, i1) -> tensor<?xf32>
  return %s : tensor<?xf32>
}
func.func @sign(%x: tensor<?xf32>, %i: index) -> i32 {
  %zero = arith.constant 0.0 : f32
  %e = tensor.extract %x[%i] : tensor<?xf32>
  %p = arith.cmpf ogt, %e, %zero : f32
  %n = arith.cmpf olt, %e, %zero : f32
  %plus = arith.constant 1 : i32
  %minus = arith.constant -1 : i32
  %none = arith.constant 0 : i32
  %r = scf.if %p -> (i32) {
    scf.yield %plus : i32
  } else {
    %q = scf.if %n -> (i32) {
      scf.yield %minus : i32
    } else {
      scf.yield %none : i32
    }
    scf.yield %q : i32
  }
  return %r : i32
}
func.func @switch(%k: index, %x: tensor<2xf32>) -> tensor<2xf32> {
  %r = scf.index_switch %k -> tensor<2xf32>
  case 2 {
    %d = arith.addf %x, %x : tensor<2xf32>
    scf.yield %d : tensor<2xf32>
  }
  case 5 {
    %d = arith.mulf %x, %x : tensor<2xf32>
    scf.yield %d : tensor<2xf32>
  }
  default {
    scf.yield %x : tensor<2xf32>
  }
  return %r : tensor<2xf32>
}
func.func @cases(%k: i32) -> i32 {
  %a = arith.constant 10 : i32
  %b = arith.constant 20 : i32
  cf.switch %k : i32, [
    default: ^other(%a : i32),
    1: ^end(%b : i32),
    3: ^other(%b : i32)
  ]
^other(%v: i32):
  %w = arith.addi %v, %k : i32
  cf.br ^end(%w : i32)
^end(%r: i32):
  return %r : i32
}
func.func @claim(%n: index) -> index {
  %c3 = arith.constant 3 : index
  %ok = arith.cmpi sle, %n, %c3 : index
  cf.assert %ok, "at most three"
  return %n : index
}
"""


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize("choice", [False, True])
def test_choices_between_tensors(size: int, choice: bool) -> None:
    x = numbers(size)
    np.testing.assert_array_equal(loaded(BRANCHES).choose(x, choice), 2 * (-x if choice else x))
    np.testing.assert_array_equal(loaded(BRANCHES).choose_twice(x, choice, True), x if choice else -x)


def test_an_argument_that_comes_back_is_a_copy() -> None:
    x = numbers(5)
    r = loaded(BRANCHES).choose_twice(x, False, False)
    np.testing.assert_array_equal(r, x)
    np.asarray(r)[:] = 77
    assert not (x == 77).any()


def test_read_backs() -> None:
    x = np.array([3, 0, -2], np.float32)
    assert [int(loaded(BRANCHES).sign(x, i)) for i in range(3)] == [1, 0, -1]
    with pytest.raises(pd.Error, match=r"index|outside|bounds"):
        loaded(BRANCHES).sign(x, 3)


def test_switches_and_assertions() -> None:
    x = numbers(2)
    for k, expected in ((2, x + x), (5, x * x), (0, x), (7, x)):
        np.testing.assert_array_equal(loaded(BRANCHES).switch(k, x), expected)
    assert [int(loaded(BRANCHES).cases(k)) for k in (1, 3, 0, 9)] == [20, 23, 10, 19]
    assert int(loaded(BRANCHES).claim(3)) == 3
    with pytest.raises(pd.Error, match="at most three"):
        loaded(BRANCHES).claim(4)


MORE = """
func.func @until() -> i32 {
  %c0 = arith.constant 0 : index
  %start = util.unfoldable_constant dense<1> : tensor<i32>
  %bound = util.unfoldable_constant dense<30> : tensor<i32>
  %res = scf.while (%iter = %start) : (tensor<i32>) -> tensor<i32> {
    %cond = arith.cmpi slt, %iter, %bound : tensor<i32>
    %c = tensor.extract %cond[] : tensor<i1>
    scf.condition(%c) %iter : tensor<i32>
  } do {
  ^bb0(%x: tensor<i32>):
    %n = arith.addi %x, %x : tensor<i32>
    scf.yield %n : tensor<i32>
  }
  %r = tensor.extract %res[] : tensor<i32>
  return %r : i32
}
func.func @inserts(%n: index) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant dense<-1.0> : tensor<8xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%t = %z) -> tensor<8xf32> {
    %k = arith.index_cast %i : index to i32
    %v = arith.sitofp %k : i32 to f32
    %u = tensor.insert %v into %t[%i] : tensor<8xf32>
    scf.yield %u : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}
func.func @rows(%a: tensor<8x3xf32>, %x: tensor<2x3xf32>, %n: index) -> (tensor<8x3xf32>, tensor<8x3xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %r = scf.for %i = %c0 to %n step %c2 iter_args(%t = %a) -> tensor<8x3xf32> {
    %u = tensor.insert_slice %x into %t[%i, 0] [2, 3] [1, 1] : tensor<2x3xf32> into tensor<8x3xf32>
    scf.yield %u : tensor<8x3xf32>
  }
  return %r, %a : tensor<8x3xf32>, tensor<8x3xf32>
}
func.func @as_long_as(%s: tensor<1xindex>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %v = arith.constant 1.5 : f32
  %n = tensor.extract %s[%c0] : tensor<1xindex>
  %r = tensor.splat %v[%n] : tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @shaped(%a: tensor<?xf32>, %s: tensor<2xi32>) -> tensor<?x?xf32> {
  %r = tensor.reshape %a(%s) : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
func.func @region(%c: i1) -> i32 {
  %r = scf.execute_region -> i32 {
    %a = arith.constant 1 : i32
    %b = arith.constant 2 : i32
    cf.cond_br %c, ^x(%a : i32), ^x(%b : i32)
  ^x(%v: i32):
    scf.yield %v : i32
  }
  return %r : i32
}
func.func @never(%c: i1) -> i32 {
  %a = arith.constant 1 : i32
  cf.cond_br %c, ^good, ^bad
^good:
  return %a : i32
^bad:
  util.unreachable "nobody comes here"
}
util.func @view(%v: !hal.buffer_view) -> !hal.buffer_view {
  %n = hal.buffer_view.dim<%v : !hal.buffer_view>[0] : index
  %t = hal.tensor.import %v "x" : !hal.buffer_view -> tensor<?xf32>{%n}
  %u = arith.addf %t, %t : tensor<?xf32>
  %e = hal.tensor.export %u : tensor<?xf32>{%n} -> !hal.buffer_view
  util.return %e : !hal.buffer_view
}
util.func @tied(%x: tensor<4xf32>) -> %x {
  %r = arith.addf %x, %x : tensor<4xf32>
  util.return %r : tensor<4xf32>
}
"""


def test_loops_over_tensors() -> None:
    assert int(loaded(MORE).until()) == 32
    for n in range(9):
        expected = np.full(8, -1, np.float32)
        expected[:n] = np.arange(n)
        np.testing.assert_array_equal(loaded(MORE).inserts(n), expected)


@pytest.mark.parametrize("n", [0, 1, 4, 8])
def test_a_loop_writes_into_a_copy_of_its_argument(n: int) -> None:
    a, x = numbers(8, 3), numbers(2, 3, seed=1)
    before, expected = a.copy(), a.copy()
    for i in range(0, n, 2):
        expected[i : i + 2] = x
    filled, same = loaded(MORE).rows(a, x, n)
    np.testing.assert_array_equal(filled, expected)
    np.testing.assert_array_equal(same, before)
    np.testing.assert_array_equal(a, before)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_an_update_of_a_tensor_that_a_later_loop_starts_from(n: int) -> None:
    """The loop reads the tensor as it was before the update, which works on a copy."""
    f = loaded("""
func.func @f(%x: tensor<8xf32>, %part: tensor<4xf32>, %n: index) -> (tensor<8xf32>, tensor<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = arith.negf %x : tensor<8xf32>
  %updated = tensor.insert_slice %part into %a[2] [4] [1] : tensor<4xf32> into tensor<8xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%y = %a) -> (tensor<8xf32>) {
    %z = arith.addf %y, %y : tensor<8xf32>
    scf.yield %z : tensor<8xf32>
  }
  return %r, %updated : tensor<8xf32>, tensor<8xf32>
}
""").f
    x, part = numbers(8), numbers(4, seed=1)
    repeated, updated = f(x, part, n)
    np.testing.assert_array_equal(repeated, -x * 2**n)
    np.testing.assert_array_equal(updated, np.concatenate([-x[:2], part, -x[6:]]))


def test_sizes_that_are_read_back() -> None:
    for n in (0, 1, 13):
        np.testing.assert_array_equal(loaded(MORE).as_long_as(np.array([n])), np.full(n, 1.5))
    a = numbers(6)
    np.testing.assert_array_equal(loaded(MORE).shaped(a, np.array([2, 3], np.int32)), a.reshape(2, 3))
    with pytest.raises(pd.Error):
        loaded(MORE).shaped(a, np.array([4, 2], np.int32))


def test_regions_buffer_views_and_what_is_never_reached() -> None:
    assert [int(loaded(MORE).region(c)) for c in (True, False)] == [1, 2]
    assert int(loaded(MORE).never(True)) == 1
    with pytest.raises(pd.Error, match="nobody comes here"):
        loaded(MORE).never(False)
    x = numbers(4)
    np.testing.assert_array_equal(loaded(MORE).view(x), 2 * x)
    kept = x.copy()
    np.testing.assert_array_equal(loaded(MORE).tied(x), 2 * x)
    np.testing.assert_array_equal(x, kept)


GLOBALS = """
util.global private mutable @state = dense<1.0> : tensor<4xf32>
util.global private mutable @count = 5 : i32
util.global private @weights = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
util.global private @doubled : tensor<4xf32>
util.global private mutable @nothing : tensor<2xf32>
util.initializer {
  %w = util.global.load @weights : tensor<4xf32>
  %t = arith.addf %w, %w : tensor<4xf32>
  util.global.store %t, @doubled : tensor<4xf32>
  util.return
}
func.func @step(%x: tensor<4xf32>) -> (tensor<4xf32>, i32) {
  %one = arith.constant 1 : i32
  %s = util.global.load @state : tensor<4xf32>
  %n = util.global.load @count : i32
  %d = util.global.load @doubled : tensor<4xf32>
  %p = arith.mulf %x, %d : tensor<4xf32>
  %t = arith.addf %s, %p : tensor<4xf32>
  %m = arith.addi %n, %one : i32
  util.global.store %t, @state : tensor<4xf32>
  util.global.store %m, @count : i32
  %back = util.global.load @state : tensor<4xf32>
  return %back, %m : tensor<4xf32>, i32
}
func.func @peek() -> (tensor<4xf32>, i32) {
  %s = util.global.load @state : tensor<4xf32>
  %n = util.global.load @count : i32
  return %s, %n : tensor<4xf32>, i32
}
func.func @fail(%x: tensor<4xf32>) {
  %false = arith.constant false
  %b = util.optimization_barrier %false : i1
  util.global.store %x, @state : tensor<4xf32>
  %s = util.global.load @state : tensor<4xf32>
  %c0 = arith.constant 0 : index
  %e = tensor.extract %s[%c0] : tensor<4xf32>
  %z = arith.constant 1.0e9 : f32
  %ok = arith.cmpf ogt, %e, %z : f32
  cf.assert %ok, "never"
  return
}
func.func @unset() -> tensor<2xf32> {
  %s = util.global.load @nothing : tensor<2xf32>
  return %s : tensor<2xf32>
}
"""


def test_globals_keep_what_calls_store() -> None:
    program = load(GLOBALS)
    weights = 2 * np.arange(1, 5, dtype=np.float32)
    state = np.ones(4, np.float32)
    for round in range(3):
        x = numbers(4, seed=round)
        state = state + x * weights
        r, n = program.step(x)
        np.testing.assert_array_equal(r, state)
        assert int(n) == 6 + round
        np.testing.assert_array_equal(program.peek()[0], state)
    other = load(GLOBALS)
    np.testing.assert_array_equal(other.peek()[0], np.ones(4))
    assert int(other.peek()[1]) == 5


def test_a_call_that_fails_leaves_globals_alone() -> None:
    program = load(GLOBALS)
    with pytest.raises(pd.Error, match="never"):
        program.fail(numbers(4))
    np.testing.assert_array_equal(program.peek()[0], np.ones(4))


def test_a_global_that_nobody_set_is_an_error() -> None:
    with pytest.raises(pd.Error, match="nothing"):
        load(GLOBALS).unset()


CHECKS = """
func.func @good() {
  %a = util.unfoldable_constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = arith.addf %a, %a : tensor<2xf32>
  check.expect_almost_eq_const(%b, dense<[2.0, 4.0]> : tensor<2xf32>) : tensor<2xf32>
  check.expect_eq_const(%b, dense<[2.0, 4.0]> : tensor<2xf32>) : tensor<2xf32>
  check.expect_eq(%b, %b) : tensor<2xf32>
  %c = arith.cmpf ogt, %b, %a : tensor<2xf32>
  check.expect_all_true(%c) : tensor<2xi1>
  %t = util.unfoldable_constant true
  check.expect_true(%t) : i1
  return
}
func.func @bad() {
  %a = util.unfoldable_constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = arith.addf %a, %a : tensor<2xf32>
  check.expect_eq_const(%b, dense<[2.0, 5.0]> : tensor<2xf32>) : tensor<2xf32>
  return
}
func.func @false() {
  %t = util.unfoldable_constant true
  check.expect_false(%t) : i1
  return
}
"""


def test_checks() -> None:
    program = load(CHECKS)
    program.good()
    with pytest.raises(pd.CheckError, match=r"expect_eq"):
        program.bad()
    with pytest.raises(pd.CheckError, match=r"expect_false"):
        program.false()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func @f() -> i32 {\n%r = util.global.load @none : i32\nreturn %r : i32\n}",
         "there is no global '@none'"),
        ("util.global private @g = 1 : i32\nfunc.func @f(%a: i32) {\nutil.global.store %a, @g : i32\nreturn\n}",
         "global '@g' is not mutable"),
        ("util.global private mutable @g = 1 : i32\nfunc.func @f() -> i64 {\n%r = util.global.load @g : i64\n"
         "return %r : i64\n}", "global '@g' is i32, here it is i64"),
        ("func.func @f(%n: index) {\n%c = arith.constant 0 : index\nscf.parallel (%i) = (%c) to (%n) step (%n) {\n"
         "scf.reduce\n}\nreturn\n}", "'scf.parallel' is not supported in host code"),
        ("func.func private @g(%a: i32) -> i32 {\n%r = func.call @g(%a) : (i32) -> i32\nreturn %r : i32\n}\n"
         "func.func @f(%a: i32) -> i32 {\n%r = func.call @g(%a) : (i32) -> i32\nreturn %r : i32\n}", "calls itself"),
    ],
)  # fmt: skip
def test_refused_programs_name_the_place(text: str, message: str) -> None:
    with pytest.raises(pd.CompileError) as caught:
        pd.compile(text)
    assert message in str(caught.value) and caught.value.location is not None


def test_blocks_that_nothing_reaches() -> None:
    f = load("""
func.func @f(%n: i64) -> i64 {
  cf.br ^end
^never:
  %twice = arith.addi %n, %n : i64
  cf.br ^more(%twice : i64)
^more(%m: i64):
  %sum = arith.addi %m, %twice : i64
  cf.br ^never
^end:
  scf.execute_region {
    scf.yield
  ^never_either:
    scf.yield
  }
  return %n : i64
}
""").f
    assert f(7) == 7
