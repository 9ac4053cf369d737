"""Plans as data and calls handed over (`_core.device`), without any Vulkan."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydispatch._core.commands import BufferKind, Dispatch, PlanBuffer, TensorResult
from pydispatch._core.device import DeviceFunction, Runner
from pydispatch._core.plan_data import data_of

import pydispatch as pd
from pydispatch.runtime.buffer import Buffer

TEXT = """func.func @f(%a: tensor<?xi32>, %k: i32) -> (tensor<?xi32>, i32) {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %a, %c0 : tensor<?xi32>
  %s = tensor.splat %k[%d] : tensor<?xi32>
  %r = arith.addi %a, %s : tensor<?xi32>
  %t = tensor.insert_slice %r into %r[0] [%d] [1] : tensor<?xi32> into tensor<?xi32>
  %n = arith.addi %k, %k : i32
  return %t, %n : tensor<?xi32>, i32
}"""


@pytest.fixture
def program() -> Any:
    return pd.device("cpu").load(pd.compile(TEXT, targets="cpu"))


def test_a_plan_as_data(program: Any) -> None:
    core = DeviceFunction(program._module, 0, Buffer)
    a = np.arange(10, dtype=np.int32)
    plan, inputs, scalars = core.bind((a, 7))
    assert inputs[0] is a and inputs[1] is None and scalars == (7).to_bytes(8, "little")
    data = data_of(plan)
    assert len(data.commands) == len(data.numbers) <= data.command_count == len(plan.describe())
    assert data.results == [TensorResult((10,), 40), None]
    assert [b for b in data.buffers if b.kind == BufferKind.ARGUMENT] == [PlanBuffer(BufferKind.ARGUMENT, 0, 40, 0)]
    words, patterns, values = core.compute(plan, scalars)
    assert values == [None, 14] and len(patterns) == data.command_count
    assert len(words) == 4 * data.constant_count and data.has_deferred
    other, _, _ = core.compute(plan, (9).to_bytes(8, "little"))
    assert other != words  # the scalar reaches a kernel
    for command in data.commands:
        assert command.region >= 0
        assert all(slot.offset + slot.size <= data.buffers[slot.buffer].size for slot in command.slots)
    dispatches = [command for command in data.commands if isinstance(command, Dispatch)]
    assert dispatches and all(command.name and all(command.grid) for command in dispatches)
    assert all(c.first_constant + c.constant_count <= data.constant_count for c in dispatches)


def test_calls_are_handed_over_and_errors_come_back(program: Any) -> None:
    seen: list[Any] = []

    def run(data: Any, constants: bytes, patterns: list[int], addresses: list[int]) -> None:
        seen.append((data, constants, addresses))
        if len(seen) == 2:
            raise pd.OutOfMemoryError("no memory here")
        if len(seen) == 3:
            raise ZeroDivisionError("oops")

    Runner(program._module, SimpleNamespace(run_addresses=run))
    a = np.arange(4, dtype=np.int32)
    _, n = program.f(a, 3)
    assert n == 6
    data, constants, addresses = seen[0]
    assert len(addresses) == len(data.buffers) and len(constants) == 4 * data.constant_count
    own = (BufferKind.TRANSIENT, BufferKind.CONSTANT)
    assert not any(a for a, buffer in zip(addresses, data.buffers, strict=True) if buffer.kind in own)
    with pytest.raises(pd.OutOfMemoryError, match="no memory here"):
        program.f(a, 3)
    with pytest.raises(pd.InternalError, match="ZeroDivisionError: oops"):
        program.f(a, 3)
    assert seen[1][0] is seen[0][0]  # the same plan
    program.f(np.arange(5, dtype=np.int32), 3)
    assert seen[3][0] is not seen[0][0]
