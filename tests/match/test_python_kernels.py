# ruff: noqa: E501, F821, UP037  (programs; sizes of a pattern are names)
"""Names that could clash, sizes that must be equal, and what users' functions may return and raise."""

from __future__ import annotations

from pathlib import Path

import match_cases as cases
import numpy as np
import pytest

import pydispatch as pd
from pydispatch.cli.__main__ import main as cli
from pydispatch.compiler.driver.dry_run import dry_run
from pydispatch.compiler.match import MatchWarning
from pydispatch.errors import CompileError, InvalidArgumentError
from pydispatch.patterns import Pattern


def square() -> Pattern:
    @pd.pattern
    def square_diff(a: pd.f32["n"], b: pd.f32["n"]):
        return (a - b) * (a - b)

    return square_diff


def test_a_pattern_may_be_called_as_its_function() -> None:
    kernel = pd.CFunction(cases.KERNEL, "square_diff", tile={"n": 16})
    p, q = np.arange(40, dtype=np.float32), np.ones(40, np.float32)
    got = pd.device("cpu").load(pd.compile(cases.DYNAMIC, patterns=square().replace(kernel))).f(p, q)
    np.testing.assert_array_equal(got, (p - q) ** 2 + 100)


BIAS = """func.func @f(%a: tensor<4x8xf32>, %b: tensor<8xf32>, %s: f32) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %bb = linalg.broadcast ins(%b : tensor<8xf32>) outs(%e : tensor<4x8xf32>) dimensions = [0]
  %ss = linalg.fill ins(%s : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = arith.mulf %a, %bb : tensor<4x8xf32>
  %2 = arith.addf %1, %ss : tensor<4x8xf32>
  return %2 : tensor<4x8xf32> }"""


@pytest.mark.parametrize("traced", [False, True])
def test_names_that_the_compiler_uses_too(traced: bool) -> None:
    @pd.pattern
    def r(r: pd.f32["c0", "x"], v1: pd.f32["x"], c1: pd.f32):
        return r * v1 + c1

    text = "#include <stddef.h>\nvoid r(const float* a, const float* b, float c, float* o, size_t m, size_t n) { for (size_t i = 0; i < m * n; ++i) o[i] = a[i] * b[i % n] + c; }"
    r.replace((lambda r, v1, c1: c1 + v1 * r) if traced else pd.CFunction(text, "r"))
    a, b, s = np.arange(32, dtype=np.float32).reshape(4, 8), np.arange(8, dtype=np.float32), np.float32(0.5)
    got = pd.device("cpu").load(pd.compile(BIAS, patterns=[r], require_match=True)).f(a, b, s)
    np.testing.assert_array_equal(got, a * b + s)


def test_names_that_cannot_be() -> None:
    with pytest.raises(InvalidArgumentError, match="'n' is a parameter and a size"):

        @pd.pattern
        def both(n: pd.f32["n"]):
            return -n

    with pytest.raises(InvalidArgumentError, match="'out0' is what kernels call something else"):

        @pd.pattern
        def reserved(out0: pd.f32["n"]):
            return -out0

    with pytest.raises(InvalidArgumentError, match="a size is a number, a name or None, got 'n m'"):
        pd.f32["n m"]


PRODUCT = """func.func @f(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %m = tensor.dim %a, %c0 : tensor<?x?xf32>
  %n = tensor.dim %b, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%f : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32> }"""
SQUARES = PRODUCT.replace("(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>)", "(%x: tensor<?xf32>)").replace(
    "%z =",
    "%k = tensor.dim %x, %c0 : tensor<?xf32>\n  %a = tensor.empty(%k, %k) : tensor<?x?xf32>\n  %b = tensor.empty(%k, %k) : tensor<?x?xf32>\n  %z =",
)
STATIC = PRODUCT.replace("tensor<?x?xf32>", "tensor<4x4xf32>").replace("tensor.empty(%m, %n)", "tensor.empty()")


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (PRODUCT, "size n: size 0 of a and size 1 of a are not known to be equal"),
        (STATIC.replace("%a: tensor<4x4xf32>", "%a: tensor<4x2xf32>").replace("%b: tensor<4x4xf32>", "%b: tensor<2x4xf32>").replace("ins(%a, %b : tensor<4x4xf32>, tensor<4x4xf32>", "ins(%a, %b : tensor<4x2xf32>, tensor<2x4xf32>").replace("dim %a, %c0 : tensor<4x4xf32>", "dim %a, %c0 : tensor<4x2xf32>").replace("dim %b, %c1 : tensor<4x4xf32>", "dim %b, %c1 : tensor<2x4xf32>"), "size n is 4 as size 0 of a and 2 as size 1 of a"),
        (STATIC, None),
        (SQUARES, None),
    ],
)  # fmt: skip
def test_equal_names_must_be_equal_in_every_run(program: str, why: str | None) -> None:
    """A kernel for square matrices does not get others, static or not."""

    @pd.pattern
    def squares(a: pd.f32["n", "n"], b: pd.f32["n", "n"]):
        return a @ b

    report, _ = dry_run(program, patterns=[squares])
    assert bool(report.found) == (why is None)
    assert why is None or report.near["squares"][0].reason == why


MADE = {
    "bytes": (b"\x7fELF\x02\x01\x01 no object", "returned bytes that are no object", "C text"),
    "ptx": ("//\n.version 7.0\n.target sm_50\n", "returned PTX without a grid", "pydispatch.ptx(text"),
    "spirv": (b"\x03\x02\x23\x07....", "returned SPIR-V without a grid", "pydispatch.shader(data"),
    "number": (7, "was given 7 for a kernel", "C text, the bytes of an object"),
}


@pytest.mark.parametrize("name", MADE)
def test_what_a_generator_cannot_return(name: str) -> None:
    made, message, note = MADE[name]
    pattern = square()
    pattern.generate(lambda m: made)
    with pytest.raises(CompileError) as error:
        pd.compile(cases.STATIC, patterns=[pattern])
    assert message in error.value.message and note in (error.value.note or "") and error.value.location is not None


def test_generated_c_may_have_members_that_are_named_like_directives_of_ptx() -> None:
    members = """struct header { int version, target; };
int header_sum(void) { struct header h = {.version = 1, .target = 2}; return h.version + h.target; }
"""
    pattern = square()
    pattern.generate(lambda m: members + cases.KERNEL.replace("square_diff", m.symbol))
    pd.compile(cases.STATIC, patterns=[pattern])


def test_the_bytes_of_an_object_and_the_targets(tmp_path: Path) -> None:
    import subprocess
    import sys

    (tmp_path / "k.c").write_text(
        cases.KERNEL.replace("size_t n, size_t first) {", "size_t n) { size_t first = 0; n = n < 16 ? n : 16;").replace(
            "square_diff", "square_diff_kernel"
        )
    )
    seen = []
    pattern = square()

    @pattern.generate
    def make(m: object) -> bytes:
        seen.extend(m.targets)  # type: ignore[attr-defined]
        command = [
            sys.executable,
            "-m",
            "ziglang",
            "cc",
            "-c",
            "-O1",
            "-fno-sanitize=all",
            "-ffreestanding",
            tmp_path / "k.c",
            "-o",
            tmp_path / "k.o",
        ]
        subprocess.run(command, check=True)
        return (tmp_path / "k.o").read_bytes()

    x = np.arange(8, dtype=np.float32)
    artifact = pd.compile(cases.STATIC.replace("40", "8"), patterns=[pattern])
    np.testing.assert_array_equal(pd.device("cpu").load(artifact).f(x, x * 0), x * x + 100)
    assert seen == [cases.FORMAT]


def test_what_users_functions_raise_is_located() -> None:
    for pattern, what in (
        (square().replace(pd.CFunction(cases.KERNEL, "square_diff"), when=lambda m: m.k == 3), "predicate of pattern 'square_diff' raised AttributeError: the match has no size 'k'; sizes: n"),
        (square().replace(pd.CFunction(cases.KERNEL, "square_diff"), when=lambda m: m.shape("outer")), "raised AttributeError: the match has no value 'outer'"),
        (square().replace(pd.CFunction(cases.KERNEL, "square_diff"), when=lambda m: m.shape("out1")), "raised AttributeError: the match has no value 'out1'"),
        (square().generate(lambda m: 1 // 0), "generator of pattern 'square_diff' raised ZeroDivisionError"),
        (pd.matcher(lambda op: op.nothing), "function of pattern '<lambda>' raised AttributeError"),
    ):  # fmt: skip
        with pytest.raises(CompileError, match=what.replace("(", r"\(")) as error:
            pd.compile(cases.STATIC, patterns=[pattern])
        assert error.value.location is not None and Path(__file__).name in (error.value.note or "")


def test_the_warning_is_at_the_call_and_other_things_are_no_patterns() -> None:
    with pytest.warns(MatchWarning, match="matched nothing") as caught:
        pd.compile("func.func @f(%x: f32) -> f32 { return %x : f32 }", patterns=[square()])
    assert caught[0].filename == __file__
    with pytest.raises(InvalidArgumentError, match=r"takes what @pydispatch\.pattern made"):
        pd.compile(cases.STATIC, patterns=[len])


def test_wrong_files_of_patterns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.mlir").write_text(cases.STATIC)
    file = tmp_path / "p.py"
    for text, message in (
        ("import pydispatch as pd\n@pd.pattern\ndef f(a: pd.f32['n']):\n    return a.foo\n", "p.py:4: AttributeError: a value of a pattern has no attribute 'foo'"),
        ("syntax(", "p.py:1: '(' was never closed"),
        ("x = 1", "has no @pydispatch.pattern"),
    ):  # fmt: skip
        file.write_text(text)
        assert cli(["match", str(tmp_path / "p.mlir"), f"--spec={file}"]) == 1
        assert message in capsys.readouterr().err
