"""Contents of a model before compilation: functions, weights, and operations that need a kernel of the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def describe(path: Path, results: Mapping[str, Sequence[str]] = {}) -> dict[str, Any] | None:
    """Return the functions, weights and custom operations of a model; None if no frontend reads the file.

    A custom operation is one that needs a kernel of the user.

    Example:
        {"functions": [{"name": "main", "inputs": [{"name": "x", "type": "f32[n, 4]"}], "outputs": [...]}],
         "weights": [{"name": "w", "type": "tensor<4xf32>"}],
         "custom": {"mylib::swish": "(tensor<?x4xf32>) -> (tensor<?x4xf32>), assumed"}}

    Args:
        path: The file.
        results: Declared result types of custom operations, by operation (`CustomOperation.results`). An
            undeclared type is assumed to be that of the first operand.

    Raises:
        CompileError: The model is broken.
    """
    try:
        from pydispatch.compiler.driver.sources import reader_of
        from pydispatch.frontends.source import ReadOptions
    except ImportError:  # without the compiler there are artifacts alone
        return None
    frontend = reader_of(path)
    if frontend is None:
        return None
    from pydispatch.patterns.kernels import CustomOperation

    # Without kernels (None): only the stated result types matter for a description.
    stated = {name: CustomOperation(None, list(types)) for name, types in results.items()}
    module = frontend.read(path, ReadOptions(kernels=stated, assumes_types=True))
    functions, weights = _declared(module)
    return {"functions": functions, "weights": weights, "custom": _custom_operations(module)}


def _declared(module: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the functions of a module as {"name", "inputs", "outputs"}, and its weights as {"name", "type"}.

    Inputs and outputs are lists of {"name", "type"}; all names and types are text.
    """
    from xdsl.dialects import func
    from xdsl.dialects.builtin import ShapedType

    from pydispatch.ir.dialects.util.dialect import GlobalOp

    functions, weights = [], []
    for op in module.body.block.ops:
        if isinstance(op, func.FuncOp):
            functions.append({"name": op.sym_name.data, "inputs": _values(op.function_type.inputs, op.arg_attrs),
                              "outputs": _values(op.function_type.outputs, op.res_attrs)})  # fmt: skip
        elif isinstance(op, GlobalOp) and isinstance(op.type, ShapedType):
            weights.append({"name": op.sym_name.data.removeprefix("weight."), "type": str(op.type)})
    return functions, weights


def _custom_operations(module: Any) -> dict[str, str]:
    """Return the signatures of a module's custom operations, such as "(tensor<4xf32>) -> (tensor<4xf32>)", by name.

    ", assumed" follows a signature whose result types are assumed, because nothing states them.
    """
    from xdsl.dialects.builtin import ShapedType

    from pydispatch.ir.dialects.pyd.custom import CustomOp
    from pydispatch.operations.custom import ASSUMED

    custom = {}
    for op in module.walk():
        if isinstance(op, CustomOp):
            types = ", ".join(str(v.type) for v in op.arguments if isinstance(v.type, ShapedType))
            signature = f"({types}) -> ({', '.join(str(r.type) for r in op.results_)})"
            custom[op.callee.data] = f"{signature}, assumed" if ASSUMED in op.attributes else signature
    return custom


def _values(types: Any, attributes: Any) -> list[dict[str, Any]]:
    """Return the names and types of arguments or results as text.

    Args:
        types: The type of each.
        attributes: The list of their attribute dictionaries, `arg_attrs` or `res_attrs`; None without attributes.
    """
    values = []
    for index, type in enumerate(types):
        # Frontends state the name of a value in the model, and its shape with the names of dynamic sizes.
        stated = attributes.data[index].data if attributes is not None else {}
        name = stated["pyd.name"].data if "pyd.name" in stated else f"{index}"
        shape = [n.data for n in stated["pyd.shape"].data] if "pyd.shape" in stated else None
        text = str(type) if shape is None else f"{type.element_type}[{', '.join(shape)}]"
        values.append({"name": name, "type": text})
    return values


def render(path: str, facts: dict[str, Any]) -> str:
    """Return what `describe` returned for the model at `path` as text."""
    lines = [f"{path}: a model"]
    for function in facts["functions"]:
        lines += ["", f"function {function['name']}"]
        for kind in ("input", "output"):
            lines += [f"  {kind:6} {value['name']}: {value['type']}" for value in function[f"{kind}s"]]
    lines += ["", f"weights: {len(facts['weights'])}", *(f"  {w['name']}: {w['type']}" for w in facts["weights"])]
    if facts["custom"]:
        lines += ["", "custom operations, which need a kernel: compile(..., kernels={name: ...})"]
        lines += [f"  {name} {types}" for name, types in facts["custom"].items()]
    if any(types.endswith(", assumed") for types in facts["custom"].values()):
        lines += ["", "assumed: the model does not state these results; state them with --results NAME=TYPE, in Python "
                  "with pydispatch.CustomOperation"]  # fmt: skip
    return "\n".join(lines)
