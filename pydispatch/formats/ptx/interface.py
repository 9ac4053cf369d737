"""Checks a PTX kernel's interface against a program's layout, and a module's requirements of a device."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydispatch.formats.ptx.module import Param, PtxFunction, PtxModule
    from pydispatch.formats.ptx.parameters import Parameters

ARCHITECTURES = {
    50: (4, 0), 52: (4, 1), 53: (4, 2), 60: (5, 0), 61: (5, 0), 62: (5, 0), 70: (6, 0), 72: (6, 1), 75: (6, 3),
    80: (7, 0), 86: (7, 1), 87: (7, 4), 88: (7, 3), 89: (7, 8), 90: (7, 8), 100: (8, 6), 101: (8, 6), 103: (8, 8),
    110: (9, 0), 120: (8, 7), 121: (8, 8),
}  # fmt: skip
"""Compute capability, 75 for 7.5 → the first PTX ISA version (`.version`, major and minor) that has it."""

SUFFIXES = {"": 50, "a": 90, "f": 100}
"""Suffix of a name → the first architecture that has it. Suffix a: for this architecture only; f: for this and later
architectures of the same major version."""
NAMES = tuple(f"sm_{version}" for version in ARCHITECTURES)
"""The known architectures without suffixes."""
KNOWN = f"known: {', '.join(NAMES)}; the suffix a exists from sm_{SUFFIXES['a']} on, f from sm_{SUFFIXES['f']} on"
"""The known architectures, for messages."""

MAX_THREADS, MAX_BLOCK = 1024, (1024, 1024, 64)
"""Threads of a block that every device can have: in all, and in x, y and z."""
MAX_SHARED = 232448
"""Largest workgroup memory per block of all devices, in bytes: 227 KiB. Many devices have less: see shared_limit()."""

_SHARED_KIB = {70: 96, 75: 64, 80: 163, 86: 99, 87: 163, 88: 99, 90: 227, 120: 99}
"""Compute capability → KiB of workgroup memory per block, also for newer ones up to the next entry."""

_TARGET = re.compile(r"sm_(\d{2,4})([af]?)", re.ASCII)
"""Name of an architecture: its number and its suffix, as in sm_80 or sm_90a."""
_POINTERS = ("b64", "u64", "s64", "b8")
"""Types of parameters of 8 bytes that may be pointers; b8 is an array of bytes."""


def requirements(target: str) -> tuple[str, ...]:
    """Return the device features that PTX of a `.target` requires: every architecture up to it, `sm_50` ... `sm_80`.

    Targets with a suffix, such as sm_90a, and architectures newer than those known also require themselves. Raises
    InvalidArgumentError if `target` is not an architecture.
    """
    architecture, suffix = split(target)
    names = [f"sm_{known}" for known in ARCHITECTURES if known <= architecture]
    if suffix or architecture not in ARCHITECTURES:
        names.append(target)  # code for sm_90a, or of an unknown architecture, runs on no other one
    return tuple(names)


def capabilities(major: int, minor: int) -> frozenset[str]:
    """Return the features of a device with this compute capability.

    `sm_80`, `sm_90a` and the like are targets that it can compile; `cubin_sm_86` and the like is machine code that it
    runs.
    """
    capability = 10 * major + minor
    # A device that is newer than ARCHITECTURES compiles all architectures up to its own.
    known = [architecture for architecture in ARCHITECTURES if architecture <= capability]
    newer = range(max(ARCHITECTURES) + 1, capability + 1)
    names = {f"sm_{architecture}" for architecture in [*known, *newer, capability]}
    names.add(f"sm_{capability}a")  # with the suffix `a`, for this architecture alone
    # Targets with the suffix `f`, and machine code, run on devices of the same major and at least their minor version.
    for lower_minor in range(minor + 1):
        names |= {f"sm_{major}{lower_minor}f", f"cubin_sm_{major}{lower_minor}"}
    return frozenset(names)


def shared_limit(capability: int) -> int:
    """Return the maximum workgroup memory per block in bytes, for a compute capability such as 75 for 7.5.

    48 KiB are the limit of all older devices. The numbers are from NVIDIA's CUDA C++ Programming Guide.
    """
    known = [version for version in _SHARED_KIB if version <= capability]
    return (_SHARED_KIB[max(known)] if known else 48) << 10


def why_not(major: int, minor: int, requires: Sequence[str]) -> str:
    """Return why a device of compute capability `major`.`minor` cannot run a variant, as the predicate of a sentence.

    Its subject is the variant. `requires` lists the features that the variant needs, the newest architecture last.
    """
    newest, have = requires[-1], f"which this device of compute capability {major}.{minor} does not run"
    if newest.startswith("cubin_"):
        return f"is machine code for {newest.removeprefix('cubin_')}, {have}"
    return f"is PTX for {newest}, {have}"


def is_known(target: str) -> bool:
    """Return whether a target, such as sm_90a, is a known architecture without or with a suffix that it has."""
    match = _TARGET.fullmatch(target)
    return match is not None and int(match[1]) in ARCHITECTURES and int(match[1]) >= SUFFIXES[match[2]]


def split(target: str) -> tuple[int, str]:
    """Split an architecture such as "sm_90a" into its number and suffix: (90, "a"); the suffix may be "".

    Raises InvalidArgumentError for another name.
    """
    match = _TARGET.fullmatch(target)
    if not match:
        from pydispatch.errors import InvalidArgumentError

        raise InvalidArgumentError(f"'{target}' is no architecture of CUDA; expected a name such as sm_80 or sm_90a")
    return int(match[1]), match[2]


def target_problem(module: PtxModule) -> str | None:
    """Return why `.version` and `.target` of a module are inconsistent, as a clause of an error message; None if they
    are not, or if the target is newer than ARCHITECTURES.

    Each target needs the PTX version that introduced it: `.target sm_90a` with `.version 7.8` is inconsistent, since
    the suffix needs 8.0.
    """
    match = _TARGET.fullmatch(module.target)
    if not match:
        return f"its .target '{module.target}' is no architecture; expected a name such as sm_80"
    architecture, suffix = int(match[1]), match[2]
    least_version = ARCHITECTURES.get(architecture)
    if least_version is None:
        if architecture < max(ARCHITECTURES):
            return f"its .target {module.target} is no architecture; {KNOWN}"
        return None  # newer than this list
    if not is_known(module.target):
        return f"its .target {module.target} has a suffix that sm_{architecture} lacks; {KNOWN}"
    if suffix:  # PTX 8.0 introduced a, 8.8 f
        least_version = max(least_version, (8, 8) if suffix == "f" else (8, 0))
    if module.version < least_version:
        return (
            f"its .target {module.target} needs .version {least_version[0]}.{least_version[1]}, the text says "
            f".version {module.version[0]}.{module.version[1]}"
        )
    return None


# Parameters


def parameter_sizes(entry: PtxFunction) -> tuple[int, ...]:
    """Return the size of each parameter in bytes."""
    return tuple(param.size for param in entry.params)


def mismatch(entry: PtxFunction, constants: int, bindings: int) -> str | None:
    """Return why a kernel cannot be dispatched with this number of bindings and 32-bit constants, as a clause of an
    error message; None if it can.

    A kernel's parameters are one pointer per binding, then the constants: a parameter of up to 4 bytes takes one
    constant, one of 8 bytes takes two (low, high).
    """
    layout = _counted(bindings, "binding") + " and " + _counted(constants, "constant")
    if len(entry.params) < bindings:
        return (
            f"it has {_counted(len(entry.params), 'parameter')} (line {entry.line}), the layout has {layout}: expected "
            f"{bindings} pointers, and then the constants"
        )
    for index, param in enumerate(entry.params[:bindings]):
        if param.size != 8 or param.type not in _POINTERS:
            return (
                f"parameter {index} '{param.name}' (line {param.line}) is {_described(param)}, expected a "
                f"pointer of 64 bits for binding {index}: the layout has {layout}, and bindings come first"
            )
    return _constants_mismatch(entry, constants, bindings)


def _constants_mismatch(entry: PtxFunction, constants: int, bindings: int) -> str | None:
    """Return why the parameters after the first `bindings` ones do not take the constants; None if they do.

    The text is a clause of an error message.
    """
    word_count = 0  # constants of 32 bits that the parameters take
    for index, param in enumerate(entry.params[bindings:], bindings):
        if param.size not in (1, 2, 4, 8):
            return (
                f"parameter {index} '{param.name}' (line {param.line}) is {_described(param)}, expected a scalar of "
                "up to 8 bytes: constants have 4 bytes, or 8 as two; write a parameter for each member of a struct"
            )
        word_count += 2 if param.size == 8 else 1
    if word_count != constants:
        scalars = entry.params[bindings:]
        shown = ", ".join(f"'{param.name}' {_described(param)}" for param in scalars[:6])
        shown += ", ..." if scalars[6:] else ""
        take = f"{'takes' if len(scalars) == 1 else 'take'} {_counted(word_count, 'constant')} of 32 bits"
        return (
            f"its {_counted(len(scalars), 'parameter')} after the {_counted(bindings, 'pointer')} (line {entry.line}) "
            f"{take}{f' ({shown})' if scalars else ''}, the layout has {constants}; a parameter of 8 bytes takes two"
        )
    return None


def mismatch_of_sizes(sizes: Sequence[int], constants: int, bindings: int) -> str | None:
    """Return why machine code cannot be dispatched with this number of bindings and 32-bit constants; None if it can.

    The text is a clause of an error message. Of machine code, only the sizes of parameters are known. They are one
    pointer of 8 bytes per binding, then the constants: one for a parameter of up to 4 bytes, two for one of 8 bytes.

    sizes: bytes of each parameter of the kernel.
    """
    if len(sizes) < bindings:
        return f"it has {_counted(len(sizes), 'parameter')}, the layout {_counted(bindings, 'binding')}"
    word_count = 0  # constants of 32 bits that the parameters take
    for index, size in enumerate(sizes):
        if index < bindings and size != 8:
            return f"its parameter {index} has {size} bytes, expected a pointer of 8"
        if size not in (1, 2, 4, 8):
            return (
                f"its parameter {index} has {size} bytes, expected a scalar of 1, 2, 4 or 8; write a parameter for "
                "each member of a struct"
            )
        if index >= bindings:
            word_count += 2 if size == 8 else 1
    if word_count != constants:
        return (
            f"its parameters after the bindings take {word_count} words of 32 bits, the layout has {constants} "
            "constants"
        )
    return None


def described_mismatch(
    parameters: Parameters, constants: int, bindings: int, sizes: Sequence[int], entry: PtxFunction | None
) -> str | None:
    """Return why a kernel does not take the parameters that its author describes, as a clause of an error message;
    None if it does.

    Args:
        parameters: The described parameters.
        constants: Number of 32-bit constants in the layout.
        bindings: Number of bindings in the layout.
        sizes: Sizes of the kernel's parameters in bytes.
        entry: The kernel; None for machine code, whose sizes of parameters alone are known.
    """
    if (problem := parameters.mismatch(bindings, constants)) is not None:
        return problem
    if len(sizes) != len(parameters.sizes):
        line = "" if entry is None else f" (line {entry.line})"
        return f"it has {_counted(len(sizes), 'parameter')}{line}, {len(parameters.sizes)} are described"
    for index, (has, described) in enumerate(zip(sizes, parameters.sizes, strict=True)):
        param = None if entry is None else entry.params[index]
        what = f"parameter {index}" if param is None else f"parameter {index} '{param.name}' (line {param.line})"
        if has != described:
            return f"{what} is {_counted(has, 'byte')}, the description has {described}"
        if param is not None and param.align > parameters.alignments[index]:
            return f"{what} is aligned to {param.align} bytes, the description to {parameters.alignments[index]}"
    return None


def _counted(count: int, what: str) -> str:
    """Return a number of things: 2, "byte" -> "2 bytes"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def _described(param: Param) -> str:
    """Return a parameter's type as messages print it: ".u32 of 4 bytes", "16 bytes (.b8, a struct)"."""
    is_array = param.count > 0  # of .b8 in the code of compilers, which pass structs so
    if is_array or param.type == "b8":
        return f"{param.size} bytes" + (" (.b8, a struct)" if is_array else "")
    return f".{param.type} of {_counted(param.size, 'byte')}"


def block_problem(entry: PtxFunction, size: Sequence[int], shared: int) -> str | None:
    """Return why a kernel cannot run with a block size and dynamic workgroup memory, as a clause of an error message;
    None if it can.

    Static workgroup memory that the module declares outside of the kernel is not counted: it may belong to other
    kernels. A device reports it when it loads the module.

    Args:
        entry: The kernel.
        size: Threads per block for x, y and z; sizes that are left out are 1.
        shared: Dynamic workgroup memory in bytes.
    """
    x, y, z = (*size, 1, 1)[:3]  # sizes that are left out are 1
    shown = f"{x}x{y}x{z}"
    if min(x, y, z) < 1:
        return f"its block is {shown}, expected at least one thread in each direction"
    exceeds_a_direction = x > MAX_BLOCK[0] or y > MAX_BLOCK[1] or z > MAX_BLOCK[2]
    if x * y * z > MAX_THREADS or exceeds_a_direction:
        return (
            f"its block of {shown} is {x * y * z} threads, CUDA has up to {MAX_THREADS} in a block and "
            f"{MAX_BLOCK[0]}x{MAX_BLOCK[1]}x{MAX_BLOCK[2]} in its directions"
        )
    if (problem := _stated_size_problem(entry, (x, y, z))) is not None:
        return problem
    # Extern variables name the dynamic memory, whose size is in `shared`.
    static_bytes = sum(v.size for v in entry.variables if v.space == "shared" and v.linkage != "extern")
    if shared < 0 or static_bytes + shared > MAX_SHARED:
        return (
            f"it takes {static_bytes} bytes of workgroup memory and {shared} more at launch, a block has up to "
            f"{MAX_SHARED} on any device"
        )
    return None


def _stated_size_problem(entry: PtxFunction, size: tuple[int, int, int]) -> str | None:
    """Return how a block size contradicts a kernel's `.reqntid` (the size) or `.maxntid` (the most threads); else None.

    The text is a clause of an error message. `size` is the number of threads per block for x, y and z.
    """
    shown = "x".join(map(str, size))
    required = entry.directives.get("reqntid")
    if required:
        wanted = (*required, 1, 1)[:3]  # sizes that are left out are 1
        if wanted != size:
            return (
                f"it states .reqntid {', '.join(map(str, wanted))} (line {entry.line}), the workgroup size is {shown}; "
                "they have to be the same"
            )
    limit = entry.directives.get("maxntid")
    if limit:
        most_threads, threads = math.prod(limit), math.prod(size)
        if threads > most_threads:
            return (
                f"it states .maxntid {', '.join(map(str, limit))} (line {entry.line}), {most_threads} threads; the "
                f"workgroup size {shown} is {threads}"
            )
    return None
