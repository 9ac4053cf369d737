"""Replacements for matches: C functions, kernels for each target, or another computation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from pydispatch.errors import InvalidArgumentError
from pydispatch.files import SOURCE_SUFFIXES, path_of, read


@dataclass(frozen=True)
class SourceFile:
    """Source file of a kernel.

    Attributes:
        name: File name, whose suffix determines the language or format.
        data: Content.
        defines: Macros of a source, "NAME" or "NAME=VALUE"; () for a compiled file.
        include_dirs: Include folders of a source in the order of the search; () for a compiled file.
    """

    name: str
    data: bytes
    defines: tuple[str, ...] = ()
    include_dirs: tuple[str, ...] = ()


@dataclass(frozen=True)
class CFunction:
    """Function in C source, an object file or LLVM bitcode, called once per workgroup.

    Example:
        Replace matches of a pattern with the input `x: f32["n"]` by this function, which computes 64 elements per call:

            void relu(const float *x, float *out, size_t n, size_t first) {
              for (size_t i = first; i < n && i < first + 64; i++) out[i] = x[i] > 0 ? x[i] : 0;
            }

        with `pattern.replace(CFunction("relu.c", "relu", "x", "out", "n", "first", tile={"n": 64}))`.

    Args:
        source: Path, text of a C file, or bytes of an object or of bitcode. A string with several lines or a brace is
            text, another one a path.
        symbol: Name of the function.
        arguments: What each parameter receives: an input of the pattern (a pointer, or the scalar itself), 'out' or
            'out0', 'out1', ... (pointers), a size of the pattern ("n", a size_t), 'first' (first element of this
            workgroup along the tiled size) or 'id' (index of the workgroup). Default: the parameter names, if all of
            them are such names; else inputs, outputs, sizes in the order of first use, and 'first' if tiled.
        tile: {size: count} starts one workgroup per `count` elements along a size; without it there is one workgroup.
        defines: Macros of a C source, "NAME" or "NAME=VALUE".
        include_dirs: Include folders, searched after the folder of the source.

    Count, types and names of the arguments are checked against C source, against debug information of an object, and
    against bitcode, whose pointers have no element type. An object without debug information is not checked, and
    neither is C source that defines the function several times, with different parameters, in branches of `#if`.
    """

    source: str | os.PathLike[str] | bytes
    symbol: str
    arguments: tuple[str, ...]
    tile: tuple[str, int] | None
    defines: tuple[str, ...]
    include_dirs: tuple[str, ...]

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes,
        symbol: str,
        *arguments: str,
        tile: Mapping[str, int] | None = None,
        defines: Sequence[str] = (),
        include_dirs: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        """Check and store the arguments, which the class describes. Raise InvalidArgumentError, which names it, for a
        wrong one.
        """
        _check_source("CFunction: source", source)
        _check_name("CFunction: symbol", symbol)
        for argument in arguments:
            _check_name("CFunction: arguments", argument)
        if tile is not None:
            _check_tile(tile)
        # A frozen dataclass permits no other assignment.
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "symbol", symbol)
        object.__setattr__(self, "arguments", arguments)
        object.__setattr__(self, "tile", None if tile is None else next(iter(tile.items())))  # {"n": 64} → ("n", 64)
        object.__setattr__(self, "defines", _checked_strings("CFunction: defines", defines))
        object.__setattr__(self, "include_dirs", _checked_folders("CFunction: include_dirs", include_dirs))

    def source_file(self) -> SourceFile:
        """Return the source as a file whose suffix states its kind: bitcode, which begins with "BC", an object or C."""
        if isinstance(self.source, bytes):
            return SourceFile(f"{self.symbol}{'.bc' if self.source[:2] == b'BC' else '.o'}", self.source)
        if _is_text(self.source):
            return SourceFile(f"{self.symbol}.c", self.source.encode(), self.defines, self.include_dirs)
        return _read(self.source, self.defines, self.include_dirs)


@dataclass(frozen=True)
class WholeKernel:
    """Complete kernel in the format of each target: an embedded library, PTX, SPIR-V, GLSL or WGSL.

    The kernel has a binding, a buffer, for each tensor of the pattern: the inputs, then the outputs. Constants, 32-bit
    words, follow: the scalar inputs, then the sizes in `constants`. A size of the pattern is a name such as "n" of
    `x: f32["n"]`.

    Example:
        `WholeKernel({"vulkan-spirv-fb": "relu.comp"}, "main", constants=("n",), workgroups=(("n", 64),))` is a GLSL
        kernel that is passed n, in ceil(n / 64) workgroups.

    Args:
        files: Path, text or bytes by format of a target ('embedded-elf-x86_64', 'cuda-nvptx-fb', 'vulkan-spirv-fb',
            'webgpu-wgsl-fb'). A string with several lines or a brace is text, another one a path. Text for
            Vulkan is GLSL.
        entry: Name of the kernel.
        constants: Names of the sizes of the pattern that are passed to the kernel, 32 bits each.
        workgroups: Count of workgroups along x, y and z, 1 for a missing one: a number, or a size of the pattern with a
            divisor, where ("n", 64) means ceil(n / 64).
        workgroup_size: Invocations of a workgroup along each axis; None if the file states them.
        defines: Macros of source files (C, CUDA C++, GLSL, WGSL), "NAME" or "NAME=VALUE".
        include_dirs: Include folders of source files, searched after the folder of the file.
        parameters: Parameters of a CUDA kernel that takes others than bindings followed by constants: strings such as
            "binding(0)", and lists of strings for structs (docs/cuda.md, "Other parameters").
    """

    files: Mapping[str, str | os.PathLike[str] | bytes]
    entry: str
    constants: tuple[str, ...] = ()
    workgroups: tuple[int | tuple[str, int], ...] = (1, 1, 1)
    workgroup_size: tuple[int, int, int] | None = None
    defines: Sequence[str] = ()
    include_dirs: Sequence[str | os.PathLike[str]] = ()
    parameters: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        """Check the fields. Raise InvalidArgumentError, which names the field, for a wrong one."""
        if not isinstance(self.files, Mapping) or not all(isinstance(key, str) for key in self.files):
            raise InvalidArgumentError(
                f"WholeKernel: files: expected a mapping from formats to paths or bytes, got {self.files!r}"
            )
        for format, source in self.files.items():
            _check_source(f"WholeKernel: files['{format}']", source)
        # The other fields; lists in them become tuples.
        _check_name("WholeKernel: entry", self.entry)
        _check_list("constants", self.constants, lambda name: isinstance(name, str), "names of sizes")
        _check_list(
            "workgroups", self.workgroups, _is_extent, "up to three numbers, or (size, divisor)", counts=range(4)
        )
        extents = tuple(tuple(extent) if isinstance(extent, list) else extent for extent in self.workgroups)
        object.__setattr__(self, "workgroups", extents)
        if self.workgroup_size is not None:
            _check_list("workgroup_size", self.workgroup_size, _is_count, "three numbers", counts=(3,))
        object.__setattr__(self, "defines", _checked_strings("WholeKernel: defines", self.defines))
        if self.parameters is not None:
            _check_list("parameters", self.parameters, _is_parameter, "strings, or lists of them")
        object.__setattr__(self, "include_dirs", _checked_folders("WholeKernel: include_dirs", self.include_dirs))

    def objects(self) -> list[tuple[str, SourceFile]]:
        """Return (format, file) of each target; the format is a key of `files`."""
        defines, folders = tuple(self.defines), tuple(map(str, self.include_dirs))
        result = []
        for format, source in self.files.items():
            if not isinstance(source, bytes) and not _is_text(source):
                result.append((format, _read(source, defines, folders)))
                continue
            # Text of Vulkan is GLSL; other formats have one suffix for text and bytes.
            suffix = _TEXT_SUFFIX.get(format) if isinstance(source, str) else None
            name = f"{self.entry}{suffix or _SUFFIX.get(format, '.so')}"
            data = source.encode() if isinstance(source, str) else source
            result.append((format, _with_options(name, data, defines, folders)))
        return result


def _check_tile(tile: object) -> None:
    """Raise InvalidArgumentError unless an object is {size of the pattern: elements that one workgroup computes}."""
    sizes = list(tile.items()) if isinstance(tile, Mapping) else []
    if len(sizes) != 1 or not isinstance(sizes[0][0], str) or not _is_count(sizes[0][1]):
        raise InvalidArgumentError(f"CFunction: tile names one size and a count of at least 1, got {tile!r}")


def _check_source(what: str, source: object) -> None:
    """Raise InvalidArgumentError unless an object is bytes, a text or a path. `what` begins error messages."""
    if not isinstance(source, bytes) and not _is_text(source):
        path_of(what, source, "the path of a kernel, its text or its bytes")


def _is_text(source: object) -> TypeGuard[str]:
    """Return whether a source is the text of a kernel: a string with several lines or a brace. Others are paths."""
    return isinstance(source, str) and ("\n" in source or "{" in source)


def _checked_strings(what: str, values: object) -> tuple[str, ...]:
    """Return strings as a tuple. Raise InvalidArgumentError, which begins with `what`, for other values."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidArgumentError(f"{what}: expected a list of strings, got {values!r}")
    texts = tuple(values)
    if not all(isinstance(text, str) for text in texts):
        raise InvalidArgumentError(f"{what}: expected a list of strings, got {values!r}")
    return texts


def _checked_folders(what: str, paths: object) -> tuple[str, ...]:
    """Return a checked list of folders as absolute paths. `what` begins error messages."""
    if isinstance(paths, (str, bytes, os.PathLike)) or not isinstance(paths, Iterable):
        raise InvalidArgumentError(f"{what}: expected a list of folders, got {paths!r}")
    return tuple(str(Path(path_of(what, path, "the path of a folder")).absolute()) for path in paths)


def _check_name(what: str, name: object) -> None:
    """Raise InvalidArgumentError unless an object is a printable name. `what` begins error messages."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidArgumentError(f"{what}: expected a name, got {name!r}")


def _check_list(
    what: str, values: object, fits: Callable[[Any], bool], expected: str, counts: Sequence[int] | None = None
) -> None:
    """Raise InvalidArgumentError unless `values` is a tuple or a list whose items fit.

    Args:
        what: Name of the field of WholeKernel, for errors.
        values: The value of the field.
        fits: Returns whether an item is valid.
        expected: Description of the items, for errors.
        counts: Lengths that the list may have; None for any.
    """
    if (
        not isinstance(values, (tuple, list))
        or not all(map(fits, values))
        or (counts is not None and len(values) not in counts)
    ):
        raise InvalidArgumentError(f"WholeKernel: {what}: expected a tuple of {expected}, got {values!r}")


def _is_parameter(value: object) -> bool:
    """Return whether a value is a string or a nested list of strings."""
    return isinstance(value, str) or (isinstance(value, (tuple, list)) and all(map(_is_parameter, value)))


def _is_count(value: object) -> bool:
    """Return whether a value is an int from 1 to 2^31 - 1."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 1 << 31


def _is_extent(value: object) -> bool:
    """Return whether a value states a count of workgroups: a number, or a pair ("n", 64), which means ceil(n / 64)."""
    if isinstance(value, (tuple, list)):
        return len(value) == 2 and isinstance(value[0], str) and _is_count(value[1])
    return _is_count(value)


_TEXT_SUFFIX = {"vulkan-spirv-fb": ".comp"}
"""Suffix of the file of a kernel that is passed as source text, by its format: GLSL rather than compiled SPIR-V.
`_SUFFIX` has the suffixes of all other files."""
_SUFFIX = {"cuda-nvptx-fb": ".ptx", "vulkan-spirv-fb": ".spv", "webgpu-wgsl-fb": ".wgsl"}
"""Suffix of the file of a kernel by its format; others are shared libraries."""


def shader(file: str | os.PathLike[str] | bytes, entry: str = "main", **options: Any) -> WholeKernel:
    """Return a kernel for Vulkan.

    Args:
        file: Path of SPIR-V or GLSL, bytes of SPIR-V, or GLSL text.
        entry: Name of the entry point.
        options: Further fields of WholeKernel, such as `constants` and `workgroups`.
    """
    return WholeKernel({"vulkan-spirv-fb": file}, entry, **options)


def ptx(file: str | os.PathLike[str] | bytes, entry: str, **options: Any) -> WholeKernel:
    """Return a kernel for CUDA.

    Args:
        file: Path of PTX or its text.
        entry: Name of the entry point.
        options: Further fields of WholeKernel, such as `constants` and `workgroups`.
    """
    return WholeKernel({"cuda-nvptx-fb": file}, entry, **options)


@dataclass(frozen=True)
class CustomOperation:
    """A kernel for a custom operation, with the types of the operation's results, which the model does not state.

    Args:
        kernel: a CFunction, a WholeKernel, or a function to trace.
        results: the type of each result, or a function of the operands, which have `dtype` and `shape`, that returns
            this list. A type is stated as an operand or its name (`"in0"`), for the type of this operand; as
            `pydispatch.f32["n", 3]`; as `"f32[n, 3]"`; or as `(dtype, shape)` with a dtype of NumPy or ml_dtypes, its
            name, or `pydispatch.f32`. Sizes are numbers, names of sizes of the operands (`"n"`, `"in0_size1"`), or
            computed from those of the operands (`x.shape[0] // 2`).

    Raises:
        InvalidArgumentError: results is neither a function nor a list.

    Example:
        `CustomOperation(kernel, results=lambda x: [pydispatch.f32[x.shape[0], 3]])`
    """

    kernel: Any
    results: Callable[..., Sequence[Any]] | Sequence[Any]

    def __post_init__(self) -> None:
        """Check that `results` is a function or a list. Raise InvalidArgumentError otherwise."""
        if not callable(self.results) and not isinstance(self.results, (list, tuple)):
            raise InvalidArgumentError(
                f"CustomOperation: results: expected a function of the operands, or a list of types such as "
                f'["in0", pydispatch.f32["n", 3]], got {self.results!r}'
            )


@dataclass(frozen=True)
class Generated:
    """Kernel that is generated for each match.

    Attributes:
        make: Function of the match that returns the kernel for that match only: any kernel of this module, or C text.
        symbol: Name of the function, if `make` returns C text; else "".
    """

    make: Callable[[Any], Any]
    symbol: str


@dataclass(frozen=True)
class Traced:
    """Computation that replaces a match: a function over the same inputs, which is traced."""

    function: Callable[..., Any]


class KernelLike:
    """Base class of `kernels.kernel.KernelSource`, a kernel written in Python.

    `kernels.kernel` imports this module, which therefore recognizes such kernels by this class.
    """


Kernel = CFunction | WholeKernel | Generated | Traced | KernelLike
"""Kernel or computation that may replace a matched pattern."""


def kernel_of(value: object, name: str) -> Kernel:
    """Convert an argument of `Pattern.replace` into a kernel. Functions become Traced.

    Raise InvalidArgumentError for other values; `name` is the name of the pattern.
    """
    if isinstance(value, (CFunction, WholeKernel, Generated, Traced, KernelLike)):
        return value
    if callable(value):
        return Traced(value)
    raise InvalidArgumentError(
        f"pattern '{name}' cannot be replaced by {value!r}: give a CFunction, a WholeKernel or a function to trace"
    )


def _read(path: str | os.PathLike[str], defines: tuple[str, ...], folders: tuple[str, ...]) -> SourceFile:
    """Read a file of a kernel. It gets the macros and include folders if it is a source, by the suffix of its name.

    defines: macros. folders: include folders; that of the file itself precedes them.
    """
    file = Path(path_of("source", path, "the path of a kernel, its text or its bytes"))
    return _with_options(file.name, read(file), defines, (str(file.parent.absolute()), *folders))


def _with_options(name: str, data: bytes, defines: tuple[str, ...], folders: tuple[str, ...]) -> SourceFile:
    """Return a file with this content, and with macros and include folders if the suffix of its name is of a source."""
    is_source = Path(name).suffix.lower() in SOURCE_SUFFIXES
    return SourceFile(name, data, defines, folders) if is_source else SourceFile(name, data)


__all__: Sequence[str] = [
    "CFunction", "CustomOperation", "Generated", "Kernel", "Traced", "WholeKernel", "kernel_of", "ptx", "shader",
]  # fmt: skip
