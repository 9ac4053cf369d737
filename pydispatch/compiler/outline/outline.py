"""Outlining of a group of tensor operations into an executable with one function over tensors, and a dispatch of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Block, Operation, Region, SSAValue

from pydispatch.compiler.analysis.in_place import GRID, updated_arguments
from pydispatch.compiler.analysis.kinds import inputs_of, size_operands
from pydispatch.compiler.analysis.known_sizes import Sizes
from pydispatch.compiler.analysis.sizes import term_of
from pydispatch.compiler.outline.computed_regions import Grid
from pydispatch.compiler.outline.names import export_name
from pydispatch.compiler.tensor_ops.terms import Term
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.dialects.flow import tensors
from pydispatch.ir.values import shape_of


class _HostValues(NamedTuple):
    """Sizes that a dispatch passes, as values of the host function.

    Attributes:
        sizes: Sizes that are arguments of the dispatch function.
        argument_dims: Dynamic sizes of the tensors that the dispatch reads: all of the first tensor in the order of
            its axes, then those of the second one, and so on.
        result_dims: Dynamic sizes of its results, in the same order.
    """

    sizes: list[SSAValue]
    argument_dims: list[SSAValue]
    result_dims: list[SSAValue]


class Outline:
    """Builder that moves one group of operations from the host function into an executable with a dispatch function.

    A caller creates a builder for each group, and calls `build` once. The arguments of the function are `tensors`, then
    `scalars`, then `size_arguments`. A term is a size as a constant or a symbol, which equal sizes share.

    Attributes:
        tensors: Tensors that the group reads from outside.
        scalars: Scalars that it reads from outside.
        outputs: Values of the group that are used outside.
        dims: Tensor of `tensors` or `outputs` → its dynamic sizes, as terms, in the order of its axes.
        term_of_index: Value of type index from outside, if it is a size → that size, as a term.
        size_arguments: Sizes that are arguments of the function.
    """

    def __init__(self, group: Sequence[Operation], name: str, sizes: Sizes, grid: Grid | None = None) -> None:
        """Determine the values that the group reads and returns.

        Args:
            group: The operations of the dispatch, in order.
            name: Name of the executable.
            sizes: Sizes of tensors that are known, or known to be equal.
            grid: Grid that the program states; None for a generated one.
        """
        self.group, self.name, self.sizes, self.grid = list(group), name, sizes, grid
        self.last = self.group[-1]
        # The operations and blocks inside of the group, also those in regions of its operations.
        inside: set[Operation | Block] = {inner for op in self.group for inner in walk(op)}
        inside |= {
            block for op in self.group for inner in walk(op) for region in inner.regions for block in region.blocks
        }
        # The values from outside, in the order of their first use, and the results that are used outside. The owner of
        # a value is the operation that computes it, or the block that it is an argument of.
        outer: dict[SSAValue, None] = {}
        for op in self.group:
            outer.update(dict.fromkeys(value for value in inputs_of(op) if value.owner not in inside))
        used_outside = [
            result for op in self.group for result in op.results
            if any(use.operation not in inside for use in result.uses)
        ]  # fmt: skip
        self.outputs = used_outside or list(self.last.results)  # a dispatch has a result, even if none is used
        self.tensors = [v for v in outer if isinstance(v.type, TensorType)]
        self._classify(outer)

    def _classify(self, outer: dict[SSAValue, None]) -> None:
        """Divide the non-tensor values from outside into sizes and scalars, and set the attributes of both.

        A value of type index is a size in three cases; all other values are scalars:

        - It is the size of a tensor that the group reads.
        - It decides the size of a tensor that the group computes, such as an operand of `tensor.empty`.
        - It is constant. The function then has a constant instead of an argument for it.

        A group that reads %a : tensor<?xf32>, whose size is known to be %n, the float %x, and the index values %n, %k
        and %four, a constant, gets

            scalars = [%x, %k], size_arguments = [%n], dims[%a] = [%n], term_of_index = {%n: %n, %four: 4}

        Args:
            outer: All values that the group reads from outside, in the order of their first use.
        """
        # The dynamic sizes of the tensors that the group reads or returns, as terms: an int for a known size, otherwise
        # an expression over sizes of the host. The sizes of results are no arguments: the function computes them from
        # the sizes of the tensors that it reads.
        self.dims: dict[SSAValue, list[Term]] = {}
        size_arguments: dict[Term, None] = {}  # an ordered set
        for value in (*self.tensors, *self.outputs):
            terms = self.sizes.of(value)
            self.dims[value] = [t for t, n in zip(terms, shape_of(value), strict=True) if n < 0]
        for tensor in self.tensors:
            size_arguments.update(dict.fromkeys(t for t in self.dims[tensor] if not isinstance(t, int)))
        # The indices that are such sizes, or that decide sizes of tensors within the group; other values are scalars.
        size_values = {v for op in self.group for v in size_operands(op)}
        self.term_of_index: dict[SSAValue, Term] = {}
        self.scalars: list[SSAValue] = []
        for value in outer:
            if isinstance(value.type, TensorType):
                continue
            if isinstance(value.type, IndexType):
                term = self.sizes.resolve(term_of(value))
                is_tensor_size = term in size_arguments or value in size_values
                if is_tensor_size or isinstance(term, int):
                    self.term_of_index[value] = term
                    if not isinstance(term, int):
                        size_arguments[term] = None
                    continue
            self.scalars.append(value)
        self.size_arguments = list(size_arguments)

    def build(self) -> flow.ExecutableOp:
        """Move the group into a new executable, replace it by `dispatch`, and return the executable.

        The dispatch takes the position of the last operation of the group. A result that the function computes by
        updating an argument is tied to it.
        """
        # The function, and the dispatch of it.
        host = self._host_values()
        block, following = self.last.parent, self.last.next_op
        assert block is not None
        moved = {inner for op in self.group for inner in walk(op)}  # their uses of outputs are not replaced
        function = self._function()
        dispatch = self.dispatch = self._dispatch(function, host)
        if following is None:
            block.add_op(dispatch)
        else:
            block.insert_op_before(dispatch, following)
        # Readers of the outputs in the host read the results of the dispatch. Inside of the function, the moved
        # operations and the new terminator still use the outputs themselves.
        moved.add(function.body.block.last_op)  # type: ignore[arg-type]
        for output, result in zip(self.outputs, dispatch.results, strict=True):
            result.name_hint = output.name_hint
            output.replace_uses_with_if(result, lambda use: use.operation not in moved)
        tied = updated_arguments(function)  # after the replacement, since it inspects all uses
        if any(argument is not None for argument in tied):
            ordinals = [-1 if argument is None else argument for argument in tied]
            dispatch.properties["tied_operands"] = DenseArrayBase.from_list(i64, ordinals)
        return self._executable(function)

    def _executable(self, function: func.FuncOp) -> flow.ExecutableOp:
        """Return an executable of an export, with the grid if the program states one, and a module with `function`."""
        export = flow.ExecutableExportOp.create(
            properties={"sym_name": StringAttr(function.sym_name.data), "sym_visibility": StringAttr("public")},
            regions=[Region() if self.grid is None else self.grid.count],
        )
        inner = ModuleOp([function])
        executable = flow.ExecutableOp.create(
            properties={"sym_name": StringAttr(self.name), "sym_visibility": StringAttr("private")},
            regions=[Region(Block([export, inner]))],
        )
        for op in (executable, export, inner, function):
            set_location(op, self.last)
        return executable

    def _function(self) -> func.FuncOp:
        """Move the group into a new function, and return it; its arguments are tensors, scalars and sizes."""
        types = [*(v.type for v in (*self.tensors, *self.scalars)), *(IndexType() for _ in self.size_arguments)]
        body = Block(arg_types=types)
        mapping = self._map_to_arguments(body)
        # Move the operations. In them and in their regions, values from outside become those of the function.
        for op in self.group:
            op.detach()
            for inner in walk(op):
                inner.operands = [mapping.get(v, v) for v in inner._operands]
            body.add_op(op)
        end = func.ReturnOp(*self.outputs)
        set_location(end, self.last)
        body.add_op(end)
        name = export_name(self.name, self.group, self.outputs)
        function = func.FuncOp(name, (types, [o.type for o in self.outputs]), Region(body))
        # The number of trailing arguments that are sizes: an index argument before them is a scalar.
        function.attributes["sizes"] = IntegerAttr(len(self.size_arguments), i64)
        if self.grid is not None:
            function.attributes[GRID] = UnitAttr()
        return function

    def _map_to_arguments(self, body: Block) -> dict[SSAValue, SSAValue]:
        """Map values of the host that the group reads to those of the function with the empty body `body`.

        The operations that compute them are appended to `body`. For a group that reads %a : tensor<?x?xf32>, with the
        sizes %n and 4 as terms (`self.dims`; an int is a size that is dynamic in the type, but known), these are

            %c4 = arith.constant 4 : index
            %tied = tie_shape %arg0{%arg_n, %c4}

        and the mapping has %a → %tied and %n → %arg_n. The arguments of `body` are tensors, scalars and sizes, in this
        order.
        """
        location = self.group[0]  # the operation whose source location the emitted ones get
        first_size = len(self.tensors) + len(self.scalars)
        sizes: dict[Term, SSAValue] = dict(zip(self.size_arguments, body.args[first_size:], strict=True))

        def put(op: Operation) -> SSAValue:
            """Append an operation to `body`, with the source location `location`, and return its result."""
            set_location(op, location)
            body.add_op(op)
            return op.results[0]

        def size(term: Term) -> SSAValue:
            """Return a size as a value of the function: an argument, or a constant that is appended on first use."""
            if isinstance(term, int) and term not in sizes:
                sizes[term] = put(arith.ConstantOp.from_int_and_width(term, IndexType()))
            return sizes[term]

        # Tensors and scalars are arguments.
        mapping: dict[SSAValue, SSAValue] = {}
        for value, argument in zip((*self.tensors, *self.scalars), body.args, strict=False):
            argument.name_hint = value.name_hint
            mapping[value] = argument
        # A tensor with dynamic sizes is replaced by the result of an operation that states them.
        for tensor in self.tensors:
            if self.dims[tensor]:
                dims = [size(t) for t in self.dims[tensor]]
                mapping[tensor] = put(
                    tensors.DispatchTieShapeOp(operands=[mapping[tensor], dims], result_types=[tensor.type])
                )
        # A value of type index that equals a size is replaced by this size.
        for value, term in self.term_of_index.items():
            mapping[value] = size(term)
        return mapping

    def _host_values(self) -> _HostValues:
        """Return the sizes that the dispatch passes to the kernel and states for its tensors, as values of the host.

        Sizes that must be computed are emitted before the last operation of the group.
        """

        def values(terms: Sequence[Term]) -> list[SSAValue]:
            """Return sizes as values of the host function."""
            return [self.sizes.value(term, self.last) for term in terms]

        return _HostValues(
            sizes=values(self.size_arguments),
            argument_dims=[d for tensor in self.tensors for d in values(self.dims[tensor])],
            result_dims=[d for output in self.outputs for d in values(self.dims[output])],
        )

    def _dispatch(self, function: func.FuncOp, host: _HostValues) -> flow.DispatchOp:
        """Build the dispatch that calls `function`, with the sizes of `host`; it is not inserted yet."""
        # The values that the grid is computed from; a generated grid depends on sizes only.
        workload = host.sizes if self.grid is None else self.grid.workload
        dispatch = flow.DispatchOp(
            operands=[
                workload, [*self.tensors, *self.scalars, *host.sizes], host.argument_dims, host.result_dims
            ],
            result_types=[[o.type for o in self.outputs]],
            properties={"entry_points": ArrayAttr([SymbolRefAttr(self.name, [function.sym_name.data])])},
        )  # fmt: skip
        set_location(dispatch, self.last)
        return dispatch
