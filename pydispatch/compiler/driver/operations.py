"""Every operation that the compiler supports, read from its tables: the last chapter of docs/language.md.

`make lists` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable

HEADING = "## Every operation"


def chapter() -> str:
    """Return the chapter of docs/language.md that lists every operation, as Markdown."""
    from pydispatch.compiler.emit.llvm.emitter import lowerings
    from pydispatch.compiler.host.operations import host_operations
    from pydispatch.compiler.kernel_ir.expand import expand, integers
    from pydispatch.compiler.tensor_ops.registry import rules_by_name

    kernel = {*lowerings(), *expand.RULES, *integers.RULES}  # names of operations
    tensors = [name for name, rule in rules_by_name().items() if name and _has_result_computed_by_dispatch(rule)]
    scalars = {name for name in kernel if name.startswith(("arith.", "math."))}
    groups = {
        "On tensors, in dispatches (after the rewrites above; also `arith` and `math` on tensors)": tensors,
        "On elements, in bodies of tensor operations and in kernels": scalars,
        "Also in kernels": kernel - scalars,
        "In host code": host_operations(),
    }
    parts = [HEADING, "", "Generated from the compiler's tables. Any other operation is an error with its location."]
    for title, names in groups.items():
        parts += ["", f"{title}:", *_by_dialect(names)]
    return "\n".join(parts) + "\n"


def _has_result_computed_by_dispatch(rule: object) -> bool:
    """Return whether dispatches compute the result of a rule's operation, unlike that of `flow.dispatch`, host code.

    Such a rule overrides `element`, or its operation has a kernel for the whole result.
    """
    from pydispatch.compiler.tensor_ops.rule import TensorOp, Update
    from pydispatch.compiler.tensor_ops.rules.recurrences import Recurrence, TopK

    has_own_kernel = isinstance(rule, Update | Recurrence | TopK)
    return has_own_kernel or type(rule).element is not TensorOp.element  # type: ignore[attr-defined]


def _by_dialect(names: Iterable[str]) -> list[str]:
    """Return a line of Markdown for each dialect, with its operations: "- `arith`: `addf` `addi`"."""
    dialects: dict[str, list[str]] = {}
    for name in sorted(names):
        dialect, _, rest = name.partition(".")
        dialects.setdefault(dialect, []).append(rest)
    return [
        f"- `{dialect}`: {' '.join(f'`{name}`' for name in operations)}" for dialect, operations in dialects.items()
    ]
