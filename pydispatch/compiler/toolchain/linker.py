"""Objects → an embedded ELF: by the built-in linker `pydispatch.link.elf`, or by ld.lld for objects that it does not
support."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pydispatch.compiler.toolchain.programs import Tool, ToolchainError
from pydispatch.link.elf.inputs import LinkError, UnsupportedError
from pydispatch.link.elf.link import MACHINES, link
from pydispatch.link.elf.resolve import Labelled, UndefinedError

_EMULATION = {"x86_64": "elf_x86_64", "aarch64": "aarch64linux", "riscv64": "elf64lriscv"}
"""Architecture → its name in ld.lld's option -m."""
_LD_FLAGS = (
    "-shared", "-static", "-nostdlib", "--build-id=none", "--gc-sections", "-z", "now", "-z", "relro",
    "-z", "noexecstack", "-z", "noseparate-code", "--no-undefined",
    "--no-allow-shlib-undefined", "--discard-locals", "--icf=all", "--ignore-data-address-equality",
    "--ignore-function-address-equality", "--hash-style=sysv", "--strip-debug", "--no-color-diagnostics",
    "--error-limit=0", "--no-rosegment",
)  # fmt: skip
"""Options of ld.lld for every embedded ELF."""
_UNDEFINED_SYMBOL = re.compile(r"error: undefined (?:hidden |protected )?symbol: (.+)")
"""Line of ld.lld that names an undefined symbol; see `_link_error` for an example of each kind of line."""
_UNDEFINED_EXPORT = re.compile(r"error: version script assignment of '.*' to symbol '(.+)' failed: symbol not defined")
"""Line of ld.lld that names an export without a definition."""
_REFERRING_OBJECT = re.compile(r">>>\s+(?:referenced by .*?|)(\S+\.(?:o|obj|a|bc|lo)\b[^:\s]*)")
"""Line of ld.lld that names an object which refers to an undefined symbol: the first name with the suffix of an object
or archive, without the section after the colon."""


class UndefinedSymbolsError(ToolchainError):
    """Error of a link that left symbols undefined.

    Attributes:
        undefined: Pairs (symbol, label of the object that refers to it), sorted.
    """

    def __init__(self, undefined: Sequence[tuple[str, str]], command: Sequence[str] = (), stderr: str = "") -> None:
        """List the symbols in the message; `command` and `stderr` are those of ld.lld if that has run."""
        self.undefined = tuple(undefined)
        names = ", ".join(f"'{symbol}' (referenced by {where})" for symbol, where in self.undefined)
        super().__init__(f"link failed: undefined symbols: {names}", command, stderr)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the error as the arguments of its class."""
        return type(self), (self.undefined, self.command, self.stderr)


def link_own(objects: Sequence[Labelled], lazy: Sequence[Labelled], exports: Sequence[str], arch: str) -> bytes | None:
    """Link objects into an embedded ELF with the built-in linker; return None for objects that need another linker.

    Args:
        objects: Pairs of a label for messages, and the bytes of an ELF object or an archive of objects.
        lazy: Such pairs of objects that are linked only if they define a symbol that is still missing.
        exports: Symbols that the shared object exports.
        arch: Architecture of the objects.

    Raises:
        UndefinedSymbolsError: No object defines a symbol.
        ToolchainError: The objects cannot be linked.
    """
    try:
        return link(objects, lazy, exports, arch)
    except UnsupportedError:
        return None
    except UndefinedError as error:
        raise UndefinedSymbolsError(error.undefined) from None
    except LinkError as error:
        raise ToolchainError(f"link failed: {error}") from error


def link_with_lld(
    lld: Tool, objects: Sequence[Labelled], lazy: Sequence[Labelled], exports: Sequence[str], arch: str
) -> bytes:
    """Link with ld.lld instead of the built-in linker, and return the embedded ELF.

    Args:
        lld: The linker.
        objects: Pairs of a label for messages, and the bytes of an ELF object or an archive of objects.
        lazy: Such pairs of objects that are linked only if they define a symbol that is still missing.
        exports: Symbols that the shared object exports.
        arch: Architecture of the objects.

    Raises:
        UndefinedSymbolsError: No object defines a symbol.
        ToolchainError: lld fails for another reason.
    """
    with tempfile.TemporaryDirectory(prefix="pydispatch-") as scratch:
        output, script = Path(scratch, "out.so"), Path(scratch, "exports.ver")
        script.write_text(_version_script(exports))
        files, lazy_files = _written(scratch, "object", objects), _written(scratch, "lazy", lazy)
        argv = [*lld.argv, "-m", _EMULATION[arch], *_LD_FLAGS, "-z", f"max-page-size={MACHINES[arch].page}"]
        argv += ["--version-script", str(script)]
        # --undefined links the object that defines an export even if that object is lazy.
        argv += [flag for name in exports for flag in ("--undefined", name)]
        argv += ["-o", str(output), *files, "--start-lib", *lazy_files, "--end-lib"]
        # lld writes this text into .comment instead of its version, so that the bytes do not depend on it.
        environment = {**os.environ, "LLD_VERSION": "pydispatch"}
        process = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=environment)
        if process.returncode != 0:
            raise _link_error(argv, process.stderr.decode(errors="replace"), {**files, **lazy_files})
        return output.read_bytes()


def _version_script(exports: Sequence[str]) -> str:
    """Return a version script that makes the exports visible and all other symbols local."""
    export_lines = "".join(f"    {name};\n" for name in exports)
    return f"{{\n  global:\n{export_lines}  local: *;\n}};\n" if exports else "{ local: *; };\n"


def _written(folder: str, kind: str, objects: Sequence[Labelled]) -> dict[str, str]:
    """Write objects into files of a folder whose names begin with `kind`; return path -> label of the object."""
    labels: dict[str, str] = {}
    for index, (label, data) in enumerate(objects):
        path = Path(folder, f"{kind}{index}.o")
        path.write_bytes(data)
        labels[str(path)] = label
    return labels


def _link_error(argv: Sequence[str], stderr: str, names: dict[str, str]) -> ToolchainError:
    """Return the error for a failed link: an UndefinedSymbolsError if lld reports undefined symbols.

    lld prints a line for a symbol and then the objects that refer to it. If it knows the source, the object is on the
    next line:

        ld.lld: error: undefined symbol: expf
        >>> referenced by user.o:(.text+0x5)
        >>> referenced by other.c:3 (/src/other.c:3)
        >>>               other.o:(kernel)

    These lines give the pairs ("expf", "other.o") and ("expf", "user.o"). An export without a definition is an error in
    the version script, which gives the pair ("f", "the list of exports"):

        ld.lld: error: version script assignment of 'global' to symbol 'f' failed: symbol not defined

    Args:
        argv: The command that ran.
        stderr: Its diagnostics.
        names: Label of each object by its temporary path, which the messages replace.
    """
    for path, name in names.items():
        stderr = stderr.replace(path, name)
    undefined: set[tuple[str, str]] = set()  # pairs of a symbol and the object that refers to it
    symbol = None  # the undefined symbol that the following lines are about
    for line in stderr.splitlines():
        if head := _UNDEFINED_SYMBOL.search(line):
            symbol = head[1].strip()
            continue
        if export := _UNDEFINED_EXPORT.search(line):
            undefined.add((export[1], "the list of exports"))
        where = _REFERRING_OBJECT.match(line)
        if where and symbol is not None:
            undefined.add((symbol, where[1]))
    if undefined:
        return UndefinedSymbolsError(sorted(undefined), argv, stderr)
    return ToolchainError("link failed", argv, stderr)
