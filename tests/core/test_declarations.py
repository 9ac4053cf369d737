"""csrc/declarations.py writes what pycparser reads in the preprocessed headers."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from pycparser import c_ast, c_parser

CSRC = Path(__file__).parents[2] / "csrc"
TYPES = """
typedef unsigned long size_t; typedef unsigned long uintptr_t; typedef int wchar_t; typedef int bool;
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
"""
"""Stands for the headers of the C library, which pycparser cannot read."""


@pytest.fixture(scope="module")
def declarations() -> ModuleType:
    spec = importlib.util.spec_from_file_location("declarations", CSRC / "declarations.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def written(declarations: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the text that is written for each header, by the header's name."""
    folder = tmp_path_factory.mktemp("declarations")
    declarations.write(folder)
    texts = [path.read_text() for path in folder.glob("*.pxd")]
    return {re.search(r"^# Written by \S+ from (.*)\.$", text, re.M)[1]: text for text in texts}  # type: ignore[index]


@pytest.fixture(scope="module")
def parsed(written: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[c_ast.Node]]:
    """Return what pycparser finds in each header, by the header's name."""
    folder = tmp_path_factory.mktemp("library")
    for name in ("stdarg", "stdatomic", "stdbool", "stddef", "stdint"):
        (folder / f"{name}.h").write_text("#pragma once\n")
    (folder / "all.c").write_text(TYPES + "".join(f'#include "{name}"\n' for name in sorted(written)))
    unnamed = "struct { int value; }"  # members of such types are left out
    options = ["-nostdinc", "-U__GNUC__", "-D__attribute__(x)=", "-D_Static_assert(...)=", f"-D_Atomic(x)={unnamed}",
               f"-Datomic_bool={unnamed}"]  # fmt: skip
    command = ["gcc", "-E", *options, "-I", folder, "-I", CSRC / "include", "-I", CSRC, folder / "all.c"]
    source = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    nodes: dict[str, list[c_ast.Node]] = {name: [] for name in written}
    for node in c_parser.CParser().parse(source, "all.c").ext:
        for name in nodes:
            if node.coord.file.endswith((f"csrc/{name}", f"csrc/include/{name}")):
                nodes[name].append(node.decl if isinstance(node, c_ast.FuncDef) else node)
    return nodes


def members_of(node: c_ast.Node) -> list[str]:
    """Return the members of the structure or enum that a declaration defines."""
    kind = node.type.type if isinstance(node.type, c_ast.TypeDecl) else node.type
    if isinstance(kind, c_ast.Enum):
        return [member.name for member in kind.values.enumerators]
    members = (kind.decls or []) if isinstance(kind, c_ast.Struct) else []
    types = [getattr(member.type, "type", None) for member in members]
    return [m.name for m, type_ in zip(members, types, strict=True) if getattr(type_, "name", "") is not None]


def test_functions_have_their_parameters(written: dict[str, str], parsed: dict[str, list[c_ast.Node]]) -> None:
    count = 0
    for name, text in written.items():
        functions = {
            node.name: len([parameter for parameter in node.type.args.params if getattr(parameter, "name", "...")])
            for node in parsed[name]
            if isinstance(node.type, c_ast.FuncDecl)
        }
        text = re.sub(r"\(\*\w*\)\([^()]*\)", "", text)
        declared = re.findall(r"^    (?! |ctypedef).*?(\w+)\((.*)\)$", text, re.M)
        assert {function: len(part.split(",")) if part else 0 for function, part in declared} == functions, name
        count += len(functions)
    assert count > 200


def test_structures_and_enums_have_their_members(written: dict[str, str], parsed: dict[str, list[c_ast.Node]]) -> None:
    count = 0
    for name, text in written.items():
        members = {member for node in parsed[name] for member in members_of(node)}
        lines = "\n".join(re.sub(r".*?\(\*(\w+)\).*", r"\1", line) for line in re.findall(r"^ {8}(.*)$", text, re.M))
        path = next(path for path in (CSRC / "include" / name, CSRC / name) if path.exists())
        macros = re.findall(r"^#define (\w+)", path.read_text(), re.M)
        assert set(re.findall(r"(\w+)(?:\[\w+\])?(?:,|$)", lines, re.M)) - {"pass", *macros} == members, name
        count += len(members)
    assert count > 300


@pytest.mark.parametrize("text", ["int pyd_count;", "typedef union pyd_u { int i; } pyd_u_t;"])
def test_a_declaration_in_another_form_is_refused(declarations: ModuleType, text: str) -> None:
    with pytest.raises(
        declarations.HeaderError, match=r"pydispatch/a\.h: expected a function, typedef, struct or enum, got"
    ):
        declarations.Header("pydispatch/a.h", f"void pyd_f(void);\n{text}\n")
