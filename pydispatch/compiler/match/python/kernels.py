"""Text of functions that run a kernel written in Python in place of a match."""

from __future__ import annotations

import re

from pydispatch.compiler.match.python.signature import MatchSignature
from pydispatch.errors import CompileError
from pydispatch.kernels.kernel import KernelSource
from pydispatch.kernels.module import EXECUTABLE
from pydispatch.locations import GeneratedText
from pydispatch.patterns.types import TensorType

_TENSOR = re.compile(r"tensor<((?:(?:\?|\d+)x)*)(\w+)>")
"""Tensor type as text: its sizes, each followed by x, and its element type."""


def dispatch_of_kernel(name: str, kernel: KernelSource, signature: MatchSignature) -> GeneratedText:
    """Generate the text of a function that runs a kernel in place of a match.

    The function has the symbol NAME, and the executable of the kernel NAME_kernel. The caller replaces both by unique
    symbols.

    The kernel's parameters have the names of the pattern's inputs and outputs. For a parameter x, the text has the
    value %in_x (an input) or %empty_x (an output before the kernel runs), %a_x of the kernel's type, and for an output
    %r_x, the kernel's result, and %result_x of the pattern's type. For a kernel with the parameters `x: f32["n"]` and
    `out: f32[4]`, and a pattern with the input `x: f32["n"]` and an output of type f32[4]:

        stream.executable private @NAME_kernel {...}
        util.func private @NAME(%in_x: tensor<?xf32>) -> (tensor<4xf32>) {
          %axis_n = arith.constant 0 : index
          %size_n = tensor.dim %in_x, %axis_n : tensor<?xf32>
          %a_x = tensor.cast %in_x : tensor<?xf32> to tensor<?xf32>
          %empty_out = tensor.empty() : tensor<4xf32>
          %a_out = tensor.cast %empty_out : tensor<4xf32> to tensor<4xf32>
          ... (the dispatch of the kernel, which defines %r_out)
          util.return %r_out : tensor<4xf32>
        }

    Raises CompileError, with the pattern's name `name`, if parameters or types of the kernel do not fit.
    """
    lowered = kernel.lowered()  # MLIR text whose lines read %a_... of each parameter, and define %r_... of each output
    outputs = _outputs_in_kernel(signature, [parameter for parameter, _ in lowered.arguments])
    lines = signature.size_lines()
    for parameter, type in lowered.arguments:
        lines += _argument_lines(name, kernel, signature, outputs, parameter, type)
    lines += lowered.body
    written = dict(lowered.results)  # output that the kernel writes -> its type in the kernel
    for output in outputs:
        if output not in written:
            raise CompileError(
                f"pattern '{name}': kernel '{kernel.name}' does not write '{output}', a result of the pattern",
                note=f"give it a view '{output}' and store into it",
            )
    casts = {output: t.mlir for output, t in outputs.items() if written[output] != t.mlir}
    lines += [f"%result_{n} = tensor.cast %r_{n} : {written[n]} to {type}" for n, type in casts.items()]
    values = [f"%result_{output}" if output in casts else f"%r_{output}" for output in outputs]
    arguments = ", ".join(f"%{'size' if signature.is_size(n) else 'in'}_{n}: {t.mlir}" for n, t in signature.inputs)
    result_types = ", ".join(type.mlir for type in outputs.values())
    body = "\n  ".join([*lines, f"util.return {', '.join(values)} : {result_types}"])
    function = f"util.func private @NAME({arguments}) -> ({result_types}) {{\n  {body}\n}}\n"
    text = "\n".join([*lowered.executable, function])
    return GeneratedText(text.replace(EXECUTABLE, "@NAME_kernel"))  # EXECUTABLE: its symbol in `lowered`


def _outputs_in_kernel(signature: MatchSignature, parameters: list[str]) -> dict[str, TensorType]:
    """Return the types of the pattern's outputs by the names that the kernel, with these parameters, uses for them.

    The pattern calls its only output `out`; a kernel may call it `out0`, or by an alias of the signature.
    """
    kernel_names = {signature.name_of(p): p for p in parameters if p in signature.aliases}  # pattern's name → kernel's
    if "out0" in parameters:
        kernel_names["out"] = "out0"
    return {kernel_names.get(name, name): type for name, type in signature.outputs}


def _argument_lines(
    name: str,
    kernel: KernelSource,
    signature: MatchSignature,
    outputs: dict[str, TensorType],
    parameter: str,
    type: str,
) -> list[str]:
    """Return the operations that define %a_..., the value of a kernel's parameter: an input, a size or an empty output.

    The input x of type f32["n"] gives the line `%a_x = tensor.cast %in_x : tensor<?xf32> to tensor<?xf32>`. An output
    `out` of this type gives two lines:

        %empty_out = tensor.empty(%size_n) : tensor<?xf32>
        %a_out = tensor.cast %empty_out : tensor<?xf32> to tensor<?xf32>

    Args:
        name: Name of the pattern, for errors.
        kernel: The kernel, for errors.
        signature: The pattern's inputs and the other names by which a kernel may call them.
        outputs: Name of an output in the kernel -> its type in the pattern.
        parameter: Name of the parameter.
        type: Its type in the kernel, as MLIR text.

    Raises:
        CompileError: The pattern has no value of this name, or its element type or rank differs.
    """
    inputs = dict(signature.inputs)
    pattern_name = parameter if parameter in outputs else signature.name_of(parameter)
    is_size = parameter not in outputs and pattern_name in signature.sizes
    if is_size:
        return _converted(name, kernel, parameter, f"%size_{pattern_name}", TensorType("index", None), type)
    declared = outputs.get(pattern_name, inputs.get(pattern_name))
    if declared is None:
        names = ", ".join(dict.fromkeys([*inputs, *outputs, *signature.sizes, *signature.aliases]))
        raise CompileError(
            f"pattern '{name}': kernel '{kernel.name}' has a parameter '{parameter}', the pattern {names}",
            note="call the kernel's parameters like the inputs of the pattern, and 'out', or 'out0', 'out1', ...",
        )
    if parameter not in outputs:
        return _converted(name, kernel, parameter, f"%in_{pattern_name}", declared, type)
    # An output: an empty tensor with its sizes, which the kernel writes.
    empty = f"%empty_{parameter}"
    sizes = ", ".join(f"%size_{size}" for size in declared.shape or () if not isinstance(size, int))
    lines = [f"{empty} = tensor.empty({sizes}) : {declared.mlir}"]
    return [*lines, *_converted(name, kernel, parameter, empty, declared, type)]


def _converted(
    name: str, kernel: KernelSource, parameter: str, value: str, declared: TensorType, type: str
) -> list[str]:
    """Return the operations that convert a value of the pattern to the type of the kernel's parameter.

    Types may differ in sizes that only one of them states: `%a_x = tensor.cast %in_x : tensor<?xf32> to tensor<4xf32>`.
    Without a difference, an operation only gives the value the name %a_x.

    Args:
        name: Name of the pattern, for the error.
        kernel: The kernel.
        parameter: Name of its parameter; the result is %a_ and this name.
        value: SSA name of the value.
        declared: Type of the value.
        type: Type of the parameter, as MLIR text.

    Raises:
        CompileError: The element type or rank differs.
    """
    if declared.shape is None:
        fits = type == declared.dtype
    else:
        tensor = _TENSOR.fullmatch(type)  # tensor<4x?xf32>: group 1 is "4x?x", with an x for each dimension
        fits = tensor is not None and tensor[2] == declared.dtype and tensor[1].count("x") == len(declared.shape)
    if not fits:
        raise CompileError(
            f"pattern '{name}': parameter '{parameter}' of kernel '{kernel.name}' is {type}, in the pattern {declared}",
            note="give both the same element type and as many dimensions",
        )
    # An index, another scalar, or a tensor.
    if declared.dtype == "index" and declared.shape is None:  # `arith.bitcast` of an index does not exist
        return [
            f"%i_{parameter} = arith.index_cast {value} : index to i64",
            f"%a_{parameter} = arith.index_cast %i_{parameter} : i64 to index",
        ]
    if declared.shape is None:  # not converted: the operation only gives it the name %a_...
        return [f"%a_{parameter} = arith.bitcast {value} : {type} to {type}"]
    return [f"%a_{parameter} = tensor.cast {value} : {declared.mlir} to {type}"]
