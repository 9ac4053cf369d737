"""The names of a PTX function: scopes, registers, labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pydispatch.formats.ptx.cursor import WARP_SIZE, is_name
from pydispatch.formats.ptx.module import Immediate, Operand, Param, PtxSymbol, Register, Variable, Vector
from pydispatch.formats.ptx.variables import DeclarationCursor

_MAX_DEPTH = 64  # of nested scopes
_SPECIAL = re.compile(
    r"%(?:(?:n?tid|n?ctaid|n?clusterid|cluster_n?ctaid)(?:\.[xyzw])?|laneid|n?warpid|n?smid|gridid"
    r"|is_explicit_cluster|cluster_n?ctarank|lanemask_(?:eq|le|lt|ge|gt)|clock(?:_hi|64)?|pm[0-7](?:_64)?"
    r"|envreg(?:[12]?[0-9]|3[01])|globaltimer(?:_lo|_hi)?|reserved_smem_offset_(?:begin|end|cap|[01])"
    r"|(?:total|aggr|dynamic)_smem_size|current_graph_exec)",
    re.ASCII,
)
"""Name of a special register, which needs no declaration, such as %tid.x."""
_LANES = {"x": 0, "y": 1, "z": 2, "w": 3, "r": 0, "g": 1, "b": 2, "a": 3}
"""Component of a vector register → its index."""
_MAX_REGISTER_DIGITS = 9
"""Maximum digits of a number at the end of a register's name, such as 12 in `%r12`. Ranges have fewer registers than
a number with more digits could index."""


class RegisterRange(NamedTuple):
    """Registers that a declaration such as `.reg .b32 %r<10>` declares.

    Attributes:
        size: Number of registers: `%r0` to `%r9` of `%r<10>`.
        type: PTX type.
        lanes: Components of each register; 1 without `.v2` or `.v4`.
    """

    size: int
    type: str
    lanes: int


class _Scope:
    """Scope of declarations in `{ }`.

    Attributes:
        names: Operand of each declared name.
        ranges: Declared ranges such as `%r<10>`, by their prefix `%r`.
        cache: Operands that are a single token, by its text; None for `_`. A declaration in the scope clears it, since
            it may give the name another meaning.
    """

    __slots__ = ("cache", "names", "ranges")

    def __init__(self) -> None:
        """Create a scope without declarations."""
        self.names: dict[str, Operand] = {}
        self.ranges: dict[str, RegisterRange] = {}
        self.cache: dict[str, Operand | None] = {}


class NameScopes:
    """Scopes of a function body, with the registers and variables declared in them.

    `find_labels` is called first, at the `{` of the body. Then `open` begins each inner scope, and the caller removes
    the scope from `scopes` at its `}`. In between, `declare` adds names and `resolve` looks them up.

    Attributes:
        cursor: Reader of the module's tokens.
        words: The tokens of the module; "" marks the end.
        function: Name of the function.
        registers: Unique name of a register → its PTX type.
        variables: Variables that the function declares, such as those in shared memory; registers are not among them.
        labels: Token index of a scope's `{` → (name, token index) of each of its labels.
        scopes: The open scopes, innermost last.
        known: Returns whether a name is declared in the module.
        types: Variable of the module → its PTX type, such as "f32".
        pending: Undeclared names with their token index; they are checked at the end of the module, because
            functions may be used before their declaration.
        reserved: Names of static variables (`.global`, `.const`, `.shared`) in the functions so far. They must be
            unique in the module, which allocates them.
        taken: Unique names of the function's parameters, registers, variables and labels so far.
    """

    def __init__(
        self, cursor: DeclarationCursor, function: str, params: list[Param], known: Callable[[str], bool],
        pending: list[tuple[str, int]], types: Mapping[str, str], reserved: set[str],
    ) -> None:  # fmt: skip
        """Open the outermost scope of a function, with `params`, its parameters. For the others, see the class.

        Names are added to the caller's `pending` and `reserved`.
        """
        self.cursor, self.words, self.function, self.known = cursor, cursor.words, function, known
        self.pending, self.types, self.reserved = pending, types, reserved
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.taken: set[str] = set()  # names in use in the function, which `_unique_name` avoids
        self.labels: dict[int, list[tuple[str, int]]] = {}  # index of a scope's `{` → (name, index) of its labels
        outer = _Scope()
        for param in params:
            if param.name == "_":  # a parameter without a name, which the body cannot use
                continue
            self.taken.add(param.name)
            if param.space == "reg":
                self.registers[param.name] = param.type
                outer.names[param.name] = Register(param.name)
            else:
                outer.names[param.name] = PtxSymbol(param.name)
        self.scopes = [outer]

    # Scopes and names

    def find_labels(self) -> None:
        """Collect the labels of each scope, keyed by the token index of its `{`.

        They are collected in advance because a label may be used before its definition. The cursor is, and stays, at
        the `{` of the function's body.
        """
        words, at = self.words, self.cursor.at
        stack = [at]
        while stack:
            at += 1
            word = words[at]
            if word == ":":
                if is_name(words[at - 1]):
                    self.labels.setdefault(stack[-1], []).append((words[at - 1], at - 1))
            elif word == "{":
                stack.append(at)
            elif word == "}":
                stack.pop()
            elif not word:  # the end of the text: the parser of the body reports the missing `}`
                return

    def _unique_name(self, name: str) -> str:
        """Return `name`, with a suffix such as `$2` if the function or module has it already, and mark it as taken."""
        unique_name, suffix = name, 1  # the second symbol of a name gets `$2`
        while unique_name in self.taken or unique_name in self.reserved or self.known(unique_name):
            suffix += 1
            unique_name = f"{name}${suffix}"
        self.taken.add(unique_name)
        return unique_name

    def declare(self, name: str, at: int, operand_of: Callable[[str], Operand]) -> str:
        """Declare the name at token `at` in the innermost scope, and return its unique name.

        The unique name differs from `name` if the module or another scope of the function has a symbol `name`.
        `operand_of` returns the operand that the name denotes, from the unique name.
        """
        scope = self.scopes[-1]
        if name in scope.names:
            raise self.cursor.fail(f"'{name}' is declared twice in this scope", at)
        unique_name = self._unique_name(name)
        scope.names[name] = operand_of(unique_name)
        scope.cache.clear()  # it has operands by their text, in which `name` may have had another meaning
        return unique_name

    def open(self, at: int) -> None:
        """Enter the scope whose `{` is at token `at`, and declare its labels."""
        if len(self.scopes) > _MAX_DEPTH:
            raise self.cursor.fail(f"scopes nested deeper than {_MAX_DEPTH}", at)
        self.scopes.append(_Scope())
        for name, index in self.labels.get(at, ()):
            self.declare(name, index, PtxSymbol)

    def resolve(self, name: str, at: int) -> Operand | None:
        """Return the operand that the name at token `at` denotes in the open scopes; None for `_`, an unused one.

        `%r7` is a register, `%tid.x` a special register, `v.x` a component of a vector register, `WARP_SZ` a number,
        and any other name a symbol: a variable, parameter, label or function.
        """
        if name == "_":
            return None
        # Names that are declared in the function; the innermost scope is first.
        for scope in reversed(self.scopes):
            operand = scope.names.get(name)
            if operand is not None:
                return operand
            if scope.ranges and (operand := self._register_of_range(scope, name)) is not None:
                return operand
        if name[0] == "%":
            if _SPECIAL.fullmatch(name):
                return Register(name)
            if "." not in name:  # with a dot it is a component, such as %v.x
                raise self.cursor.fail(f"the register '{name}' is not declared", at)
        if "." in name:
            return self._component(name, at)
        if name == "WARP_SZ":
            return Immediate(WARP_SIZE)
        if not self.known(name):  # perhaps a function that is declared later: checked at the end of the module
            self.pending.append((name, at))
        return PtxSymbol(name)

    def _register_of_range(self, scope: _Scope, name: str) -> Operand | None:
        """Return the register that a name such as `%r7` denotes if a range `%r<10>` is declared in the scope; else
        None.

        Its type is recorded at this first use, since most registers of a range may be unused.
        """
        first = len(name)  # index where the number starts; each split is tried: `%r12` is in `%r<20>` or in `%r1<5>`
        while first > 1 and name[first - 1].isdigit() and len(name) - first < _MAX_REGISTER_DIGITS:
            first -= 1
            digits = name[first:]
            declared = scope.ranges.get(name[:first])
            has_leading_zero = digits[0] == "0" and len(digits) > 1
            if declared is not None and not has_leading_zero and int(digits) < declared.size:
                register = self.register(self._unique_name(name), declared.type, declared.lanes)
                scope.names[name] = register
                return register
        return None

    def register(self, unique_name: str, kind: str, lanes: int) -> Operand:
        """Record the PTX type `kind` of a register and return its operand: a vector if it has several lanes.

        A vector register is recorded as its components: `v.x`, `v.y` and so on.
        """
        if lanes == 1:
            self.registers[unique_name] = kind
            return Register(unique_name)
        components = tuple(f"{unique_name}.{lane}" for lane in "xyzw"[:lanes])
        self.registers.update(dict.fromkeys(components, kind))
        return Vector(tuple(map(Register, components)))

    def _component(self, name: str, at: int) -> Operand:
        """Return the operand `name`, a component: `v.x` of a vector register, byte `a.b0` or half `a.h1` of a register.

        Raises ArtifactError, at token `at`, for any other name with a dot.
        """
        base, _, component = name.partition(".")
        whole = self.resolve(base, at) if base != "_" else None  # `_` is an unused operand, without components
        lane = _LANES.get(component)
        if isinstance(whole, Vector) and lane is not None and lane < len(whole.items):
            operand = whole.items[lane]
            assert operand is not None
            return operand
        if isinstance(whole, Register) and re.fullmatch("[bh][0-3]", component):
            return Register(f"{whole.name}.{component}")
        raise self.cursor.fail(f"'{name}' is no operand", at)

    def address_of(self, name: str, at: int) -> PtxSymbol:
        """Return the symbol of a name whose address is used; raise ArtifactError for a register."""
        symbol = self.resolve(name, at)
        if not isinstance(symbol, PtxSymbol):
            raise self.cursor.fail(f"expected the name of a variable or a number, got '{name}'", at)
        return symbol
