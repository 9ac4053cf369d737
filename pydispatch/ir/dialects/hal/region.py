"""Bodies and host regions of executables, of every dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IndexType, i1
from xdsl.ir import Attribute, Operation, Region
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import CustomDirective, ParsingState, PrintingState, RegionVariable
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.directives import directive, for_every_format, request_space
from pydispatch.ir.dialects.hal.device import DeviceType


def check_children(op: Operation, region: Region, allowed: Sequence[str]) -> None:
    """Check that the body of an executable or variant contains only operations with the names in `allowed`, and at most
    one module, the one with its functions; raise VerifyException otherwise.
    """
    has_module = False
    for child in region.ops:
        if child.name not in allowed:
            raise VerifyException(f"'{op.name}' cannot hold '{child.name}', it holds {', '.join(allowed)}")
        if child.name == "builtin.module":
            if has_module:
                raise VerifyException(
                    f"'{op.name}' holds more than one 'builtin.module'; put the functions of all its exports in one"
                )
            has_module = True


def check_region(
    region: Region, results: Sequence[Attribute], name: str, *, has_device_argument: bool, has_workload: bool
) -> None:
    """Check the arguments and results of a host region of one block; raise VerifyException otherwise.

    A host region is code that the host runs, such as the workgroup count of an export: it maps an optional device and
    numbers of type index to `results`, the operands of its `hal.return`.

    Args:
        region: The region; empty if the text omits it, which is valid.
        results: Types that the operands of the return must have.
        name: Name of the region in messages, such as "count".
        has_device_argument: Whether a device may be the first argument; all others must be index values.
        has_workload: Whether there may be index arguments: the workload, such as %m and %n in `flow.dispatch
            @kernel[%m, %n](...)`.
    """
    if not region.blocks:
        return
    if len(region.blocks) > 1:
        raise VerifyException(f"the {name} region has {len(region.blocks)} blocks, expected one; arith.select chooses")
    types = list(region.block.arg_types)
    if has_device_argument and types and isinstance(types[0], DeviceType):
        types = types[1:]
    if types and not has_workload:
        raise VerifyException(f"the {name} region takes only the device, got {', '.join(str(type) for type in types)}")
    for i, type in enumerate(types):
        if not isinstance(type, IndexType):
            raise VerifyException(f"argument {i} of the {name} region is {type}, expected index")
    _check_return(region, results, name)


def _check_return(region: Region, results: Sequence[Attribute], name: str) -> None:
    """Check that the block of a host region ends with a return of `results`. `name` names the region in messages."""
    last = region.block.last_op
    if last is None or not last.name.endswith("return"):
        raise VerifyException(f"the {name} region has no return")
    if [o.type for o in last.operands] != list(results):
        got = ", ".join(str(o.type) for o in last.operands)
        raise VerifyException(f"the {name} region returns ({got}), expected ({', '.join(str(r) for r in results)})")


def check_count(region: Region, *, has_device_argument: bool) -> None:
    """Check that a host region computes a grid, x, y and z; raise VerifyException otherwise."""
    check_region(region, [IndexType()] * 3, "count", has_device_argument=has_device_argument, has_workload=True)


@directive
class HostRegion(CustomDirective):
    """Directive for a host region, code that the host runs: `(%device: !hal.device, %size: index) -> (T...) {...}`.

    A subclass sets `RESULTS` to the result types T, which the region itself does not store.
    """

    RESULTS: ClassVar[tuple[Attribute, ...]] = ()

    region: RegionVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `(arguments) -> (types) {body}`; the types must be those of `RESULTS`."""
        arguments = syntax.parse_signature_args(parser)
        start = parser.pos
        parser.parse_punctuation("->", " after the arguments of a host region")
        types = syntax.parse_types(parser)
        if tuple(types) != self.RESULTS:
            wanted, got = (", ".join(str(t) for t in listed) for listed in (self.RESULTS, types))
            parser.raise_error(f"this region returns ({wanted}), got ({got})", start, parser.pos)
        self.region.set(state, parser.parse_region(arguments))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `(%device: !hal.device, %size: index) -> (T...) {...}`, with a space before what follows."""
        syntax.print_region_signature(printer, self.region.get(op), self.RESULTS)
        request_space(state)

    def is_present(self, op: IRDLOperation) -> bool:
        """Return whether `op` has the region, so that its optional group is printed."""
        return self.region.is_present(op)

    def is_anchorable(self) -> bool:
        """Return True: the region may decide whether its optional group is printed."""
        return True

    def set_empty(self, state: ParsingState) -> None:
        """Set the region to an empty one, unless another clause for the same region has been parsed.

        An export has two clauses for its count region, of which a text has at most one: `count(...) -> (...) {...}`,
        and the form of older releases, `{ ^bb0(...): ... }`.
        """
        if state.regions[self.region.index] is None:
            self.region.set_empty(state)


@for_every_format
class Count(HostRegion):
    """Directive for a region that computes a grid, the numbers of workgroups along x, y and z.

    The decorator makes it usable as `custom<Count>` in the assembly format of every operation.
    """

    RESULTS: ClassVar[tuple[Attribute, ...]] = (IndexType(),) * 3


@for_every_format
class Condition(HostRegion):
    """Directive for a region that computes a condition, an i1.

    The decorator makes it usable as `custom<Condition>` in the assembly format of every operation.
    """

    RESULTS: ClassVar[tuple[Attribute, ...]] = (i1,)
