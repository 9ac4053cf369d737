"""MatMulNBits against NumPy: bits, blocks, zero points, and sizes that fill no blocks; one dispatch; the same bits for
any number of workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import machine_levels
import numpy as np
import pytest
import wire

import pydispatch as pd
from pydispatch.cli.__main__ import main as run

Array = np.ndarray[Any, Any]
FLOAT, BYTE = 1, 2
VNNI = "+avx512vnni"


def unpacked(packed: Array, bits: int, count: int) -> Array:
    """The first `count` numbers of bytes along the last axis, from the lowest bits on."""
    shifts = np.arange(0, 8, bits)
    numbers = (packed[..., None] >> shifts) & ((1 << bits) - 1)
    return numbers.reshape(*packed.shape[:-1], -1)[..., :count].astype(np.float32)


def weight(name: str, array: Array) -> bytes:
    return wire.tensor(name, list(array.shape), BYTE if array.dtype == np.uint8 else FLOAT, (9, array.tobytes()))


def model(sizes: dict[str, int], weights: dict[str, Array], rows: tuple[int | str, ...]) -> bytes:
    attributes = [wire.message((1, name), (3, value), (20, 2)) for name, value in sizes.items()]
    node = wire.node("MatMulNBits", ["x", *weights], ["y"], *attributes, domain="com.microsoft")
    return wire.model(
        [node], [wire.value("x", *rows, sizes["K"])], [wire.value("y", *rows, sizes["N"])],
        [weight(name, array) for name, array in weights.items()], 17,
        (8, wire.message((1, "com.microsoft"), (2, 1))),
    )  # fmt: skip


@pytest.mark.parametrize("cpu", machine_levels.parameters(["generic", "x86-64-v3", "native"]))
@pytest.mark.parametrize(
    ("bits", "block", "k", "n", "rows", "zeros"),
    [
        (4, 32, 128, 512, (1,), None), (4, 32, 96, 48, (3,), "bytes"), (4, 64, 128, 64, ("m",), None),
        (4, 16, 40, 6, (2, 5), "bytes"), (4, 128, 256, 80, (17,), "floats"), (2, 32, 64, 32, (2,), "bytes"),
        (8, 32, 64, 33, (4,), "bytes"),
    ],
)  # fmt: skip
def test_products(
    bits: int, block: int, k: int, n: int, rows: tuple[int | str, ...], zeros: str | None, cpu: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(k + n)
    blocks = -(-k // block)
    weights = {
        "w": rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8),
        "s": rng.standard_normal((n, blocks)).astype(np.float32),
    }
    middle: Array | float = float(1 << bits - 1)
    if zeros == "bytes":
        weights["z"] = rng.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8)
        middle = unpacked(weights["z"], bits, blocks)[..., None]
    elif zeros == "floats":
        weights["z"] = rng.uniform(0, 1 << bits, (n, blocks)).astype(np.float32)
        middle = weights["z"][..., None]
    x = rng.standard_normal([7 if isinstance(r, str) else r for r in rows] + [k]).astype(np.float32)
    matrix = (unpacked(weights["w"], bits, block) - middle) * weights["s"][..., None].astype(np.float64)
    expected = x @ matrix.reshape(n, -1)[:, :k].T
    file = tmp_path / "model.onnx"
    file.write_bytes(model({"K": k, "N": n, "bits": bits, "block_size": block}, weights, rows))
    artifact = pd.compile(file, targets="cpu", cpu=cpu)
    one, two = (np.asarray(pd.device(f"cpu?workers={w}").load(artifact).main(x)) for w in (1, 2))
    np.testing.assert_allclose(one, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("cpu", machine_levels.parameters(["generic", "x86-64-v4"], {"x86-64-v4": VNNI}))
@pytest.mark.parametrize("bits", [4, 8])
def test_accuracy_levels_permit_shorter_integers(bits: int, cpu: str, tmp_path: Path) -> None:
    """Elements of x are rounded relative to the largest of their block: not at all, to 1/65024 or to 1/254. Levels have
    precedence over the option.
    """
    rng = np.random.default_rng(bits)
    n, blocks, block = 128, 8, 32
    weights = {
        "w": rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8),
        "s": rng.uniform(0.5, 1, (n, blocks)).astype(np.float32),
    }
    x = rng.standard_normal((5, blocks * block)).astype(np.float32)
    matrix = (unpacked(weights["w"], bits, block) - (1 << bits - 1)) * weights["s"][..., None].astype(np.float64)
    expected = x @ matrix.reshape(n, -1).T
    greatest = np.abs(x).reshape(5, blocks, block).max(-1)
    room = greatest @ np.abs(matrix).sum(-1).T
    errors = {}
    steps = {24: 0.0, 16: 1 / 65024, 8: 1 / 254}
    for level, option, actual in [
        (0, 24, 24), (0, 16, 16), (0, 8, 8), (1, 8, 24), (2, 24, 16), (3, 8, 16), (4, 24, 8),
    ]:  # fmt: skip
        sizes = {"K": blocks * block, "N": n, "bits": bits, "block_size": block, "accuracy_level": level}
        file = tmp_path / f"{level}.onnx"
        file.write_bytes(model(sizes, weights, (5,)))
        features = "" if cpu == "generic" else VNNI
        artifact = pd.compile(file, targets="cpu", cpu=cpu, cpu_features=features, activation_bits=option)
        result = np.asarray(pd.device("cpu").load(artifact).main(x))
        assert np.all(np.abs(result - expected) <= (steps[actual] * 1.001 + 1e-6) * room)
        error = np.abs(result - expected).max()
        assert errors.setdefault(actual, error) == error
    if cpu != "generic":  # bytes are multiplied: the errors are those of the rounding
        assert errors[8] > 20 * errors[16] > 400 * errors[24]


@pytest.mark.parametrize("cpu", machine_levels.parameters(["x86-64-v4"], {"x86-64-v4": VNNI}))
@pytest.mark.parametrize("option", [8, 16, 24])
@pytest.mark.parametrize(
    ("bits", "rows", "block", "blocks"),
    [(4, 1, 16, 3), (8, 5, 32, 5), (4, 12, 64, 7), (4, 128, 256, 1), (4, 8, 512, 2)],
)
def test_blocks_are_rounded_in_groups(
    bits: int, rows: int, block: int, blocks: int, option: int, cpu: str, tmp_path: Path
) -> None:
    """Blocks that fill no group of 16, and those of many vectors. Infinity and NaN spoil their own row only."""
    rng = np.random.default_rng(block)
    stored = rng.integers(0, 256, (64, blocks, block * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.5, 1, (64, blocks)).astype(np.float32)
    x = rng.standard_normal((rows, blocks, block)).astype(np.float32)
    x *= np.exp2(rng.integers(-20, 20, (rows, blocks, 1))).astype(np.float32)
    matrix = (unpacked(stored, bits, block) - (1 << bits - 1)) * scales[..., None].astype(np.float64)
    room = np.abs(x).max(-1) @ np.abs(matrix).sum(-1).T
    file = tmp_path / "model.onnx"
    sizes = {"K": blocks * block, "N": 64, "bits": bits, "block_size": block}
    file.write_bytes(model(sizes, {"w": stored, "s": scales}, (rows,)))
    artifact = pd.compile(file, targets="cpu", cpu=cpu, cpu_features=VNNI, activation_bits=option)
    call = pd.device("cpu").load(artifact).main
    x = x.reshape(rows, -1)
    expected = x @ matrix.reshape(64, -1).T
    step = {24: 0.0, 16: 1 / 65024, 8: 1 / 254}[option]
    assert np.all(np.abs(np.asarray(call(x)) - expected) <= (step * 1.001 + 1e-6) * room)
    for special in (np.inf, -np.inf, np.nan):
        changed = x.copy()
        changed[-1, block // 2] = special
        result = np.asarray(call(changed))
        assert not np.isfinite(result[-1]).any()
        np.testing.assert_array_equal(result[:-1], np.asarray(call(x))[:-1])


@pytest.mark.parametrize("cpu", machine_levels.parameters(["x86-64-v4"], {"x86-64-v4": VNNI}))
def test_rows_of_bytes_do_not_depend_on_their_number(cpu: str, tmp_path: Path) -> None:
    """40 rows are several workgroups of rows, 37 are no multiple of any; each of 40 has the bits that it has alone."""
    rng = np.random.default_rng(0)
    stored, scales = rng.integers(0, 256, (64, 4, 16)).astype(np.uint8), rng.standard_normal((64, 4)).astype(np.float32)
    x = rng.standard_normal((40, 128)).astype(np.float32)
    matrix = ((unpacked(stored, 4, 32) - 8) * scales[..., None].astype(np.float64)).reshape(64, 128)
    room = np.abs(x).reshape(40, 4, 32).max(-1) @ np.abs(matrix).reshape(64, 4, 32).sum(-1).T
    sizes = {"K": 128, "N": 64, "bits": 4, "block_size": 32, "accuracy_level": 4}

    def product(rows: int) -> Array:
        file = tmp_path / f"{rows}.onnx"
        file.write_bytes(model(sizes, {"w": stored, "s": scales}, (rows,)))
        artifact = pd.compile(file, targets="cpu", cpu=cpu, cpu_features=VNNI)
        return np.asarray(pd.device("cpu").load(artifact).main(x[:rows]))

    results = {rows: product(rows) for rows in (8, 37, 40)}
    np.testing.assert_array_equal(results[40][:8], results[8])
    for rows, result in results.items():
        assert np.all(np.abs(result - x[:rows] @ matrix.T) <= (1.001 / 254 + 1e-6) * room[:rows])


def test_weights_are_unpacked_in_the_product(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.integers(0, 256, (256, 8, 16)).astype(np.uint8),
        "s": rng.standard_normal((256, 8)).astype(np.float32),
        "z": rng.integers(0, 256, (256, 4)).astype(np.uint8),
    }
    file = tmp_path / "model.onnx"
    file.write_bytes(model({"K": 256, "N": 256, "bits": 4, "block_size": 32}, weights, (4,)))
    run(["compile", str(file), "--target", "cpu", "--compile-to", "dispatches"])
    text = capsys.readouterr().out
    main = text[text.index("func.func @main(") :]
    assert main[: main.index("func.return")].count("flow.dispatch @") == 1
