"""Packages outside of this one: examples/extending installed beside it, and packages that are wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = """
func.func @swish(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %y = toy.swish %x : tensor<?x3xf32>
  return %y : tensor<?x3xf32>
}
func.func @nothing(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %y = toy.reverse %x axis 1 : tensor<?x3xf32>
  %z = toy.reverse %y axis 1 : tensor<?x3xf32>
  return %z : tensor<?x3xf32>
}
func.func @mirror(%x: tensor<?x3xf32>, %y: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %a = math.absf %x : tensor<?x3xf32>
  %b = toy.reverse %a axis 0 : tensor<?x3xf32>
  %c = arith.addf %b, %y : tensor<?x3xf32>
  return %c : tensor<?x3xf32>
}
func.func @cube(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = arith.mulf %x, %x : tensor<?xf32>
  %z = arith.mulf %y, %x : tensor<?xf32>
  return %z : tensor<?xf32>
}
"""


def run(folder: Path, code: str, *arguments: str, extensions: str = "") -> subprocess.CompletedProcess[str]:
    """Python code, or with `arguments` the command, beside the packages of a folder."""
    words = ["-m", "pydispatch.cli", *arguments] if arguments else ["-c", code]
    path = os.pathsep.join([str(folder), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "PYDISPATCH_EXTENSIONS": extensions}
    return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the example is installed in."""
    work = tmp_path_factory.mktemp("extending")
    shutil.copytree(ROOT / "examples" / "extending", work / "source")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(work / "site"), str(work / "source")], check=True, capture_output=True)
    return work / "site"


CHECKS = {
    "a dialect with a conversion": """
x = np.linspace(-9, 9, 21, dtype=np.float32).reshape(7, 3)
np.testing.assert_allclose(loaded.swish(x), x / (1 + np.exp(-x)), rtol=1e-6)
""",
    "an operation on tensors": """
assert len([name for d in program.executables for name in d.exports if "mirror" in name]) == 1
x = np.linspace(-9, 9, 21, dtype=np.float32).reshape(7, 3)
assert (loaded.mirror(x, x) == np.abs(x)[::-1] + x).all()
""",
    "a pass": """
assert not [name for d in program.executables for name in d.exports if "nothing" in name]
x = np.ones((2, 3), np.float32)
assert (loaded.nothing(x) == x).all()
""",
    "a pattern": """
x = np.arange(5, dtype=np.float32)
assert (loaded.cube(x) == x**3 + 1000).all()
""",
}
"""Addition of an extension -> code that checks it, given the artifact `program`, which uses all, and it `loaded`."""


@pytest.fixture(scope="module")
def outcomes(toy: Path) -> dict[str, str]:
    """The traceback of each check, empty for one that passed: one process compiles the program for all of them."""
    done = run(
        toy,
        f"""
import json, traceback
import numpy as np, pydispatch as pd
program = pd.compile({PROGRAM!r})
loaded = pd.device().load(program)
outcomes = {{}}
for name, code in {CHECKS!r}.items():
    try:
        exec(code, {{"np": np, "program": program, "loaded": loaded}})
        outcomes[name] = ""
    except Exception:
        outcomes[name] = traceback.format_exc()
print(json.dumps(outcomes))
""",
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("check", CHECKS)
def test_what_extensions_add(outcomes: dict[str, str], check: str) -> None:
    assert outcomes[check] == ""


def test_an_operation_that_is_a_view(toy: Path) -> None:
    source = """
func.func @alone(%x: tensor<?x3xf32>) -> tensor<?xf32> {
  %y = toy.flatten %x : tensor<?x3xf32> to tensor<?xf32>
  return %y : tensor<?xf32>
}
func.func @fused(%x: tensor<?x3xf32>) -> tensor<?xf32> {
  %a = math.absf %x : tensor<?x3xf32>
  %y = toy.flatten %a : tensor<?x3xf32> to tensor<?xf32>
  %z = arith.negf %y : tensor<?xf32>
  return %z : tensor<?xf32>
}
func.func @six(%x: tensor<?x3xf32>) -> tensor<6xf32> {
  %y = toy.flatten %x : tensor<?x3xf32> to tensor<6xf32>
  return %y : tensor<6xf32>
}"""
    done = run(
        toy,
        f"""
import numpy as np, pydispatch as pd
program = pd.compile('''{source}''')
assert [d.name for d in program.executables if "fused" not in d.name] == [], "views need no kernel"
loaded = pd.device().load(program)
x = np.linspace(-9, 9, 21, dtype=np.float32).reshape(7, 3)
assert (loaded.alone(x) == x.reshape(-1)).all()
assert (loaded.fused(x) == -np.abs(x).reshape(-1)).all()
assert (loaded.six(x[:2]) == x[:2].reshape(-1)).all()
try:
    loaded.six(x)
except pd.Error as error:
    assert "the bytes of 'toy.flatten'" in str(error), error
else:
    raise AssertionError
""",
    )
    assert done.returncode == 0, done.stderr


def test_a_target(toy: Path) -> None:
    source = """
func.func @f(%a: tensor<8x4xf32>, %b: tensor<4x8xf32>, %c: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<8x4xf32>, tensor<4x8xf32>) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = math.exp %0 : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}"""
    done = run(
        toy,
        f"""
import numpy as np, pydispatch as pd
source = '''{source}'''
program = pd.compile(source, targets=["toy-text", "cpu"])
(executable,) = program.executables
text, _ = executable.variants
assert (text.format, text.alignment) == ("toy-kernel-ir", 16)
data = bytes(program.read(text.member)).decode()
assert data.startswith(f"// {{executable.exports[0]}}"), data
assert "hal.interface.binding.subspan" in data and "math.exp" in data, data
assert "pyd." not in data, data  # operations that only other targets have
a, c = np.ones((8, 4), np.float32), np.zeros((8, 8), np.float32)
np.testing.assert_allclose(pd.device().load(program).f(a, a.reshape(4, 8), c), np.exp(4), rtol=1e-6)
assert [v.format for v in pd.compile(source, targets="toy-text").executables[0].variants] == ["toy-kernel-ir"]
try:
    pd.compile(source, targets="toy-texts")
except pd.CompileError as error:
    assert "known: cpu, cuda, llvm-cpu, local, nvptx, toy-text, vulkan, vulkan-spirv, " in str(error), error
else:
    raise AssertionError
""",
    )
    assert done.returncode == 0, done.stderr


DEVICE_PROGRAM = """
func.func @f(%x: tensor<?x3xf32>, %s: f32) -> tensor<?x3xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?x3xf32>
  %t = tensor.splat %s[%n] : tensor<?x3xf32>
  %y = arith.mulf %x, %t : tensor<?x3xf32>
  %z = toy.swish %y : tensor<?x3xf32>
  return %z : tensor<?x3xf32>
}
func.func @tangent(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.tan %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


def test_a_device(toy: Path) -> None:
    done = run(
        toy,
        f"""
import numpy as np, pydispatch as pd
device = pd.device("toy")
assert "toy" in pd.devices()
program = device.load(pd.compile('''{DEVICE_PROGRAM}''', targets="toy-text"))
x = np.linspace(-4, 4, 15, dtype=np.float32).reshape(5, 3)
expected = 2 * x / (1 + np.exp(-2 * x))
np.testing.assert_allclose(program.f(x, 2.0).numpy(), expected, rtol=1e-6)
held = device.upload(x)
np.testing.assert_allclose(program.f(held, np.float32(2)).numpy(), expected, rtol=1e-6)
try:
    program.tangent(np.ones(4, np.float32))
except pd.CompileError as error:
    assert "the toy device has no operation 'math.tan'" in str(error), error
else:
    raise AssertionError
device.close()
try:
    program.f(x, 2.0)
except pd.DeviceUnavailableError as error:
    assert "toy was closed" in str(error)
else:
    raise AssertionError
""",
    )
    assert done.returncode == 0, done.stderr


def test_a_frontend(toy: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.toy"
    model.write_text("input x n\ninput y n\n\na = mul x y\nb = exp a\noutput b\noutput a\n")
    done = run(
        toy,
        f"""
import numpy as np, pydispatch as pd
program = pd.compile({str(model)!r})
assert len(program.executables) == 1, "both operations are one kernel"
x = np.linspace(-2, 2, 7, dtype=np.float32)
b, a = pd.device("cpu").load(program).main(x, y=x)
np.testing.assert_allclose(b, np.exp(x * x), rtol=1e-6)
np.testing.assert_allclose(a, x * x, rtol=1e-6)
""",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("line", "expected"), [
    ("b = add x absent", "there is no vector 'absent' here"),
    ("b = sine x", "'b = sine x' is no line of a toy file"),
    ("b = exp x x", "'exp' does not take 2 operand(s)"),
])  # fmt: skip
def test_a_frontend_names_the_place_of_an_error(toy: Path, tmp_path: Path, line: str, expected: str) -> None:
    model = tmp_path / "model.toy"
    model.write_text(f"input x 4\n{line}\noutput b\n")
    done = run(toy, "", "compile", str(model), "-o", str(tmp_path / "model.pdx"))
    assert done.returncode == 1
    assert expected in done.stderr and "model.toy" in done.stderr and "line 2" in done.stderr, done.stderr


HISTOGRAM = """
func.func @f(%x: tensor<?xf32>) -> tensor<4xi64> {
  %y = arith.mulf %x, %x : tensor<?xf32>
  %z = toy.histogram %y : tensor<?xf32> -> tensor<4xi64>
  %w = arith.addi %z, %z : tensor<4xi64>
  return %w : tensor<4xi64>
}
"""


def test_a_host_command(toy: Path) -> None:
    done = run(
        toy,
        f"""
import numpy as np, pydispatch as pd
x = np.linspace(0, 1, 50, dtype=np.float32)
expected = 2 * np.histogram(x * x, 4, (0, 1))[0]
for name, target in (("cpu", "cpu"), ("ptx-interpreter", "cuda")):
    device = pd.device(name)
    program = pd.compile('''{HISTOGRAM}''', targets=target)
    assert (np.asarray(device.load(program).f(x)) == expected).all()
    assert (np.asarray(device.load(program).f(x)) == expected).all()

def other(context, source, counts):
    counts[...] = 7

device = pd.device("cpu")
device.add_command("toy.histogram", other)  # what a device is given comes first
assert (device.load(pd.compile('''{HISTOGRAM}''')).f(x) == 14).all()
""",
    )
    assert done.returncode == 0, done.stderr


def test_a_subcommand(toy: Path, tmp_path: Path) -> None:
    source = tmp_path / "program.mlir"
    source.write_text(PROGRAM)
    artifact = str(tmp_path / "program.pdx")
    assert run(toy, "", "compile", str(source), "-o", artifact).returncode == 0
    listed = run(toy, "", "sizes", artifact)
    assert "manifest.json" in listed.stdout, listed.stderr
    assert "Prints the bytes of each member" in run(toy, "", "--help").stdout


def test_without_extensions(toy: Path) -> None:
    done = run(toy, f"import pydispatch as pd\npd.compile('''{PROGRAM}''')", extensions="0")
    assert "dialect 'toy' is not known" in done.stderr
    assert run(toy, "", "sizes", "x", extensions="0").returncode == 2


# -- packages that are wrong


def package(folder: Path, name: str, body: str, entry: str = "register") -> Path:
    """A package of one module, installed in a folder."""
    (folder / f"{name}.py").write_text(body)
    info = folder / f"{name}-3.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 3.1\n")
    (info / "entry_points.txt").write_text(f"[pydispatch.extensions]\n{name} = {name}:{entry}\n")
    return folder


COMPILE = """
import pydispatch as pd
pd.compile("func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }")
"""

WRONG = {
    "a dialect that is built in": ("extensions.dialect('arith', 'wrong:X')",
        "dialect 'arith' is both in pydispatch (pydispatch.ir.dialects.arith:Arith) and in package wrong 3.1 (wrong"),
    "a failing registration": ("1 / 0",
        "package wrong 3.1 cannot register what it adds to pydispatch: ZeroDivisionError"),
    "no such object": ("extensions.conversions('wrong:ROWS')",
        "conversions of package wrong 3.1 cannot be imported from 'wrong:ROWS'"),
    "a conversion that is there": ("extensions.conversions('pydispatch.compiler.normalize.checks:ROWS')",
        "replace the operation 'check.expect_eq_const'"),
    "a pass of no phase": ("extensions.compiler_pass('linking', 'wrong:fail')",
        "pass wrong:fail of package wrong 3.1: there is no phase 'linking' of the module; phases: input, "),
    "a failing pass": ("extensions.compiler_pass('dispatches', 'wrong:fail')",
        "pass wrong:fail of package wrong 3.1: RuntimeError: no"),
    "a pass that breaks the program": ("extensions.compiler_pass('input', 'wrong:break_it')",
        "after the pass wrong:break_it of package wrong 3.1:"),
}  # fmt: skip

MODULE = """
def register(extensions):
    {line}
def fail(module):
    raise RuntimeError("no")
def break_it(module):
    for op in list(module.walk()):
        if op.name == "func.return":
            op.detach()
            op.erase()
"""


@pytest.mark.parametrize("case", WRONG)
def test_a_package_that_is_wrong_is_named(case: str, tmp_path: Path) -> None:
    line, expected = WRONG[case]
    done = run(package(tmp_path, "wrong", MODULE.format(line=line)), COMPILE)
    assert expected in done.stderr
    assert run(tmp_path, COMPILE, extensions="0").returncode == 0


def test_an_entry_point_that_does_not_exist(tmp_path: Path) -> None:
    done = run(package(tmp_path, "absent", "", entry="regster"), COMPILE)
    assert "package absent 3.1 cannot register what it adds to pydispatch: AttributeError" in done.stderr
    assert "set PYDISPATCH_EXTENSIONS=0 to do without extensions" in done.stderr


def test_what_is_built_in_needs_no_packages(tmp_path: Path) -> None:
    package(tmp_path, "wrong", MODULE.format(line="1 / 0"))
    code = "import pydispatch as pd; print(pd.device('cpu').name)"
    assert run(tmp_path, code).stdout.strip() == "cpu"


@pytest.mark.parametrize("arguments", [["--help"], ["compile", "x.mlir", "-o", "x.pdx"], ["unknown"]])
def test_the_command_names_a_package_that_is_wrong(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "x.mlir").write_text("func.func @f() { return }")
    package(tmp_path, "wrong", MODULE.format(line="1 / 0"))
    done = subprocess.run(
        [sys.executable, "-m", "pydispatch.cli", *arguments], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("pydispatch: error: package wrong 3.1 cannot register")
