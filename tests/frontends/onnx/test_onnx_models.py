"""Small models, read without the package onnx, against what onnxruntime computed for them (make.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wire

import pydispatch as pd
from pydispatch.frontends.onnx.model import ModelProto
from pydispatch.frontends.onnx.tensors import Files, array_of

CASES = np.load(Path(__file__).parent / "cases.npz")
NAMES = sorted({key.partition("/")[0] for key in CASES})


def part(name: str, kind: str) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs ("in") or outputs ("out") of a case, in the order in which they were stored."""
    prefix = f"{name}/{kind}/"
    return {key.removeprefix(prefix): CASES[key] for key in CASES.files if key.startswith(prefix)}


def check(program: Any, name: str) -> None:
    """Compare the results of a program of the case with those of onnxruntime."""
    found = program.main(*part(name, "in").values())
    found = found if isinstance(found, tuple) else (found,)
    expected = part(name, "out")
    assert len(found) == len(expected)
    for (output, want), got in zip(expected.items(), found, strict=True):
        got = np.asarray(got)
        assert got.dtype == want.dtype and got.shape == want.shape, output
        if want.dtype.kind == "f":
            tolerance = 2e-3 if want.dtype.itemsize == 2 else 2e-5
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=output)
        else:
            np.testing.assert_array_equal(got, want, err_msg=output)


@pytest.mark.parametrize("name", NAMES)
def test_model(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(CASES[f"{name}/model"].tobytes())
    check(pd.device("cpu").load(pd.compile(path)), name)


@pytest.mark.parametrize("name", NAMES)
def test_model_without_its_weights(name: str, tmp_path: Path) -> None:
    data = CASES[f"{name}/model"].tobytes()
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(data)
    artifact = pd.compile(path, weights="external")
    graph = ModelProto.read(memoryview(data)).graph
    assert graph is not None
    weights = {tensor.name: array_of(tensor, Files(None))[1] for tensor in graph.initializer}
    parameters = {"model": weights} if artifact.parameters else None  # some models have none
    check(pd.device("cpu").load(artifact, parameters=parameters), name)


def test_weights_of_the_caller_replace_all_of_the_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    w, c = rng.standard_normal((3, 1), np.float32), rng.standard_normal(1, np.float32)
    initializers = [wire.tensor("w", [3, 1], 1, (9, w.tobytes())), wire.tensor("c", [1], 1, (9, c.tobytes()))]
    gemm = wire.node("Gemm", ["x", "w", "c"], ["y"])
    data = wire.model([gemm], [wire.value("x", "n", 3)], [wire.value("y", "n", 1)], initializers)
    (tmp_path / "gemm.onnx").write_bytes(data)
    artifact = pd.compile(tmp_path / "gemm.onnx", weights="external")
    assert {p["key"]: p["shape"] for p in artifact.parameters} == {"w": [3, 1], "c": [1]}
    program = pd.device("cpu").load(artifact, parameters={"model": {"w": 2 * w, "c": 3 * c}})
    x = rng.standard_normal((4, 3), np.float32)
    np.testing.assert_allclose(program.main(x), x @ (2 * w) + 3 * c, rtol=1e-5, atol=1e-6)
    with pytest.raises(pd.InvalidArgumentError, match="parameters of scope 'model'"):
        pd.device("cpu").load(artifact)


@pytest.mark.parametrize("kernel", [(1, 1), (1, 3)])
def test_a_convolution_of_bytes_with_a_small_kernel_and_dynamic_sizes(kernel: tuple[int, int], tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    w = rng.integers(-9, 9, (4, 3, *kernel), np.int8)
    weights = [wire.tensor("w", list(w.shape), 3, (9, w.tobytes())), wire.tensor("z", [], 2, (9, b"\x09"))]
    path = tmp_path / "conv.onnx"
    conv = wire.node("ConvInteger", ["x", "w", "z"], ["y"])
    path.write_bytes(
        wire.model([conv], [wire.value("x", "n", 3, "h", "v", dtype=2)], [wire.value("y", "n", 4, "h", "u", dtype=6)],
                   weights)
    )  # fmt: skip
    program = pd.device("cpu").load(pd.compile(path))
    for shape in ((1, 3, 5, 8), (3, 3, 1, 4)):
        x = rng.integers(0, 255, shape, np.uint8)
        windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int32) - 9, kernel, (2, 3))
        np.testing.assert_array_equal(program.main(x), np.einsum("nchwij,fcij->nfhw", windows, w.astype(np.int32)))


def test_determinants_of_any_order(tmp_path: Path) -> None:
    path = tmp_path / "det.onnx"
    path.write_bytes(wire.model([wire.node("Det", ["x"], ["y"])], [wire.value("x", 2, "n", "n")], [wire.value("y", 2)]))
    program = pd.device("cpu").load(pd.compile(path))
    for order in (0, 1, 3, 40):
        x = np.random.default_rng(order).standard_normal((2, order, order)).astype(np.float32)
        x[1:, order // 2 :] = x[1:, : order - order // 2]  # singular, but for the orders 0 and 1
        expected = np.linalg.det(x.astype(np.float64))
        np.testing.assert_allclose(program.main(x), expected, rtol=1e-4, atol=1e-4 * abs(expected).max())


@pytest.mark.parametrize(("size", "k"), [(10, 3), (20, 20), (40, 5)])
def test_a_classifier_that_ends_in_top_k_is_batched(size: int, k: int, tmp_path: Path) -> None:
    path = tmp_path / "top_k.onnx"
    nodes = [wire.node("Softmax", ["x"], ["p"]), wire.node("TopK", ["p", "k"], ["v", "i"])]
    outputs = [wire.value("v", "n", k), wire.value("i", "n", k, dtype=7)]
    count = wire.tensor("k", [1], 7, (9, np.array([k]).tobytes()))
    path.write_bytes(wire.model(nodes, [wire.value("x", "n", size)], outputs, [count]))
    function = pd.device("cpu").load(pd.compile(path)).main
    x = np.random.default_rng(size).integers(-5, 5, (6, size)).astype(np.float32)
    values, indices = function(x)
    np.testing.assert_array_equal(indices, np.argsort(-x, axis=1, kind="stable")[:, :k])
    with function.batched(max_batch=4) as batched:
        requests = [batched.submit(row[None]) for row in x]
        found = [request.result(timeout=60) for request in requests]
    np.testing.assert_array_equal(np.concatenate([v for v, _ in found]), values)
    np.testing.assert_array_equal(np.concatenate([i for _, i in found]), indices)


def test_sequences_without_steps(tmp_path: Path) -> None:
    path = tmp_path / "rnn.onnx"
    inputs = [wire.value("x", 0, 1, 3), wire.value("w", 1, 2, 3), wire.value("r", 1, 2, 2)]
    hidden_size = wire.message((1, "hidden_size"), (3, 2), (20, 2))
    rnn = wire.node("RNN", ["x", "w", "r"], ["y", "h"], hidden_size)
    path.write_bytes(wire.model([rnn], inputs, [wire.value("y", 0, 1, 1, 2), wire.value("h", 1, 1, 2)]))
    shapes = (0, 1, 3), (1, 2, 3), (1, 2, 2)
    outputs, last = pd.device("cpu").load(pd.compile(path)).main(*(np.ones(shape, np.float32) for shape in shapes))
    assert np.shape(outputs) == (0, 1, 1, 2)  # as in onnxruntime
    np.testing.assert_array_equal(last, np.zeros((1, 1, 2)))


@pytest.mark.parametrize(("dtype", "code", "expected"), [
    (np.int32, 6, [[-1, 0, 0, 0, 0], [0, 0, 1, 2, 100]]), (np.int64, 7, [[-1, 0, 0, 0, 0], [0, 0, 1, 2, 100]]),
    (np.int8, 3, [[-1, 0, 0, 0, 0], [0, 0, 1, 2, 100]]), (np.uint8, 2, [[2, 0, 0, 0, 0], [0, 0, 1, 2, 100]]),
])  # fmt: skip
def test_shrink_of_integers(dtype: Any, code: int, expected: list[list[int]], tmp_path: Path) -> None:
    """The attributes are floats: only the result is rounded, as in onnxruntime."""
    attributes = [wire.message((1, name), (2, number), (20, 1)) for name, number in (("bias", 1.5), ("lambd", 1.5))]
    node = wire.node("Shrink", ["x"], ["y"], *attributes)
    model = wire.model([node], [wire.value("x", 2, 5, dtype=code)], [wire.value("y", 2, 5, dtype=code)], [], 13)
    (tmp_path / "m.onnx").write_bytes(model)
    x = np.array([[4 if dtype == np.uint8 else -3, 0, 0, 1, 1], [0, 1, 3, 4, 102]], dtype)
    result = pd.device("cpu").load(pd.compile(tmp_path / "m.onnx")).main(x)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(("operator", "expected"), [("ReduceLogSumExp", [2, 1000, -999]), ("ReduceLogSum", [1, 7, 0])])
@pytest.mark.parametrize(("dtype", "code"), [(np.int32, 6), (np.int64, 7)])
def test_logarithms_of_sums_of_integers(
    operator: str, expected: list[int], dtype: Any, code: int, tmp_path: Path
) -> None:
    """They are rounded towards zero, as in onnxruntime."""
    node = wire.node(operator, ["x"], ["y"], wire.message((1, "axes"), (8, 1), (20, 7)))
    model = wire.model([node], [wire.value("x", 3, 2, dtype=code)], [wire.value("y", 3, 1, dtype=code)], [], 13)
    (tmp_path / "m.onnx").write_bytes(model)
    x = np.array([[1, 2], [1000, 1000], [-1000, -1000] if operator == "ReduceLogSumExp" else [0, 1]], dtype)
    result = pd.device("cpu").load(pd.compile(tmp_path / "m.onnx")).main(x)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result[:, 0], expected)
