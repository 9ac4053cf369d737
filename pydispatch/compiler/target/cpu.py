"""CPU names and features: what a target attribute says, and what the code that results requires of a machine.

A CPU name is resolved into a level that LLVM knows and explicit features, all of which the runtime can detect; what
else the named CPU has (system instructions) is left out, so that `requires` never asks for what nobody can check.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydispatch.compiler.kernel_ir.kernel import Target
from pydispatch.compiler.target.levels import LEVELS, V4
from pydispatch.compiler.target.machine_model import MachineModel, model_named
from pydispatch.compiler.target.system_caches import with_caches_of_this_machine
from pydispatch.errors import CompileError

_CRYPTO = "adx aes pclmul"
"""Features of Intel's CPUs since Skylake and AMD's since Zen beyond their x86-64 level (x86-64-v3 or v4)."""
_ICELAKE = (
    f"{_CRYPTO} avx512vnni avx512ifma avx512vbmi avx512vbmi2 avx512bitalg avx512vpopcntdq gfni vaes vpclmulqdq sha"
)
"""Features of Ice Lake beyond x86-64-v4; later CPUs of Intel, and Zen 4, have them, too."""
_ZEN = f"{_CRYPTO} sha sse4a"
"""Features of Zen beyond x86-64-v3."""
_SAPPHIRE = f"{_ICELAKE} avx512bf16 avx512fp16 avxvnni amx-tile amx-int8 amx-bf16"
"""Features of Sapphire Rapids beyond x86-64-v4."""

NATIVE = ("native", "host")
"""The names of this machine."""

# Name -> (level, features that the CPU has besides those of the level).
_X86: dict[str, tuple[str, str]] = {
    "haswell": ("x86-64-v3", "pclmul"),
    "skylake": ("x86-64-v3", _CRYPTO),
    "skylake-avx512": ("x86-64-v4", _CRYPTO),
    "cascadelake": ("x86-64-v4", f"{_CRYPTO} avx512vnni"),
    "icelake-client": ("x86-64-v4", _ICELAKE),
    "icelake-server": ("x86-64-v4", _ICELAKE),
    "sapphirerapids": ("x86-64-v4", _SAPPHIRE),
    "graniterapids": ("x86-64-v4", f"{_SAPPHIRE} amx-fp16"),
    "znver1": ("x86-64-v3", _ZEN),
    "znver2": ("x86-64-v3", _ZEN),
    "znver3": ("x86-64-v3", f"{_ZEN} vaes vpclmulqdq"),
    "znver4": ("x86-64-v4", f"{_ICELAKE} sse4a avx512bf16"),
    "znver5": ("x86-64-v4", f"{_ICELAKE} sse4a avx512bf16 avxvnni"),
}
_V82 = "aes crc dotprod fullfp16 lse rcpc rdm sha2"
"""Features that CPUs of Armv8.2-A in `_ARM` have in common."""
_ARM: dict[str, str] = {
    "cortex-a72": "aes crc sha2",
    "cortex-a76": _V82,
    "neoverse-n1": _V82,
    "neoverse-v1": f"{_V82} bf16 fp16fml i8mm sha3 sve",
    "neoverse-n2": "bf16 crc dotprod fp16fml fullfp16 i8mm lse rcpc rdm sve sve2 sve2-bitperm",
    "neoverse-v2": "bf16 crc dotprod fp16fml fullfp16 i8mm lse rcpc rdm sve sve2 sve2-bitperm",
    "apple-m1": f"{_V82} fp16fml sha3",
    "apple-m4": f"{_V82} bf16 fp16fml i8mm sha3",
}
"""CPU of AArch64 → the features that it has beyond BASELINE."""
_RISCV: dict[str, str] = {"generic-rv64": "", "sifive-u74": "", "sifive-x280": "v zba zbb zfh zvfh zvl512b"}
"""CPU of riscv64 → the features that it has beyond BASELINE."""

BASELINE: dict[str, frozenset[str]] = {
    "x86_64": frozenset(["64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2", "x87"]),
    "aarch64": frozenset(["fp-armv8", "neon", "v8a"]),
    "riscv64": frozenset(["64bit", "i", "m", "a", "f", "d", "c", "zicsr", "zifencei"]),
}
"""Architecture → the features that every machine of it has, so that code may use them unconditionally."""
_IMPLIED = {
    "avx": "sse4.2", "avx2": "avx", "fma": "avx", "f16c": "avx", "avx512f": "avx2 fma f16c", "sse4.2": "sse4.1",
    "sse4.1": "ssse3", "ssse3": "sse3", "avx512bw": "avx512f", "avx512dq": "avx512f", "avx512vl": "avx512f",
    "avx512cd": "avx512f", "avx512vnni": "avx512f", "avx512bf16": "avx512bw",
    "avx512fp16": "avx512bw avx512dq avx512vl",
    "avx512vbmi": "avx512bw", "avx512vbmi2": "avx512bw", "avx512bitalg": "avx512bw", "avx512ifma": "avx512f",
    "amx-int8": "amx-tile", "amx-bf16": "amx-tile", "amx-fp16": "amx-tile",
    "avx512vpopcntdq": "avx512f", "avxvnni": "avx2", "sse4a": "sse3", "vaes": "aes avx2", "vpclmulqdq": "pclmul avx",
    "sve": "fullfp16", "sve2": "sve", "sve2-bitperm": "sve2", "sve2p1": "sve2", "fp16fml": "fullfp16", "f64mm": "sve",
    "f32mm": "sve", "v8.1a": "crc lse rdm", "v8.2a": "v8.1a", "v": "d", "zvfh": "v zfhmin", "zfh": "zfhmin",
    "zvl1024b": "zvl512b", "zvl512b": "zvl256b",
}  # fmt: skip
"""Feature → the features that it includes, separated by spaces."""
# Features that a kernel does not require of a machine, although targets that list all of a CPU's features name them:
# instructions that compilers never select by themselves (system, cache control, entropy, scheduling hints), and parts
# of features that are required anyway.
_NOT_REQUIRED = {
    "x86_64": (
        "cldemote clflushopt clwb clzero crc32 enqcmd evex512 fsgsbase hreset invpcid lwp monitor movdir64b movdiri "
        "branch-hint mwaitx pconfig pku prefetchi prfchw ptwrite rdpid rdpru rdrnd rdseed rtm serialize sgx shstk "
        "tsxldtrk uintr usermsr waitpkg wbnoinvd xsavec xsaveopt xsaves"
    ),
    "aarch64": (
        "bti ccdp ccidx ccpp contextidr-el2 el2vmsa el3 lor mte nv outline-atomics pan pan-rwv perfmon predres ras "
        "reserve-x18 sb spe specrestrict ssbs tlb-rmi tracev8.4 uaops v8.1a v8.2a vh"
    ),
    "riscv64": "relax zaamo zalrsc zca zcd zicntr zihpm zmmul",
}
_PARTS_OF_V = "zve32x zve32f zve64x zve64f zve64d zvl32b zvl64b zvl128b"
"""Features that RISC-V's v includes: code that requires v does not list them."""
_DETECTED_X86 = frozenset(f"{V4} {_SAPPHIRE} amx-fp16 sse4a".split())
"""Features that `native` takes from the machine; the runtime can detect these."""


def named_features(arch: str) -> frozenset[str]:
    """Return the features of an architecture that the tables of this file name."""
    return _NAMED.get(arch, frozenset())


def _words(*texts: str) -> frozenset[str]:
    """Return the set of the words of all texts: "sve sve2", "aes" -> {sve, sve2, aes}."""
    return frozenset(word for text in texts for word in text.split())


_NAMED = {
    "x86_64": _words(V4, _NOT_REQUIRED["x86_64"], *(own for _, own in _X86.values())) | BASELINE["x86_64"],
    "aarch64": _words(_NOT_REQUIRED["aarch64"], *_ARM.values()) | BASELINE["aarch64"],
    "riscv64": _words(_NOT_REQUIRED["riscv64"], _PARTS_OF_V, "zfhmin", *_RISCV.values()) | BASELINE["riscv64"],
}
"""Architecture → all features in the tables of this file. `cpu_features` accepts them besides those that LLVM knows."""


@dataclass(frozen=True)
class Machine:
    """Description of the CPU that LLVM and the C compiler generate code for.

    Attributes:
        arch: Architecture, as in the triple.
        cpu: CPU name that both compilers know.
        features: Features that are added to those of `cpu` (+) or removed from them (-), in the order for LLVM.
        has: All features that code may use, without signs.
        requires: Features of `has` that not every machine of the architecture has.
        model: Caches and units of the CPU.
        tune: CPU whose timings LLVM assumes; "" for those of `cpu`.
    """

    arch: str
    cpu: str
    features: tuple[str, ...]
    has: frozenset[str]
    requires: tuple[str, ...]
    model: MachineModel
    tune: str = ""

    @property
    def triple(self) -> str:
        """The triple. It names Linux on every system: kernels call no functions of the system."""
        return f"{self.arch}-unknown-linux-gnu"

    @property
    def llvm_features(self) -> str:
        """The feature string of LLVM's target machine."""
        base = ("+m", "+a", "+f", "+d", "+c") if self.arch == "riscv64" else ()  # LLVM assumes none of rv64gc
        return ",".join((*base, *self.features))

    @property
    def vector_width(self) -> int:
        """Bits of the vectors that loops are vectorized with; 0: LLVM's choice."""
        if "avx512f" in self.has:
            return 512
        return 256 if "avx2" in self.has else 0


def machine_of(target: Target) -> Machine:
    """Return the machine that a target names.

    The CPU name is replaced by one that LLVM and the C compiler know, and explicit features. For `cpu = "haswell"` and
    `cpu_features = "-fma"`, the machine has

        cpu = "x86-64-v3", features = ("+pclmul", "-fma"), tune = "haswell"

    and `has`, all features that code may use, is those of x86-64-v3 and of every x86-64 CPU, with pclmul and without
    fma. `requires` is the part of `has` that the runtime checks before it loads the code.

    Raises CompileError for an unknown architecture or CPU, or a feature that is not spelled as "+name" or "-name".
    """
    arch = target.arch
    if arch not in BASELINE:
        raise CompileError(
            f"format '{target.format}' has no machine code here",
            note="known are: embedded-elf-x86_64, embedded-elf-arm_64, embedded-elf-riscv_64",
        )
    name = target.cpu or "generic"
    # The CPU for LLVM, the features that the named one has besides, and the CPU that instructions are scheduled for.
    cpu, cpu_features, tune = _resolve(arch, name)
    stated = _stated_features(target)
    if arch == "riscv64":
        _check_riscv(stated)
    removed = frozenset(feature[1:] for feature in stated if feature[0] == "-")
    level = LEVELS.get(cpu, frozenset())
    has = _with_stated(_with_implied(level | cpu_features), stated)
    features = (*(f"+{feature}" for feature in sorted(cpu_features - level - removed)), *stated)
    # Features that `requires` omits: those that compilers never use by themselves, and on RISC-V the parts of v, which
    # is required as a whole.
    not_required = {*_NOT_REQUIRED[arch].split(), *(_PARTS_OF_V.split() if "v" in has else ())}
    requires = tuple(sorted(has - BASELINE[arch] - not_required))
    return Machine(arch, cpu, features, has | BASELINE[arch], requires, _model(arch, name, cpu, tune), tune)


def _stated_features(target: Target) -> list[str]:
    """Return the features that a target states, with their signs; raise CompileError for one without a sign or name."""
    stated = [feature for feature in target.features if feature]
    for feature in stated:
        if feature[0] not in "+-" or not feature[1:].replace("-", "").replace(".", "").replace("_", "").isalnum():
            raise CompileError(f"CPU feature '{feature}': expected a sign and LLVM's name, such as '+avx2'")
    return stated


def without_fallbacks(machines: Sequence[Machine]) -> list[Machine]:
    """Return the machines except generic ones of an architecture for which there are other machines, too.

    A generic machine requires no features besides those of its whole architecture. All variants share the graph and the
    layout of constants, which are chosen for the returned machines. Generic code is only for machines that no other
    variant suits; with that graph and layout it may be slower.
    """
    capable = {machine.arch for machine in machines if machine.requires}
    return [machine for machine in machines if machine.requires or machine.arch not in capable]


def _model(arch: str, name: str, cpu: str, tune: str) -> MachineModel:
    """Return the machine model of a CPU, from the table of models; for `native`, with the caches of this machine.

    Args:
        arch: Architecture, whose model is the default.
        name: CPU name of the target, before it was resolved ("native", "znver4").
        cpu: CPU that LLVM generates code for: a level, a set of features such as "x86-64-v3", or "generic".
        tune: CPU whose timings LLVM assumes; "" for none.
    """
    # The model of `tune` if the table has it, else that of the level or architecture.
    model = model_named(tune, cpu if cpu in LEVELS else arch)
    return with_caches_of_this_machine(model) if name in NATIVE else model


def _resolve(arch: str, cpu: str) -> tuple[str, frozenset[str], str]:
    """Resolve the CPU name of a target; CompileError if it is unknown.

    Return the CPU that LLVM generates code for, the features that the named CPU has besides, and the CPU to tune for
    ("" for none): "haswell" -> ("x86-64-v3", {"pclmul"}, "haswell").
    """
    if cpu in NATIVE:
        return _native(arch)
    if cpu == "generic":
        return ("x86-64" if arch == "x86_64" else "generic"), frozenset(), ""
    if arch == "x86_64" and cpu in LEVELS:
        return cpu, frozenset(), ""
    if arch == "x86_64" and cpu in _X86:
        level, more_features = _X86[cpu]
        return level, frozenset(more_features.split()), cpu
    if arch == "aarch64" and cpu in _ARM:
        return "generic", frozenset(_ARM[cpu].split()), cpu
    if arch == "riscv64" and cpu in _RISCV:
        tune = "" if cpu == "generic-rv64" else cpu  # "generic-rv64" is the baseline, not a CPU with timings
        return "generic", frozenset(_RISCV[cpu].split()), tune
    raise CompileError(
        f"CPU '{cpu}' is not known for {arch}",
        note=f'known are: generic, native, {", ".join(cpu_names(arch))}; for others spell out cpu_features = "+..."',
    )


def cpu_names(arch: str) -> tuple[str, ...]:
    """Return the levels and CPUs that a target of an architecture may name, besides "generic" and "native"."""
    return {"x86_64": (*LEVELS, *_X86), "aarch64": tuple(_ARM), "riscv64": tuple(_RISCV)}[arch]


def _native(arch: str) -> tuple[str, frozenset[str], str]:
    """Return this machine as its highest level, the features beyond that level, and the name for tuning.

    Raises CompileError if this machine has another architecture than `arch`.
    """
    from pydispatch.compiler.target.native import host

    host_arch, name, enabled = host()
    if host_arch != arch:
        raise CompileError(
            f"CPU 'native' is this machine's, which is {host_arch}, and the target is {arch}",
            note="name the CPU, or 'generic'",
        )
    if arch != "x86_64":
        features_by_cpu = _ARM if arch == "aarch64" else _RISCV
        # Features that some CPU of the table has: all others are left out, since the runtime cannot detect them.
        detected = _with_implied(_words(*features_by_cpu.values()))
        return "generic", enabled & detected - BASELINE[arch], name
    # The level with the most features of those that the machine supports, and the features that the runtime can detect
    # and the level lacks.
    level = max((level for level, needs in LEVELS.items() if needs <= enabled), key=lambda level: len(LEVELS[level]))
    beyond_level = (enabled & _DETECTED_X86) - LEVELS[level]
    # For a name that LLVM does not know, it assumes the timings of an old CPU.
    tune = name if name in _X86 else _nearest_cpu(level, beyond_level) or name
    return level, beyond_level, tune


def _nearest_cpu(level: str, beyond_level: frozenset[str]) -> str:
    """Return the x86 CPU of the table that is the most like this machine; "" if there is none.

    It is the CPU of this level with the most features beyond the level, among those whose features this machine has.
    It is needed for CPUs that LLVM does not know by name: LLVM takes an unknown model of Intel's for an older one.

    Args:
        level: Level of this machine, such as "x86-64-v3".
        beyond_level: Features of this machine that are not in the level.
    """
    best, most_features = "", 0
    for name, (cpu_level, more) in _X86.items():
        more_features = frozenset(more.split())
        if cpu_level == level and more_features <= beyond_level and len(more_features) > most_features:
            best, most_features = name, len(more_features)
    return best


def _check_riscv(features: Iterable[str]) -> None:
    """Raise CompileError if features (with signs) remove a part of rv64gc, which is always required."""
    if gone := [feature for feature in features if feature in ("-m", "-a", "-f", "-d", "-c")]:
        raise CompileError(
            f"riscv64 without {', '.join(gone)} is not supported",
            note="embedded ELFs use the rv64gc calling convention",
        )


def _with_stated(features: frozenset[str], stated: Iterable[str]) -> frozenset[str]:
    """Return features after additions and removals in their order, as LLVM applies them.

    An addition adds what the feature implies, too; a removal also removes the features that imply the removed one:
    {avx, avx2, fma} without avx is {}.
    """
    for sign, name in ((feature[0], feature[1:]) for feature in stated):
        if sign == "+":
            features |= _with_implied([name])
        else:
            features = frozenset(feature for feature in features if name not in _with_implied([feature]))
    return features


def _with_implied(features: Iterable[str]) -> frozenset[str]:
    """Return the features and all that they imply."""
    seen: set[str] = set()
    pending = list(features)
    while pending:
        feature = pending.pop()
        if feature not in seen:
            seen.add(feature)
            pending += _IMPLIED.get(feature, "").split()
    return frozenset(seen)
