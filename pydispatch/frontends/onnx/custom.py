"""Nodes of an ONNX model that are computed by kernels of the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from xdsl.ir import Block

from pydispatch.frontends.kernel_hints import missing_operator
from pydispatch.frontends.onnx import model
from pydispatch.frontends.onnx.call import type_of
from pydispatch.frontends.onnx.declarations import declared_type
from pydispatch.frontends.onnx.scope import Values
from pydispatch.frontends.source import ReadOptions
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DType
from pydispatch.graph.sizes import Shape, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations.custom import custom_call, result_types
from pydispatch.suggestions import close_matches


class CustomCallContext(Protocol):
    """Interface of the tracer that calls of user kernels need."""

    builder: Builder
    options: ReadOptions


class UserKernels:
    """Names of the kernels that the user supplies, with a record of which ones the model's nodes use.

    The names are those of operators, with a domain prefix `domain::` except for ai.onnx: "Conv", "com.acme::Norm". The
    tracer of a model creates one instance, calls `named` for each node, and `hints` after the last node.
    """

    def __init__(self, names: Mapping[str, Any]) -> None:
        """Index the names that the user passed by the names that the model has for the operators.

        The user may write "ai.onnx::Conv" or "::Conv" for what is "Conv" in the model.
        """
        self._names = {_without_default_domain(name): name for name in names}  # name as in the model → the user's name
        self._used: set[str] = set()  # names as in the model
        self._seen: dict[str, str] = {}  # operator of the model → name of the first node with it

    def named(self, domain: str, node: model.NodeProto, layer: str) -> str | None:
        """Return the user's name of the kernel for a node and mark the kernel as used; None if there is no kernel.

        `layer` is the node's name. It is recorded for `hints`, which suggests operators with similar names for a kernel
        that no node uses.
        """
        name = kernel_name(domain, node)
        if self._names:
            self._seen.setdefault(name, layer)
        if name not in self._names:
            return None
        self._used.add(name)
        return self._names[name]

    def hints(self) -> dict[str, str]:
        """Return the reason why no node uses a supplied kernel, for each such kernel by the user's name of it."""
        unused = {name: spelling for name, spelling in self._names.items() if name not in self._used}
        return {spelling: missing_operator(name, self._seen) for name, spelling in unused.items()}


def kernel_name(domain: str, node: model.NodeProto) -> str:
    """Return the key in `kernels` for a node's operator: `domain::op_type`, without a prefix for ai.onnx."""
    return f"{domain}::{node.op_type}" if domain else node.op_type


def _without_default_domain(name: str) -> str:
    """Remove the prefix of the domain ai.onnx from an operator's name."""
    return name.removeprefix("ai.onnx::").removeprefix("::")


def call(
    tracer: CustomCallContext,
    name: str,
    node: model.NodeProto,
    operands: Sequence[Tensor | None],
    attributes: Mapping[str, model.AttributeProto],
    values: Values,
    convert: Callable[[], Sequence[Tensor | None]] | None,
) -> list[Tensor | None]:
    """Emit a call of a user kernel in place of a node and return the results; None for an output without a name.

    The kernel has the operands and the results that the node names, in their order. The types of the results come from
    the first of these sources that exists:
        1. The types that the user states with the kernel, such as `CustomOperation(kernel, results=["in0"])`.
        2. The types of the results of `convert`, which is not used otherwise.
        3. The types that the graph declares for the outputs of the node.
        4. The type of the first operand, if the options allow this assumption.

    Args:
        tracer: Tracer of the model.
        name: Name of the kernel, as the user spells it.
        node: The node.
        operands: Its operands; None for an omitted one.
        attributes: Its attributes by name. Single integers and floats are passed to the kernel, others are ignored.
        values: Values of the graph, with the types that it declares.
        convert: Emits the operator that the kernel replaces; None for an operator of a domain without conversions.
    """
    present = [x for x in operands if x is not None]
    names = [key for key in node.input if key]
    outputs = [key for key in node.output if key]

    # The types of the results.
    results: Sequence[tuple[DType, Shape]] | None
    # A stated type such as "in0" is that of an operand: in0, in1, ... or the name of the operand's value in the model
    # (`other_names`). `names` is empty because ONNX has no names for the operands of a kernel.
    results = result_types(tracer.builder, tracer.options.kernels, name, present, names=(), other_names=names)
    assumed = False
    if results is None:
        converted = {} if convert is None else _types_of(tracer, convert, node.output)
        stated = [converted.get(key) or _declared_result(tracer, key, operands, values) for key in outputs]
        assumed = None in stated  # whether neither a conversion nor the graph states the type of some result
        if assumed and not (tracer.options.assumes_types and present):
            raise _undeclared_result(tracer, name, outputs[stated.index(None)], present)
        results = [(present[0].dtype, present[0].shape) if type_ is None else type_ for type_ in stated]
    if len(results) != len(outputs):
        raise tracer.builder.fail(f"'{name}' has {len(outputs)} results here, the user states {len(results)}")

    # The call. A kernel may have parameters of the names of numeric attributes, and of the tensors in the model.
    numbers = {a.name: a.f if type_of(a) == "f" else a.i for a in attributes.values() if type_of(a) in ("f", "i")}
    model_names = [*names, *outputs]
    computed = custom_call(tracer.builder, name, present, results, numbers, other_names=model_names, is_assumed=assumed)
    by_name = dict(zip(outputs, computed, strict=True))
    return [by_name.get(key) for key in node.output]


def _types_of(
    tracer: CustomCallContext, convert: Callable[[], Sequence[Tensor | None]], outputs: Sequence[str]
) -> dict[str, tuple[DType, Shape]]:
    """Return the types of the results of an operator, by emitting it into a block that is discarded.

    `outputs` are the names of the results. A result that the conversion does not support has no type.
    """
    with tracer.builder.inside(Block()):
        tensors = convert()
    return {key: (x.dtype, x.shape) for key, x in zip(outputs, tensors, strict=False) if x is not None}


def _declared_result(
    tracer: CustomCallContext, output: str, operands: Sequence[Tensor | None], values: Values
) -> tuple[DType, tuple[Size, ...]] | None:
    """Return the type that the graph declares for a result; None if it declares none or the rank is unknown."""
    info = values.stated.get(output)
    if info is None:
        return None
    dtype, shape = declared_type(tracer.builder, info)
    return None if shape is None else (dtype, tuple(_size_named(tracer, n, operands) for n in shape))


def _undeclared_result(tracer: CustomCallContext, name: str, output: str, operands: Sequence[Tensor]) -> Exception:
    """Return the error that neither graph nor user states the type of `output`, a result of the operation `name`."""
    types = ", ".join(map(str, operands))
    names = {spelling.rpartition("::")[2].lower(): spelling for spelling in tracer.options.kernels}
    like = close_matches(name.rpartition("::")[2].lower(), names, most=1, cutoff=0.7)
    hint = f". A kernel is given for '{names[like[0]]}', which is another name" if like else ""
    return tracer.builder.fail(
        f"the model does not state the type of '{output}', a result of the custom operation '{name}' of {types}",
        f'state it with the kernel: kernels={{"{name}": pydispatch.CustomOperation(kernel, results=["in0"])}}, on the '
        f"command line: --results {name}=in0, or in the graph's value_info; in0 is the type of the first operand{hint}",
    )


def _size_named(tracer: CustomCallContext, n: int | str, operands: Sequence[Tensor | None]) -> Size:
    """Return a declared size: a number itself, or the operand size with the symbolic name `n`.

    Raise CompileError if no operand has a size of this name.
    """
    if isinstance(n, int):
        return n
    known = {str(m): m for x in operands if x is not None for m in x.shape}
    if n not in known:
        raise tracer.builder.fail(f"the size '{n}' of its result is that of no operand")
    return known[n]
