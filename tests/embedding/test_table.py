"""The promise of api.h: the table only grows, and both sides notice when they do not fit."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from embedding_build import HERE, build, import_file

import pydispatch as pd

HEADER = Path(pd.get_include()) / "pydispatch" / "api.h"
TINY = """
#include <Python.h>
#include "pydispatch/api.h"
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "NAME", .m_size = -1};
PyMODINIT_FUNC PyInit_NAME(void) {
  const pyd_api_t* pd = pyd_api_import();
  if (!pd) return NULL;
  PyObject* module = PyModule_Create(&definition);
  if (module) PyModule_AddIntConstant(module, "size", (long)pd->size);
  if (module) PyModule_AddIntConstant(module, "own", (long)sizeof(pyd_api_t));
  return module;
}
"""


def slots(text: str) -> list[str]:
    """The members of the table, one declaration each, comments and line breaks taken out."""
    body = re.search(r"typedef struct pyd_api_s \{(.*?)\n\} pyd_api_t;", text, re.S)
    assert body is not None
    plain = re.sub(r"//[^\n]*", "", body[1])
    return [" ".join(part.split()) for part in plain.split(";") if part.strip()]


def test_the_table_only_grows() -> None:
    # A new slot is added at the end of both. A line that is there is never changed: extensions are built upon it.
    promised = (HERE / "table.txt").read_text().splitlines()
    found = slots(HEADER.read_text())
    assert len(promised) > 30
    assert found[: len(promised)] == promised, "a slot that extensions rely on was moved or changed"
    assert found == promised, "a new slot needs a line in tests/embedding/table.txt"


def extension(folder: Path, name: str, change: tuple[str, str]) -> Path:
    """An extension that was built with another version of the header."""
    include = folder / "include" / "pydispatch"
    shutil.copytree(HEADER.parent, include)
    text = HEADER.read_text()
    text = text.replace(written(LAST), LAST)
    assert text.count(change[0]) == 1
    (include / "api.h").write_text(text.replace(*change))
    source = folder / f"{name}.c"
    source.write_text(TINY.replace("NAME", name))
    return build(source, folder, str(folder / "include"))


def written(slot: str) -> str:
    """A slot as the header has it, in several lines or one."""
    found = re.search(r"\s+".join(map(re.escape, slot.split())), HEADER.read_text())
    assert found is not None
    return found[0]


LAST = slots(HEADER.read_text())[-1]
END = "} pyd_api_t;"


def test_an_extension_built_with_an_older_header(tmp_path: Path) -> None:
    module = import_file(extension(tmp_path, "older", (LAST + ";", "")))
    assert module.size == module.own + 8


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("newer", (END, f"void (*more)(void);\n{END}")),
        ("other", ("#define PYD_API_VERSION 1u", "#define PYD_API_VERSION 2u")),
    ],
)
def test_an_extension_that_needs_another_table_is_refused(tmp_path: Path, name: str, change: tuple[str, str]) -> None:
    path = extension(tmp_path, name, change)
    with pytest.raises(ImportError, match=r"needs version \d of pydispatch's C table with \d+ bytes; the installed"):
        import_file(path)


@pytest.mark.parametrize(
    "compiler", [["gcc", "-std=c99", "-xc"], ["gcc", "-std=c17", "-xc"], ["g++", "-std=c++17", "-xc++"]]
)
def test_each_header_of_embedders_is_complete(compiler: list[str]) -> None:
    for header in (HEADER, HEADER.with_name("standalone.h"), *(HEADER.parent / "api").glob("*.h")):
        compile_alone(compiler, header)


def compile_alone(compiler: list[str], header: Path) -> None:
    command = [*compiler, "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-include", str(header),
               "-I", pd.get_include(), "/dev/null"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
