"""Parses PTX: `read(text, name)` returns the module as data.

What is read is checked as far as words go: grammar, names that are declared, types that exist. Whether an instruction
exists and takes such operands is for ptxas, the driver or the interpreter to say.
"""

from __future__ import annotations

from dataclasses import replace

from pydispatch.formats.ptx.body import FunctionReader, file, location
from pydispatch.formats.ptx.cursor import LINKAGE, SPACES
from pydispatch.formats.ptx.lex import Words, decode, is_number
from pydispatch.formats.ptx.module import SIZES, Param, PtxFunction, PtxModule, PtxSymbol, Variable
from pydispatch.formats.ptx.variables import DeclarationCursor

_NUMBERED = frozenset((
    ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg", ".reqnctapercluster", ".explicitcluster",
    ".maxclusterrank", ".blocksareclusters", ".noreturn", ".abi_preserve", ".abi_preserve_control",
))  # fmt: skip
"""Directives of functions that are followed by integers, or by nothing."""


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


class _PtxReader(DeclarationCursor):
    """Parser of a PTX module.

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
        super().__init__(source)
        self.functions: list[PtxFunction] = []
        self.module_variables: list[Variable] = []
        self.defined: dict[str, int] = {}
        self.kind_of_name: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self.reserved: set[str] = set()
        self.forward_uses: list[tuple[str, int]] = []
        self.opcodes: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.aliases: list[tuple[str, str, int, int]] = []

    def read(self) -> PtxModule:
        """Parse the whole module."""
        version, target, options, address_size = self._header()
        start = self.source.starts[self.at]  # offset in the text at which the declarations begin
        while self.words[self.at]:
            self._declaration()
        defined = {function.name: function for function in self.functions if function.body is not None}
        for alias, aliasee, at, end in self.aliases:
            self._alias(alias, aliasee, at, end, defined.get(aliasee))
        for word, at in self.forward_uses:
            if word not in self.kind_of_name:
                raise self.fail(f"'{word}' is not declared", at)
        return PtxModule(
            name=self.source.name,
            text=self.source.text,
            version=version,
            target=target,
            options=options,
            address_size=address_size,
            functions=tuple(self.functions),
            variables=tuple(self.module_variables),
            start=start,
        )

    def _header(self) -> tuple[tuple[int, int], str, tuple[str, ...], int]:
        """Parse `.version`, `.target` and `.address_size`; return the version (major, minor), the architecture such as
        "sm_80", the other options of `.target`, and the address size in bits."""
        while self.accept(";"):  # empty statements
            pass
        if not self.accept(".version"):
            begin = self.source.shown(self.at)
            raise self.fail(f"no PTX: it begins with {begin}, expected .version (nvcc -ptx makes it of CUDA C++)")
        major, _, minor = self.words[self.at].partition(".")
        if not (is_number(major) and is_number(minor)):
            raise self.fail_expected("a version such as 8.0")
        version = int(major), int(minor)
        self.at += 1
        self.expect(".target", " after .version")
        target, options = self._target()
        address_size = 64  # the only supported one, also where the directive is missing
        while True:
            if self.words[self.at] == ".address_size":
                self.at += 1
                at = self.at
                address_size = self.integer("32 or 64")
                if address_size != 64:
                    raise self.fail(f".address_size {address_size}; only 64 is supported, compile with -m64", at)
            elif self.accept(".target"):
                more, others = self._target()
                target, options = more or target, (*options, *others)
            elif not target:
                raise self.fail("no architecture is stated; expected .target sm_80 or another")
            else:
                return version, target, options, address_size

    def _target(self) -> tuple[str, tuple[str, ...]]:
        """Parse the words of a `.target` directive: the architecture ("" if there is none) and the other options."""
        target, options = "", list[str]()
        while True:
            at = self.at
            word = self.name("a target such as sm_80")
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

    def _declaration(self) -> None:
        """Parse a function, variables, or another directive at module scope."""
        start, linkage = self.at, ""
        while self.words[self.at][1:] in LINKAGE and self.words[self.at][0] == ".":
            if linkage:
                raise self.fail(f"'.{linkage}' and '{self.words[self.at]}' at once")
            linkage = self.words[self.at][1:]
            self.at += 1
        word = self.words[self.at]
        self.at += 1
        if word == ".entry" or word == ".func":
            self._function(linkage, start, is_entry=word == ".entry")
        elif word[:1] == "." and word[1:] in SPACES and word != ".param":
            for variable, at in self.variables(word[1:], linkage, start, self._address_of):
                self._define(variable.name, "variable", at, is_definition=linkage != "extern")
                self.module_variables.append(variable)
                self.types[variable.name] = variable.type
        elif linkage:
            self.at -= 1
            raise self.fail_expected(f".func, .entry or a state space after '.{linkage}'")
        else:
            self._other_directive(word, start)

    def _other_directive(self, word: str, start: int) -> None:
        """Parse a directive that declares neither a function nor a variable; reject any other word.

        Args:
            word: The directive, which has been consumed.
            start: Index of its token.
        """
        if word == ".file":
            file(self)
        elif word == ".loc":
            location(self)
        elif word == ".section":
            self._section()
        elif word == ".pragma":
            self.string("a pragma")
            self.end_statement(word)
        elif word == ".alias":
            alias = self.name("an alias")
            self.expect(",")
            self.aliases.append((alias, self.name("a function"), start, self.at))
            self.end_statement(word)
            self.kind_of_name.setdefault(alias, "function")
        elif word == ".reg":
            self.at -= 1
            raise self.fail("a register outside of functions; declare it in the function that uses it")
        elif word != ";":
            self.at -= 1
            raise self.fail_expected("a declaration such as .entry, .func or .global")

    def _address_of(self, name: str, at: int) -> PtxSymbol:
        """Return the symbol of a name; one that is not declared yet is checked at the end of the module."""
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
        if self.kind_of_name.setdefault(name, kind) != kind:
            raise self.fail(f"'{name}' is a {kind} here and a {self.kind_of_name[name]} above", at)
        if is_definition:
            if name in self.defined:
                raise self.fail(f"'{name}' is defined twice, first in line {self.defined[name]}", at)
            self.defined[name] = self.source.line(at)

    def _section(self) -> None:
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

    def _alias(self, alias: str, aliasee: str, at: int, end: int, definition: PtxFunction | None) -> None:
        """Add a copy of a defined function under the name of its alias.

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

    # Functions

    def _function(self, linkage: str, start: int, *, is_entry: bool) -> None:
        """Parse the declaration or definition of a function after `.entry` or `.func`.

        Args:
            linkage: "visible", "extern", "weak" or another linkage; "" for none.
            start: Index of the declaration's first token.
            is_entry: Whether it is a kernel.
        """
        what = "an entry" if is_entry else "a function"
        if self.accept(".attribute"):
            self.attribute()
        returns: list[Param] = []
        if self.words[self.at] == "(":
            if is_entry:
                raise self.fail("an entry returns nothing")
            returns = self._params("a returned value")
        at = self.at
        name = self.name(what)
        params = self._params("a parameter") if self.words[self.at] == "(" else []
        seen: set[str] = set()
        for param in (*returns, *params):
            if param.name in seen and param.name != "_":
                raise self.fail(f"two parameters of '{name}' are named '{param.name}'", at)
            seen.add(param.name)
        directives = self._directives()
        line = self.source.line(at)
        if self.words[self.at] != "{":
            if self.words[self.at] != ";":
                raise self.fail_expected(f"'{{' or ';' after the head of '{name}'")
            self.at += 1
            self._define(name, "function", at, is_definition=False)
            self.functions.append(
                PtxFunction(
                    name=name,
                    is_entry=is_entry,
                    linkage=linkage,
                    params=tuple(params),
                    returns=tuple(returns),
                    line=line,
                    body=None,
                    directives=directives,
                    start=self.source.starts[start],
                    end=self.source.end(self.at - 1),
                )
            )
            return
        self._define(name, "function", at, is_definition=True)
        body = FunctionReader(
            cursor=self,
            function=name,
            params=[*returns, *params],
            known=self.kind_of_name.__contains__,
            pending=self.forward_uses,
            types=self.types,
            reserved=self.reserved,
            opcodes=self.opcodes,
        )
        body.read()
        self.functions.append(
            PtxFunction(
                name=name,
                is_entry=is_entry,
                linkage=linkage,
                params=tuple(params),
                returns=tuple(returns),
                line=line,
                body=tuple(body.items),
                registers=body.registers,
                variables=tuple(body.variables),
                directives=directives,
                tables=body.tables,
                start=self.source.starts[start],
                end=self.source.end(self.at - 1),
            )
        )

    def _params(self, what: str) -> list[Param]:
        """Parse a parenthesized list of parameters or return values. what: "a parameter", for messages."""
        params: list[Param] = []
        self.expect("(")
        if self.accept(")"):
            return params
        while True:
            space = self.words[self.at]
            if space not in (".param", ".reg"):
                raise self.fail_expected(f".param or .reg before {what}")
            self.at += 1
            params.append(self._param(space[1:], what))
            if not self.accept(","):
                break
        self.expect(")", f" or ',' after {what}")
        return params

    def _param(self, space: str, what: str) -> Param:
        """Parse one parameter after its state space."""
        align = self.alignment() if self.accept(".align") else 0
        kind = self.type(what)
        if self.accept(".ptr"):  # the state space that the pointer points to, and its alignment
            if self.words[self.at][1:] in SPACES and self.words[self.at][:1] == ".":
                self.at += 1
            if self.accept(".align"):
                self.alignment()
        elif self.accept(".align"):
            align = self.alignment()
        at = self.at
        name = self.name(what)
        sizes = self.dimensions()
        count = 1
        for size in sizes:
            count *= size
        if len(sizes) > 1 or count * SIZES[kind] > 1 << 20:
            raise self.fail(f"'{name}' is no parameter that PTX has: arrays have one dimension and up to 1 MiB", at)
        return Param(
            name=name,
            type=kind,
            align=align or SIZES[kind],
            count=count if sizes else 0,  # 0: a scalar
            line=self.source.line(at),
            space=space,
        )

    def _directives(self) -> dict[str, tuple[int, ...]]:
        """Parse the directives between a function's parameters and its body; return the integers of each.

        `.maxntid 128, 1, 1` gives {"maxntid": (128, 1, 1)}.
        """
        directives: dict[str, tuple[int, ...]] = {}
        while True:
            word = self.words[self.at]
            if word[:1] != ".":
                return directives
            at = self.at
            self.at += 1
            if word == ".pragma":
                self.string("a pragma")
                while self.accept(","):
                    self.string("a pragma")
                self.accept(";")
            elif word == ".attribute":
                self.attribute()
            elif word in _NUMBERED:
                numbers: list[int] = []
                if is_number(self.words[self.at][:1]):
                    numbers.append(self.integer("a number"))
                    while self.accept(","):
                        numbers.append(self.integer("a number"))
                if word[1:] in directives:
                    raise self.fail(f"a second '{word}'", at)
                directives[word[1:]] = tuple(numbers)
            else:
                raise self.fail(f"'{word}' is no directive of a function", at)
