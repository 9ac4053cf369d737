"""Preparation of bitcode for nvptx64 to be linked into a generated module. Runs in LLVM's process."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from pydispatch.compiler.toolchain import foreign
from pydispatch.errors import CompileError

TRIPLE = "nvptx64-nvidia-cuda"
"""Target triple of the prepared bitcode."""

_CALLED = (
    "acos", "asin", "atan", "atan2", "cos", "cosh", "exp", "exp2", "exp10", "log", "log10", "log2", "pow", "sin",
    "sinh", "tan", "tanh",
)  # fmt: skip
"""C functions, without the suffix f, whose LLVM intrinsics are replaced by calls, since LLVM cannot lower them for
PTX."""
_INTRINSIC = re.compile(rf"@llvm\.({'|'.join(_CALLED)})\.(f32|f64)\b")
"""Name of an intrinsic that is replaced by a call: `@llvm.exp.f32` becomes `@expf`."""
# Attributes of functions that describe the machine or the C library that the bitcode was compiled for:
_TARGET = re.compile(r' "(?:no-builtins?[^"=]*|target-cpu|target-features|tune-cpu|frame-pointer|no-trapping-math|'
                     r'stack-protector[^"=]*|min-legal-vector-width|probe-stack|uniform-work-group-size)"'
                     r'(?:="[^"]*")?')  # fmt: skip
"""String attributes of functions that are for the machine or the compiler that the bitcode was made with."""
_GROUPS = re.compile(r"^attributes #\d+ = \{.*\}$", re.MULTILINE)
"""Definition of an attribute group, to which functions refer by its number."""
_DROPPED = re.compile(r"(?<= )(?:ssp|sspstrong|sspreq|uwtable(?:\(\w+\))?|sanitize_\w+|optnone) ")
"""Attributes of hosts: stack protectors, unwind tables, sanitizers; and `optnone`, which forbids optimization."""
_METADATA = re.compile(
    r"^!(?:llvm\.(?:module\.flags|ident|dbg\.cu|errno\.tbaa)|nvvm\.annotations|nvvmir\.version) = .*\n", re.MULTILINE
)
"""Metadata of a module that clashes with that of other modules, or belongs to the compiler that wrote it."""
_THREAD = "llvm.nvvm.read.ptx.sreg.tid."
"""Beginning of the names of the intrinsics that read threadIdx."""
_TRIPLES = ("nvptx64",)
"""Beginnings of accepted target triples."""

T = TypeVar("T")


def undefined(data: bytes) -> frozenset[str]:
    """Return the names of the functions that bitcode declares but does not define.

    They include functions of the C library and LLVM's intrinsics.
    """

    def names(llvm: Any, context: Any) -> frozenset[str]:
        """Return the names of the functions that the bitcode `data` declares and does not define."""
        module = llvm.parse_assembly(_machine_neutral_ir(llvm, data, context), context)
        try:
            return frozenset(f.name for f in module.functions if f.is_declaration)
        finally:
            module.close()

    return _in_context(names)


def prepared(data: bytes, library: bytes) -> bytes:
    """Return bitcode with a library linked in, and without attributes of a machine, such as target-cpu.

    The definitions of the library become internal: other bitcode of the same program may contain them, too.

    Args:
        data: Bitcode for nvptx64, or without a target triple.
        library: Bitcode of the functions that `data` calls; b"" for none.
    """

    def linked(llvm: Any, context: Any) -> bytes:
        """Return the bitcode `data` with the bitcode `library` linked in, whose definitions become internal."""
        module = llvm.parse_assembly(_machine_neutral_ir(llvm, data, context), context)
        # The module's own definitions stay visible: generated kernels call them.
        own = {v.name for v in (*module.functions, *module.global_variables) if not v.is_declaration}
        if library:
            module.link_in(llvm.parse_bitcode(library, context))
        _hide(module, own)
        result = bytes(module.as_bitcode())
        module.close()
        return result

    return _in_context(linked)  # called with llvmlite and a new LLVM context; errors of LLVM become CompileError


def serial_functions(data: bytes) -> frozenset[str]:
    """Return the visible functions of a module that do not read thread ids, directly or through calls.

    All threads of a block compute the same in such a function.
    """

    def read(llvm: Any, context: Any) -> tuple[dict[str, str], set[str]]:
        """Return the text of each function that the bitcode `data` defines, and the names of those with external
        linkage, which other modules may call.
        """
        module = llvm.parse_bitcode(data, context)
        try:
            texts = {f.name: str(f) for f in module.functions if not f.is_declaration}
            visible = {f.name for f in module.functions if f.linkage.name not in ("internal", "private")}
            return texts, visible
        finally:
            module.close()

    texts, visible = _in_context(read)
    # By function, the symbols after @ in its text: all that it calls, and a few that it only mentions.
    called = {name: set(re.findall(r"@([\w.$]+)", text)) for name, text in texts.items()}
    reads_ids = {name for name, names in called.items() if any(n.startswith(_THREAD) for n in names)}
    # Add the functions that call one that reads thread ids, until none is new.
    while callers := {name for name, names in called.items() if names & reads_ids} - reads_ids:
        reads_ids |= callers
    visible_definitions = visible & texts.keys()
    return frozenset(visible_definitions - reads_ids)


def _in_context(work: Callable[[Any, Any], T]) -> T:
    """Call `work` with llvmlite and a new LLVM context. Errors of LLVM become CompileError."""
    from llvmlite import binding as llvm

    context = llvm.create_context()
    try:
        return work(llvm, context)
    except RuntimeError as error:
        raise CompileError(f"cannot be linked: {str(error).strip()}") from None
    finally:
        context.close()


def _machine_neutral_ir(llvm: Any, data: bytes, context: Any) -> str:
    """Return bitcode as LLVM IR without machine attributes, and with math intrinsics replaced by C functions.

    `call float @llvm.exp.f32(...)` becomes `call float @expf(...)`, which the device library defines: LLVM cannot lower
    these intrinsics for PTX. Metadata that would clash with that of other modules is removed.

    Raises CompileError for another machine; the caller puts the file's name before the message.
    """
    module = llvm.parse_bitcode(data, context)
    try:
        triple, text = module.triple, str(module)
    finally:
        module.close()
    if triple and not triple.startswith(_TRIPLES):
        raise CompileError(
            f"is bitcode for {triple}, expected {TRIPLE}",
            note="compile it with clang --target=nvptx64-nvidia-cuda -emit-llvm -c, or give the .c or .cu file itself",
        )
    # _TARGET matches string attributes of the machine, _METADATA the metadata of the whole module.
    text = _METADATA.sub("", _TARGET.sub("", text))
    # Drop function attributes of the host; an attribute group must not become empty.
    text = _GROUPS.sub(lambda group: foreign.with_placeholder_if_empty(_DROPPED.sub("", group[0])), text)
    # match[1] is the function, match[2] the type: @llvm.exp.f32 becomes @expf, @llvm.exp.f64 becomes @exp.
    return _INTRINSIC.sub(lambda match: f"@{match[1]}{'f' if match[2] == 'f32' else ''}", text)


def _hide(module: Any, own: set[str]) -> None:
    """Internalize the definitions that come from the library. own: the names that the module itself defines."""
    for value in (*module.functions, *module.global_variables):
        if value.is_declaration or value.name in own or value.name.startswith("llvm."):
            continue
        if value.linkage.name not in ("private", "internal"):
            value.linkage = "internal"
