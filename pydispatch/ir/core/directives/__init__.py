"""Custom directives that assembly formats of several dialects share; formats know them by the names of their classes.

A directive reads into a `ParsingState` and prints from an operation. Types that directives state are those of operands,
which are resolved when the whole operation has been read.
"""

from pydispatch.ir.core.directives import regions, signatures
from pydispatch.ir.core.directives.base import SHARED, directive, for_every_format, parsed_types, request_space, require
from pydispatch.ir.core.directives.operands import Mixed, parse_mixed
from pydispatch.ir.core.directives.properties import Index, KeywordChoice, NumberedChoice
from pydispatch.ir.core.directives.types import ElementOf, Results

__all__ = [
    "SHARED",
    "ElementOf",
    "Index",
    "KeywordChoice",
    "Mixed",
    "NumberedChoice",
    "Results",
    "directive",
    "for_every_format",
    "parse_mixed",
    "parsed_types",
    "regions",
    "request_space",
    "require",
    "signatures",
]  # fmt: skip
