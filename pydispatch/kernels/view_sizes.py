"""Sizes of a kernel's views: their SSA names, their text, and the checks that views agree."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pydispatch.kernels.annotations import Parameter
from pydispatch.kernels.source import Source
from pydispatch.kernels.writer import Writer


def size_symbols(passed: Sequence[Parameter]) -> dict[tuple[str, int], str]:
    """Return the SSA name of every dynamic size by (name of the view, dimension), such as "%n_rows" or "%n_x_0".

    In the type of a view a size is an integer if it is static, a symbol such as "rows" that several views may share, or
    None if it is dynamic and has no symbol. Sizes with the same symbol share one name.
    """
    symbols: dict[tuple[str, int], str] = {}
    for parameter in passed:
        for dimension, size in enumerate((parameter.type and parameter.type.shape) or ()):
            if isinstance(size, str):
                symbols[parameter.name, dimension] = f"%n_{size}"
            elif size is None:
                symbols[parameter.name, dimension] = f"%n_{parameter.name}_{dimension}"
    return symbols


def shape_text(parameter: Parameter) -> str:
    """Return the shape of a view in MLIR text, such as "4x?x"."""
    assert parameter.type is not None
    return "".join(f"{size}x" if isinstance(size, int) else "?x" for size in parameter.type.shape or ())


def dynamic_sizes(parameter: Parameter, symbols: Mapping[tuple[str, int], str]) -> str:
    """Return the dynamic sizes of a view in MLIR text, such as `{%n, %m}`; "" if all sizes are static.

    symbols: SSA names of dynamic sizes by (name of the view, dimension).
    """
    assert parameter.type is not None
    names = [
        symbols[parameter.name, d] for d in range(len(parameter.type.shape or ())) if (parameter.name, d) in symbols
    ]
    return f"{{{', '.join(names)}}}" if names else ""


def require_known_sizes(
    source: Source, view: Parameter, symbols: Mapping[tuple[str, int], str], known: Collection[str]
) -> None:
    """Raise CompileError if `view`, which the generated code allocates, has a dynamic size that no argument determines.

    symbols: SSA names of dynamic sizes by (name of the view, dimension). known: the SSA names that arguments determine.
    """
    for (name, dimension), symbol in symbols.items():
        if name == view.name and symbol not in known:
            raise source.error(
                source.tree,
                f"'{name}' is allocated for the caller of '{source.name}', and no view that the kernel takes has the "
                f"size of its dimension {dimension}",
                f"take a view of that size, too; '{name}' is {view.type}",
            )


def define_sizes(writer: Writer, types: Mapping[Parameter, str], symbols: Mapping[tuple[str, int], str]) -> None:
    """Define each dynamic size by the first view that has it, and assert that other views agree.

    Example:
        // Views x of n rows and 4 columns, and y of n elements:
        %0 = arith.constant 0 : index
        %n_n = tensor.dim %a_x, %0 : tensor<?x4xf32>
        %2 = arith.constant 0 : index
        %3 = tensor.dim %a_y, %2 : tensor<?xf32>
        %4 = arith.cmpi eq, %n_n, %3 : index
        cf.assert %4, "'n' is {a} in dimension 0 of 'x' and {b} in dimension 0 of 'y'" {pyd.shows_values}

    Args:
        writer: Writer of the host function.
        types: MLIR text of the type of each argument. The argument for parameter `x` has the SSA name `%a_x`.
        symbols: (name of the view, dimension) → SSA name of its dynamic size, which views may share.
    """
    defined: dict[str, str] = {}  # SSA name of a size → the dimension that defines it, for messages
    for parameter, type in types.items():
        for dimension in range(len((parameter.type and parameter.type.shape) or ())):
            symbol = symbols.get((parameter.name, dimension))
            if symbol is None:  # a static size
                continue
            index = writer.constant(dimension, "index")
            size = writer.value(f"tensor.dim %a_{parameter.name}, {index.name} : {type}", "index")
            dimension_text = f"dimension {dimension} of '{parameter.name}'"
            if symbol not in defined:  # the last line defines the size: its result is renamed to the symbol
                writer.lines[-1] = writer.lines[-1].replace(f"{size.name} = ", f"{symbol} = ", 1)
                defined[symbol] = dimension_text
                continue
            equal = writer.value(f"arith.cmpi eq, {symbol}, {size.name} : index", "i1")
            name = symbol.removeprefix("%n_")
            # `pyd.shows_values`: the runtime replaces {a} and {b} by the compared values.
            message = f"'{name}' is {{a}} in {defined[symbol]} and {{b}} in {dimension_text}"
            writer.line(f'cf.assert {equal.name}, "{message}" {{pyd.shows_values}}')
