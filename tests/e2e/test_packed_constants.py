"""Constant factors in panels: the same values as without, on every CPU level, for products and convolutions."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import machine_levels
import numpy as np
import pytest

import pydispatch as pd
from pydispatch.formats.program.program import disassemble

LEVELS = ["generic", "x86-64-v3", "x86-64-v4"]
TYPES = {"f32": np.float32, "f64": np.float64}
Array = np.ndarray[Any, Any]

PRODUCT = """
GLOBAL
func.func @f(%x: tensor<ROWSxKxTYPE>, %c: tensor<NxTYPE>WEIGHT) -> tensor<ROWSxNxTYPE> {
  LOAD
  %zero = arith.constant 0.0 : TYPE
  %axis = arith.constant 0 : index
  SIZE
  %e = tensor.empty(ROWS_VALUE) : tensor<ROWSxNxTYPE>
  %i = linalg.fill ins(%zero : TYPE) outs(%e : tensor<ROWSxNxTYPE>) -> tensor<ROWSxNxTYPE>
  %p = linalg.NAME ins(%x, %w : tensor<ROWSxKxTYPE>, tensor<SHAPExTYPE>) outs(%i : tensor<ROWSxNxTYPE>)
      -> tensor<ROWSxNxTYPE>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%p, %c : tensor<ROWSxNxTYPE>, tensor<NxTYPE>) outs(%e : tensor<ROWSxNxTYPE>) {
  ^bb0(%a: TYPE, %b: TYPE, %o: TYPE):
    %s = arith.addf %a, %b : TYPE
    %m = arith.maximumf %s, %zero : TYPE
    linalg.yield %m : TYPE
  } -> tensor<ROWSxNxTYPE>
  return %r : tensor<ROWSxNxTYPE>
}
"""


def with_weight(text: str, shape: str, constant: bool) -> str:
    """The weight as a parameter of scope "m", or as an argument."""
    made = f'util.global private @w = #flow.parameter.named<"m"::"w"> : tensor<{shape}>'
    words = {
        "GLOBAL": made if constant else "",
        "WEIGHT": "" if constant else f", %w: tensor<{shape}>",
        "LOAD": f"%w = util.global.load @w : tensor<{shape}>" if constant else "",
    }
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def product(m: int | None, k: int, n: int, type_: str, transposed: bool, constant: bool) -> str:
    shape = f"{n}x{k}" if transposed else f"{k}x{n}"
    text = with_weight(PRODUCT, f"{shape}x{type_}", constant)
    words = {
        "NAME": "matmul_transpose_b" if transposed else "matmul",
        "SIZE": f"%rows = tensor.dim %x, %axis : tensor<?x{k}x{type_}>" if m is None else "",
        "ROWS_VALUE": "%rows" if m is None else "",
        "ROWS": "?" if m is None else str(m),
        "SHAPE": shape,
        "TYPE": type_,
        "xKx": f"x{k}x",
        "xNx": f"x{n}x",
        "<Nx": f"<{n}x",
    }
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def is_packed(artifact: Any) -> bool:
    return "derived by function" in disassemble(artifact.read("program.bin"))


@pytest.mark.parametrize("cpu", machine_levels.parameters(LEVELS))
@pytest.mark.parametrize("seed", range(6))
def test_products_with_a_constant_factor(cpu: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    type_ = ("f32", "f64")[seed % 2]
    transposed = bool(rng.integers(2))
    rows = None if seed == 3 else int(rng.choice([5, 7, 16, 33, 70]))
    k, n = int(rng.integers(30, 300)), 64 * int(rng.integers(17, 24)) + (32 if type_ == "f32" else 16)
    artifact = pd.compile(product(rows, k, n, type_, transposed, True), targets="cpu", cpu=cpu)
    assert is_packed(artifact)
    w, c = rng.standard_normal((k, n)).astype(TYPES[type_]), rng.standard_normal(n).astype(TYPES[type_])
    lain = np.ascontiguousarray(w.T) if transposed else w
    program = pd.device("cpu").load(artifact, parameters={"m": {"w": lain}})
    plain = pd.device("cpu").load(pd.compile(product(rows, k, n, type_, transposed, False), targets="cpu", cpu=cpu))
    for count in [rows] if rows is not None else [0, 1, 3, 9, 50]:
        x = rng.standard_normal((count, k)).astype(TYPES[type_])
        found = program.f(x, c)
        wanted = np.maximum(x.astype(np.float64) @ w + c, 0)
        np.testing.assert_allclose(found, wanted, rtol=1e-3 if type_ == "f32" else 1e-10, atol=1e-4)
        if not transposed:
            np.testing.assert_array_equal(found, plain.f(x, c, lain))


@pytest.mark.parametrize("cpu", machine_levels.parameters(LEVELS))
@pytest.mark.parametrize(("rows", "k", "n", "type_", "transposed"), [
    (16, 128, 136, "f32", False), (7, 90, 1001, "f32", True), (33, 70, 255, "f64", False), (1, 600, 1000, "f32", False),
    (None, 400, 1545, "f32", False), (8, 16384, 64, "f32", False),
])  # fmt: skip
def test_zeros_fill_the_last_panel(
    cpu: str, rows: int | None, k: int, n: int, type_: str, transposed: bool
) -> None:  # fmt: skip
    rng = np.random.default_rng(n)
    artifact = pd.compile(product(rows, k, n, type_, transposed, True), targets="cpu", cpu=cpu)
    assert is_packed(artifact)
    w, c = rng.standard_normal((k, n)).astype(TYPES[type_]), rng.standard_normal(n).astype(TYPES[type_])
    lain = np.ascontiguousarray(w.T) if transposed else w
    program = pd.device("cpu?workers=2").load(artifact, parameters={"m": {"w": lain}})
    for count in [rows] if rows is not None else [0, 1, 3, 50]:
        x = rng.standard_normal((count, k)).astype(TYPES[type_])
        wanted = np.maximum(x.astype(np.float64) @ w + c, 0)
        np.testing.assert_allclose(program.f(x, c), wanted, rtol=1e-3 if type_ == "f32" else 1e-10, atol=1e-4)


CONVOLUTION = """
GLOBAL
func.func @f(%x: tensor<1xSIDExSIDExCxTYPE>WEIGHT) -> tensor<1xPLACESxPLACESxFxTYPE> {
  LOAD
  %zero = arith.constant 0.0 : TYPE
  %e = tensor.empty() : tensor<1xPLACESxPLACESxFxTYPE>
  %i = linalg.fill ins(%zero : TYPE) outs(%e : tensor<1xPLACESxPLACESxFxTYPE>) -> tensor<1xPLACESxPLACESxFxTYPE>
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>}
      ins(%x, %w : tensor<1xSIDExSIDExCxTYPE>, tensor<3x3xCxFxTYPE>)
      outs(%i : tensor<1xPLACESxPLACESxFxTYPE>) -> tensor<1xPLACESxPLACESxFxTYPE>
  return %r : tensor<1xPLACESxPLACESxFxTYPE>
}
"""


def convolution(side: int, channels: int, filters: int, constant: bool) -> str:
    text = with_weight(CONVOLUTION, f"3x3x{channels}x{filters}xf32", constant)
    words = {
        "SIDE": str(side), "PLACES": str((side - 3) // 2 + 1), "xCx": f"x{channels}x", "xFx": f"x{filters}x",
        "TYPE": "f32",
    }  # fmt: skip
    for word, value in words.items():
        text = text.replace(word, value)
    return text


@pytest.mark.parametrize("cpu", machine_levels.parameters(LEVELS))
@pytest.mark.parametrize(("side", "channels", "filters"), [(9, 5, 1056), (11, 8, 1088), (7, 130, 512)])
def test_convolutions_with_a_constant_filter(cpu: str, side: int, channels: int, filters: int) -> None:
    rng = np.random.default_rng(side)
    x = rng.standard_normal((1, side, side, channels), dtype=np.float32)
    w = rng.standard_normal((3, 3, channels, filters), dtype=np.float32)
    artifact = pd.compile(convolution(side, channels, filters, True), targets="cpu", cpu=cpu)
    assert is_packed(artifact)
    program = pd.device("cpu").load(artifact, parameters={"m": {"w": w}})
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), (0, 1))[::2, ::2]
    wanted = np.einsum("ijcab,abcf->ijf", windows.astype(np.float64), w)[None]
    np.testing.assert_allclose(program.f(x), wanted, rtol=1e-3, atol=1e-3)
    plain = pd.device("cpu").load(pd.compile(convolution(side, channels, filters, False), targets="cpu", cpu=cpu))
    np.testing.assert_array_equal(program.f(x), plain.f(x, w))


@pytest.mark.parametrize("cpu", machine_levels.parameters(LEVELS))
@pytest.mark.parametrize(("channels", "filters"), [(3, 16), (8, 32), (5, 48)])
def test_small_filters_whose_rows_are_columns(cpu: str, channels: int, filters: int) -> None:
    text = convolution(9, channels, filters, True).replace("conv_2d_nhwc_hwcf", "conv_2d_nhwc_fhwc")
    text = text.replace(f"3x3x{channels}x{filters}", f"{filters}x3x3x{channels}")
    artifact = pd.compile(text, targets="cpu", cpu=cpu)
    assert is_packed(artifact)
    rng = np.random.default_rng(filters)
    x = rng.standard_normal((1, 9, 9, channels), dtype=np.float32)
    w = rng.standard_normal((filters, 3, 3, channels), dtype=np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), (0, 1))[::2, ::2]
    wanted = np.einsum("ijcab,fabc->ijf", windows.astype(np.float64), w)[None]
    found = pd.device("cpu").load(artifact, parameters={"m": {"w": w}}).f(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_one_artifact_for_several_levels() -> None:
    """The layout is that of the program: each variant reads it."""
    text = product(8, 100, 2080, "f32", False, True)
    artifact = pd.compile(text, targets="cpu", cpu=machine_levels.of_this_machine(*LEVELS))
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((8, 100), dtype=np.float32), rng.standard_normal((100, 2080), dtype=np.float32)
    c = np.zeros(2080, np.float32)
    program = pd.device("cpu").load(artifact, parameters={"m": {"w": w}})
    np.testing.assert_allclose(program.f(x, c), np.maximum(x @ w, 0), rtol=1e-3, atol=1e-4)


def test_a_view_of_a_constant_is_packed() -> None:
    text = product(8, 100, 2080, "f32", False, True)
    viewed = text.replace('"w"> : tensor<100x2080xf32>', '"w"> : tensor<25x4x2080xf32>').replace(
        "%w = util.global.load @w : tensor<100x2080xf32>",
        """%v = util.global.load @w : tensor<25x4x2080xf32>
  %w = tensor.collapse_shape %v [[0, 1], [2]] : tensor<25x4x2080xf32> into tensor<100x2080xf32>""",
    )
    artifact = pd.compile(viewed, targets="cpu")
    assert is_packed(artifact)
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((8, 100), dtype=np.float32), rng.standard_normal((25, 4, 2080), dtype=np.float32)
    program = pd.device("cpu").load(artifact, parameters={"m": {"w": w}})
    found = program.f(x, np.zeros(2080, np.float32))
    np.testing.assert_allclose(found, np.maximum(x @ w.reshape(100, 2080), 0), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "k", "n", "transposed", "options", "why"),
    [
        (8, 100, 2080, False, {"targets": ["cpu", "sm_80"]}, "another target reads the constant too"),
        (8, 300, 97, False, {"targets": "cpu"}, "few columns are no whole panels"),
        (1, 100, 512, False, {"targets": "cpu"}, "the factor is in the cache"),
        (1, 100, 512, True, {"targets": "cpu"}, "the factor is in the cache"),
        (8, 10, 1088, False, {"targets": "cpu"}, "the factor is small"),
        (8, 100, 2080, False, {"targets": "cpu", "reassociate": False}, "products are plain loops"),
    ],
)
def test_what_stays_as_it_is(rows: int, k: int, n: int, transposed: bool, options: dict[str, Any], why: str) -> None:
    assert not is_packed(pd.compile(product(rows, k, n, "f32", transposed, True), **options)), why


@pytest.mark.parametrize(("rows", "k", "n"), [(1, 2048, 1024), (2, 100, 512)])
def test_weights_of_linear_layers_are_packed_for_few_rows(rows: int, k: int, n: int) -> None:
    """One row reads a matrix in place only if that is in the cache; from two rows on panels are faster there too."""
    assert is_packed(pd.compile(product(rows, k, n, "f32", True, True), targets="cpu"))


@pytest.mark.parametrize(
    ("k", "cpu", "packed"), [(784, "sapphirerapids", True), (384, "sapphirerapids", False), (300, "znver5", False)]
)
def test_workers_share_panels_that_cores_wait_for(k: int, cpu: str, packed: bool) -> None:
    """A row times a matrix of 1 MiB that is in the cache reads panels where the next cache is slow."""
    assert is_packed(pd.compile(product(1, k, 512, "f32", False, True), targets="cpu", cpu=cpu)) == packed


def test_a_constant_that_two_products_read_is_packed_once() -> None:
    text = product(8, 100, 2080, "f32", False, True)
    second = text[text.index("func.func") :].replace("@f", "@g")
    artifact = pd.compile(text + second, targets="cpu")
    assert disassemble(artifact.read("program.bin")).count("derived by function") == 1


def test_transposed_weights_are_kept_in_panels_alone() -> None:
    """What is derived on the way to panels takes no memory afterwards."""
    text = product(8, 100, 2080, "f32", False, True)
    transposed = text.replace('"w"> : tensor<100x2080xf32>', '"w"> : tensor<2080x100xf32>').replace(
        "%w = util.global.load @w : tensor<100x2080xf32>",
        """%v = util.global.load @w : tensor<2080x100xf32>
  %t = tensor.empty() : tensor<100x2080xf32>
  %w = linalg.transpose ins(%v : tensor<2080x100xf32>) outs(%t : tensor<100x2080xf32>) permutation = [1, 0]""",
    )
    artifact = pd.compile(transposed, targets="cpu")
    assert disassemble(artifact.read("program.bin")).count("derived by function") == 1
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((8, 100), dtype=np.float32), rng.standard_normal((2080, 100), dtype=np.float32)
    program = pd.device("cpu").load(artifact, parameters={"m": {"w": w}})
    found = program.f(x, np.zeros(2080, np.float32))
    np.testing.assert_allclose(found, np.maximum(x @ w.T, 0), rtol=1e-3, atol=1e-4)


def mapped_bytes(path: Path) -> int:
    """Bytes of the file's mappings that are in memory."""
    found, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            found += int(line.split()[1]) * 1024
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="the system has no /proc/self/smaps")
@pytest.mark.parametrize("name", ["f.pdx", "w.npz"])
def test_mapped_pages_of_packed_weights_are_dropped(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(7)
    w, c, x = (rng.standard_normal(shape, dtype=np.float32) for shape in [(600, 1024), (1024,), (5, 600)])
    path, text, parameters = tmp_path / name, product(5, 600, 1024, "f32", False, True), None
    if name == "w.npz":
        np.savez(path, w=w)
        parameters = {"m": path}
        artifact: Any = pd.compile(text, targets="cpu")
    else:
        artifact = path
        pd.compile(text.replace('#flow.parameter.named<"m"::"w">', f'dense<"0x{w.tobytes().hex()}">')).save(path)
    program = pd.device("cpu").load(artifact, parameters=parameters)
    for _ in range(2):
        np.testing.assert_allclose(program.f(x, c), np.maximum(x @ w + c, 0), rtol=1e-3, atol=1e-4)
        assert mapped_bytes(path) < w.nbytes // 8
