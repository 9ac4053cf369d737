"""Collective operations in groups of one participant, and the refusal of other groups."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.errors import CompileError

SUM = """({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %sum = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %sum : tensor<f32>
  }) """
ALONE = "replica_groups = dense<0> : tensor<1x1xi64>"
PADDED = "replica_groups = dense<[[0, -1]]> : tensor<1x2xi64>"
ALL = "replica_groups = dense<> : tensor<0x0xi64>"
NOBODY = "replica_groups = dense<-1> : tensor<1x1xi64>"
PAIRS = "source_target_pairs = dense<{}> : tensor<{}x2xi64>"
SPLIT = "split_dimension = 0 : i64, concat_dimension = 1 : i64"


def collective(name: str, attributes: str, region: str = "", result: str = "tensor<2x3xf32>") -> str:
    return f'"stablehlo.{name}"(%x) {region}{{{attributes}}} : (tensor<2x3xf32>) -> {result}'


KEPT = [
    collective("all_reduce", ALONE, SUM),
    collective("all_reduce", ALL, SUM),
    collective("all_reduce", ALONE + ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>", SUM),
    collective("reduce_scatter", f"{PADDED}, scatter_dimension = 0 : i64", SUM),
    collective("all_gather", f"{PADDED}, all_gather_dim = 1 : i64"),
    collective("all_to_all", f"{ALONE}, {SPLIT}, split_count = 1 : i64"),
    collective("collective_broadcast", ALONE),
    collective("collective_reduce", ALONE, SUM),
    collective("collective_permute", PAIRS.format("0", 1)),
]
ZEROED = [
    collective("collective_broadcast", NOBODY),
    collective("collective_reduce", NOBODY, SUM),
    collective("collective_permute", PAIRS.format("", 0)),
]


def program(lines: list[str], result: str = "tensor<2x3xf32>") -> str:
    operations = "\n  ".join(f"%{index} = {line}" for index, line in enumerate(lines))
    names = ", ".join(f"%{index}" for index in range(len(lines)))
    types = ", ".join([result] * len(lines))
    return f"func.func @main(%x: tensor<2x3xf32>) -> ({types}) {{\n  {operations}\n  return {names} : {types}\n}}"


def test_one_participant_receives_what_it_sends() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
    results = pd.device("cpu").load(pd.compile(program(KEPT + ZEROED))).main(x)
    for line, result in zip(KEPT + ZEROED, results, strict=True):
        np.testing.assert_array_equal(np.asarray(result), x if line in KEPT else np.zeros_like(x), line)


def test_a_root_that_an_operand_selects() -> None:
    text = f"""func.func @main(%x: tensor<2xf32>, %root: tensor<1xi32>) -> tensor<2xf32> {{
  %0 = "stablehlo.collective_broadcast"(%x, %root) {{{ALONE}, has_dynamic_root}}
      : (tensor<2xf32>, tensor<1xi32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}}"""
    x = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(
        np.asarray(pd.device("cpu").load(pd.compile(text)).main(x, np.array([0], np.int32))), x
    )


def test_several_operands_keep_their_order() -> None:
    text = f"""func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) -> (tensor<2xf32>, tensor<3xf32>) {{
  %0:2 = "stablehlo.all_reduce"(%x, %y) {SUM}{{{ALONE}}} : (tensor<2xf32>, tensor<3xf32>)
      -> (tensor<2xf32>, tensor<3xf32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<3xf32>
}}"""
    x, y = np.array([1, 2], np.float32), np.array([3, 4, 5], np.float32)
    for found, expected in zip(pd.device("cpu").load(pd.compile(text)).main(x, y), (x, y), strict=True):
        np.testing.assert_array_equal(np.asarray(found), expected)


OTHERS = "replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>"
REFUSED = [
    (collective("all_reduce", OTHERS, SUM), "participant 1, 2, 3 in its replica_groups.*one device"),
    (collective("collective_permute", PAIRS.format("[[0, 1]]", 1)),
     "participant 1 in its source_target_pairs.*one device"),
    (collective("collective_permute", PAIRS.format("[[0, -1]]", 1)), "participant -1 in its source_target_pairs"),
    (collective("all_gather", "all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<2x1xi64>"),
     "participant 0 in its replica_groups 2 times"),
    (collective("all_gather", f"{NOBODY}, all_gather_dim = 0 : i64"), "without participant 0"),
    (collective("all_to_all", f"{ALONE}, {SPLIT}, split_count = 2 : i64"), "splits into 2 parts, expected 1"),
    (collective("all_gather", f"{ALONE}, all_gather_dim = 0 : i64", result="tensor<4x3xf32>"),
     r"returns the shape of its operand f32\[2, 3\], but its result is tensor<4x3xf32>"),
    (collective("all_reduce", "replica_groups = [0]", SUM), "replica_groups must be a list of numbers, got array"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_groups_that_one_device_cannot_serve(line: str, message: str) -> None:
    result = line.rpartition("-> ")[2]
    with pytest.raises(CompileError) as error:
        pd.compile(program([line], result))
    assert re.search(message, str(error.value), re.DOTALL), error.value
    assert error.value.location is not None and error.value.location.line == 2
