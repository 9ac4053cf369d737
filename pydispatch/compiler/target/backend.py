"""Interface of a compiler backend: one object for each kind of target, queried for its capabilities.

Backends are registered under the names that target attributes and `targets=` use, see `pydispatch.extensions`.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from xdsl.dialects.builtin import DictionaryAttr, StringAttr

from pydispatch import extensions
from pydispatch.compiler.kernel_ir.kernel import Binary, Variant
from pydispatch.compiler.target.cpu import Machine
from pydispatch.errors import CompileError, Location
from pydispatch.ir.dialects.hal.device import ExecutableTargetAttr

Dump = Callable[[str, "bytes | str"], object]
"""Function that stores an intermediate form of a compilation (the option `dump`), from the name of a file and its
content: text, or the bytes of a binary form. Backends pass only the suffix of the name, such as ".ll"; the driver puts
the names of the executable and the variant before it."""


@contextmanager
def located_errors(variant: Variant) -> Iterator[None]:
    """Give a CompileError without a location the location of the variant that is being compiled."""
    try:
        yield
    except CompileError as error:
        if error.location is None and variant.location is not None:
            raise CompileError(error.message, variant.location, error.note) from error
        raise


class Architectures(ABC):
    """Architectures of a backend's targets, such as "sm_80": how targets state them, and which one runs whose code."""

    entries: frozenset[str]
    """Names of the configuration entries that describe the architecture. They are not compared when the key of an
    object is matched with a target."""

    @abstractmethod
    def stated(self, configuration: DictionaryAttr) -> str:
        """Return the architecture that a configuration states; "" for none."""

    @abstractmethod
    def best(self, have: Iterable[str], wanted: str) -> str | None:
        """Return the architecture in `have` whose code suits a machine of architecture `wanted` best.

        Return None if the machine runs the code of none of them.
        """

    @abstractmethod
    def target(self, target: ExecutableTargetAttr, name: str) -> ExecutableTargetAttr:
        """Return a copy of the target for the architecture `name`."""


class Backend:
    """Base class of the backends, one for each kind of target: CPU, CUDA, Vulkan and so on.

    The compiler queries the one object of a backend for the names of targets, for what kernels may use, and for the
    binary of a variant. The defaults describe a machine of which only scalar code, loops and small blocks of memory
    are known; a subclass overrides those that differ.
    """

    name: str
    """Canonical name in target attributes, such as "llvm-cpu". A backend may be registered by other names, too."""

    emitter: str
    """"module:function" that `compile_variant` calls; the module is imported when something is compiled."""

    format: str = ""
    """The binary format; "" where it depends on the machine."""

    machines: Sequence[str] = ()
    """Names of machines, such as "sm_80", that `targets=` may have besides the name of the backend; for messages."""

    # -- names and options

    names_cpus: bool = False
    """Whether `cpu=` and `cpu_features=` apply to targets of this backend."""

    def select(self, machine: str) -> ExecutableTargetAttr | None:
        """Return the target that a name in `targets=` means; None for the name of another backend's machine.

        machine: the whole name if it is that of a machine, such as "x86_64" or "sm_80"; "" for the backend's own name.
        """
        return None if machine else self.target()

    def with_options(
        self, target: ExecutableTargetAttr, cpus: Sequence[str], features: str
    ) -> list[ExecutableTargetAttr]:
        """Return copies of a target for the values of `cpu=` and `cpu_features=`; CompileError for unknown features.

        Args:
            target: The target.
            cpus: Names of CPUs. There is a copy for each one of the target's architecture; empty for the target's own.
            features: LLVM features ("+avx2,-fma") that replace those of the target; "" for its own.
        """
        return [target]  # by default a backend's targets name no CPUs

    def has_format(self, format: str) -> bool:
        """Return whether a binary format is this backend's."""
        return format == self.format

    def target(self, format: str = "", **configuration: str) -> ExecutableTargetAttr:
        """Build a target attribute of this backend with these configuration strings."""
        entries = DictionaryAttr({key: StringAttr(value) for key, value in configuration.items()})
        return ExecutableTargetAttr(StringAttr(self.name), StringAttr(format or self.format), entries)

    def compile_variant(self, variant: Variant, dump: Dump | None) -> Binary:
        """Compile a variant to its binary. dump: takes (suffix, content) of each intermediate. Raises CompileError."""
        module, _, function = self.emitter.partition(":")
        binary: Binary = getattr(importlib.import_module(module), function)(variant, dump=dump)
        return binary

    architectures: Architectures | None = None
    """None where targets name no architecture, or the format has it."""

    shares_executables: bool = False
    """Whether the dispatches of a program become one executable, because linking and loading take time for each one."""

    # -- generated kernels

    workgroup_bytes: int = 128 << 10
    """Bytes that a workgroup of a generated kernel is to read and write; rows are divided accordingly. 128 KiB stays
    inside every second-level cache, takes some microseconds, which hides the cost of claiming it a hundredfold, and
    leaves enough workgroups to share."""

    most_tensors: int | None = None
    """Maximum number of tensors that a dispatch reads and writes, where devices have few bindings; None for the limits
    in `analysis/kinds.py`. Operations with more are split where that is possible."""

    row_bytes: int = 64 << 10
    """Bytes of the largest row of intermediates that is kept in workgroup memory."""

    has_invocations: bool = False
    """Whether a workgroup consists of invocations (threads of a GPU), over which the elements of a kernel are
    distributed."""

    subgroup_size: int = 0
    """Number of invocations that exchange registers by shuffles: successive ones of a workgroup. 0 without shuffles."""

    stops: bool = False
    """Whether a kernel whose assertion does not hold stops and reports it. For other backends, `outline/asserts.py`
    rewrites assertions."""

    has_large_buffers: bool = True
    """Whether a tensor of dynamic sizes may have more elements than 32 bits count."""

    def loads_pairs(self, target: ExecutableTargetAttr) -> bool:
        """Return whether kernels read two adjacent elements of 32 bits faster as one of 64 bits."""
        return False

    def cpu_machine(self, target: ExecutableTargetAttr) -> Machine | None:
        """Return the machine whose vector registers decide the block sizes of matrix products.

        `pyd.contract` computes one block in registers. Return None if the backend cannot emit that operation.
        """
        return None

    def mma_generation(self, target: ExecutableTargetAttr) -> int | None:
        """Return the compute capability, such as 80: matrix products are tiled for the shapes of its MMA instructions.

        Return None if the backend cannot emit `pyd.mma`, or cannot keep the accumulators of an invocation live from one
        loop over the points of a tile to the next.
        """
        return None


def backend_named(name: str) -> Backend | None:
    """Return the backend of a name, None for one that is not in this installation."""
    part = extensions.part("target", name)
    return None if part is None else part.load()


def backend_of(target: ExecutableTargetAttr) -> Backend | None:
    """Return the backend of a target attribute, None for one that is not in this installation."""
    return backend_named(target.backend.data)


def require_backend(target: ExecutableTargetAttr, prefix: str = "", location: Location | None = None) -> Backend:
    """Return the backend of a target. Raise CompileError, whose message begins with `prefix`, if there is none."""
    backend = backend_of(target)
    if backend is None:
        raise CompileError(
            f"{prefix}there is no backend '{target.backend.data}' in this build",
            location,
            f"supported: {', '.join(known.name for known in backends())}; choose the targets to compile with targets=",
        )
    return backend


def backends() -> list[Backend]:
    """Return all backends of this installation."""
    return list(dict.fromkeys(part.load() for part in extensions.parts("target")))


def architecture(target: ExecutableTargetAttr) -> str:
    """Return the architecture that a target attribute states; "" for none."""
    backend = backend_of(target)
    if backend is None or backend.architectures is None:
        return ""
    return backend.architectures.stated(target.configuration)


def config_string(target: ExecutableTargetAttr, key: str, default: str = "") -> str:
    """Return a string entry of a target's configuration."""
    value = target.configuration.data.get(key)
    return value.data if isinstance(value, StringAttr) else default
