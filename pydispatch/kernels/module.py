"""Lowering of a kernel to a program: an executable with the kernel's code, and a function that dispatches it over
its grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydispatch.kernels import batch
from pydispatch.kernels.annotations import Parameter
from pydispatch.kernels.ascii_names import ascii_names
from pydispatch.kernels.emitted_kernel import EmittedKernel, emit
from pydispatch.kernels.entities import Literal, Scalar
from pydispatch.kernels.grids import covering, workgroup_counts
from pydispatch.kernels.phases import Phases
from pydispatch.kernels.prints import PrintedLine
from pydispatch.kernels.races import STAMPS, stamps_name, stamps_type
from pydispatch.kernels.source import Source
from pydispatch.kernels.tiles.tile_kernel import TileKernel
from pydispatch.kernels.view_sizes import define_sizes, dynamic_sizes, require_known_sizes, shape_text
from pydispatch.kernels.writer import Writer, signless
from pydispatch.locations import GeneratedText

EXECUTABLE = "@python_kernel"
"""Symbol of the executable in the program of a kernel."""
_INVOCATIONS = "attributes {pyd.invocations"
"""Beginning of the attributes of the kernel's function. `Lowered.program` inserts another one after the brace."""


@dataclass(frozen=True)
class Lowered:
    """Kernel as MLIR text: the lines of its executable and of the host function that dispatches it over its grid.

    `lower` creates it; `text` and `program` return the lines as a module.

    Attributes:
        name: Name of the kernel.
        executable: Lines of the executable with the kernel's code, named `EXECUTABLE`.
        arguments: Name and MLIR type of each argument of the host function.
        results: Name and MLIR type of each result, named after the view that is written.
        body: Lines of the host function without its return. Arguments are named `%a_NAME`, results `%r_NAME`.
        written: Positions of the written views among the parameters that are passed at run time.
        overwritten: Positions of the views that the kernel writes as a whole and whose elements it never reads: all
            written views that it does not read and that are not marked `Partial`.
        asserts: Message of each assertion, by the error code that a workgroup returns if the assertion fails.
        complete: Positions of the views of which a checked kernel must write each element; empty without checks.
        stamps: SSA name in `body` and MLIR type of the race stamps of each view in `complete`. They record which
            invocation has accessed each element; 0 is none.
        covering: Of an inferred grid, for each axis: a size, or the SSA name of one, and how many of its elements a
            workgroup covers. (("%n_n", 64),) is a grid of ceil(n / 64) workgroups. Empty if the grid is stated.
        prints: Lines that a checked kernel prints, in the order of its calls of `print`.
        location: Location of the definition, as MLIR text.
    """

    name: str
    executable: tuple[str, ...]
    arguments: tuple[tuple[str, str], ...]
    results: tuple[tuple[str, str], ...]
    body: tuple[str, ...]
    written: tuple[int, ...]
    overwritten: tuple[int, ...]
    asserts: Mapping[int, str]
    complete: tuple[int, ...] = ()
    stamps: tuple[tuple[str, str], ...] = ()
    covering: tuple[tuple[str | int, int], ...] = ()
    prints: tuple[PrintedLine, ...] = ()
    location: str = ""

    @property
    def text(self) -> GeneratedText:
        """MLIR text of the program, with one public function that is named like the kernel."""
        return self.program(self.name)

    def program(self, function: str, with_stamps: bool = False, marks_lines: bool = False) -> GeneratedText:
        """Return the text of a module with the executable and one public function, which dispatches the kernel.

        For a kernel `scale` that reads the view x[n] and writes the view y[n], without locations:

            module @scale {
            stream.executable private @python_kernel { ... }
            func.func @scale(%a_x: tensor<?xf32> {pyd.name = "x"}, %a_y: tensor<?xf32> {pyd.name = "y"})
                -> (tensor<?xf32>) {
            ...
            return %r_y : tensor<?xf32>
            }
            }

        Args:
            function: Name of the function.
            with_stamps: Whether the function also returns the race stamps of the views in `complete`, those of which a
                checked kernel must write each element. They record which invocation has accessed each element.
            marks_lines: Whether the kernel is marked with `pyd.lines`, so that its code states the source line of each
                instruction.
        """
        arguments = ", ".join(f'%a_{name}: {type} {{pyd.name = "{name}"}}' for name, type in self.arguments)
        returned = [(f"%r_{name}", type) for name, type in self.results] + [*(self.stamps if with_stamps else ())]
        values, types = (", ".join(column) for column in zip(*returned, strict=True))
        symbol = function if function.isascii() else f'"{function}"'  # bare identifiers of MLIR are ASCII
        lines = [f"func.func @{symbol}({arguments}) -> ({types}) {{", *self.body, f"return {values} : {types}"]
        executable = self.executable
        if marks_lines:
            # _INVOCATIONS occurs once: `attributes {pyd.invocations = ...`, of the kernel's function.
            marked = _INVOCATIONS.replace("{", "{pyd.lines, ")
            executable = tuple(line.replace(_INVOCATIONS, marked, 1) for line in executable)
        lines = [f"module @{self.name} {{", *executable, *lines, f"}} {self.location}", "}", ""]
        return GeneratedText(ascii_names("\n".join(lines)))


def lower(
    source: Source,
    parameters: Sequence[Parameter],
    workgroup: Sequence[int],
    statics: Mapping[str, Any],
    grid: Callable[..., Any] | Sequence[int] | None,
    grid_in_call: bool = False,
    checks: bool = False,
    allocated: Collection[str] = (),
    batched: Collection[str] = (),
) -> Lowered:
    """Lower a kernel to a program.

    Args:
        source: The kernel's Python function.
        parameters: Its parameters in order, also static ones.
        workgroup: Invocations of a workgroup along each axis.
        statics: Values of the static parameters by name.
        grid: Numbers of workgroups, or a function of the parameters that computes them. None: inferred from the ids
            that the kernel uses; a kernel on tiles covers the first view that it writes.
        grid_in_call: Whether three more arguments of the host function are the grid.
        checks: Whether to check each index against its dimension, and each access for races.
        allocated: Names of written views that the host function allocates, instead of taking them as arguments. Those
            that the kernel reads or writes in part begin as zeros. Each of their symbolic sizes is one of a view that
            is an argument.
        batched: Names of views that have a leading dimension in the host function, the elements of a batch. One
            dispatch runs the kernel for all elements. Every written view must be among these views.

    Raises:
        CompileError: The kernel cannot be lowered.
    """
    kernel = emit(source, parameters, workgroup, statics, checks, allocated, batched)
    passed, written = kernel.passed, kernel.written
    if not written:
        raise source.error(source.tree, f"kernel '{source.name}' writes no view", "store its results: y[i] = ...")
    types = _host_types(kernel)
    arguments = [(p.name, type) for p, type in zip(passed, types, strict=True)]
    results = [arguments[index] for index in written]
    arguments = [argument for argument in arguments if argument[0] not in allocated]
    if grid_in_call:
        arguments += [(f"grid_{axis}", "i64") for axis in range(3)]
    # Of an inferred grid: for each axis a size, and how many of its elements a workgroup covers.
    covered: list[tuple[Scalar | Literal, int]] = []
    if grid is None and not grid_in_call:
        covered = covering(source, passed[written[0]], kernel.symbols, kernel.generator)
    body = _host_function_lines(kernel, types, statics, covered, grid=grid, grid_in_call=grid_in_call)
    return Lowered(
        name=source.name,
        executable=tuple(map(signless, _executable_lines(kernel))),
        arguments=tuple(arguments),
        results=tuple(results),
        body=tuple(body),
        written=tuple(written),
        overwritten=tuple(kernel.overwritten),
        asserts=kernel.generator.asserts,
        complete=tuple(kernel.complete),
        stamps=tuple((_stamps_result(passed[index]), _stamps_type(passed[index])) for index in kernel.complete),
        covering=tuple(
            (size.name if isinstance(size, Scalar) else int(size.value), extent) for size, extent in covered
        ),
        prints=tuple(kernel.generator.prints),
        location=Writer(source).location(),
    )


def _host_types(kernel: EmittedKernel) -> list[str]:
    """Return the MLIR type of each passed parameter in the host function: a tensor for a view, else the scalar."""
    outer = batch.outer_parameters(kernel.passed, kernel.batched)  # with the leading dimension of batched views
    types = [f"tensor<{shape_text(p)}{p.type.dtype}>" if p.is_view and p.type else str(p.type) for p in outer]
    # Unsigned types are spelled `ui32` in the host function, whose arguments and results are then arrays of np.uint32.
    return [signless(type, "ui") for type in types]


def _executable_lines(kernel: EmittedKernel) -> list[str]:
    """Return the lines of the executable: its export, and the function that each workgroup runs.

    The region of the export computes the grid from the operands of a dispatch: they are the grid already. The function
    has the lines of `_prologue`, then the code of the kernel: its allocations (`generator.prologue`) and its body.
    """
    name, generator = kernel.source.name, kernel.generator
    invocations = math.prod(generator.workgroup)
    own = [*generator.prologue, *kernel.lines]
    # In a batch, the ids that the kernel reads are those in the grid of one element of the batch.
    body = [*_prologue(kernel), *(batch.within_batch(own) if kernel.batched else own), "return"]
    location = Writer(kernel.source).location()
    return [
        f"stream.executable private {EXECUTABLE} {{",
        f"  stream.executable.export public @{name}",
        "      workgroups(%x: index, %y: index, %z: index) -> (index, index, index) {",
        "    stream.return %x, %y, %z : index, index, index",
        "  }",
        "  builtin.module {",
        *(f"    {declaration}" for declaration in generator.imports.values()),
        f"    func.func @{name}({', '.join(_arguments(kernel))}) {_INVOCATIONS} = {invocations} : i64}} {{",
        *(f"      {line}" for line in body),
        f"    }} {location}",
        "  }",
        f"}} {location}",
    ]


def _arguments(kernel: EmittedKernel) -> list[str]:
    """Return the arguments of the function that each workgroup runs: bindings `%b_NAME` of views and numbers
    `%p_NAME`, then the bindings of race stamps, then the dynamic sizes.
    """
    arguments = [
        f"%b_{parameter.name}: !stream.binding" if parameter.is_view else f"%p_{parameter.name}: {parameter.type}"
        for parameter in kernel.passed
    ]
    watched = _watched(kernel.passed, kernel.generator)
    arguments += [f"%b_race_{parameter.name}: !stream.binding" for parameter in watched]
    sizes = list(dict.fromkeys(kernel.symbols.values()))
    if kernel.batched:
        sizes.append(batch.SIZE)
    return [*arguments, *(f"{size}: index" for size in sizes)]


def _prologue(kernel: EmittedKernel) -> list[str]:
    """Return the lines that define constants, and the memory `%p_NAME` of each binding `%b_NAME`.

    A binding is the buffer that a dispatch passes for a view. For a view x[n] and a workgroup of 64 invocations:

        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %extent0 = arith.constant 64 : index
        %p_x = stream.binding.subspan %b_x[%zero] : !stream.binding -> memref<?xf32>{%n_n}

    In a batched view, `%p_NAME` begins at the byte offset of the element of the batch, `%offset_NAME`. A view that is
    watched for races also has the memory `%race_p_NAME` of its stamps, the records of the last accesses.
    """
    symbols = kernel.symbols
    prologue = ["%zero = arith.constant 0 : index", "%one = arith.constant 1 : index"]
    workgroup = kernel.generator.workgroup
    prologue += [f"%extent{axis} = arith.constant {size} : index" for axis, size in enumerate(workgroup)]
    prologue += batch.PROLOGUE if kernel.batched else ()
    # The memory of each view.
    for parameter in kernel.passed:
        if parameter.is_view and parameter.type is not None:
            name, offset = parameter.name, "%zero"
            if name in kernel.batched:
                prologue += batch.offset_lines(parameter, symbols)
                offset = f"%offset_{name}"
            type = f"memref<{shape_text(parameter)}{parameter.type.dtype}>{dynamic_sizes(parameter, symbols)}"
            prologue.append(f"%p_{name} = stream.binding.subspan %b_{name}[{offset}] : !stream.binding -> {type}")
    # The race stamps of each watched view, which have a binding of their own.
    for parameter in _watched(kernel.passed, kernel.generator):
        name = stamps_name(f"%p_{parameter.name}")
        type = stamps_type(shape_text(parameter)) + dynamic_sizes(parameter, symbols)
        prologue.append(f"{name} = stream.binding.subspan %b_race_{parameter.name}[%zero] : !stream.binding -> {type}")
    return prologue


def _watched(passed: Sequence[Parameter], phases: Phases | TileKernel) -> list[Parameter]:
    """Return those of the parameters whose accesses the kernel checks for races, and which therefore have stamps."""
    return [parameter for parameter in passed if parameter.name in (phases.watched or ())]


def _stamps_type(view: Parameter) -> str:
    """Return the MLIR type of the race stamps of a view: `STAMPS` 64-bit records of last accesses for each element."""
    return f"tensor<{STAMPS}x{shape_text(view)}i64>"


def _stamps_result(view: Parameter) -> str:
    """Return the SSA name of the race stamps of a view (`_stamps_type`) after the kernel has run."""
    return f"%stamps_{view.name}"


def _stamps(
    writer: Writer, watched: Sequence[Parameter], symbols: Mapping[tuple[str, int], str]
) -> list[tuple[str, str]]:
    """Emit race stamps for each watched view, all 0 (no access yet); return their SSA names and types with sizes."""
    stamps = []
    none = writer.constant(0, "i64").name if watched else ""
    for parameter in watched:
        type, sizes = _stamps_type(parameter), dynamic_sizes(parameter, symbols)  # sizes: such as "{%n, %m}"
        empty = writer.value(f"tensor.empty({sizes.strip('{}')}) : {type}", type)
        filled = writer.value(f"linalg.fill ins({none} : i64) outs({empty.name} : {type}) -> {type}", type)
        stamps.append((filled.name, type + sizes))
    return stamps


def _host_function_lines(
    kernel: EmittedKernel, types: Sequence[str], statics: Mapping[str, Any],
    covered: Sequence[tuple[Scalar | Literal, int]], *,
    grid: Callable[..., Any] | Sequence[int] | None, grid_in_call: bool,
) -> list[str]:  # fmt: skip
    """Return the lines of the host function: it checks sizes, computes the grid and dispatches the kernel.

    For views x[n] and y[n], of which the kernel writes y, shortened:

        %n_n = tensor.dim %a_x, %0 : tensor<?xf32>
        cf.assert %3, "'n' is {a} in dimension 0 of 'x' and {b} in dimension 0 of 'y'" {pyd.shows_values}
        ...                                                        // the number of workgroups along each axis
        %r_y = flow.dispatch @python_kernel::@scale[%6, %7, %8](%a_x, %a_y, %n_n) : ... -> %a_y{%n_n}

    Args:
        kernel: The kernel.
        types: MLIR type of each parameter in the host function.
        statics: Values of the parameters that are known at compile time.
        covered: Of an inferred grid, for each axis a size and how many of its elements a workgroup covers.
        grid: Numbers of workgroups, or a function of the parameters that computes them; None for an inferred grid.
        grid_in_call: Whether the last three arguments of the host function are the grid instead.
    """
    source, allocated = kernel.source, kernel.allocated
    writer = Writer(source)
    # Types and sizes in the host function, where batched views have one more dimension than in the kernel.
    parameters = batch.outer_parameters(kernel.passed, kernel.batched)
    symbols = batch.outer_symbols(kernel.symbols, kernel.batched)
    typed = dict(zip(parameters, types, strict=True))
    # The arguments determine all sizes; the other views are allocated with these sizes.
    define_sizes(writer, {view: type for view, type in typed.items() if view.name not in allocated}, symbols)
    passed_sizes = {symbol for (view, _), symbol in symbols.items() if view not in allocated}
    for parameter, type in typed.items():
        if parameter.name in allocated:
            require_known_sizes(source, parameter, symbols, passed_sizes)
            _allocate(writer, parameter, type, symbols, parameter.name in kernel.zeroed)
    # The grid, of one element of a batch.
    counts = workgroup_counts(source, writer, kernel.passed, kernel.symbols, statics, covered, grid, grid_in_call)
    if kernel.batched:  # axis 1 has the workgroups of all elements: index n is of element n % batch size
        counts[1] = writer.value(f"arith.muli {counts[1]}, {batch.SIZE} : index", "index").name
    _dispatch(kernel, writer, typed, symbols, counts)
    return writer.lines


def _dispatch(
    kernel: EmittedKernel, writer: Writer, typed: Mapping[Parameter, str], symbols: Mapping[tuple[str, int], str],
    counts: Sequence[str],
) -> None:  # fmt: skip
    """Emit the dispatch of the kernel, whose results are the written views and the race stamps after it has run.

    The kernel updates these operands in place, so that the dispatch names each of them instead of a result type. For
    views x[n] and y[n], of which the kernel writes y:

        %r_y = flow.dispatch @python_kernel::@scale[%6, %7, %8](%a_x, %a_y, %n_n) :
            (tensor<?xf32>{%n_n}, tensor<?xf32>{%n_n}, index) -> %a_y{%n_n}

    Args:
        kernel: The kernel.
        writer: Writer of the host function, in which `%a_NAME` is the tensor or number of each parameter.
        typed: Type of each parameter in the host function.
        symbols: SSA name of each dynamic size in the host function, by (view, dimension).
        counts: SSA names of the number of workgroups along each axis.
    """
    parameters, sizes = list(typed), list(dict.fromkeys(symbols.values()))
    watched = _watched(parameters, kernel.generator)  # in checked runs, views that record who accessed each element
    stamps = _stamps(writer, watched, symbols)
    operands = [*(f"%a_{p.name}" for p in parameters), *(name for name, _ in stamps), *sizes]
    operand_types = [type + (dynamic_sizes(p, symbols) if p.is_view else "") for p, type in typed.items()]
    operand_types += [*(type for _, type in stamps), *["index"] * len(sizes)]
    # SSA names after and before the dispatch, and the view, of each tensor that it updates.
    results = [(f"%r_{view.name}", f"%a_{view.name}", view) for view in (parameters[n] for n in kernel.written)]
    results += [(_stamps_result(view), name, view) for view, (name, _) in zip(watched, stamps, strict=True)]
    targets = ", ".join(target for target, _, _ in results)
    updated = ", ".join(operand + dynamic_sizes(view, symbols) for _, operand, view in results)  # "%a_y{%n_n}"
    writer.line(
        f"{targets} = flow.dispatch {EXECUTABLE}::@{kernel.source.name}[{', '.join(counts)}]({', '.join(operands)}) : "
        f"({', '.join(operand_types)}) -> {updated if len(results) == 1 else f'({updated})'}"
    )


def _allocate(
    writer: Writer, view: Parameter, type: str, symbols: Mapping[tuple[str, int], str], is_zeroed: bool
) -> None:
    """Define `%a_NAME`, the operand of the dispatch for a view, as a new tensor of zeros or of undefined elements."""
    empty = f"%a_{view.name}" if not is_zeroed else f"%empty_{view.name}"
    sizes = dynamic_sizes(view, symbols).strip("{}")  # such as "%n, %m"
    writer.line(f"{empty} = tensor.empty({sizes}) : {type}")
    if is_zeroed:
        assert view.type is not None
        zero = writer.constant(0, view.type.dtype)
        writer.line(f"%a_{view.name} = linalg.fill ins({zero.name} : {zero.type}) outs({empty} : {type}) -> {type}")
