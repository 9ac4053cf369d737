"""Parses PTX: `read(text, name)` returns the module as data.

What is read is checked as far as words go: grammar, names that are declared, types that exist. Whether an instruction
exists and takes such operands is for ptxas, the driver or the interpreter to say.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from pydispatch.formats.ptx.body import FunctionReader, parse_file, parse_location
from pydispatch.formats.ptx.cursor import LINKAGE, SPACES
from pydispatch.formats.ptx.heads import HeadCursor
from pydispatch.formats.ptx.lex import Words, decode, is_number
from pydispatch.formats.ptx.module import PtxFunction, PtxModule, PtxSymbol, Variable


def read(text: str | bytes | bytearray | memoryview, name: str = "PTX") -> PtxModule:
    """Parse a PTX module.

    Args:
        text: Text of the module, or its bytes in UTF-8.
        name: Name of the module for messages.

    Raises:
        ArtifactError: The module is broken; the message starts with "name:line:column".
    """
    return read_words(text, name)[0]


def read_words(text: str | bytes | bytearray | memoryview, name: str = "PTX") -> tuple[PtxModule, Words]:
    """Parse a PTX module; return it and its tokens. The arguments and errors are those of read()."""
    words = Words(decode(text, name), name)
    return _PtxReader(words).read(), words


class _Header(NamedTuple):
    """Directives with which a PTX module begins. The fields are those of PtxModule."""

    version: tuple[int, int]
    target: str
    options: tuple[str, ...]
    address_size: int


class _PtxReader(HeadCursor):
    """Parser of a PTX module: `read` is called once and returns it.

    It is also the cursor of the readers of the functions' bodies, which extend the tables below.

    Attributes:
        functions: Functions and their declarations so far.
        module_variables: Variables at module scope so far.
        defined: Name of a function or variable that is defined, not only declared → the line of its definition.
        kind_of_name: "function" or "variable" for each declared name.
        types: Variable at module scope → its PTX type.
        reserved: Names of static variables in functions, which are unique in the module.
        forward_uses: Names that were used before a declaration, with their token index.
        opcodes: Opcodes split at their dots, by their text: "add.s32" → ("add", ("s32",)); all functions share it.
        aliases: Alias, aliased function, first and last token of each `.alias` directive.
    """

    def __init__(self, source: Words) -> None:
        """Begin at the first token of a module, with empty tables."""
        super().__init__(source)
        self.functions: list[PtxFunction] = []
        self.module_variables: list[Variable] = []
        self.defined: dict[str, int] = {}  # name -> line of its definition
        self.kind_of_name: dict[str, str] = {}  # name -> "function" or "variable"
        self.types: dict[str, str] = {}  # variable -> its type
        self.reserved: set[str] = set()
        self.forward_uses: list[tuple[str, int]] = []  # names used before their declaration, with indices of tokens
        self.opcodes: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.aliases: list[tuple[str, str, int, int]] = []  # alias, function, first and last token of the directive

    def read(self) -> PtxModule:
        """Parse the whole module.

        Raises ArtifactError for text that is no PTX, and for a name that is used but declared nowhere in the module.
        """
        header = self._parse_header()
        start = self.source.starts[self.at]  # offset in the text at which the declarations begin
        while self.words[self.at]:
            self._parse_declaration()
        # Aliases, `.alias a, f;`, become functions with the body of f, which may be defined after the alias.
        defined = {function.name: function for function in self.functions if function.body is not None}
        for alias, aliasee, at, end in self.aliases:
            self._add_alias(alias, aliasee, at, end, defined.get(aliasee))
        # Names that function bodies used before any declaration.
        for word, at in self.forward_uses:
            if word not in self.kind_of_name:
                raise self.fail(f"'{word}' is not declared", at)
        return PtxModule(
            name=self.source.name,
            text=self.source.text,
            version=header.version,
            target=header.target,
            options=header.options,
            address_size=header.address_size,
            functions=tuple(self.functions),
            variables=tuple(self.module_variables),
            start=start,
        )

    def _parse_header(self) -> _Header:
        """Parse the directives `.version`, `.target` and `.address_size`, with which a module begins.

        `.version 8.0 .target sm_80, debug .address_size 64` gives ((8, 0), "sm_80", ("debug",), 64).
        """
        version = self._parse_version()
        self.expect(".target", " after .version")
        target, options = self._parse_target()
        address_size = 64  # the only supported one, also where the directive is missing
        # Optional directives, in any order.
        while True:
            if self.words[self.at] == ".address_size":
                self.at += 1
                at = self.at
                address_size = self.parse_integer("32 or 64")
                if address_size != 64:
                    raise self.fail(f".address_size {address_size}; only 64 is supported, compile with -m64", at)
            elif self.accept(".target"):
                more, others = self._parse_target()  # further directives may state options only: `.target debug`
                target, options = more or target, (*options, *others)
            elif not target:
                raise self.fail("no architecture is stated; expected .target sm_80 or another")
            else:
                return _Header(version, target, options, address_size)

    def _parse_version(self) -> tuple[int, int]:
        """Parse `.version 8.0`, with which a module begins after empty statements; return its numbers."""
        while self.accept(";"):
            pass
        if not self.accept(".version"):
            begin = self.source.shown(self.at)
            raise self.fail(f"no PTX: it begins with {begin}, expected .version (nvcc -ptx makes it of CUDA C++)")
        major, _, minor = self.words[self.at].partition(".")
        if not (is_number(major) and is_number(minor)):
            raise self.fail_expected("a version such as 8.0")
        self.at += 1
        return int(major), int(minor)

    def _parse_target(self) -> tuple[str, tuple[str, ...]]:
        """Parse the words of a `.target` directive: the architecture ("" if there is none) and the other options."""
        target, options = "", list[str]()
        while True:
            at = self.at
            word = self.parse_name("a target such as sm_80")
            if word.startswith("sm_"):
                if target:
                    raise self.fail(f"a second architecture '{word}' after '{target}'", at)
                target = word
            else:
                options.append(word)
            if not self.accept(","):
                break
        if not target and not options:
            raise self.fail_expected("a target such as sm_80")
        return target, tuple(options)

    # Declarations

    def _parse_declaration(self) -> None:
        """Parse a function, variables, or another directive at module scope.

        A linkage such as `.visible`, `.extern` or `.weak` may precede it: `.visible .entry f(...) {...}`, or
        `.extern .shared .f32 a[];`. Functions are appended to `functions`, variables to `module_variables`.
        """
        start, linkage = self.at, ""
        while self.words[self.at].startswith(".") and self.words[self.at][1:] in LINKAGE:
            if linkage:
                raise self.fail(f"'.{linkage}' and '{self.words[self.at]}' at once")
            linkage = self.words[self.at][1:]
            self.at += 1
        word = self.words[self.at]
        self.at += 1
        is_state_space = word.startswith(".") and word[1:] in SPACES and word != ".param"  # parameters are in functions
        if word == ".entry" or word == ".func":
            self._parse_function(linkage, start, is_entry=word == ".entry")
        elif is_state_space:
            for variable, at in self.parse_variables(word[1:], linkage, start, self._address_of):
                self._define(variable.name, "variable", at, is_definition=linkage != "extern")
                self.module_variables.append(variable)
                self.types[variable.name] = variable.type
        elif linkage:
            self.at -= 1
            raise self.fail_expected(f".func, .entry or a state space after '.{linkage}'")
        else:
            self._parse_other_directive(word, start)

    def _parse_other_directive(self, word: str, start: int) -> None:
        """Parse a directive that declares neither a function nor a variable; reject any other word.

        Args:
            word: The directive, which has been consumed.
            start: Index of its token.
        """
        if word == ".file":
            parse_file(self)
        elif word == ".loc":
            parse_location(self)
        elif word == ".section":
            self._skip_section()
        elif word == ".pragma":
            self.parse_string("a pragma")
            self.end_statement(word)
        elif word == ".alias":
            alias = self.parse_name("an alias")
            self.expect(",")
            # The function may be defined later in the module: `read` adds the alias when all functions are known.
            self.aliases.append((alias, self.parse_name("a function"), start, self.at))
            self.end_statement(word)
            self.kind_of_name.setdefault(alias, "function")
        elif word == ".reg":
            self.at -= 1  # the error is at the word
            raise self.fail("a register outside of functions; declare it in the function that uses it")
        elif word != ";":  # a `;` alone is an empty statement
            self.at -= 1  # the error is at the word
            raise self.fail_expected("a declaration such as .entry, .func or .global")

    def _address_of(self, name: str, at: int) -> PtxSymbol:
        """Return the symbol of a name whose token has the index `at`. A name that is not declared yet is recorded in
        `forward_uses`, and checked at the end of the module."""
        if name not in self.kind_of_name:
            self.forward_uses.append((name, at))
        return PtxSymbol(name)

    def _define(self, name: str, kind: str, at: int, is_definition: bool) -> None:
        """Record a declared name; raise ArtifactError if it is declared as another kind or defined twice.

        Args:
            name: The name.
            kind: "function" or "variable".
            at: Index of its token.
            is_definition: False for a declaration, which may be repeated.
        """
        if self.kind_of_name.setdefault(name, kind) != kind:  # an earlier declaration has another kind
            raise self.fail(f"'{name}' is a {kind} here and a {self.kind_of_name[name]} above", at)
        if is_definition:
            if name in self.defined:
                raise self.fail(f"'{name}' is defined twice, first in line {self.defined[name]}", at)
            self.defined[name] = self.source.line(at)

    def _skip_section(self) -> None:
        """Skip a `.section` with debug information."""
        start = self.at
        if self.words[self.at][:1] != ".":
            raise self.fail_expected("the name of a section")
        self.at += 1
        self.expect("{", " after the name of a section")
        while self.words[self.at] != "}":
            if not self.words[self.at]:
                raise self.fail("this section has no end, expected '}'", start)
            self.at += 1
        self.at += 1

    def _add_alias(self, alias: str, aliasee: str, at: int, end: int, definition: PtxFunction | None) -> None:
        """Append to `functions` a copy of a function under the name of its alias.

        Raises ArtifactError if the module does not define the function.

        Args:
            alias: Name of the alias.
            aliasee: Name of the function.
            at: Index of the first token of the `.alias` directive.
            end: Index of its last token.
            definition: The function; None if the module does not define it.
        """
        if definition is None:
            raise self.fail(f"'{alias}' is an alias of '{aliasee}', which is no function that is defined here", at)
        line, start = self.source.line(at), self.source.starts[at]
        self.functions.append(replace(definition, name=alias, line=line, start=start, end=self.source.end(end)))

    def _parse_function(self, linkage: str, start: int, *, is_entry: bool) -> None:
        """Parse the declaration or definition of a function after `.entry` or `.func`.

        Args:
            linkage: "visible", "extern", "weak" or another linkage; "" for none.
            start: Index of the declaration's first token.
            is_entry: Whether it is a kernel.
        """
        function, at = self.parse_head(linkage, start, is_entry=is_entry)
        if self.words[self.at] == "{":
            self._define(function.name, "function", at, is_definition=True)
            function = self._parse_body(function)
        elif self.accept(";"):
            self._define(function.name, "function", at, is_definition=False)
        else:
            raise self.fail_expected(f"'{{' or ';' after the head of '{function.name}'")
        self.functions.append(replace(function, end=self.source.end(self.at - 1)))

    def _parse_body(self, function: PtxFunction) -> PtxFunction:
        """Parse the body of a function, and return the function with it."""
        body = FunctionReader(
            cursor=self,
            function=function.name,
            params=[*function.returns, *function.params],
            known=self.kind_of_name.__contains__,
            pending=self.forward_uses,
            types=self.types,
            reserved=self.reserved,
            opcodes=self.opcodes,
        )
        body.read()
        return replace(
            function,
            body=tuple(body.items),
            registers=body.registers,
            variables=tuple(body.variables),
            tables=body.tables,
        )
