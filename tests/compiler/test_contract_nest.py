"""The loop nest of a contraction as data: the statements of a tile, and the range of each dimension at every level."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from typing import Any

import pytest
from xdsl.dialects import func
from xdsl.ir import Block, SSAValue

from pydispatch import ir
from pydispatch.compiler.backends.cpu.target import BACKEND
from pydispatch.compiler.driver.pipeline import compile_to
from pydispatch.compiler.kernel_ir.kernel import Target
from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.matmul import cpu, gpu, windows
from pydispatch.compiler.kernels.matmul.cpu.kernel import contraction_in
from pydispatch.compiler.kernels.matmul.cpu.nest import Nest, Span
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan, variants
from pydispatch.compiler.kernels.matmul.cpu.schedule import Schedule
from pydispatch.compiler.kernels.matmul.cpu.statements import Blocks, BlockStep, Loop, TileStep
from pydispatch.compiler.kernels.matmul.cpu.tiles import level_of
from pydispatch.compiler.kernels.ops.builder import Builder
from pydispatch.compiler.target.cpu import machine_of
from pydispatch.ir.core.walk import walk

M, N, K = 50, 96, 70
SCHEDULE = Schedule(mr=4, nr=16, mt=20, nt=32, kc=K, pack_a=False, pack_b=False)
WHOLE_BLOCK = Blocks((BlockStep.INITIALIZE, BlockStep.MULTIPLY, BlockStep.FINISH))


def plan_with(schedule: Schedule, a: str = "f32") -> Plan:
    """The plan of a product with bytes or floats of A."""
    b, c = ("f32", "f32") if a == "f32" else ("i8", "i32")
    text = f"""
    func.func @f(%a: tensor<{M}x{K}x{a}>, %b: tensor<{K}x{N}x{b}>, %c: tensor<{M}x{N}x{c}>) -> tensor<{M}x{N}x{c}> {{
      %r = linalg.matmul ins(%a, %b : tensor<{M}x{K}x{a}>, tensor<{K}x{N}x{b}>)
          outs(%c : tensor<{M}x{N}x{c}>) -> tensor<{M}x{N}x{c}>
      return %r : tensor<{M}x{N}x{c}>
    }}"""
    machine = machine_of(Target("llvm-cpu", "embedded-elf-x86_64", "cascadelake"))
    formed = ir.parse(compile_to("dispatches", text, targets="x86_64", cpu="cascadelake"), "formed")
    source = next(op for op in walk(formed) if isinstance(op, func.FuncOp) and "dispatch" in op.sym_name.data)
    match = contraction_in(source)
    assert match is not None
    (plan,) = variants(match.contraction, Frame(source, BACKEND).elements, level_of(machine), schedule)
    return plan


def nest_with(schedule: Schedule, a: str = "f32") -> Nest:
    return Nest.of(plan_with(schedule, a), [M, N, K])


@pytest.fixture
def build() -> Builder:
    return Builder(Block(), ir.parse("module {}", "empty"))


def test_one_pass_over_k_keeps_sums_in_registers() -> None:
    assert nest_with(SCHEDULE).body == (WHOLE_BLOCK,)
    both = nest_with(replace(SCHEDULE, pack_a=True, pack_b=True))
    assert both.body == (TileStep.PACK_B, TileStep.PACK_A, WHOLE_BLOCK)


def test_chunks_of_k_are_packed_one_after_the_other() -> None:
    nest = nest_with(replace(SCHEDULE, kc=32, pack_b=True))
    chunk = (TileStep.PACK_B, Blocks((BlockStep.MULTIPLY,)))
    k = nest.plan.contraction.k
    assert nest.body == (Blocks((BlockStep.INITIALIZE,)), Loop(k, 32, chunk), Blocks((BlockStep.FINISH,)))


def test_offsets_of_bytes_need_sums_of_the_factors() -> None:
    nest = nest_with(replace(SCHEDULE, kc=72, pack_a=True, pack_b=True), "i8")
    assert nest.plan.arithmetic.a_offset == -128, "vpdpbusd takes unsigned bytes of A"
    assert nest.body == (
        TileStep.PACK_B, TileStep.CLEAR_FACTOR_SUMS, TileStep.PACK_A, TileStep.ADD_FACTOR_SUMS, WHOLE_BLOCK
    )  # fmt: skip


def test_a_packed_operand_may_be_in_memory_already() -> None:
    plan = plan_with(replace(SCHEDULE, pack_a=True))
    assert Nest.of(plan, [M, N, K], packs_a=False).body == (WHOLE_BLOCK,)


def test_levels_make_new_regions(build: Builder) -> None:
    nest = nest_with(replace(SCHEDULE, kc=32, pack_b=True))
    m, k = nest.plan.contraction.m, nest.plan.contraction.k
    assert m is not None
    untiled = nest.untiled_region({})
    tile = nest.tile(build, untiled, m, 1, 20, 4)
    assert (untiled.spans[m], tile.spans[m]) == (Span(0, 1), Span(20, 20))
    (loop,) = (node for node in nest.body if isinstance(node, Loop))
    steps = [nest.iteration(build, tile, loop, first).spans[k] for first in (0, 32, 64)]
    assert steps == [Span(0, 32), Span(32, 32), Span(64, 6)] and tile.spans[k] == Span(0, 1)


def test_the_last_block_overlaps_its_neighbour(build: Builder) -> None:
    nest = nest_with(SCHEDULE)
    m = nest.plan.contraction.m
    last = nest.tile(build, nest.untiled_region({}), m, 2, 20, 4)
    assert last.spans[m or 0] == Span(40, 10)
    blocks = [nest.block(build, last, number, 0) for number in range(3)]
    assert [block.row for block in blocks] == [0, 4, 6]
    assert [nest.rows(build, last, block) for block in blocks] == [4, 4, 4]


def classes() -> Iterator[type[Any]]:
    """The classes that the folders of kernels define."""
    for package in (cpu, gpu, windows):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for _, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                if cls.__module__ == module.name:
                    yield cls


@pytest.mark.parametrize("cls", list(classes()), ids=lambda cls: cls.__name__)
def test_nothing_is_mutable(cls: type[Any]) -> None:
    """Plans, nests and emitters are values: no field changes while a kernel is emitted."""
    if not issubclass(cls, (Enum, Exception, tuple)):  # a tuple, such as a NamedTuple, is immutable
        assert cls.__dataclass_params__.frozen


def test_a_region_is_a_value() -> None:
    region = nest_with(SCHEDULE).untiled_region({})
    assert isinstance(region.spans, tuple) and not isinstance(region.batch, SSAValue)
    with pytest.raises(AttributeError):
        region.batch = 1  # type: ignore[misc]
