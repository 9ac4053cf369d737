"""Reads the bodies of PTX functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from pydispatch.formats.ptx.cursor import COMPARISONS, SPACES, Cursor, is_name
from pydispatch.formats.ptx.lex import is_number
from pydispatch.formats.ptx.module import Instruction, Not, Operand, Param, PtxLabel, PtxSymbol, Register
from pydispatch.formats.ptx.names import RegisterRange
from pydispatch.formats.ptx.operands import ENDS, Operands
from pydispatch.formats.ptx.variables import VECTORS, DeclarationCursor

_MAX_REGISTERS = 1 << 24
"""Registers that one declaration, such as `.reg .b32 %r<8>`, may have: texts are untrusted."""
_OPCODE = re.compile(r"[a-z]\w*(?:\.\w+(?:::\w+)*)*", re.ASCII)
"""An opcode with its modifiers, such as `ld.shared::cta.u32`."""
_TABLES = (".branchtargets", ".calltargets")
"""Directives with the list of targets of an indirect branch or call; the list is named by the label before it."""
_STATIC_SPACES = ("global", "const", "shared")
"""State spaces of variables that are allocated for the module, even if they are declared in a function."""
_MISSING = object()
"""Stands for an operand that is not in a cache, whose values may be None."""


class FunctionReader(Operands):
    """Parser of one function body: `read` is called once, and collects the items, registers, variables and tables.

    `NameScopes` has the attributes for names: `known`, `pending`, `types`, `reserved`.

    Attributes:
        opcodes: Opcode with modifiers in the text ("add.s32") → (opcode, modifiers), as a cache for the module.
        items: Instructions and labels, in the order of the text.
        tables: Label → the labels or functions of the `.branchtargets` or `.calltargets` after it, or the text of the
            `.callprototype` as the only entry.
    """

    def __init__(
        self, cursor: DeclarationCursor, function: str, params: list[Param], known: Callable[[str], bool],
        pending: list[tuple[str, int]], types: Mapping[str, str], reserved: set[str],
        opcodes: dict[str, tuple[str, tuple[str, ...]]],
    ) -> None:  # fmt: skip
        """Create a reader whose cursor is at the `{` of a function's body; `read` parses it.

        Args:
            cursor: Reader of the module's tokens.
            function: Name of the function.
            params: Its parameters.
            known: Returns whether a name is declared in the module.
            pending: List to which names that are not declared yet are appended, with their token index: the function
                of a name may follow later in the module.
            types: Variable of the module → its PTX type, such as "f32".
            reserved: Names of static variables of all functions, to which those of this function are added.
            opcodes: Cache of split opcodes, shared by all functions of the module.
        """
        super().__init__(cursor, function, params, known, pending, types, reserved)
        self.opcodes = opcodes
        self.items: list[Instruction | PtxLabel] = []  # the parsed body
        self.tables: dict[str, tuple[str, ...]] = {}  # label -> the targets or the call prototype that follow it

    def read(self) -> None:
        """Parse the body from its `{` to its `}`.

        Instructions and labels are appended to `items`, declarations to the registers and variables of the reader.
        Raises ArtifactError for text that is no body, at the token where the error is.
        """
        cursor, words = self.cursor, self.words
        self.find_labels()
        for name, index in self.labels.get(cursor.at, ()):  # of the outermost scope; open() declares those of others
            self.declare(name, index, PtxSymbol)
        cursor.at += 1
        while True:
            word = words[cursor.at]
            first = word[:1]
            if first == ".":
                self._parse_directive(word)
            elif word == "}":
                cursor.at += 1
                if len(self.scopes) == 1:  # the end of the body, not of an inner scope
                    return
                self.scopes.pop()
            elif word == "{":
                self.open(cursor.at)
                cursor.at += 1
            elif word == ";":
                cursor.at += 1
            elif is_name(word) and words[cursor.at + 1 : cursor.at + 2] == [":"]:  # a slice: `word` may be the last one
                self._parse_label()
            elif first == "@" or _OPCODE.fullmatch(word):
                self._parse_instruction()
            elif not word:
                raise cursor.fail(f"the body of '{self.function}' has no end, expected '}}'")
            else:
                raise cursor.fail_expected(f"an instruction of '{self.function}'")

    def _parse_label(self) -> None:
        """Parse a label, with the `.branchtargets`, `.calltargets` or `.callprototype` that follows it."""
        cursor = self.cursor
        at, name = cursor.at, self.words[cursor.at]
        symbol = self.scopes[-1].names.get(name)
        # All labels of a scope are declared at its `{`. If the name is no label, a register or variable had it already.
        if not isinstance(symbol, PtxSymbol):
            raise cursor.fail(f"'{name}' is declared twice in this scope")
        cursor.at += 2  # the name and the colon
        word = self.words[cursor.at]
        if word in _TABLES:
            self.tables[symbol.name] = self._parse_targets()
        elif word == ".callprototype":
            self.tables[symbol.name] = (self._skip_call_prototype(),)
        else:
            self.items.append(PtxLabel(symbol.name, cursor.source.line(at)))

    def _parse_targets(self) -> tuple[str, ...]:
        """Parse `.branchtargets a, b;` or `.calltargets a, b;`; return the unique names of the labels or functions."""
        cursor, directive = self.cursor, self.words[self.cursor.at]
        cursor.at += 1
        targets: list[str] = []
        while True:
            at = cursor.at
            targets.append(self.address_of(cursor.parse_name("a label"), at).name)
            if not cursor.accept(","):
                break
        cursor.end_statement(directive)
        return tuple(targets)

    def _skip_call_prototype(self) -> str:
        """Skip a `.callprototype` directive, and return its text without the ';'; linking copies it as it is."""
        cursor, starts = self.cursor, self.cursor.source.starts
        begin = starts[cursor.at]
        while self.words[cursor.at] not in (";", "", "{", "}"):
            cursor.at += 1
        end = starts[cursor.at]
        cursor.end_statement(".callprototype")
        return cursor.source.text[begin:end].rstrip()

    def _parse_directive(self, word: str) -> None:
        """Parse the directive `word` at the cursor; directives about source positions and pragmas have no effect.

        Declarations are `.reg .f32 %f<4>;` for registers, and `.shared .f32 a[256];` or `.extern .shared .f32 a[];` for
        variables in a state space. Raise ArtifactError for any other directive.
        """
        cursor, start = self.cursor, self.cursor.at
        cursor.at += 1
        if word == ".reg":
            self._parse_registers()
        elif word[1:] in SPACES:
            self._parse_variables(word[1:], linkage="", start=start)
        elif word == ".loc":
            parse_location(cursor)
        elif word == ".file":
            parse_file(cursor)
        elif word == ".pragma":
            cursor.parse_string("a pragma")
            while cursor.accept(","):
                cursor.parse_string("a pragma")
            cursor.end_statement(word)
        elif word == ".extern" and self.words[cursor.at][1:] in SPACES:
            cursor.at += 1
            self._parse_variables(self.words[cursor.at - 1][1:], linkage="extern", start=start)
        else:
            raise cursor.fail(f"'{word}' is no directive of a function's body", start)

    def _parse_variables(self, space: str, linkage: str, start: int) -> None:
        """Parse the variables after a state space such as `.shared`, and give each a unique name.

        The module allocates static variables, so their names must be unique in it: they stay reserved in the functions
        that follow. `start` is the token index of the declaration.
        """
        for variable, at in self.cursor.parse_variables(space, linkage, start, self.address_of):
            unique_name = self.declare(variable.name, at, PtxSymbol)
            if space in _STATIC_SPACES:
                self.reserved.add(unique_name)
            self.variables.append(replace(variable, name=unique_name))

    def _parse_registers(self) -> None:
        """Parse a `.reg` declaration after this word: a type, and names or ranges.

        `.b32 %r<10>, %x;` declares %r0 to %r9 and %x. A type such as `.v2 .f32` is that of registers with 2 lanes.
        """
        cursor = self.cursor
        lanes = VECTORS.get(self.words[cursor.at], 1)
        if lanes > 4:  # .v8 is for accesses to memory only
            raise cursor.fail_expected("a type")
        if lanes > 1:
            cursor.at += 1
        kind = cursor.parse_type("a register")
        while True:
            at = cursor.at
            name = cursor.parse_name("a register")
            if cursor.accept("<"):
                self._add_range(name, at, RegisterRange(self._parse_count(), kind, lanes))
            else:
                # `declare` calls the function with a name that no other scope of the function has.
                self.declare(name, at, lambda unique_name: self.register(unique_name, kind, lanes))
            if not cursor.accept(","):
                break
        cursor.end_statement("the declaration of registers")

    def _parse_count(self) -> int:
        """Parse the count of a range of registers, and the ">" after it, which is no operator here."""
        count = self.cursor.parse_integer("a count", least=0, rank=COMPARISONS)
        self.cursor.expect(">")
        return count

    def _add_range(self, name: str, at: int, registers: RegisterRange) -> None:
        """Declare a range as a whole: its registers are created when they are used. `at`: index of the name's token."""
        scope = self.scopes[-1]
        if name in scope.ranges:
            raise self.cursor.fail(f"'{name}<>' is declared twice in this scope", at)
        if registers.size > _MAX_REGISTERS:
            raise self.cursor.fail(f"{registers.size} registers, more than {_MAX_REGISTERS}", at)
        scope.ranges[name] = registers
        scope.cache.clear()  # a cached name may now be a register of the range

    # Instructions

    def _parse_instruction(self) -> None:
        """Parse an instruction, such as `@!%p add.s32 %r1, %r2, 3;`, and append it to `items`."""
        cursor, words = self.cursor, self.words
        guard: Register | Not | None = None
        if words[cursor.at] == "@":
            cursor.at += 1
            guard = self.parse_guard()
        at = cursor.at
        opcode, modifiers = self._parse_opcode()
        operands = self._parse_operands(opcode)
        self.items.append(Instruction(opcode, modifiers, operands, cursor.source.line(at), guard))

    def _parse_opcode(self) -> tuple[str, tuple[str, ...]]:
        """Parse an opcode with its modifiers, such as `ld.global.u32`; return ("ld", ("global", "u32"))."""
        cursor, words = self.cursor, self.words
        word = words[cursor.at]
        if word not in self.opcodes and not _OPCODE.fullmatch(word):
            raise cursor.fail_expected("an instruction")
        cursor.at += 1
        while words[cursor.at][:1] == ".":  # modifiers after spaces: `ld .global .u32`
            word += words[cursor.at]
            cursor.at += 1
        opcode = self.opcodes.get(word)
        if opcode is None:
            first, *rest = word.split(".")
            opcode = self.opcodes[word] = first, tuple(rest)
        return opcode

    def _parse_operands(self, opcode: str) -> tuple[Operand | None, ...]:
        """Parse the operands of an instruction and the `;` after them; None is an operand `_`.

        `%f1, [%rd1+4], 2;` gives (Register, Address, Immediate).
        """
        cursor, words = self.cursor, self.words
        operands: list[Operand | None] = []
        if words[cursor.at] == ";":
            cursor.at += 1
            return ()
        is_call, cache = opcode == "call", self.scopes[-1].cache
        while True:
            word = words[cursor.at]
            # Most operands are one token that occurred before. The token after it shows that it is the whole operand,
            # and not the beginning of `a[3]`, `a+4` or `%r1|%p`.
            operand = cache.get(word, _MISSING)
            if operand is not _MISSING and words[cursor.at + 1] in ENDS:
                cursor.at += 1
                operands.append(operand)  # type: ignore[arg-type]
            else:
                operands.append(self.parse_operand(is_call, depth=0))
            word = words[cursor.at]
            if word not in (",", ";"):
                cursor.end_statement(f"'{opcode}'")  # raises, because the token is no ';'
            cursor.at += 1
            if word == ";":
                return tuple(operands)


def parse_location(cursor: Cursor) -> None:
    """Parse the operands of `.loc`: file, line, column, and optionally the inlining site."""
    _parse_source_position(cursor)
    while cursor.accept(","):
        if cursor.accept("function_name"):
            cursor.parse_name("a label")
            if cursor.accept("+"):
                cursor.parse_integer("an offset")
        elif cursor.accept("inlined_at"):
            _parse_source_position(cursor)
        else:
            raise cursor.fail_expected("function_name or inlined_at")


def _parse_source_position(cursor: Cursor) -> None:
    """Parse file, line and column numbers."""
    for what in ("a file", "a line", "a column"):
        if not is_number(cursor.words[cursor.at], digits=10):
            raise cursor.fail_expected(f"the number of {what} after .loc")
        cursor.at += 1


def parse_file(cursor: Cursor) -> None:
    """Parse the operands of `.file`: a number, a name, and optionally the timestamp and size."""
    cursor.parse_integer("the number of a file")
    cursor.parse_string("a file's name")
    while cursor.accept(","):
        cursor.parse_integer("a number")
