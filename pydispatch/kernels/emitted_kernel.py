"""Kernel code before the program around it is written: the emitted lines, and the views that they read and write."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydispatch.kernels.annotations import Parameter
from pydispatch.kernels.entities import Entity, Literal, MemoryRef, Scalar, TupleValue
from pydispatch.kernels.phases import Phases
from pydispatch.kernels.source import Source
from pydispatch.kernels.tiles.style import has_tiles
from pydispatch.kernels.tiles.tile_kernel import TileKernel
from pydispatch.kernels.view_sizes import shape_text, size_symbols


@dataclass(frozen=True)
class EmittedKernel:
    """Kernel whose code is emitted: the input of the functions that write its executable and its host function.

    `emit` creates it, and `module.lower` writes the program around it. A kernel with the parameters `factor: f32`,
    `x: f32["n"]` and `y: f32["n"]`, and the statement `y[i] = factor * x[i]`, has `passed` [factor, x, y], `symbols`
    {("x", 0): "%n_n", ("y", 0): "%n_n"}, and `written` and `overwritten` [2], the position of y in `passed`.

    Attributes:
        source: Source of the kernel.
        passed: Parameters that are passed at run time: all but the static ones.
        symbols: SSA name of each dynamic size, by (view, dimension).
        generator: Code generator that has emitted `lines`; it knows which views they read and write.
        lines: Lines of MLIR of the kernel's body.
        allocated: Names of written views that the host function allocates, instead of taking them as arguments.
        batched: Names of the views that have one more dimension in the host function, the first one: the batch. The
            kernel runs once for each of its elements.
    """

    source: Source
    passed: Sequence[Parameter]
    symbols: Mapping[tuple[str, int], str]
    generator: Phases | TileKernel
    lines: Sequence[str]
    allocated: Collection[str]
    batched: Collection[str]

    @property
    def written(self) -> list[int]:
        """Positions of the written views among `passed`."""
        return [index for index, view in enumerate(self.passed) if view.name in self.generator.written]

    @property
    def overwritten(self) -> list[int]:
        """Positions of the written views that the kernel does not read, and that are not marked `Partial`."""
        views, read = self.passed, self.generator.read
        return [index for index in self.written if views[index].name not in read and not views[index].is_partial]

    @property
    def complete(self) -> list[int]:
        """Positions of the overwritten views of which a checked run verifies that the kernel writes each element.

        The race checks record who accessed each element; therefore only views with these checks, the watched ones, are
        among them. Without checks the list is empty.
        """
        watched = self.generator.watched or ()
        return [index for index in self.overwritten if self.passed[index].name in watched]

    @property
    def zeroed(self) -> set[str]:
        """Names of the allocated views that begin as zeros, because the kernel also reads them or writes only a part.

        The elements of the other allocated views are undefined until the kernel overwrites them.
        """
        names = {self.passed[index].name for index in self.written} & set(self.allocated)
        return names - {self.passed[index].name for index in self.overwritten}


def emit(
    source: Source, parameters: Sequence[Parameter], workgroup: Sequence[int], statics: Mapping[str, Any],
    checks: bool, allocated: Collection[str], batched: Collection[str],
) -> EmittedKernel:  # fmt: skip
    """Emit the body of a kernel as MLIR text, and return it with the views that it reads and writes.

    Args:
        source: The kernel's Python function.
        parameters: Its parameters in order, also static ones.
        workgroup: Invocations of a workgroup along each axis.
        statics: Values of the static parameters by name.
        checks: Whether to check each index against its dimension, and each access for races.
        allocated: Names of written views that the host function allocates. Only stored in the result.
        batched: Names of the views that have a batch as first dimension in the host function. Only stored in the
            result: the body is that for one element of the batch.

    Raises:
        CompileError: The function is no valid kernel.
    """
    passed = [parameter for parameter in parameters if not parameter.is_static]
    # A workgroup executes a kernel on tiles as a whole; the statements of other kernels are for one invocation.
    kind = TileKernel if has_tiles(source) else Phases
    generator = kind(source, parameters, workgroup, statics)
    generator.checks = checks
    symbols = size_symbols(passed)
    lines = generator.lower(_environment(passed, symbols))
    # Race checks watch the written views, which are known only now: the code is emitted once more, with the checks.
    # `TileKernel` has no race checks.
    if checks and kind is Phases:
        watched = frozenset(generator.written)
        generator = kind(source, parameters, workgroup, statics)
        generator.checks, generator.watched = checks, watched
        lines = generator.lower(_environment(passed, symbols))
    return EmittedKernel(source, passed, symbols, generator, lines, allocated, batched)


def _environment(passed: Sequence[Parameter], symbols: Mapping[tuple[str, int], str]) -> dict[str, Entity]:
    """Return the value that each name of a parameter has at the start of the kernel.

    `k: i32` and `x: f32["n", 4]` give
    `{"k": Scalar("%p_k", "i32"), "x": MemoryRef("%p_x", "f32", (Scalar("%n_n", "index"), Literal(4)),
    "memref<?x4xf32>", "x")}`. The views "xs.0" and "xs.1" of a tuple `xs` become the items of a TupleValue named "xs".

    Args:
        passed: The parameters, without static ones.
        symbols: SSA names of dynamic sizes, by (view, dimension).
    """
    environment: dict[str, Entity] = {}
    for parameter in passed:
        assert parameter.type is not None
        if parameter.type.shape is None:  # a number
            environment[parameter.name] = Scalar(f"%p_{parameter.name}", parameter.type.dtype)
            continue
        sizes = tuple(
            Literal(size) if isinstance(size, int) else Scalar(symbols[parameter.name, dimension], "index")
            for dimension, size in enumerate(parameter.type.shape)
        )
        type = f"memref<{shape_text(parameter)}{parameter.type.dtype}>"
        environment[parameter.name] = MemoryRef(
            f"%p_{parameter.name}", parameter.type.dtype, sizes, type, parameter.name
        )
    # Replace the views of each tuple by the tuple. The dictionary holds each name of a tuple once.
    for tuple_name in {parameter.tuple_name: None for parameter in passed if parameter.tuple_name}:
        views = (environment.pop(parameter.name) for parameter in passed if parameter.tuple_name == tuple_name)
        environment[tuple_name] = TupleValue(tuple(views))
    return environment
