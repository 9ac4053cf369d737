"""Builder of a program: tensors, constants, weights, functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects import arith, builtin, func, tensor
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    StringAttr,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.graph.constants import constant_attribute, dense_of, encoded
from pydispatch.graph.dtypes import I64, DType, Kind, dtype_of_numpy
from pydispatch.graph.sizes import Expr, Shape, Size, is_static, symbol
from pydispatch.graph.values import Tensor, Weight, boundary_type, tensor_type
from pydispatch.graph.writer import OperationWriter, Scope
from pydispatch.inlining import InlinedCalls
from pydispatch.ir.core.locations import LayerLoc
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.flow.parameter import FlowParameterAttr
from pydispatch.ir.dialects.flow.tensors import TensorTieShapeOp
from pydispatch.ir.dialects.pyd.array import NumPyArrayAttr
from pydispatch.ir.dialects.util import dialect as util
from pydispatch.ir.functions import FUNCTIONS, symbol_name

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Self

    from pydispatch.kernels.kernel import KernelSource
    from pydispatch.kernels.module import Lowered

KERNEL_HINTS = "pyd.kernel_hints"
"""Attribute of a program: dictionary from the names of the user's kernels that match no operation to the reasons."""

MODEL = "model"
"""Scope of the weights that are supplied when an artifact is loaded."""


@dataclass(frozen=True)
class Input:
    """Argument of a public function that a frontend declares.

    Attributes:
        name: Name of the argument.
        dtype: Element type.
        shape: Sizes. A string names a dynamic size; sizes of the same name are equal.
        is_donated: Whether the caller no longer needs its value, so that a result may reuse its memory.
    """

    name: str
    dtype: DType
    shape: tuple[int | str, ...]
    is_donated: bool = False


class Builder(OperationWriter):
    """Builder of the tensors and functions of one module.

    A function is written by `begin`, which returns its arguments, then operations on tensors, and `finish`.
    `filename` names the model in error messages. `weights` is "embed" to store weights in the program; "external" makes
    them parameters, which are passed when it is loaded. The module may be a mixed one: MLIR of the user, of which only
    operations of some dialects, such as StableHLO, are converted.
    """

    def __init__(self, filename: str, weights: str = "embed") -> None:
        super().__init__(filename)
        self.weights = weights  # "embed": in the program; "external": parameters, passed when it is loaded
        # id of a weight's array → the array, whose id no other one has while it is referenced; and its global.
        self._weights: dict[int, tuple[np.ndarray[Any, Any], util.GlobalOp]] = {}
        self.state: dict[str, Tensor] = {}
        """Globals that a loaded program changes itself, such as the state of random numbers, by name."""
        self.kernel_functions: dict[tuple[KernelSource, bool], tuple[Lowered, func.FuncOp]] = {}
        """(kernel written in Python, whether its host function takes the grid as arguments) → the lowered kernel, and
        its host function in this module (`operations/python_kernels.py`)."""
        self._inlined_calls = InlinedCalls()  # counts calls, to bound the growth of the program
        self.at_end: list[Callable[[], None]] = []  # emit stores that are postponed to the end of the function
        self.random_sites = 0  # operations that draw random numbers: of the function, or of a module of the user's MLIR
        # Whether `at_end` increments the stored number of calls, so that each call draws other random numbers.
        self.is_call_counted = False

    @classmethod
    def of(cls, module: builtin.ModuleOp, filename: str, weights: str = "embed") -> Self:
        """Return a builder that adds operations to an existing module, with names that differ from the module's
        symbols.
        """
        builder = cls(filename, weights)
        builder.module = module
        symbols = (op for op in module.ops if "sym_name" in op.properties or "sym_name" in op.attributes)
        builder._names |= {symbol_name(op) for op in symbols}
        return builder

    def hint_kernels(self, hints: Mapping[str, str]) -> None:
        """Record in the program why kernels of the user match no operation: one sentence by each kernel's name."""
        if hints:
            texts = {name: StringAttr(text) for name, text in hints.items()}
            self.module.attributes[KERNEL_HINTS] = DictionaryAttr(texts)

    def count_inlined(self, name: str) -> None:
        """Count an inlined call of the function `name`. Raise CompileError if the program would grow beyond
        the limit.
        """
        message_and_note = self._inlined_calls.count_or_fault(name)
        if message_and_note is not None:
            raise self.fail(*message_and_note)

    # -- tensors

    def wrap(self, dtype: DType, shape: Sequence[Size], *parts: SSAValue) -> Tensor:
        """Return a tensor of SSA values: its elements, or their real and their imaginary parts if they are complex."""
        return Tensor(dtype, tuple(shape), parts)

    def constant(self, elements: Any, dtype: DType | None = None) -> Tensor:
        """Return a constant tensor of numbers, or of sizes: an object array of ints and expressions.

        Numbers are converted to `dtype`, by default the type of the array; i64 for sizes.
        """
        import numpy as np

        array = np.asarray(elements)
        if dtype is None:
            dtype = I64 if array.dtype == object else dtype_of_numpy(array)
        if array.dtype == object:
            sizes = array.reshape(-1).tolist()
            if not any(isinstance(n, Expr) for n in sizes):  # all are ints
                array = array.astype(dtype.numpy)
        elif array.dtype != dtype.numpy:
            array = encoded(array, dtype)
        return Tensor(dtype, array.shape, known=array)

    def weight(self, name: str, array: np.ndarray[Any, Any], dtype: DType, *, is_own: bool = False) -> Tensor:
        """Return a tensor for a named array of `dtype.numpy`, stored next to the program. is_own: see Weight."""
        return Tensor(dtype, array.shape, weight=Weight(name, array, is_own))

    def parts(self, of: Tensor) -> tuple[SSAValue, ...]:
        """Return the SSA values of a tensor: one, or real and imaginary part.

        Constants and weights are emitted on first use, in the function's outermost block so that all blocks can see
        them. Constants whose elements are symbolic sizes are emitted in the current block, which has these sizes.
        """
        if of.parts:  # a computed tensor or an argument; others are constants, weights and lists of sizes
            return of.parts
        # `_scopes`: the blocks that are being built, from the outermost to the current one, with the values of the
        # constants, weights and symbolic tensors that were emitted in each.
        for scope in self._scopes:
            if of in scope.tensors:
                return scope.tensors[of]
        scope = self._scopes[-1] if of.is_symbolic else self._scopes[0]
        values: tuple[SSAValue, ...]
        if of.weight is not None:
            values = (self._load_weight(of, of.weight),)
        elif of.is_symbolic:
            values = (self._tensor_of_sizes(of),)
        else:
            assert of.known is not None
            arrays = (of.known.real, of.known.imag) if of.dtype.is_complex else (of.known,)
            values = tuple(self._add_to(arith.ConstantOp(dense_of(a, of.dtype)), scope.block).result for a in arrays)
        scope.tensors[of] = values
        return values

    def value(self, of: Tensor) -> SSAValue:
        """Return the SSA value of a tensor that is not complex."""
        (value,) = self.parts(of)
        return value

    def _tensor_of_sizes(self, of: Tensor) -> SSAValue:
        """Emit the constant `of`, whose elements are sizes, some of them symbolic, and return its SSA value."""
        elements = []
        for n in of.known_integers() or ():
            value = self.index(n)
            elements.append(self.add(arith.IndexCastOp(value, of.dtype.element)).result)
        list_op = tensor.FromElementsOp.build(
            operands=[elements], result_types=[tensor_type(of.dtype.element, of.shape)]
        )
        return self.add(list_op).result

    def _global_of(self, weight: Weight, type: builtin.TensorType[Attribute]) -> util.GlobalOp:
        """Return the global of a weight, which is declared on first use. Weights with the same array object share one.

        If `self.weights` is "embed", the program contains the elements; otherwise they are a parameter that is passed
        when the program is loaded. A weight of the program's own, such as its random state, is always embedded.
        """
        _, global_op = self._weights.get(id(weight.array), (None, None))
        if global_op is None:
            if self.weights == "embed" or weight.is_own:
                value: Attribute = NumPyArrayAttr.of(weight.name, type, weight.array)
            else:
                value = FlowParameterAttr(StringAttr(MODEL), StringAttr(weight.name), DictionaryAttr({}), type)
            global_op = util.GlobalOp(
                properties={"sym_name": StringAttr(self.unused_name(f"weight.{weight.name}")), "type": type,
                            "sym_visibility": StringAttr("private"), "initial_value": value}
            )  # fmt: skip
            self.module.body.block.add_op(global_op)
            # The array is stored too, so that it lives and no other array gets its id.
            self._weights[id(weight.array)] = weight.array, global_op
        return global_op

    def _load_weight(self, of: Tensor, weight: Weight) -> SSAValue:
        """Emit a load of a weight's global in the function's outermost block, and return its value. of: its tensor."""
        global_op = self._global_of(weight, tensor_type(of.dtype.element, of.shape))
        load = util.GlobalLoadOp(
            properties={"global": builtin.SymbolRefAttr(global_op.sym_name)}, result_types=[global_op.type]
        )  # fmt: skip
        return self._add_to(load, self._scopes[0].block).result

    def store(self, of: Tensor, new: Tensor) -> None:
        """Emit a store of a new value to the weight `of`. As state of the loaded program, the value persists across
        calls.
        """
        assert of.weight is not None
        self.parts(of)  # as a side effect, declares the global if the function has not read the weight yet
        _, global_op = self._weights[id(of.weight.array)]
        global_op.properties["is_mutable"] = builtin.UnitAttr()
        name = builtin.SymbolRefAttr(global_op.sym_name)
        self.add(util.GlobalStoreOp(operands=[self.value(new)], properties={"global": name}))

    def empty(self, element: Attribute, shape: Sequence[Size]) -> SSAValue:
        """Emit a tensor with undefined elements of the MLIR type `element`, and return its value."""
        type = tensor_type(element, shape)
        return self.add(tensor.EmptyOp.create(operands=self.indices(shape), result_types=[type])).tensor

    def splat(self, value: SSAValue, shape: Sequence[Size]) -> SSAValue:
        """Emit a tensor with all elements equal to a scalar `value`, and return its value."""
        return self.add(tensor.SplatOp(value, self.indices(shape), tensor_type(value.type, shape))).result

    def scalar_constant(self, value: complex | bool, dtype: DType) -> SSAValue:
        """Return a constant scalar of a type; of a complex type, `value` is the real or the imaginary part, and the
        scalar is of the type of the parts.
        """
        return self._add_to(arith.ConstantOp(constant_attribute(value, dtype)), self._scopes[0].block).result

    def as_shape(self, value: Tensor, shape: Sequence[Size]) -> Tensor:
        """Return the tensor with its shape stated as `shape`: equal sizes, some of which are stated in another way.

        A size n of the tensor may be another symbol m in `shape`, or a number such as 4. A number is compared with the
        dynamic size n at run time; symbols are known to be equal, and not compared. For a tensor %x of the shape [n, k]
        and the shape [4, m], with the value %m of m, this emits

            %0 = flow.tensor.tie_shape %x : tensor<?x?xf32>{%c4, %m}
            %1 = tensor.cast %0 : tensor<?x?xf32> to tensor<4x?xf32>
        """
        shape = tuple(shape)
        if value.shape == shape or value.known is not None:  # the shape of a constant has no symbols
            return value
        cast_parts = []
        for part in self.parts(value):  # one, or the real and the imaginary part
            if not is_static(shape):  # if all sizes are numbers, the cast below states them
                dims = [self.index(n) for n, old in zip(shape, value.shape, strict=True) if isinstance(old, Expr)]
                # States that the dynamic sizes of the operand are `dims`.
                part = self.add(TensorTieShapeOp(operands=[part, dims], result_types=[part.type])).result
            target = tensor_type(value.dtype.element, shape)
            cast_parts.append(part if part.type == target else self.add(tensor.CastOp(part, target)).dest)
        return Tensor(value.dtype, shape, tuple(cast_parts))

    def scalar(self, tensor_: Tensor) -> SSAValue:
        """Return the element of a tensor of one element as an SSA value of type index. A computed element is read back
        from the device.
        """
        known = tensor_.known_integers()
        if known is not None:
            return self.index(known[0])
        (value,) = self.parts(tensor_)
        zeros = [self.index(0)] * tensor_.rank
        element = self.add(tensor.ExtractOp(value, zeros, tensor_.dtype.element)).result
        cast = arith.IndexCastOp(element, builtin.IndexType())
        return self.add(cast).result

    # -- functions

    def store_at_end(self) -> None:
        """Emit the stores that operations postponed to the end of their function, and clear `at_end`.

        `finish` does so for the function that it ends. This is for a mixed module (`frontends/mixed.py`), in which
        converted operations are added to functions that the builder did not begin and does not finish.
        """
        for store in self.at_end:
            store()
        self.at_end, self.is_call_counted = [], False  # `at_end` no longer counts the call

    def begin(self, inputs: Sequence[Input], bounds: Mapping[str, int] | None = None) -> list[Tensor]:
        """Begin a public function, to which operations are then added until `finish`, and return its arguments.

        Names of dynamic sizes become symbols, whose values are sizes of the first argument that has them. `bounds` has
        the lower bounds of some of them, by name; the caller adds checks of these.
        """
        block = Block(arg_types=[boundary_type(i.dtype, [DYNAMIC if isinstance(n, str) else n for n in i.shape])
                                 for i in inputs])  # fmt: skip
        self._scopes, self._symbols, self._inputs = [Scope(block)], {}, list(inputs)
        self.at_end, self.random_sites, self.is_call_counted = [], 0, False  # they belong to one function
        self._names |= {n for i in inputs for n in i.shape if isinstance(n, str)}
        arguments = zip(inputs, block.args, strict=True)
        return [self._argument(declared, value, bounds or {}) for declared, value in arguments]

    def _argument(self, declared: Input, argument: BlockArgument, bounds: Mapping[str, int]) -> Tensor:
        """Return the tensor of an argument. Dynamic sizes that no earlier argument has become symbols with its sizes.

        declared: the argument as the frontend declares it. argument: its value in the function's body. bounds: lower
        bounds of sizes by name.
        """
        # The name is only a hint for readers of the IR: callers use the attribute pyd.name, which can be any text.
        is_usable_name = declared.name.isascii() and declared.name.isidentifier()
        argument.name_hint = declared.name if is_usable_name else None
        value: SSAValue = argument
        # Sizes: a name becomes a symbol, whose value is read from the first argument that has it.
        shape: list[Size] = []
        for axis, n in enumerate(declared.shape):
            shape.append(symbol(n, bounds.get(n, 0)) if isinstance(n, str) else n)
            if isinstance(n, str) and n not in self._symbols:
                self._symbols[n] = self.add(tensor.DimOp(value, self.index(axis))).result
        dynamic_sizes = self.indices(shape)
        if dynamic_sizes:  # state that the dynamic sizes of the argument are the values of the symbols
            value = self.add(TensorTieShapeOp(operands=[value, dynamic_sizes], result_types=[value.type])).result
        return self.from_boundary(value, declared.dtype, tuple(shape))

    def is_kept(self, value: BlockArgument) -> bool:
        """Return whether a block argument is a function's argument that the caller may still read: it is not donated.

        Its memory must not be updated in place. In a mixed module, whose functions the user writes, no argument is
        donated. For arguments of other blocks, such as loop bodies, the result is False.
        """
        function = value.owner.parent_op()
        if function is not None and function.name in FUNCTIONS:  # a function of a mixed module
            return True
        traced_body = self._scopes[0].block
        return value.owner is traced_body and not self._inputs[value.index].is_donated

    def from_boundary(self, value: SSAValue, dtype: DType, shape: Shape) -> Tensor:
        """Return the tensor for an argument, a value of a boundary type (`boundary_type`).

        Operations of the program have signless integers, so unsigned ones are cast to them. They have no complex
        elements either: these are cast to pairs along a new last axis, which are split into real and imaginary parts.
        """
        if dtype.is_complex:
            pairs = self._cast_at_boundary(value, tensor_type(dtype.element, (*shape, 2)))
            real, imaginary = (self._component_of_pairs(pairs, dtype, shape, n) for n in (0, 1))
            return self.wrap(dtype, shape, real, imaginary)
        if dtype.kind is Kind.UINT:
            value = self._cast_at_boundary(value, tensor_type(dtype.element, shape))
        return self.wrap(dtype, shape, value)

    def _cast_at_boundary(self, value: SSAValue, type: Attribute) -> SSAValue:
        """Emit a cast of `value` to `type`: between the type of an argument or result, such as an unsigned integer, and
        the type with the same bits inside the program, such as a signless one.
        """
        return self.add(UnrealizedConversionCastOp.get([value], [type])).results[0]

    def _component_of_pairs(self, value: SSAValue, dtype: DType, shape: Shape, component: int) -> SSAValue:
        """Return the real (component 0) or imaginary (1) parts of complex numbers, which `value` has as pairs along its
        last axis. dtype, shape: those of the complex numbers, without this axis.
        """
        rank = len(shape)
        result_map = AffineMap.identity(rank)
        pairs_map = AffineMap(rank, 0, (*result_map.results, AffineExpr.constant(component)))
        out = self.empty(dtype.element, shape)
        (component_value,) = self.generic(
            [(value, pairs_map)], [(out, result_map)], parallel=[True] * rank, body=lambda _, args: args[:1]
        )
        return component_value

    def _interleaved(self, of: Tensor) -> SSAValue:
        """Return complex numbers as pairs (real part, imaginary part) along a new last axis."""
        # A new last axis of size 1: the last axis is split into itself and the new one; a scalar has no axis to split.
        groups: list[list[int]] = []
        if of.rank > 0:
            groups = [*([axis] for axis in range(of.rank - 1)), [of.rank - 1, of.rank]]
        columns = [self.expand(part, groups, (*of.shape, 1)) for part in self.parts(of)]  # real and imaginary parts
        result = tensor_type(of.dtype.element, (*of.shape, 2))
        return self.add(tensor.ConcatOp(columns, of.rank, result)).result

    def finish(self, name: str, outputs: Mapping[str, Tensor]) -> None:
        """End the function of `begin`, and add it to the module as `name`. `outputs` are its results by name, in order.

        Names of arguments and results, and their dynamic sizes as names or expressions, are stated in attributes. With
        an argument x of the shape [n, 4] and a result y of the shape [2*n, 4], the function begins with

            func.func @main(%0: tensor<?x4xf32> {pyd.name = "x", pyd.shape = ["n", "4"]})
                         -> (tensor<?x4xf32> {pyd.name = "y", pyd.shape = ["2*n", "4"]})
        """
        for write in self.at_end:  # stores of the program's state
            write()
        # Return the results in the types that functions have: unlike those within the program, unsigned and complex.
        values = [self.to_boundary(of) for of in outputs.values()]
        self.add(func.ReturnOp(*values))
        block = self._scopes[0].block
        inputs = [_named(i.name, i.shape) for i in self._inputs]
        shapes = [[str(n) if isinstance(n, Expr) else n for n in of.shape] for of in outputs.values()]
        results = [_named(key, shape) for key, shape in zip(outputs, shapes, strict=True)]
        function = func.FuncOp(
            name, (block.arg_types, [v.type for v in values]), Region(block), arg_attrs=ArrayAttr(inputs),
            res_attrs=ArrayAttr(results),
        )  # fmt: skip
        # The layer "" stands for the model itself.
        function.location = LayerLoc(self.filename, layer="")  # type: ignore[assignment]
        self.module.body.block.add_op(function)
        self._scopes = []

    def to_boundary(self, of: Tensor) -> SSAValue:
        """Return the SSA value of a tensor with its boundary type, that of an argument or result of a function.

        Unlike types within the program, this type has unsigned and complex elements. The reverse of `from_boundary`.
        """
        type = boundary_type(of.dtype, [DYNAMIC if isinstance(n, Expr) else n for n in of.shape])
        if of.dtype.is_complex:  # real and imaginary parts become pairs along a last axis, then complex elements
            return self._cast_at_boundary(self._interleaved(of), type)
        value = self.value(of)
        return value if value.type == type else self._cast_at_boundary(value, type)


def _named(name: str, shape: Sequence[int | str]) -> DictionaryAttr:
    """Return the attributes of an argument or result: its name, and its shape if it has a dynamic size.

    A dynamic size is a str, its name or expression: the shape `["n", 4]` becomes `pyd.shape = ["n", "4"]`.
    """
    attributes: dict[str, Attribute] = {"pyd.name": StringAttr(name)}
    if any(isinstance(n, str) for n in shape):
        attributes["pyd.shape"] = ArrayAttr([StringAttr(str(n)) for n in shape])
    return DictionaryAttr(attributes)
