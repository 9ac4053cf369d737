"""Devices and targets of the `hal` dialect, and its types."""

from __future__ import annotations

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

from pydispatch.ir.core.syntax import EMPTY_DICT

_TYPE_SUFFIX = " : !hal.device"
"""Type printed after an attribute that denotes a device; `ProgramParser` skips it after the attribute."""


@irdl_attr_definition
class ExecutableTargetAttr(ParametrizedAttribute):
    """Target of an executable, `#hal.executable.target<"backend", "format", {configuration}>`.

    Attributes:
        backend: Name of the code generator, such as "llvm-cpu".
        format: Name of the binary format, such as "embedded-elf-x86_64".
        configuration: Options such as `cpu_features`; may be empty.
    """

    name = "hal.executable.target"
    backend: StringAttr
    format: StringAttr
    configuration: DictionaryAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parse `<"backend", "format", {configuration}>`."""
        with parser.in_angle_brackets():
            backend = parser.parse_str_literal(" for the backend")
            parser.parse_punctuation(",", " after the backend")
            format = parser.parse_str_literal(" for the format")
            configuration = EMPTY_DICT
            if parser.parse_optional_punctuation(",") is not None:
                start = parser.pos
                parsed = parser.parse_attribute()
                if not isinstance(parsed, DictionaryAttr):
                    parser.raise_error("the configuration of a target is a dictionary", start, parser.pos)
                configuration = parsed
        return [StringAttr(backend), StringAttr(format), configuration]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<"backend", "format", {configuration}>`, without an empty configuration."""
        with printer.in_angle_brackets():
            printer.print_attribute(self.backend)
            printer.print_string(", ")
            printer.print_attribute(self.format)
            if self.configuration.data:
                printer.print_string(", ")
                printer.print_attribute(self.configuration)


@irdl_attr_definition
class DeviceTargetAttr(ParametrizedAttribute):
    """Target device, `#hal.device.target<"id", {configuration}, [targets]>`.

    Older releases write the list as the entry `executable_targets` of the dictionary.

    Attributes:
        device_id: Name of the kind of device, such as "local".
        configuration: Options, without `executable_targets`.
        executable_targets: An `ExecutableTargetAttr` for each format that the device runs.
    """

    name = "hal.device.target"
    device_id: StringAttr
    configuration: DictionaryAttr
    executable_targets: ArrayAttr[Attribute]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parse `<"id", {configuration}, [targets]>`; the configuration and the targets may be omitted.

        In the form of older releases, `<"local", {a = 1, executable_targets = [#t]}>`, the targets are an entry of the
        dictionary. They are removed from it: the configuration is {a = 1}.
        """
        configuration: dict[str, Attribute] = {}
        targets: Attribute = ArrayAttr([])
        with parser.in_angle_brackets():
            device_id = parser.parse_str_literal(" for the device id")
            # A dictionary is the configuration, a list the targets; their kinds tell them apart.
            while parser.parse_optional_punctuation(",") is not None:
                start = parser.pos
                parsed = parser.parse_attribute()
                if isinstance(parsed, DictionaryAttr):
                    configuration = dict(parsed.data)
                    targets = configuration.pop("executable_targets", targets)
                elif isinstance(parsed, ArrayAttr):
                    targets = parsed
                else:
                    parser.raise_error("expected a dictionary or a list of executable targets", start, parser.pos)
                if not isinstance(targets, ArrayAttr) or not all(isinstance(t, ExecutableTargetAttr) for t in targets):
                    parser.raise_error(
                        "executable targets are a list of #hal.executable.target attributes", start, parser.pos
                    )
        return [StringAttr(device_id), DictionaryAttr(configuration), targets]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<"id", {configuration}, [targets]> : !hal.device`, without an empty dictionary or list."""
        with printer.in_angle_brackets():
            printer.print_attribute(self.device_id)
            if self.configuration.data:
                printer.print_string(", ")
                printer.print_attribute(self.configuration)
            if self.executable_targets.data:
                printer.print_string(", ")
                printer.print_attribute(self.executable_targets)
        printer.print_string(_TYPE_SUFFIX)


@irdl_attr_definition
class DeviceSelectAttr(ParametrizedAttribute):
    """Device that is the first available one of a list, `#hal.device.select<[devices]>`."""

    name = "hal.device.select"
    devices: ArrayAttr[Attribute]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parse `<[devices]>`."""
        with parser.in_angle_brackets():
            start = parser.pos
            devices = parser.parse_attribute()
            if not isinstance(devices, ArrayAttr):
                parser.raise_error("expected a list of devices", start, parser.pos)
        return [devices]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<[devices]> : !hal.device`."""
        with printer.in_angle_brackets():
            printer.print_attribute(self.devices)
        printer.print_string(_TYPE_SUFFIX)


@irdl_attr_definition
class DeviceAliasAttr(ParametrizedAttribute):
    """Target device by name, `#hal.device.alias<"id"[ordinal], {configuration}>`.

    `device_id` is the name. `ordinal` is the index among the devices of this name; -1 if the text has none.
    """

    name = "hal.device.alias"
    device_id: StringAttr
    ordinal: IntAttr
    configuration: DictionaryAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parse `<"id"[ordinal], {configuration}>`; an omitted ordinal is -1, an omitted configuration {}."""
        configuration: Attribute = EMPTY_DICT
        ordinal = -1
        with parser.in_angle_brackets():
            device_id = parser.parse_str_literal(" for the device id")
            if parser.parse_optional_punctuation("[") is not None:
                ordinal = parser.parse_integer(allow_negative=False, allow_boolean=False)
                parser.parse_punctuation("]")
            if parser.parse_optional_punctuation(",") is not None:
                configuration = parser.parse_attribute()
        return [StringAttr(device_id), IntAttr(ordinal), configuration]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<"id"[ordinal], {configuration}> : !hal.device`, without the ordinal -1 and without an empty {}."""
        with printer.in_angle_brackets():
            printer.print_attribute(self.device_id)
            if self.ordinal.data >= 0:
                printer.print_string(f"[{self.ordinal.data}]")
            if self.configuration.data:
                printer.print_string(", ")
                printer.print_attribute(self.configuration)
        printer.print_string(_TYPE_SUFFIX)


@irdl_attr_definition
class DeviceAffinityAttr(ParametrizedAttribute):
    """Placement on a device and its queues, `#hal.device.affinity<@device, [queues]>`; parsed but ignored."""

    name = "hal.device.affinity"
    device: SymbolRefAttr
    queues: ArrayAttr[Attribute]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parse `<@device, [queues]>`; an omitted list of queues is []."""
        queues: Attribute = ArrayAttr([])
        with parser.in_angle_brackets():
            device = parser.parse_attribute()
            if parser.parse_optional_punctuation(",") is not None:
                queues = parser.parse_attribute()
        return [device, queues]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<@device, [queues]>`, without an empty list of queues."""
        with printer.in_angle_brackets():
            printer.print_attribute(self.device)
            if self.queues.data:
                printer.print_string(", ")
                printer.print_attribute(self.queues)


class _HalType(ParametrizedAttribute, TypeAttribute):
    """Base of types without parameters."""


@irdl_attr_definition
class BufferType(_HalType):
    """Type of a buffer."""

    name = "hal.buffer"


@irdl_attr_definition
class BufferViewType(_HalType):
    """Type of a buffer with shape and element type."""

    name = "hal.buffer_view"


@irdl_attr_definition
class DeviceType(_HalType):
    """Type of a device."""

    name = "hal.device"


@irdl_attr_definition
class FenceType(_HalType):
    """Type of a fence."""

    name = "hal.fence"


DEVICE_ATTRS = (DeviceTargetAttr, DeviceSelectAttr, DeviceAliasAttr)
"""Attributes that the initial value of a global of type `!hal.device` may be."""
ATTRIBUTES: list[type[Attribute]] = [
    ExecutableTargetAttr, DeviceTargetAttr, DeviceSelectAttr, DeviceAliasAttr, DeviceAffinityAttr, BufferType,
    BufferViewType, DeviceType, FenceType,
]  # fmt: skip
