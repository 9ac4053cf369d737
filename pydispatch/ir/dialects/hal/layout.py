"""Interface of an executable: pipeline layouts and their bindings."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntAttr,
    StringAttr,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from pydispatch.ir.core.syntax import strings

BINDING_TYPES = ("uniform_buffer", "storage_buffer")
"""Kinds of memory that a binding refers to, as in Vulkan: a uniform buffer is small and only read."""
BINDING_FLAGS = ("None", "ReadOnly", "Indirect")
"""Words of the flags of a binding, of which several are joined by `|`; None is no flag."""
LAYOUT_FLAGS = ("None", "Indirect")
"""Words of the flags of a pipeline layout, of which several are joined by `|`; None is no flag."""


def parse_flags(parser: AttrParser, known: Sequence[str]) -> list[str]:
    """Parse flags: `A`, `A|B`, `"A|B"` or nothing; return their names without duplicates.

    The name `None` denotes the empty set and is not returned. A name that is not in `known` is a parse error.
    """
    start, names = parser.pos, []
    text = parser.parse_optional_str_literal()
    if text is not None:
        names = [t.strip() for t in text.split("|")]
    else:
        while (name := parser.parse_optional_identifier()) is not None:
            names.append(name)
            if parser.parse_optional_punctuation("|") is None:
                break
    for name in names:
        if name not in known:
            parser.raise_error(f"unknown flag '{name}', expected one of {', '.join(known)}", start, parser.pos)
    return [n for n in dict.fromkeys(names) if n != "None"]


def print_flags(printer: Printer, flags: ArrayAttr[StringAttr]) -> None:
    """Print one flag as `A`, several as `"A|B"`."""
    text = "|".join(f.data for f in flags)
    printer.print_string(f'"{text}"' if len(flags) > 1 else text)


@irdl_attr_definition
class PipelineBindingAttr(ParametrizedAttribute):
    """Binding of a layout, `#hal.pipeline.binding<storage_buffer, "ReadOnly|Indirect">`.

    Attributes:
        type: "storage_buffer" or "uniform_buffer".
        flags: Words of `BINDING_FLAGS`, such as "ReadOnly"; empty for the flag None.
    """

    name = "hal.pipeline.binding"
    type: StringAttr
    flags: ArrayAttr[StringAttr]

    @property
    def read_only(self) -> bool:
        """Whether kernels only read the binding."""
        return any(f.data == "ReadOnly" for f in self.flags)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parse `<type, flags>`."""
        with parser.in_angle_brackets():
            return cls._parse_body(parser)

    @staticmethod
    def _parse_body(parser: AttrParser) -> list[Attribute]:
        """Parse the type of a binding and its optional flags, `storage_buffer, ReadOnly`, without angle brackets."""
        start = parser.pos
        type = parser.parse_identifier(context_msg=" for the type of a binding")
        if type not in BINDING_TYPES:
            parser.raise_error(
                f"unknown binding type '{type}', expected {' or '.join(BINDING_TYPES)}", start, parser.pos
            )
        flags = parse_flags(parser, BINDING_FLAGS) if parser.parse_optional_punctuation(",") is not None else []
        return [StringAttr(type), strings(flags)]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<type, flags>`."""
        with printer.in_angle_brackets():
            printer.print_string(self.type.data)
            if self.flags.data:
                printer.print_string(", ")
                print_flags(printer, self.flags)


@irdl_attr_definition
class PipelineLayoutAttr(ParametrizedAttribute):
    """Pipeline layout: the constants and bindings that a dispatch passes to a kernel.

    Two forms of a layout with one constant and one binding. The first is printed. The second is that of IREE releases
    up to 2024, and is parsed if its only set is set 0:

        #hal.pipeline.layout<constants = 1, bindings = [#hal.pipeline.binding<storage_buffer, ReadOnly>]>
        #hal.pipeline.layout<push_constants = 1, sets = [<0, bindings = [<0, storage_buffer, ReadOnly>]>]>

    Attributes:
        constants: Number of 32-bit push constants; 0 if the text omits it.
        bindings: The bindings; the index of a binding is its ordinal.
        flags: Words of `LAYOUT_FLAGS` without None.
    """

    name = "hal.pipeline.layout"
    constants: IntAttr
    bindings: ArrayAttr[PipelineBindingAttr]
    flags: ArrayAttr[StringAttr]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parse `<constants = n, bindings = [...], flags = ...>` in any order; all of them may be omitted.

        `constants` is the number of push constants, `bindings` the buffers, each with its type and flags. Older
        releases write `push_constants` and, for the bindings of each descriptor set, `sets`. A key that is stated twice
        has the last value.
        """
        constants = 0
        bindings: list[PipelineBindingAttr] = []
        flags: list[str] = []
        with parser.in_angle_brackets():
            while parser._current_token.text != ">":
                start = parser.pos
                key = parser.parse_identifier(context_msg=" in a pipeline layout")
                parser.parse_punctuation("=", f" after '{key}'")
                if key in ("constants", "push_constants"):
                    constants = parser.parse_integer(allow_negative=False, allow_boolean=False)
                elif key == "bindings":
                    bindings = parser.parse_comma_separated_list(
                        parser.Delimiter.SQUARE, lambda: _parse_binding(parser)
                    )
                elif key == "sets":
                    bindings = _parse_sets(parser)
                elif key == "flags":
                    flags = parse_flags(parser, LAYOUT_FLAGS)
                else:
                    known = "constants, bindings or flags"
                    parser.raise_error(f"unknown key '{key}', expected {known}", start, start + len(key))
                if parser.parse_optional_punctuation(",") is None:
                    break
        return [IntAttr(constants), ArrayAttr(bindings), strings(flags)]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<constants = n, bindings = [...], flags = ...>`, without 0 constants and without empty flags."""
        with printer.in_angle_brackets():
            if self.constants.data:
                printer.print_string(f"constants = {self.constants.data}, ")
            printer.print_string("bindings = ")
            printer.print_attribute(self.bindings)
            if self.flags.data:
                printer.print_string(", flags = ")
                print_flags(printer, self.flags)


def _parse_binding(parser: AttrParser) -> PipelineBindingAttr:
    """Parse one binding of a layout, `#hal.pipeline.binding<...>` or only `<...>`."""
    if parser._current_token.text == "<":
        with parser.in_angle_brackets():
            return PipelineBindingAttr(*PipelineBindingAttr._parse_body(parser))  # type: ignore[arg-type]
    start = parser.pos
    attr = parser.parse_attribute()
    if not isinstance(attr, PipelineBindingAttr):
        parser.raise_error("expected a #hal.pipeline.binding", start, parser.pos)
    return attr


def _parse_sets(parser: AttrParser) -> list[PipelineBindingAttr]:
    """Parse `[<0, bindings = [<0, storage_buffer, ReadOnly>, ...]>]`, the syntax of older releases.

    Returns the bindings by ordinal; the ordinals in the text are 0, 1, 2, ... in any order.
    """
    bindings: dict[int, PipelineBindingAttr] = {}
    start = parser.pos
    parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _parse_set(parser, bindings))
    if sorted(bindings) != list(range(len(bindings))):
        parser.raise_error(f"bindings are numbered {sorted(bindings)}, expected 0 to {len(bindings) - 1} without a gap",
                      start, parser.pos)  # fmt: skip
    return [bindings[i] for i in range(len(bindings))]


def _parse_set(parser: AttrParser, bindings: dict[int, PipelineBindingAttr]) -> None:
    """Parse `<index, bindings = [...]>` of a descriptor set, which must be 0, and add its bindings by ordinal."""
    _skip_attribute_name(parser)
    with parser.in_angle_brackets():
        start = parser.pos
        index = parser.parse_integer(allow_negative=False, allow_boolean=False)
        if index != 0:
            parser.raise_error(
                f"descriptor set {index} cannot be used, there is one set: move its bindings into set 0, "
                "numbered on from the last one there", start, parser.pos)  # fmt: skip
        while parser.parse_optional_punctuation(",") is not None:
            key = parser.parse_identifier(context_msg=" in a descriptor set")
            parser.parse_punctuation("=", f" after '{key}'")
            if key == "bindings":
                parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, lambda: _parse_numbered_binding(parser, bindings)
                )
            else:
                parse_flags(parser, LAYOUT_FLAGS)  # flags of a set have no meaning here


def _parse_numbered_binding(parser: AttrParser, bindings: dict[int, PipelineBindingAttr]) -> None:
    """Parse `<ordinal, type, flags>` of a binding, and add it by its ordinal, which may occur once."""
    _skip_attribute_name(parser)
    with parser.in_angle_brackets():
        start = parser.pos
        ordinal = parser.parse_integer(allow_negative=False, allow_boolean=False)
        if ordinal in bindings:
            parser.raise_error(f"binding {ordinal} is given twice", start, parser.pos)
        parser.parse_punctuation(",", " after the ordinal of a binding")
        bindings[ordinal] = PipelineBindingAttr(*PipelineBindingAttr._parse_body(parser))  # type: ignore[arg-type]


def _skip_attribute_name(parser: AttrParser) -> None:
    """Skip the optional name of an attribute, such as `#hal.descriptor_set.binding` before `<...>`."""
    if parser._current_token.text.startswith("#"):
        parser._consume_token()


@irdl_attr_definition
class InterfaceBindingAttr(ParametrizedAttribute):
    """Reference to a binding by its ordinal in the layout, `#hal.interface.binding<ordinal>`.

    The form `<0, ordinal>` of older releases, with the descriptor set 0, is parsed as well.
    """

    name = "hal.interface.binding"
    ordinal: IntAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parse `<binding>`, or `<set, binding>` with set 0."""
        with parser.in_angle_brackets():
            start = parser.pos
            set_or_ordinal = parser.parse_integer(allow_negative=False, allow_boolean=False)
            is_set = parser.parse_optional_punctuation(",") is not None
            if not is_set:
                return [IntAttr(set_or_ordinal)]
            if set_or_ordinal != 0:
                parser.raise_error(
                    f"descriptor set {set_or_ordinal} cannot be used, there is one set: write set 0", start, parser.pos
                )
            return [IntAttr(parser.parse_integer(allow_negative=False, allow_boolean=False))]

    def print_parameters(self, printer: Printer) -> None:
        """Print the ordinal of the binding as `<ordinal>`."""
        printer.print_string(f"<{self.ordinal.data}>")


ATTRIBUTES: list[type[Attribute]] = [PipelineBindingAttr, PipelineLayoutAttr, InterfaceBindingAttr]
