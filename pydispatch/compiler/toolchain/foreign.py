"""Functions of C and bitcode as LLVM IR text: which target features they keep, and what workgroups cannot have.

clang states the features that the whole file is compiled for on each function. A function with
`__attribute__((target))` also has features of its own. Features that do not go beyond those of the machine are removed,
so that functions take the machine's and are inlined into kernels. Other features stay: LLVM inlines a function only
into one that has all of its features.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from pydispatch.errors import CompileError

_GROUP = re.compile(r"^attributes #\d+ = \{.*\}$", re.MULTILINE)
"""Attribute group of functions: `attributes #0 = { nounwind "target-features"="+avx2" }`."""
_FEATURES = re.compile(r'"target-features"="([^"]*)"')
"""Target features of a function or group, such as "+avx2,-fma"."""
_TARGET_ATTRIBUTES = re.compile(r' "(?:target-cpu|target-features|tune-cpu|min-legal-vector-width)"(?:="[^"]*")?')
"""Attributes of the CPU that a function was compiled for. They are removed, so that the function is inlined into
kernels; `adapted` keeps them if its features go beyond those of the machine."""
_CODE_GENERATION_ATTRIBUTES = re.compile(
    r' "(?:no-builtins?[^"=]*|frame-pointer|no-trapping-math|stack-protector[^"=]*|stack-protector-buffer-size|'
    r'probe-stack|prefer-vector-width|uniform-work-group-size)"(?:="[^"]*")?'
)
"""Attributes with the code generation options of the compiler that wrote a function; they are removed, since they
hinder optimization and inlining into kernels."""
_HARDENING_ATTRIBUTES = re.compile(r"(?<= )(?:ssp|sspstrong|sspreq|uwtable(?:\(\w+\))?|sanitize_\w+|optnone) ")
"""Attributes of stack protectors, unwind tables and sanitizers, and `optnone`; they are removed."""
_VARIABLE = re.compile(
    r'^@(?P<name>"[^"]*"|[\w.$-]+) = (?!external |extern_weak )(?P<properties>[^=\n]*?)\b(?P<kind>global|constant) ',
    re.MULTILINE,
)
"""Definition of a variable: its name, its linkage and other properties, and whether it is a global or a constant."""
_EXTENSIONS = ("avx", "amx", "sve", "sme", "aes", "pclmul", "sha", "gfni", "vaes", "vpclmul", "rdrnd", "sse4a", "xop")
"""Prefixes of target features that add instructions, in addition to the features of the levels of an architecture.

Other features tune code: `missing_features` ignores them."""
_PERSONALITY = re.compile(r"^define .* personality ", re.MULTILINE)
"""Definition of a function that handles exceptions."""

EXCEPTIONS = "kernels cannot throw: compile with -fno-exceptions, and report failures through a binding"
"""Note of errors about objects that use exceptions."""
CONSTRUCTORS = (
    "initialize with constants (constexpr), or pass the data as a binding: "
    "no code that runs at load is linked into kernels"
)
"""Note of errors about objects whose global variables have constructors or destructors."""
WRITABLE = "workgroups run at once and share nothing: make it const, or pass it as a binding"
"""Note of errors about objects with writable global variables."""
THREAD_LOCAL = "kernels have no thread of their own: pass state through a binding"
"""Note of errors about objects with thread-local variables."""


def with_placeholder_if_empty(group: str) -> str:
    """Add a placeholder to an attribute group that is empty, and return the group: LLVM refuses empty groups, such as
    that of a declaration of modf.
    """
    return re.sub(r"\{ *\}$", '{ "pyd.none" }', group)


def used_features(text: str) -> frozenset[str]:
    """Return the names of the target features that any function of a module, or one attribute group, enables.

    text: LLVM IR of the module or the group.
    """
    return frozenset(f[1:] for features in _FEATURES.findall(text) for f in features.split(",") if f.startswith("+"))


def missing_features(features: Collection[str], known: Collection[str], machine: Collection[str]) -> frozenset[str]:
    """Return those of some target features that add instructions and that the machine lacks.

    Args:
        features: Names of target features, such as "avx2".
        known: Features of the levels of the architecture, such as x86-64-v3. Of other features only those with a
            prefix in `_EXTENSIONS` count: the rest tunes code, but adds no instructions.
        machine: Features of the machine.
    """
    adding_instructions = {feature for feature in features if feature in known or feature.startswith(_EXTENSIONS)}
    never_emitted = {"xsave"}  # compilers state it along with avx
    return frozenset(adding_instructions - set(machine) - never_emitted)


def adapted(text: str, known: Collection[str], machine: Collection[str]) -> str:
    """Return the LLVM IR of a module without the target features of its functions, which then take the machine's.

    LLVM inlines a function only into one that has all of its features, so functions keep theirs only if these go beyond
    those of the machine. Attributes that hinder code generation or inlining are removed from all functions. In a file
    that is compiled with -mavx, for a machine with avx and avx2,

        attributes #0 = { nounwind "frame-pointer"="all" "target-features"="+avx" }
        attributes #1 = { nounwind "target-features"="+avx,+avx512f" }

    become, as the functions of group #1 use instructions that the machine lacks,

        attributes #0 = { nounwind }
        attributes #1 = { nounwind "target-features"="+avx,+avx512f" }

    Args:
        text: The module as LLVM IR.
        known: Features of the levels of the architecture, such as x86-64-v3, which all add instructions. Other features
            may only tune code, as "slow-3ops-lea" does.
        machine: Features of the machine, such as "avx2".
    """
    # The features of each attribute group, which functions with equal attributes share; then those of all groups.
    groups = [used_features(group[0]) for group in _GROUP.finditer(text) if _FEATURES.search(group[0])]
    common_features = frozenset.intersection(*groups) if groups else frozenset()  # those of the whole file

    def adapt(match: re.Match[str]) -> str:
        """Return the attribute group as `adapted` changes it."""
        group, features = match[0], used_features(match[0])
        adds_instructions = bool(missing_features(features, known, machine))
        # Features that only some functions state, with __attribute__((target)), are kept even if they tune code.
        own_features = features - common_features
        states_more = not own_features <= set(machine)
        if not adds_instructions and not states_more:
            group = _TARGET_ATTRIBUTES.sub("", group)
        group = _CODE_GENERATION_ATTRIBUTES.sub("", group)
        return with_placeholder_if_empty(_HARDENING_ATTRIBUTES.sub("", group))

    return _GROUP.sub(adapt, text)


def check_state(name: str, text: str) -> None:
    """Raise CompileError for what kernels cannot have: thread-local data, constructors, exceptions.

    name: name of the object in messages. text: its LLVM IR.
    """
    for match in _VARIABLE.finditer(text):
        variable = match["name"].strip('"')
        if "thread_local" in match["properties"]:
            raise CompileError(f"object '{name}' has the thread-local variable '{variable}'", note=THREAD_LOCAL)
        if variable in ("llvm.global_ctors", "llvm.global_dtors"):
            message = f"object '{name}' has constructors or destructors of global variables"
            raise CompileError(message, note=CONSTRUCTORS)
    if _PERSONALITY.search(text):
        raise CompileError(f"object '{name}' uses exceptions", note=EXCEPTIONS)


def writable_variables(text: str) -> frozenset[str]:
    """Return the names of the variables that a module of LLVM IR defines as writable (`global`, not `constant`)."""
    names = ((match["name"].strip('"'), match["kind"]) for match in _VARIABLE.finditer(text))
    return frozenset(name for name, kind in names if kind == "global" and not name.startswith("llvm."))
