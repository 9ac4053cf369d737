"""Text of the functions that dispatch users' kernels, and of the executables that call them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from pydispatch.compiler.match.python.prototype import check_arguments, parameters_of
from pydispatch.compiler.match.python.signature import OWN_ARGUMENT, MatchSignature
from pydispatch.compiler.target.backend import backends
from pydispatch.errors import CompileError
from pydispatch.ir.dialects.hal.parameters import PARAMETERS
from pydispatch.locations import quoted
from pydispatch.patterns.kernels import CFunction, SourceFile, WholeKernel

FIRST_ELEMENT = "first"
"""Name by which a C function with a tile is passed the index of the first element of its tile."""


class KernelValue(NamedTuple):
    """Value that an argument of a C function may name: an input, an output, a size, or an index of the workgroup.

    For `CFunction(..., arguments=["x", "n"])` the tensor x is KernelValue("%m_x", "memref<f32>") and its size n is
    KernelValue("%size_n", "index"); the C function is called with both operands.

    Attributes:
        operand: The SSA value in the kernel.
        type: Its type, as MLIR text.
    """

    operand: str
    type: str


def _function(signature: MatchSignature, lines: list[str], dispatch: str) -> str:
    """Generate the text of a function @NAME that runs a dispatch and returns its results.

    The arguments are %in_x for an input x, or %size_n for an input n that is itself a size. The body defines %size_...
    of the other sizes, and continues with `lines` and with `dispatch`, an operation without the names of its results.
    """
    arguments = ", ".join(f"%{'size' if signature.is_size(n) else 'in'}_{n}: {t.mlir}" for n, t in signature.inputs)
    types = [t.mlir for _, t in signature.outputs]
    has_several_results = len(types) > 1
    definition = f"%r:{len(types)}" if has_several_results else "%r"
    results = ", ".join(f"%r#{i}" for i in range(len(types))) if has_several_results else "%r"
    body = "\n    ".join([*signature.size_lines(), *lines, f"{definition} = {dispatch}"])
    return (
        f"  util.func private @NAME({arguments}) -> ({', '.join(types)}) {{\n    {body}\n"
        f"    util.return {results} : {', '.join(types)}\n  }}\n"
    )


def _signature_types(signature: MatchSignature, scalars: list[str]) -> str:
    """Return the type of a dispatch as text: `(tensor<?xf32>{%size_n}, i32) -> (tensor<?xf32>{%size_n})`.

    scalars: types of the operands after the tensors.
    """
    tensors = [f"{t.mlir}{signature.dims(t)}" for _, t in signature.tensors]
    results = ", ".join(f"{t.mlir}{signature.dims(t)}" for _, t in signature.outputs)
    return f"({', '.join([*tensors, *scalars])}) -> ({results})"


def _object(file: SourceFile) -> str:
    """Return a source or object file, with its options, as a `#hal.executable.object` attribute."""
    entries = [
        f"path = {quoted(file.name)}",
        f'data = dense<"0x{file.data.hex().upper()}"> : vector<{len(file.data)}xi8>',
    ]
    for key, strings in (("defines", file.defines), ("include_dirs", file.include_dirs)):
        if strings:
            entries.append(f"{key} = [{', '.join(map(quoted, strings))}]")
    return f"#hal.executable.object<{{{', '.join(entries)}}}>"


def _strings(value: Any) -> str:
    """Return a string, or an array of strings, as an attribute in MLIR text."""
    return quoted(value) if isinstance(value, str) else f"[{', '.join(map(_strings, value))}]"


def dispatch_of_c(name: str, kernel: CFunction, signature: MatchSignature) -> str:
    """Generate an executable whose workgroups call a C function, and the function that dispatches it.

    Their symbols are @NAME_kernel and @NAME; the caller replaces NAME (`Replacer._function`).

    Raises CompileError if an argument or the tile names an unknown value, or the values do not fit the C parameters.
    """
    # The C function and the export that calls it are symbols of one module: their names must differ.
    export = name if name != kernel.symbol else f"{name}_entry"
    sizes = list(signature.sizes)
    operands = [f"%in_{n}" for n, _ in (*signature.tensors, *signature.scalars)] + [f"%size_{s}" for s in sizes]
    type = _signature_types(signature, [*(t.dtype for _, t in signature.scalars), *("index" for _ in sizes)])
    workload = f"[{', '.join(f'%size_{s}' for s in sizes)}]" if sizes else ""
    dispatch = f"flow.dispatch @NAME_kernel::@{export}{workload}({', '.join(operands)}) : {type}"
    return _executable_of_c(name, export, kernel, signature) + _function(signature, [], dispatch)


def _executable_of_c(name: str, export: str, kernel: CFunction, signature: MatchSignature) -> str:
    """Generate the executable @NAME_kernel, whose workgroups call a C function; the caller later replaces NAME.

    For `void f(const float *x, float *out, size_t n, size_t first)` with a tile of 16 elements along n, each workgroup
    runs this call, and the grid has ceil(n / 16) workgroups along x:

        func.call @f(%m_x, %m_out, %size_n, %first) : (memref<f32>, memref<f32>, index, index) -> ()

    Args:
        name: Name of the pattern, for errors.
        export: Name of the entry point, which has a binding for each tensor, then the scalars and the sizes.
        kernel: The C function.
        signature: Values of the match.

    Raises:
        CompileError: An argument or the tile names an unknown value, or the values do not fit the C parameters.
    """
    values = _values(signature)
    arguments = _c_arguments(name, kernel, signature, values)
    # The parameters of the entry point: bindings, then scalars and sizes.
    sizes = list(signature.sizes)
    bindings = [n for n, _ in (*signature.tensors, *signature.outputs)]
    constants = [f"%in_{n}: {t.dtype}" for n, t in signature.scalars] + [f"%size_{s}: index" for s in sizes]
    entry = ", ".join([*(f"%b_{n}: !stream.binding" for n in bindings), *constants])
    # Its body: a memref %m_x of each binding %b_x, and the call.
    dtypes = dict((*signature.tensors, *signature.outputs))
    views = "\n        ".join(
        f"%m_{n} = stream.binding.subspan %b_{n}[%c0] : !stream.binding -> memref<{dtypes[n].dtype}>" for n in bindings
    )
    call = ", ".join(values[a].operand for a in arguments)
    types = ", ".join(values[a].type for a in arguments)
    grid = _grid_of_c(name, kernel, signature)
    workload = ", ".join(f"%size_{s}: index" for s in sizes)
    return f"""
  stream.executable private @NAME_kernel attributes {{
    hal.executable.objects = [{_object(kernel.source_file())}]
  }} {{
    stream.executable.export public @{export} workgroups({workload}) -> (index, index, index) {{
      {grid.counting}
      stream.return {grid.extents} : index, index, index
    }}
    builtin.module {{
      func.func private @{kernel.symbol}({types}) attributes {{hal.import.static, llvm.bareptr}}
      func.func @{export}({entry}) {{
        %c0 = arith.constant 0 : index
        %id = stream.dispatch.workgroup.id[0] : index
        {grid.first_element}
        {views}
        func.call @{kernel.symbol}({call}) : ({types}) -> ()
        return
      }}
    }}
  }}
"""


def _c_arguments(name: str, kernel: CFunction, signature: MatchSignature, values: dict[str, KernelValue]) -> list[str]:
    """Return the names of the arguments of a C function, which are keys of `values`.

    The first of these applies:
    - the arguments that the user names,
    - the names of the parameters, if the match has a value for each: ["x", "out", "n"] for
      `void f(const float *x, float *out, size_t n)`,
    - the inputs, outputs and sizes of the match, in this order.

    Raises CompileError, with the pattern's name `name`, if one is unknown or does not fit its parameter.
    """
    # `parameters` is None if the file states none, such as an object without debug information.
    file = kernel.source_file()
    parameters = parameters_of(file.name, file.data, kernel.symbol)
    arguments = [signature.name_of(argument) for argument in kernel.arguments]
    if not arguments and parameters and all(signature.name_of(argument.name) in values for argument in parameters):
        arguments = [signature.name_of(argument.name) for argument in parameters]
    arguments = arguments or _default_arguments(kernel, signature)
    unknown = next((a for a in arguments if a not in values), None)
    if unknown is not None:
        raise CompileError(f"pattern '{name}': the C function {kernel.symbol} asks for '{unknown}'",
                           note=f"there are {', '.join([*values, *signature.aliases])}")  # fmt: skip
    if parameters is not None:
        check_arguments(name, kernel.symbol, parameters, arguments, values, {n for n, _ in signature.outputs})
    return arguments


class _Grid(NamedTuple):
    """Workgroups of a dispatch of a C function, as MLIR text.

    Attributes:
        counting: Operations of the workgroup count region of the export.
        extents: The three values that this region returns: the numbers of workgroups along x, y and z.
        first_element: Operation in the kernel that defines %first, the index of the first element of the workgroup's
            tile.
    """

    counting: str
    extents: str
    first_element: str


def _grid_of_c(name: str, kernel: CFunction, signature: MatchSignature) -> _Grid:
    """Return the workgroups that call a C function: one for each of its tiles, or a single one if it has no tile.

    Raises CompileError, with the pattern's name `name`, if the tile names no size.
    """
    one = "%c1 = arith.constant 1 : index"
    if kernel.tile is None:
        return _Grid(counting=one, extents="%c1, %c1, %c1", first_element="%first = arith.constant 0 : index")
    size, tile = signature.name_of(kernel.tile[0]), kernel.tile[1]
    if size not in signature.sizes:
        raise CompileError(f"pattern '{name}': tile names '{size}', which is no dynamic or named size",
                           note=f"sizes: {', '.join(signature.sizes) or 'none'}")  # fmt: skip
    counting = f"{one}\n      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv {tile})>()[%size_{size}]"
    first_element = f"%first = affine.apply affine_map<()[s0] -> (s0 * {tile})>()[%id]"
    return _Grid(counting, extents="%x, %c1, %c1", first_element=first_element)


def _default_arguments(kernel: CFunction, signature: MatchSignature) -> list[str]:
    """Return the arguments of a C function for which the user names none.

    They are tensors, scalars, outputs, sizes, and the index of the first element of its tile if the function has one.
    """
    names = [n for n, _ in (*signature.tensors, *signature.scalars, *signature.outputs)]
    sizes = [size for size, (_, axis) in signature.sizes.items() if axis != OWN_ARGUMENT]
    return [*names, *sizes, *([FIRST_ELEMENT] if kernel.tile is not None else [])]


def _values(signature: MatchSignature) -> dict[str, KernelValue]:
    """Return the values that kernel arguments may name, by name.

    `%m_x` is the memref of a tensor x, `%in_x` a scalar, `%size_x` a size, `%first` the index of the first element of
    the workgroup's tile, and `%id` the workgroup's id.
    """
    tensors = (*signature.tensors, *signature.outputs)
    values = {n: KernelValue(f"%m_{n}", f"memref<{t.dtype}>") for n, t in tensors}
    values |= {n: KernelValue(f"%in_{n}", t.dtype) for n, t in signature.scalars}
    values |= {s: KernelValue(f"%size_{s}", "index") for s in signature.sizes if s not in values}
    if "out" in values:  # a single output may be called `out0` as well, like the first of several
        values["out0"] = values["out"]
    return {**values, FIRST_ELEMENT: KernelValue("%first", "index"), "id": KernelValue("%id", "index")}


def _backend_of(format: str) -> str:
    """Return the name of the backend with a format, or the format itself if there is none; for messages."""
    return next((backend.name for backend in backends() if backend.has_format(format)), format)


def dispatch_of_whole(name: str, kernel: WholeKernel, signature: MatchSignature) -> str:
    """Generate a function around a `hal.dispatch.extern` of a complete GPU kernel, which the user supplies compiled.

    Names of values: %in_x is an input, %size_n a size, %i_n the size as an i32 constant of the kernel, %w_n a size in
    the region of the grid, and %g0 to %g2 the numbers of workgroups. For an input x and an output of type f32["n"], the
    kernel "relu" with `constants=("n",)` and `workgroups=(("n", 64),)`:

        util.func private @NAME(%in_x: tensor<?xf32>) -> (tensor<?xf32>) {
          %axis_n = arith.constant 0 : index
          %size_n = tensor.dim %in_x, %axis_n : tensor<?xf32>
          %i_n = arith.index_cast %size_n : index to i32
          %r = hal.dispatch.extern "relu"[%size_n](%in_x, %i_n)
              : (tensor<?xf32>{%size_n}, i32) -> (tensor<?xf32>{%size_n})
            count(%device: !hal.device, %w_n: index) -> (index, index, index) {... hal.return %g0, %g1, %g2 ...}
            layout(#hal.pipeline.layout<constants = 1, bindings = [... of x, ... of the output]>)
            objects({...})
          util.return %r : tensor<?xf32>
        }

    Raises CompileError if the kernel names a size that the signature does not have.
    """
    kernel = _with_known_sizes(name, kernel, signature)
    # Operands of the dispatch: tensors and scalars, then the sizes that are constants of the kernel, as i32.
    lines = [f"%i_{s} = arith.index_cast %size_{s} : index to i32" for s in kernel.constants]
    operands = [f"%in_{n}" for n, _ in (*signature.tensors, *signature.scalars)]
    operands += [f"%i_{s}" for s in kernel.constants]
    type = _signature_types(signature, [*(t.dtype for _, t in signature.scalars), *("i32" for _ in kernel.constants)])
    # Workgroup count, computed from all sizes.
    sizes = list(signature.sizes)
    count_parameters = ", ".join(["%device: !hal.device", *(f"%w_{s}: index" for s in sizes)])
    workload = f"[{', '.join(f'%size_{s}' for s in sizes)}]" if sizes else ""
    count = "\n      ".join(_workgroup_counts(kernel))
    objects = ", ".join(
        f'#hal.executable.target<"{_backend_of(format)}", "{format}"> ordinal(0) = [{_object(file)}]'
        for format, file in kernel.objects()
    )
    dispatch = (
        f'hal.dispatch.extern "{kernel.entry}"{workload}({", ".join(operands)}) : {type}\n'
        f"      count({count_parameters}) -> (index, index, index) {{\n"
        f"      {count}\n      hal.return %g0, %g1, %g2 : index, index, index\n      }}\n"
        f"      layout({_layout_of_whole(kernel, signature)})\n"
        f"      objects({{{objects}}}){_attributes_of_whole(kernel)}"
    )
    return _function(signature, lines, dispatch)


def _layout_of_whole(kernel: WholeKernel, signature: MatchSignature) -> str:
    """Return the layout of a whole kernel: its constants, as words of 32 bits, and its bindings."""
    scalar_words = sum(2 if t.dtype in ("i64", "f64") else 1 for _, t in signature.scalars)
    words = scalar_words + len(kernel.constants)
    bindings = ["#hal.pipeline.binding<storage_buffer, ReadOnly>" for _ in signature.tensors]
    bindings += ["#hal.pipeline.binding<storage_buffer>" for _ in signature.outputs]
    return f"#hal.pipeline.layout<constants = {words}, bindings = [{', '.join(bindings)}]>"


def _with_known_sizes(name: str, kernel: WholeKernel, signature: MatchSignature) -> WholeKernel:
    """Return the kernel with the signature's names of sizes in place of aliases.

    Raises CompileError, with the pattern's name `name`, if the kernel names a size that the signature does not have.
    """
    workgroups = tuple(  # a number, or (name of a size, divisor)
        (signature.name_of(extent[0]), extent[1]) if isinstance(extent, tuple) else extent
        for extent in kernel.workgroups
    )
    kernel = replace(kernel, constants=tuple(map(signature.name_of, kernel.constants)), workgroups=workgroups)
    for size in (*kernel.constants, *(extent[0] for extent in workgroups if isinstance(extent, tuple))):
        if size not in signature.sizes:
            raise CompileError(f"pattern '{name}': the kernel {kernel.entry} asks for the size '{size}'",
                               note=f"sizes: {', '.join(signature.sizes) or 'none'}")  # fmt: skip
    return kernel


def _workgroup_counts(kernel: WholeKernel) -> list[str]:
    """Return the operations that define %g0, %g1 and %g2, the numbers of workgroups along x, y and z.

    A number is constant, or the size `n` of the match (%w_n) divided by a number and rounded up.
    """
    lines = []
    for i in range(3):
        extent = kernel.workgroups[i] if i < len(kernel.workgroups) else 1
        if isinstance(extent, int):
            lines.append(f"%g{i} = arith.constant {extent} : index")
        else:
            size, divisor = extent
            lines.append(f"%g{i} = affine.apply affine_map<()[s0] -> (s0 ceildiv {divisor})>()[%w_{size}]")
    return lines


def _attributes_of_whole(kernel: WholeKernel) -> str:
    """Return the attribute dictionary of a dispatch with the workgroup size and parameters that the kernel states.

    Return "" if it states neither.
    """
    stated = []
    if kernel.workgroup_size is not None:
        stated.append(f"workgroup_size = [{', '.join(f'{n} : index' for n in kernel.workgroup_size)}]")
    if kernel.parameters is not None:
        stated.append(f"{PARAMETERS} = {_strings(kernel.parameters)}")
    return f" attributes {{{', '.join(stated)}}}" if stated else ""
