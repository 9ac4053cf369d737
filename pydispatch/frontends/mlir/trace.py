"""Tracer of programs in an MLIR dialect: visits the operations in order and emits their conversions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pydispatch.errors import Location
from pydispatch.graph.builder import Builder, Input
from pydispatch.graph.dtypes import DType
from pydispatch.graph.faults import guarded
from pydispatch.graph.sizes import Expr
from pydispatch.graph.values import Tensor
from pydispatch.ir.core.locations import SourceLoc, location_of
from pydispatch.ir.core.walk import walk

Results = Tensor | Sequence[Tensor]
"""Return type of a conversion: the result of an operation, or several."""
ArgumentAxis = tuple[int, int]
"""Index of an argument of a function, and index of one of its axes; both from 0."""


class EnclosingModule(Protocol):
    """Interface of a module that mixes dialects, for the tracer of one of them."""

    def operation(self, op: Operation) -> bool:
        """Convert or copy an operation of another dialect within a traced region, and record its results.

        Return False, and emit nothing, if the dialect has a tracer that does not know the operation.
        """

    def value(self, value: SSAValue, tracer: MlirTracer) -> Tensor:
        """Return the tensor of a value that an operation of another dialect computes. `tracer` is that of the operation
        that uses the value."""


class MlirTracer:
    """Base of the translators of MLIR programs into builder calls: the traversal of operations and regions.

    Each dialect has a subclass with its types and conversion helpers.

    Attributes:
        dialect: name of the dialect in error messages.
        terminators: names of the operations that end a block and forward its values, such as "stablehlo.return".
        b: builder that emits the conversions.
        functions: functions of the module by name.
        table: maps the name of an operation to `convert(tracer, operation, *operands)`, which returns the results.
        values: the tensor of each SSA value that was traced.
        enclosing: converts what this dialect does not have; None when the module has no other dialect.
    """

    dialect: str
    terminators: frozenset[str]
    enclosing: EnclosingModule | None = None

    def __init__(self, builder: Builder, module: ModuleOp, table: Mapping[str, Callable[..., Results]]) -> None:
        """Index the functions of `module` by name; nothing is traced yet."""
        self.b = builder
        self.functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
        self.table = table
        self.values: dict[SSAValue, Tensor] = {}
        self._open: list[str] = []  # names of the functions being inlined, outermost first

    # -- types

    def dtype_of(self, type: Attribute, location: Location | None = None) -> DType:
        """Return the element type of a value's type. Raise CompileError, at `location`, if it is not supported."""
        raise NotImplementedError

    def shape_of(self, type: Attribute) -> Sequence[int | None] | None:
        """Return the size of each axis of a type, None for a dynamic size. Return None for a type without rank."""
        raise NotImplementedError

    def dtype(self, op: Operation, index: int = 0) -> DType:
        """Return the declared element type of result `index` of an operation."""
        return self.dtype_of(op.results[index].type)

    def checked(self, tensor: Tensor, type: Attribute) -> Tensor:
        """Return a tensor whose dynamic sizes are replaced by the static ones of its declared type.

        Raise CompileError if dtype, rank or static sizes contradict the declared type.
        """
        dtype, declared = self.dtype_of(type), self.shape_of(type)
        if declared is None:
            declared = [None] * tensor.rank
        fits = tensor.dtype == dtype and tensor.rank == len(declared)
        # Dynamic sizes (Expr) of the tensor are not compared here: `as_shape` compares them at run time.
        if not fits or any(
            not isinstance(n, Expr) and m is not None and n != m for n, m in zip(tensor.shape, declared, strict=False)
        ):
            raise self.b.fail(f"the result is {tensor}, but its type is {type}")
        return self.b.as_shape(tensor, [n if m is None else m for n, m in zip(tensor.shape, declared, strict=True)])

    # -- public functions

    def inputs_of(self, function: func.FuncOp, names: Sequence[str], sizes: Mapping[ArgumentAxis, str]) -> list[Input]:
        """Return the declarations of a public function's arguments.

        For `@main(%arg0: tensor<?x?xf32>)` with the names ["x"] and the sizes {(0, 0): "n"}, the only one is
        Input("x", f32, ("n", "d0_1")).

        Args:
            function: The function.
            names: A name for each argument; one that is no identifier, or that an earlier argument has, is replaced by
                "arg<index>".
            sizes: Names of dynamic sizes by (index, axis); one without a name is called "d<index>_<axis>".

        Raises:
            CompileError: An argument is an unranked tensor.
        """
        location = location_of(function)
        inputs: list[Input] = []
        for index, (argument, name) in enumerate(zip(function.body.blocks[0].args, names, strict=True)):
            dtype, shape = self.dtype_of(argument.type, location), self.shape_of(argument.type)
            if shape is None:
                what = f"argument {index} of @{function.sym_name.data} is {argument.type}, which has no rank"
                raise self.b.fail(what, "state the rank: tensor<?x?xf32>")
            usable = is_name(name) and all(name != other.name for other in inputs)
            sizes_or_names = (
                sizes.get((index, axis), f"d{index}_{axis}") if n is None else n for axis, n in enumerate(shape)
            )
            shape_names = tuple(sizes_or_names)
            # `_is_donated`: whether the results may use the memory of this argument.
            inputs.append(Input(name if usable else f"arg{index}", dtype, shape_names, _is_donated(function, index)))
        return inputs

    def results_of(self, function: func.FuncOp, arguments: Sequence[Tensor]) -> list[Tensor]:
        """Trace a public function on tensors for its arguments, and return its results in their declared types."""
        name, declared = function.sym_name.data, function.function_type.outputs.data
        try:
            results = self.call(name, arguments)
        except RecursionError:
            raise self.b.fail(f"calls and regions are nested too deeply in @{name}") from None
        if len(results) != len(declared):
            raise self.b.fail(f"{len(results)} value(s) are returned, but @{name} has {len(declared)} result(s)")
        return [self.checked(tensor, type) for tensor, type in zip(results, declared, strict=True)]

    # -- functions, blocks and operations

    def callee(self, name: str) -> func.FuncOp:
        """Return the function of the module with this name. Raise CompileError if it does not exist or has no body."""
        callee = self.functions.get(name)
        if callee is None or callee.body.blocks.first is None:
            raise self.b.fail(f"there is no function @{name} with a body in this module")
        return callee

    def call(self, name: str, arguments: Sequence[Tensor]) -> list[Tensor]:
        """Inline a function of the module at a call, and return its results. Raise CompileError for recursion."""
        callee = self.callee(name)
        if name in self._open:
            raise self.b.fail(f"@{name} calls itself: {' -> '.join([*self._open, name])}")
        self._open.append(name)
        try:
            return self._block(self.block_of(callee.body), arguments)
        finally:
            self._open.pop()

    def region(self, region: Region, arguments: Sequence[Tensor]) -> list[Tensor]:
        """Trace a region of one block, and return its results."""
        return self._block(self.block_of(region), arguments)

    def block_of(self, region: Region) -> Block:
        """Return the only block of a region."""
        if len(region.blocks) != 1:
            raise self.b.fail(f"a region of {self.dialect} has one block, this one has {len(region.blocks)}")
        return region.blocks[0]

    def _block(self, block: Block, arguments: Sequence[Tensor]) -> list[Tensor]:
        """Trace a block, and return the values that its terminator forwards."""
        if len(block.args) != len(arguments):
            raise self.b.fail(f"{len(arguments)} value(s) are passed to a region of {len(block.args)} argument(s)")
        self.values.update(zip(block.args, arguments, strict=True))
        for op in block.ops:
            if op.name in self.terminators:
                return [self.value(operand) for operand in op.operands]
            self.operation(op)
        raise self.b.fail("a block ends without passing on its values")

    def operation(self, op: Operation) -> None:
        """Convert an operation, and record its results in `values`. Raise CompileError if it cannot be converted.

        In a module that mixes dialects, `enclosing` handles operations that the table of this dialect lacks, and
        records their results itself.
        """
        with self.b.at(op):
            convert = self.table.get(op.name)
            if convert is None and self.enclosing is not None and self.enclosing.operation(op):
                return
            if convert is None:
                # `why_not`: a note for the error, or None.
                raise self.b.fail(f"'{op.name}' is not supported in a {self.dialect} program", self.why_not(op))
            operands = [self.value(operand) for operand in op.operands]
            # Exceptions of the conversion become CompileErrors that name the operation and its operands. RecursionError
            # is left to `results_of`, which reports it for the whole function.
            with guarded(self.b, f"'{op.name}'", lambda: ", ".join(map(str, operands)), outer=(RecursionError,)):
                converted = convert(self, op, *operands)
            results = [converted] if isinstance(converted, Tensor) else list(converted)
            if len(results) != len(op.results):
                raise self.b.fail(f"'{op.name}' has {len(op.results)} result(s), expected {len(results)}")
            for result, tensor in zip(op.results, results, strict=True):
                self.values[result] = self.checked(tensor, result.type)

    def why_not(self, op: Operation) -> str | None:
        """Return a note for the error about an operation without a conversion; None for no note."""
        return None

    def value(self, value: SSAValue) -> Tensor:
        """Return the tensor of an SSA value. Raise CompileError if the operation that computes it was not traced yet.

        In a module that mixes dialects, `enclosing` supplies the values of operations that this tracer does not trace.
        """
        if value not in self.values and self.enclosing is not None:
            return self.enclosing.value(value, self)
        tensor = self.values.get(value)
        if tensor is None:
            raise self.b.fail("a value is used before it is computed")
        return tensor


def public_functions(module: ModuleOp) -> list[func.FuncOp]:
    """Return the functions of a module that have a body and are not private."""
    return [op for op in module.ops if isinstance(op, func.FuncOp) and op.body.blocks.first is not None
            and (op.sym_visibility is None or op.sym_visibility.data != "private")]  # fmt: skip


def _is_donated(function: func.FuncOp, index: int) -> bool:
    """Return whether the caller donates the memory of argument `index` to the results, as
    `jax.jit(f, donate_argnums=...)` states.
    """
    attributes = function.arg_attrs.data[index] if function.arg_attrs is not None else None
    return isinstance(attributes, DictionaryAttr) and not attributes.data.keys().isdisjoint(_DONATED)


_DONATED = ("tf.aliasing_output", "jax.buffer_donor")
"""Attributes of donated arguments: the first states which result reuses the memory, the second does not."""


def filename_of(module: ModuleOp) -> str:
    """Return the name of the file that a module was read from; "<module>" if no operation has such a location."""
    locations = (op.location for op in walk(module))
    return next((location.source.filename for location in locations if isinstance(location, SourceLoc)), "<module>")


def is_name(text: str) -> bool:
    """Return whether a text is an identifier, and so a valid name of an argument."""
    return re.fullmatch(r"[A-Za-z_]\w*", text) is not None
