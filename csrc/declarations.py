"""Write the Cython declarations of the C headers: `_core/c_NAME.pxd` for each header of `HEADERS`.

The reader knows the form of this project's headers, not all of C. It leaves out what Cython code cannot use: text under
conditions of the preprocessor, macros with arguments, atomic members and unnamed structures.
"""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
HEADERS = ("include/pydispatch/*.h", "include/pydispatch/api/*.h", "drivers/*.h", "api/table.h", "target/target.h",
           "standalone/choose.h")  # fmt: skip
"""Headers with declarations for Cython, relative to this folder."""
PREFIX = "c_"
"""Begins the names of the files that are written; no other file of their folder begins with it."""
CONSTANTS = {
    r"(?:0x)?[0-9A-Fa-f]+": "enum:\n    {}",  # can be the size of an array
    r"(?:0x)?[0-9A-Fa-f]+u|UINT32_MAX": "const uint32_t {}",
    r"UINT64_MAX": "const uint64_t {}",
    r'"[^"]*"': "const char* {}",
}
"""Patterns of the values of macros that are constants, and how Cython declares such a macro."""


class HeaderError(ValueError):
    """A header has a declaration in a form that this reader does not know."""


class Header:
    """The declarations of one header.

    Attributes:
        name: the header as `#include` names it.
        module: the Cython module that declares it.
        declared: the names that it declares, each with its declaration in Cython.
        tags: structure tags, each with the name that a typedef gives it.
        macros: macros without arguments, and lists `NAME(X)`, each with the text that it stands for.
    """

    def __init__(self, name: str, text: str) -> None:
        """Parse `text`, the C code of the header: first its constant macros, then its types and functions."""
        self.name = name
        self.module = PREFIX + "_".join(Path(name).with_suffix("").parts[1:])
        self.declared: dict[str, str] = {}
        self.tags: dict[str, str] = {}
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
        text = _unconditional(text.replace("\\\n", " "))
        self.macros = {name: value.strip() for name, value in re.findall(r"^#define (\w+)(?:\(X\))?(.*)", text, re.M)}
        for macro, value in self.macros.items():
            for pattern, declaration in CONSTANTS.items():
                if re.fullmatch(pattern, value):
                    self.declared[macro] = declaration.format(macro)
        for lines in _declarations(re.sub(r"^#(?!define X\().*", "", text, flags=re.M)):
            self._add(lines)

    def _add(self, lines: str) -> None:
        """Add one declaration of the header, given its text without comments and without `;` at its end."""
        text = " ".join(lines.split()).removeprefix("static inline ")
        if re.fullmatch(r"_Static_assert.*|struct \w+", text):
            return  # declares nothing that Cython code can name
        if enum := re.fullmatch(r"(?:typedef )?enum (?:\w+ )?\{.*\}(?: (\w+))?", text):
            self._add_enum(enum[1], lines[lines.index("{") + 1 : lines.rindex("}")])
        elif struct := re.fullmatch(r"(?:typedef )?struct (\w+) \{(.*)\}(?: (\w+))?", text):
            name = self.tags.setdefault(struct[1], struct[3])
            self.declared.pop(name, None)  # the declaration without members
            self.declared[name] = _block(f"ctypedef struct {name}", map(self._in_cython, _members(struct[2])))
        elif opaque := re.fullmatch(r"typedef struct (\w+) (\w+)", text):
            self.tags[opaque[1]] = opaque[2]
            self.declared[opaque[2]] = _block(f"ctypedef struct {opaque[2]}", [])
        elif alias := re.fullmatch(r"typedef [^({]*?(\w+)|typedef [^({]*\(\*(\w+)\)\(.*\)", text):
            self.declared[alias[1] or alias[2]] = f"c{self._in_cython(text)}"
        elif function := re.fullmatch(r"[^({]*?(\w+)\(.*\)", text):
            self.declared[function[1]] = self._in_cython(text)
        else:
            raise HeaderError(f"{self.name}: expected a function, typedef, struct or enum, got: {text}")

    def _add_enum(self, name: str | None, body: str) -> None:
        """Add an enum. Its members may come from a list macro: `#define X(name) PYD_A_##name`, then `LIST(X)`."""
        listed = re.sub(r"^#.*|\w+\(X\)", "", body, flags=re.M)
        members = [member.split("=")[0].strip() for member in listed.split(",")]
        for stem in re.findall(r"^#define X\(.*\) (\w+)##", body, re.M):
            for macro in re.findall(r"^\s*(\w+)\(X\)", body, re.M):
                members += [stem + member for member in re.findall(r"\bX\((\w+)", self.macros[macro])]
        members = [member for member in members if member]
        self.declared[name or members[0]] = _block(f"ctypedef enum {name}" if name else "enum", members)

    def _in_cython(self, text: str) -> str:
        """Return a declaration of a type, member or function in Cython."""
        text = _without_exceptions(text.replace("(void)", "()"))
        text = re.sub(r"\bbool\b(\*?)", lambda pointer: "c_bool*" if pointer[1] else "bint", text)
        # An array becomes a pointer if it is a parameter, as in C, or a member without a size.
        pointers = r"\w*" if "(" in text else ""
        text = re.sub(rf"(\w+)\[{pointers}\]", r"*\1", text)
        text = re.sub(r"\[(\w+)\]", lambda size: f"[{self.macros.get(size[1], size[1])}]", text)
        return re.sub(rf"\b({'|'.join(keyword.kwlist)})(?=[,)])", r"\1_", text)


def _block(head: str, lines: Iterable[str]) -> str:
    """Return a Cython block of a head and indented lines; without lines it has `pass`."""
    return f"{head}:\n    " + ("\n    ".join(lines) or "pass")


def _unconditional(text: str) -> str:
    """Remove the include guard, and all text that is under a condition."""
    lines, depth = [], 0  # the include guard is the condition of depth 1
    for line in text.splitlines():
        depth += line.startswith("#if")
        if depth <= 1 and not re.match(r"#(?:if|else|elif|endif|undef|include)", line):
            lines.append(line)
        depth -= line.startswith("#endif")
    return "\n".join(lines)


def _declarations(text: str) -> Iterator[str]:
    """Yield the declarations of a header without the `;` at their end, functions also without their bodies."""
    depth, begin = 0, 0
    for token in re.finditer(r"[{};]", text):
        depth += {"{": 1, "}": -1, ";": 0}[token[0]]
        declaration = text[begin : token.end()].strip().removesuffix(";")
        if depth == 0 and declaration.startswith("static inline"):  # ends with its body, not with `;`
            yield declaration.partition("{")[0].strip()
            begin = token.end()
        elif depth == 0 and token[0] == ";":
            yield declaration
            begin = token.end()


def _members(body: str) -> Iterator[str]:
    """Yield the members of a structure that Cython code may name."""
    for member in re.sub(r"struct \{[^}]*\} \w+;", "", body).split(";"):
        if member.strip() and not re.search(r"\b_Atomic\b|\batomic_", member):
            yield member.strip()


def _without_exceptions(text: str) -> str:
    """Mark each function pointer in a declaration, also among its parameters, as raising nothing and needing no GIL."""
    pointer = re.search(r"\(\*\w*\)\(", text)
    if not pointer:
        return text
    depth, end = 1, pointer.end()
    while depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    parameters, tail = text[pointer.end() : end - 1], text[end:]
    return f"{text[: pointer.end()]}{_without_exceptions(parameters)}) noexcept nogil{_without_exceptions(tail)}"


def _text(header: Header, headers: list[Header]) -> str:
    """Return the text of the Cython module of one of the headers.

    It imports the names that it uses from the modules of the other headers. Structures that no header names by a
    typedef are declared without members.
    """
    tags = {tag: name for other in headers for tag, name in other.tags.items()}
    body = "\n".join(header.declared.values())
    unnamed = sorted(set(re.findall(r"(?<!ctypedef )\bstruct (\w+)", body)) - tags.keys())
    body = re.sub(r"(?<!ctypedef )\bstruct (\w+)", lambda tag: tags.get(tag[1], tag[1]), body)
    body = "\n".join([*(_block(f"struct {tag}", []) for tag in unnamed), body])
    used = set(re.findall(r"\w+", body))
    lines = [f"# Written by csrc/{Path(__file__).name} from {header.name}."]
    if integers := sorted(name for name in used if re.fullmatch(r"u?int(\d+|ptr)_t", name)):
        lines.append(f"from libc.stdint cimport {', '.join(integers)}")
    for other in headers:
        if names := sorted(used & (other.declared.keys() - header.declared.keys())):
            lines.append(f"from pydispatch._core.{other.module} cimport {', '.join(names)}")
    if "c_bool" in used:
        lines += ['cdef extern from "stdbool.h" nogil:', '    ctypedef bint c_bool "bool"']
    lines += [f'cdef extern from "{header.name}" nogil:', textwrap.indent(body, "    "), ""]
    return "\n".join(lines)


def write(folder: Path) -> None:
    """Write the declarations of each header that has some into a folder, and remove those of headers that are gone.

    Files whose text stays are not touched, so that nothing is built again.

    Raises:
        HeaderError: a header has a declaration in a form that this reader does not know.
    """
    paths = [path for pattern in HEADERS for path in sorted(FOLDER.glob(pattern))]
    headers = [Header(path.relative_to(FOLDER).as_posix().removeprefix("include/"), path.read_text()) for path in paths]
    texts = {folder / f"{header.module}.pxd": _text(header, headers) for header in headers if header.declared}
    for path in set(folder.glob(f"{PREFIX}*.pxd")) - texts.keys():
        path.unlink()
    for path, text in texts.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
