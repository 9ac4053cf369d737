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
    """Executable: variants with the same exports for different targets."""

    name = "hal.executable"
    sym_name = prop_def(SymbolNameConstraint())
    sym_visibility = opt_prop_def(StringAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), IsolatedFromAbove(), SymbolTable(), SymbolOpInterface())
    assembly_format = "custom<Visibility>($sym_visibility) $sym_name attr-dict-with-keyword custom<SymbolBody>($body)"

    def verify_(self) -> None:
        """Raise VerifyException for an operation in the body that is neither a variant nor a binary."""
        check_children(self, self.body, ("hal.executable.variant", "hal.executable.binary", "hal.executable_end"))


@op_definition
class ExecutableEndOp(IRDLOperation):
    """Terminator of an executable's body in older releases."""

    name = "hal.executable_end"
    assembly_format = "attr-dict"


@op_definition
class ExecutableSourceEndOp(IRDLOperation):
    """Terminator of a source's body in older releases."""

    name = "hal.executable.source_end"
    assembly_format = "attr-dict"


@op_definition
class ExecutableVariantEndOp(IRDLOperation):
    """Terminator of a variant's body in older releases."""

    name = "hal.executable.variant_end"
    assembly_format = "attr-dict"


@directive
class Clauses(CustomDirective):
    """Base of directives for clauses `target(#t) objects([...])` in any order.

    Older releases write `, target = #t, objects = [...]`. Each field of a subclass is a clause: an attribute variable,
    or a directive with an attribute variable as its `value`. The field's name is the word of the clause.
    """

    def _clauses(self) -> dict[str, Any]:
        """Return the clauses by their words."""
        return {name: getattr(self, name) for name in self.parameters}

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse clauses in any order and each at most once: `word(value)`, or `, word = value` of older releases.

        Other text after the clauses is left to the next directive.
        """
        clauses = self._clauses()  # word → the directive that parses the value
        seen = set()
        while True:
            has_comma = parser.parse_optional_punctuation(",") is not None
            start = parser.pos
            word = parser.parse_optional_keyword_in(tuple(clauses))
            if word is None:
                if has_comma:  # a comma announces a clause
                    parser.raise_error(f"expected {' or '.join(clauses)}")
                break
            if word in seen:
                parser.raise_error(f"'{word}' is given twice", start, start + len(word))
            seen.add(word)
            if parser.parse_optional_punctuation("=") is not None:
                clauses[word].parse(parser, state)
            else:
                with parser.in_parens():
                    clauses[word].parse(parser, state)

    def require(self, parser: Parser, state: ParsingState, start: int) -> None:
        """Raise a parse error if a clause is missing although its attribute is required."""
        for word, clause in self._clauses().items():
            require(word, clause, parser, state, start)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `word(value)` for each clause with a value."""
        for word, clause in self._clauses().items():
            variable = getattr(clause, "value", clause)  # a directive such as ObjectList has its variable in `value`
            if (value := variable.get(op)) is not None:
                printer.print_string(f" {word}(")
                printer.print_attribute(value)
                printer.print_string(")")


@directive
class SourceClauses(Clauses):
    """Directive for `objects(...)`, the only clause of an executable source."""

    objects: AttributeVariable


@directive
class VariantClauses(Clauses):
    """Directive for the clauses of a variant: its target, its objects, and a dictionary of sources that is ignored."""

    target: AttributeVariable
    objects: ObjectList
    sources: AttributeVariable


@op_definition
class ExecutableSourceOp(IRDLOperation):
    """Executable without a target; it becomes one variant per target for which `objects` lists object files."""

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
    """Form of an executable for one target.

    The body has the exports, an optional condition under which a device may use the variant, blocks that compute
    executable constants at load time, and a module with the kernels, which is absent if object files define all
    exports. It may also have contracts: functions, generated with a kernel, that check the sizes of a dispatch.

    Attributes:
        target: Code generator, binary format and options.
        objects: Object files or sources that are linked with the module.
        sources: Dictionary that is parsed and printed, but ignored.
    """

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
        """Check which operations the variant contains, and that no two exports have one ordinal."""
        check_children(self, self.body, (
            "hal.executable.condition", "hal.executable.constant.block", "hal.executable.export", "builtin.module",
            "hal.executable.variant_end", "func.func",  # func.func: a contract
        ))  # fmt: skip
        ordinals: set[int] = set()
        for export in self.body.ops:
            if isinstance(export, ExecutableExportOp) and export.ordinal is not None:
                if (ordinal := export.ordinal.value.data) in ordinals:
                    raise VerifyException(f"ordinal {ordinal} is given to two exports of @{self.sym_name.data}")
                ordinals.add(ordinal)


@op_definition
class ExecutableBinaryOp(IRDLOperation):
    """Compiled executable; accepted so that printed programs can be parsed."""

    name = "hal.executable.binary"
    sym_name = prop_def(SymbolNameConstraint())
    sym_visibility = opt_prop_def(StringAttr)
    assembly_format = "custom<Visibility>($sym_visibility) $sym_name attr-dict-with-keyword"


OPERATIONS: list[type[Operation]] = [
    ExecutableOp, ExecutableEndOp, ExecutableSourceOp, ExecutableSourceEndOp, ExecutableVariantOp,
    ExecutableVariantEndOp, ExecutableExportOp, ExecutableBinaryOp,
]  # fmt: skip
