"""CUDA as a compilation target: architecture names in target attributes, and which code runs on which architecture."""

from __future__ import annotations

import re
from collections.abc import Iterable

from xdsl.dialects.builtin import DictionaryAttr, StringAttr, UnregisteredAttr
from xdsl.ir import Attribute

from pydispatch.compiler.target.backend import Architectures, Backend
from pydispatch.errors import CompileError
from pydispatch.formats.ptx.interface import KNOWN, NAMES, is_known
from pydispatch.ir.dialects.hal.device import ExecutableTargetAttr

FORMAT = "cuda-nvptx-fb"
"""IREE's name of the format of CUDA executables, as in target attributes."""
DEFAULT = "sm_75"
"""Architecture for a target that states none."""

ENTRIES = ("target", "target_arch", "iree.gpu.target", "iree_codegen.target_info")
"""Entries of a configuration that may state the architecture, in order of precedence."""

_NAME = re.compile(r"(?:sm|compute)_(\d+)([af]?)")
"""Name of an architecture: its number, and the suffix of features that other architectures lack."""
_QUOTED = re.compile(r'\barch\s*=\s*"([^"]*)"')
"""Architecture among the parameters of `#iree_gpu.target`."""


def is_architecture(name: str) -> bool:
    """Return whether a name is spelled like an architecture: sm_80, sm_90a."""
    return name.startswith("sm_") and _NAME.fullmatch(name) is not None


def number_of(name: str) -> int:
    """Return the number of an architecture: 80 for sm_80 and sm_80a. Raises ValueError for other names."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"'{name}' is no CUDA architecture: expected a name such as sm_80")
    return int(match[1])


def stated(configuration: DictionaryAttr) -> str:
    """Return the architecture that the configuration of an executable target states, such as "sm_80"; "" for none.

    It may be `target = "sm_80"`, `target_arch = "sm_80"`, or inside an `#iree_gpu.target<arch = "sm_80", ...>`.
    """
    for key in ENTRIES:
        value = configuration.data.get(key)
        if isinstance(value, StringAttr):
            return value.data.replace("compute_", "sm_")
        text = _opaque(value)
        if match := _QUOTED.search(text):
            return match[1]
    return ""


def _opaque(value: Attribute | None) -> str:
    """Return a text in which `_QUOTED` finds the architecture that an attribute of another dialect states.

    For `#iree_gpu.target<arch = "sm_80", ...>` it is the text of the parameters, between the angle brackets. For a
    dictionary it is `arch = "sm_80"` alone. It is "" for an attribute that cannot state an architecture.
    """
    if isinstance(value, UnregisteredAttr):
        return value.value.data
    if isinstance(value, DictionaryAttr):
        inner = value.data.get("arch")
        return f'arch = "{inner.data}"' if isinstance(inner, StringAttr) else ""
    return ""


def runs_on(code: str, machine: str) -> bool:
    """Return whether PTX for the architecture `code` runs on `machine`. Architectures with a suffix run only on
    themselves.
    """
    if code == machine:
        return True
    match = _NAME.fullmatch(code)
    return match is not None and not match[2] and int(match[1]) <= number_of(machine)


class _Architectures(Architectures):
    """Architectures of NVIDIA GPUs, such as "sm_80". PTX for one runs on newer ones, too, unless its name has a suffix.

    PTX for sm_90a, for example, runs on sm_90a alone. `Architectures` describes the attribute and the methods.
    """

    # Entries that state the architecture, and others that compilation for CUDA reads.
    entries = frozenset((*ENTRIES, "target_features", "features", "ptx", "workgroup_size_limit"))

    def stated(self, configuration: DictionaryAttr) -> str:
        """Return the architecture that a configuration states, such as "sm_80"; "" for none."""
        return stated(configuration)

    def best(self, have: Iterable[str], wanted: str) -> str | None:
        """Return the architecture `wanted` if it is among those of `have`, else the newest of these whose code runs on
        it; None if there is none.

        Of sm_75, sm_80 and sm_90, the best for sm_86 is sm_80.
        """
        fitting = [name for name in have if is_architecture(name) and runs_on(name, wanted)]
        return max(fitting, key=lambda name: (name == wanted, number_of(name)), default=None)

    def target(self, target: ExecutableTargetAttr, name: str) -> ExecutableTargetAttr:
        """Return `target` with the architecture `name`, such as "sm_80", instead of its own."""
        entries = target.configuration.data
        others = {key: value for key, value in entries.items() if key not in ("target", "target_arch")}
        configuration = DictionaryAttr({"target": StringAttr(name), **others})
        return ExecutableTargetAttr(target.backend, target.format, configuration)


class Cuda(Backend):
    """Backend for NVIDIA GPUs: PTX for the architecture that the target states, or for `DEFAULT`.

    `Backend` describes the attributes.
    """

    name = "cuda"
    format = FORMAT
    emitter = "pydispatch.compiler.backends.cuda.backend:compile_variant"
    machines = (f"sm_80 and the like ({', '.join(NAMES)})",)  # names in `targets=`, for messages
    architectures = _Architectures()
    workgroup_bytes = 16 << 10  # that a workgroup (block) of a generated kernel reads and writes
    row_bytes = 8 << 10  # largest row of intermediates in shared memory
    has_invocations = True  # threads
    subgroup_size = 32  # a warp

    def select(self, machine: str) -> ExecutableTargetAttr | None:
        """Return the target of "sm_80" or "cuda:sm_80", or the default one for ""; None for another backend's name."""
        name = machine.removeprefix("cuda:")
        if name and not is_architecture(name):
            return None
        if name and not is_known(name):
            raise CompileError(f"there is no CUDA architecture '{name}'", note=KNOWN)
        return self.target(target=name) if name else self.target()

    def mma_generation(self, target: ExecutableTargetAttr) -> int:
        """Return the architecture as a number, such as 80 for "sm_80", which decides about instructions for tiles."""
        return number_of(stated(target.configuration) or DEFAULT)


BACKEND = Cuda()
"""Backend that `extensions.builtin` registers."""
