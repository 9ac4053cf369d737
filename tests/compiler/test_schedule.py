"""Host functions → host programs: memory, regions, checks, grids, constants, and what is refused."""

from __future__ import annotations

import re

import pytest

from pydispatch.compiler.driver.phases import PHASE_NAMES
from pydispatch.compiler.driver.pipeline import compile_to
from pydispatch.errors import CompileError

HEAD = """
stream.executable private @k {
  stream.executable.export public @two workgroups(%n: index) -> (index, index, index) {
    %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%n]
    %one = arith.constant 1 : index
    stream.return %x, %one, %one : index, index, index
  }
  stream.executable.export public @inplace workgroups(%n: index) -> (index, index, index) {
    %one = arith.constant 1 : index
    stream.return %n, %one, %one : index, index, index
  }
  builtin.module {
    func.func @two(%a: !stream.binding, %b: !stream.binding, %n: index) { return }
    func.func @inplace(%a: !stream.binding, %n: index) { return }
  }
}
"""


def program(body: str, arguments: str = "%a: tensor<?xf32>, %n: index", results: str = "tensor<?xf32>") -> str:
    return compile_to("program", f"{HEAD}\nfunc.func @f({arguments}) -> {results} {{\n{body}\n}}", targets="x86_64")


def function_text(text: str) -> str:
    return text[text.index("function public @f") :]


def test_in_place_on_an_argument_works_on_a_copy() -> None:
    text = function_text(
        program("""
        %r = flow.dispatch @k::@inplace[%n](%a, %n) : (tensor<?xf32>{%n}, index) -> %a{%n}
        return %r : tensor<?xf32>""")
    )
    assert re.search(r"region 0: copy buffer 0 to buffer 1", text)
    assert re.search(r"region 1: dispatch .* over \(buffer 1\)", text)
    assert "buffer 1: result 0" in text


def test_in_place_on_a_value_that_is_still_needed_works_on_a_copy() -> None:
    text = function_text(
        program(
            """
        %t = flow.dispatch @k::@two[%n](%a, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
        %r = flow.dispatch @k::@inplace[%n](%t, %n) : (tensor<?xf32>{%n}, index) -> %t{%n}
        return %t, %r : tensor<?xf32>, tensor<?xf32>""",
            results="(tensor<?xf32>, tensor<?xf32>)",
        )
    )
    assert text.count("copy buffer") == 1


def test_in_place_on_a_dead_value_copies_nothing_and_lands_in_the_result() -> None:
    text = function_text(
        program("""
        %t = flow.dispatch @k::@two[%n](%a, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
        %r = flow.dispatch @k::@inplace[%n](%t, %n) : (tensor<?xf32>{%n}, index) -> %t{%n}
        return %r : tensor<?xf32>""")
    )
    assert "copy" not in text and "transient" not in text


def test_returning_an_argument_or_one_value_twice_copies() -> None:
    text = function_text(
        program("return %a, %a : tensor<?xf32>, tensor<?xf32>", results="(tensor<?xf32>, tensor<?xf32>)")
    )
    assert text.count("region 0: copy buffer 0") == 2


def test_independent_dispatches_share_a_region_and_dependent_ones_do_not() -> None:
    text = function_text(
        program("""
        %x = flow.dispatch @k::@two[%n](%a, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
        %y = flow.dispatch @k::@two[%n](%a, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
        %z = arith.addf %x, %y : tensor<?xf32>
        return %z : tensor<?xf32>""")
    )
    assert re.findall(r"region (\d): dispatch", text) == ["0", "0", "1"]


def test_sizes_that_braces_claim_are_checked_once_and_named() -> None:
    text = function_text(
        program("""
        %x = flow.dispatch @k::@two[%n](%a, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
        %y = flow.dispatch @k::@two[%n](%a, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
        return %y : tensor<?xf32>""")
    )
    assert text.count("check ") == 1
    assert "dimension 0 of argument 0 ('a')" in text and "argument 1 ('n')" in text


def test_a_64_bit_scalar_is_two_words() -> None:
    text = function_text(
        program("""
        %x = flow.dispatch @k::@two[%n](%a, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
        return %x : tensor<?xf32>""")
    )
    assert re.search(r"\(r(\d+), r\1\.high\) over", text)


def test_scalar_arithmetic_and_results() -> None:
    text = function_text(
        program(
            """
        %c = arith.constant 3 : index
        %d = arith.constant 0 : index
        %s = tensor.dim %a, %d : tensor<?xf32>
        %m = arith.muli %s, %c : index
        %p = arith.cmpi slt, %m, %n : index
        %q = arith.select %p, %m, %n : index
        return %q, %p : index, i1""",
            results="(index, i1)",
        )
    )
    assert "mul.64" in text and "cmp.64 slt" in text and "select" in text
    assert "result 0: i64 = r" in text and "result 1: i1 = r" in text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%x = flow.dispatch @nope::@two[%n](%a, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}\n"
         "return %x : tensor<?xf32>", "there is no executable '@nope'"),
        ("%x = flow.dispatch @k::@three[%n](%a, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}\n"
         "return %x : tensor<?xf32>", "has no export '@three'"),
        ("%x = flow.dispatch @k::@two(%a, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}\n"
         "return %x : tensor<?xf32>", "takes 1 values, the dispatch gives 0"),
        ("%x = flow.dispatch @k::@two[%n](%a) : (tensor<?xf32>{%n}) -> tensor<?xf32>{%n}\n"
         "return %x : tensor<?xf32>", "takes 2 constants, the dispatch gives 0 32-bit words"),
        ("%x = flow.dispatch @k::@two[%n](%a, %a, %n) : (tensor<?xf32>{%n}, tensor<?xf32>{%n}, index)"
         " -> tensor<?xf32>{%n}\nreturn %x : tensor<?xf32>", "has 2 bindings in its layout, the dispatch gives 3"),
        ("%x = memref.alloc() : memref<4xf32>\nreturn %a : tensor<?xf32>", "'memref.alloc' is not supported in host"),
    ],
)  # fmt: skip
def test_refused_programs_name_the_place(body: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        program(body)
    assert message in str(caught.value)
    assert caught.value.location is not None


def test_unknown_phase_and_target() -> None:
    with pytest.raises(CompileError, match="there is no phase 'codegen'"):
        compile_to("codegen", "module {}")
    with pytest.raises(CompileError, match="there is no target 'z80'"):
        compile_to("executables", "module {}", targets="z80")


@pytest.mark.parametrize("phase", PHASE_NAMES)
def test_every_phase_prints(phase: str) -> None:
    body = "%x = arith.addf %a, %a : tensor<?xf32>\nreturn %x : tensor<?xf32>"
    text = compile_to(phase, f"func.func @f(%a: tensor<?xf32>) -> tensor<?xf32> {{ {body} }}", targets="x86_64")
    assert "@f" in text
