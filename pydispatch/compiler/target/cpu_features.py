"""Check of CPU feature names against those that LLVM knows; LLVM itself silently ignores unknown names."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Iterable

from pydispatch.compiler.target.cpu import BASELINE, named_features
from pydispatch.errors import CompileError
from pydispatch.suggestions import nearest

# Program that makes LLVM list its features on stderr, by the feature "+help". A child process runs it: LLVM prints
# the list only once in the life of a process.
_LIST = (
    "import sys; from llvmlite import binding as b; b.initialize_all_targets(); b.initialize_all_asmprinters(); "
    "b.Target.from_triple(sys.argv[1] + '-unknown-linux-gnu').create_target_machine(features='+help')"
)
_LINE = re.compile(r"^  (\S+) +- ", re.MULTILINE)
"""Line of LLVM's list, such as `  avx2 - Enable AVX2 instructions.`, with the feature's name."""


@functools.cache
def llvm_features(arch: str) -> frozenset[str]:
    """Return the names of LLVM's features of an architecture: those that LLVM lists, and those in the tables of cpu.py.

    If LLVM lists none, the tables are the only source.
    """
    process = subprocess.run([sys.executable, "-c", _LIST, arch], capture_output=True, text=True, check=False)
    feature_list = process.stderr.partition("Available features")[2]
    return frozenset(_LINE.findall(feature_list)) | named_features(arch)


def check_features(arch: str, stated: Iterable[str]) -> None:
    """Raise CompileError, with the nearest names, for a feature that has no sign or that LLVM does not know.

    stated: features with their signs, such as "+avx2" and "-fma".
    """
    if arch not in BASELINE:
        return  # `machine_of` raises the error for an unknown architecture
    for feature in stated:
        sign, name = feature[:1], feature[1:]
        if sign not in ("+", "-") or not name:
            raise CompileError(
                f"CPU feature '{feature}': expected a sign and LLVM's name, such as '+avx2'",
                note=f"did you mean '+{feature}'?" if feature in named_features(arch) else None,
            )
        # LLVM is asked for all its names only if one is not in our own tables, since that takes a process.
        if name in named_features(arch):
            continue
        names = llvm_features(arch)
        if name in names:
            continue
        note = nearest(name, names, most=3, cutoff=0.5, prefix=sign)
        if not note:
            examples = sorted(named_features(arch) - BASELINE[arch])[:6]
            note = f"for example {', '.join('+' + known_name for known_name in examples)}"
        raise CompileError(f"{arch} has no CPU feature '{name}' (in '{feature}')", note=note)
