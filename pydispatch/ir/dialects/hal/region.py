"""Bodies and host regions of executables, of every dialect."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    IndexType,
)
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.dialects.hal.device import DeviceType


def parse_body(p: Parser) -> Region:
    """A region of symbols; an empty one gets its block."""
    region = p.parse_region()
    if not region.blocks:
        region.add_block(Block())
    return region


def print_body(printer: Printer, region: Region) -> None:
    printer.print_string(" ")
    printer.print_region(region, print_empty_block=False)


def check_children(op: Operation, region: Region, allowed: Sequence[str]) -> None:
    """The operations of a body are of the named kinds; `allowed` names may be prefixes that end in a dot."""
    for child in region.ops:
        if child.name not in allowed:
            raise VerifyException(f"'{op.name}' cannot hold '{child.name}', it holds {', '.join(allowed)}")


def check_region(op: Operation, region: Region, results: Sequence[Attribute], what: str, device: bool) -> None:
    """The entry block takes the device first, then index values, and each return gives `results`."""
    block = region.blocks.first
    if block is None:
        return
    types = list(block.arg_types)
    if device and types and isinstance(types[0], DeviceType):
        types = types[1:]
    for i, type in enumerate(types):
        if not isinstance(type, IndexType):
            raise VerifyException(f"argument {i} of the {what} region is {type}, expected index")
    for child in region.blocks:
        last = child.last_op
        if last is None:
            raise VerifyException(f"the {what} region has no return")
        if last.name.endswith("return") and [o.type for o in last.operands] != list(results):
            got = ", ".join(str(o.type) for o in last.operands)
            raise VerifyException(
                f"the {what} region returns ({got}), expected ({', '.join(str(r) for r in results)})"
            )


def check_count(op: Operation, region: Region, device: bool) -> None:
    check_region(op, region, [IndexType()] * 3, "count", device)


def parse_host_region(p: Parser, results: Sequence[Attribute]) -> Region:
    """`(%device: !hal.device, %w: index) -> (T...) {...}`, with the results that are wanted."""
    arguments = syntax.parse_signature_args(p)
    start = p.pos
    p.parse_punctuation("->", " after the arguments of a host region")
    types = syntax.parse_types(p)
    if types != list(results):
        wanted = ", ".join(str(r) for r in results)
        p.raise_error(f"this region returns ({wanted}), got ({', '.join(str(t) for t in types)})", start, p.pos)
    return p.parse_region(arguments)
