"""Lowering of a traced computation to MLIR text: structured operations over a block whose arguments are the inputs."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.formats.arrays.small_floats import limits
from pydispatch.kernels.writer import spelled
from pydispatch.patterns.trace import Value
from pydispatch.patterns.types import Size, TensorType

_PARALLEL, _REDUCTION = '"parallel"', '"reduction"'


class Lowering:
    """Printer of the operations of a pattern or of its replacement as MLIR text.

    A caller creates a printer for the inputs, calls `value` for each result, and then reads `lines`.

    Attributes:
        inputs: Name and type of each input; its value is %in_ and the name.
        lines: Printed operations, each after those that compute its operands.
        names: Value → its name in the text.
        sizes: Dynamic size → name of its value in the text.
        count: Number of values that have got a name %v1, %v2, ...
    """

    def __init__(self, inputs: Sequence[tuple[str, TensorType]]) -> None:
        """Begin a text without operations."""
        self.inputs = inputs
        self.lines: list[str] = []  # the operations printed so far
        self.names: dict[Value, str] = {}  # value → its name in the text
        self.sizes: dict[Size, str] = {}  # dynamic size → name of its value in the text
        self.count = 0  # number of values called %v1, %v2, ...

    def value(self, value: Value) -> str:
        """Return the SSA name of a value; print the operations that compute it on first use."""
        if value in self.names:
            return self.names[value]
        if value.op == "input":
            input_index = value.detail
            assert isinstance(input_index, int)
            input_name, _ = self.inputs[input_index]
            name = f"%in_{input_name}"
        elif value.op == "constant":
            assert isinstance(value.detail, int | float)
            name = self.line(f"arith.constant {_literal(value.detail, value.type.dtype)} : {value.type.dtype}")
        else:
            printers = {
                "scalar": self._scalar, "matmul": self._matmul, "reduce": self._reduce, "argmax": self._argmax,
            }  # fmt: skip
            name = printers[value.op](value)
        self.names[value] = name
        return name

    def line(self, text: str) -> str:
        """Print one operation with one result, and return the name of the result."""
        self.count += 1
        self.lines.append(f"%v{self.count} = {text}")
        return f"%v{self.count}"

    def size(self, size: Size) -> str:
        """Return the SSA name of a dynamic size, read from the first input that has it; print the operations on first
        use.

        Unnamed sizes (None) occur only in patterns, whose matching ignores the sizes of a `tensor.empty`: 1 is printed
        for them.
        """
        if size in self.sizes:
            return self.sizes[size]
        for name, type in self.inputs:
            for axis, input_size in enumerate(type.shape or ()):
                if input_size == size and isinstance(size, str):
                    index = self.line(f"arith.constant {axis} : index")
                    self.sizes[size] = self.line(f"tensor.dim %in_{name}, {index} : {type.mlir}")
                    return self.sizes[size]
        assert size is None, f"no input has the size {size}"
        self.sizes[size] = self.line("arith.constant 1 : index")
        return self.sizes[size]

    def empty(self, type: TensorType) -> str:
        """Print a tensor.empty of a type, and return its name."""
        sizes = ", ".join(self.size(s) for s in type.shape or () if not isinstance(s, int))
        return self.line(f"tensor.empty({sizes}) : {type.mlir}")

    def filled(self, literal: str, type: TensorType) -> str:
        """Print a tensor of a type that is filled with a literal, and return its name."""
        scalar = self.line(f"arith.constant {literal} : {type.dtype}")
        empty = self.empty(type)
        return self.line(f"linalg.fill ins({scalar} : {type.dtype}) outs({empty} : {type.mlir}) -> {type.mlir}")

    def generic(
        self, maps: Sequence[str], iterators: Sequence[str], ins: Sequence[Value],
        outs: Sequence[tuple[str, TensorType]], body: Sequence[str], results: Sequence[str],
    ) -> str:  # fmt: skip
        """Print a linalg.generic, and return the name of its results: "%v3". Result 1 of several is "%v3#1".

        The operation is one of `lines`, the text so far.

        Args:
            maps: Indexing maps of inputs and outputs, as text.
            iterators: Iterator types, as text.
            ins: Inputs.
            outs: Name and type of each output tensor.
            body: Lines of the body, in which elements of inputs are %x0, %x1, ..., and those of outputs %o0, %o1, ...
            results: Names of the values that the body yields.
        """
        names = [self.value(v) for v in ins]
        types = [v.type for v in ins]
        ins_text = f"ins({', '.join(names)} : {', '.join(t.mlir for t in types)}) " if names else ""
        out_names, out_types = [n for n, _ in outs], [t for _, t in outs]
        arguments = [f"%x{i}: {t.dtype}" for i, t in enumerate(types)]
        arguments += [f"%o{i}: {t.dtype}" for i, t in enumerate(out_types)]
        result_types = ", ".join(t.mlir for t in out_types)
        lines = "\n".join(body)
        text = (
            f"linalg.generic {{indexing_maps = [{', '.join(maps)}], iterator_types = [{', '.join(iterators)}]}} "
            f"{ins_text}outs({', '.join(out_names)} : {result_types}) {{\n^bb0({', '.join(arguments)}):\n{lines}\n"
            f"linalg.yield {', '.join(results)} : {', '.join(t.dtype for t in out_types)}\n}} -> "
        )
        # One result, or a pack of several, "%v3:2 = ... -> (types)".
        if len(outs) == 1:
            return self.line(text + result_types)
        self.count += 1
        self.lines.append(f"%v{self.count}:{len(outs)} = {text}({result_types})")
        return f"%v{self.count}"

    def _scalar(self, value: Value) -> str:
        """Print a scalar operation, or an elementwise generic if the value is a tensor, and return its SSA name.

        For an f32 it is a line such as `%v3 = arith.addf %v1, %v2 : f32`. Tensor operands of lower rank are broadcast
        along the leading dimensions, as in NumPy.
        """
        type = value.type
        op = str(value.detail)
        if type.shape is None:
            operands = ", ".join(self.value(v) for v in value.operands)
            return self.line(f"{op} {operands} : {type.dtype}")
        rank = len(type.shape)
        tensors = [v for v in value.operands if v.type.shape is not None]
        # In the body a tensor is its element %x0, %x1, ...; a scalar is the value from outside.
        elements = iter(f"%x{i}" for i in range(len(tensors)))
        arguments = [self.value(v) if v.type.shape is None else next(elements) for v in value.operands]
        body = [f"%r = {op} {', '.join(arguments)} : {type.dtype}"]
        maps = [_map(rank, range(rank - len(v.shape), rank)) for v in tensors] + [_map(rank, range(rank))]
        return self.generic(maps, [_PARALLEL] * rank, tensors, [(self.empty(type), type)], body, ["%r"])

    def _matmul(self, value: Value) -> str:
        """Print a `linalg.matmul` of the two operands into a tensor of zeros, and return its SSA name."""
        a, b = value.operands
        names = [self.value(a), self.value(b)]
        zero = self.filled(_literal(0, value.type.dtype), value.type)
        return self.line(
            f"linalg.matmul ins({', '.join(names)} : {a.type.mlir}, {b.type.mlir}) "
            f"outs({zero} : {value.type.mlir}) -> {value.type.mlir}"
        )

    def _reduce(self, value: Value) -> str:
        """Print a sum or maximum along one axis as a generic, and return its SSA name.

        It starts with the neutral element: zero, or the lowest value of the type.
        """
        (x,) = value.operands
        assert isinstance(value.detail, tuple)
        combiner, axis = value.detail  # "add" or "maximum", and the axis that the result does not have
        dtype, rank = value.type.dtype, len(x.shape)
        start = _literal(0, dtype) if combiner == "add" else _lowest_literal(dtype)
        out = self.filled(start, value.type)
        if combiner == "add":
            name = "addf" if _is_float(dtype) else "addi"
        else:
            name = "maximumf" if _is_float(dtype) else "maxsi"
        maps = [_map(rank, range(rank)), _map(rank, [d for d in range(rank) if d != axis])]
        iterators = [_REDUCTION if d == axis else _PARALLEL for d in range(rank)]
        body = [f"%r = arith.{name} %x0, %o0 : {dtype}"]
        return self.generic(maps, iterators, [x], [(out, value.type)], body, ["%r"])

    def _argmax(self, value: Value) -> str:
        """Print a generic that yields the maximum and its index; return the result that `value` is.

        The outputs begin as minus infinity (for integers the least one) and 0. For each element %x0 along the axis, the
        body yields the greater of %x0 and %o0, the maximum so far, and the index of the element if %x0 > %o0, else %o1,
        the index so far. Of equal maxima the first has the index.

        A `Value` is a result of a traced operation. The `Value` of the maximum is result 0 of the generic, with the
        detail (axis, index dtype). The `Value` of the index is result 1 of the same generic, with the detail (axis,
        index dtype, `Value` of the maximum).
        """
        (x,) = value.operands
        assert isinstance(value.detail, tuple)
        axis, index_dtype, *maximum = value.detail
        if value.index == 1:
            return f"{self.value(maximum[0]).partition('#')[0]}#1"
        dtype, rank = x.type.dtype, len(x.shape)
        index_type = TensorType(index_dtype, value.type.shape)
        outs = [
            (self.filled(_lowest_literal(dtype), value.type), value.type),
            (self.filled("0", index_type), index_type),
        ]
        # The outputs have all axes but the reduced one. Their elements %o0 and %o1 are the maximum and index so far.
        rest = _map(rank, [d for d in range(rank) if d != axis])
        iterators = [_REDUCTION if d == axis else _PARALLEL for d in range(rank)]
        larger = "maximumf" if _is_float(dtype) else "maxsi"
        compare = "cmpf ogt" if _is_float(dtype) else "cmpi sgt"
        body = [
            f"%i = linalg.index {axis} : index", f"%n = arith.index_cast %i : index to {index_dtype}",
            f"%m = arith.{larger} %x0, %o0 : {dtype}", f"%c = arith.{compare}, %x0, %o0 : {dtype}",
            f"%s = arith.select %c, %n, %o1 : {index_dtype}",
        ]  # fmt: skip
        name = self.generic([_map(rank, range(rank)), rest, rest], iterators, [x], outs, body, ["%m", "%s"])
        return f"{name}#0"


def _map(rank: int, dims: Sequence[int] | range) -> str:
    """Return the affine map (d0, ..., d<rank - 1>) -> (the dimensions in `dims`, in this order) as text."""
    return f"affine_map<({', '.join(f'd{i}' for i in range(rank))}) -> ({', '.join(f'd{d}' for d in dims)})>"


def _is_float(dtype: str) -> bool:
    """Return whether an element type, such as "f32" or "i8", is a floating-point type."""
    return dtype.startswith(("f", "bf"))


def _lowest_literal(dtype: str) -> str:
    """Return the neutral element of a maximum as a literal: minus infinity, or the least number of the type."""
    if _is_float(dtype):
        lowest, _ = limits(dtype)
        return _literal(lowest, dtype)
    bits = 64 if dtype == "index" else int(dtype.removeprefix("i"))
    return str(-(1 << (bits - 1)))


def _literal(value: float, dtype: str) -> str:
    """Return a number as an MLIR literal of an element type; infinity and NaN as their bits."""
    return spelled(value, dtype) if _is_float(dtype) else str(value)
