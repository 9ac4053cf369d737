"""`hal` operations that hold executables: sources, variants, binaries."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    StringAttr,
    SymbolNameConstraint,
)
from xdsl.ir import Operation
from xdsl.irdl import (
    IRDLOperation,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.irdl.declarative_assembly_format import AttributeVariable, CustomDirective, ParsingState, PrintingState
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolOpInterface, SymbolTable
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive, require
from pydispatch.ir.dialects.hal.device import ExecutableTargetAttr
from pydispatch.ir.dialects.hal.export import ExecutableExportOp
from pydispatch.ir.dialects.hal.object import ExecutableObjectsAttr, ObjectList
from pydispatch.ir.dialects.hal.region import check_children


@op_definition
class ExecutableOp(IRDLOperation):
    """A set of variants of the same exports."""

    name = "hal.executable"
    sym_name = prop_def(SymbolNameConstraint())
    sym_visibility = opt_prop_def(StringAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), IsolatedFromAbove(), SymbolTable(), SymbolOpInterface())
    assembly_format = "custom<Visibility>($sym_visibility) $sym_name attr-dict-with-keyword custom<SymbolBody>($body)"

    def verify_(self) -> None:
        check_children(self, self.body, ("hal.executable.variant", "hal.executable.binary", "hal.executable_end"))


@op_definition
class ExecutableEndOp(IRDLOperation):
    """Older releases end the body of an executable with this; it has no meaning."""

    name = "hal.executable_end"
    assembly_format = "attr-dict"


@op_definition
class ExecutableSourceEndOp(IRDLOperation):
    """The same in a source."""

    name = "hal.executable.source_end"
    assembly_format = "attr-dict"


@op_definition
class ExecutableVariantEndOp(IRDLOperation):
    """The same in a variant."""

    name = "hal.executable.variant_end"
    assembly_format = "attr-dict"


@directive
class Clauses(CustomDirective):
    """`target(#t) objects([...])` in any order; older releases write `, target = #t, objects = [...]`.

    The fields of a subclass are the clauses: a variable, or a directive with one as its `value`.
    """

    def _clauses(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.parameters}

    def parse(self, parser: Parser, state: ParsingState) -> None:
        clauses = self._clauses()
        seen = set()
        while True:
            comma = parser.parse_optional_punctuation(",") is not None
            at = parser.pos
            word = parser.parse_optional_keyword_in(tuple(clauses))
            if word is None:
                if comma:
                    parser.raise_error(f"expected {' or '.join(clauses)}")
                break
            if word in seen:
                parser.raise_error(f"'{word}' is given twice", at, at + len(word))
            seen.add(word)
            if parser.parse_optional_punctuation("=") is not None:
                clauses[word].parse(parser, state)
            else:
                with parser.in_parens():
                    clauses[word].parse(parser, state)

    def require(self, parser: Parser, state: ParsingState, start: int) -> None:
        for word, clause in self._clauses().items():
            require(word, clause, parser, state, start)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        for word, clause in self._clauses().items():
            if (value := getattr(clause, "value", clause).get(op)) is not None:
                printer.print_string(f" {word}(")
                printer.print_attribute(value)
                printer.print_string(")")


@directive
class SourceClauses(Clauses):
    """The objects of a source."""

    objects: AttributeVariable


@directive
class VariantClauses(Clauses):
    """The target and the objects of a variant."""

    target: AttributeVariable
    objects: ObjectList
    sources: AttributeVariable


@op_definition
class ExecutableSourceOp(IRDLOperation):
    """An executable without a target: one variant is made of it for each target that has objects."""

    name = "hal.executable.source"
    sym_name = prop_def(SymbolNameConstraint())
    sym_visibility = opt_prop_def(StringAttr)
    objects = opt_prop_def(ExecutableObjectsAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), IsolatedFromAbove(), SymbolTable(), SymbolOpInterface())
    custom_directives = (SourceClauses,)
    assembly_format = (
        "custom<Visibility>($sym_visibility) $sym_name custom<SourceClauses>($objects) attr-dict-with-keyword "
        "custom<SymbolBody>($body)"
    )


@op_definition
class ExecutableVariantOp(IRDLOperation):
    """An executable for one target: exports, condition, constants and a module (none when objects define all)."""

    name = "hal.executable.variant"
    sym_name = prop_def(SymbolNameConstraint())
    sym_visibility = opt_prop_def(StringAttr)
    target = prop_def(ExecutableTargetAttr)
    objects = opt_prop_def(ArrayAttr)
    sources = opt_prop_def(DictionaryAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), IsolatedFromAbove(), SymbolTable(), SymbolOpInterface())
    custom_directives = (VariantClauses,)
    assembly_format = (
        "custom<Visibility>($sym_visibility) $sym_name custom<VariantClauses>($target, "
        "custom<ObjectList>($objects), $sources) attr-dict-with-keyword custom<SymbolBody>($body)"
    )

    def verify_(self) -> None:
        check_children(self, self.body, (
            "hal.executable.condition", "hal.executable.constant.block", "hal.executable.export", "builtin.module",
            "hal.executable.variant_end", "func.func",  # the contract of a generated kernel
        ))  # fmt: skip
        ordinals: set[int] = set()
        for export in self.body.ops:
            if isinstance(export, ExecutableExportOp) and export.ordinal is not None:
                if (ordinal := export.ordinal.value.data) in ordinals:
                    raise VerifyException(f"ordinal {ordinal} is given to two exports of @{self.sym_name.data}")
                ordinals.add(ordinal)


@op_definition
class ExecutableBinaryOp(IRDLOperation):
    """A compiled executable; kept so that printed programs parse."""

    name = "hal.executable.binary"
    sym_name = prop_def(SymbolNameConstraint())
    sym_visibility = opt_prop_def(StringAttr)
    assembly_format = "custom<Visibility>($sym_visibility) $sym_name attr-dict-with-keyword"


OPERATIONS: list[type[Operation]] = [
    ExecutableOp, ExecutableEndOp, ExecutableSourceOp, ExecutableSourceEndOp, ExecutableVariantOp,
    ExecutableVariantEndOp, ExecutableExportOp, ExecutableBinaryOp,
]  # fmt: skip
