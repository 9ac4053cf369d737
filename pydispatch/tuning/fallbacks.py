"""Tunables of dispatches that call imported functions with generated fallbacks."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.kernel_ir.calls import import_symbol, is_import
from pydispatch.compiler.kernel_ir.fallbacks import FALLBACK
from pydispatch.compiler.kernel_ir.readers import op_name, symbol
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.functions import CALLS, symbol_name
from pydispatch.tuning.dispatches import DispatchTunable


class FallbackTunable(DispatchTunable):
    """Export that calls external functions with fallbacks: functions with a body that replace them if they are missing.

    Example: an executable declares `func.func private @twice(f32) -> f32 attributes {hal.import.fallback = @slow}`, has
    the body of `@slow`, and its export calls `@twice`. The two configurations are "calls twice", the default, and
    "calls slow", in which the calls of `@twice` are replaced by calls of `@slow`.

    An external function is an import, which a device provides when it loads the program, or is linked from an object
    file at compile time. `default` is "" if the export calls no function with a fallback.
    """

    def __init__(self, executable: Operation, export: str, uses: Sequence[flow.DispatchOp]) -> None:
        """Find the functions with fallbacks that the export calls. For the arguments see `DispatchTunable`."""
        super().__init__(executable, export, uses)
        declared = _functions_with_fallbacks(executable)
        called = {name for call in _calls(executable, export) if (name := symbol(call, "callee")) in declared}
        # Functions that are linked at compile time are no imports: they cannot be missing when the program is loaded.
        self.needed_imports = [import_symbol(declared[name]) for name in called if is_import(declared[name])]
        # The two configurations: calls of these functions ("" if there are none), and of their fallbacks.
        self.default = f"calls {', '.join(sorted(import_symbol(declared[name]) for name in called))}" if called else ""
        self._generated = f"calls {', '.join(sorted({symbol(declared[name], FALLBACK) for name in called}))}"

    def neighbours(self, config: str) -> Sequence[str]:
        """Return both configurations, whichever `config` is the best so far."""
        return [self.default, self._generated]

    def is_legal(self, config: str) -> bool:
        """Return whether a name, which may be read from a file, is one of the two configurations."""
        return config in (self.default, self._generated)

    def prepare(self, executable: Operation, config: str) -> None:
        """Make the calls of the function `subject` use generated fallbacks instead of imports, unless `config` is the
        default. Erase the declarations of imports that nothing calls any more.
        """
        if config == self.default:
            return
        declared = _functions_with_fallbacks(executable)
        for call in _calls(executable, self.subject):
            if (name := symbol(call, "callee")) in declared:
                call.properties["callee"] = SymbolRefAttr(symbol(declared[name], FALLBACK))
        for name, function in declared.items():
            if not any(symbol(op, "callee") == name for op in walk(executable) if op_name(op) in CALLS):
                function.detach()
                function.erase()


def _functions_with_fallbacks(executable: Operation) -> dict[str, FuncOp]:
    """Return the functions of an executable that have fallbacks, by name: imported functions, unless they were linked
    at compile time.
    """
    functions = (op for op in walk(executable) if isinstance(op, FuncOp))
    return {symbol_name(f): f for f in functions if FALLBACK in f.attributes}


def _calls(executable: Operation, export: str) -> list[Operation]:
    """Return the calls in the function of an export: the one that its `.export` operation names in `function_ref`, else
    the function with the name of the export.
    """
    named = next((op for op in walk(executable) if op.name.endswith(".export") and symbol_name(op) == export), None)
    reference = None if named is None else named.properties.get("function_ref", named.attributes.get("function_ref"))
    name = reference.data if isinstance(reference, StringAttr) else export
    if isinstance(reference, SymbolRefAttr):
        name = reference.root_reference.data
    functions = (op for op in walk(executable) if isinstance(op, FuncOp) and symbol_name(op) == name)
    return [op for function in functions for op in walk(function) if op_name(op) in CALLS]
