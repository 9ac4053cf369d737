"""Operations of the library that programs write in more ways, or with more types, than the library has them.

Their classes stay as the library made them, since other code names them. What differs is stored here, where the parser,
the printer and the verifier of programs look first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from xdsl.ir import Operation, OpTraits
from xdsl.irdl import AttrConstraint, AttributeDef, IRDLOperation, OpDef, OperandDef, PropertyDef, ResultDef
from xdsl.irdl.declarative_assembly_format import CustomDirective
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import OpTrait

from pydispatch.ir.core.assembly import AssemblyFormat

Parse = Callable[[Any, Parser], Operation]
"""Function parse(cls, parser) that parses an operation of the class after its name."""
Print = Callable[[Any, Printer], None]
"""Function print(op, printer) that prints an operation after its name."""
Seen = set[tuple[object, ...]]
"""Keys, as of `_key`, of the operations whose types, properties and attributes have passed the verification."""


@dataclass(frozen=True)
class Refinement:
    """Replacements of xDSL's parser, printer and verifier of an operation; None where xDSL's own function is used."""

    parse: Parse | None
    print: Print | None
    verify: Callable[[Any, Seen], None] | None


class _Verification:
    """Verifier of an operation that caches the checks of types and properties.

    Each combination of types and properties is checked once. Traits and `check` also depend on other operations, and
    run for every operation.

    Args:
        definition: Definition of the operation, with the constraints to verify.
        check: Raises an error for an operation that satisfies the definition but is invalid; None if there is none.
    """

    def __init__(self, definition: OpDef, check: Callable[[Any], None] | None) -> None:
        """Begin with no check cached."""
        self._definition = definition
        self._check = check
        self._is_cacheable = not definition.regions and not definition.successors  # `_key` does not cover these

    @cached_property
    def _definition_without_traits(self) -> OpDef:
        """The definition without its traits, to check types and properties alone: the result of this check is cached,
        traits are verified for each operation.
        """
        return replace(self._definition, traits=OpTraits(lambda: ()))

    @cached_property
    def _traits(self) -> tuple[OpTrait, ...]:
        """Traits that verify something."""
        return tuple(trait for trait in self._definition.traits if type(trait).verify is not OpTrait.verify)

    def __call__(self, op: Operation, seen: Seen) -> None:
        """Verify an operation: its types and properties, its traits, and its own check; raise VerifyException.

        The check of types and properties is skipped if `seen` has the operation's `_key`, which is added otherwise.
        """
        key = _key(op) if self._is_cacheable else None
        if key is None:
            self._definition_without_traits.verify(op)
        elif key not in seen:
            self._definition_without_traits.verify(op)
            seen.add(key)
        for trait in self._traits:
            trait.verify(op)
        if self._check is not None:
            self._check(op)


def _key(op: Operation) -> tuple[object, ...]:
    """Return a hashable key of the types, properties and attributes of an operation without regions and successors.

    None separates operand types, result types, properties and attributes.
    """
    key: list[object] = [type(op), *[value.type for value in op._operands], None, *[value.type for value in op.results]]
    for attributes in (op.properties, op.attributes):
        key.append(None)
        if attributes:
            key += attributes.items()
    return tuple(key)


_REFINED: dict[type[Operation], Refinement] = {}
"""Operation class of xDSL → the functions that replace its own; `refine` enters them."""


def refine(
    op: type[IRDLOperation],
    *,
    assembly_format: str | None = None,
    syntax: tuple[Parse, Print] | None = None,
    operands: AttrConstraint[Any] | Mapping[str, AttrConstraint[Any]] | None = None,
    results: AttrConstraint[Any] | None = None,
    properties: Mapping[str, PropertyDef] = MappingProxyType({}),
    attributes: Mapping[str, AttributeDef] = MappingProxyType({}),
    directives: tuple[type[CustomDirective], ...] = (),
    check: Callable[[Any], None] | None = None,
) -> None:
    """Override the syntax and the verification of an operation of xDSL.

    Modules of dialects call it when they are imported. For example, xDSL's `arith.extsi` takes integers only, and

        refine(arith.ExtSIOp, operands=container_of(IntegerType), results=container_of(IntegerType))

    makes it accept vectors and tensors of integers too. The class itself is not changed.

    Args:
        op: Class of the operation.
        assembly_format: Assembly format of the operation; None keeps the syntax, unless `syntax` is given.
        syntax: `parse(cls, parser)` and `print(op, printer)`, as an alternative to an assembly format.
        operands: Constraint of the types of all operands, or name of an operand → constraint of its type. Operands
            without a constraint keep xDSL's.
        results: Constraint of the types of all results; None keeps xDSL's.
        properties: Properties that xDSL's definition lacks.
        attributes: Attributes that xDSL's definition lacks.
        directives: Custom directives of `assembly_format`.
        check: Further verification. With it, or with new constraints or properties, `verify_` of the xDSL class is
            not called; the constraints and the traits are verified.
    """
    known = op.get_irdl_definition()
    definition = replace(
        known,
        operands=_with_constraints(known.operands, operands),
        results=[(name, old if results is None else ResultDef(results)) for name, old in known.results],
        properties={**known.properties, **properties},
        attributes={**known.attributes, **attributes},
        accessor_names={
            **known.accessor_names,
            **{name: (name, "property") for name in properties},
            **{name: (name, "attribute") for name in attributes},
        },
        custom_directives={directive.__name__: directive for directive in directives},
    )
    parse, print = syntax or (None, None)
    if assembly_format is not None:
        format = AssemblyFormat(assembly_format, definition)
        parse, print = format.parse, format.print
    # For new attributes alone xDSL's verifier suffices: it accepts attributes that its definition lacks. It does not
    # accept such properties.
    needs_verifier = check is not None or operands is not None or results is not None or properties
    _REFINED[op] = Refinement(parse, print, _Verification(definition, check) if needs_verifier else None)


def _with_constraints(
    definitions: Sequence[tuple[str, OperandDef]],
    constraints: AttrConstraint[Any] | Mapping[str, AttrConstraint[Any]] | None,
) -> list[tuple[str, OperandDef]]:
    """Return the definitions of operands with other constraints: one for all of them, or some by name."""
    result = []
    for name, definition in definitions:
        constraint: Any = constraints.get(name) if isinstance(constraints, Mapping) else constraints
        result.append((name, definition if constraint is None else OperandDef(constraint)))
    return result


def refinement(op: type[Operation]) -> Refinement | None:
    """Return the refinement of an xDSL operation class; None if it has none."""
    return _REFINED.get(op)
