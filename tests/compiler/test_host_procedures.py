"""Which functions become procedures, where they are cut, and what their steps share."""

from __future__ import annotations

import re

from pydispatch.compiler.driver.pipeline import compile, compile_to
from pydispatch.compiler.host.operations import host_operations


def text(source: str) -> str:
    return compile_to("program", source, targets="x86_64")


def steps(source: str, name: str = "f") -> list[str]:
    lines = text(source).split(f"procedure public @{name} ")[1].splitlines()[1:]
    end = next((i for i, line in enumerate(lines) if line.startswith(("procedure", "initializer"))), len(lines))
    found = [re.sub(r"^ *\d+:", "", line).strip() for line in lines[:end]]
    return [line for line in found if line and not line.startswith("argument") and not re.match(r"s\d+:", line)]


def test_choices_between_scalars_need_no_branch() -> None:
    found = text("""
func.func @f(%a: i32, %b: i32) -> i32 {
  %p = arith.cmpi slt, %a, %b : i32
  %r = scf.if %p -> i32 {
    %t = arith.addi %a, %a : i32
    scf.yield %t : i32
  } else {
    scf.yield %b : i32
  }
  return %r : i32
}""")
    assert "function public @f" in found and "select" in found and "procedure" not in found


def test_a_choice_that_may_refuse_the_call_is_a_branch() -> None:
    found = steps("""
func.func @f(%p: i1, %a: i32, %b: i32) -> i32 {
  %r = scf.if %p -> i32 {
    %t = arith.divsi %a, %b : i32
    scf.yield %t : i32
  } else {
    scf.yield %b : i32
  }
  return %r : i32
}""")
    assert any(step.startswith("branch") for step in found)


def test_globals_that_nobody_stores_to_are_constants() -> None:
    found = text("""
util.global private @g = dense<[1.0, 2.0]> : tensor<2xf32>
util.global private mutable @h = 7 : i32
func.func @f() -> (tensor<2xf32>, i32) {
  %a = util.global.load @g : tensor<2xf32>
  %b = util.global.load @h : i32
  return %a, %b : tensor<2xf32>, i32
}""")
    assert "function public @f" in found and "procedure" not in found and "global" not in found


def test_independent_read_backs_cut_a_block_once() -> None:
    found = steps("""
func.func @f(%a: tensor<4xf32>) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = math.exp %a : tensor<4xf32>
  %x = tensor.extract %b[%c0] : tensor<4xf32>
  %d = math.sqrt %a : tensor<4xf32>
  %y = tensor.extract %d[%c1] : tensor<4xf32>
  %r = arith.addf %x, %y : f32
  return %r : f32
}""")
    kinds = [re.findall(r"run|read|return|= \d+$", step)[0] for step in found]
    assert [k for k in kinds if not k.startswith("=")] == ["run", "read", "read", "run", "return"]


def test_a_load_behind_a_store_sees_it_and_others_come_first() -> None:
    found = steps("""
util.global private mutable @g = dense<1.0> : tensor<2xf32>
util.global private mutable @h = dense<2.0> : tensor<2xf32>
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = arith.addf %x, %x : tensor<2xf32>
  util.global.store %a, @g : tensor<2xf32>
  %b = util.global.load @g : tensor<2xf32>
  %c = util.global.load @h : tensor<2xf32>
  %d = arith.mulf %b, %c : tensor<2xf32>
  util.global.store %d, @h : tensor<2xf32>
  return %d : tensor<2xf32>
}""")
    assert found == [
        "s1 = global 0", "s2 = run @f.0(s0 (last))", "global 1 = s2 (last)", "s3 = global 1",
        "s4 = run @f.1(s3 (last), s1 (last))", "global 0 = s4", "return s4 (last)",
    ]  # fmt: skip


def test_a_loop_hands_its_memory_on() -> None:
    found = text("""
func.func @f(%a: tensor<8xf32>, %x: tensor<2xf32>, %n: index) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %r = scf.for %i = %c0 to %n step %c2 iter_args(%t = %a) -> tensor<8xf32> {
    %u = tensor.insert_slice %x into %t[%i] [2] [1] : tensor<2xf32> into tensor<8xf32>
    scf.yield %u : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}""")
    assert re.search(r"result 0: \[r\d+\]xf32 in buffer \d+, .*argument", found), found


def test_compiling_twice_gives_the_same_bytes() -> None:
    source = """
util.global private mutable @g = dense<1.0> : tensor<2xf32>
func.func @f(%a: tensor<2xf32>, %b: tensor<2xf32>, %c: i1) -> tensor<2xf32> {
  %s = util.global.load @g : tensor<2xf32>
  %r = scf.if %c -> tensor<2xf32> {
    %t = arith.addf %a, %s : tensor<2xf32>
    scf.yield %t : tensor<2xf32>
  } else {
    %t = arith.mulf %b, %s : tensor<2xf32>
    scf.yield %t : tensor<2xf32>
  }
  util.global.store %r, @g : tensor<2xf32>
  return %r : tensor<2xf32>
}"""
    assert compile(source).to_bytes() == compile(source).to_bytes()


def test_the_list_of_operations_is_that_of_the_code() -> None:
    names = host_operations()
    assert names == sorted(set(names))
    for name in ("arith.addi", "math.erf", "scf.while", "check.expect_eq", "tensor.extract_slice", "util.global.load"):
        assert name in names
    assert "scf.parallel" not in names
