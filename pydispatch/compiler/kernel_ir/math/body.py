"""The operations of a function being written: operations, constants, tables and the block they go to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

if TYPE_CHECKING:
    from collections.abc import Iterator

INDEX = IndexType()


class Body:
    """Builder of one math function in kernel IR, such as exp: its operations, constants and tables.

    Attributes:
        flags: Fast-math flags of float arithmetic.
        entry: The entry block.
        block: The block that operations are appended to.
        globals: Constant tables that the function reads.
    """

    def __init__(self, arguments: Sequence[Attribute], flags: dict[str, Attribute] | None = None) -> None:
        """Create an empty body of a function with these types of arguments.

        `flags` are the properties with fast-math flags that all float arithmetic gets; None for no flags.
        """
        self.flags = flags or {}
        self.entry = self.block = Block(arg_types=arguments)
        self.globals: list[Operation] = []  # constant tables of the module that the function reads
        self._constants: dict[object, Operation] = {}  # key → `arith.constant`, which `finish` inserts at the beginning

    def arguments(self) -> Sequence[SSAValue]:
        """Return the arguments of the function."""
        return self.entry.args

    def op(self, kind: type[Operation], type_: Attribute, *operands: SSAValue, **properties: Attribute) -> SSAValue:
        """Append an operation with one result, of type `type_`, and return the result."""
        op = kind.create(operands=operands, result_types=[type_], properties=properties)
        self.block.add_op(op)
        return op.results[0]

    def constant(self, key: object, type_: Attribute, value: Callable[[], Attribute]) -> SSAValue:
        """Return a constant of the function, created on first use.

        Args:
            key: Identifies the constant: equal keys stand for the same value and type.
            type_: Its type.
            value: Returns the attribute of its value; called on first use.
        """
        constant = self._constants.get(key)
        if constant is None:
            constant = arith.ConstantOp.create(result_types=[type_], properties={"value": value()})
            self._constants[key] = constant
        return constant.results[0]

    def table(
        self, name: str, values: Sequence[int] | Sequence[float], element: Attribute, position: SSAValue
    ) -> SSAValue:
        """Append the load of an element of a constant table, and return it.

        Args:
            name: Identifies the table: it is created on first use, and shared by later loads.
            values: The elements of the table.
            element: The type of an element.
            position: Index of the element, an i32.
        """
        symbol, type_ = f"pyd.math.{name}", MemRefType(element, [len(values)])
        if all(table_.properties["sym_name"].data != symbol for table_ in self.globals):  # type: ignore[attr-defined]
            data = DenseIntOrFPElementsAttr.from_list(TensorType(element, [len(values)]), values)  # type: ignore
            properties = {"sym_name": StringAttr(symbol), "type": type_, "initial_value": data, "constant": UnitAttr(),
                          "sym_visibility": StringAttr("private")}  # fmt: skip
            self.globals.append(memref.GlobalOp.create(properties=properties))
        table = self.op(memref.GetGlobalOp, type_, name=SymbolRefAttr(symbol))
        index = self.op(arith.IndexCastOp, INDEX, position)
        return self.op(memref.LoadOp, element, table, index)

    def finish(self, results: Sequence[SSAValue]) -> func.FuncOp:
        """Build the function of this body, which returns `results`."""
        self.entry.add_op(func.ReturnOp(*results))
        if self._constants:
            assert self.entry.first_op is not None
            self.entry.insert_ops_before(list(self._constants.values()), self.entry.first_op)
        types = [argument.type for argument in self.entry.args], [result.type for result in results]
        # Emitters inline the function or give it a name of their own.
        return func.FuncOp("definition", types, Region(self.entry))

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Append operations to another block while this context is open."""
        outer, self.block = self.block, block
        try:
            yield
        finally:
            self.block = outer
