"""Text of the functions that dispatch users' kernels, and of the executables that call them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from xdsl.dialects.builtin import IndexType
from xdsl.dialects.builtin import TensorType as IrTensor
from xdsl.ir import SSAValue

from pydispatch.compiler.match.graph.dag import Match
from pydispatch.compiler.match.python.prototype import check_arguments, parameters_of
from pydispatch.compiler.target.backend import backends
from pydispatch.errors import CompileError
from pydispatch.ir.dialects.hal.parameters import PARAMETERS
from pydispatch.ir.dialects.pyd.custom import CustomOp
from pydispatch.ir.structured import as_structured
from pydispatch.patterns import Pattern
from pydispatch.patterns.kernels import CFunction, SourceFile, WholeKernel
from pydispatch.patterns.types import Size, TensorType

OWN_ARGUMENT = -1
"""Axis of a size that is itself an input, not read from a tensor."""

FIRST_ELEMENT = "first"
"""Name by which a C function with a tile is passed the index of the first element of its tile."""


class KernelValue(NamedTuple):
    """Value that an argument of a C function may name.

    Attributes:
        operand: The SSA value in the kernel.
        type: Its type, as MLIR text.
    """

    operand: str
    type: str


@dataclass
class MatchSignature:
    """Inputs and outputs of a kernel that replaces a match.

    Attributes:
        inputs: (name, type) of each input.
        outputs: (name, type) of each output.
        sizes: Name of a dynamic size → (input, axis) that has it, in order of first use. The axis is OWN_ARGUMENT if
            the input is itself the size.
        others: Alternative name that kernels may use for an input, output or size → its name here.
    """

    inputs: list[tuple[str, TensorType]]
    outputs: list[tuple[str, TensorType]]
    sizes: dict[str, tuple[str, int]] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)

    @property
    def tensors(self) -> list[tuple[str, TensorType]]:
        """The inputs that are tensors."""
        return [(n, t) for n, t in self.inputs if t.shape is not None]

    @property
    def scalars(self) -> list[tuple[str, TensorType]]:
        """The inputs that are neither tensors nor sizes."""
        return [(n, t) for n, t in self.inputs if t.shape is None and not self.is_size(n)]

    def is_size(self, input: str) -> bool:
        """Return whether an input is itself a size, rather than a size being read from a tensor."""
        return self.sizes.get(input) == (input, OWN_ARGUMENT)

    def name_of(self, asked: str) -> str:
        """Return the signature's name for a name that a kernel uses."""
        own = {name for name, _ in (*self.inputs, *self.outputs)} | self.sizes.keys()
        return asked if asked in own else self.others.get(asked, asked)

    def size_lines(self) -> list[str]:
        """Return the operations that define %size_... for each size that is read from a tensor %in_..., as text."""
        inputs, lines = dict(self.inputs), []
        for size, (tensor, axis) in self.sizes.items():
            if axis != OWN_ARGUMENT:  # else the size is an input, %size_... already
                lines.append(f"%axis_{size} = arith.constant {axis} : index")
                lines.append(f"%size_{size} = tensor.dim %in_{tensor}, %axis_{size} : {inputs[tensor].mlir}")
        return lines

    def dims(self, type: TensorType) -> str:
        """Return the dynamic sizes of a type in the notation of `flow.dispatch`, `{%size_n, %size_m}`; "" for none."""
        named = [f"%size_{s}" for s in type.shape or () if not isinstance(s, int)]
        return f"{{{', '.join(named)}}}" if named else ""


def signature_of(
    pattern: Pattern, inputs: list[SSAValue], outputs: list[SSAValue], match: Match, named: bool = True
) -> MatchSignature:
    """Return the signature of a match: as a custom operation or the pattern declares it, or for a matcher function from
    the matched values.

    named: whether static sizes of a custom operation get names too, so that kernels can query them. Raises CompileError
    if an output has a named size that no input has.
    """
    if isinstance(match.root, CustomOp):
        return _custom_signature(match.root, named)
    is_matcher_function = pattern.match_op is not None
    if not is_matcher_function:
        inputs_by_name = [(n, _with_named_sizes(n, t)) for n, t in pattern.inputs]
        names = ["out"] if len(pattern.outputs) == 1 else [f"out{i}" for i in range(len(pattern.outputs))]
        signature = MatchSignature(inputs_by_name, [(n, v.type) for n, v in zip(names, pattern.outputs, strict=True)])
    else:
        inputs_by_name = [(f"in{i}", _type_of_value(f"in{i}", v)) for i, v in enumerate(inputs)]
        names = ["out"] if len(outputs) == 1 else [f"out{i}" for i in range(len(outputs))]
        signature = MatchSignature(
            inputs_by_name, [(n, _result_type(v, match)) for n, v in zip(names, outputs, strict=True)]
        )
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


def _custom_signature(op: CustomOp, named: bool) -> MatchSignature:
    """Return the signature that a custom operation declares. named: see `signature_of`."""
    names = [name.data for name in op.operand_names.data]
    signature = MatchSignature(inputs=[], outputs=[])
    for index, (name, value) in enumerate(zip(names, op.arguments, strict=True)):
        if isinstance(value.type, IndexType):
            signature.sizes[name] = (name, OWN_ARGUMENT)
            signature.inputs.append((name, TensorType("index", None)))
            continue
        if not isinstance(value.type, IrTensor):
            signature.inputs.append((name, TensorType(str(value.type), None)))
            continue
        sizes: list[Size] = [  # `sizes_of` returns texts: numbers, or names of sizes
            n if not n.isdecimal() else f"{name}_size{axis}" if named else int(n)
            for axis, n in enumerate(op.sizes_of(index))
        ]
        for axis, size in enumerate(sizes):
            if isinstance(size, str):
                signature.sizes.setdefault(size, (name, axis))
        signature.inputs.append((name, TensorType(str(value.type.element_type), tuple(sizes))))
    for index, value in enumerate(op.results_):
        assert isinstance(value.type, IrTensor)
        name = "out" if len(op.results_) == 1 else f"out{index}"
        shape = tuple(int(n) if n.isdecimal() else n for n in op.sizes_of(len(names) + index))
        signature.outputs.append((name, TensorType(str(value.type.element_type), shape)))
    values = [*signature.inputs, *signature.outputs]
    # The names that the model gives the inputs and outputs, "" for none; kernels may use these, too.
    others = [name.data for name in op.other_names or ()] or [""] * len(values)
    for other, (name, type) in zip(others, values, strict=True):
        if other:
            signature.others[other] = name
        for axis, size in enumerate(type.shape or ()):
            if isinstance(size, str):
                signature.others |= {f"{owner}_size{axis}": size for owner in (other, name) if owner}
    return signature


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
    """Return the type of a matched result; its dynamic sizes are those of the inputs with the same loop."""
    assert isinstance(value.type, IrTensor)
    shape: list[Size] = list(value.type.get_shape())
    structure = as_structured(match.root)
    for axis, size in enumerate(shape):
        if isinstance(size, int) and size >= 0:
            continue
        shape[axis] = f"a size that is dynamic in result {axis}"  # no input has this name: the error shows it
        if structure is None:
            continue
        index = match.root.results.index(value)
        loop = structure.maps[len(structure.inputs) + index].results[axis]
        for operand, map in zip(structure.inputs, structure.maps, strict=False):
            if loop in map.results and operand in match.inputs:
                input_index = match.inputs.index(operand)
                shape[axis] = f"in{input_index}_size{map.results.index(loop)}"
                break
    return TensorType(str(value.type.element_type), tuple(shape))


def _function(signature: MatchSignature, lines: list[str], dispatch: str) -> str:
    """Generate the function around a dispatch; NAME stands for its name.

    It has the values %in_... of inputs and %size_... of sizes, then `lines`, and `dispatch`, an operation without the
    names of its results.
    """
    arguments = ", ".join(f"%{'size' if signature.is_size(n) else 'in'}_{n}: {t.mlir}" for n, t in signature.inputs)
    types = [t.mlir for _, t in signature.outputs]
    results = ", ".join(f"%r#{i}" for i in range(len(types))) if len(types) > 1 else "%r"
    count = f"%r:{len(types)}" if len(types) > 1 else "%r"
    body = "\n    ".join([*signature.size_lines(), *lines])
    return (
        f"  util.func private @NAME({arguments}) -> ({', '.join(types)}) {{\n    {body}\n    {count} = {dispatch}\n"
        f"    util.return {results} : {', '.join(types)}\n  }}\n"
    )


def _signature_types(signature: MatchSignature, operands: list[str]) -> str:
    """Return the type of a dispatch: `(tensor<?xf32>{%size_n}, i32) -> (...)`. operands: types that are no tensors."""
    tensors = [f"{t.mlir}{signature.dims(t)}" for _, t in signature.tensors]
    results = ", ".join(f"{t.mlir}{signature.dims(t)}" for _, t in signature.outputs)
    return f"({', '.join([*tensors, *operands])}) -> ({results})"


def _object(file: SourceFile) -> str:
    """Return a source or object file, with its options, as a `#hal.executable.object` attribute."""
    entries = [
        f"path = {_text(file.name)}", f'data = dense<"0x{file.data.hex().upper()}"> : vector<{len(file.data)}xi8>',
        *(
            f"{key} = [{', '.join(map(_text, strings))}]"
            for key, strings in (("defines", file.defines), ("include_dirs", file.include_dirs))
            if strings
        ),
    ]  # fmt: skip
    return f"#hal.executable.object<{{{', '.join(entries)}}}>"


def _strings(value: Any) -> str:
    """Return a string attribute, or an array of them."""
    return _text(value) if isinstance(value, str) else f"[{', '.join(map(_strings, value))}]"


def _text(text: str) -> str:
    """Return a string attribute."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def dispatch_of_c(name: str, kernel: CFunction, signature: MatchSignature) -> str:
    """Generate an executable whose workgroups call a C function, and the function that dispatches it.

    Their symbols are @NAME_kernel and @NAME; the caller replaces NAME (`Replacer._function`).

    Raises CompileError if an argument or the tile names an unknown value, or the values do not fit the C parameters.
    """
    values = _values(signature)
    file = kernel.source_file()
    parameters = parameters_of(file.name, file.data, kernel.symbol)
    arguments = [signature.name_of(argument) for argument in kernel.arguments]
    if not arguments and parameters and all(signature.name_of(argument.name) in values for argument in parameters):
        arguments = [signature.name_of(argument.name) for argument in parameters]
    arguments = arguments or _default_arguments(kernel, signature)
    unknown = next((a for a in arguments if a not in values), None)
    if unknown is not None:
        raise CompileError(f"pattern '{name}': the C function {kernel.symbol} asks for '{unknown}'",
                           note=f"there are {', '.join([*values, *signature.others])}")  # fmt: skip
    if parameters is not None:
        check_arguments(name, kernel.symbol, parameters, arguments, values, {n for n, _ in signature.outputs})
    sizes = list(signature.sizes)
    bindings = [n for n, _ in (*signature.tensors, *signature.outputs)]
    passed = [f"%in_{n}: {t.dtype}" for n, t in signature.scalars] + [f"%size_{s}: index" for s in sizes]
    # The function that is called may have the name of the pattern.
    export = name if name != kernel.symbol else f"{name}_entry"
    entry = ", ".join([*(f"%b_{n}: !stream.binding" for n in bindings), *passed])
    call = ", ".join(values[a].operand for a in arguments)
    types = ", ".join(values[a].type for a in arguments)
    grid = "%c1, %c1, %c1"  # one workgroup without a tile
    count = "%c1 = arith.constant 1 : index"
    first = ""
    if kernel.tile is not None:
        size, tile = signature.name_of(kernel.tile[0]), kernel.tile[1]
        if size not in signature.sizes:
            raise CompileError(f"pattern '{name}': tile names '{size}', which is no dynamic or named size",
                               note=f"sizes: {', '.join(sizes) or 'none'}")  # fmt: skip
        count += f"\n      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv {tile})>()[%size_{size}]"
        grid = "%x, %c1, %c1"
        first = f"%first = affine.apply affine_map<()[s0] -> (s0 * {tile})>()[%id]"
    else:
        first = "%first = arith.constant 0 : index"
    dtypes = dict((*signature.tensors, *signature.outputs))
    views = "\n        ".join(
        f"%m_{n} = stream.binding.subspan %b_{n}[%c0] : !stream.binding -> memref<{dtypes[n].dtype}>" for n in bindings
    )
    workload = ", ".join(f"%size_{s}: index" for s in sizes)
    operands = [f"%in_{n}" for n, _ in (*signature.tensors, *signature.scalars)] + [f"%size_{s}" for s in sizes]
    listed = _signature_types(signature, [*(t.dtype for _, t in signature.scalars), *("index" for _ in sizes)])
    bracket = f"[{', '.join(f'%size_{s}' for s in sizes)}]" if sizes else ""
    dispatch = f"flow.dispatch @NAME_kernel::@{export}{bracket}({', '.join(operands)}) : {listed}"
    return f"""
  stream.executable private @NAME_kernel attributes {{
    hal.executable.objects = [{_object(file)}]
  }} {{
    stream.executable.export public @{export} workgroups({workload}) -> (index, index, index) {{
      {count}
      stream.return {grid} : index, index, index
    }}
    builtin.module {{
      func.func private @{kernel.symbol}({types}) attributes {{hal.import.static, llvm.bareptr}}
      func.func @{export}({entry}) {{
        %c0 = arith.constant 0 : index
        %id = stream.dispatch.workgroup.id[0] : index
        {first}
        {views}
        func.call @{kernel.symbol}({call}) : ({types}) -> ()
        return
      }}
    }}
  }}
""" + _function(signature, [], dispatch)


def _default_arguments(kernel: CFunction, signature: MatchSignature) -> list[str]:
    """Return the arguments of a C function for which the user names none: tensors, scalars, outputs, then sizes."""
    names = [n for n, _ in (*signature.tensors, *signature.scalars, *signature.outputs)]
    sizes = [size for size, (_, axis) in signature.sizes.items() if axis != OWN_ARGUMENT]
    return [*names, *sizes, *([FIRST_ELEMENT] if kernel.tile is not None else [])]


def _values(signature: MatchSignature) -> dict[str, KernelValue]:
    """Return the values that kernel arguments may name, by name.

    `%m_x` is the memref of a tensor x, `%in_x` a scalar, `%size_x` a size, `%first` the first element of the workgroup,
    and `%id` its id.
    """
    tensors = (*signature.tensors, *signature.outputs)
    values = {n: KernelValue(f"%m_{n}", f"memref<{t.dtype}>") for n, t in tensors}
    values |= {n: KernelValue(f"%in_{n}", t.dtype) for n, t in signature.scalars}
    values |= {s: KernelValue(f"%size_{s}", "index") for s in signature.sizes if s not in values}
    if "out" in values:
        values["out0"] = values["out"]
    return {**values, FIRST_ELEMENT: KernelValue("%first", "index"), "id": KernelValue("%id", "index")}


def _backend_of(format: str) -> str:
    """Return the name of the backend with a format, or the format itself if there is none; for messages."""
    return next((backend.name for backend in backends() if backend.has_format(format)), format)


def dispatch_of_whole(name: str, kernel: WholeKernel, signature: MatchSignature) -> str:
    """Generate a function around a `hal.dispatch.extern` of a complete GPU kernel.

    Names of values: %in_x is an input, %size_n a size, %i_n the size as an i32 constant of the kernel, %w_n a size in
    the region of the grid, and %g0 to %g2 the numbers of workgroups.
    """
    kernel = replace(
        kernel, constants=tuple(map(signature.name_of, kernel.constants)),
        workgroups=tuple((signature.name_of(w[0]), w[1]) if isinstance(w, tuple) else w for w in kernel.workgroups),
    )  # fmt: skip
    for size in (*kernel.constants, *(w[0] for w in kernel.workgroups if isinstance(w, tuple))):
        if size not in signature.sizes:
            raise CompileError(f"pattern '{name}': the kernel {kernel.entry} asks for the size '{size}'",
                               note=f"sizes: {', '.join(signature.sizes) or 'none'}")  # fmt: skip
    sizes = list(signature.sizes)
    lines = [f"%i_{s} = arith.index_cast %size_{s} : index to i32" for s in kernel.constants]
    operands = [f"%in_{n}" for n, _ in (*signature.tensors, *signature.scalars)]
    operands += [f"%i_{s}" for s in kernel.constants]
    listed = _signature_types(signature, [*(t.dtype for _, t in signature.scalars), *("i32" for _ in kernel.constants)])
    # Constants of the layout are words of 32 bits.
    words = sum(2 if t.dtype in ("i64", "f64") else 1 for _, t in signature.scalars) + len(kernel.constants)
    bindings = ["#hal.pipeline.binding<storage_buffer, ReadOnly>" for _ in signature.tensors]
    bindings += ["#hal.pipeline.binding<storage_buffer>" for _ in signature.outputs]
    grid, count = [], []
    for i in range(3):
        extent = kernel.workgroups[i] if i < len(kernel.workgroups) else 1
        grid.append(f"%g{i}")
        if isinstance(extent, int):
            count.append(f"%g{i} = arith.constant {extent} : index")
        else:
            size, divisor = extent
            count.append(f"%g{i} = affine.apply affine_map<()[s0] -> (s0 ceildiv {divisor})>()[%w_{size}]")
    workload = ", ".join(f"%w_{s}: index" for s in sizes)
    objects = ", ".join(
        f'#hal.executable.target<"{_backend_of(format)}", "{format}"> ordinal(0) = [{_object(file)}]'
        for format, file in kernel.objects()
    )
    bracket = f"[{', '.join(f'%size_{s}' for s in sizes)}]" if sizes else ""
    stated = []
    if kernel.workgroup_size is not None:
        stated.append(f"workgroup_size = [{', '.join(f'{n} : index' for n in kernel.workgroup_size)}]")
    if kernel.parameters is not None:
        stated.append(f"{PARAMETERS} = {_strings(kernel.parameters)}")
    attributes = f" attributes {{{', '.join(stated)}}}" if stated else ""
    lines_of_count = "\n      ".join(count)
    dispatch = (
        f'hal.dispatch.extern "{kernel.entry}"{bracket}({", ".join(operands)}) : {listed}\n'
        f"      count(%device: !hal.device{', ' if workload else ''}{workload}) -> (index, index, index) {{\n"
        f"      {lines_of_count}\n      hal.return {', '.join(grid)} : index, index, index\n      }}\n"
        f"      layout(#hal.pipeline.layout<constants = {words}, bindings = [{', '.join(bindings)}]>)\n"
        f"      objects({{{objects}}}){attributes}"
    )
    return _function(signature, lines, dispatch)
