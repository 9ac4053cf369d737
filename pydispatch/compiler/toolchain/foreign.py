"""Functions of C and bitcode as LLVM IR text: which target features they keep, and what workgroups cannot have.

clang states the features of the whole file on each function, and on a function with `__attribute__((target))` its own
besides. The former give way to those of the machine, so that functions are inlined into kernels. The latter stay: LLVM
inlines such a function only into one that has its features.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from pydispatch.errors import CompileError

_GROUP = re.compile(r"^attributes #\d+ = \{.*\}$", re.MULTILINE)
_FEATURES = re.compile(r'"target-features"="([^"]*)"')
_TARGET = re.compile(r' "(?:target-cpu|target-features|tune-cpu|min-legal-vector-width)"(?:="[^"]*")?')
_OTHER = re.compile(
    r' "(?:no-builtins?[^"=]*|frame-pointer|no-trapping-math|stack-protector[^"=]*|stack-protector-buffer-size|'
    r'probe-stack|prefer-vector-width|uniform-work-group-size)"(?:="[^"]*")?'
)
_DROPPED = re.compile(r"(?<= )(?:ssp|sspstrong|sspreq|uwtable(?:\(\w+\))?|sanitize_\w+|optnone) ")
_VARIABLE = re.compile(r'^@("[^"]*"|[\w.$-]+) = (?!external |extern_weak )([^=\n]*?)\b(global|constant) ', re.MULTILINE)
_EXTENSIONS = ("avx", "amx", "sve", "sme", "aes", "pclmul", "sha", "gfni", "vaes", "vpclmul", "rdrnd", "sse4a", "xop")
_PERSONALITY = re.compile(r"^define .* personality ", re.MULTILINE)

EXCEPTIONS = "kernels cannot throw: compile with -fno-exceptions, and report failures through a binding"
CONSTRUCTORS = "no code runs before a kernel: initialize with constants (constexpr), or pass the data as a binding"
WRITABLE = "workgroups run at once and share nothing: make it const, or pass it as a binding"
THREAD_LOCAL = "kernels have no thread of their own: pass state through a binding"


def not_empty(group: str) -> str:
    """Add a placeholder to an attribute group that is empty, and return the group: LLVM refuses empty groups, such as
    that of a declaration of modf.
    """
    return re.sub(r"\{ *\}$", '{ "pyd.none" }', group)


def used_features(text: str) -> frozenset[str]:
    """Return the target features that some function has."""
    return frozenset(f[1:] for features in _FEATURES.findall(text) for f in features.split(",") if f.startswith("+"))


def beyond(features: Collection[str], known: Collection[str], machine: Collection[str]) -> frozenset[str]:
    """Return the features that the machine lacks. known: names that a level of the architecture may have."""
    interesting = {f for f in features if f in known or f.startswith(_EXTENSIONS)}
    return frozenset(interesting - set(machine) - {"xsave"})


def adapted(text: str, known: Collection[str], machine: Collection[str]) -> str:
    """Return a module whose functions take the machine's features, except those that state further ones."""
    groups = [used_features(group[0]) for group in _GROUP.finditer(text) if _FEATURES.search(group[0])]
    common = frozenset.intersection(*groups) if groups else frozenset()

    def adapt(group: re.Match[str]) -> str:
        features = used_features(group[0])
        is_kept = bool(beyond(features, known, machine) or (features - common) - set(machine))
        kept = group[0] if is_kept else _TARGET.sub("", group[0])
        return not_empty(_DROPPED.sub("", _OTHER.sub("", kept)))

    return _GROUP.sub(adapt, text)


def check_state(name: str, text: str) -> None:
    """Raise CompileError for what kernels cannot have: thread-local data, constructors, exceptions."""
    for match in _VARIABLE.finditer(text):
        variable = match[1].strip('"')
        if "thread_local" in match[2]:
            raise CompileError(f"object '{name}' has the thread-local variable '{variable}'", note=THREAD_LOCAL)
        if variable in ("llvm.global_ctors", "llvm.global_dtors"):
            message = f"object '{name}' has constructors or destructors of global variables"
            raise CompileError(message, note=CONSTRUCTORS)
    if _PERSONALITY.search(text):
        raise CompileError(f"object '{name}' uses exceptions", note=EXCEPTIONS)


def writable(text: str) -> frozenset[str]:
    """Return the names of the variables that a module defines and may write."""
    names = ((match[1].strip('"'), match[3]) for match in _VARIABLE.finditer(text))
    return frozenset(name for name, kind in names if kind == "global" and not name.startswith("llvm."))
