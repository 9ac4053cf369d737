"""Procedures on devices: tensors stay there between steps and calls, and copies to and from the process are counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_host_cases import CASES

import pydispatch as pd

DEVICES = {"vulkan": "vulkan", "ptx-interpreter": "sm_80"}
EVERYWHERE = {"cpu": "cpu", **DEVICES}

HEADS, WIDTH, LAYERS, LENGTH, WORDS = 2, 8, 4, 16, 11


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Any:
    return pd.device(request.param)


def load(device: Any, source: str) -> Any:
    scheme = device.name.partition(":")[0]
    return device.load(pd.compile(source, targets=[EVERYWHERE[scheme]]))


def copies(device: Any, before: dict[str, int]) -> tuple[int, int, int, int]:
    """Copies to the device, their bytes, copies from the device and their bytes, since `before`."""
    to, to_bytes, from_, from_bytes = (count - before[name] for name, count in device.transfers().items())
    return to, to_bytes, from_, from_bytes


@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(device: Any, name: str) -> None:
    source, args, expected = CASES[name]
    found = load(device, source).f(*args)
    got = found if isinstance(found, tuple) else (found,)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for one, other in zip(got, wanted, strict=True):
        assert np.array_equal(np.asarray(one), np.asarray(other)), name


def decoder() -> str:
    """A step of a small decoder: a token in, logits out; keys and values of each layer are kept in globals."""
    inner, w, n, h = WIDTH // HEADS, WIDTH, LENGTH, HEADS
    lines = []
    for layer in range(LAYERS):
        for kind in "kv":
            lines.append(f"util.global private mutable @{kind}{layer} = dense<0.0> : tensor<{n}x{w}xf32>")
    lines.append("util.global private mutable @position = 0 : index")
    lines += [
        f"func.func @step(%token: tensor<1xi32>, %embedding: tensor<{WORDS}x{w}xf32>, "
        f"%weights: tensor<{LAYERS}x4x{w}x{w}xf32>) -> tensor<{WORDS}xf32> {{",
        "%zero = arith.constant 0.0 : f32",
        "%one = arith.constant 1 : index",
        f"%scale = arith.constant {inner**-0.5} : f32",
        "%low = arith.constant -1.0e30 : f32",
        "%position = util.global.load @position : index",
        f"%row = tensor.empty() : tensor<{w}xf32>",
        f"""%x0 = linalg.generic {{indexing_maps = [affine_map<(d0) -> (0)>, affine_map<(d0) -> (d0)>],
          iterator_types = ["parallel"]}} ins(%token : tensor<1xi32>) outs(%row : tensor<{w}xf32>) {{
          ^bb0(%t: i32, %o: f32):
            %ti = arith.index_cast %t : i32 to index
            %d = linalg.index 0 : index
            %e = tensor.extract %embedding[%ti, %d] : tensor<{WORDS}x{w}xf32>
            linalg.yield %e : f32
        }} -> tensor<{w}xf32>""",
        f"%zeros = linalg.fill ins(%zero : f32) outs(%row : tensor<{w}xf32>) -> tensor<{w}xf32>",
    ]
    for i in range(LAYERS):
        for number, name in enumerate("qkvo"):
            lines.append(
                f"%w{name}{i} = tensor.extract_slice %weights[{i}, {number}, 0, 0] [1, 1, {w}, {w}] [1, 1, 1, 1] : "
                f"tensor<{LAYERS}x4x{w}x{w}xf32> to tensor<{w}x{w}xf32>"
            )
        for name in "qkv":
            lines.append(
                f"%{name}{i} = linalg.matvec ins(%w{name}{i}, %x{i} : tensor<{w}x{w}xf32>, tensor<{w}xf32>) "
                f"outs(%zeros : tensor<{w}xf32>) -> tensor<{w}xf32>"
            )
        for name in "kv":
            lines += [
                f"%old{name}{i} = util.global.load @{name}{i} : tensor<{n}x{w}xf32>",
                f"%all{name}{i} = tensor.insert_slice %{name}{i} into %old{name}{i}[%position, 0] [1, {w}] [1, 1] : "
                f"tensor<{w}xf32> into tensor<{n}x{w}xf32>",
                f"util.global.store %all{name}{i}, @{name}{i} : tensor<{n}x{w}xf32>",
            ]
        lines += [
            f"%qh{i} = tensor.expand_shape %q{i} [[0, 1]] output_shape [{h}, {inner}] : tensor<{w}xf32> "
            f"into tensor<{h}x{inner}xf32>",
            *(
                f"%{name}h{i} = tensor.expand_shape %all{name}{i} [[0], [1, 2]] output_shape [{n}, {h}, {inner}] : "
                f"tensor<{n}x{w}xf32> into tensor<{n}x{h}x{inner}xf32>"
                for name in "kv"
            ),
            f"%es{i} = tensor.empty() : tensor<{h}x{n}xf32>",
            f"%fs{i} = linalg.fill ins(%zero : f32) outs(%es{i} : tensor<{h}x{n}xf32>) -> tensor<{h}x{n}xf32>",
            f"""%s{i} = linalg.generic {{indexing_maps = [affine_map<(h, n, d) -> (h, d)>,
              affine_map<(h, n, d) -> (n, h, d)>, affine_map<(h, n, d) -> (h, n)>],
              iterator_types = ["parallel", "parallel", "reduction"]}}
              ins(%qh{i}, %kh{i} : tensor<{h}x{inner}xf32>, tensor<{n}x{h}x{inner}xf32>)
              outs(%fs{i} : tensor<{h}x{n}xf32>) {{
              ^bb0(%a: f32, %b: f32, %o: f32):
                %p = arith.mulf %a, %b : f32
                %r = arith.addf %o, %p : f32
                linalg.yield %r : f32
            }} -> tensor<{h}x{n}xf32>""",
            f"""%m{i} = linalg.generic {{indexing_maps = [affine_map<(h, n) -> (h, n)>, affine_map<(h, n) -> (h, n)>],
              iterator_types = ["parallel", "parallel"]}} ins(%s{i} : tensor<{h}x{n}xf32>)
              outs(%es{i} : tensor<{h}x{n}xf32>) {{
              ^bb0(%a: f32, %o: f32):
                %at = linalg.index 1 : index
                %past = arith.cmpi sle, %at, %position : index
                %b = arith.mulf %a, %scale : f32
                %r = arith.select %past, %b, %low : f32
                linalg.yield %r : f32
            }} -> tensor<{h}x{n}xf32>""",
            f"%p{i} = linalg.softmax dimension(1) ins(%m{i} : tensor<{h}x{n}xf32>) outs(%es{i} : tensor<{h}x{n}xf32>) "
            f"-> tensor<{h}x{n}xf32>",
            f"%ey{i} = tensor.empty() : tensor<{h}x{inner}xf32>",
            f"%fy{i} = linalg.fill ins(%zero : f32) outs(%ey{i} : tensor<{h}x{inner}xf32>) -> tensor<{h}x{inner}xf32>",
            f"""%y{i} = linalg.generic {{indexing_maps = [affine_map<(h, d, n) -> (h, n)>,
              affine_map<(h, d, n) -> (n, h, d)>, affine_map<(h, d, n) -> (h, d)>],
              iterator_types = ["parallel", "parallel", "reduction"]}}
              ins(%p{i}, %vh{i} : tensor<{h}x{n}xf32>, tensor<{n}x{h}x{inner}xf32>)
              outs(%fy{i} : tensor<{h}x{inner}xf32>) {{
              ^bb0(%a: f32, %b: f32, %o: f32):
                %p = arith.mulf %a, %b : f32
                %r = arith.addf %o, %p : f32
                linalg.yield %r : f32
            }} -> tensor<{h}x{inner}xf32>""",
            f"%yf{i} = tensor.collapse_shape %y{i} [[0, 1]] : tensor<{h}x{inner}xf32> into tensor<{w}xf32>",
            f"%x{i + 1} = linalg.matvec ins(%wo{i}, %yf{i} : tensor<{w}x{w}xf32>, tensor<{w}xf32>) "
            f"outs(%x{i} : tensor<{w}xf32>) -> tensor<{w}xf32>",
        ]
    lines += [
        f"%el = tensor.empty() : tensor<{WORDS}xf32>",
        f"%fl = linalg.fill ins(%zero : f32) outs(%el : tensor<{WORDS}xf32>) -> tensor<{WORDS}xf32>",
        f"%logits = linalg.matvec ins(%embedding, %x{LAYERS} : tensor<{WORDS}x{w}xf32>, tensor<{w}xf32>) "
        f"outs(%fl : tensor<{WORDS}xf32>) -> tensor<{WORDS}xf32>",
        "%next = arith.addi %position, %one : index",
        "util.global.store %next, @position : index",
        f"return %logits : tensor<{WORDS}xf32>",
        "}",
    ]
    return "\n".join(lines)


def decode(tokens: list[int], embedding: Any, weights: Any) -> list[Any]:
    """The logits of every step, by NumPy."""
    inner = WIDTH // HEADS
    keys = [[] for _ in range(LAYERS)]  # type: list[list[Any]]
    values = [[] for _ in range(LAYERS)]  # type: list[list[Any]]
    found = []
    for token in tokens:
        x = embedding[token].astype(np.float64)
        for layer in range(LAYERS):
            q, k, v = (weights[layer, i] @ x for i in range(3))
            keys[layer].append(k.reshape(HEADS, inner))
            values[layer].append(v.reshape(HEADS, inner))
            scores = np.einsum("hd,nhd->hn", q.reshape(HEADS, inner), np.array(keys[layer])) * inner**-0.5
            parts = np.exp(scores - scores.max(1, keepdims=True))
            parts /= parts.sum(1, keepdims=True)
            x = x + weights[layer, 3] @ np.einsum("hn,nhd->hd", parts, np.array(values[layer])).reshape(-1)
        found.append(embedding @ x)
    return found


def test_a_decode_step_copies_the_token_and_the_logits(device: Any) -> None:
    rng = np.random.default_rng(7)
    embedding = rng.standard_normal((WORDS, WIDTH)).astype(np.float32)
    weights = (rng.standard_normal((LAYERS, 4, WIDTH, WIDTH)) * 0.3).astype(np.float32)
    program = load(device, decoder())
    there = device.upload(embedding), device.upload(weights)
    tokens = [int(t) for t in rng.integers(0, WORDS, 6)]
    logits = np.empty(WORDS, np.float32)
    for token, expected in zip(tokens, decode(tokens, embedding, weights), strict=True):
        before = device.transfers()
        found = program.step(np.array([token], np.int32), *there)
        assert copies(device, before) == (1, 4, 0, 0)
        found.download(logits)
        assert copies(device, before) == (1, 4, 1, 4 * WORDS)
        assert np.allclose(logits, expected, rtol=1e-4, atol=1e-4)


RNN = """
func.func @f(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>, %n: index) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %first = linalg.fill ins(%z : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%h = %first) -> tensor<8xf32> {
    %row = tensor.extract_slice %x[%i, 0] [1, 8] [1, 1] : tensor<?x8xf32> to tensor<8xf32>
    %sum = linalg.matvec ins(%w, %h : tensor<8x8xf32>, tensor<8xf32>) outs(%row : tensor<8xf32>) -> tensor<8xf32>
    %r = math.tanh %sum : tensor<8xf32>
    scf.yield %r : tensor<8xf32>
  }
  return %last : tensor<8xf32>
}"""


def test_a_loop_carries_its_state_on_the_device(device: Any) -> None:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((9, 8)).astype(np.float32), rng.standard_normal((8, 8)).astype(np.float32) * 0.4
    program = load(device, RNN)
    there = device.upload(x), device.upload(w)
    before = device.transfers()
    found = program.f(*there, 9)
    assert copies(device, before) == (0, 0, 0, 0)
    h = np.zeros(8)
    for row in x:
        h = np.tanh(w @ h + row)
    assert np.allclose(found.numpy(), h, atol=1e-4)


SEARCH = """
func.func @f(%x: tensor<8xf32>) -> (tensor<8xf32>, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %limit = arith.constant 100.0 : f32
  %r:2 = scf.while (%a = %x, %i = %c0) : (tensor<8xf32>, index) -> (tensor<8xf32>, index) {
    %v = tensor.extract %a[%c1] : tensor<8xf32>
    %more = arith.cmpf olt, %v, %limit : f32
    scf.condition(%more) %a, %i : tensor<8xf32>, index
  } do {
  ^bb0(%a: tensor<8xf32>, %i: index):
    %b = arith.addf %a, %a : tensor<8xf32>
    %j = arith.addi %i, %c1 : index
    scf.yield %b, %j : tensor<8xf32>, index
  }
  return %r#0, %r#1 : tensor<8xf32>, index
}"""


def test_only_the_element_that_decides_is_read(device: Any) -> None:
    program = load(device, SEARCH)
    x = device.upload(np.arange(8, dtype=np.float32))
    before = device.transfers()
    found, count = program.f(x)
    assert count == 7 and copies(device, before) == (0, 0, 8, 32)  # the condition of 8 rounds
    assert np.array_equal(found.numpy(), np.arange(8) * 128)
    assert np.array_equal(x.numpy(), np.arange(8))  # an argument is not written


KEPT = """
util.global private mutable @kept = dense<1.0> : tensor<4xf32>
func.func @swap(%x: tensor<4xf32>) -> tensor<4xf32> {
  %old = util.global.load @kept : tensor<4xf32>
  util.global.store %x, @kept : tensor<4xf32>
  return %old : tensor<4xf32>
}
func.func @same(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %old = util.global.load @kept : tensor<4xf32>
  %e = tensor.extract %old[%c0] : tensor<4xf32>
  %z = arith.constant 0.0 : f32
  %c = arith.cmpf olt, %e, %z : f32
  %r = arith.select %c, %old, %x : tensor<4xf32>
  return %x, %r : tensor<4xf32>, tensor<4xf32>
}"""


def test_what_is_kept_is_not_the_callers_memory(device: Any) -> None:
    program = load(device, KEPT)
    x = device.upload(np.full(4, 2, np.float32))
    assert program.swap(x).tolist() == [1] * 4
    x.upload(np.zeros(4, np.float32))
    found = program.swap(np.full(4, 3, np.float32))
    assert found.tolist() == [2] * 4
    found.upload(np.zeros(4, np.float32))
    one, two = program.same(x)
    one.upload(np.full(4, 9, np.float32))
    assert x.tolist() == [0] * 4 and two.tolist() == [0] * 4
    out, array = device.empty(4), np.zeros(4, np.float32)
    assert program.swap(x, out=out) is out and out.tolist() == [3] * 4
    assert program.swap(x, out=array) is array and array.tolist() == [0] * 4


def test_a_buffer_of_another_device_is_copied(device: Any) -> None:
    program, other = load(device, KEPT), pd.device("vulkan" if device.name == "ptx-interpreter" else "ptx-interpreter")
    program.swap(other.upload(np.full(4, 5, np.float32)))
    out = other.empty(4)
    assert program.swap(np.zeros(4, np.float32), out=out) is out and out.tolist() == [5] * 4


def test_wrong_arguments(device: Any) -> None:
    program = load(device, KEPT)
    with pytest.raises(pd.InvalidArgumentError, match="argument 0 'x': expected 4xf32, got a buffer of"):
        program.swap(device.upload(np.zeros(4, np.int32)))
    with pytest.raises(pd.InvalidArgumentError, match="axis 0: expected 4"):
        program.swap(device.upload(np.zeros(5, np.float32)))
    with pytest.raises(pd.InvalidArgumentError, match="out 0"):
        program.swap(np.zeros(4, np.float32), out=device.empty(5))


def test_memory_goes_back(device: Any) -> None:
    program = load(device, KEPT)
    program.swap(np.zeros(4, np.float32))
    before = device.memory()["live_blocks"]
    for _ in range(5):
        program.swap(np.zeros(4, np.float32))
    assert device.memory()["live_blocks"] == before
    with pytest.raises(pd.InvalidArgumentError):
        program.swap(np.zeros(5, np.float32))
    assert device.memory()["live_blocks"] == before


CACHE = """
util.global private mutable @cache = dense<0.0> : tensor<512x64xf32>
util.global private mutable @position = 0 : index
func.func @step(%x: tensor<64xf32>) -> tensor<512xf32> {
  %old = util.global.load @cache : tensor<512x64xf32>
  %position = util.global.load @position : index
  %one = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %new = tensor.insert_slice %x into %old[%position, 0] [1, 64] [1, 1] : tensor<64xf32> into tensor<512x64xf32>
  %e = tensor.empty() : tensor<512xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<512xf32>) -> tensor<512xf32>
  %r = linalg.matvec ins(%new, %x : tensor<512x64xf32>, tensor<64xf32>) outs(%i : tensor<512xf32>) -> tensor<512xf32>
  util.global.store %new, @cache : tensor<512x64xf32>
  %next = arith.addi %position, %one : index
  util.global.store %next, @position : index
  return %r : tensor<512xf32>
}
func.func @look() -> tensor<512x64xf32> {
  %c = util.global.load @cache : tensor<512x64xf32>
  return %c : tensor<512x64xf32>
}"""


def test_a_cache_is_updated_in_place() -> None:
    device = pd.device("ptx-interpreter")
    program, size = load(device, CACHE), 512 * 64 * 4
    x = np.ones(64, np.float32)
    for i in range(1, 5):
        assert program.step(x).numpy().sum() == 64 * i
    assert device.memory()["peak_bytes"] < 2.5 * size  # the constant that it begins as, and the cache
    assert program.look().numpy().sum() == 64 * 4
