"""Rewrite part of a `pdl.pattern`: creates operations before the root, and replaces and erases matched ones."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from xdsl.dialects import pdl
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, TensorType, i1, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import AttrSizedOperandSegments, IRDLOperation, OpDef
from xdsl.irdl.constraints import VerificationContext
from xdsl.utils.exceptions import VerifyException

from pydispatch.compiler.match.pdl.match import Bound, constant_of, results_of
from pydispatch.compiler.match.pdl.native import REWRITES
from pydispatch.compiler.match.pdl.pattern import PdlPattern
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.verifier import verify_operation
from pydispatch.ir.core.walk import walk


class Rewriting:
    """Replacement of one match of one PDL pattern.

    `_apply_at` creates it for a match, and calls `run` once, which executes the operations of the `pdl.rewrite` in
    order.

    Attributes:
        pattern: The pattern.
        program: The program.
        bindings: Value of the pattern → operation, value, type or attribute of the program, or a list of these. The
            rewrite adds the values that it creates.
        root: Operation of the program that the root of the pattern matched.
        insertion_point: The operation before which new ones are created: the root, or its successor once it is erased.
    """

    def __init__(self, pattern: PdlPattern, bound: Bound, root: Operation, program: ModuleOp) -> None:
        """Begin the replacement of the match with the bindings `bound`; new operations go before `root`."""
        self.pattern, self.program = pattern, program
        self.bindings = dict(bound)
        self.root = root
        self.insertion_point = root

    def description(self) -> str:
        """Return the names of the native rewrites, or else of the last created operation, for the report."""
        ops = [self.pattern.rewrite, *walk(self.pattern.rewrite.body)]
        native_names = [o.constraint_name.data for o in ops if isinstance(o, pdl.ApplyNativeRewriteOp)]
        if native_names:
            return ", ".join(native_names)
        created_names = [o.opName.data for o in ops if isinstance(o, pdl.OperationOp) and o.opName is not None]
        return created_names[-1] if created_names else ""

    def run(self) -> None:
        """Apply the rewrite. Raises CompileError, located in the spec, if the replacement cannot be created or an
        erased operation is still used.
        """
        rewrite = self.pattern.rewrite
        if rewrite.name_ is not None:  # a native function does the whole rewrite, which has no body
            arguments = [self.get(v) for v in rewrite.external_args]
            if rewrite.root is not None:
                arguments.insert(0, self.root)
            self._native(rewrite.name_.data, arguments, rewrite)
        else:
            for op in rewrite.body.block.ops if rewrite.body.blocks else ():
                handler = _HANDLERS.get(op.name)
                if handler is None:
                    raise CompileError(f"'{op.name}' is not allowed in a rewrite", location_of(op))
                handler(self, op)
        self._erase_unused_root()

    def get(self, value: SSAValue) -> Any:
        """Return the binding of a pattern value, or the constant that the pattern states for it. Raise CompileError if
        there is neither.
        """
        if value in self.bindings:
            return self.bindings[value]
        constant = constant_of(value)
        if constant is None:
            raise CompileError(f"%{value.name_hint or 'value'} is not bound by the pattern", location_of(value))
        return constant

    def values(self, operands: Any) -> list[Any]:
        """Return the bindings of several pattern values; that of a range, such as `!pdl.range<value>`, is a list and
        adds all of its items.
        """
        flat: list[Any] = []
        for operand in operands:
            binding = self.get(operand)
            flat += binding if isinstance(binding, list) else [binding]
        return flat

    def _native(self, name: str, arguments: list[Any], op: Operation) -> list[Any]:
        """Call a native rewrite and return its results; raise CompileError at `op`, its call, for an unknown name."""
        if name not in REWRITES:
            raise CompileError(f"there is no native rewrite '{name}'", location_of(op),
                               f"rewrites: {', '.join(REWRITES)}")  # fmt: skip
        return REWRITES[name](arguments, self.insertion_point, self.program, op)

    def _erase_unused_root(self) -> None:
        """Erase the root if the rewrite left it without uses."""
        if self.root.parent is not None and all(not list(r.uses) for r in self.root.results):
            erase_op(self.root)


def _operation(rewriting: Rewriting, op: pdl.OperationOp) -> None:
    """Execute `pdl.operation` of a rewrite: create an operation at the insertion point, verify and bind it.

    Raises:
        CompileError: The operation is unknown or does not verify, or its result types cannot be inferred.
    """
    from pydispatch import ir

    assert op.opName is not None
    name = op.opName.data
    kind = ir.context().get_optional_op(name)
    if kind is None:
        raise CompileError(f"operation '{name}' is not known", location_of(op))
    # Its operands, result types, attributes and properties.
    operands = rewriting.values(op.operand_values)
    types = rewriting.values(op.type_values) if op.type_values else _inferred(rewriting, op, kind, operands)
    attributes: dict[str, Attribute] = {
        n.data: rewriting.get(v) for n, v in zip(op.attributeValueNames, op.attribute_values, strict=True)
    }
    properties: dict[str, Attribute] = {}
    if issubclass(kind, IRDLOperation):
        properties = _take_properties(kind.get_irdl_definition(), attributes, len(operands), output_count=len(types))
    created = kind.create(operands=operands, result_types=types, properties=properties, attributes=attributes)
    set_location(created, rewriting.root)
    rewriting.insertion_point.parent.insert_op_before(created, rewriting.insertion_point)  # type: ignore[union-attr]
    _verify(created, op)
    rewriting.bindings[op.op] = created


def _verify(created: Operation, op: pdl.OperationOp) -> None:
    """Raise CompileError, at the pattern's operation `op`, if an operation that it has created does not verify."""
    try:
        verify_operation(created)
    except Exception as error:
        text = (str(error).strip().splitlines() or ["it does not verify"])[0]
        raise CompileError(f"the pattern makes a bad '{created.name}': {text}", location_of(op)) from None


def _take_properties(
    definition: OpDef, attributes: dict[str, Attribute], operand_count: int, output_count: int
) -> dict[str, Attribute]:
    """Remove the properties of an operation from `attributes`, and return them, with defaults for absent ones.

    PDL calls both attributes; `definition` states which are properties. An operation with two groups of operands is
    taken to have inputs and outputs, as those of linalg: unless stated, the last `output_count` of its operands are the
    outputs.
    """
    properties = {k: attributes.pop(k) for k in list(attributes) if k in definition.properties}
    for key, prop in definition.properties.items():
        default = getattr(prop, "default_value", None)
        if key not in properties and default is not None:
            properties[key] = default
    states_segments = any(isinstance(o, AttrSizedOperandSegments) for o in definition.options)
    has_inputs_and_outputs = states_segments and len(definition.operands) == 2
    if has_inputs_and_outputs and "operandSegmentSizes" not in properties:
        sizes = [operand_count - output_count, output_count]
        properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, sizes)
    return properties


def _inferred(
    rewriting: Rewriting, op: pdl.OperationOp, kind: type[Operation], operands: list[SSAValue]
) -> list[Attribute]:
    """Infer the result types of an operation to create whose types the pattern does not state.

    In this order: the types of a matched operation that it replaces; for a constant the type of its value; for a
    comparison i1, or a tensor of i1; those that the definition derives from the operands; none if nothing uses it.

    Args:
        rewriting: The rewriting, with the bindings of the match.
        op: The operation to create, in the pattern.
        kind: Class of the operation.
        operands: Operands of the operation.

    Raises:
        CompileError: The types cannot be inferred.
    """
    name = kind.name
    uses = [u.operation for u in op.op.uses]
    replace = next((u for u in uses if isinstance(u, pdl.ReplaceOp)), None)
    if replace is not None:  # its results are to replace those of a matched operation
        return [r.type for r in rewriting.get(replace.op_value).results]
    if name == "arith.constant":
        names = [n.data for n in op.attributeValueNames]
        value = rewriting.get(op.attribute_values[names.index("value")]) if "value" in names else None
        type = getattr(value, "type", None)
        if isinstance(type, Attribute):
            return [type]
    # A comparison, another operation whose definition states the types, or one without results.
    if name in ("arith.cmpi", "arith.cmpf") and operands:
        compared = operands[0].type
        return [TensorType(i1, compared.get_shape()) if isinstance(compared, TensorType) else i1]
    inferred = _types_of_results(kind, operands)
    if inferred is not None:
        return inferred
    if not uses:
        return []
    raise CompileError(f"the result types of '{name}' are not given", location_of(op),
                       "write -> (%type : !pdl.type) after it")  # fmt: skip


def _types_of_results(kind: type[Operation], operands: list[SSAValue]) -> list[Attribute] | None:
    """Return the result types of an operation that its definition derives from those of its operands; None for others.

    The definition of `arith.select` states one type for the result and for operands 1 and 2, that of `tensor.dim` the
    type index. That of `arith.sitofp` does not state which type the result has.
    """
    if not issubclass(kind, IRDLOperation):
        return None
    definition, variables = kind.get_irdl_definition(), VerificationContext()
    if len(definition.operands) != len(operands):
        return None
    for (_, operand), value in zip(definition.operands, operands, strict=True):
        # An operand that does not fit binds no variables. It may be a tensor where the definition states only a scalar,
        # such as the condition of a select.
        with suppress(VerifyException):
            operand.constr.verify((value.type,), variables)
    # The types that the variables of the definition, bound by the operands, determine.
    constraints = [result.constr for _, result in definition.results]
    if not all(c.can_infer(variables.attr_variables, length_known=False) for c in constraints):
        return None
    return [type for c in constraints for type in c.infer(variables, length=None)]


def _result(rewriting: Rewriting, op: pdl.ResultOp | pdl.ResultsOp) -> None:
    """Execute `pdl.result` or `pdl.results`: bind one result of an operation, by its index, or all as a list."""
    parent = rewriting.get(op.parent_)
    results = results_of(op, parent)
    if results is None:
        assert op.index is not None
        raise CompileError(
            f"'{parent.name}' has {len(parent.results)} result(s), asked for number {op.index.value.data}",
            location_of(op),
        )
    rewriting.bindings[op.val] = results


def _range(rewriting: Rewriting, op: pdl.RangeOp) -> None:
    """Execute `pdl.range`: bind the concatenation of values and ranges as a list."""
    rewriting.bindings[op.result] = rewriting.values(op.arguments)


def _replace(rewriting: Rewriting, op: pdl.ReplaceOp) -> None:
    """Execute `pdl.replace`: replace the results of an operation of the program, and erase the operation.

    Raises CompileError if the types of the results differ from those of the replacement.
    """
    target = rewriting.get(op.op_value)
    if op.repl_operation is not None:
        new = list(rewriting.get(op.repl_operation).results)
    else:
        new = rewriting.values(op.repl_values)
    if [v.type for v in new] != [r.type for r in target.results]:
        want, got = (", ".join(str(v.type) for v in vs) for vs in (target.results, new))
        raise CompileError(f"'{target.name}' gives ({want}), its replacement ({got})", location_of(op))
    for old, value in zip(target.results, new, strict=True):
        value.name_hint = value.name_hint or old.name_hint
        old.replace_all_uses_with(value)
    _erase_op(rewriting, target, op)


def _require_attached(target: Operation, op: Operation) -> None:
    """Raise CompileError, located at the operation `op` of the spec, if `target` was replaced or erased before."""
    if target.parent is None:
        raise CompileError(f"'{target.name}' was replaced or erased before", location_of(op),
                           "replace each operation once")  # fmt: skip


def _erase(rewriting: Rewriting, op: pdl.EraseOp) -> None:
    """Execute `pdl.erase`: erase an operation of the program, which must not be used."""
    _erase_op(rewriting, rewriting.get(op.op_value), op)


def _erase_op(rewriting: Rewriting, target: Operation, op: Operation) -> None:
    """Erase `target`, an operation of the program, and move the insertion point if it was there.

    Raises CompileError, located at the operation `op` of the spec, if `target` is still used.
    """
    _require_attached(target, op)
    if any(list(r.uses) for r in target.results):
        raise CompileError(f"'{target.name}' is erased, but its result is still used", location_of(op),
                           "replace it, or erase its users first")  # fmt: skip
    if target is rewriting.insertion_point:
        following = target.next_op
        assert following is not None
        rewriting.insertion_point = following
    erase_op(target)


def _apply(rewriting: Rewriting, op: pdl.ApplyNativeRewriteOp) -> None:
    """Execute `pdl.apply_native_rewrite`: call a native rewrite by name, and bind its results."""
    results = rewriting._native(op.constraint_name.data, [rewriting.get(v) for v in op.args], op)
    # Surplus results of the native function are dropped.
    for result, value in zip(op.res, results, strict=False):
        rewriting.bindings[result] = value


def _require_bound(rewriting: Rewriting, op: Any) -> None:
    """Execute `pdl.type`, `pdl.types` or `pdl.attribute`: raise CompileError if it is neither constant nor bound."""
    rewriting.get(op.results[0])


_HANDLERS: dict[str, Callable[[Rewriting, Any], None]] = {
    "pdl.operation": _operation, "pdl.result": _result, "pdl.results": _result, "pdl.range": _range,
    "pdl.replace": _replace, "pdl.erase": _erase, "pdl.apply_native_rewrite": _apply, "pdl.type": _require_bound,
    "pdl.types": _require_bound, "pdl.attribute": _require_bound,
}  # fmt: skip
"""Name of an operation in a rewrite part → function that executes it."""
