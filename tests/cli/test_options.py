"""Options of the compiler: stated once, and the same in Python, on the command line and in the reference."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typecheck import check

import pydispatch as pd
from pydispatch.cli.__main__ import main
from pydispatch.compiler.driver import pipeline
from pydispatch.options import OPTIONS, Flag, Option, completed, documented
from pydispatch.tuning import compile as tuning

ROOT = Path(__file__).resolve().parents[2]
TEXT = """func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %c = arith.addf %a, %b : tensor<4xf32>
  return %c : tensor<4xf32>
}
"""
ADDED = """
import sys
TEXT = 'several\\nlines'
from pydispatch.options import OPTIONS, Flag, Option
OPTIONS["speed"] = Option(3, 'Speed in "knots".', "At sea.", "slow", Flag(("--speed",), "KNOTS", parse=int), int)

import pydispatch as pd
from pydispatch.cli.__main__ import main
from pydispatch.compiler.driver import pipeline
seen = []
def compile(source, **options):
    seen.append(options["speed"])
    raise pd.CompileError("stop")
pipeline.compile = compile
for call in (lambda: pd.compile(TEXT), lambda: pd.compile(TEXT, speed=4)):
    try:
        call()
    except pd.CompileError:
        pass
assert main(["compile", "a.mlir", "--speed=5"]) == 1
assert main(["compile", "a.mlir"]) == 1
print(seen)
help(pd.compile)
sys.path.append("docs/site")
import reference
pages = reference.pages()
print(pages["python"], pages["cli"])
"""


def test_a_new_option_is_one_entry() -> None:
    """It reaches the driver from Python and the command line, and is in every text that lists options."""
    done = subprocess.run([sys.executable, "-c", ADDED], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seen, *lines = done.stdout.splitlines()
    assert seen == "[3, 4, 5, 3]"
    text = "\n".join(lines)
    assert "tune_on: Any = None, speed: int = 3) -> " in text  # help()
    assert '        speed: Speed in "knots". At sea. Default: slow.' in text
    assert "\n    speed: int = 3,\n" in text and "\n    speed: int\n" in text  # the reference
    assert '\n- `speed`: Speed in "knots". At sea. Default: slow.\n' in text
    assert "  --speed KNOTS         speed in knots; default: slow\n" in text  # the command line


@pytest.mark.parametrize("name", OPTIONS)
def test_documented_as_a_sentence(name: str) -> None:
    option = OPTIONS[name]
    assert option.summary.endswith((".", ")`.")) and option.summary[0] in 'ABCDEFGHIJKLMNOPQRSTUVWXYZ"'
    assert not option.details or option.details.endswith(".")
    assert not option.default_note.endswith(".")
    parameter = inspect.signature(pd.compile).parameters[name]
    assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
    assert parameter.default == option.default and parameter.annotation == option.type


def test_help_of_a_flag() -> None:
    flag = Flag(("--a",), repeatable=True, note="of a FILE")
    assert Option(None, 'Use "x" or `y`.', default_note='"x"', flag=flag).help == (
        "use x or y; of a FILE; repeatable; default: x"
    )
    assert Option(None, "LLVM features.").help == "LLVM features"


def test_checkers_know_the_types(tmp_path: Path) -> None:
    path = tmp_path / "wrong_options.py"
    path.write_text(
        "import pydispatch as pd\n"
        "def f(options: pd.CompileOptions) -> pd.Artifact:\n"
        "    return pd.compile('a.mlir', **options)\n"
        "f({'cpu': 'native', 'tune': 1})\n"
        "f({'speed': 3})\n"
        "pd.compile('a.mlir', cpu=3)\n"
        "pd.compile('a.mlir', cpus='native')\n"
        "pd.from_jax(abs, explain='yes')\n"
    )
    lines = [line.partition(".py:")[2].partition(":")[0] for line in check(path).splitlines() if ": error:" in line]
    assert lines == ["5", "6", "7", "8"]


def test_functions_without_a_docstring() -> None:
    """Python -OO removes docstrings."""

    def function(source: Any, **options: Any) -> None: ...

    documented(function)
    assert function.__doc__ is None
    assert list(inspect.signature(function).parameters) == ["source", *OPTIONS]


def test_defaults_and_unknown_options() -> None:
    given = completed({"cpu": "native"})
    assert given["cpu"] == "native" and given["weights"] == "embed" and set(given) == set(OPTIONS)
    with pytest.raises(TypeError, match=r"compile\(\) has no option 'target'; did you mean 'targets'\? targets, cpu, "):
        pd.compile(TEXT, target="cpu")  # type: ignore[call-arg]


def test_the_command_line_gives_what_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The defaults are the compiler's: a flag that is not given is not passed."""
    seen: dict[str, Any] = {}

    def compile(source: Any, **options: Any) -> Any:
        seen.update(options)
        raise pd.CompileError("stop")

    monkeypatch.setattr(tuning, "compile", compile)
    path = tmp_path / "f.mlir"
    path.write_text(TEXT)
    always = {"targets", "tune_on", "progress"}
    assert main(["compile", str(path)]) == 1
    assert set(seen) == always
    kernel, spec = f"m::f={tmp_path}/f.c:f:x,out", ["--transform-spec=input=a.mlir", "--transform-spec=b.mlir"]
    words = [
        "--cpu=host", "--cpu=generic", "--no-reassociate", "--explain", "--tune=2", f"--kernel={kernel}", *spec,
             "--activation-bits=8", "--weights=external", "-L", "x", "--object-search-path=y", "--target=cuda",
             "--cuda-target=sm_80",
    ]  # fmt: skip
    seen.clear()
    assert main(["compile", str(path), *words]) == 1
    (swish,) = seen.pop("kernels").values()
    assert (swish.source, swish.symbol, swish.arguments) == (f"{tmp_path}/f.c", "f", ("x", "out"))
    assert {name: value for name, value in seen.items() if name not in ("tune_on", "progress")} == {
        "targets": ["sm_80"], "cpu": ["native", "generic"], "reassociate": False, "explain": True, "tune": 2.0,
        "transform_spec": {"input": ["a.mlir"], "preprocessing": ["b.mlir"]}, "weights": "external",
        "object_search_path": ["x", "y"], "activation_bits": 8,
    }  # fmt: skip


@pytest.mark.parametrize("words", [["--weights=all"], ["--tune=soon"], ["--activation-bits=few"], ["--explain=yes"]])
def test_wrong_values_of_flags(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compile", "f.mlir", *words])
    assert words[0].partition("=")[0] in capsys.readouterr().err


def test_a_phase_is_compiled_with_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    chained = TEXT.replace("return %c", "%d = arith.addf %c, %a : tensor<4xf32>\n  return %d")
    texts = [pipeline.compile_to("executables", chained, reassociate=flag, explain=flag) for flag in (True, False)]
    assert "reassociate = false" in texts[1] and "reassociate" not in texts[0]
    assert capsys.readouterr().err.count("@f: 1 dispatch") == 1
