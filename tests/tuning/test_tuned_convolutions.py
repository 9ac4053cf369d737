"""Convolutions as products of columns or as they are: the faster of the two is taken, with a clock that is made up."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from test_tuned_programs import FakeBench, choices_of, tuned

import pydispatch as pd
from pydispatch import ir
from pydispatch.graph.builder import Builder, Input
from pydispatch.graph.dtypes import F32
from pydispatch.ir.core.walk import values_from_outside
from pydispatch.operations.convolutions import Window, convolution
from pydispatch.tuning.parts import program_of

sys.path.insert(0, str(Path(__file__).parents[1] / "compiler"))
from test_im2col import expected, program

COLUMNS, DIRECT = "a product of columns", "the convolution itself"


@pytest.fixture(autouse=True)
def own_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYDISPATCH_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize(("results", "default"), [(64, COLUMNS), (8, DIRECT)])
@pytest.mark.parametrize(("fast", "dispatches"), [(COLUMNS, 2), (DIRECT, 1)])
def test_the_faster_way_is_taken(results: int, default: str, fast: str, dispatches: int) -> None:
    source = program(1, 16, 7, 7, results, 3, 1, 1)
    artifact, _ = tuned(source, FakeBench(lambda config: 1.0 if config == fast else 2.0))
    choice = choices_of(artifact)[0]
    assert (choice.chosen, choice.default) == (fast, default)
    rng = np.random.default_rng(3)
    x, f, bias = (rng.standard_normal(s).astype(np.float32) for s in ((1, 16, 7, 7), (results, 16, 3, 3), (results,)))
    function = pd.device("cpu").load(artifact).conv
    assert len(function.plan_of(x, f, bias)) == dispatches
    np.testing.assert_allclose(function(x, f, bias), expected(x, f, bias, 1, 1), rtol=1e-4, atol=1e-3)
    again, _ = tuned(source, FakeBench(), seconds=0)
    assert again.to_bytes() == artifact.to_bytes()


def test_filters_of_a_model() -> None:
    """Filters that are arrays of a framework are part of the program of a trial."""
    rng = np.random.default_rng(4)
    x, f = (rng.standard_normal(s).astype(np.float32) for s in ((1, 16, 7, 7), (64, 16, 3, 3)))
    b = Builder("m.onnx", "embed")
    (image,) = b.begin([Input("x", F32, x.shape)])
    window = Window((1, 1), (1, 1), (1, 1), (1, 1))
    b.finish("conv", {"y": convolution(b, image, b.weight("filters", f, F32), window)})
    artifact, _ = tuned(b.module, FakeBench(lambda config: 1.0 if config == DIRECT else 2.0))
    assert choices_of(artifact)[0].chosen == DIRECT
    y = pd.device("cpu").load(artifact).conv(x)
    np.testing.assert_allclose(np.maximum(y, 0), expected(x, f, np.zeros(64), 1, 1), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("value", "argument_count"), [("arith.constant 0.0 : f32", 1), ("tensor.extract %s[] : tensor<f32>", 2)]
)
def test_a_value_that_a_region_reads_is_part_of_the_trial(value: str, argument_count: int) -> None:
    """A constant is copied, any other value is an argument: the program refers to no value of the original one."""
    module = ir.parse(f"""
func.func @f(%x: tensor<4xf32>, %s: tensor<f32>) -> tensor<6xf32> {{
  %v = {value}
  %p = tensor.pad %x low[1] high[1] {{
    ^bb0(%i: index):
      tensor.yield %v : f32
  }} : tensor<4xf32> to tensor<6xf32>
  return %p : tensor<6xf32>
}}""")
    (pad,) = (op for op in module.walk() if op.name == "tensor.pad")
    trial = program_of({pad}, pad.results)
    assert trial is not None
    (function,) = trial.body.block.ops
    assert values_from_outside(function) == [] and len(function.regions[0].block.args) == argument_count
    assert pd.compile(ir.print_module(trial), cpu="native")
