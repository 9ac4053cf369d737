"""The library's bitcode as one module. Runs where LLVM does."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MACHINE_ATTRIBUTES = re.compile(
    r' "(?:no-builtins?[^"=]*|target-cpu|target-features|tune-cpu|frame-pointer|no-trapping-math|stack-protector[^"=]*|'
    r'min-legal-vector-width|probe-stack|uniform-work-group-size)"(?:="[^"]*")?'
)
"""Attributes of functions that name the machine or the options of the compilation that made the bitcode;
`_portable_text` removes them."""
_COMPILER_METADATA = re.compile(r"^!(?:llvm\.(?:module\.flags|ident|errno\.tbaa)) = .*\n", re.MULTILINE)
"""Metadata about the compiler and its flags, which would conflict between modules."""
_DEFINED = re.compile(r"^(define [^@\n]*@(?P<name>[\w.$]+)\([^\n]*?)(?P<end>(?: !dbg ![0-9]+)? \{)$", re.MULTILINE)
"""First line of a function definition: group 1 ends where a section is inserted, `end` is the rest of the line."""


def object_of(module: bytes, arch: str, cpu: str, features: Sequence[str]) -> bytes:
    """Compile bitcode to an ELF object, with each function in a section of its own, so that linkers drop unused ones.

    LLVM's passes over the module do not run: they would turn the loop of memcpy() into a call of memcpy().
    """
    from llvmlite import binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    # Without attributes that name a machine, the functions are compiled for `cpu` and `features`. RISC-V's code model
    # "small" would need the data below 2 GiB; with "medium" it is addressed relative to the code.
    text = _portable_text(module)
    base = ("+m", "+a", "+f", "+d", "+c") if arch == "riscv64" else ()  # RV64GC, which LLVM does not imply
    generic = {"x86_64": "x86-64", "aarch64": "generic", "riscv64": "generic-rv64"}
    machine = llvm.Target.from_triple(f"{arch}-unknown-linux-gnu").create_target_machine(
        cpu=generic[arch] if cpu == "generic" else cpu, features=",".join((*base, *features)), opt=3, reloc="pic",
        codemodel="medium" if arch == "riscv64" else "small",
    )  # fmt: skip
    # `define ... @f(...) {` becomes `define ... @f(...) section ".text.f" {`.
    sections = _DEFINED.sub(r'\1 section ".text.\g<name>"\g<end>', text)
    return bytes(machine.emit_object(llvm.parse_assembly(sections)))


def _portable_text(bitcode: bytes) -> str:
    """Return bitcode as LLVM IR without the attributes and metadata of the compilation that made it."""
    from llvmlite import binding as llvm

    return _COMPILER_METADATA.sub("", _MACHINE_ATTRIBUTES.sub("", str(llvm.parse_bitcode(bitcode))))


def joined(modules: Sequence[tuple[str, bytes]]) -> bytes:
    """Link modules into one whose functions have no attributes of a CPU, and return its bitcode.

    modules: (file name of the source without suffix, its bitcode).
    """
    from llvmlite import binding as llvm

    library = llvm.parse_assembly("")
    for stem, data in modules:
        module = llvm.parse_assembly(_portable_text(data))
        if not library.triple:  # the triple of the first module, which is that of all
            library.triple, library.data_layout = module.triple, module.data_layout
        for value in module.global_variables:
            value.name = f"pyd.{stem}.{value.name}"  # private tables: no clash with the user's names
        library.link_in(module)
    library.verify()
    return bytes(library.as_bitcode())
