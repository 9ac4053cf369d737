"""Nodes that a kernel of the user's computes: of an own domain, and in the place of a known operator."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wire

import pydispatch as pd
from pydispatch.cli.__main__ import main

SOURCE = """#include <stddef.h>
void triple(const float *rows, float k, float *tripled, size_t rows_size0) {
  for (size_t i = 0; i < rows_size0 * 4; i++) tripled[i] = k * rows[i];
}
void rectified(const float *x, float *y, size_t total) {
  for (size_t i = 0; i < total; i++) y[i] = x[i] > 0 ? 100 * x[i] : 0;
}
void skip(const float *x, const float *more, const float *scale, float *y, float *sum, size_t total) {
  for (size_t i = 0; i < total; i++) sum[i] = x[i] + more[i], y[i] = sum[i] * scale[0];
}
void skip_with_mean(const float *x, const float *more, const float *scale, float *y, float *mean, float *sum,
                    size_t total) {
  skip(x, more, scale, y, sum, total);
  mean[0] = 1, mean[1] = 2;
}
"""
TRIPLE = pd.CFunction(SOURCE, "triple")
RECTIFIED = pd.CFunction(SOURCE, "rectified", "in0", "out", "count")
X = np.array([[-1, 2, -3, 4], [5, -6, 7, -8]], np.float32)
ROWS = pd.View[pd.f32, "n", 4]
EXPECTED = 3 * np.maximum(X, 0) + 1


def model() -> bytes:
    """rows = Relu(x), tripled = own.Triple(rows), z = tripled + 1; the type of tripled is not stated."""
    three = wire.message((1, "k"), (2, 3.0), (20, 1))
    nodes = [
        wire.node("Relu", ["x"], ["rows"], name="act"),
        wire.node("Triple", ["rows"], ["tripled"], three, name="own", domain="own"),
        wire.node("Add", ["tripled", "one"], ["z"]),
    ]
    one = wire.tensor("one", [1], 1, (9, np.ones(1, np.float32).tobytes()))
    opset = (8, wire.message((1, "own"), (2, 1)))
    return wire.model(nodes, [wire.value("x", "n", 4)], [wire.value("z", "n", 4)], [one], 17, opset)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "own.onnx").write_bytes(model())
    return tmp_path / "own.onnx"


def run(path: Path, kernels: dict[str, Any]) -> Any:
    return pd.device("cpu").load(pd.compile(path, kernels=kernels)).main(X)


RESULTS = [
    ["in0"], ["rows"], ["f32[n, 4]"], ["float32[in0_size0,4]"], [pd.f32["n", 4]], [(np.float32, ("n", 4))],
    [(np.dtype("f4"), ("rows_size0", 4))], [("float32", ("n", np.int64(4)))], [(pd.f32, ("n", 4))],
    lambda x: [x], lambda x: [pd.f32[x.shape[0], 4]], lambda x: [(x.dtype, x.shape)], lambda x: ["in0"],
]  # fmt: skip


def test_every_spelling_of_a_type(path: Path) -> None:
    """Equal types give equal programs, so one of them is run."""
    made = [pd.compile(path, kernels={"own::Triple": pd.CustomOperation(TRIPLE, given)}) for given in RESULTS]
    assert len({artifact.to_bytes() for artifact in made}) == 1
    np.testing.assert_array_equal(pd.device("cpu").load(made[0]).main(X), EXPECTED)


@pytest.mark.parametrize(("results", "message"), [
    (["nope"], r"'nope' is no operand \(rows, in0\), and no type such as f32\[n, 3\]"),
    (["what[n, 4]"], "'what' is no element type; there are bool, i2, .* and dtypes of NumPy"),
    ([(np.void, (2, 4))], "is no element type; there are bool"),
    ([(None, (2, 4))], "None is no element type; there are bool"),
    (["f32[m, 4]"], "the size 'm' is that of no operand; there are n, "),
    ([(np.float32, ("n", -1))], "a size is a number from 0 or a name, got -1"),
    ([pd.f32], "is no type of a tensor"),
    ([(np.float32, 4)], "is no type of a tensor"),
    (lambda x: x, r"expected a list with a type for each result, got the operand f32\[n, 4\]"),
    (lambda x: [x.nothing], "AttributeError: .*nothing"),
    (["in0", "in0"], "'own::Triple' has 1 results here, the user states 2"),
])  # fmt: skip
def test_types_that_are_wrong(path: Path, results: Any, message: str) -> None:
    with pytest.raises(pd.CompileError, match=message) as error:
        pd.compile(path, kernels={"own::Triple": pd.CustomOperation(TRIPLE, results)})
    assert "own.onnx: own: error" in str(error.value)


def test_results_that_are_no_list() -> None:
    with pytest.raises(pd.InvalidArgumentError, match=r"a list of types such as .*, got 'in0'"):
        pd.CustomOperation(TRIPLE, "in0")
    with pytest.raises(pd.InvalidArgumentError, match="a size is a number, a name or None"):
        pd.f32[1.5]


@pytest.mark.parametrize("arguments", [
    (), ("rows", "k", "tripled", "rows_size0"), ("in0", "k", "out", "n"), ("rows", "k", "out", "in0_size0"),
])  # fmt: skip
def test_arguments_by_the_names_of_the_graph(path: Path, arguments: tuple[str, ...]) -> None:
    kernel = pd.CFunction(SOURCE, "triple", *arguments)
    np.testing.assert_array_equal(run(path, {"own::Triple": pd.CustomOperation(kernel, ["in0"])}), EXPECTED)


def test_arguments_that_are_no_names(path: Path) -> None:
    kernel = pd.CFunction(SOURCE, "triple", "x", "k", "out", "n")
    with pytest.raises(pd.CompileError, match="asks for 'x'") as error:
        run(path, {"own::Triple": pd.CustomOperation(kernel, ["in0"])})
    assert "there are in0, out, k, n" in str(error.value) and "rows, rows_size0" in str(error.value)


def test_a_kernel_in_python_by_the_names_of_the_graph(path: Path) -> None:
    @pd.kernel(workgroup=(64,))
    def thrice(rows: ROWS, tripled: ROWS) -> None:
        i = pd.global_id(0)
        if i < rows.shape[0]:
            for j in range(4):
                tripled[i, j] = rows[i, j] * 3.0

    np.testing.assert_array_equal(run(path, {"own::Triple": pd.CustomOperation(thrice, ["in0"])}), EXPECTED)


@pytest.mark.parametrize("name", ["Relu", "::Relu", "ai.onnx::Relu"])
def test_a_kernel_for_a_known_operator(path: Path, name: str) -> None:
    """Its type is that of the operator, which nobody states."""
    own = pd.CustomOperation(TRIPLE, ["in0"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = run(path, {name: RECTIFIED, "own::Triple": own})
    np.testing.assert_array_equal(found, 300 * np.maximum(X, 0) + 1)


def test_kernels_that_no_operator_has(path: Path) -> None:
    own = pd.CustomOperation(TRIPLE, ["in0"])
    with pytest.warns(pd.CompileWarning, match="the kernel 'relu' matched nothing: .*; near are Relu of layer 'act'"):
        run(path, {"relu": RECTIFIED, "own::Triple": own})
    with pytest.warns(pd.CompileWarning, match="the kernel 'Conv' matched nothing: .*; it has Add, Relu, own::Triple"):
        run(path, {"Conv": RECTIFIED, "own::Triple": own})
    with pytest.raises(pd.CompileError, match="A kernel is given for 'Triple', which is another name"):
        run(path, {"Triple": TRIPLE})


def skipping(folder: Path, outputs: dict[str, tuple[int, ...]], types: list[str] | None = None) -> Any:
    """Results of SkipSimplifiedLayerNormalization(x, x, g) by a kernel; `outputs` are the model's, with their shapes.

    The conversion of the operator has y and sum, but no mean. The mean is computed if there is an output mean or z.
    """
    has_mean = bool({"mean", "z"} & set(outputs))
    names = ["y", "mean" if has_mean else "", "", "sum"]
    nodes = [wire.node("SkipSimplifiedLayerNormalization", ["x", "x", "g"], names, name="norm", domain="com.microsoft")]
    nodes += [wire.node("Relu", ["mean"], ["z"])] if "z" in outputs else []
    declared = [wire.value(name, *shape) for name, shape in outputs.items()]
    opset = (8, wire.message((1, "com.microsoft"), (2, 1)))
    data = wire.model(nodes, [wire.value("x", 2, 4), wire.value("g", 4)], declared, [], 17, opset)
    (folder / "skip.onnx").write_bytes(data)
    numbered = ["in0", "in1", "in2", *(["out0", "out1", "out2"] if has_mean else ["out0", "out1"]), "count"]
    kernel = pd.CFunction(SOURCE, "skip_with_mean" if has_mean else "skip", *numbered)
    own: Any = kernel if types is None else pd.CustomOperation(kernel, types)
    made = pd.compile(folder / "skip.onnx", kernels={"com.microsoft::SkipSimplifiedLayerNormalization": own})
    return pd.device("cpu").load(made).main(X, np.full(4, 3, np.float32))


SUMS = {"y": (2, 4), "sum": (2, 4)}


def test_results_that_the_node_leaves_out(tmp_path: Path) -> None:
    """The kernel has the others. The type of the mean is stated by the graph or by the user."""
    for types in (None, ["in0", "in0"]):
        y, total = skipping(tmp_path, SUMS, types)
        np.testing.assert_array_equal(total, 2 * X)
        np.testing.assert_array_equal(y, 6 * X)
    for output, types in (("mean", None), ("z", ["in0", "f32[2, 1]", "in0"])):
        y, total, mean = skipping(tmp_path, SUMS | {output: (2, 1)}, types)
        np.testing.assert_array_equal(total, 2 * X)
        np.testing.assert_array_equal(y, 6 * X)
        np.testing.assert_array_equal(mean, [[1], [2]])


def test_results_whose_types_nothing_states(tmp_path: Path) -> None:
    with pytest.raises(pd.CompileError, match="norm: error: the model does not state the type of 'mean', a result of"):
        skipping(tmp_path, SUMS | {"z": (2, 1)})
    with pytest.raises(
        pd.CompileError, match=r"norm: error: 'com.microsoft::\w+' has 2 results here, the user states 4"
    ):
        skipping(tmp_path, SUMS, ["in0"] * 4)


def test_types_on_the_command_line(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = path.with_name("triple.c")
    source.write_text(SOURCE)
    kernel = f"--kernel=own::Triple={source}:triple:rows,k,tripled,n"
    assert main(["compile", str(path), kernel]) == 1
    assert "--results own::Triple=in0" in capsys.readouterr().err
    assert main(["run", str(path), kernel, "--results=own::Triple=f32[n, 4]", "--input=1x4xf32=1 2 3 4"]) == 0
    assert "1x4xf32=[4 7 10 13]" in capsys.readouterr().out
    for wrong, message in (
        ("own::Triple", "expected NAME=TYPE"), ("own::Triple=", "expected NAME=TYPE"),
        ("own::Other=in0", "there is no --kernel=own::Other="),
    ):  # fmt: skip
        assert main(["compile", str(path), kernel, f"--results={wrong}"]) == 1
        assert message in capsys.readouterr().err
    twice = ["--results=own::Triple=in0"] * 2
    assert main(["compile", str(path), kernel, *twice]) == 1
    assert "has --results already" in capsys.readouterr().err
    assert main(["compile", str(path), kernel, kernel]) == 1
    assert f"{kernel}: the operation has a --kernel already; name each once" in capsys.readouterr().err


def test_inspecting_a_model_that_leaves_types_open(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "own::Triple (tensor<?x4xf32>) -> (tensor<?x4xf32>), assumed" in shown
    assert "state them with --results NAME=TYPE" in shown
    assert main(["inspect", str(path), "--results=own::Triple=f32[n, 4]"]) == 0
    assert "assumed" not in capsys.readouterr().out
    assert main(["inspect", str(path), "--results=own::Triple=f64[n, 4]"]) == 1
    assert "own.onnx: Add_2: error" in capsys.readouterr().err
