"""Faults of the compiler, injected into passes and converters: every entrance reports them, with a small program."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

import pydispatch as pd
from pydispatch import ir
from pydispatch.cli.__main__ import main
from pydispatch.compiler.driver import dry_run, pipeline, reduction
from pydispatch.faults import SHOWN
from pydispatch.frontends.onnx import operators
from pydispatch.frontends.source import ReadOptions
from pydispatch.integrations import jax as jax_integration
from pydispatch.kernels.expressions import Expressions
from pydispatch.programs import program as programs_module

sys.path.append(str(Path(__file__).resolve().parents[1] / "frontends" / "onnx"))

import wire


def in_package(function: Any) -> Any:
    """Return a function whose frames are of the package, as those of a fault are."""
    code = function.__code__.replace(co_filename=str(Path(pd.__file__).parent / "injected.py"))
    return FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)


@in_package
def lose(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("lost")


BROKEN = """util.global private @unused = dense<1.0> : tensor<4xf32>
func.func private @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @NAME(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = arith.addf %x, %y : tensor<4xf32>
  %b = math.exp %a : tensor<4xf32>
  %c = arith.divf %b, %x : tensor<4xf32>
  %d = math.tanh %c : tensor<4xf32>
  %e = arith.mulf %d, %a : tensor<4xf32>
  return %d, %e : tensor<4xf32>, tensor<4xf32>
}"""  # each test has a name of its own, since unchanged programs are not compiled again
NORMALIZE = pipeline.normalize


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make the compiler fail for programs that have an operation."""
    monkeypatch.setattr(reduction, "SECONDS", 1e9)  # what is removed does not depend on time
    monkeypatch.setattr(reduction, "LONGEST_SECONDS", 1e9)

    def at(name: str) -> None:
        @in_package
        def broken(module: ModuleOp, *options: bool) -> None:
            for op in module.walk():
                if op.name == name:
                    lose(op)
            NORMALIZE(module, *options)

        monkeypatch.setattr(pipeline, "normalize", broken)

    return at


def test_a_fault_has_a_smaller_program(breaks: Callable[[str], None]) -> None:
    breaks("arith.divf")
    match = r"RuntimeError: lost, while compiling 'arith.divf' at <text>:8:"
    with pytest.raises(pd.InternalError, match=match) as caught:
        pd.compile(BROKEN.replace("NAME", "reduced"), targets="cpu")
    source = caught.value.source
    assert source is not None and source in str(caught.value)
    assert re.findall(r"\b(?:arith|math|util)\.\w+|@\w+", source) == ["@reduced", "arith.divf"]
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(pd.InternalError, match="lost"):
        pd.compile(source, targets="cpu")


def test_an_operation_that_cannot_be_constructed(
    breaks: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Operation):
        name = "test.broken"

        @in_package
        def __init__(self) -> None:
            raise RuntimeError("lost in a constructor")

    monkeypatch.setattr(sys.modules[__name__], "lose", in_package(lambda op: Broken()))
    breaks("arith.divf")
    match = r"RuntimeError: lost in a constructor, while compiling 'arith.divf' at <text>:8:"
    with pytest.raises(pd.InternalError, match=match):
        pd.compile(BROKEN.replace("NAME", "constructed"), targets="cpu")


def test_a_phase_has_a_smaller_program(breaks: Callable[[str], None]) -> None:
    breaks("math.tanh")
    with pytest.raises(pd.InternalError, match="lost") as caught:
        pipeline.compile_to("dispatches", BROKEN.replace("NAME", "phase"), targets="cpu")
    assert caught.value.source is not None
    assert "math.tanh" in caught.value.source and "math.exp" not in caught.value.source


def test_a_long_program_is_a_file(
    breaks: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks("arith.divf")
    monkeypatch.setattr(reduction, "TRIES", 1)  # which the fault's repetition takes
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    more = "".join(f"%l{n} = math.sin %a : tensor<4xf32>\n" for n in range(99))
    with pytest.raises(pd.InternalError, match=r"pydispatch-fault-\w+\.mlir") as caught:
        pd.compile(BROKEN.replace("NAME", "long").replace("%d = ", f"{more}%d = "), targets="cpu")
    (path,) = tmp_path.iterdir()
    assert str(path) in str(caught.value)
    assert path.read_text() == caught.value.source and len(path.read_text()) > SHOWN


def test_refused_programs_are_not_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction.Reduction, "reduced", lose)
    with pytest.raises(pd.CompileError) as caught:
        pd.compile("func.func @refused(%m: memref<?xf32>) {\n  return\n}", targets="cpu")
    assert not isinstance(caught.value, pd.InternalError)


def test_another_fault_is_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs with another fault, or with none, are no smaller forms of one."""

    def compile(module: ModuleOp) -> None:
        names = [op.name for op in module.walk()]
        if "math.exp" not in names:
            raise ValueError("another one")
        if "math.tanh" in names:
            lose()

    module = ir.parse(BROKEN)
    with pytest.raises(RuntimeError) as caught:
        compile(module)
    origin = reduction.origin_of(caught.value)
    found = reduction.Reduction(origin, compile, 1000, 1e18).reduced(module)
    kept = [op.name for op in found.walk() if op.name.startswith(("math", "arith"))]
    assert kept == ["math.exp", "math.tanh"]


# -- every entrance


def graph() -> bytes:
    node = wire.node("Sinh", ["x"], ["y"], name="the_node")
    return wire.model([node], [wire.value("x", 4)], [wire.value("y", 4)], [], 20)


def test_a_converter_names_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [table for table in operators.OPERATORS.values() if "Sinh" in table]
    for table in found:
        monkeypatch.setitem(table, "Sinh", in_package(lambda call, x: lose()))
    path = tmp_path / "model.onnx"
    path.write_bytes(graph())
    match = r"RuntimeError: lost, while compiling Sinh \(f32\[4\]\) at .*model.onnx: the_node"
    with pytest.raises(pd.InternalError, match=match):
        pd.compile(path, targets="cpu")


def test_a_spec_that_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run, "rewrites_of", lose)
    with pytest.raises(pd.InternalError, match=r"RuntimeError: lost(?s:.*)please report it"):
        dry_run.dry_run(BROKEN)


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.mlir"
    path.write_text(BROKEN)
    monkeypatch.setattr("pydispatch.cli.match.source_of", lose)
    assert main(["match", str(path), "--patterns=none.py"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("pydispatch: error: RuntimeError: lost") and "please report it" in printed


def test_a_kernel_names_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    @pd.kernel
    def broken(x: pd.View[pd.f32, 4], y: pd.View[pd.f32, 4]) -> None:
        i = pd.global_id(0)
        y[i] = x[i] * 2

    monkeypatch.setattr(Expressions, "_constant", in_package(lambda self, node: lose(node)))
    x, line = np.ones(4, np.float32), broken.source.function.__code__.co_firstlineno + 2
    with pytest.raises(pd.InternalError, match="RuntimeError: lost, while compiling kernel 'broken'") as caught:
        broken(x, x.copy())
    assert f"test_fault_reports.py:{line}:26" in str(caught.value)


def test_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    @pd.program
    def broken(x: pd.View[pd.f32, 4]) -> Any:
        return x + 1

    monkeypatch.setattr(programs_module, "require_same", lose)
    for enter in (broken.mlir, lambda: broken(np.ones(4, np.float32))):
        with pytest.raises(pd.InternalError, match="RuntimeError: lost"):
            enter()


def test_exceptions_of_a_traced_function_pass() -> None:
    @pd.program
    def mine(x: pd.View[pd.f32, 4]) -> Any:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        mine(np.ones(4, np.float32))


def test_a_function_of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_integration.ir, "parse", lose)
    with pytest.raises(pd.InternalError, match="RuntimeError: lost"):
        jax_integration.module_of("the text of JAX", "f", ReadOptions())


def test_a_call_that_does_not_fit_is_no_fault() -> None:
    with pytest.raises(TypeError, match="unheard"):
        pd.compile(BROKEN, unheard=1)
