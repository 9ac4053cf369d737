"""Host regions that query the device: conditions on variants, and executable constants."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    i1,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttrDictDirective,
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    RegionVariable,
    TypeDirective,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure

from pydispatch.ir.core import syntax
from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive
from pydispatch.ir.dialects.hal.device import DeviceType
from pydispatch.ir.dialects.hal.region import check_region


@op_definition
class ExecutableConditionOp(IRDLOperation):
    """Host region of a variant that maps the device to an i1: whether the device may use the variant."""

    name = "hal.executable.condition"
    body = region_def()
    traits = traits_def(IsolatedFromAbove())
    assembly_format = "custom<Condition>($body) attr-dict-with-keyword"

    def verify_(self) -> None:
        """Raise VerifyException unless the region maps the device to an i1."""
        check_region(self.body, [i1], "condition", has_device_argument=True, has_workload=False)


@directive
class KeyedRegion(CustomDirective):
    """Directive for a region that runs on the host and has named results, that of `hal.executable.constant.block`.

    Its syntax is `(%device: !hal.device) -> (i32, i64) as ("a", "b") attributes {...} {...}`. The argument is optional.
    A single result may be without parentheses: `() -> i32 as "c" {...}`.

    Attributes:
        keys: Names of the results, in order.
        function_type: Types of the arguments and results.
        attributes: The attribute dictionary of the operation.
        body: The region.
    """

    keys: AttributeVariable
    function_type: AttributeVariable
    attributes: AttrDictDirective
    body: RegionVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `(%device: !hal.device) -> (types) as ("keys") attributes {...} {body}`: a region that the host runs,
        whose results have the keys as names. Raise a parse error unless there is a key for each type.
        """
        start = parser.pos
        arguments = syntax.parse_signature_args(parser)
        parser.parse_punctuation("->", " after the arguments of a constant block")
        types = syntax.parse_types(parser)
        parser.parse_keyword("as")
        if parser._current_token.text == "(":  # else a single name
            names = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_str_literal)
        else:
            names = [parser.parse_str_literal()]
        if len(names) != len(types):
            message = f"the block gives {len(types)} value(s), but {len(names)} key(s)"
            parser.raise_error(message, start, parser.pos)
        self.keys.set(state, syntax.strings(names))
        self.function_type.set(state, FunctionType.from_lists([a.type for a in arguments], types))
        self.attributes.parse(parser, state)
        self.body.set(state, parser.parse_region(arguments))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `(%device: !hal.device) -> (types) as ("keys") attributes {...} {body}`."""
        body, keys, type = self.body.get(op), self.keys.get(op), self.function_type.get(op)
        assert isinstance(keys, ArrayAttr) and isinstance(type, FunctionType)
        with printer.in_parens():
            printer.print_list(body.block.args, printer.print_block_argument)
        for word, items in ((" -> ", type.outputs), (" as ", keys)):
            printer.print_string(word)
            with printer.in_parens():
                printer.print_list(items, printer.print_attribute)
        self.attributes.print(printer, state, op)
        printer.print_string(" ")
        printer.print_region(body, print_entry_block_args=False)


@directive
class Default(CustomDirective):
    """Directive for the type T of a value and an optional default: `T`, or `T = value`, as in `i32 = 4`."""

    type: TypeDirective
    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse a type with an optional default value, `i32 = 4`."""
        type = parser.parse_type()
        self.type.set(state, (type,))
        if parser.parse_optional_punctuation("=") is None:
            return
        start = parser.pos
        if not isinstance(type, IntegerType | IndexType):
            self.value.set(state, parser.parse_attribute())
            return
        integer = parser.parse_optional_integer()
        if integer is None:  # such as an alias
            value = parser.parse_attribute()
            value_type = value.type if isinstance(value, IntegerAttr) else type
        else:  # a literal, `4` or `4 : i32`
            value_type = type if parser.parse_optional_punctuation(":") is None else parser.parse_type()
        if value_type != type:
            parser.raise_error(f"the default is of type {value_type}, expected {type}", start, parser.pos)
        self.value.set(state, value if integer is None else IntegerAttr(integer, type))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the type and the default."""
        self.type.print(printer, state, op)
        if self.value.is_present(op):
            printer.print_string(" =")
            self.value.print(printer, state, op)


@op_definition
class ExecutableConstantBlockOp(IRDLOperation):
    """Region of a variant that the host runs when the program is loaded; it computes executable constants.

    An executable constant is a number that the kernels of the variant read by its name, with
    `hal.executable.constant.load "a" : i32`. This block computes the constants "a" and "b":

        hal.executable.constant.block(%device: !hal.device) -> (i32, i64) as ("a", "b") {
          ...
          hal.return %x, %y : i32, i64
        }

    Attributes:
        keys: Name of each constant.
        function_type: Type of the region: its argument is the device, or it has none; its results are the constants.
        body: The region.
    """

    name = "hal.executable.constant.block"
    keys = prop_def(ArrayAttr[StringAttr])
    function_type = prop_def(FunctionType)
    body = region_def()
    traits = traits_def(IsolatedFromAbove())
    custom_directives = (KeyedRegion,)
    assembly_format = "custom<KeyedRegion>($keys, $function_type, attr-dict-with-keyword, $body)"

    def verify_(self) -> None:
        """Raise VerifyException unless the region maps the device to the values that the type lists."""
        results = self.function_type.outputs.data
        check_region(self.body, results, "constant", has_device_argument=True, has_workload=False)


@op_definition
class ExecutableConstantLoadOp(IRDLOperation):
    """Load of the executable constant named `key` in a kernel; an `ExecutableConstantBlockOp` computes it."""

    name = "hal.executable.constant.load"
    key = prop_def(StringAttr)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$key attr-dict `:` type($result)"


@op_definition
class DeviceQueryOp(IRDLOperation):
    """Query of a property of the device, which is named by a category and a key.

    `%ok, %value = hal.device.query<%device : !hal.device> key("hal.cpu" :: "avx2") : i1, i1 = false` queries whether
    the CPU has AVX2.

    Attributes:
        device: The device that is queried.
        category: Group of keys, such as "hal.cpu".
        key: Name of the property in the category.
        default_value: Constant for `value` if the device does not know the key; 0 if the text omits it.
        ok: Whether the device knows the key.
        value: Value of the property, or else the default.
    """

    name = "hal.device.query"
    device = operand_def(DeviceType)
    category = prop_def(StringAttr)
    key = prop_def(StringAttr)
    default_value = opt_prop_def(Attribute)
    ok = result_def(i1)
    value = result_def()
    traits = traits_def(Pure())
    custom_directives = (Default,)
    assembly_format = (
        "`<` $device `:` type($device) `>` `key` `` `(` $category `:` `` `:` $key `)` attr-dict `:` type($ok) `,` "
        "custom<Default>(type($value), $default_value)"
    )


@op_definition
class ReturnOp(IRDLOperation):
    """Terminator of a host region in the `hal` dialect."""

    name = "hal.return"
    arguments = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"


OPERATIONS: list[type[Operation]] = [
    ExecutableConditionOp, ExecutableConstantBlockOp, ExecutableConstantLoadOp, DeviceQueryOp, ReturnOp,
]  # fmt: skip
