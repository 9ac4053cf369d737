# ruff: noqa: E501, F821, UP037  (programs; sizes of a pattern are names)
"""Patterns in Python: what is traced is found, kernels take its place, predicates decide, overlaps are settled."""

from __future__ import annotations

import gc
import math
import warnings
from typing import Any

import match_cases as cases
import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.driver import pipeline
from pydispatch.compiler.match.graph import expressions
from pydispatch.errors import CompileError, InvalidArgumentError
from pydispatch.patterns import Pattern

P = np.linspace(-3, 5, 40, dtype=np.float32)
Q = np.linspace(2, -1, 40, dtype=np.float32)
KERNEL = pd.CFunction(cases.KERNEL, "square_diff", tile={"n": 16})
WGSL = b"@compute @workgroup_size(16) fn whole() {}"


def square_of_difference(**options: object) -> Pattern:
    @pd.pattern(**options)
    def square(a: pd.f32["n"], b: pd.f32["n"]):
        d = a - b
        return d * d

    return square


def matched(text: str, *patterns: Pattern) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pipeline.compile_to("preprocessing", text, patterns=patterns)


@pytest.mark.parametrize("spelling", cases.SPELLINGS)
def test_a_c_function_in_every_spelling(spelling: str) -> None:
    artifact = pd.compile(cases.SPELLINGS[spelling], patterns=[square_of_difference().replace(KERNEL)])
    np.testing.assert_allclose(pd.device("cpu").load(artifact).f(P, Q), (P - Q) ** 2 + 100, rtol=1e-6)


@pytest.mark.parametrize("phase", ["input", "preprocessing", "global-optimization"])
def test_a_pattern_attaches_to_a_phase(phase: str) -> None:
    artifact = pd.compile(cases.NAMED, patterns=[square_of_difference(phase=phase).replace(KERNEL)])
    np.testing.assert_allclose(pd.device("cpu").load(artifact).f(P, Q), (P - Q) ** 2 + 100, rtol=1e-6)


def test_named_arguments_and_one_workgroup() -> None:
    text = "#include <stddef.h>\nvoid g(size_t n, float* out, const float* b, const float* a) { for (size_t i = 0; i < n; ++i) out[i] = a[i] - 2 * b[i]; }"
    pattern = square_of_difference().replace(pd.CFunction(text, "g", "n", "out", "b", "a"))
    got = pd.device("cpu").load(pd.compile(cases.DYNAMIC, patterns=[pattern])).f(P, Q)
    np.testing.assert_allclose(got, P - 2 * Q, rtol=1e-6)


@pytest.mark.parametrize(("divisor", "hit"), [(8, True), (16, False)])
def test_predicates_on_sizes(divisor: int, hit: bool) -> None:
    pattern = square_of_difference().replace(KERNEL, when=lambda m: m.n % divisor == 0)
    assert ("util.call" in matched(cases.STATIC, pattern)) == hit
    # What only a run will know does not hold, unless the program says it.
    assert "util.call" not in matched(cases.DYNAMIC, pattern)
    known = cases.DYNAMIC.replace(
        "%e = tensor.empty(%n)", "%k = util.assume.int %n<udiv = 8> : index\n  %e = tensor.empty(%k)"
    )
    pattern = square_of_difference().replace(KERNEL, when=lambda m: m.shape("out")[0] % divisor == 0)
    assert ("util.call" in matched(known, pattern)) == hit


def test_predicates_see_types_and_attributes() -> None:
    seen = []

    def look(m: object) -> bool:
        seen.append((m.dtype("a"), m.shape("b"), m.op.name, m.op.attributes.get("note")))  # type: ignore[attr-defined]
        return False

    matched(cases.ON_TENSORS.replace("?", "40"), square_of_difference().replace(KERNEL, when=look))
    ((dtype, shape, name, note),) = seen
    assert (dtype, shape, name, note.data) == ("f32", (40,), "arith.mulf", "kept")


def test_equal_names_are_equal_sizes() -> None:
    @pd.pattern
    def outer(a: pd.f32["m", "k"], b: pd.f32["k", "n"]):
        return a @ b

    @pd.pattern
    def square(a: pd.f32["m", "m"], b: pd.f32["m", "m"]):
        return a @ b

    text = """func.func @f(%a: tensor<2x4xf32>, %b: tensor<4x8xf32>) -> tensor<2x8xf32> {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<2x8xf32>
      %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
      %p = linalg.matmul ins(%a, %b : tensor<2x4xf32>, tensor<4x8xf32>) outs(%z : tensor<2x8xf32>) -> tensor<2x8xf32>
      return %p : tensor<2x8xf32> }"""
    kernel = pd.CFunction(
        "#include <stddef.h>\nvoid mm(const float* a, const float* b, float* out, size_t m, size_t k, size_t n) {\n"
        "for (size_t i = 0; i < m * n; ++i) { out[i] = 7; for (size_t j = 0; j < k; ++j) out[i] += a[i / n * k + j] * b[j * n + i % n]; } }", "mm")  # fmt: skip
    x, y = np.ones((2, 4), np.float32), np.arange(32, dtype=np.float32).reshape(4, 8)
    got = pd.device("cpu").load(pd.compile(text, patterns=[outer.replace(kernel)])).f(x, y)
    np.testing.assert_array_equal(got, x @ y + 7)
    assert "util.call" not in matched(text, square.replace(kernel))


def test_a_kernel_is_generated_for_each_match() -> None:
    made = []
    pattern = square_of_difference()

    @pattern.generate
    def make(m: object) -> str:
        made.append(m.n)  # type: ignore[attr-defined]
        return (f"#include <stddef.h>\nvoid {m.symbol}(const float* a, const float* b, float* out, size_t n) "  # type: ignore[attr-defined]
                f"{{ for (int i = 0; i < {m.n}; ++i) out[i] = {m.n}; }}")  # type: ignore[attr-defined] # fmt: skip

    two = cases.STATIC + cases.STATIC.replace("@f", "@g").replace("40", "24")
    program = pd.device("cpu").load(pd.compile(two, patterns=[pattern]))
    np.testing.assert_array_equal(program.f(P, Q), np.full(40, 40, np.float32))
    np.testing.assert_array_equal(program.g(P[:24], Q[:24]), np.full(24, 24, np.float32))
    assert sorted(made) == [24, 40]


def test_another_computation_as_the_replacement() -> None:
    pattern = square_of_difference()

    @pattern.replace()
    def expanded(a, b):  # type: ignore[no-untyped-def]
        return a * a - 2 * a * b + b * b

    assert "util.call" in matched(cases.DYNAMIC, pattern)
    got = pd.device("cpu").load(pd.compile(cases.DYNAMIC, patterns=[pattern])).f(P, Q)
    np.testing.assert_allclose(got, (P - Q) ** 2, rtol=1e-4, atol=1e-4)


BODY = "{ for (size_t i = 0; i < n; ++i) out[i] = (a[i] - b[i]) * (a[i] - b[i]) + 100; }"


def c_function(parameters: str, *arguments: str) -> pd.CFunction:
    return pd.CFunction(f"#include <stddef.h>\n// a comment: k(int n) {{\nvoid k({parameters}) {BODY}", "k", *arguments)


@pytest.mark.parametrize(
    ("names", "kernel"),
    [
        ("ab", c_function("const size_t n, float *restrict out, const float b[], float const* a")),
        ("xy", c_function("const float* x, const float* y, float* out, size_t n")),
        ("ab", c_function("long unsigned int n, float* out, const float* b, const float* a")),
        ("ab", c_function("long int n, float* out, const float* b, const float* a")),
        ("ab", c_function("int long long unsigned n, float* out, const float* b, const float* a")),
        ("xy", c_function("const float* y, const float* x, float* out, size_t n", "b", "a", "out", "n")),
    ],
)
def test_arguments_of_c_functions_are_bound_by_name(names: str, kernel: pd.CFunction) -> None:
    source = str(kernel.source).replace("a[i]", f"{names[0]}[i]").replace("b[i]", f"{names[1]}[i]")
    pattern = square_of_difference().replace(pd.CFunction(source, "k", *kernel.arguments))
    program = pd.device("cpu").load(pd.compile(cases.DYNAMIC, patterns=[pattern]))
    np.testing.assert_array_equal(program.f(P, Q), (P - Q) ** 2 + 100)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (c_function("size_t n, const float* x, const float* y, float* out"), r"parameter 1 is passed 'a', which is a pointer to f32"),
        (c_function("const float* x, const float* b, float* out, int n"), r"parameter 4 is passed 'n', which is a size \(size_t\)"),
        (c_function("const float* x, const float* b, float* out, short int n"), r"parameter 4 is passed 'n', which is a size \(size_t\)"),
        (c_function("const float* x, const float* b, float* out, unsigned"), r"parameter 4 is passed 'n', which is a size \(size_t\)"),
        (c_function("unsigned long int n, const float* x, const float* y, float* out"), r"parameter 1 is passed 'a', which is a pointer to f32"),
        (c_function("long unsigned int n, const float* x, const float* y, float* out"), r"parameter 1 is passed 'a', which is a pointer to f32"),
        (c_function("int long n, const float* x, const float* y, float* out"), r"parameter 1 is passed 'a', which is a pointer to f32"),
        (c_function("const char unsigned* x, const float* b, float* out, size_t n"), r"parameter 1 is passed 'a', which is a pointer to f32"),
        (c_function("const double* a, const float* b, float* out, size_t n"), "parameter 1 is passed 'a', which is a pointer to f32"),
        (c_function("const float* x, const float* y, float* z, size_t n, size_t m"), "takes 5 arguments, and is passed a, b, out, n"),
        (c_function("const float* a, const float* b, float* out, size_t n", "b", "a", "out", "n"), "parameter 1 is passed 'b', and 'a' is another value of the pattern"),
        (c_function("const float* x, const float* y, float* z, size_t n", "a", "out", "b", "n"), "parameter 2 is passed 'out', which is a result, but the function only reads it"),
    ],
)  # fmt: skip
def test_arguments_that_a_c_function_does_not_take(kernel: pd.CFunction, message: str) -> None:
    with pytest.raises(CompileError, match=message) as error:
        matched(cases.DYNAMIC, square_of_difference().replace(kernel))
    assert "there are a, b, out, n" in str(error.value)


@pytest.mark.parametrize(("dtype", "c_types"), [
    (pd.f8E5M2, {"uint8_t"}), (pd.bf16, {"uint16_t", "__bf16"}), (pd.f32, {"float"}), (pd.i1, {"uint8_t"}),
])  # fmt: skip
def test_pointers_that_take_the_elements_of_a_type(dtype: Any, c_types: set[str]) -> None:
    def doubled(x):  # type: ignore[no-untyped-def]
        return x + x

    doubled.__annotations__ = {"x": dtype["n"]}
    name = dtype.name
    text = f"""func.func @f(%x: tensor<8x{name}>) -> tensor<8x{name}> {{
      %y = arith.{"add" + ("i" if name == "i1" else "f")} %x, %x : tensor<8x{name}>
      return %y : tensor<8x{name}> }}"""
    for c_type in ("uint8_t", "uint16_t", "__bf16", "float", "double"):
        code = f"#include <stddef.h>\n#include <stdint.h>\nvoid k(const {c_type}* x, {c_type}* out, size_t n) {{}}"
        pattern = pd.pattern(doubled).replace(pd.CFunction(code, "k"))
        if c_type in c_types:
            assert "util.call" in matched(text, pattern)
        else:
            with pytest.raises(CompileError, match=f"parameter 1 is passed 'x', which is a pointer to {name}"):
                matched(text, pattern)


ALTERNATIVES = "#include <stddef.h>\n#ifdef WIDE\nvoid k(const double* a, size_t n) {}\n#else\nPARAMETERS\n#endif\n"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(ALTERNATIVES.replace("PARAMETERS", f"void k(const float* a, const float* b, float* out, size_t n) {BODY}"), id="branches"),
        pytest.param(f'#include <stddef.h>\nconst char k_usage[] = "k(int n) {{";\nvoid k(const float* a, const float* b, float* out, size_t n) {BODY}', id="string"),
        pytest.param(f'#include <stddef.h>\nconst char k_quote = \'"\', k_url[] = "http://k";\nvoid k(size_t n, const float* b, const float* a, float* out) {BODY}', id="comment-in-string"),
    ],
)  # fmt: skip
def test_the_prototype_is_that_of_the_code_that_is_compiled(source: str) -> None:
    pattern = square_of_difference().replace(pd.CFunction(source, "k"))
    program = pd.device("cpu").load(pd.compile(cases.DYNAMIC, patterns=[pattern]))
    np.testing.assert_array_equal(program.f(P, Q), (P - Q) ** 2 + 100)


def test_equal_definitions_in_branches_are_checked() -> None:
    source = f"#include <stddef.h>\n#ifdef A\nvoid k(float* x, const float *y) {BODY}\n#else\nvoid k(float *x, float const* y) {BODY}\n#endif\n"
    with pytest.raises(CompileError, match="takes 2 arguments, and is passed a, b, out, n"):
        matched(cases.DYNAMIC, square_of_difference().replace(pd.CFunction(source, "k")))


def test_scalars_and_constants() -> None:
    @pd.pattern
    def scaled(x: pd.f32["n"], alpha: pd.f32):
        return pd.tanh(x * alpha) + 1.5

    text = """func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
      %two = arith.constant 2.0 : f32
      %half = arith.constant 1.5 : f32
      %e = tensor.empty() : tensor<8xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
          ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
        ^bb0(%a: f32, %o: f32):
          %m = arith.mulf %two, %a : f32
          %t = math.tanh %m : f32
          %s = arith.addf %half, %t : f32
          linalg.yield %s : f32
        } -> tensor<8xf32>
      return %r : tensor<8xf32> }"""
    constants = []
    scaled.replace(
        pd.CFunction("#include <stddef.h>\nvoid s(const float* x, float alpha, float* out, size_t n) { for (size_t i = 0; i < n; ++i) out[i] = alpha * 10 + x[i]; }", "s"),
        when=lambda m: constants.append(m.constant("alpha")) is None,
    )  # fmt: skip
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(pd.device("cpu").load(pd.compile(text, patterns=[scaled])).f(x), x + 20)
    assert constants == [2.0]
    assert "util.call" not in matched(text.replace("1.5", "1.25"), scaled)


@pytest.mark.parametrize(("literal", "dtype", "number"), [("true", "i1", 1), ("false", "i1", 0), ("-3 : i8", "i8", -3)])
def test_integer_constants(literal: str, dtype: str, number: int) -> None:
    def added(x, alpha):  # type: ignore[no-untyped-def]
        return x + alpha

    added.__annotations__ = {"x": getattr(pd, dtype)["n"], "alpha": getattr(pd, dtype)}
    text = f"""func.func @f(%x: tensor<8x{dtype}>) -> tensor<8x{dtype}> {{
      %alpha = arith.constant {literal}
      %e = tensor.empty() : tensor<8x{dtype}>
      %r = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
          ins(%x : tensor<8x{dtype}>) outs(%e : tensor<8x{dtype}>) {{
        ^bb0(%a: {dtype}, %o: {dtype}):
          %s = arith.addi %a, %alpha : {dtype}
          linalg.yield %s : {dtype}
        }} -> tensor<8x{dtype}>
      return %r : tensor<8x{dtype}> }}"""
    constants = []
    code = "#include <stddef.h>\n#include <stdint.h>\nvoid s(const int8_t* x, int8_t* out, size_t n) { out[0] = x[n - 1]; }"
    matched(
        text, pd.pattern(added).replace(pd.CFunction(code, "s"), when=lambda m: constants.append(m.constant("alpha")))
    )
    assert constants == [number]


def test_argmax_and_a_matcher_function() -> None:
    @pd.pattern
    def where_largest(x: pd.f32[1, "n"]):
        return pd.argmax(x)[1]

    text = "#include <stddef.h>\n#include <stdint.h>\nvoid at(const float* x, int64_t* out, size_t n) { out[0] = n; }"
    x = np.sin(np.arange(128, dtype=np.float32)).reshape(1, 128)
    best, at = (
        pd.device("cpu").load(pd.compile(cases.ARGMAX, patterns=[where_largest.replace(pd.CFunction(text, "at"))])).f(x)
    )
    np.testing.assert_array_equal(best, x.max(1))
    assert at.tolist() == [128]

    @pd.matcher
    def any_argmax(op: object) -> object:
        if op.name != "linalg.generic":  # type: ignore[attr-defined]
            return None
        if op.loops[-1] != "reduction" or len(op.results) != 2:  # type: ignore[attr-defined]
            return "no reduction to two values"
        return iter(op.inputs), iter([op.results[1]])  # type: ignore[attr-defined]

    text = text.replace("size_t n) { out[0] = n; }", "float* unused) { out[0] = 77; }").replace(", float* unused", "")
    _, at = (
        pd.device("cpu").load(pd.compile(cases.ARGMAX, patterns=[any_argmax.replace(pd.CFunction(text, "at"))])).f(x)
    )
    assert at.tolist() == [77]


def test_overlaps_are_settled_by_benefit_then_order() -> None:
    def sub(benefit: int) -> Pattern:
        @pd.pattern(benefit=benefit)
        def difference(a: pd.f32["n"], b: pd.f32["n"]):
            return a - b

        return difference.replace(KERNEL)

    large = square_of_difference().replace(KERNEL)
    for first, second, taken in (
        (large, sub(1), "@square"), (sub(1), large, "@difference"), (large, sub(2), "@difference"), (sub(0), large, "@square"),
    ):  # fmt: skip
        text = matched(cases.ON_TENSORS, first, second)
        assert f"util.call {taken}(" in text and text.count("util.call") == 1


def test_whole_kernels_for_several_targets() -> None:
    source = b"""
#include "pydispatch/library_author.h"
int32_t whole(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch, const pyd_workgroup_state_t* workgroup) {
  const float* a = pyd_binding(dispatch, 0); const float* b = pyd_binding(dispatch, 1); float* out = pyd_binding(dispatch, 2);
  uint32_t n = pyd_constant(dispatch, 0), i = workgroup->workgroup_id_x * 16;
  for (uint32_t end = i + 16; i < end && i < n; ++i) out[i] = a[i] + b[i] + 1000;
  return 0;
}"""
    kernel = pd.WholeKernel({cases.FORMAT: "whole.c", "webgpu-wgsl-fb": WGSL}, "whole", ("n",), (("n", 16),))
    with pytest.raises(pd.Error, match=r"cannot read 'whole\.c': No such file"):
        matched(cases.DYNAMIC, square_of_difference().replace(kernel))
    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "whole.c"
        file.write_bytes(source)
        lists = [["n", 16]]
        kernel = pd.WholeKernel({cases.FORMAT: file, "webgpu-wgsl-fb": WGSL}, "whole", ("n",), lists)
        artifact = pd.compile(cases.DYNAMIC, patterns=[square_of_difference().replace(kernel)])
    np.testing.assert_allclose(pd.device("cpu").load(artifact).f(P, Q), P + Q + 1000)
    unknown = pd.WholeKernel({"webgpu-wgsl-fb": WGSL}, "whole", workgroups=[["k", 16]])
    with pytest.raises(pd.CompileError, match="pattern 'square': the kernel whole asks for the size 'k'"):
        pd.compile(cases.DYNAMIC, patterns=[square_of_difference().replace(unknown)], targets="webgpu")
    lists = [["n", 0]]
    with pytest.raises(
        pd.InvalidArgumentError, match=r"workgroups: .* numbers, or \(size, divisor\), got \[\['n', 0\]\]"
    ):
        pd.WholeKernel({}, "whole", workgroups=lists)
    with pytest.raises(pd.InvalidArgumentError, match=r"workgroups: expected a tuple of up to three .*, 1, 2, 3\)$"):
        pd.WholeKernel({}, "whole", workgroups=(("n", 16), 1, 2, 3))


def test_a_text_of_one_line_has_a_brace() -> None:
    text = "#version 450 void main() {}"
    for kernel in (pd.shader(text), pd.ptx(text, "main"), pd.WholeKernel({"webgpu-wgsl-fb": text}, "main")):
        ((_, file),) = kernel.objects()
        assert file.data == text.encode()
    with pytest.raises(pd.Error, match=r"cannot read 'main\.comp'"):
        pd.shader("main.comp").objects()


def test_compiled_programs_are_not_retained_by_what_they_were_compared_with() -> None:
    """The numbers of computations, whose keys hold constants of a program, are removed with the program."""
    counts = []
    for first in range(3):
        values = ", ".join(str(float(first + i)) for i in range(40))
        program = f"""func.func @f(%p: tensor<40xf32>) -> tensor<40xf32> {{
          %q = arith.constant dense<[{values}]> : tensor<40xf32>
          %d = arith.subf %p, %q : tensor<40xf32>
          %s = arith.mulf %d, %d : tensor<40xf32>
          return %s : tensor<40xf32> }}"""
        assert "util.call" in matched(program, square_of_difference().replace(KERNEL))
        gc.collect()
        counts.append(len(expressions._numbers))
    assert counts[0] == counts[1] == counts[2]


@pytest.mark.parametrize(("value", "dtype"), [(300, pd.i8), (-129, pd.i8), (1 << 32, pd.i32), (1 << 64, pd.index)])
def test_constants_that_an_integer_type_does_not_hold(value: int, dtype: Any) -> None:
    def shifted(x):  # type: ignore[no-untyped-def]
        return x + value

    shifted.__annotations__ = {"x": dtype["n"]}
    message = rf"the constant {value} is out of range for {dtype.name}: write one from -\d+ to \d+, or"
    with pytest.raises(InvalidArgumentError, match=message):
        pd.pattern(shifted)


@pytest.mark.parametrize("value", [-128, 127, 255])
def test_constants_at_the_ends_of_an_integer_type(value: int) -> None:
    @pd.pattern
    def shifted(x: pd.i8["n"]):  # type: ignore[no-untyped-def]
        return x + value

    @shifted.replace()
    def doubled(x):  # type: ignore[no-untyped-def]
        return x * 2

    text = "func.func @f(%x: tensor<4xi8>) -> tensor<4xi8> { return %x : tensor<4xi8> }"
    assert "return %x" in matched(text, shifted)


def test_wrong_patterns() -> None:
    with pytest.raises(InvalidArgumentError, match="parameter 'a' of a pattern needs a type"):

        @pd.pattern
        def untyped(a):  # type: ignore[no-untyped-def]
            return -a

    with pytest.raises(InvalidArgumentError, match="computes nothing"):

        @pd.pattern
        def identity(a: pd.f32["n"]):
            return a

    with pytest.raises(InvalidArgumentError, match="cannot branch on a value"):

        @pd.pattern
        def branching(a: pd.f32["n"]):
            return -a if a else a

    with pytest.raises(InvalidArgumentError, match=r"shapes of f32.n. and f32.m. differ"):

        @pd.pattern
        def shapes(a: pd.f32["n"], b: pd.f32["m"]):
            return a + b

    with pytest.raises(InvalidArgumentError, match=r"f32.n. cannot be indexed .* write the pattern as a program"):

        @pd.pattern
        def indexed(a: pd.f32["n"]):
            return a[:, None]

    with pytest.raises(AttributeError, match=r"no attribute 'T'; .* write the pattern as a program"):

        @pd.pattern
        def transposed(a: pd.f32["n", "m"]):
            return -a.T

    @pd.pattern
    def unused(a: pd.f32["n"], b: pd.f32["n"]):
        return -a

    with pytest.raises(CompileError, match="does not use its input 'b'"):
        matched(cases.DYNAMIC, unused)
    with pytest.raises(InvalidArgumentError, match="is no function"):
        square_of_difference()(1, 2)
    with pytest.raises(CompileError, match="asks for 'wrong'") as error:
        matched(cases.DYNAMIC, square_of_difference().replace(pd.CFunction(cases.KERNEL, "square_diff", "wrong")))
    assert "a, b, out, n" in str(error.value) and error.value.location is not None

    def other(a, b):  # type: ignore[no-untyped-def]
        return pd.reduce("add", a - b)

    with pytest.raises(CompileError, match=r"gives \(f32\[\]\), the pattern \(f32\[n\]\)"):
        matched(cases.DYNAMIC, square_of_difference().replace(other))


def test_a_pattern_that_names_a_variable_that_is_assigned_later() -> None:
    @pd.pattern
    def negated(a: pd.f32["n"]):
        return -a if a.shape else later

    later = None
    assert negated.name == "negated" and later is None


def test_an_annotation_that_means_nothing() -> None:
    with pytest.raises(
        InvalidArgumentError, match="the type of parameter 'a' of a pattern is wrong: name 'g32' is not"
    ):

        @pd.pattern
        def nothing(a: g32["n"]):
            return a


def test_a_replacement_over_sizes_without_names() -> None:
    """The intermediate tensor of the replacement has the sizes of the program's tensor."""
    text = """
func.func @f(%a: tensor<?x4xf32>) -> tensor<4xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %d = math.absf %a : tensor<?x4xf32>
  %r = linalg.reduce ins(%d : tensor<?x4xf32>) outs(%zero : tensor<4xf32>) dimensions = [0] (%x: f32, %y: f32) {
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  }
  return %r : tensor<4xf32>
}"""

    @pd.pattern
    def sum_of_magnitudes(a: pd.f32[None, 4]):
        return pd.reduce("add", abs(a), 0)

    sum_of_magnitudes.replace(lambda a: pd.reduce("add", a * a, 0))
    program = pd.device("cpu").load(pd.compile(text, patterns=[sum_of_magnitudes], require_match=True))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(program.f(x), (x * x).sum(0))


def test_infinities_are_constants_of_patterns() -> None:
    @pd.pattern
    def limited(x: pd.f32["n"]):  # type: ignore[no-untyped-def]
        return pd.minimum(pd.maximum(x, -math.inf), math.inf)

    @limited.replace()
    def negated(x):  # type: ignore[no-untyped-def]
        return -x

    text = """func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %low = arith.constant dense<0xFF800000> : tensor<4xf32>
      %high = arith.constant dense<0x7F800000> : tensor<4xf32>
      %y = arith.maximumf %x, %low : tensor<4xf32>
      %z = arith.minimumf %y, %high : tensor<4xf32>
      return %z : tensor<4xf32> }"""
    assert "arith.negf" in matched(text, limited)


@pytest.mark.parametrize("dtype", [pd.f8E4M3FN, pd.f8E5M2, pd.bf16, pd.i8, pd.i1, pd.index], ids=lambda d: d.name)
def test_maxima_of_every_type(dtype: Any) -> None:
    """Each has a neutral element that the text of the pattern can spell."""

    def largest(x):  # type: ignore[no-untyped-def]
        return pd.reduce("maximum", x)

    def positions(x):  # type: ignore[no-untyped-def]
        return pd.argmax(x)

    text = "func.func @f(%x: tensor<4xi8>) -> tensor<4xi8> { return %x : tensor<4xi8> }"
    for function in (largest, positions):
        function.__annotations__ = {"x": dtype["n", 4]}
        assert "return %x" in matched(text, pd.pattern(function))
