"""Signatures of the kernels that replace matches: their inputs, outputs and sizes, with the names that kernels use."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import IndexType
from xdsl.dialects.builtin import TensorType as IrTensor
from xdsl.ir import SSAValue

from pydispatch.compiler.match.graph.matches import Match
from pydispatch.errors import CompileError
from pydispatch.ir.dialects.pyd.custom import CustomOp
from pydispatch.ir.structured import as_structured
from pydispatch.patterns import Pattern
from pydispatch.patterns.types import Size, TensorType

OWN_ARGUMENT = -1
"""Value in place of the axis in `MatchSignature.sizes` for a size that is itself an input, not read from a tensor."""


@dataclass
class MatchSignature:
    """Inputs and outputs of a kernel that replaces a match.

    `signature_of` creates it. For a pattern of the row sums of `x: f32["n", None]`, the inputs are
    [("x", f32[n, x_size1])], the outputs [("out", f32[n])], and the sizes {"n": ("x", 0), "x_size1": ("x", 1)}.

    Attributes:
        inputs: (name, type) of each input.
        outputs: (name, type) of each output.
        sizes: Name of a dynamic size → (input, axis) that has it, in order of first use. The axis is OWN_ARGUMENT if
            the input is itself the size.
        aliases: Alternative name that kernels may use for an input, output or size → its name here.
    """

    inputs: list[tuple[str, TensorType]]
    outputs: list[tuple[str, TensorType]]
    sizes: dict[str, tuple[str, int]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    @property
    def tensors(self) -> list[tuple[str, TensorType]]:
        """The inputs that are tensors."""
        return [(n, t) for n, t in self.inputs if t.shape is not None]

    @property
    def scalars(self) -> list[tuple[str, TensorType]]:
        """The inputs that are neither tensors nor sizes."""
        return [(n, t) for n, t in self.inputs if t.shape is None and not self.is_size(n)]

    def is_size(self, input: str) -> bool:
        """Return whether an input is itself a size: a number that is passed to the kernel, not read from a tensor."""
        return self.sizes.get(input) == (input, OWN_ARGUMENT)

    def name_of(self, kernel_name: str) -> str:
        """Return the name in this signature of a value that a kernel calls `kernel_name`; an unknown name as it is."""
        own_names = {name for name, _ in (*self.inputs, *self.outputs)} | self.sizes.keys()
        return kernel_name if kernel_name in own_names else self.aliases.get(kernel_name, kernel_name)

    def size_lines(self) -> list[str]:
        """Return the operations that define %size_... for each size that is read from a tensor %in_..., as text."""
        inputs, lines = dict(self.inputs), []
        for size, (tensor, axis) in self.sizes.items():
            if axis != OWN_ARGUMENT:  # else the size is itself an argument of the function, which is called %size_...
                lines.append(f"%axis_{size} = arith.constant {axis} : index")
                lines.append(f"%size_{size} = tensor.dim %in_{tensor}, %axis_{size} : {inputs[tensor].mlir}")
        return lines

    def dims(self, type: TensorType) -> str:
        """Return the dynamic sizes of a type in the notation of `flow.dispatch`, `{%size_n, %size_m}`; "" for none."""
        operands = [f"%size_{s}" for s in type.shape or () if not isinstance(s, int)]
        return f"{{{', '.join(operands)}}}" if operands else ""


def signature_of(
    pattern: Pattern, inputs: list[SSAValue], outputs: list[SSAValue], match: Match, names_static_sizes: bool = True
) -> MatchSignature:
    """Return the signature of a match: as a custom operation or the pattern declares it, or for a matcher function from
    the matched values.

    A signature has the name and type of each input and output, and the input axis that each named size is read from.

    Args:
        pattern: The pattern.
        inputs: The matched inputs.
        outputs: The matched outputs.
        match: The match.
        names_static_sizes: Whether static sizes of a custom operation's inputs get names, too, so that kernels can
            query them.

    Raises:
        CompileError: An output has a named size that no input has.
    """
    if isinstance(match.root, CustomOp):
        return _custom_signature(match.root, names_static_sizes)
    is_matcher_function = pattern.match_op is not None
    if is_matcher_function:
        input_types = [(f"in{i}", _type_of_value(f"in{i}", v)) for i, v in enumerate(inputs)]
        output_types = [_result_type(v, match) for v in outputs]
    else:
        input_types = [(n, _with_named_sizes(n, t)) for n, t in pattern.inputs]
        output_types = [v.type for v in pattern.outputs]
    names = ["out"] if len(output_types) == 1 else [f"out{i}" for i in range(len(output_types))]
    signature = MatchSignature(input_types, list(zip(names, output_types, strict=True)))
    # The named sizes, from the first axis that has each.
    for name, type in signature.inputs:
        for axis, size in enumerate(type.shape or ()):
            if isinstance(size, str):
                signature.sizes.setdefault(size, (name, axis))
    for name, type in signature.outputs:
        for size in type.shape or ():
            if not isinstance(size, int) and size not in signature.sizes:
                raise CompileError(f"pattern '{pattern.name}': size {size} of {name} is a size of no input",
                                   note="name the size in an input, or give it as a number")  # fmt: skip
    return signature


def _custom_signature(op: CustomOp, names_static_sizes: bool) -> MatchSignature:
    """Return the signature that a custom operation declares.

    An input x of type tensor<?x8xf32> whose first size the operation calls n has the type f32[n, 8], or f32[n, x_size1]
    with `names_static_sizes`, by which a static size gets a name in place of its number.
    """
    names = [name.data for name in op.operand_names.data]
    signature = MatchSignature(inputs=[], outputs=[])
    # The inputs: a size, another scalar, or a tensor; `setdefault` reads a size from the first axis that has it.
    for index, (name, value) in enumerate(zip(names, op.arguments, strict=True)):
        if isinstance(value.type, IndexType):  # an input that is itself a size
            signature.sizes[name] = (name, OWN_ARGUMENT)
            signature.inputs.append((name, TensorType("index", None)))
            continue
        if not isinstance(value.type, IrTensor):
            signature.inputs.append((name, TensorType(str(value.type), None)))
            continue
        sizes: list[Size] = []
        for axis, size_text in enumerate(op.sizes_of(index)):  # a number, or the name of a size
            is_static = size_text.isdecimal()
            if is_static and not names_static_sizes:
                sizes.append(int(size_text))
                continue
            size_name = f"{name}_size{axis}" if is_static else size_text
            sizes.append(size_name)
            signature.sizes.setdefault(size_name, (name, axis))
        signature.inputs.append((name, TensorType(str(value.type.element_type), tuple(sizes))))
    # The outputs, whose sizes follow those of the inputs in `sizes_of`.
    for index, value in enumerate(op.results_):
        assert isinstance(value.type, IrTensor)
        name = "out" if len(op.results_) == 1 else f"out{index}"
        shape = tuple(int(n) if n.isdecimal() else n for n in op.sizes_of(len(names) + index))
        signature.outputs.append((name, TensorType(str(value.type.element_type), shape)))
    signature.aliases = _aliases(op, [*signature.inputs, *signature.outputs])
    return signature


def _aliases(op: CustomOp, values: list[tuple[str, TensorType]]) -> dict[str, str]:
    """Return the further names that kernels may use for values of a custom operation and their sizes.

    A model may give an input or output a name of its own (`other_names`, "" for none). A named size along axis 1 of
    `x`, which the model calls `image`, may be called `x_size1` and `image_size1`.

    values: (name, type) of each input, then of each output.
    """
    aliases: dict[str, str] = {}
    names_in_model = [name.data for name in op.other_names or ()] or [""] * len(values)
    for name_in_model, (name, type) in zip(names_in_model, values, strict=True):
        if name_in_model:
            aliases[name_in_model] = name
        for axis, size in enumerate(type.shape or ()):
            if isinstance(size, str):
                aliases |= {f"{owner}_size{axis}": size for owner in (name_in_model, name) if owner}
    return aliases


def _with_named_sizes(name: str, type: TensorType) -> TensorType:
    """Return a type whose unnamed dynamic sizes are named after the input."""
    if type.shape is None:
        return type
    return TensorType(type.dtype, tuple(f"{name}_size{i}" if s is None else s for i, s in enumerate(type.shape)))


def _type_of_value(name: str, value: SSAValue) -> TensorType:
    """Return the type of a matched value, whose dynamic sizes are named after the input."""
    if not isinstance(value.type, IrTensor):
        return TensorType(str(value.type), None)
    shape = tuple(s if s >= 0 else f"{name}_size{i}" for i, s in enumerate(value.type.get_shape()))
    return TensorType(str(value.type.element_type), shape)


def _result_type(value: SSAValue, match: Match) -> TensorType:
    """Return the type of a matched result; its dynamic sizes are named after the inputs that have them.

    The size of axis 1 of input 0 has the name in0_size1. A transposition of input 0, a tensor<?x?xf32>, has a result of
    type f32[in0_size1, in0_size0]. Axes of a result and an input have the same size if the same loop of the `linalg`
    operation runs along both.
    """
    assert isinstance(value.type, IrTensor)
    shape: list[Size] = list(value.type.get_shape())
    structure = as_structured(match.root)
    for axis, size in enumerate(shape):
        if isinstance(size, int) and size >= 0:
            continue
        # If no input has the size, this text remains, and `signature_of` raises CompileError with it as the name.
        shape[axis] = f"a size that is dynamic in result {axis}"
        if structure is None:
            continue
        index = match.root.results.index(value)
        # The loop that runs along this axis, as an expression of the map. An input's axis with the same one has the
        # same size.
        loop = structure.maps[len(structure.inputs) + index].results[axis]
        for operand, map in zip(structure.inputs, structure.maps, strict=False):  # maps of outputs follow
            if loop in map.results and operand in match.inputs:
                input_index = match.inputs.index(operand)
                shape[axis] = f"in{input_index}_size{map.results.index(loop)}"
                break
    return TensorType(str(value.type.element_type), tuple(shape))
