"""Exported programs in a page of headless Chromium: results against NumPy, errors, and the example as one sees it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest

import pydispatch as pd
from pydispatch.formats.web.site import save

ROOT = Path(__file__).resolve().parents[3]
PICTURES = ROOT / "build" / "suites" / "web" / "pictures"
PROGRAM = """
func.func @add(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %c = arith.addf %a, %b : tensor<?xf32>
  return %c : tensor<?xf32>
}
func.func @scale(%a: tensor<?x3xf32>, %s: f32) -> (tensor<?x3xf32>, index) {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %a, %c0 : tensor<?x3xf32>
  %e = tensor.empty(%d) : tensor<?x3xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]} ins(%a : tensor<?x3xf32>) outs(%e : tensor<?x3xf32>) {
  ^bb0(%x: f32, %y: f32):
    %z = arith.mulf %x, %s : f32
    linalg.yield %z : f32
  } -> tensor<?x3xf32>
  %two = arith.constant 2 : index
  %n = arith.muli %d, %two : index
  return %r, %n : tensor<?x3xf32>, index
}
func.func @matmul(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %a, %c0 : tensor<?x?xf32>
  %n = tensor.dim %b, %c1 : tensor<?x?xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%f : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
func.func @rows(%a: tensor<6x5xi32>) -> tensor<9x5xi32> {
  %s = tensor.extract_slice %a[1, 0] [3, 5] [1, 1] : tensor<6x5xi32> to tensor<3x5xi32>
  %t = arith.muli %s, %s : tensor<3x5xi32>
  %c = tensor.concat dim(0) %t, %a : (tensor<3x5xi32>, tensor<6x5xi32>) -> tensor<9x5xi32>
  return %c : tensor<9x5xi32>
}
func.func @square(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = linalg.matmul ins(%a, %a : tensor<8x8xf32>, tensor<8x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
func.func @halves(%a: tensor<128xf32>) -> tensor<63xf32> {
  %s = tensor.extract_slice %a[1] [63] [1] : tensor<128xf32> to tensor<63xf32>
  %t = tensor.extract_slice %a[33] [63] [1] : tensor<128xf32> to tensor<63xf32>
  %c = arith.addf %s, %t : tensor<63xf32>
  return %c : tensor<63xf32>
}
func.func @wide(%a: tensor<7xi64>, %b: tensor<7xf16>) -> (tensor<7xi64>, tensor<7xf16>) {
  %c = arith.muli %a, %a : tensor<7xi64>
  %d = arith.addf %b, %b : tensor<7xf16>
  return %c, %d : tensor<7xi64>, tensor<7xf16>
}
"""
PAGE = """<!doctype html><title>cases</title>%s<script type="module">
import { load } from './pydispatch.js';
const ARRAYS = { float32: Float32Array, int32: Int32Array, int64: BigInt64Array, uint16: Uint16Array };
const encoded = (_, each) => (typeof each === 'bigint' ? { big: String(each) }
  : ArrayBuffer.isView(each) ? Array.from(each) : each);
const report = [];
try {
  const program = await load('program.json');
  for (const { name, values } of await (await fetch('cases.json')).json()) {
    const given = values.map((value) => (value?.type ? { shape: value.shape, data: value.type === 'int64'
      ? BigInt64Array.from(value.data, BigInt) : ARRAYS[value.type].from(value.data) } : value));
    try {
      report.push({ results: await program.call(name, ...given) });
    } catch (error) { report.push({ error: error.message }); }
  }
} catch (error) { report.push({ error: `${error.message} ${error.stack}` }); }
await fetch('/report', { method: 'POST', body: JSON.stringify(report, encoded) });
</script>"""


def _value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        data = [str(each) for each in value.ravel()] if value.dtype == np.int64 else value.ravel().tolist()
        return {"type": value.dtype.name, "shape": value.shape, "data": data}
    return value


def _array(result: Any, dtype: Any) -> Any:
    values = [int(each["big"]) if isinstance(each, dict) else each for each in result["data"]]
    return np.array(values, dtype).reshape(result["shape"])


@pytest.fixture(scope="module", autouse=True)
def _chromium() -> None:
    if browser.CHROMIUM is None:
        pytest.fail("there is no Chromium (apt-get install chromium)")


def _calls(folder: Path, source: str, cases: list[tuple[str, list[Any]]]) -> Any:
    folder.mkdir(exist_ok=True)
    save(pd.compile(source, targets="webgpu"), folder, "program")
    (folder / "cases.json").write_text(json.dumps([{"name": n, "values": [_value(v) for v in vs]} for n, vs in cases]))
    (folder / "cases.html").write_text(PAGE % browser.WAITING)
    return browser.show(folder, "cases.html", folder / "cases.png")


def test_results_and_errors(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    a, b = (random.standard_normal(1000).astype(np.float32) for _ in range(2))
    table = random.standard_normal((37, 3)).astype(np.float32)
    left, right = (random.standard_normal(s).astype(np.float32) for s in ((33, 50), (50, 21)))
    rows = random.integers(-99, 99, (6, 5)).astype(np.int32)
    wide, half = random.integers(-(1 << 60), 1 << 60, 7), random.standard_normal(7).astype(np.float16)
    empty = np.zeros(0, np.float32)
    found = _calls(tmp_path / "site", PROGRAM, [
        ("add", [a, b]), ("scale", [table, 2.5]), ("matmul", [left, right]), ("rows", [rows]),
        ("wide", [wide, half.view(np.uint16)]), ("add", [empty, empty]), ("add", [a, b[:10]]), ("add", [a]),
        ("nothing", []), ("add", [rows, a]), ("scale", [table, a]), ("square", [left[:8, :8]]), ("halves", [a[:128]]),
    ])  # fmt: skip
    results = [each.get("results") for each in found]
    assert all(results[:6]), found
    np.testing.assert_array_equal(_array(results[0][0], np.float32), a + b)
    np.testing.assert_array_equal(_array(results[1][0], np.float32), table * np.float32(2.5))
    assert results[1][1] == {"big": "74"}
    np.testing.assert_allclose(_array(results[2][0], np.float32), left @ right, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(_array(results[3][0], np.int32), np.concatenate([rows[1:4] ** 2, rows]))
    np.testing.assert_array_equal(_array(results[4][0], np.int64), wide * wide)
    np.testing.assert_array_equal(_array(results[4][1], np.uint16), (half + half).view(np.uint16))
    assert results[5][0] == {"data": [], "shape": [0]}
    np.testing.assert_allclose(_array(results[11][0], np.float32), left[:8, :8] @ left[:8, :8], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(_array(results[12][0], np.float32), a[1:64] + a[33:96])
    errors = [each["error"] for each in found[6:11]]
    assert "1000" in errors[0] and "10" in errors[0]
    assert errors[1].startswith("add takes 2 values, got 1: (")
    assert errors[2] == "there is no function 'nothing'; the program has add, scale, matmul, rows, square, halves, wide"
    assert errors[3] == "add, argument 0 (a): expected a Float32Array for f32"
    assert errors[4] == "scale, argument 1 (s): expected a number for f32, got object"


def test_a_kernel_with_more_buffers_than_browsers_have(tmp_path: Path) -> None:
    """One operation on twelve tensors of two types and sizes that are no multiple of a vector."""
    types = ["f32", "i32"] * 6
    arguments = ", ".join(f"%a{i}: tensor<?x{t}>" for i, t in enumerate(types))
    lines = ["%s0 = arith.addf %x0, %zero : f32"]
    for i, type_ in enumerate(types[1:], 1):
        lines.append(f"%c{i} = arith.{'sitofp' if type_ == 'i32' else 'mulf'} %x{i}"
                     f"{' : i32 to f32' if type_ == 'i32' else ', %two : f32'}")  # fmt: skip
        lines.append(f"%s{i} = arith.addf %s{i - 1}, %c{i} : f32")
    source = f"""func.func @many({arguments}) -> tensor<?xf32> {{
      %zero = arith.constant 0.0 : f32
      %two = arith.constant 2.0 : f32
      %first = arith.constant 0 : index
      %d = tensor.dim %a0, %first : tensor<?xf32>
      %e = tensor.empty(%d) : tensor<?xf32>
      %r = linalg.generic {{indexing_maps = [{", ".join(["affine_map<(i) -> (i)>"] * 13)}],
          iterator_types = ["parallel"]}}
        ins({", ".join(f"%a{i}" for i in range(12))} : {", ".join(f"tensor<?x{t}>" for t in types)})
        outs(%e : tensor<?xf32>) {{
      ^bb0({", ".join(f"%x{i}: {t}" for i, t in enumerate(types))}, %o: f32):
        {chr(10).join(lines)}
        linalg.yield %s11 : f32
      }} -> tensor<?xf32>
      return %r : tensor<?xf32>
    }}"""
    random = np.random.default_rng(4)
    dtypes = {"f32": np.float32, "i32": np.int32}
    given = [[random.integers(-9, 9, n).astype(dtypes[t]) for t in types] for n in (3, 100)]
    found = _calls(tmp_path / "site", source, [("many", each) for each in given])
    assert "merged_offsets" in (tmp_path / "site" / "shaders" / "0-0-1.wgsl").read_text()
    for each, values in zip(found, given, strict=True):
        expected = sum(x if t == "i32" or i == 0 else 2 * x for i, (t, x) in enumerate(zip(types, values, strict=True)))
        np.testing.assert_array_equal(_array(each["results"][0], np.float32), expected)


DRAWS = """
<script type="module">
const until = async (test) => { while (!test()) await new Promise((next) => setTimeout(next, 20)); };
const status = document.querySelector('#status');
await until(() => status.textContent === 'Ready.' || status.textContent.includes('not run'));
const canvas = document.querySelector('#drawing');
canvas.setPointerCapture = () => {};
const answers = [];
for (const line of LINES) {
  document.querySelector('#clear').click();
  const box = canvas.getBoundingClientRect();
  line.forEach(([x, y], i) => canvas.dispatchEvent(new PointerEvent(i ? 'pointermove' : 'pointerdown', {
    clientX: box.left + x * box.width, clientY: box.top + y * box.height })));
  canvas.dispatchEvent(new PointerEvent('pointerup'));
  await until(() => status.textContent !== 'Ready.');
  await new Promise((next) => setTimeout(next, 500));
  answers.push(status.textContent);
}
const wide = document.documentElement.scrollWidth > window.innerWidth;
await fetch('/report', { method: 'POST', body: JSON.stringify({ answers, wide }) });
</script></body>"""
LINES = {  # drawn by hand, not by make.py
    "A 1": [[0.5, 0.15], [0.5, 0.85]],
    "A 0": [[0.5 + 0.22 * np.sin(t), 0.5 - 0.33 * np.cos(t)] for t in np.linspace(0, 2 * np.pi, 20)],
    "A 7": [[0.3, 0.18], [0.7, 0.18], [0.45, 0.85]],
    "A 2": [[0.32, 0.3], [0.42, 0.17], [0.58, 0.17], [0.67, 0.3], [0.62, 0.45], [0.32, 0.83], [0.7, 0.83]],
}


def test_a_drawn_digit_is_read(tmp_path: Path) -> None:
    site = tmp_path / "site"
    make = ROOT / "examples" / "webgpu" / "digits" / "make.py"
    subprocess.run([sys.executable, str(make), str(site)], check=True)
    page = (site / "index.html").read_text()
    lines = json.dumps([[list(map(float, point)) for point in line] for line in LINES.values()])
    (site / "index.html").write_text(page.replace("</body>", browser.WAITING + DRAWS.replace("LINES", lines)))
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, size in {"wide": (900, 640), "narrow": (390, 844)}.items():
        found = browser.show(site, "index.html", PICTURES / f"digits-{name}.png", size)
        assert [answer.split(",")[0] for answer in found["answers"]] == list(LINES), found
        assert not found["wide"], "the page is wider than its window"
        assert (PICTURES / f"digits-{name}.png").stat().st_size > 5000
