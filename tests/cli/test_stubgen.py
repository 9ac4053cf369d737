"""`pydispatch stubgen`: modules that mypy accepts in strict mode, and that load what they describe."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
import typecheck
import user_program

import pydispatch as pd
from pydispatch.cli.__main__ import main
from pydispatch.errors import ArtifactError
from pydispatch.formats.artifact.stub import PROGRAM_ATTRIBUTES, module_of

PROGRAM = """
func.func @two_results(%a: tensor<?x4xf32> {pyd.name = "a"}, %k: i32 {pyd.name = "out"}) -> (tensor<?x4xf32>, i32) {
  return %a, %k : tensor<?x4xf32>, i32
}
func.func @twoResults(%a: tensor<2xbf16> {pyd.name = "a"}) -> tensor<2xbf16> {
  return %a : tensor<2xbf16>
}
func.func @close(%a: tensor<2xf32>) -> tensor<2xf32> {
  return %a : tensor<2xf32>
}
"""
USE = """
from typing_extensions import assert_type
import numpy as np
import numpy.typing as npt
import made

program = made.load()
a, k = program.two_results(np.ones((3, 4), np.float32), 7)
assert_type(a, npt.NDArray[np.float32])
assert_type(k, int)
assert_type(program.two_results.prepare(a, 7, fresh=True)()[1], int)
program.two_results.submit(a, 7, priority="high", workers=2)
program.two_results.submit_many([(a, 1), (a, 2)], on_error="return").result()
for a, k in program.two_results.map([(a, 1), (a, 2)], in_flight=2):
    print(program.two_results.name, program.two_results.inputs[0].shape, program.two_results.outputs[1].dtype)
print(program.two_results.profile(a, 7, runs=1).longest, program.two_results.plan_of(a, 7))
with program.two_results.batched(max_batch=8, constants={1: 7}) as batched:
    batched.submit(a).result()
program["close"](a)
program.nearly_anything(a)  # a Function: its name is checked at run time
"""
WRONG = """
import numpy as np
import made

doubles = np.ones((3, 4), np.float64)
made.load().two_results(doubles, 7)
made.load().two_results(np.ones((3, 4), np.float32), "7")
made.load().two_results.submit(np.ones((3, 4), np.float32), 7, workers="2")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stubs")
    pd.compile(PROGRAM, targets="cpu").save(made / "made.pdx")
    assert main(["stubgen", str(made / "made.pdx"), "-o", str(made / "made.py")]) == 0
    (made / "use.py").write_text(USE)
    (made / "wrong.py").write_text(WRONG)
    (made / "user_program.py").write_text(Path(user_program.__file__).read_text())
    return made


def test_it_runs(folder: Path) -> None:
    spec = importlib.util.spec_from_file_location("made", folder / "made.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    a, k = module.load(device="local-sync").two_results(np.ones((3, 4), np.float32), 7)
    assert a.shape == (3, 4) and k == 7
    text = (folder / "made.py").read_text()
    assert "two_results(a: f32[d0, 4], out: i32) -> (f32[d0, 4], i32)" in text
    assert "# 'close': program['close']" in text, "a method of Program has the name"
    assert {name for name in dir(pd.Program) if not name.startswith("_")} == set(PROGRAM_ATTRIBUTES)
    assert "TwoResults_:" not in text and "twoResults: TwoResults_" in text


def test_type_checkers_know_the_functions(folder: Path) -> None:
    """One run of mypy for the module, its use, its wrong use, and a program that uses what is documented."""
    found = typecheck.check(*(folder / name for name in ("made.py", "use.py", "wrong.py", "user_program.py")))
    wrong = [line for line in found.splitlines() if "error:" in line]
    assert len(wrong) == 3 and all("wrong.py" in line and "[arg-type]" in line for line in wrong), found


def test_what_is_documented_runs(tmp_path: Path) -> None:
    user_program.main(tmp_path)


def test_buffers_and_old_artifacts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = pd.compile("func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {\n return %a : tensor<2xf32>\n}")
    artifact.save(tmp_path / "f.pdx")
    assert main(["stubgen", str(tmp_path / "f.pdx"), "--buffers"]) == 0
    assert "-> pydispatch.Buffer: ..." in capsys.readouterr().out
    artifact.manifest.functions[0].inputs = None
    with pytest.raises(ArtifactError, match=r"f\.pdx: it does not say what @f takes; compile it again"):
        module_of(artifact, "f.pdx")


def test_types_of_numbers() -> None:
    types = {"i1": "bool", "i8": "int", "i16": "int", "i64": "int", "index": "int", "f32": "float"}
    arguments = ", ".join(f'%a{i}: {type_} {{pyd.name = "a{i}"}}' for i, type_ in enumerate(types))
    text = module_of(pd.compile(f"func.func @f({arguments}) {{\n return\n}}"), "f.pdx")
    for i, python_type in enumerate(types.values()):
        assert f"a{i}: {python_type}, " in text


@pytest.mark.parametrize("name", ["self", "out", "workers", "fresh", "priority"])
def test_arguments_with_the_names_of_parameters(name: str) -> None:
    """An argument with the name of a parameter of `__call__`, `prepare` or `submit` is given by position."""
    text = module_of(pd.compile(f'func.func @f(%a: i32 {{pyd.name = "{name}"}}, %b: i32 {{pyd.name = "b"}}) {{\n'
                                " return\n}"), "f.pdx")  # fmt: skip
    compile(text, "made.pyi", "exec")
    assert text.count("self, _0: int, /, b: int, *, ") == 3


@pytest.mark.parametrize("name", ['f"""', "f\n", "class", "_f", "f.g", "ü"])
def test_names_that_python_cannot_write(name: str) -> None:
    artifact = pd.compile("func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {\n return %a : tensor<2xf32>\n}")
    artifact.manifest.functions[0].name = name
    assert artifact.manifest.functions[0].inputs is not None
    artifact.manifest.functions[0].inputs[0].name = name
    text = module_of(artifact, f"{name}.pdx")
    compile(text, "made.py", "exec")
    assert "(_Function, Protocol)" not in text


def test_each_class_has_a_name_of_its_own() -> None:
    """The class of a function may be called like the prepared calls of another one."""
    body = "(%a: tensor<2xf32>) -> tensor<2xf32> {\n return %a : tensor<2xf32>\n}\n"
    artifact = pd.compile(f"func.func @f{body}func.func @g{body}")
    artifact.manifest.functions[0].name, artifact.manifest.functions[1].name = "hPrepared", "h"
    classes = re.findall(r"^class (\w+)", module_of(artifact, "h.pdx"), re.MULTILINE)
    assert len(classes) == len(set(classes)) == 6


@pytest.mark.parametrize(("type_", "python"), [
    ("tensor<4xui8>", "npt.NDArray[np.uint8]"), ("tensor<4xsi16>", "npt.NDArray[np.int16]"),
    ("tensor<4xi64>", "npt.NDArray[np.int64]"), ("tensor<4xbf16>", "npt.NDArray[Any]"), ("bf16", "float"),
    ("f16", "float"), ("ui16", "int"), ("si8", "int"), ("index", "int"), ("i1", "bool"),
])  # fmt: skip
def test_types_of_results(type_: str, python: str) -> None:
    text = f"func.func @same(%x: {type_}) -> {type_} {{ return %x : {type_} }}"
    assert f") -> {python}: ..." in module_of(pd.compile(text), "same.pdx")
