"""Operations with a region that combines elements: reductions, windows, sorts."""

from __future__ import annotations

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, DenseIntOrFPElementsAttr, IntegerAttr, TensorType, i64
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import (
    IRDLOperation,
    SameVariadicOperandSize,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure

from pydispatch.ir.core.syntax import parse_signature_args
from pydispatch.ir.dialects.stablehlo.attributes import integers
from pydispatch.ir.dialects.stablehlo.clauses import NUMBERS, Properties
from pydispatch.ir.dialects.stablehlo.control import ReturnOp
from pydispatch.ir.dialects.stablehlo.records import parse_integers, print_value
from pydispatch.ir.dialects.stablehlo.syntax import (
    FUNCTIONAL,
    Types,
    make,
    operation,
    parse_attributes,
    parse_equals,
    print_attributes,
)


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Reduction: `reduce(%a init: %c), ... across dimensions = [1] : (T, U) -> V reducer(%x: W, %y: W) {...}`.

    The operands are all inputs, then one initial value for each input. The region takes two elements of each input and
    returns their combinations; a region of one operation is abbreviated as `applies stablehlo.add` before `across`.
    """

    name = "stablehlo.reduce"
    inputs = var_operand_def()
    init_values = var_operand_def()
    dimensions = prop_def(NUMBERS)
    result = var_result_def()
    body = region_def()
    irdl_options = (SameVariadicOperandSize(),)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ReduceOp:
        """Parse `(%x init: %initial), ... applies op across dimensions = [...] : signature`; or, instead of `applies`,
        a region after the signature: `reducer(%a: tensor<f32>, %b: tensor<f32>) {...}`, with a pair for each input.
        """
        inputs: list[UnresolvedOperand] = []
        initial: list[UnresolvedOperand] = []
        while not inputs or parser.parse_optional_punctuation(",") is not None:
            parser.parse_punctuation("(")
            inputs.append(parser.parse_unresolved_operand())
            parser.parse_keyword("init")
            parser.parse_punctuation(":")
            initial.append(parser.parse_unresolved_operand())
            parser.parse_punctuation(")")
        combiner = _parse_combiner(parser) if parser.parse_optional_keyword("applies") is not None else None
        parser.parse_keyword("across")
        parse_equals(parser, "dimensions")
        properties: Properties = {"dimensions": DenseArrayBase.from_list(i64, parse_integers(parser))}
        attributes = parse_attributes(parser, cls, properties)
        parser.parse_punctuation(":")
        types = FUNCTIONAL.parse(parser, 2 * len(inputs))  # of the inputs, then of the initial values
        # The body: the region in the text, or one with the single operation that `applies` names.
        body = _parse_reducer(parser) if combiner is None else _combiner_region(parser, combiner, types)
        return make(cls, parser, [*inputs, *initial], types, properties, attributes, [body])

    def print(self, printer: Printer) -> None:
        """Print `(%x init: %initial), ... applies op across dimensions = [...] : signature`.

        Unless the body is one operation, print a region `reducer` at the end instead of `applies op`.
        """
        pairs = list(zip(self.inputs, self.init_values, strict=True))

        def print_pair(values: tuple[object, object]) -> None:
            """Print `(%x init: %initial)`."""
            with printer.in_parens():
                printer.print_ssa_value(values[0])  # type: ignore[arg-type]
                printer.print_string(" init: ")
                printer.print_ssa_value(values[1])  # type: ignore[arg-type]

        printer.print_list(pairs, print_pair)
        combiner = self._combiner()  # the single operation of the body; None for a body that needs a region
        printer.print_string(f" applies {combiner.name}" if combiner else "")
        printer.print_string(" across dimensions = ")
        print_value(printer, integers(self.dimensions))
        print_attributes(printer, self, ("dimensions",))
        printer.print_string(" : ")
        FUNCTIONAL.print(printer, self)
        if combiner is None:
            _print_reducer(printer, self.body.blocks[0])

    def _combiner(self) -> Operation | None:
        """Return the operation whose name `applies` can state instead of the region; None if the region needs more.

        Such a region applies one operation without attributes to its two arguments, and returns the result. The
        arguments have the element type of the first input: `_combiner_region` creates them so.
        """
        block = self.body.blocks.first
        if block is None or len(self.inputs) != 1 or len(block.args) != 2 or len(block.ops) != 2:
            return None
        op, terminator = block.ops
        if len(op.results) != 1:
            return None
        is_bare = not op.attributes and not op.properties and not op.regions
        input_type = self.inputs[0].type
        scalar = TensorType(input_type.element_type, ()) if isinstance(input_type, TensorType) else None
        has_one_type = {*block.arg_types, *op.result_types} == {scalar}
        is_direct = tuple(op.operands) == tuple(block.args) and tuple(terminator.operands) == tuple(op.results)
        return op if is_bare and has_one_type and is_direct else None


def _parse_combiner(parser: Parser) -> type[Operation]:
    """Parse the name of the operation after `applies`, and return the class of the operation."""
    start = parser.pos
    name = parser.parse_identifier()
    op_type = parser.ctx.get_optional_op(name)
    if op_type is None or not name.startswith(("stablehlo.", "chlo.")):
        parser.raise_error(f"'{name}' is not an operation of stablehlo", start, start + len(name))
    return op_type


def _combiner_region(parser: Parser, combiner: type[Operation], types: Types) -> Region:
    """Return the region that `applies stablehlo.add` abbreviates: one operation on two scalar tensors with the element
    type of the first input.

    `combiner` is the class of that operation, `types` has the types of the reduction's operands and results. Raise a
    ParseError at the current position of `parser` if the first operand is not a tensor.
    """
    first = types.operands[0] if types.operands else None
    if not isinstance(first, TensorType):
        parser.raise_error("a reduction is of tensors")
    scalar = TensorType(first.element_type, ())
    block = Block(arg_types=(scalar, scalar))
    op = combiner.create(operands=block.args, result_types=[scalar])
    block.add_ops((op, ReturnOp.create(operands=op.results)))
    return Region(block)


def _parse_reducer(parser: Parser) -> Region:
    """Parse `reducer(%x: T, %y: T) (%i: U, %j: U) {...}`, with a pair of block arguments for each input.

    The block has the first arguments of all pairs before the second ones: %x, %i, %y, %j.
    """
    parser.parse_keyword("reducer")
    pairs = []
    while parser._current_token.text == "(":
        start = parser.pos
        pair = parse_signature_args(parser)
        if len(pair) != 2:
            parser.raise_error("each input has two arguments", start, parser.pos)
        pairs.append(pair)
    return parser.parse_region([*(first for first, _ in pairs), *(second for _, second in pairs)])


def _print_reducer(printer: Printer, block: Block) -> None:
    """Print `reducer(%x: T, %y: T) (%i: U, %j: U) {...}` for a block with the arguments %x, %i, %y, %j."""
    half = len(block.args) // 2
    printer.print_string("\n  reducer")
    for n, pair in enumerate(zip(block.args[:half], block.args[half:], strict=True)):
        printer.print_string(" " if n else "")
        with printer.in_parens():
            printer.print_list(pair, printer.print_block_argument)
    printer.print_string(" ")
    assert block.parent is not None
    printer.print_region(block.parent, print_entry_block_args=False)


_WINDOW = {"window_strides": NUMBERS, "base_dilations": NUMBERS, "window_dilations": NUMBERS,
           "padding": DenseIntOrFPElementsAttr}  # fmt: skip
"""Optional properties of windows; by default strides and dilations are 1, and nothing is padded."""

OPERATIONS: list[type[Operation]] = [
    ReduceOp,
    operation(
        "stablehlo.reduce_window", "inputs* init_values*", "result*", regions="body", base=IRDLOperation,
        optional=_WINDOW, required={"window_dimensions": NUMBERS},
    ),
    operation(
        "stablehlo.select_and_scatter", "operand source init_value", regions="select scatter", base=IRDLOperation,
        optional={**_WINDOW, "window_dimensions": NUMBERS},
    ),
    operation(
        "stablehlo.sort", "inputs*", "result*", regions="comparator", base=IRDLOperation,
        optional={"dimension": IntegerAttr, "is_stable": BoolAttr},
    ),
]  # fmt: skip
"""Operations of this module. `operation` takes the names of the operands and results, by default "operand" and
"result"; `*` marks variadic ones. Those with the base `IRDLOperation` have only the generic form, `"name"(...)`."""
