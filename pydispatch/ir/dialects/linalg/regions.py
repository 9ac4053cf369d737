"""`linalg` operations with a body of their own: `generic`, `map` and `reduce`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    ShapedType,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.dialects.linalg import ops
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    IRDLOperation,
    SameVariadicOperandSize,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttrDictDirective,
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    RegionVariable,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind

from pydispatch.ir.core import syntax
from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive, parsed_types, request_space
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.core.refine import refine
from pydispatch.ir.dialects.linalg.base import (
    ImpliedTypes,
    Numbers,
    ResultTypes,
    Sides,
    TrailingAttributes,
    check_results,
    operand_names,
)
from pydispatch.ir.dialects.linalg.payloads import parse_payload, payload_body
from pydispatch.ir.dialects.linalg.structure import Structure, check_sizes, elementwise_structure, shape_of


@directive
class Trait(CustomDirective):
    """Directive for `{indexing_maps = [...], iterator_types = ["parallel"], ...}`, or an alias of such a dictionary.

    The fields are properties of the operation; entries with other names than theirs become its attributes.
    """

    maps: AttributeVariable  # entry `indexing_maps`
    iterators: AttributeVariable  # entry `iterator_types`
    doc: AttributeVariable  # optional text; has no effect
    library_call: AttributeVariable  # optional name of an external function; has no effect

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the dictionary of a generic, in place or as an alias: maps, iterator types and other attributes."""
        start = parser.pos
        if parser._current_token.kind is MLIRTokenKind.HASH_IDENT:  # an alias, `#trait`
            attributes = dict(getattr(parser.parse_attribute(), "data", {}))
        else:
            attributes = parser.parse_optional_attr_dict()
        end = parser.pos
        # Entries with the names of properties set these; the maps and iterator types are required. The others become
        # attributes of the operation.
        maps, kinds = attributes.pop("indexing_maps", None), attributes.pop("iterator_types", None)
        if not isinstance(maps, ArrayAttr) or not all(isinstance(m, AffineMapAttr) for m in maps):
            parser.raise_error("linalg.generic needs indexing_maps = [affine_map<…>, …]", start, end)
        if not isinstance(kinds, ArrayAttr):
            parser.raise_error('linalg.generic needs iterator_types = ["parallel", …]', start, end)
        self.maps.set(state, maps)
        self.iterators.set(state, ArrayAttr([_iterator(parser, kind, start, end) for kind in kinds]))
        for variable in (self.doc, self.library_call):
            if isinstance(value := attributes.pop(variable.name, None), StringAttr):
                variable.set(state, value)
        state.attributes.update(attributes)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the maps, the iterator types, `doc` and `library_call` as one dictionary."""
        assert isinstance(op, ops.GenericOp)
        iterators = ArrayAttr([StringAttr(i.data.value) for i in op.iterator_types])
        attributes: dict[str, Attribute] = {"indexing_maps": op.indexing_maps, "iterator_types": iterators}
        attributes |= {v.name: op.properties[v.name] for v in (self.doc, self.library_call) if v.is_present(op)}
        printer.print_op_attributes(attributes)
        request_space(state)


@directive
class OtherAttributes(TrailingAttributes):
    """Directive for `attrs = {...}`: attributes besides those in the leading dictionary of a `linalg.generic`.

    The base class prints nothing; but `Trait` prints only properties in the leading dictionary, so the attributes are
    printed here. The inherited field `attributes` prints `{...}`.
    """

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `attrs = {...}`, or nothing without attributes."""
        if op.attributes:
            printer.print_string(" attrs =")
            self.attributes.print(printer, state, op)


def _iterator(parser: Parser, kind: Attribute, start: int, end: int) -> IteratorTypeAttr:
    """Return an iterator type, a string or an attribute, as the attribute; raise a parse error at [start, end) for any
    but "parallel" and "reduction"."""
    if isinstance(kind, StringAttr) and kind.data in ("parallel", "reduction"):
        return IteratorTypeAttr(IteratorType(kind.data))
    if not isinstance(kind, IteratorTypeAttr) or kind.data == IteratorType.WINDOW:
        parser.raise_error(f'expected the iterator types "parallel" and "reduction", got {kind}', start, end)
    return kind


def _verify_generic(op: ops.GenericOp) -> None:
    """Verify the maps, the sizes and the body of a linalg.generic."""
    check_results(op.outputs, [r.type for r in op.res])
    names = operand_names(len(op.inputs), len(op.outputs))
    maps = [m.data for m in op.indexing_maps]
    iterators = list(op.iterator_types)
    check_sizes([v.type for v in op.operands], maps, len(iterators), names)
    for map in maps[len(op.inputs) :]:  # maps of the outputs
        if any(iterators[d].data != IteratorType.PARALLEL for d in map.used_dims()):
            raise VerifyException(f"an output is reached by a reduction: {map}")
    check_body(op.body, [v.type for v in op.operands], [o.type for o in op.outputs])


def check_body(region: Region, arguments: Sequence[Attribute], results: Sequence[Attribute]) -> None:
    """Check that the body takes one element per operand and yields one element per result.

    Args:
        region: The body.
        arguments: Types of the operands: tensors, or scalars, which are their own element.
        results: Types of the outputs.

    Raises VerifyException.
    """
    if len(region.blocks) != 1:
        raise VerifyException("the body has one block")
    block = region.block
    wanted = [element_type(t) for t in arguments]
    got = [a.type for a in block.args]
    if got != wanted:
        raise VerifyException(f"the body takes ({_types(got)}), expected the elements ({_types(wanted)})")
    last = block.last_op
    if not isinstance(last, ops.YieldOp):
        raise VerifyException("the body ends with linalg.yield")
    yields, expected = [o.type for o in last.operands], [element_type(t) for t in results]
    if yields != expected:
        raise VerifyException(f"the body yields ({_types(yields)}), expected ({_types(expected)})")


def _types(types: Sequence[Attribute]) -> str:
    """Return types as messages print them, separated by commas."""
    return ", ".join(map(str, types))


@directive
class MapForm(CustomDirective):
    """Directive for a structured operation with a body, `ins(...) outs(...) {...} (%a: f32) { body }`.

    A body of one operation may be abbreviated: `{ arith.addf } ins(...) outs(...)`.

    Attributes:
        sides: Directive of the operands, `ins(...) outs(...)`.
        attributes: Directive of the attributes in braces.
        body: Receives the body as a region, also for the abbreviation.
        results: Directive of the result types, which are those of the outputs.
    """

    sides: Sides
    attributes: AttrDictDirective
    body: RegionVariable
    results: ResultTypes

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse operands, options and the body: a region, or the name of one operation in braces before the operands.

        Both texts have the same meaning, and the second gets the region of the first:

            ins(%x : tensor<4xf32>) outs(%y : tensor<4xf32>) (%a: f32) { %0 = math.exp %a : f32 linalg.yield %0 : f32 }
            { math.exp } ins(%x : tensor<4xf32>) outs(%y : tensor<4xf32>)
        """
        payload = parse_payload(parser)
        start = parser.pos
        self.sides.parse(parser, state)
        inputs = list(parsed_types(self.sides.input_types, state))
        outputs = list(parsed_types(self.sides.output_types, state))
        self.parse_options(parser, state, outputs, start)
        # Braces before the arguments of a region, or after the operands of the abbreviation, are attributes.
        if payload is not None or parser._current_token.text == "{":
            self.attributes.parse(parser, state)
        # The abbreviation. Its result has the element type of the first output: without outputs, a region is required.
        if payload is not None and outputs:
            # The tensors whose elements the body takes, and the order in which these are operands of its operation.
            argument_types, operand_order = self.short_body_arguments(inputs, outputs)
            body = payload_body(payload, argument_types, operand_order, outputs[0])
        elif parser._current_token.text != "(":
            body = parser.parse_region()  # a region without arguments before its braces
        else:
            body = parser.parse_region(syntax.parse_signature_args(parser))
        self.body.set(state, body)
        self.results.parse(parser, state)

    def parse_options(self, parser: Parser, state: ParsingState, outputs: list[Attribute], start: int) -> None:
        """Parse the options between operands and attributes; linalg.map has none, so this only checks that it has
        one output.

        `outputs` are the types of the outputs. `start` is the position before the operands, for the error message.
        """
        if len(outputs) != 1:
            parser.raise_error(f"linalg.map has one output, got {len(outputs)}", start, parser.pos)

    def short_body_arguments(
        self, inputs: list[Attribute], outputs: list[Attribute]
    ) -> tuple[list[Attribute], list[int]]:
        """Return the arguments of an abbreviated body, from the types of the inputs and outputs, as a pair.

        The pair consists of the types of the tensors whose elements the body takes, and of the index of the argument
        for each operand of the body's operation. In linalg.map, `{ arith.subf }` with two inputs takes an element of
        each, and has the operands [0, 1].
        """
        return inputs, list(range(len(inputs)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print operands, options, attributes and the body as a region."""
        self.sides.print(printer, state, op)
        self.print_options(printer, state, op)
        self.attributes.print(printer, state, op)
        printer.print_string(" ")
        syntax.print_region_signature(printer, self.body.get(op), results=None)  # the arguments, without `-> (...)`

    def print_options(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the options between operands and attributes: none for linalg.map; ReduceForm overrides this method."""


@directive
class ReduceForm(MapForm):
    """Directive for the syntax of MapForm with the reduced dimensions, `ins(...) outs(...) dimensions = [1] ...`."""

    dimensions: Numbers

    def parse_options(self, parser: Parser, state: ParsingState, outputs: list[Attribute], start: int) -> None:
        """Parse `dimensions = [1]`.

        `outputs` and `start` are unused: MapForm checks with them that there is one output, but linalg.reduce may have
        several.
        """
        parser.parse_keyword("dimensions")
        parser.parse_punctuation("=")
        self.dimensions.parse(parser, state)

    def short_body_arguments(
        self, inputs: list[Attribute], outputs: list[Attribute]
    ) -> tuple[list[Attribute], list[int]]:
        """Return the types of the tensors whose elements an abbreviated body takes, and the index of the argument for
        each operand of the body's operation.

        `{ arith.subf }` with one input stands for `arith.subf %out, %in` in a body with the arguments (%in, %out): the
        operands are [1, 0].
        """
        types = [*inputs, *outputs]
        output_index = len(types) - 1
        return types, [output_index, *range(output_index)]  # the output is the first operand, as in MLIR

    def print_options(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `dimensions = [1]`."""
        printer.print_string(" dimensions =")
        self.dimensions.print(printer, state, op)


@op_definition
class MapOp(IRDLOperation):
    """Elementwise application of a body, which takes the elements of the inputs and optionally of the output."""

    name = "linalg.map"
    inputs = var_operand_def()
    init = operand_def(ShapedType)
    body = region_def("single_block")
    res = var_result_def(TensorType)
    custom_directives = (ImpliedTypes, MapForm, Sides)
    assembly_format = (
        "custom<MapForm>(custom<Sides>($inputs, type($inputs), $init, type($init)), attr-dict, $body, "
        "custom<ImpliedTypes>(type($res), ref(type($init))))"
    )

    @property
    def outputs(self) -> Sequence[SSAValue]:
        """Return the one output."""
        return (self.init,)

    def structure(self) -> Structure:
        """Return one parallel loop per dimension of the output, and identity maps."""
        return elementwise_structure(len(shape_of(self.outputs[0].type)), len(self.operands))

    def verify_(self) -> None:
        """Check results, sizes and the body, which takes an element of each input and, optionally, of the output."""
        check_results(self.outputs, [r.type for r in self.res])
        structure = self.structure()
        names = operand_names(len(self.inputs), 1)
        check_sizes([v.type for v in self.operands], structure.maps, structure.loop_count, names)
        takes_output = len(self.body.block.args) > len(self.inputs)
        types = [v.type for v in (self.operands if takes_output else self.inputs)]
        check_body(self.body, types, [self.outputs[0].type])


@op_definition
class ReduceOp(IRDLOperation):
    """Reduction over `dimensions` with a body that takes an element of each input, then of each output, and yields the
    new element of each output.

    `dimensions` lists the reduced dimensions of the inputs in ascending order. The outputs have the dimensions that are
    not reduced, and hold the initial values.
    """

    name = "linalg.reduce"
    inputs = var_operand_def()
    outputs = var_operand_def(ShapedType)
    body = region_def("single_block")
    res = var_result_def(TensorType)
    dimensions = prop_def(DenseArrayBase)
    irdl_options = (SameVariadicOperandSize(),)
    custom_directives = (ImpliedTypes, Numbers, ReduceForm, Sides)
    assembly_format = (
        "custom<ReduceForm>(custom<Sides>($inputs, type($inputs), $outputs, type($outputs)), attr-dict, $body, "
        "custom<ImpliedTypes>(type($res), ref(type($outputs))), custom<Numbers>($dimensions))"
    )

    def structure(self) -> Structure:
        """Return the loops, one per dimension of the inputs and parallel unless it is reduced, and the maps; raise
        VerifyException if the reduced dimensions are not in ascending order."""
        rank = len(shape_of(self.inputs[0].type))
        reduced = [int(d) for d in self.dimensions.get_values()]
        if reduced != sorted(set(reduced)) or any(not 0 <= d < rank for d in reduced):
            raise VerifyException(f"the dimensions {reduced} do not rise from 0 to at most {rank - 1}")
        parallel = tuple(AffineExpr.dimension(d) for d in range(rank) if d not in reduced)
        maps = (AffineMap.identity(rank),) * len(self.inputs) + (AffineMap(rank, 0, parallel),) * len(self.outputs)
        return Structure(maps, parallel=tuple(d not in reduced for d in range(rank)))

    def verify_(self) -> None:
        """Check results, sizes and the body, which takes an element of each input and output."""
        check_results(self.outputs, [r.type for r in self.res])
        structure = self.structure()
        names = operand_names(len(self.inputs), len(self.outputs))
        types = [v.type for v in self.operands]
        check_sizes(types, structure.maps, structure.loop_count, names)
        check_body(self.body, types, [o.type for o in self.outputs])


refine(
    ops.GenericOp,
    assembly_format=(
        "custom<Trait>($indexing_maps, $iterator_types, $doc, $library_call) "
        "custom<Sides>($inputs, type($inputs), $outputs, type($outputs)) custom<OtherAttributes>(attr-dict) $body "
        "custom<Results>(type($res))"
    ),
    directives=(Trait, Sides, OtherAttributes),
    check=_verify_generic,
)


@op_definition
class IndexOp(IRDLOperation):
    """Index of loop `dim` of the innermost structured operation whose body contains this operation.

    Loop 1 is d1 of the indexing maps: with `(d0, d1) -> (d0, d1)`, `linalg.index 1 : index` is the column of the
    element. Operations with regions, such as `scf.for`, may be between the body and this operation.
    """

    name = "linalg.index"
    dim = prop_def(IntegerAttr.constr(i64))
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$dim attr-dict `:` type($result)"

    def __init__(self, dim: int) -> None:
        """Create the index of loop `dim`, counted from 0 for the outermost."""
        super().__init__(properties={"dim": IntegerAttr(dim, i64)}, result_types=[IndexType()])

    def verify_(self) -> None:
        """Check that the `linalg.generic` around the operation, if it is in one, has a loop with the number `dim`."""
        generic = self.parent_op()
        # Skip operations of other dialects, such as an scf.for in the body.
        while generic is not None and not generic.name.startswith("linalg."):
            generic = generic.parent_op()
        if isinstance(generic, ops.GenericOp) and not 0 <= self.dim.value.data < len(generic.iterator_types):
            raise VerifyException(f"{self.dim.value.data} is not one of the {len(generic.iterator_types)} iteration(s)")


OPERATIONS: list[type[Operation]] = [MapOp, ReduceOp, IndexOp]
