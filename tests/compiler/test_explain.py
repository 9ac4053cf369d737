"""What formation tells: compile(explain=True), the manifest, and inspect --dispatches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.cli.__main__ import main
from pydispatch.formats.artifact import dispatches
from pydispatch.formats.artifact.dispatches import Boundary, DispatchEntry

TWO = """func.func @f(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %v: tensor<4x3xf32>) -> tensor<8x3xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  %m = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x4xf32>) outs(%f : tensor<8x4xf32>) -> tensor<8x4xf32>
  %a = math.absf %m : tensor<8x4xf32>
  %e2 = tensor.empty() : tensor<8x3xf32>
  %f2 = linalg.fill ins(%z : f32) outs(%e2 : tensor<8x3xf32>) -> tensor<8x3xf32>
  %o = linalg.matmul ins(%a, %v : tensor<8x4xf32>, tensor<4x3xf32>) outs(%f2 : tensor<8x3xf32>) -> tensor<8x3xf32>
  return %o : tensor<8x3xf32>
}
"""


def test_explain_names_operations_lines_and_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    pd.compile(TWO)
    assert capsys.readouterr().err == ""
    pd.compile(TWO, explain=True)
    text = capsys.readouterr().err
    assert text.startswith("@f: 2 dispatches\n  @f_dispatch_0_matmul_8x4x16xf32_absf\n")
    assert "holds 5:8 matmul, 6:8 absf" in text
    assert text.count("workgroups: 1x1x1") == 2
    assert "apart from 9:8 matmul, which reads 6:8 absf: " in text and text.count("apart") == 1


def test_inspect_shows_it_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.pdx"
    pd.compile(TWO, explain=True).save(path)
    told = capsys.readouterr().err
    assert main(["inspect", "--dispatches", str(path)]) == 0
    assert capsys.readouterr().out == told
    assert main(["inspect", "--dispatches", "--json", str(path)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [d["ops"] for d in report["dispatches"]["f"]] == [["5:8 matmul", "6:8 absf"], ["9:8 matmul"]]
    assert main(["inspect", "--json", str(path)]) == 0
    assert "dispatches" not in json.loads(capsys.readouterr().out)


def test_kernels_of_the_program_are_listed_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the user stand between the ones that formation made, in the order in which a profile has them."""
    path = tmp_path / "mixed.pdx"
    source = "void twice(const float *a, float *out) {\n  for (int i = 0; i < 4; i++) out[i] = 2 * a[i];\n}\n"

    @pd.pattern
    def absolute(x: pd.f32[4]) -> object:
        return abs(x)

    absolute.replace(pd.CFunction(source, "twice", "x", "out"))
    text = """func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
      %a = arith.addf %x, %y : tensor<4xf32>
      %b = math.absf %a : tensor<4xf32>
      %c = arith.mulf %b, %y : tensor<4xf32>
      return %c : tensor<4xf32>
    }"""
    pd.compile(text, patterns=[absolute]).save(path)
    assert main(["inspect", "--dispatches", "--json", str(path)]) == 0
    found = json.loads(capsys.readouterr().out)["dispatches"]["f"]
    assert [d["ops"] for d in found] == [["2:12 addf"], ["a kernel of the program, 3:12 dispatch"], ["4:12 mulf"]]
    program = pd.device("cpu").load(path)
    profile = program.f.profile(np.ones(4, np.float32), np.ones(4, np.float32))
    assert all(f"@{d['export']}" in str(row.command) for d, row in zip(found, profile, strict=True))


def test_a_program_without_tensors_has_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.pdx"
    pd.compile("func.func @f(%x: i32) -> i32 {\n return %x : i32\n}").save(path)
    assert main(["inspect", "--dispatches", str(path)]) == 0
    assert capsys.readouterr().out == "no dispatches were formed\n"


def test_the_text_is_read_back_and_a_broken_one_refused() -> None:
    listing = [
        (
            "f",
            [
                DispatchEntry("e", "x", ("1:2 addf",), (Boundary("1:2 addf", "3:4 mulf", "why"),)),
                DispatchEntry("g", "y", ()),
            ],
        )
    ]
    assert dispatches.decode(dispatches.encode(listing)) == listing
    assert dispatches.encode([]) == ""
    older = '{"f":[["e","x",["1:2 addf"],[["3:4 mulf","why"]]]]}'
    assert dispatches.decode(older)[0][1][0].apart == (Boundary("", "3:4 mulf", "why"),)
    assert "apart from 3:4 mulf: why" in dispatches.render(dispatches.decode(older))
    for broken in (7, "", "[]", '{"f":7}', '{"f":[7]}', '{"f":[["e"]]}', '{"f":[["e","x",[1],[]]]}',
                   '{"f":[["e","x",[],[["a"]]]]}', "[" * 100_000):  # fmt: skip
        with pytest.raises(pd.ArtifactError, match=r"manifest\.json: dispatches"):
            dispatches.decode(broken)


def test_explain_shows_grids(capsys: pytest.CaptureFixture[str]) -> None:
    t = "tensor<100000xf32>"
    text = f"func.func @f(%x: {t}) -> {t} {{\n  %y = arith.addf %x, %x : {t}\n  return %y : {t}\n}}\n"
    pd.compile(text, explain=True)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "workgroups" in line]
    assert int(line.split(": ")[1].split("x")[0]) > 1
    pd.compile("func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {\n  %y = math.absf %x : tensor<?xf32>\n"
               "  return %y : tensor<?xf32>\n}\n", explain=True)  # fmt: skip
    assert "workgroups: ?x1x1" in capsys.readouterr().err


def test_rows_of_branches_list_the_nearest_dispatches() -> None:
    """The result of the last of n branches may come from each of them: not all pairs are listed, but the nearest."""

    def boundaries(count: int) -> list[int]:
        lines, value = [], "%x"
        for n in range(count):
            lines.append(f"""%y{n} = scf.if %c -> (tensor<64xf32>) {{
              %a{n} = arith.addf {value}, %x : tensor<64xf32>
              scf.yield %a{n} : tensor<64xf32>
            }} else {{
              scf.yield {value} : tensor<64xf32>
            }}""")
            value = f"%y{n}"
        rows = "\n".join(lines)
        head = "func.func @f(%x: tensor<64xf32>, %c: i1) -> tensor<64xf32> {"
        text = f"{head}\n{rows}\nreturn {value} : tensor<64xf32>\n}}"
        artifact = pd.compile(text, targets=["cpu"], cpu="generic")
        ((_, entries),) = dispatches.decode(artifact.manifest.extra[dispatches.KEY])
        assert len(entries) == count
        assert all(entry.apart for entry in entries[:-1])  # also the one directly after it
        return [len(entry.apart) for entry in entries]

    assert sum(boundaries(6)) == 5 + 4 + 3 + 2 + 1
    assert max(boundaries(40)) <= 8
