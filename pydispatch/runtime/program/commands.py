"""Host commands of a program: resolution of their providers, and errors for missing or mismatched ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydispatch import extensions
from pydispatch._core.host_command import PREFIX
from pydispatch.errors import InvalidArgumentError, MissingImportError
from pydispatch.runtime.program.imports import Registry
from pydispatch.suggestions import did_you_mean

if TYPE_CHECKING:
    from pydispatch._core.plugin import Resolution
    from pydispatch._core.program import Module
    from pydispatch.formats.program.tables import HostOperand

Commands = Sequence[tuple[str, "Sequence[HostOperand]"]]
"""(name, operands) of each host command, in the order of the program's table."""


def commands_of(module: Module) -> Commands:
    """Return the host commands (host functions called between dispatches) that a program calls."""
    called = module.commands()
    if not called:  # most programs, which load faster without these imports
        return []
    from pydispatch.formats.program.opcodes import Access
    from pydispatch.formats.program.tables import HostOperand

    return [
        (name, [HostOperand(dtype, sizes, Access(access)) for dtype, sizes, access in operands])
        for name, operands in called
    ]


def missing(names: Sequence[str], commands: Commands, queried: Iterable[str]) -> MissingImportError:
    """Return the error for host commands (functions that a program calls between dispatches) without a provider.

    The message lists each of these commands with its operands, and a provider of a similar name.

    Args:
        names: Names of these commands, at least one.
        commands: All host commands of the program.
        queried: Labels of the providers that were searched; a host command's label is its name.
    """
    from pydispatch.formats.program.text import signature_text

    declared = dict(commands)
    labels = list(queried)
    plural = "s" if len(names) != 1 else ""
    lines = [f"the program calls {len(names)} host command{plural} that the device was not given:"]
    for name in names:
        hint = did_you_mean(name, labels)
        separator = "; " if hint else ""
        lines.append(f"  '{name}', with the operands {signature_text(declared[name])}{separator}{hint}".rstrip())
    lines.append(f"searched: {', '.join(labels)}" if labels else "no plugin or command is registered")
    lines.append(
        f"supply it with device.add_command('{names[0]}', function) or device.add_plugin('library.so') before "
        "loading, or --plugin=library.so on the command line"
    )
    return MissingImportError("\n".join(lines), tuple(names))


def check_signature(name: str, function: Callable[..., Any], operands: Sequence[HostOperand]) -> None:
    """Raise InvalidArgumentError unless a Python function can be called with a context and the operands."""
    try:
        inspect.signature(function).bind(None, *operands)  # None stands for the context
    except TypeError as error:
        from pydispatch.formats.program.text import signature_text

        raise InvalidArgumentError(
            f"host command '{name}': {function!r} cannot be called with a context and the operands "
            f"{signature_text(operands)} of the program: {error}"
        ) from None
    except ValueError:  # a function of an extension module without a signature: it is checked when it is called
        return


@dataclass(frozen=True)
class Provided:
    """Implementation of a host command that a program calls: a C function, or a Python function.

    Attributes:
        function: Python function; None for a C function.
        address, context: Address and context pointer of a C function, or of the C wrapper of a Python function.
        provider: `Provider.id` of the provider.
    """

    function: Callable[..., Any] | None
    address: int
    context: int
    provider: int


def provide(registry: Registry | None, commands: Commands) -> tuple[Resolution, list[Provided]]:
    """Find the implementation of each host command: the device's own, or else one that another package adds.

    For `commands` = [("scale", operands)] and a device with `add_command("scale", f)` of Python, the list of
    implementations is [Provided(f, address and context of its C wrapper, id of its registration)].

    Args:
        registry: Plugins and commands of the device; None if there are none.
        commands: (name, operands) of each host command of the program.

    Returns:
        A resolution that keeps the implementations alive, and the implementation of each command, in order.

    Raises:
        MissingImportError: A command has no implementation.
        InvalidArgumentError: An implementation takes other operands.
    """
    # Offer the commands of other packages beside those of the device.
    registry = registry or Registry()
    packaged = {part.name: part for part in extensions.parts("command")}  # name of a command → what loads it
    for name, _ in commands:
        if name in packaged:
            registry.add_packaged(name, packaged[name].load)
    # Find a provider of each command. Commands and imports are looked up in the same manager; PREFIX before the name of
    # a command tells them apart.
    resolution = registry.manager.resolution()
    try:
        functions = resolution.resolve([PREFIX + name for name, _ in commands], "host commands")
    except MissingImportError as error:
        queried = [provider.label.removeprefix(PREFIX) for provider in resolution.providers()]
        raise missing([symbol.removeprefix(PREFIX) for symbol in error.symbols], commands, queried) from None
    providers = {symbol.name: symbol.provider for symbol in resolution.report()}
    resolution.end()  # releases providers that supplied nothing; `resolution` keeps the others alive
    # Check the operands that commands in Python take. `registry.commands` lacks commands in C, which have no signature
    # to compare.
    provided = []
    for (name, operands), (address, context) in zip(commands, functions, strict=True):
        provider = providers[PREFIX + name]
        assert provider is not None
        function = registry.commands.get(provider.id)
        if function is not None:
            check_signature(name, function, operands)
        provided.append(Provided(function, address, context, provider.id))
    return resolution, provided
