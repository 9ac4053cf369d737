# ruff: noqa: E501, F821, UP037  (programs; sizes of a pattern are names)
"""Near misses: how far a pattern got and why it stopped; what matches nothing is a warning, or an error."""

from __future__ import annotations

from pathlib import Path

import match_cases as cases
import pytest
from match_cases import EXECUTABLE, SPEC, generic, main, spec
from work import count_calls

import pydispatch as pd
from pydispatch import ir
from pydispatch.cli.__main__ import main as cli
from pydispatch.compiler.driver.dry_run import dry_run
from pydispatch.compiler.match import MatchWarning
from pydispatch.errors import CompileError

MISSES = [
    (
        cases.DYNAMIC,
        "arith.subf %x0",
        "arith.addf %x0",
        1,
        "operand 0 of arith.mulf: expected arith.subf, got arith.addf",
    ),
    (cases.ON_TENSORS, "%d, %d {", "%d, %p {", 2, "operand 1 of arith.mulf: expected arith.subf, got an argument"),
    (cases.ON_TENSORS, "xf32", "xf64", 1, "result of arith.mulf: expected tensor<?xf32>, got tensor<?xf64>"),
    (cases.ON_TENSORS, "<?xf32", "<2x?xf32", 1, "result of arith.mulf: expected tensor<?xf32>, got tensor<2x?xf32>"),
]


@pytest.mark.parametrize(("program", "was", "now", "depth", "reason"), MISSES)
def test_the_deepest_point_and_the_reason(program: str, was: str, now: str, depth: int, reason: str) -> None:
    text = program.replace(was, now)
    report, diff = dry_run(text, transform_spec=SPEC)
    assert not report.found and not diff
    miss = report.near["@match"][0]
    assert (miss.depth, miss.reason) == (depth, reason)
    line = next(i for i, t in enumerate(text.splitlines(), 1) if "mul" in t)
    assert miss.location is not None and miss.place.startswith("<text>:") and miss.function == "@f"
    assert abs(int(miss.place.split(":")[1]) - line) <= 3


def test_input_of_another_type_and_conflicting_inputs() -> None:
    body = (
        "%c0 = arith.constant 0 : index\n%n = tensor.dim %a, %c0 : tensor<?xf32>\n%e = tensor.empty(%n) : tensor<?xf32>\n"
        + generic("d", "arith.subf", ["%a", "%b"])
        + "\n"
        + generic("s", "arith.mulf", ["%d", "%a"])
    )
    text = cases.ON_TENSORS.replace("%d, %d {", "%d, %q {")
    report, _ = dry_run(text, transform_spec=SPEC.replace(cases.BODY, body))
    assert "input %a of the pattern is %p elsewhere, here it is %q" in report.near["@match"][0].reason


def test_structured_matchers_say_which_check_failed() -> None:
    from test_transform_spec import ARGMAX_SPEC

    expected = {
        "1x96xf32": "in0: expected tensor<1x(64*n)xf32>, got tensor<1x96xf32>",
        "1x?xf32": "in0: expected tensor<1x(64*n)xf32>, got tensor<1x?xf32>",
    }
    for shape, reason in expected.items():
        report, _ = dry_run(cases.ARGMAX.replace("1x128xf32", shape), transform_spec=ARGMAX_SPEC)
        assert [m.reason for m in report.near["@match"]] == [reason]
    report, _ = dry_run(cases.ARGMAX.replace("cmpf ogt", "cmpf oge"), transform_spec=ARGMAX_SPEC)
    assert report.near["@match"][0].reason.startswith("body, result 1: expected select(cmpf(")
    assert report.near["@match"][0].reason != ""


@pytest.mark.parametrize("dim", [2, -3])
def test_a_dimension_that_a_tensor_lacks_states_the_rank_that_it_needs(dim: int) -> None:
    from test_transform_spec import ARGMAX_SPEC

    text = ARGMAX_SPEC.replace("dim_is_multiple_of %in0[1]", f"dim_is_multiple_of %in0[{dim}]")
    report, _ = dry_run(cases.ARGMAX, transform_spec=text)
    assert [m.reason for m in report.near["@match"]] == ["expected at least 3 sizes, got tensor<1x128xf32>"]


def test_predicates_are_explained() -> None:
    @pd.pattern
    def square(a: pd.f32["n"], b: pd.f32["n"]):
        return (a - b) * (a - b)

    square.replace(pd.CFunction(cases.KERNEL, "square_diff"), when=lambda m: m.n % 64 == 0)
    report, _ = dry_run(cases.DYNAMIC, patterns=[square])
    assert "n is dynamic, and not known to be a multiple of 64" in report.text()
    report, _ = dry_run(cases.STATIC, patterns=[square])
    assert "its predicate does not hold for n = 40" in report.text()
    square.replacements.clear()
    square.replace(pd.CFunction(cases.KERNEL, "square_diff"), when=lambda m: "only on Sundays")
    report, _ = dry_run(cases.STATIC, patterns=[square])
    assert "only on Sundays" in report.text()


def test_no_match_is_a_warning_or_an_error() -> None:
    text = cases.ON_TENSORS.replace("arith.subf", "arith.addf")
    with pytest.warns(MatchWarning, match="@match matched nothing; nearest is .*expected arith.subf, got arith.addf"):
        pd.compile(text, transform_spec=SPEC)
    with pytest.raises(CompileError, match="@match matched nothing") as error:
        pd.compile(text, transform_spec=SPEC, require_match=True)
    assert error.value.location is not None
    with pytest.warns(
        MatchWarning, match="nothing came near: no operation of the program is like its root, arith.mulf"
    ):
        pd.compile("func.func @f(%x: f32) -> f32 { return %x : f32 }", transform_spec=SPEC)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.mlir").write_text(cases.DYNAMIC)
    (tmp_path / "bad.mlir").write_text(cases.DYNAMIC.replace("arith.subf", "arith.addf"))
    (tmp_path / "spec.mlir").write_text(SPEC)
    (tmp_path / "square.py").write_text(
        'import pydispatch as pd\n@pd.pattern\ndef square(a: pd.f32["n"], b: pd.f32["n"]):\n    return (a - b) * (a - b)\n'
    )
    good, bad = str(tmp_path / "good.mlir"), str(tmp_path / "bad.mlir")
    assert cli(["match", good, f"--spec={tmp_path / 'spec.mlir'}", f"--spec={tmp_path / 'square.py'}"]) == 0
    out, err = capsys.readouterr()
    assert "@match matches linalg.generic in @f → @act" in out and "+    %s = util.call @call_square_diff" in out
    assert (tmp_path / "good.mlir").read_text() == cases.DYNAMIC
    assert cli(["match", bad, f"--spec={tmp_path / 'spec.mlir'}"]) == 0
    out, err = capsys.readouterr()
    assert "expected arith.subf, got arith.addf" in out and "warning: @match matched nothing" in err
    assert cli(["match", bad, f"--spec={tmp_path / 'spec.mlir'}", "--require-match"]) == 1
    assert "error: @match matched nothing" in capsys.readouterr().err
    assert cli(["match", good]) == 1
    assert "nothing to look for" in capsys.readouterr().err
    (tmp_path / "square_diff.c").write_text(cases.KERNEL)
    for flag in ("--transform-spec", "--iree-preprocessing-transform-spec-filename"):
        assert (
            cli(["compile", good, f"{flag}={tmp_path / 'spec.mlir'}", "--require-match", "-o", str(tmp_path / "x.pdx")])
            == 0
        )
    assert (
        cli(
            [
                "compile",
                bad,
                f"--transform-spec=input={tmp_path / 'spec.mlir'}",
                "--require-match",
                "-o",
                str(tmp_path / "y.pdx"),
            ]
        )
        == 1
    )
    assert "expected arith.subf" in capsys.readouterr().err


OPS = [
    "math.absf",
    "math.sqrt",
    "math.exp",
    "math.tanh",
    "math.sin",
    "math.cos",
    "arith.negf",
    "math.floor",
    "math.ceil",
    "math.log",
]


def test_hundreds_of_patterns_over_thousands_of_operations() -> None:
    """All rooted at linalg.generic; three operations deep; every chain of the program is one of them."""
    some = OPS[:6]
    lines = ["func.func @f(%v_: tensor<128xf32>) -> tensor<128xf32> {\n%e = tensor.empty() : tensor<128xf32>"]
    last = "%v_"
    state = 1
    for i in range(1000):
        state = state * 1103515245 % 2**31
        lines.append(generic(f"v{i}", some[state // 65536 % 6], [last], type="tensor<128xf32>"))
        last = f"%v{i}"
    program = ir.parse("\n".join(lines) + f"\nreturn {last} : tensor<128xf32>\n}}")
    assert sum(1 for _ in program.walk()) > 3_000
    matchers = []
    for p in range(6**3):
        chain = [some[p // 36], some[p // 6 % 6], some[p % 6]]
        body = "%c0 = arith.constant 0 : index\n%n = tensor.dim %x, %c0 : tensor<?xf32>\n%e = tensor.empty(%n) : tensor<?xf32>\n"
        body += "\n".join(generic(f"w{j}", op, [f"%w{j - 1}" if j else "%x"]) for j, op in enumerate(chain))
        matchers.append(f"""transform.named_sequence @m{p}(%root: !transform.any_op {{transform.readonly}}) -> (!transform.any_op) {{
          %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {{ ^bb0(%x: tensor<?xf32>): {body} }} : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
          transform.yield %root : !transform.any_op }}""")
    act = 'transform.named_sequence @act(%op: !transform.any_op) { transform.annotate %op "hit" : !transform.any_op transform.yield }'
    module = ir.parse(spec(*matchers, act, main(", ".join(f"@m{p} -> @act" for p in range(6**3)))))
    from pydispatch.compiler.match.report import Report
    from pydispatch.compiler.match.transform.handlers import HANDLERS
    from pydispatch.compiler.match.transform.interpret import Interpreter

    report = Report()
    count_calls(Interpreter(module, program, report, HANDLERS).run, limit=4_000_000)  # 2 million; by pairs 12
    assert len(report.found) == 998


LOCAL = {
    "the number of loops": (
        "%c = transform.param.constant NUMBER : i64 -> !transform.param<i64>\n%rank = transform.match.structured.rank %op : (!transform.any_op) -> !transform.param<i64>\ntransform.match.param.cmpi eq %rank, %c : !transform.param<i64>",
        "", 1),
    "the type of the input": (
        "transform.match.structured.dim %op[all] {parallel} : !transform.any_op",
        "%in0 = transform.get_operand %m[0] : (!transform.any_op) -> !transform.any_value\ntransform.iree.match.cast_compatible_type %in0 = tensor<NUMBERxf32> : !transform.any_value",
        128),
}  # fmt: skip


@pytest.mark.parametrize("name", LOCAL)
def test_hundreds_of_matchers_that_look_at_the_operation_alone(name: str) -> None:
    """What they say of one operation holds for all of its kind: each is asked once, not for each of 200 operations."""
    inner, behind, right = LOCAL[name]
    lines = ["func.func @f(%v_: tensor<128xf32>) -> tensor<128xf32> {\n%e = tensor.empty() : tensor<128xf32>"]
    for i in range(200):
        lines.append(generic(f"v{i}", OPS[i % 10], [f"%v{i - 1}" if i else "%v_"], type="tensor<128xf32>"))
    program = ir.parse("\n".join(lines) + "\nreturn %v199 : tensor<128xf32>\n}")
    matchers = [
        f"""transform.named_sequence @m{p}(%root: !transform.any_op {{transform.readonly}}) -> (!transform.any_op) {{
          transform.match.operation_name %root ["linalg.generic"] : !transform.any_op
          %m = transform.match.structured failures(propagate) %root : (!transform.any_op) -> (!transform.any_op) {{
          ^bb1(%op: !transform.any_op):
            {inner.replace("NUMBER", str(right if p == 60 else p + 1000))}
            transform.match.structured.yield %op : !transform.any_op
          }}
          {behind.replace("NUMBER", str(right if p == 60 else p + 1000))}
          transform.yield %root : !transform.any_op }}"""
        for p in range(100)
    ]
    act = 'transform.named_sequence @act(%op: !transform.any_op) { transform.annotate %op "hit" : !transform.any_op transform.yield }'
    module = ir.parse(spec(*matchers, act, main(", ".join(f"@m{p} -> @act" for p in range(100)))))
    from pydispatch.compiler.match.report import Report
    from pydispatch.compiler.match.transform.handlers import HANDLERS
    from pydispatch.compiler.match.transform.interpret import Interpreter

    report = Report()
    count_calls(
        Interpreter(module, program, report, HANDLERS).run, limit=3_000_000
    )  # 1.6 million; by pairs 4.8 or more
    assert len(report.found) == 200 and {f.pattern for f in report.found} == {"@m60"}


def test_executables_of_the_spec_that_nothing_uses_do_not_stay() -> None:
    report, diff = dry_run(
        cases.ON_TENSORS,
        transform_spec=spec(
            EXECUTABLE,
            main("@m -> @a"),
            'transform.named_sequence @m(%r: !transform.any_op) { transform.match.operation_name %r ["math.sqrt"] : !transform.any_op transform.yield }',
            "transform.named_sequence @a() { transform.yield }",
        ),
    )
    assert diff == "" and report.unmatched == ["@m"]
