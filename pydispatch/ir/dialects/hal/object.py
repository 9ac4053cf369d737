"""Object files, or sources of them, that users add to an executable."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    StringAttr,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition
from xdsl.irdl.declarative_assembly_format import AttributeVariable, CustomDirective, ParsingState, PrintingState
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from pydispatch.ir.core.directives import for_every_format
from pydispatch.ir.core.syntax import parse_attr_of
from pydispatch.ir.dialects.hal.device import ExecutableTargetAttr


@irdl_attr_definition
class ExecutableObjectAttr(ParametrizedAttribute):
    """Object file or source, by its path or embedded: `#hal.executable.object<{path = "...", data = ...}>`.

    For a source, the entry `defines` lists macros "NAME" or "NAME=VALUE", `include_dirs` the folders of its includes.
    """

    name = "hal.executable.object"
    entries: DictionaryAttr

    @property
    def path(self) -> str | None:
        """Return the path as the program states it; None if the object is embedded."""
        path = self.entries.data.get("path")
        return path.data if isinstance(path, StringAttr) else None

    @property
    def data(self) -> Attribute | None:
        """Return the constant with the bytes of an embedded object; None if there is none."""
        return self.entries.data.get("data")

    def strings(self, key: str) -> tuple[str, ...]:
        """Return the strings in the entry `key`, "defines" or "include_dirs"; () if it is missing."""
        listed = self.entries.data.get(key)
        return tuple(cast(StringAttr, item).data for item in listed.data) if isinstance(listed, ArrayAttr) else ()

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parse `<{path = "...", data = ...}>` and check the types of its entries."""
        with parser.in_angle_brackets():
            start = parser.pos
            entries = parser.parse_attribute()
            if not isinstance(entries, DictionaryAttr):
                parser.raise_error("expected a dictionary with 'path' or 'data'", start, parser.pos)
            if not entries.data.keys() & {"path", "data"}:
                parser.raise_error("an object needs a 'path' or 'data'", start, parser.pos)
            if "path" in entries.data and not isinstance(entries.data["path"], StringAttr):
                parser.raise_error("the path of an object is a string", start, parser.pos)
            for key in ("defines", "include_dirs"):
                listed = entries.data.get(key, ArrayAttr([]))
                if not isinstance(listed, ArrayAttr) or not all(isinstance(item, StringAttr) for item in listed):
                    parser.raise_error(f"the {key} of an object are a list of strings", start, parser.pos)
        return [entries]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<{path = "...", data = ...}>`."""
        with printer.in_angle_brackets():
            printer.print_attribute(self.entries)


@irdl_attr_definition
class ExecutableObjectsAttr(ParametrizedAttribute):
    """Object files by target, `#hal.executable.objects<{#target = [objects], ...}>`.

    `objects[i]` is the list of objects for `targets[i]`.
    """

    name = "hal.executable.objects"
    targets: ArrayAttr[Attribute]
    objects: ArrayAttr[Attribute]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parse `<{target = [objects], ...}>`."""
        targets: list[Attribute] = []
        objects: list[Attribute] = []

        def parse_entry() -> None:
            """Parse `target = [objects]` into `targets` and `objects`."""
            target = parse_attr_of(parser, ExecutableTargetAttr)
            parser.parse_punctuation("=", " after the target of objects")
            targets.append(target)
            objects.append(parse_object_list(parser))

        with parser.in_angle_brackets():
            parser.parse_comma_separated_list(parser.Delimiter.BRACES, parse_entry, " in executable objects")
        return [ArrayAttr(targets), ArrayAttr(objects)]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<{#target = [objects], ...}>`."""

        def print_entry(pair: tuple[Attribute, Attribute]) -> None:
            """Print `#target = [objects]`."""
            target, objects = pair
            printer.print_attribute(target)
            printer.print_string(" = ")
            printer.print_attribute(objects)

        printer.print_string("<{")
        printer.print_list(list(zip(self.targets, self.objects, strict=True)), print_entry)
        printer.print_string("}>")


def parse_object_list(parser: AttrParser) -> ArrayAttr[Attribute]:
    """Parse a list `[#hal.executable.object<...>, ...]`."""
    start = parser.pos
    objects = parser.parse_attribute()
    if not isinstance(objects, ArrayAttr) or not all(isinstance(o, ExecutableObjectAttr) for o in objects):
        parser.raise_error("expected a list of #hal.executable.object attributes", start, parser.pos)
    return objects


@for_every_format
class ObjectList(CustomDirective):
    """Directive for a list `[#hal.executable.object<...>, ...]`."""

    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the list, and set the property to it."""
        self.value.set(state, parse_object_list(parser))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the list."""
        self.value.print(printer, state, op)

    def is_present(self, op: IRDLOperation) -> bool:
        """Return whether `op` has the list, so that its optional group is printed."""
        return self.value.is_present(op)


ATTRIBUTES: list[type[Attribute]] = [ExecutableObjectAttr, ExecutableObjectsAttr]
