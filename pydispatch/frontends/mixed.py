"""Lowering of StableHLO, CHLO and TOSA in modules that mix them with other dialects.

Each operation of a frontend's dialect is replaced where it is stored: in any function, initializer, or region of an
operation. All other operations stay: they receive the converted values in the types that they had before. A region of a
converted operation, such as the body of a `stablehlo.while`, is traced into a new one: its operations are converted in
order by the dialect's tracer, and operations of other dialects in it are cloned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IndexType, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove

from pydispatch.frontends.mlir.frontend import DialectFrontend
from pydispatch.frontends.mlir.trace import MlirTracer, filename_of
from pydispatch.frontends.source import ReadOptions
from pydispatch.graph.builder import Builder
from pydispatch.graph.constants import elements_of
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.graph.writer import Scope
from pydispatch.ir.core.dominance import reverse_postorder
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.util.dialect import InitializerOp
from pydispatch.ir.functions import FUNCTIONS


def lower_mixed(module: ModuleOp, frontends: Sequence[DialectFrontend], options: ReadOptions) -> ModuleOp:
    """Lower the operations of the frontends' dialects in a module, in place, and return the module.

    Raise CompileError for an operation that its frontend cannot convert, and for an operand or result of a type that is
    no tensor type of the frontends.
    """
    lowering = _Lowering(module, frontends, options)
    lowering.run()
    return module


class _Lowering:
    """Lowering of one module that mixes StableHLO, CHLO or TOSA with other dialects; `run` is called once.

    Operations of the dialects in `frontends` are converted by tracers, one for each frontend. A tracer translates an
    operation into calls of the builder, which emits operations such as `linalg.generic`; results are `Tensor`s of the
    builder. All other operations remain, and get SSA values for their operands. In

        %0 = stablehlo.add %a, %b : tensor<4xf32>
        %1 = tensor.extract %0[%i] : tensor<4xf32>

    the values %a and %b are received as tensors (`_receive`), the new operations are inserted before the add, and the
    sum is materialized as an SSA value (`_materialize`) for the `tensor.extract`. The add is erased at the end.
    """

    def __init__(self, module: ModuleOp, frontends: Sequence[DialectFrontend], options: ReadOptions) -> None:
        """Create the tracers of the dialects, which share one table of converted values.

        Args:
            module: The module, which `run` rewrites.
            frontends: Frontends of the dialects to convert.
            options: Options of the program, for the builder and the tracers.
        """
        self.module = module
        source = module.clone()  # tracers inline functions of the clone: functions of `module` are rewritten meanwhile
        self.b = Builder.of(module, filename_of(module), options.weights)
        # Dialect → tracer of its operations.
        self.tracers: Mapping[str, MlirTracer] = {
            dialect: tracer
            for frontend in frontends
            for tracer in [frontend.tracer(self.b, source, options)]
            for dialect in frontend.dialects
        }
        self.values: dict[SSAValue, Tensor] = {}  # converted result, or argument of a traced region → its tensor
        for tracer in self.tracers.values():  # tracers call `enclosing` for operations and values of other dialects
            tracer.values, tracer.enclosing = self.values, self
        # Value of an operation of another dialect → its tensors, each with the scope in which its sizes were computed.
        # A scope is a block that operations are emitted into. An entry here or in `materialized` is reused only while
        # its scope is open: in the block and in blocks inside of it, where its SSA values can be used.
        self.received: dict[SSAValue, list[tuple[Scope, Tensor]]] = {}
        # Converted result → values of its original type, each with the scope in which it was computed.
        self.materialized: dict[SSAValue, list[tuple[Scope, SSAValue]]] = {}
        # Result of an operation that was cloned into a traced region → the result of the clone. Results that are
        # tensors are in `values` instead.
        self.cloned: dict[SSAValue, SSAValue] = {}
        # The operations that are being rewritten, one for each block that is being rewritten, outermost first: the
        # operation, and a temporary block that collects the new operations to insert before it.
        self.open_rewrites: list[tuple[Operation, Block]] = []
        self._converted: list[Operation] = []  # operations to erase at the end, since they use each other's results

    def run(self) -> None:
        """Rewrite all functions and initializers, and erase the operations that were converted."""
        for op in list(self.module.ops):
            if op.name in FUNCTIONS or isinstance(op, InitializerOp):
                for region in op.regions:
                    self._region(region)
        # Declarations of a dialect at the top level, such as tosa.variable, are converted where they are used.
        self._converted += [op for op in self.module.ops if self._tracer_of(op) is not None]
        for op in reversed(self._converted):  # users before the operations that define their operands
            op.detach()
            op.erase(safe_erase=False)

    # -- operations where they are stored

    def _region(self, region: Region) -> None:
        """Rewrite the operations of a region in place."""
        for block in reverse_postorder(region):  # blocks that define values before those that use them
            new = Block()  # collects the new operations of the operation that is being rewritten
            with self.b.inside(new):
                for op in list(block.ops):
                    self.open_rewrites.append((op, new))
                    self._operation(op)
                    self._insert_new_operations()
                    self.open_rewrites.pop()

    def _insert_new_operations(self) -> None:
        """Insert the new operations of each block that is being rewritten before the operation that is rewritten."""
        for rewritten, new in self.open_rewrites:
            for op in list(new.ops):
                op.detach()
                assert rewritten.parent is not None
                rewritten.parent.insert_op_before(op, rewritten)

    def _operation(self, op: Operation) -> None:
        """Convert an operation of a frontend's dialect; give other operations converted operands and rewrite their
        regions.

        In `%0 = stablehlo.add %a, %b` and `%1 = tensor.extract %0[%i]` the add is converted, and erased at the end. The
        extract stays, with the result of the conversion, in the type of %0, as its operand.
        """
        tracer = self._tracer_of(op)
        if tracer is not None:
            tracer.operation(op)
            # Some stores, such as that of the new random state, are postponed to `Builder.finish`, at the end of a
            # function. It is not called for functions of a mixed module, so they are emitted now.
            self.b.store_at_end()
            self._converted.append(op)
            return
        with self.b.at(op):
            for index, operand in enumerate(op.operands):
                if operand in self.values:
                    op.operands[index] = self._materialize(operand)
        with self._scope_of_regions(op):  # hides outer values from regions that are isolated from above
            for region in op.regions:
                self._region(region)

    @contextmanager
    def _scope_of_regions(self, op: Operation) -> Iterator[None]:
        """Hide the values of enclosing blocks from the regions of an operation that cannot use them."""
        if op.regions and op.has_trait(IsolatedFromAbove):
            with self.b.outside():
                yield
        else:
            yield

    def _tracer_of(self, op: Operation) -> MlirTracer | None:
        """Return the tracer of an operation's dialect; None for other dialects."""
        return self.tracers.get(op.name.partition(".")[0])

    # -- implementation of `mlir.trace.EnclosingModule` for tracers

    def operation(self, op: Operation) -> bool:
        """Convert or clone an operation within a traced region. Return False if its dialect has no conversion of it.

        A traced region is that of a converted operation, such as the body of a `stablehlo.while`, which is emitted
        anew. The tracer of the operation's dialect converts it. An operation of a dialect without a tracer, such as a
        `linalg.exp` in that body, is cloned.
        """
        tracer = self._tracer_of(op)
        if tracer is None:
            self._clone(op)
            return True
        if op.name not in tracer.table:
            return False
        tracer.operation(op)
        return True

    def _clone(self, op: Operation) -> None:
        """Clone an operation into a traced region.

        1. Operands that were converted are replaced with values of their original types, also in its regions.
        2. Its regions are rewritten like those of operations that are not in a traced region.
        3. Its results are recorded: tensors as tensors of the tracers, others in `cloned`.
        """
        with self.b.at(op):
            # 1. The operands.
            used = dict.fromkeys(operand for inner in walk(op) for operand in inner.operands)  # in the text's order
            mapping = {value: self._materialize(value) for value in used if value in self.values}
            mapping |= {value: self.cloned[value] for value in used if value in self.cloned}
            clone = self.b.add(op.clone(mapping))
            # 2. The regions. Those of an operation that is isolated from above do not see the values outside of it.
            with self._scope_of_regions(clone):
                for region in clone.regions:
                    self._region(region)
            # 3. The results.
            any_tracer = next(iter(self.tracers.values()))  # all represent tensors alike
            for old, new in zip(op.results, clone.results, strict=True):
                if isinstance(old.type, TensorType):
                    self.values[old] = self._receive(new, any_tracer)
                else:
                    self.cloned[old] = new

    def value(self, value: SSAValue, tracer: MlirTracer) -> Tensor:
        """Return the tensor of a value of another dialect; cached while the scope in which its sizes were computed is
        open. A scope is a block that operations are emitted into. `tracer` is that of the operation that uses it.
        """
        for scope, known in self.received.get(value, ()):
            if self.b.is_open(scope):
                return known
        # If the operation of `value` was cloned into a traced region, the result of the clone is received.
        new = self._receive(self.cloned.get(value, value), tracer)
        self.received.setdefault(value, []).append((self.b.scope, new))
        return new

    # -- values between the dialects

    def _receive(self, value: SSAValue, tracer: MlirTracer) -> Tensor:
        """Return a value of another dialect as a tensor, with the operations that compute its dynamic sizes.

        For `%v : tensor<?x4xf32>` emit `%n = tensor.dim %v, %c0`, and return a tensor of f32[n, 4], where the symbol n
        stands for the value %n. A constant becomes a tensor whose elements are known at compile time.

        Raise CompileError if the value is no tensor. `tracer` is that of the operation that uses it.
        """
        type_, owner = value.type, value.owner
        if not isinstance(type_, TensorType):
            raise self.b.fail(f"an operand of type {type_} is no tensor: operations of {tracer.dialect} take tensors",
                              "make it one: tensor.from_elements, or tensor.splat")  # fmt: skip
        dtype = tracer.dtype_of(type_, self.b.location)
        if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, DenseIntOrFPElementsAttr):
            return Tensor(dtype, tuple(type_.get_shape()), known=elements_of(owner.value, dtype))
        shape: list[Size] = []
        for axis, size in enumerate(tracer.shape_of(type_) or ()):
            dim = None if size is not None else self.b.add(tensor.DimOp(value, self.b.index(axis)))
            shape.append(self.b.size_of(dim.result) if dim is not None else size)  # type: ignore[arg-type]
        if isinstance(type_.element_type, IndexType):  # tensors of the tracers have i64 elements instead
            value = self.b.add(arith.IndexCastOp(value, TensorType(dtype.element, type_.get_shape()))).result
        return self.b.from_boundary(value, dtype, tuple(shape))

    def _materialize(self, value: SSAValue) -> SSAValue:
        """Return the tensor of a converted result as a value of its original type.

        The value is cached while its scope, the block that it is emitted into, is open.
        """
        for scope, known in self.materialized.get(value, ()):
            if self.b.is_open(scope):
                return known
        new = self.b.to_boundary(self.values[value])  # in the form of function arguments: complex is interleaved
        if new.type != value.type:
            new = self._cast(new, value.type)
        self.materialized.setdefault(value, []).append((self.b.scope, new))
        return new

    def _cast(self, value: SSAValue, original: Attribute) -> SSAValue:
        """Cast a converted value to its original type, which operations of other dialects expect.

        A `tensor<4xi64>` for the original type `tensor<?xindex>` is cast to `tensor<4xindex>` by `arith.index_cast`,
        because tracers use i64 for `index`, and then to `tensor<?xindex>` by `tensor.cast`, because the conversion may
        know sizes that are dynamic in the original type.

        Raise CompileError if the element types still differ.
        """
        converted = value.type
        if isinstance(converted, TensorType) and isinstance(original, TensorType):
            if isinstance(original.element_type, IndexType):
                converted = TensorType(IndexType(), converted.get_shape())
                value = self.b.add(arith.IndexCastOp(value, converted)).result
            if converted.element_type == original.element_type:
                return value if converted == original else self.b.add(tensor.CastOp(value, original)).dest
        raise self.b.fail(
            f"a value of type {original} is used by an operation of another dialect, where it is {converted}",
            "convert it to the second type first",
        )
