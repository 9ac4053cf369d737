"""Attributes and types of the `hal` dialect."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntAttr,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from pydispatch.ir.syntax import EMPTY_DICT, parse_attr_of

BINDING_TYPES = ("uniform_buffer", "storage_buffer")
BINDING_FLAGS = ("None", "ReadOnly", "Indirect")
LAYOUT_FLAGS = ("None", "Indirect")


def parse_flags(p: AttrParser, known: Sequence[str]) -> list[str]:
    """`A`, `A|B`, `"A|B"` or nothing; `None` is the empty set."""
    start, names = p.pos, []
    text = p.parse_optional_str_literal()
    if text is not None:
        names = [t.strip() for t in text.split("|")]
    else:
        while (name := p.parse_optional_identifier()) is not None:
            names.append(name)
            if p.parse_optional_punctuation("|") is None:
                break
    for name in names:
        if name not in known:
            p.raise_error(f"unknown flag '{name}', expected one of {', '.join(known)}", start, p.pos)
    return [n for n in dict.fromkeys(names) if n != "None"]


def _flag_attr(names: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(n) for n in names])


def _print_flags(printer: Printer, flags: ArrayAttr[StringAttr]) -> None:
    text = "|".join(f.data for f in flags)
    printer.print_string(f'"{text}"' if len(flags) > 1 else text)


@irdl_attr_definition
class ExecutableTargetAttr(ParametrizedAttribute):
    """`#hal.executable.target<"backend", "format", {configuration}>`."""

    name = "hal.executable.target"
    backend: StringAttr
    format: StringAttr
    configuration: DictionaryAttr

    @classmethod
    def parse_parameters(cls, p: AttrParser) -> list[Attribute]:
        with p.in_angle_brackets():
            backend = p.parse_str_literal(" for the backend")
            p.parse_punctuation(",", " after the backend")
            format = p.parse_str_literal(" for the format")
            configuration = EMPTY_DICT
            if p.parse_optional_punctuation(",") is not None:
                start = p.pos
                parsed = p.parse_attribute()
                if not isinstance(parsed, DictionaryAttr):
                    p.raise_error("the configuration of a target is a dictionary", start, p.pos)
                configuration = parsed
        return [StringAttr(backend), StringAttr(format), configuration]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.backend)
            printer.print_string(", ")
            printer.print_attribute(self.format)
            if self.configuration.data:
                printer.print_string(", ")
                printer.print_attribute(self.configuration)


@irdl_attr_definition
class DeviceTargetAttr(ParametrizedAttribute):
    """`#hal.device.target<"id", {configuration}, [targets]>`; the list may stand in the dictionary as
    `executable_targets`, as older releases write it."""

    name = "hal.device.target"
    device_id: StringAttr
    configuration: DictionaryAttr
    executable_targets: ArrayAttr[Attribute]

    @classmethod
    def parse_parameters(cls, p: AttrParser) -> list[Attribute]:
        configuration: dict[str, Attribute] = {}
        targets: Attribute = ArrayAttr([])
        with p.in_angle_brackets():
            device_id = p.parse_str_literal(" for the device id")
            while p.parse_optional_punctuation(",") is not None:
                start = p.pos
                parsed = p.parse_attribute()
                if isinstance(parsed, DictionaryAttr):
                    configuration = dict(parsed.data)
                    targets = configuration.pop("executable_targets", targets)
                elif isinstance(parsed, ArrayAttr):
                    targets = parsed
                else:
                    p.raise_error("expected a dictionary or a list of executable targets", start, p.pos)
                if not isinstance(targets, ArrayAttr) or not all(isinstance(t, ExecutableTargetAttr) for t in targets):
                    p.raise_error("executable targets are a list of #hal.executable.target attributes", start, p.pos)
        return [StringAttr(device_id), DictionaryAttr(configuration), targets]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.device_id)
            if self.configuration.data:
                printer.print_string(", ")
                printer.print_attribute(self.configuration)
            if self.executable_targets.data:
                printer.print_string(", ")
                printer.print_attribute(self.executable_targets)
        printer.print_string(" : !hal.device")


@irdl_attr_definition
class DeviceSelectAttr(ParametrizedAttribute):
    """`#hal.device.select<[devices]>`: the first that is available."""

    name = "hal.device.select"
    devices: ArrayAttr[Attribute]

    @classmethod
    def parse_parameters(cls, p: AttrParser) -> list[Attribute]:
        with p.in_angle_brackets():
            start = p.pos
            devices = p.parse_attribute()
            if not isinstance(devices, ArrayAttr):
                p.raise_error("expected a list of devices", start, p.pos)
        return [devices]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.devices)
        printer.print_string(" : !hal.device")


@irdl_attr_definition
class DeviceAliasAttr(ParametrizedAttribute):
    """`#hal.device.alias<"id"[ordinal], {configuration}>`: a target by the name of its device."""

    name = "hal.device.alias"
    device_id: StringAttr
    ordinal: IntAttr
    configuration: DictionaryAttr

    @classmethod
    def parse_parameters(cls, p: AttrParser) -> list[Attribute]:
        configuration: Attribute = EMPTY_DICT
        ordinal = -1
        with p.in_angle_brackets():
            device_id = p.parse_str_literal(" for the device id")
            if p.parse_optional_punctuation("[") is not None:
                ordinal = p.parse_integer(allow_negative=False, allow_boolean=False)
                p.parse_punctuation("]")
            if p.parse_optional_punctuation(",") is not None:
                configuration = p.parse_attribute()
        return [StringAttr(device_id), IntAttr(ordinal), configuration]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.device_id)
            if self.ordinal.data >= 0:
                printer.print_string(f"[{self.ordinal.data}]")
            if self.configuration.data:
                printer.print_string(", ")
                printer.print_attribute(self.configuration)
        printer.print_string(" : !hal.device")


@irdl_attr_definition
class PipelineBindingAttr(ParametrizedAttribute):
    """`#hal.pipeline.binding<storage_buffer, "ReadOnly|Indirect">`."""

    name = "hal.pipeline.binding"
    type: StringAttr
    flags: ArrayAttr[StringAttr]

    @property
    def read_only(self) -> bool:
        return any(f.data == "ReadOnly" for f in self.flags)

    @classmethod
    def parse_parameters(cls, p: AttrParser) -> list[Attribute]:
        with p.in_angle_brackets():
            return cls._parse_body(p)

    @staticmethod
    def _parse_body(p: AttrParser) -> list[Attribute]:
        start = p.pos
        type = p.parse_identifier(" for the type of a binding")
        if type not in BINDING_TYPES:
            p.raise_error(f"unknown binding type '{type}', expected {' or '.join(BINDING_TYPES)}", start, p.pos)
        flags = parse_flags(p, BINDING_FLAGS) if p.parse_optional_punctuation(",") is not None else []
        return [StringAttr(type), _flag_attr(flags)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.type.data)
            if self.flags.data:
                printer.print_string(", ")
                _print_flags(printer, self.flags)


@irdl_attr_definition
class PipelineLayoutAttr(ParametrizedAttribute):
    """`#hal.pipeline.layout<constants = N, bindings = [...], flags = Indirect>`.

    The form with `push_constants` and `sets` that releases up to 2024 write is read too; its only set is set 0.
    """

    name = "hal.pipeline.layout"
    constants: IntAttr
    bindings: ArrayAttr[PipelineBindingAttr]
    flags: ArrayAttr[StringAttr]

    @classmethod
    def parse_parameters(cls, p: AttrParser) -> list[Attribute]:
        constants = 0
        bindings: list[PipelineBindingAttr] = []
        flags: list[str] = []
        with p.in_angle_brackets():
            while p._current_token.text != ">":
                start = p.pos
                key = p.parse_identifier(" in a pipeline layout")
                p.parse_punctuation("=", f" after '{key}'")
                if key in ("constants", "push_constants"):
                    constants = p.parse_integer(allow_negative=False, allow_boolean=False)
                elif key == "bindings":
                    bindings = p.parse_comma_separated_list(p.Delimiter.SQUARE, lambda: _parse_binding(p))
                elif key == "sets":
                    bindings = _parse_sets(p)
                elif key == "flags":
                    flags = parse_flags(p, LAYOUT_FLAGS)
                else:
                    known = "constants, bindings or flags"
                    p.raise_error(f"unknown key '{key}', expected {known}", start, start + len(key))
                if p.parse_optional_punctuation(",") is None:
                    break
        return [IntAttr(constants), ArrayAttr(bindings), _flag_attr(flags)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            if self.constants.data:
                printer.print_string(f"constants = {self.constants.data}, ")
            printer.print_string("bindings = ")
            printer.print_attribute(self.bindings)
            if self.flags.data:
                printer.print_string(", flags = ")
                _print_flags(printer, self.flags)


def _parse_binding(p: AttrParser) -> PipelineBindingAttr:
    if p._current_token.text == "<":
        with p.in_angle_brackets():
            return PipelineBindingAttr(*PipelineBindingAttr._parse_body(p))  # type: ignore[arg-type]
    start = p.pos
    attr = p.parse_attribute()
    if not isinstance(attr, PipelineBindingAttr):
        p.raise_error("expected a #hal.pipeline.binding", start, p.pos)
    return attr


def _parse_sets(p: AttrParser) -> list[PipelineBindingAttr]:
    """`[<0, bindings = [<0, storage_buffer, ReadOnly>, ...]>]`, each level with or without its `#hal...` prefix."""
    bindings: dict[int, PipelineBindingAttr] = {}

    def skip_prefix() -> None:
        if p._current_token.text.startswith("#"):
            p._consume_token()

    def binding() -> None:
        skip_prefix()
        with p.in_angle_brackets():
            start = p.pos
            ordinal = p.parse_integer(allow_negative=False, allow_boolean=False)
            if ordinal in bindings:
                p.raise_error(f"binding {ordinal} is given twice", start, p.pos)
            p.parse_punctuation(",", " after the ordinal of a binding")
            bindings[ordinal] = PipelineBindingAttr(*PipelineBindingAttr._parse_body(p))  # type: ignore[arg-type]

    def descriptor_set() -> None:
        skip_prefix()
        with p.in_angle_brackets():
            start = p.pos
            number = p.parse_integer(allow_negative=False, allow_boolean=False)
            if number != 0:
                p.raise_error(
                    f"descriptor set {number} cannot be used, there is one set: move its bindings into set 0, "
                    "numbered on from the last one there", start, p.pos)  # fmt: skip
            while p.parse_optional_punctuation(",") is not None:
                key = p.parse_identifier(" in a descriptor set")
                p.parse_punctuation("=", f" after '{key}'")
                if key == "bindings":
                    p.parse_comma_separated_list(p.Delimiter.SQUARE, binding)
                else:
                    parse_flags(p, LAYOUT_FLAGS)

    start = p.pos
    p.parse_comma_separated_list(p.Delimiter.SQUARE, descriptor_set)
    if sorted(bindings) != list(range(len(bindings))):
        p.raise_error(f"bindings are numbered {sorted(bindings)}, expected 0 to {len(bindings) - 1} without a gap",
                      start, p.pos)  # fmt: skip
    return [bindings[i] for i in range(len(bindings))]


@irdl_attr_definition
class ExecutableObjectAttr(ParametrizedAttribute):
    """`#hal.executable.object<{path = "...", data = ...}>`: an object file, by path or in place."""

    name = "hal.executable.object"
    entries: DictionaryAttr

    @property
    def path(self) -> str | None:
        path = self.entries.data.get("path")
        return path.data if isinstance(path, StringAttr) else None

    @property
    def data(self) -> Attribute | None:
        return self.entries.data.get("data")

    @classmethod
    def parse_parameters(cls, p: AttrParser) -> list[Attribute]:
        with p.in_angle_brackets():
            start = p.pos
            entries = p.parse_attribute()
            if not isinstance(entries, DictionaryAttr):
                p.raise_error("expected a dictionary with 'path' or 'data'", start, p.pos)
            if not entries.data.keys() & {"path", "data"}:
                p.raise_error("an object needs a 'path' or 'data'", start, p.pos)
            if "path" in entries.data and not isinstance(entries.data["path"], StringAttr):
                p.raise_error("the path of an object is a string", start, p.pos)
        return [entries]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.entries)


@irdl_attr_definition
class ExecutableObjectsAttr(ParametrizedAttribute):
    """`#hal.executable.objects<{#target = [objects], ...}>`: `objects[i]` belong to `targets[i]`."""

    name = "hal.executable.objects"
    targets: ArrayAttr[Attribute]
    objects: ArrayAttr[Attribute]

    @classmethod
    def parse_parameters(cls, p: AttrParser) -> list[Attribute]:
        targets: list[Attribute] = []
        objects: list[Attribute] = []

        def entry() -> None:
            target = parse_attr_of(p, ExecutableTargetAttr)
            p.parse_punctuation("=", " after the target of objects")
            targets.append(target)
            objects.append(parse_object_list(p))

        with p.in_angle_brackets():
            p.parse_comma_separated_list(p.Delimiter.BRACES, entry, " in executable objects")
        return [ArrayAttr(targets), ArrayAttr(objects)]

    def print_parameters(self, printer: Printer) -> None:
        def entry(pair: tuple[Attribute, Attribute]) -> None:
            printer.print_attribute(pair[0])
            printer.print_string(" = ")
            printer.print_attribute(pair[1])

        printer.print_string("<{")
        printer.print_list(list(zip(self.targets, self.objects, strict=True)), entry)
        printer.print_string("}>")


def parse_object_list(p: AttrParser) -> ArrayAttr[Attribute]:
    """`[#hal.executable.object<...>, ...]`."""
    start = p.pos
    objects = p.parse_attribute()
    if not isinstance(objects, ArrayAttr) or not all(isinstance(o, ExecutableObjectAttr) for o in objects):
        p.raise_error("expected a list of #hal.executable.object attributes", start, p.pos)
    return objects


@irdl_attr_definition
class InterfaceBindingAttr(ParametrizedAttribute):
    """`#hal.interface.binding<ordinal>`; the form with a set, `<0, ordinal>`, is read too."""

    name = "hal.interface.binding"
    ordinal: IntAttr

    @classmethod
    def parse_parameters(cls, p: AttrParser) -> list[Attribute]:
        with p.in_angle_brackets():
            start = p.pos
            first = p.parse_integer(allow_negative=False, allow_boolean=False)
            if p.parse_optional_punctuation(",") is None:
                return [IntAttr(first)]
            if first != 0:
                p.raise_error(f"descriptor set {first} cannot be used, there is one set: write set 0", start, p.pos)
            return [IntAttr(p.parse_integer(allow_negative=False, allow_boolean=False))]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.ordinal.data}>")


@irdl_attr_definition
class DeviceAffinityAttr(ParametrizedAttribute):
    """`#hal.device.affinity<@device, [queues]>`: where to run; kept."""

    name = "hal.device.affinity"
    device: SymbolRefAttr
    queues: ArrayAttr[Attribute]

    @classmethod
    def parse_parameters(cls, p: AttrParser) -> list[Attribute]:
        queues: Attribute = ArrayAttr([])
        with p.in_angle_brackets():
            device = p.parse_attribute()
            if p.parse_optional_punctuation(",") is not None:
                queues = p.parse_attribute()
        return [device, queues]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.device)
            if self.queues.data:
                printer.print_string(", ")
                printer.print_attribute(self.queues)


class _HalType(ParametrizedAttribute, TypeAttribute):
    """A type without parameters."""


@irdl_attr_definition
class AllocatorType(_HalType):
    name = "hal.allocator"


@irdl_attr_definition
class BufferType(_HalType):
    name = "hal.buffer"


@irdl_attr_definition
class BufferViewType(_HalType):
    name = "hal.buffer_view"


@irdl_attr_definition
class ChannelType(_HalType):
    name = "hal.channel"


@irdl_attr_definition
class CommandBufferType(_HalType):
    name = "hal.command_buffer"


@irdl_attr_definition
class DeviceType(_HalType):
    name = "hal.device"


@irdl_attr_definition
class EventType(_HalType):
    name = "hal.event"


@irdl_attr_definition
class ExecutableType(_HalType):
    name = "hal.executable"


@irdl_attr_definition
class FenceType(_HalType):
    name = "hal.fence"


@irdl_attr_definition
class FileType(_HalType):
    name = "hal.file"


@irdl_attr_definition
class SemaphoreType(_HalType):
    name = "hal.semaphore"


DEVICE_ATTRS = (DeviceTargetAttr, DeviceSelectAttr, DeviceAliasAttr)
ATTRIBUTES: list[type[Attribute]] = [
    ExecutableTargetAttr, DeviceTargetAttr, DeviceSelectAttr, DeviceAliasAttr, DeviceAffinityAttr,
    PipelineBindingAttr, PipelineLayoutAttr, ExecutableObjectAttr, ExecutableObjectsAttr, InterfaceBindingAttr,
    AllocatorType, BufferType, BufferViewType, ChannelType, CommandBufferType, DeviceType, EventType, ExecutableType,
    FenceType, FileType, SemaphoreType,
]  # fmt: skip
