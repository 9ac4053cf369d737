"""The shared library that the C core and all modules of `_core` are in."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from elftools.elf.elffile import ELFFile

from pydispatch import _core

FOLDER = Path(_core.__path__[0])
LIBRARIES = sorted(FOLDER.glob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"))


def functions(path: Path, section: str) -> list[str]:
    """The names of the functions that a library defines."""
    with path.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(section)
        assert symbols is not None, f"{path} was stripped"
        found = [s for s in symbols.iter_symbols() if s["st_info"]["type"] == "STT_FUNC"]
        return [s.name for s in found if s["st_shndx"] != "SHN_UNDEF"]


def test_every_source_is_a_module() -> None:
    assert sorted(_core.MODULES) == sorted(path.stem for path in FOLDER.glob("*.pyx"))


def test_each_function_of_the_core_is_there_once() -> None:
    defined = [name for path in LIBRARIES for name in functions(path, ".symtab")]
    for name in ("pyd_status_make", "pyd_elf_module_load", "pyd_sched_create", "pyd_pool_create", "pyd_plan_create",
                 "pyd_process_atfork_add", "pyd_artifact_open", "pyd_plugin_load_file"):  # fmt: skip
        assert defined.count(name) == 1, name


def test_only_python_sees_into_the_library() -> None:
    (path,) = LIBRARIES
    exported = set(functions(path, ".dynsym"))
    assert exported >= {f"PyInit_{name}" for name in _core.MODULES}
    assert not {name for name in exported if name.startswith("pyd_")}
