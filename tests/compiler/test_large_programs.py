"""Programs of many layers: compiling takes time in proportion to their length, and equal layers share their kernels."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.driver.options import prepare
from pydispatch.compiler.driver.pipeline import Pipeline

LAYER = """
  %m{i} = linalg.matmul ins(%h{i}, %w : {t}, tensor<16x16xf32>) outs(%z : {t}) -> {t}
  %a{i} = arith.addf %m{i}, %h{i} : {t}
  %b{i} = arith.mulf %a{i}, %m{i} : {t}
  %c{i} = arith.subf %b{i}, %a{i} : {t}
  %d{i} = arith.maximumf %c{i}, %c{i} : {t}
  %e{i} = arith.addf %d{i}, %c{i} : {t}
  %s{i} = linalg.generic {{indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}}
      ins(%e{i} : {t}) outs(%zr : {r}) {{
  ^bb0(%p: f32, %q: f32):
    %k = arith.maximumf %q, %p : f32
    linalg.yield %k : f32
  }} -> {r}
  %h{next} = linalg.generic {{indexing_maps = [#full, #row, #full], iterator_types = ["parallel", "parallel"]}}
      ins(%e{i}, %s{i} : {t}, {r}) outs(%empty : {t}) {{
  ^bb0(%p: f32, %q: f32, %o: f32):
    %k = arith.subf %p, %q : f32
    linalg.yield %k : f32
  }} -> {t}"""


def model(layers: int) -> str:
    t, r = "tensor<?x16xf32>", "tensor<?xf32>"
    body = "".join(LAYER.format(i=i, next=i + 1, t=t, r=r) for i in range(layers))
    return f"""
#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @f(%h0: {t}, %w: tensor<16x16xf32>) -> {t} {{
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0 : index
  %n = tensor.dim %h0, %first : {t}
  %empty = tensor.empty(%n) : {t}
  %row = tensor.empty(%n) : {r}
  %z = linalg.fill ins(%zero : f32) outs(%empty : {t}) -> {t}
  %zr = linalg.fill ins(%zero : f32) outs(%row : {r}) -> {r}{body}
  return %h{layers} : {t}
}}
"""


def chain(count: int) -> str:
    t = "tensor<8xf32>"
    adds = "".join(f"  %x{i + 1} = arith.addf %x{i}, %x0 : {t}\n" for i in range(count))
    return f"func.func @f(%x0: {t}) -> {t} {{\n{adds}  return %x{count} : {t}\n}}\n"


def calls_to_form(layers: int) -> int:
    """How many Python functions are called from the parsed program of a model to kernels."""
    return calls_for(model(layers))


def calls_for(text: str) -> int:
    """How many Python functions are called from a parsed program to kernels."""
    module, options = prepare(text, {"targets": "cpu"})
    pipeline = Pipeline(module, options)
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        pipeline.run_to("executables")
    finally:
        sys.setprofile(before)
    return calls


def test_work_grows_with_the_length_of_the_program():
    calls_to_form(1)  # imports modules and fills caches
    short, long = calls_to_form(15), calls_to_form(60)
    assert long < 5.5 * short


def test_work_of_one_dispatch_does_not_grow_with_the_cube_of_its_length():
    calls_for(chain(1))  # imports modules and fills caches
    short, long = calls_for(chain(20)), calls_for(chain(80))
    assert long < 4.4 * short


def test_work_of_long_chains_grows_with_their_length():
    """Also where no operation may join the last one, since their dispatch is full."""
    calls_for(chain(1))  # imports modules and fills caches
    short, long = calls_for(chain(200)), calls_for(chain(800))
    assert long < 4.4 * short


def test_work_of_wide_programs_grows_with_their_width():
    """Each product reads the same tensor, and could join any other one."""

    def products(count: int) -> str:
        t, z = "tensor<4x4xf32>", "outs(%z : tensor<4x4xf32>)"
        made = "".join(f"  %x{i} = linalg.matmul ins(%a, %b{i} : {t}, {t}) {z} -> {t}\n" for i in range(count))
        arguments, results = ", ".join(f"%b{i}: {t}" for i in range(count)), ", ".join([t] * count)
        return (
            f"func.func @f(%a: {t}, {arguments}) -> ({results}) {{\n  %z = arith.constant dense<0.0> : {t}\n{made}"
            f"  return {', '.join(f'%x{i}' for i in range(count))} : {results}\n}}\n"
        )

    calls_for(products(1))  # imports modules and fills caches
    short, long = calls_for(products(150)), calls_for(products(600))
    assert long < 5 * short


def test_work_of_many_branches_does_not_grow_with_their_cube():
    """Each of them may pass on what any earlier one computed: the boundaries that are listed are as many as pairs."""

    def branches(count: int) -> str:
        t = "tensor<8xf32>"
        made = "".join(
            f"  %x{i + 1} = scf.if %c -> ({t}) {{\n    %y{i} = math.exp %x{i} : {t}\n    scf.yield %y{i} : {t}\n"
            f"  }} else {{\n    scf.yield %x{i} : {t}\n  }}\n"
            for i in range(count)
        )
        return f"func.func @f(%x0: {t}, %c: i1) -> {t} {{\n{made}  return %x{count} : {t}\n}}\n"

    calls_for(branches(1))  # imports modules and fills caches
    short, long = calls_for(branches(20)), calls_for(branches(80))
    assert long < 11 * short


def test_long_chains_behind_a_contraction():
    """Every operation uses the last one twice: a walk that forgets where it was would never end."""
    t = "tensor<8x8xf32>"
    chain = "".join(f"  %x{i + 1} = arith.addf %x{i}, %x{i} : {t}\n" for i in range(60))
    artifact = pd.compile(f"""
func.func @f(%a: {t}, %b: {t}) -> {t} {{
  %zero = arith.constant dense<0.0> : {t}
  %x0 = linalg.matmul ins(%a, %b : {t}, {t}) outs(%zero : {t}) -> {t}
{chain}  return %x60 : {t}
}}
""")
    a, b = np.random.default_rng(1).integers(-8, 8, (2, 8, 8)).astype(np.float32)
    np.testing.assert_array_equal(pd.device("cpu").load(artifact).f(a, b), a @ b * np.float32(2.0**60))


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_equal_layers_share_their_kernels(rows):
    artifact = pd.compile(model(6))
    assert sum(len(executable.exports) for executable in artifact.executables) == 2
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((rows, 16), np.float32), rng.standard_normal((16, 16), np.float32) / 16
    expected = x
    for _ in range(6):
        m = expected @ w
        a = m + expected
        c = a * m - a
        e = c + c
        expected = e - np.maximum(e.max(axis=1, keepdims=True), 0)
    np.testing.assert_allclose(pd.device("cpu").load(artifact).f(x, w), expected, rtol=2e-4, atol=1e-4)


def test_what_differs_only_in_a_constant_is_not_equal():
    artifact = pd.compile("""
func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<5xf32>) {
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %y = arith.addf %x, %one : tensor<4xf32>
  %z = tensor.pad %y low[0] high[1] {
  ^bb0(%i: index):
    %two = arith.constant 2.0 : f32
    tensor.yield %two : f32
  } : tensor<4xf32> to tensor<5xf32>
  return %y, %z : tensor<4xf32>, tensor<5xf32>
}
func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = arith.constant dense<3.0> : tensor<4xf32>
  %y = arith.addf %x, %one : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @h(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = arith.constant dense<3.0> : tensor<4xf32>
  %y = arith.addf %x, %one : tensor<4xf32>
  return %y : tensor<4xf32>
}
""")
    program = pd.device("cpu").load(artifact)
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(program.f(x)[0], x + 1)
    np.testing.assert_array_equal(program.f(x)[1], [*(x + 1), 2])
    np.testing.assert_array_equal(program.g(x), x + 3)
    np.testing.assert_array_equal(program.h(x), x + 3)


WEIGHTS = """
import resource, sys
from pydispatch.compiler.driver.sources import load_source

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

load_source(sys.argv[1])
before = peak()
module, _ = load_source(sys.argv[2])
print(peak() - before)
"""


@pytest.mark.parametrize("count", [1, 3])
def test_weights_in_a_text_are_held_once(count: int, tmp_path: Path) -> None:
    """While they are read: two bytes of text and one of data for each."""
    for name, rows in (("small.mlir", 1), ("large.mlir", 8192)):
        t = f"tensor<{rows}x1024xf32>"
        digits = "0123456789ABCDEF" * (rows * 512)
        constants = "".join(f'  %w{i} = arith.constant dense<"0x{digits}"> : {t}\n' for i in range(count))
        (tmp_path / name).write_text(f"func.func @f() -> {t} {{\n{constants}  return %w0 : {t}\n}}\n")
    files = tmp_path / "small.mlir", tmp_path / "large.mlir"
    done = subprocess.run([sys.executable, "-c", WEIGHTS, *files], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 3.5 * count * (32 << 20)
