"""Statuses and exceptions: the two tables agree, and whatever Python raises within a call arrives as a failure."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydispatch._core import status
from pydispatch._core.device import Runner

import pydispatch as pd

ROOT = Path(__file__).resolve().parents[2]
TEXT = """func.func @f(%a: tensor<?xi32>, %k: i32) -> tensor<?xi32> {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %a, %c0 : tensor<?xi32>
  %s = tensor.splat %k[%d] : tensor<?xi32>
  %r = arith.addi %a, %s : tensor<?xi32>
  return %r : tensor<?xi32>
}"""


def test_every_code_has_a_class() -> None:
    text = (ROOT / "csrc/include/pydispatch/status.h").read_text()
    rows = re.findall(r"^  X\((\w+), (\d+)\)", text, re.M)
    codes = {int(number) for name, number in rows if name != "OK"}
    assert codes == set(status.CODES) == set(range(1, len(rows)))


class Mute(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Forgetful(Mute):
    def __str__(self) -> str:
        raise MemoryError


class Strange(pd.KernelError):
    """With numbers that are none."""

    def __init__(self) -> None:
        super().__init__("strange", workgroup=("a", "b"), code="c")


@pytest.fixture(scope="module")
def artifact() -> Any:
    return pd.compile(TEXT, targets="cpu")


@pytest.fixture
def fails(artifact: Any) -> Callable[[BaseException], Any]:
    """Calls a program whose device raises."""
    program = pd.device("local-sync").load(artifact)
    raised: list[BaseException] = []

    def run(data: Any, constants: bytes, patterns: list[int], addresses: list[int]) -> None:
        raise raised[-1]

    Runner(program._module, SimpleNamespace(run_addresses=run))

    def call(error: BaseException) -> Any:
        raised.append(error)
        return program.f(np.arange(4, dtype=np.int32), 1)

    return call


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (pd.Error("a lone \ud800 surrogate"), pd.Error, r"a lone \\ud800 surrogate"),
        (pd.OutOfMemoryError("caf\xe9 \udcff"), pd.OutOfMemoryError, "caf\xe9 \\\\udcff"),
        (ValueError("\ud800"), pd.InvalidArgumentError, r"\\ud800"),
        (ZeroDivisionError("\udfff"), pd.InternalError, r"ZeroDivisionError: \\udfff"),
        (pd.KernelError("\ud800", "library", "export \ud800", (1, 2, 3), 4), pd.KernelError, r"\\ud800"),
        (pd.Error("one\0two"), pd.Error, r"one\\0two"),
        (pd.MissingImportError("none", ("sin", "cos")), pd.MissingImportError, "none"),
        (Mute(), pd.InternalError, r"a device's program: an error of class .*Mute without a text"),
        (Forgetful(), pd.InternalError, "an error of class .*Forgetful without a text"),
        (Strange(), pd.KernelError, "an error of class .*Strange without a text"),
        (MemoryError("little"), pd.OutOfMemoryError, "little"),
        (OSError(2, "no such thing"), OSError, "no such thing"),
    ],
    ids=repr,
)
def test_what_a_device_raises_arrives(
    fails: Callable[[BaseException], Any], error: BaseException, kind: type[BaseException], text: str
) -> None:
    with pytest.raises(kind, match=text) as caught:
        fails(error)
    found: Any = caught.value
    if type(error) is pd.KernelError:
        names = (found.executable, found.export)
        assert (*names, found.workgroup, found.code) == ("library", r"export \ud800", (1, 2, 3), 4)
    if type(error) is pd.MissingImportError:
        assert found.symbols == ("sin", "cos")


@pytest.mark.parametrize("error", [KeyboardInterrupt("stop"), SystemExit(7), GeneratorExit()], ids=repr)
def test_what_ends_a_program_goes_on_as_it_is(fails: Callable[[BaseException], Any], error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        fails(error)
    assert caught.value is error
    with pytest.raises(pd.Error, match="later"):  # and nothing is left in the thread
        fails(pd.Error("later"))
