"""Empty libraries in the place of those that PyTorch's package asks the loader for and a machine without a GPU lacks.

PyPI's package for Linux is built for CUDA: it cannot be imported without cuBLAS, cuDNN and their kin, which are
gigabytes that nothing calls on a CPU. A library with the right name and symbols is enough for the loader.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from elftools.elf.elffile import ELFFile


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


class _Library:
    """What a library needs and has. wanted: symbols of others -> the file that must have them, or '' for any."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            dynamic = elf.get_section_by_name(".dynamic")
            self.needed = {t.needed for t in dynamic.iter_tags("DT_NEEDED")}
            files = self._files_of_versions(elf)
            versions = elf.get_section_by_name(".gnu.version")
            self.defined: set[str] = set()
            self.wanted: dict[str, str] = {}
            for number, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
                if symbol["st_shndx"] != "SHN_UNDEF":
                    self.defined.add(symbol.name)
                elif symbol["st_info"]["bind"] == "STB_GLOBAL":
                    version = versions.get_symbol(number)["ndx"] if versions else 0
                    self.wanted[symbol.name] = files.get(version, "")

    @staticmethod
    def _files_of_versions(elf: ELFFile) -> dict[int, str]:
        section = elf.get_section_by_name(".gnu.version_r")
        if section is None:
            return {}
        return {aux["vna_other"]: need.name for need, each in section.iter_versions() for aux in each}


def write(libraries: Path, folder: Path) -> list[str]:
    """Writes stubs of what the libraries of a folder need and nobody has. Gives their names."""
    own = {path.name: _Library(path) for path in libraries.glob("*.so*")}
    missing = sorted({name for lib in own.values() for name in lib.needed if name not in own and not _loads(name)})
    defined = set().union(*(lib.defined for lib in own.values()))
    system = {name for lib in own.values() for name in lib.needed} - own.keys() - set(missing)
    there = [ctypes.CDLL(name) for name in system]
    symbols = {
        name
        for lib in own.values()
        for name, file in lib.wanted.items()
        if name not in defined and (file in missing or (not file and not name.startswith(("Py", "_Py"))))
    }
    symbols = {name for name in symbols if not any(hasattr(library, name) for library in there)}
    # The loader refuses a symbol without a version in a file that others want versions of. Any other may be the one
    # that is loaded in time.
    versioned = {file for lib in own.values() for file in lib.wanted.values()}
    text = "".join(f"char {symbol}[8];\n" for symbol in sorted(symbols))
    folder.mkdir(parents=True, exist_ok=True)
    for name in missing:
        source = "" if name in versioned else text
        command = ["cc", "-w", "-fno-builtin", "-shared", "-nostdlib", f"-Wl,-soname,{name}", "-x", "c", "-"]
        subprocess.run([*command, "-o", str(folder / name)], input=source.encode(), check=True)
    return missing
