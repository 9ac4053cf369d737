"""Random ONNX graphs and StableHLO programs of fixed seeds against NumPy; `make reliability` runs thousands, and
functions of PyTorch and JAX."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "reliability" / "generated"))

import graph_programs as programs
import onnx_graphs
import stablehlo_programs
from numpy_programs import NumpyPrograms
from reproducer import literal, reproducer

ROOT = Path(__file__).resolve().parents[3]
KIND = onnx_graphs.OnnxGraphs()


@pytest.mark.parametrize("seed", range(8))
def test_a_random_graph(seed: int) -> None:
    program = KIND.generate(random.Random(seed))
    finding = programs.check(KIND, program)
    assert finding in (None, programs.REFUSED, programs.UNSTABLE), f"{finding}\n{program}"


@pytest.mark.parametrize("seed", range(6))
def test_a_random_stablehlo_program(seed: int) -> None:
    kind = stablehlo_programs.StableHloPrograms()
    program = kind.generate(random.Random(seed))
    finding = programs.check(kind, program)
    assert finding is None, f"{finding}\n{kind.text(program)}"


def test_a_failing_stablehlo_program_becomes_smaller() -> None:
    class Wrong(stablehlo_programs.StableHloPrograms):
        def text(self, program: programs.Program) -> str:
            return super().text(program).replace("stablehlo.floor", "stablehlo.ceil")

    x = np.arange(6, dtype=np.float32).reshape(2, 3) / 4
    ops = ("abs", "floor", "tanh")
    nodes = tuple(programs.Node(op, (f"v{n}",), (f"v{n + 1}",)) for n, op in enumerate(ops))
    program = programs.Program(nodes, ({"v0": x},), open_axes={"v0": (0,)})
    finding = programs.check(Wrong(), program)
    assert finding is not None and finding.kind == "wrong"
    smallest, _ = programs.reduced(Wrong(), program, finding)
    assert [node.op for node in smallest.nodes] == ["floor"]


@pytest.mark.parametrize("axis", [0, 1, 3])
def test_no_element_is_gathered(axis: int) -> None:
    x, none = np.ones((1, 1, 2, 2), np.float32), np.zeros(0, np.int64)
    node = programs.Node("Gather", ("x", "none"), ("y",), {"axis": axis})
    assert programs.check(KIND, programs.Program((node,), ({"x": x},), {"none": none})) is None


def test_no_element_of_a_constant_is_left() -> None:
    """The constant is read at an index that it does not have, by a loop without iterations."""
    x, c = np.ones((1, 2, 6), np.float32), np.array([[[0.5]], [[0.25]]], np.float32)
    slices = {"starts": [2, 3], "ends": [9, 8], "axes": [0, 2], "steps": [1, 1]}
    constants = {"c": c, **{name: np.array(numbers, np.int64) for name, numbers in slices.items()}}
    nodes = (programs.Node("Max", ("x", "c"), ("m",)), programs.Node("Slice", ("m", *slices), ("y",)))
    assert programs.check(KIND, programs.Program(nodes, ({"x": x},), constants)) is None


def test_results_that_are_rounding_errors_are_unstable() -> None:
    """The deviation from the mean of equal numbers is 0 in one order of sums, and a rounding error in another."""

    class Shifted(onnx_graphs.OnnxGraphs):
        def reference(
            self, program: programs.Program, number: int, exact: bool, is_nudged: bool = False
        ) -> dict[str, programs.Array]:
            values = super().reference(program, number, exact, is_nudged)
            return {name: a if is_nudged else a + 1e-6 for name, a in values.items()}

    x = np.full((2, 3), 0.7, np.float32)
    nodes = (programs.Node("Sigmoid", ("v0",), ("v1",)), programs.Node("Sigmoid", ("v0",), ("v2",)),
             programs.Node("Sub", ("v1", "v2"), ("v3",)))  # fmt: skip
    program = programs.Program(nodes, ({"v0": x},), open_axes={"v0": (0,)})
    assert programs.check(Shifted(), program) is programs.UNSTABLE


def test_a_failing_graph_becomes_smaller() -> None:
    """A reference that is wrong about one operator stands for a defect."""

    class Wrong(onnx_graphs.OnnxGraphs):
        def reference(
            self, program: programs.Program, number: int, exact: bool, is_nudged: bool = False
        ) -> dict[str, programs.Array]:
            values = super().reference(program, number, exact, is_nudged)
            negated = {name for node in program.nodes if node.op == "Neg" for name in node.outputs}
            return {name: a + 1 if name in negated else a for name, a in values.items()}

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    ops = ("Relu", "Abs", "Neg", "Tanh")
    nodes = [programs.Node(op, (f"v{n}",), (f"v{n + 1}",)) for n, op in enumerate(ops)]
    other = programs.Node("Neg", ("v1",), ("w",))
    program = programs.Program((*nodes, other), ({"v0": x},), open_axes={"v0": (0,)})
    finding = programs.check(Wrong(), program)
    assert finding is not None and finding.kind == "wrong"
    smallest, again = programs.reduced(Wrong(), program, finding)
    assert [node.op for node in smallest.nodes] == ["Neg"]
    assert again.kind == "wrong" and smallest.sets[0]["v0"].size == 1 and not any(smallest.open_axes.values())


@pytest.mark.parametrize("kind", [KIND, stablehlo_programs.StableHloPrograms(), NumpyPrograms()])
def test_a_program_is_printed_as_an_expression(kind: programs.Kind) -> None:
    names = {"array": np.array, "inf": np.inf, "nan": np.nan, "Node": programs.Node, "Program": programs.Program}
    for seed in range(20):
        program = kind.generate(random.Random(seed))
        again = eval(literal(program), names)
        np.testing.assert_equal(vars(again) | {"nodes": ()}, vars(program) | {"nodes": ()})
        for node, other in zip(again.nodes, program.nodes, strict=True):
            np.testing.assert_equal(vars(node), vars(other))
        for values, others in zip(again.sets, program.sets, strict=True):
            assert [a.dtype for a in values.values()] == [a.dtype for a in others.values()]


def test_the_reproducer_of_a_finding_runs() -> None:
    x = np.array([[1.5, np.nan], [-np.inf, 0.25]], np.float32)
    text = {"Relu": "right", "Nonesuch": "KeyError: 'Nonesuch'"}
    for op, printed in text.items():
        program = programs.Program((programs.Node(op, ("v0",), ("v1",)),), ({"v0": x},), open_axes={"v0": (0,)})
        command = reproducer(KIND, program).replace("python -", f"{sys.executable} -")
        done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
        assert (done.stdout + done.stderr).splitlines()[-1] == printed
