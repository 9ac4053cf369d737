"""The text of a linked module: a kernel's, then what was taken from libraries under names of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.wgsl.module import Declaration, WgslModule

BUILT_INS = {
    "local_invocation_index": "u32", "local_invocation_id": "vec3<u32>", "global_invocation_id": "vec3<u32>",
    "workgroup_id": "vec3<u32>", "num_workgroups": "vec3<u32>", "workgroup_size": "vec3<u32>",
}  # fmt: skip
"""Name of a built-in value, or `workgroup_size` → its type. A library reads such a value in a private variable with
this name and type; the linked module assigns the value to it."""

_ZERO_OF_TYPE = {"bool": "false", "f32": "0.0", "i32": "0i", "u32": "0u", "vec2u": "vec2u()"}
"""WGSL type of a function's result → zero of this type, which the stub of a missing function returns (`add_stub`)."""


class _Copy(NamedTuple):
    """Copy of a library's declaration in the output; a call with other buffers needs another copy.

    Attributes:
        library_index: Index of the library in search order.
        name: Name of the declaration in the library.
        buffers: (variable of the library, variable of the kernel that replaces it) of each buffer that it uses.
    """

    library_index: int
    name: str
    buffers: tuple[tuple[str, str], ...]


class WgslOutput:
    """Output module: the kernel's declarations, and copies of those that it uses of libraries.

    A link creates one, adds a function and its adapter, or a stub, for each import, and takes the result by `text`. A
    declaration of a library is copied once for each set of the kernel's buffers that it is used with.
    """

    def __init__(self, kernel: WgslModule) -> None:
        """Begin with the kernel's declarations, whose names no copy may have."""
        self.kernel = kernel  # the importing module
        self._names = {token.text for token in kernel.tokens if token.kind == "name"}  # names that the output has
        self._names_of_copies: dict[_Copy, str] = {}  # copy → its name in the output
        self._directives: list[str] = []  # `enable` and `requires` lines of libraries
        self._built_ins: dict[str, str] = {}  # built-in value → private variable that entry points store it in
        self._parts: list[str] = []  # text of the added declarations

    def define(self, text: str) -> None:
        """Append a declaration to the module."""
        self._parts.append(text)

    def add_function(
        self, library_index: int, module: WgslModule, function: Declaration, variables: Mapping[str, str]
    ) -> str:
        """Add a library function and the declarations that it uses; return the function's name in the output.

        A declaration that uses buffer variables, itself or through a callee, has a copy for each set of the kernel's
        buffers; every other one has a single copy. For example, `blur` uses `data`, a buffer variable, and calls
        `weight`, which uses no buffer. Imported for the kernel's x and then for its y, it becomes `library_blur`, which
        accesses x, and `library_blur_0`, which accesses y; both call `library_weight`.

        Args:
            library_index: Index of the library in search order.
            module: The library's module.
            function: Declaration of the function.
            variables: Name of a buffer variable of the library → name of the kernel's variable that replaces it.
        """
        declarations = [d for d in module.reached([function]) if d.name not in variables]
        renamed = dict(variables)  # name in the library → name in the output
        fresh: list[Declaration] = []  # declarations that the output does not have yet
        for declaration in declarations:
            if _is_built_in(declaration):
                renamed[declaration.name] = self._variable_of_built_in(declaration)
                continue
            # The buffer variables that the declaration depends on distinguish its copies.
            used = {d.name for d in module.reached([declaration])}
            buffers = tuple((own, replacement) for own, replacement in variables.items() if own in used)
            copy = _Copy(library_index, declaration.name, buffers)
            if copy not in self._names_of_copies:
                self._names_of_copies[copy] = self._name_of_copy(module, declaration)
                fresh.append(declaration)
            renamed[declaration.name] = self._names_of_copies[copy]
        # Texts are renamed after the loop: a declaration may use the names of later ones.
        self._parts += [_renamed(module, declaration, renamed) for declaration in fresh]
        self._add_directives(module)
        return renamed[function.name]

    def _add_directives(self, module: WgslModule) -> None:
        """Add the `enable` and `requires` directives of a library that the output lacks."""
        kernel = self.kernel
        for keyword, names, own in (
            ("enable", module.enables, kernel.enables), ("requires", module.requires, kernel.requires),
        ):  # fmt: skip
            missing = (f"{keyword} {name};" for name in names if name not in own)
            self._directives += [line for line in missing if line not in self._directives]

    def _variable_of_built_in(self, declaration: Declaration) -> str:
        """Return the name of the private variable of the output that has a built-in value, such as local_invocation_id.

        All libraries share the variable, which is defined on first use; entry points store the value in it.
        `declaration` is a library's variable of this built-in value.
        """
        if declaration.name not in self._built_ins:
            self._built_ins[declaration.name] = self._fresh_name(f"library_{declaration.name}")
            self.define(f"var<private> {self._built_ins[declaration.name]}: {declaration.type};")
        return self._built_ins[declaration.name]

    def _name_of_copy(self, module: WgslModule, declaration: Declaration) -> str:
        """Choose the name in the output for a copy of a declaration of the library `module`.

        An override (a constant that is set when the pipeline is created) keeps its name unless that is taken, because
        callers set overrides by name.
        """
        if declaration.kind == "override":
            if declaration.attribute("id") is not None:
                raise InvalidArgumentError(
                    f"{module.where}: override '{declaration.name}' of a library has an @id; drop it"
                )
            if declaration.name not in self._names:
                self._names.add(declaration.name)
                return declaration.name
        return self._fresh_name(f"library_{declaration.name}")

    def _fresh_name(self, name: str) -> str:
        """Return a name that occurs nowhere in the output yet, and reserve it."""
        candidate, suffix = name, 0
        while candidate in self._names:
            candidate, suffix = f"{name}_{suffix}", suffix + 1
        self._names.add(candidate)
        return candidate

    def add_adapter(self, name: str, types: Sequence[str], result: str, called: str, parameters: Sequence[str]) -> None:
        """Define the function that the kernel calls: it calls a library function, and converts between i32 and u32.

        The kernel may use either of these types where the library uses the other:

            fn sum(a0: i32) -> i32 { return i32(library_sum(u32(a0))); }

        Args:
            name: Name by which the kernel calls it.
            types: Types of the kernel's arguments, in order.
            result: Type that the kernel expects; "" for none.
            called: Name of the library function in the output.
            parameters: Types of the library function's parameters, in order.
        """
        integers = ("i32", "u32")
        arguments = [f"{type_}(a{i})" if type_ in integers else f"a{i}" for i, type_ in enumerate(parameters)]
        call = f"{called}({', '.join(arguments)})"
        if result in integers:
            call = f"{result}({call})"
        self.define(f"{_head(name, types, result)} {{ {'return ' if result else ''}{call}; }}")

    def add_stub(self, name: str, types: Sequence[str], result: str) -> None:
        """Define a placeholder that returns zero for a missing function, so that the module is valid.

        Its callers test first whether the function is available. The arguments are those of `add_adapter`.
        """
        body = f" return {_ZERO_OF_TYPE[result]}; " if result else ""
        self.define(f"{_head(name, types, result)} {{{body}}}")

    def text(self, edit: Callable[[str], str]) -> str:
        """Return the text of the whole module. `edit` is applied to the kernel's text, without the added
        declarations."""
        text = self.kernel.text
        if self._built_ins:  # built-in values that library functions read become parameters of the entry points
            for entry in reversed(self.kernel.entry_points):  # offsets of earlier ones stay valid
                text = self._with_built_ins(text, entry)
        directives = "".join(f"{line}\n" for line in self._directives)  # WGSL requires them before declarations
        return "\n\n".join([directives + edit(text).rstrip("\n"), *self._parts]) + "\n"

    def _with_built_ins(self, text: str, entry: Declaration) -> str:
        """Return the text with code at the start of an entry point that stores built-in values in private variables.

        Only an entry point receives built-in values; the copied library functions read them in these variables. A
        missing `@builtin` parameter is added to the entry point. For local_invocation_index,

            fn main(@builtin(workgroup_id) wg: vec3<u32>) {

        becomes

            fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) NAME_given: u32) {
              NAME = NAME_given;

        with the variable library_local_invocation_index as NAME.

        Args:
            text: Text of the kernel's module. Later entry points may be edited already; the text up to the end of this
                one is original, so that the offsets of its tokens are valid.
            entry: Declaration of the entry point.
        """
        tokens = self.kernel.tokens
        # The head is the text from the first attribute up to the opening brace of the body, which it includes.
        start, body = tokens[entry.first].start, tokens[entry.body].end
        head = text[start:body]
        added_parameters: list[str] = []
        writes = ""
        for name, variable in self._built_ins.items():
            if name == "workgroup_size":  # no built-in value of WGSL, but a constant of the entry point
                writes += f"\n  {variable} = {_workgroup_size(entry)};"
                continue
            existing = re.search(rf"@builtin\(\s*{name}\s*\)\s*(\w+)", head)
            parameter = existing[1] if existing is not None else f"{variable}_given"
            if existing is None:
                added_parameters.append(f"@builtin({name}) {parameter}: {BUILT_INS[name]}")
            writes += f"\n  {variable} = {parameter};"
        if added_parameters:  # before the last parenthesis, with a comma unless the list is empty or ends with one
            close = head.rindex(")")
            before = head[:close].rstrip()
            separator = "" if before.endswith(("(", ",")) else ", "
            head = before + separator + ", ".join(added_parameters) + head[close:]
        return text[:start] + head + writes + text[body:]


def _is_built_in(declaration: Declaration) -> bool:
    """Return whether a library's private variable stands for a built-in value, by its name and type."""
    is_private = declaration.kind == "var" and declaration.space == "private"
    return is_private and BUILT_INS.get(declaration.name) == declaration.type


def _head(name: str, types: Sequence[str], result: str) -> str:
    """Return the head of a function whose parameters are a0, a1, ...: `fn f(a0: i32) -> f32`."""
    parameters = ", ".join(f"a{i}: {type_}" for i, type_ in enumerate(types))
    return f"fn {name}({parameters}){f' -> {result}' if result else ''}"


def _renamed(module: WgslModule, declaration: Declaration, names: Mapping[str, str]) -> str:
    """Return the text of a declaration with renamed identifiers; attributes and structure members keep their names.

    names: name in the library → name in the output.
    """
    tokens, parts = module.tokens, []
    at = tokens[declaration.first].start  # offset up to which the text is in `parts`
    for i in module.identifiers(declaration):
        token = tokens[i]
        if token.text not in names:
            continue
        # A name before a colon in a struct is a member's.
        if declaration.kind == "struct" and i + 1 < declaration.end and tokens[i + 1].text == ":":
            continue
        parts += [module.text[at : token.start], names[token.text]]
        at = token.end
    return "".join([*parts, module.text[at : tokens[declaration.end - 1].end]])


def _workgroup_size(entry: Declaration) -> str:
    """Return the workgroup size of an entry point as an expression of WGSL, `vec3<u32>(64, 1, 1)`."""
    stated = entry.attribute("workgroup_size")
    # `@workgroup_size` may leave out the last sizes, which are then 1.
    sizes = [*(stated.arguments if stated is not None else ()), "1", "1"][:3]
    return f"vec3<u32>({', '.join(sizes)})"
