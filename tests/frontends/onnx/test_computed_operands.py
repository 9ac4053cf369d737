"""Sizes, axes and positions that are inputs of a model: one program, called with several, gives what onnxruntime
computed for each (make_computed.py)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wire

import pydispatch as pd

CASES = np.load(Path(__file__).parent / "computed.npz")
NAMES = sorted({key.partition("/")[0] for key in CASES})
I64 = 7


def part(name: str, call: int, kind: str) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs ("in") or outputs ("out") of one call, in the order in which they were stored."""
    prefix = f"{name}/{call}/{kind}/"
    return {key.removeprefix(prefix): CASES[key] for key in CASES.files if key.startswith(prefix)}


@pytest.mark.parametrize("device", ["cpu", "vulkan"])
@pytest.mark.parametrize("name", NAMES)
def test_one_program_for_several_values(name: str, device: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(CASES[f"{name}/model"].tobytes())
    program = pd.device(device).load(pd.compile(path, targets=[device]))
    calls = {key.split("/")[1] for key in CASES.files if key.startswith(f"{name}/") and key.count("/") > 1}
    for call in range(len(calls)):
        found = program.main(*part(name, call, "in").values())
        found = found if isinstance(found, tuple) else (found,)
        for (output, want), got in zip(part(name, call, "out").items(), found, strict=True):
            got = np.asarray(got)
            assert got.dtype == want.dtype and got.shape == want.shape, (call, output)
            np.testing.assert_allclose(got, want, rtol=3e-5, atol=3e-5, err_msg=f"{output} of call {call}")


def loaded(model: bytes, folder: Path) -> Any:
    """The program of a model, on the CPU."""
    path = folder / "model.onnx"
    path.write_bytes(model)
    return pd.device("cpu").load(pd.compile(path))


def node(op: str, shape: tuple[int | str, ...], *operands: tuple[int | str, ...], rank: int = 2) -> bytes:
    """A model of one node, whose first operand is f32 and whose others are i64; `rank` is that of its first result."""
    names = [f"in{n}" for n in range(len(operands))]
    inputs = [wire.value("x", *shape), *(wire.value(n, *s, dtype=I64) for n, s in zip(names, operands, strict=True))]
    result = wire.value("y", *(f"size{n}" for n in range(rank)))
    return wire.model([wire.node(op, ["x", *names], ["y"], name="layer")], inputs, [result], (), 18)


X = np.ones((2, 3), np.float32)
WRONG: dict[str, tuple[Any, list[Any], str]] = {
    "an axis out of range": (("ReduceSum", (2, 3), (1,)), [[2]], "an axis is not from -2 to 1"),
    "an axis twice": (("ReduceSum", (2, 3), (2,)), [[0, -2]], "axes name an axis twice"),
    "another number of elements": (("Reshape", (2, 3), (2,)), [[4, 2]], "another number of elements than its operand"),
    "a shape that does not fit": (("Expand", (2, 3), (2,)), [[2, 4]], "axis 1 of .* is not that in its operand"),
    "a negative size": (("Expand", (2, 3), (2,)), [[-2, 3]], "a negative size"),
    "a size that is not 1": (("Squeeze", (2, "n"), (1,), ), [[1]], "names has another size than 1"),
    "a step of 0": (("Slice", (2, 3), (1,), (1,), (1,), (1,)), [[0], [1], [0], [0]], "a step is 0"),
    "too much cropped": (("Pad", (2, 3), (4,)), [[-2, 0, -1, 0]], "crops more of axis 0"),
    "k too large": (("TopK", (2, 3), (1,)), [[4]], "k is larger than axis 1"),
    "negative repeats": (("Tile", (2, 3), (2,)), [[1, -1]], "'repeats' has a negative size"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_values_that_do_not_fit(name: str, tmp_path: Path) -> None:
    (op, shape, *operands), values, message = WRONG[name]
    program = loaded(node(op, shape, *operands, rank=1 if op == "Squeeze" else 2), tmp_path)
    with pytest.raises(pd.Error, match=message):
        program.main(X, *(np.array(v, np.int64) for v in values))


def test_a_vector_whose_length_decides_a_rank(tmp_path: Path) -> None:
    with pytest.raises(
        pd.CompileError, match=r"operand 'in0' has the type i64\[n\]: the number of its elements"
    ) as error:
        loaded(node("Reshape", (2, 3), ("n",)), tmp_path)
    assert "constants={'in0': array}" in str(error.value)


@pytest.mark.parametrize(("training", "ratio"), [(False, 0.5), (True, 0.0), (True, 0.25)])
def test_dropout_whose_mode_is_an_input(training: bool, ratio: float, tmp_path: Path) -> None:
    inputs = [wire.value("x", 4096), wire.value("r"), wire.value("t", dtype=9)]
    dropout = wire.node("Dropout", ["x", "r", "t"], ["y", "mask"], name="layer")
    results = [wire.value("y", 4096), wire.value("mask", 4096, dtype=9)]
    program = loaded(wire.model([dropout], inputs, results), tmp_path)
    x = np.arange(1, 4097, dtype=np.float32)
    y, mask = program.main(x, np.float32(ratio), np.bool_(training))
    dropped = ratio if training else 0.0
    assert abs(np.mean(~mask) - dropped) < 0.05
    np.testing.assert_allclose(y, np.where(mask, x / np.float32(1 - dropped), 0), rtol=1e-6)


def resized(folder: Path, x: np.ndarray[Any, Any], sizes: list[int], computed: bool, **attributes: str) -> Any:
    """The result of Resize, for sizes that each call computes, or for constant ones."""
    texts = [wire.message((1, name), (4, text), (20, 3)) for name, text in attributes.items()]
    wanted = np.array(sizes, np.int64)
    inputs = [wire.value("x", *x.shape), *([wire.value("s", len(sizes), dtype=I64)] if computed else [])]
    constants = [] if computed else [wire.tensor("s", [len(sizes)], I64, (9, wanted.tobytes()))]
    outputs = [wire.value("y", *(f"size{n}" for n in range(x.ndim)))]
    resize = wire.node("Resize", ["x", "", "", "s"], ["y"], *texts)
    program = loaded(wire.model([resize], inputs, outputs, constants, 18), folder)
    return program.main(x, wanted) if computed else program.main(x)


@pytest.mark.parametrize("computed", [False, True])
def test_cubic_resizing_to_one_element(computed: bool, tmp_path: Path) -> None:
    """As in onnxruntime, the element is at position 0."""
    x = np.array([[1, 2, 4, 8, 16]], np.float32)
    how = {"mode": "cubic", "coordinate_transformation_mode": "pytorch_half_pixel"}
    np.testing.assert_allclose(resized(tmp_path, x, [1, 1], computed, **how), [[1]], rtol=1e-6)


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize(
    ("nearest", "rows"), [("round_prefer_floor", [0, 1, 1, 1]), ("round_prefer_ceil", [0, 1, 1, 1]),
                          ("floor", [0, 0, 1, 1]), ("ceil", [1, 1, 1, 1])],
)  # fmt: skip
def test_an_axis_that_keeps_its_size(nearest: str, rows: list[int], computed: bool, tmp_path: Path) -> None:
    """As in onnxruntime, its elements keep their positions, also with a transformation that adds 0.5 to these."""
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    how = {"mode": "nearest", "coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": nearest}
    np.testing.assert_array_equal(resized(tmp_path, x, [4, 5], computed, **how), x[rows])


def test_an_unknown_transformation_of_coordinates(tmp_path: Path) -> None:
    with pytest.raises(pd.CompileError, match="coordinate_transformation_mode"):
        resized(tmp_path, X, [4, 3], computed=False, coordinate_transformation_mode="tf_half_pixel")


def test_filters_whose_sizes_are_dynamic(tmp_path: Path) -> None:
    """The attribute kernel_shape is compared with the filters in each call."""
    kernel_shape = wire.message((1, "kernel_shape"), (8, 3), (8, 2), (20, 7))
    inputs = [wire.value("x", 1, 2, 6, 7), wire.value("w", 4, 2, "h", "k")]
    conv = wire.node("Conv", ["x", "w"], ["y"], kernel_shape)
    program = loaded(wire.model([conv], inputs, [wire.value("y", 1, 4, "a", "b")]), tmp_path)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 2, 6, 7), (4, 2, 3, 2)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 2), axis=(2, 3))
    expected = np.einsum("nchwkl,fckl->nfhw", windows, w)
    np.testing.assert_allclose(program.main(x, w), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(pd.Error, match="a size of its filters is 2; its kernel_shape states 3"):
        program.main(x, w[:, :, :2].copy())


def sliced(folder: Path, size: int | str, step: int, **constants: int) -> Any:
    """y = x[s:e:step], where `constants` has s or e if it is known; the others are inputs of each call."""
    known = {"a": 0, "t": step, **constants}
    inputs = [wire.value("x", size), *(wire.value(n, 1, dtype=I64) for n in "se" if n not in known)]
    weights = [wire.tensor(n, [1], I64, (9, np.int64(v).tobytes())) for n, v in known.items()]
    slices = wire.node("Slice", ["x", "s", "e", "a", "t"], ["y"], name="layer")
    return loaded(wire.model([slices], inputs, [wire.value("y", "k")], weights), folder)


@pytest.mark.parametrize("size", [3, "n"])
@pytest.mark.parametrize(
    "constants", [{}, {"s": 0}, {"s": -1}, {"s": -9}, {"e": 0}, {"s": 2, "e": 0}, {"s": 0, "e": -9}]
)
def test_slices_backwards(constants: dict[str, int], size: int | str, tmp_path: Path) -> None:
    """The end may be before the first element, which the slice then has; an axis that may be empty has empty slices."""
    program = sliced(tmp_path, size, -1, **constants)
    for n in [size] if isinstance(size, int) else (0, 1, 3):
        x = np.arange(n, dtype=np.float32)
        for bounds in product((0, 2, -1, -9, 9), repeat=2):
            given = dict(zip("se", bounds, strict=True)) | constants
            start, end = (p + n if p < 0 else p for p in given.values())
            expected = [float(i) for i in range(min(max(start, 0), n - 1), min(max(end, -1), n - 1), -1)]
            found = program.main(x, *(np.int64([v]) for name, v in given.items() if name not in constants))
            np.testing.assert_array_equal(found, np.float32(expected), err_msg=f"{given} of {n}")
    with pytest.raises(pd.CompileError, match="layer: error: Slice: a step is 0"):
        sliced(tmp_path, size, 0, **constants)


@pytest.mark.parametrize("size", [4, "m", "n"])
@pytest.mark.parametrize("step", [2, -1])
@pytest.mark.parametrize("bound", ["start", "end"])
@pytest.mark.parametrize("position", [lambda n: -n, lambda n: n - 3, lambda n: 2 - n], ids=["-n", "n - 3", "2 - n"])
def test_slices_at_sizes_of_calls(
    position: Callable[[int], int], bound: str, step: int, size: int | str, tmp_path: Path
) -> None:
    """A bound of a slice of x [size] is an expression of the size of w [n], which is negative in some calls."""
    factor, offset = position(1) - position(0), position(0)
    known = {
        "a": 0,
        "t": step,
        "k": factor,
        "o": offset,
        "last": 1 << 62 if step > 0 else -(1 << 62),
        "first": 0 if step > 0 else 1 << 62,
    }
    bounds = ["p", "last"] if bound == "start" else ["first", "p"]
    nodes = [
        wire.node("Shape", ["w"], ["n"]),
        wire.node("Mul", ["n", "k"], ["scaled"]),
        wire.node("Add", ["scaled", "o"], ["p"]),
        wire.node("Slice", ["x", *bounds, "a", "t"], ["y"]),
    ]
    weights = [wire.tensor(name, [1], I64, (9, np.int64(v).tobytes())) for name, v in known.items()]
    program = loaded(
        wire.model(nodes, [wire.value("x", size), wire.value("w", "n")], [wire.value("y", "k")], weights), tmp_path
    )
    for n, m in product((0, 1, 2, 3, 4, 7), (0, 1, 2, 3, 4, 9)):
        if (size == "n" and m != n) or (isinstance(size, int) and m != size):
            continue
        x, at = np.arange(m, dtype=np.float32), position(n)
        at += m if at < 0 else 0
        if step > 0:
            at = min(max(at, 0), m)
            expected = x[at::step] if bound == "start" else x[:at:step]
        else:  # backwards a start is an element, and an end may be before the first one
            at = min(max(at, 0 if bound == "start" else -1), m - 1)
            expected = x[: at + 1][::-1] if bound == "start" else x[at + 1 :][::-1]
        np.testing.assert_array_equal(program.main(x, np.zeros(n, np.float32)), expected, err_msg=f"{n}, {m}")


@pytest.mark.parametrize("size", ["m", "n", 6])
def test_pads_by_sizes_of_calls(size: int | str, tmp_path: Path) -> None:
    """Pads [2 - n, 8 - n] of x [size], where n is the size of w, crop in calls in which they are negative."""
    nodes = [
        wire.node("Shape", ["w"], ["n"]),
        wire.node("Sub", ["least", "n"], ["pads"]),
        wire.node("Pad", ["x", "pads", "seven"], ["y"]),
    ]
    weights = [
        wire.tensor("least", [2], I64, (9, np.int64([2, 8]).tobytes())),
        wire.tensor("seven", [], 1, (9, np.float32(7).tobytes())),
    ]
    inputs = [wire.value("x", size), wire.value("w", "n")]
    program = loaded(wire.model(nodes, inputs, [wire.value("y", "k")], weights, 18), tmp_path)
    for n, m in product((0, 1, 2, 6, 9), (0, 1, 6, 9)):
        if (size == "n" and m != n) or (isinstance(size, int) and m != size):
            continue
        x, w, (low, high) = np.arange(m, dtype=np.float32), np.zeros(n, np.float32), (2 - n, 8 - n)
        if low + high + m < 0:
            with pytest.raises(pd.Error, match=r"negative padding crops more of axis 0 of .* than the axis has"):
                program.main(x, w)
            continue
        grown = np.pad(x, [(max(low, 0), max(high, 0))], constant_values=7)
        expected = grown[max(-low, 0) : len(grown) - max(-high, 0)]
        np.testing.assert_array_equal(program.main(x, w), expected, err_msg=f"{n}, {m}")


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pads_that_crop_and_pad(mode: str, computed: bool, tmp_path: Path) -> None:
    """As in onnxruntime, the elements that remain after the crop are put around it. Constants need no element."""
    attribute = wire.message((1, "mode"), (4, mode), (20, 3))
    for m, pads in ((5, (-1, 2)), (5, (2, -1)), (5, (-2, -1)), (5, (-3, 1)), (5, (0, -5)), (3, (-5, 10)), (3, (9, -4))):
        inputs = [wire.value("x", "m"), *([wire.value("p", 2, dtype=I64)] if computed else [])]
        weights = [] if computed else [wire.tensor("p", [2], I64, (9, np.int64(pads).tobytes()))]
        pad = wire.node("Pad", ["x", "p"], ["y"], attribute, name="layer")
        program = loaded(wire.model([pad], inputs, [wire.value("y", "k")], weights, 19), tmp_path)
        x = np.arange(1, m + 1, dtype=np.float32)
        call = [x, np.array(pads)] if computed else [x]
        cropped = x[max(-pads[0], 0) : m - max(-pads[1], 0)]
        around = [max(n, 0) for n in pads]
        if mode == "constant":
            grown = np.pad(x, [around])
            expected = grown[max(-pads[0], 0) : len(grown) - max(-pads[1], 0)]
        elif m + min(pads) < 0:
            with pytest.raises(pd.Error, match="negative padding crops more of axis 0"):
                program.main(*call)
            continue
        else:
            expected = np.pad(cropped, [around], mode=mode) if any(around) else cropped  # type: ignore[call-overload]
        np.testing.assert_array_equal(program.main(*call), expected, err_msg=str(pads))


@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_slices_of_an_axis_that_may_be_empty(size: int, tmp_path: Path) -> None:
    bounds = {"first": 0, "second": 1, "last": -1, "end": 1 << 62}
    nodes = [
        wire.node("Slice", ["x", "second", "end"], ["after"]), wire.node("Slice", ["x", "first", "last"], ["before"]),
        wire.node("Slice", ["x", "second", "last"], ["between"]), wire.node("Sub", ["after", "before"], ["steps"]),
    ]  # fmt: skip
    weights = [wire.tensor(name, [1], I64, (9, np.int64(n).tobytes())) for name, n in bounds.items()]
    results = [wire.value(name, name) for name in ("after", "before", "between", "steps")]
    program = loaded(wire.model(nodes, [wire.value("x", "n")], results, weights), tmp_path)
    x = np.arange(size, dtype=np.float32) ** 2
    for result, expected in zip(program.main(x), (x[1:], x[:-1], x[1:-1], np.diff(x)), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_a_slice_of_one_element_broadcasts(tmp_path: Path) -> None:
    """The last element of an axis counts as one, so that it broadcasts: an empty axis has none."""
    weights = [wire.tensor(name, [1], I64, (9, np.int64(n).tobytes())) for name, n in (("s", -1), ("e", 1 << 62))]
    nodes = [wire.node("Slice", ["x", "s", "e"], ["last"]), wire.node("Add", ["last", "y"], ["z"])]
    inputs = [wire.value("x", "n"), wire.value("y", 4)]
    program = loaded(wire.model(nodes, inputs, [wire.value("z", 4)], weights), tmp_path)
    x, y = np.arange(3, dtype=np.float32), np.ones(4, np.float32)
    np.testing.assert_array_equal(program.main(x, y), np.full(4, 3, np.float32))
    with pytest.raises(pd.Error, match="the slice ends outside"):
        program.main(x[:0], y)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_the_position_of_an_extreme_of_no_elements(op: str, tmp_path: Path) -> None:
    inputs, results = [wire.value("x", "n", "m")], [wire.value("y", 1, "m", dtype=I64)]
    program = loaded(wire.model([wire.node(op, ["x"], ["y"], name="layer")], inputs, results), tmp_path)
    assert program.main(np.zeros((0, 0), np.float32)).shape == (1, 0)
    with pytest.raises(pd.Error, match=r"axis 0 of f32\[n, m\] has the size 0: it has no element to read"):
        program.main(np.zeros((0, 3), np.float32))


def ranged(folder: Path, step: int | str) -> Any:
    """y = Range(0, n - 5, step) for x [n]; a step "n - 5" is Range(0, 7, n - 5)."""
    nodes = [wire.node("Size", ["x"], ["n"]), wire.node("Sub", ["n", "five"], ["left"])]
    operands = ["zero", "left", "step"] if isinstance(step, int) else ["zero", "seven", "left"]
    nodes.append(wire.node("Range", operands, ["y"], name="layer"))
    numbers = {"zero": 0, "five": 5, "seven": 7} | ({"step": step} if isinstance(step, int) else {})
    weights = [wire.tensor(name, [], I64, (9, np.int64(n).tobytes())) for name, n in numbers.items()]
    return loaded(wire.model(nodes, [wire.value("x", "n")], [wire.value("y", "k", dtype=I64)], weights), folder)


@pytest.mark.parametrize("step", [1, 2, -1, -3, "n - 5"])
def test_ranges_whose_bounds_are_sizes(step: int | str, tmp_path: Path) -> None:
    """A range whose limit is on the other side of its start is empty."""
    program = ranged(tmp_path, step)
    for n in (0, 3, 4, 6, 8, 12):
        expected = np.arange(0, n - 5, step) if isinstance(step, int) else np.arange(0, 7, n - 5)
        np.testing.assert_array_equal(program.main(np.ones(n, np.float32)), expected, err_msg=f"n = {n}")


def test_ranges_whose_step_is_0(tmp_path: Path) -> None:
    with pytest.raises(pd.CompileError, match="layer: error: Range: its step is 0"):
        ranged(tmp_path, 0)
    with pytest.raises(pd.InvalidArgumentError, match="Range: its step is 0"):
        ranged(tmp_path, "n - 5").main(np.ones(5, np.float32))


def divided(folder: Path, size: int | str, parts: int) -> Any:
    """The results of Split of x [size] into `parts` slices of equal size."""
    names = [f"y{n}" for n in range(parts)]
    split = wire.node("Split", ["x"], names, wire.message((1, "num_outputs"), (3, parts), (20, 2)), name="layer")
    return loaded(
        wire.model([split], [wire.value("x", size)], [wire.value(n, f"{n}_size") for n in names], (), 18), folder
    )


@pytest.mark.parametrize("size", [0, 3, 6, 7, 8, "n"])
def test_slices_of_equal_size(size: int | str, tmp_path: Path) -> None:
    program = divided(tmp_path, size, 4)
    for n in [size] if isinstance(size, int) else [0, 3, 6, 7, 8]:
        x = np.arange(n, dtype=np.float32)
        each = -(-n // 4)
        for number, found in enumerate(program.main(x)):
            np.testing.assert_array_equal(found, x[each * number : each * (number + 1)], err_msg=f"{number} of {n}")


@pytest.mark.parametrize("size", [5, "n"])
def test_slices_of_equal_size_that_are_too_large(size: int | str, tmp_path: Path) -> None:
    """Three slices of 2 elements are more than an axis of 5 has."""
    message = (
        rf"Split: axis 0 of f32\[{size}\] has too few elements for 4 slices, of which only the last may be smaller"
    )
    with pytest.raises(pd.Error, match=message) as error:
        divided(tmp_path, size, 4).main(np.ones(5, np.float32))
    assert isinstance(error.value, pd.CompileError) == isinstance(size, int)
