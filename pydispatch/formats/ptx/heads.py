"""Heads of PTX functions: linkage, return values, name, parameters and directives, up to the body."""

from __future__ import annotations

import math

from pydispatch.formats.ptx.cursor import SPACES
from pydispatch.formats.ptx.lex import is_number
from pydispatch.formats.ptx.module import SIZES, Param, PtxFunction
from pydispatch.formats.ptx.variables import DeclarationCursor

_MAX_PARAMETER_BYTES = 1 << 20
"""Maximum size of an array parameter, in bytes; texts are untrusted, and one with a larger parameter is refused."""
_NUMBERED = frozenset((
    ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg", ".reqnctapercluster", ".explicitcluster",
    ".maxclusterrank", ".blocksareclusters", ".noreturn", ".abi_preserve", ".abi_preserve_control",
))  # fmt: skip
"""Directives of functions that are followed by integers, or by nothing."""


class HeadCursor(DeclarationCursor):
    """Cursor that parses the heads of functions. `parse_head` is called with the cursor after `.entry` or `.func`."""

    def parse_head(self, linkage: str, start: int, *, is_entry: bool) -> tuple[PtxFunction, int]:
        """Parse the head of a function; return the function without a body, and the token index of its name.

        The cursor is after `.func` or `.entry`. The head is
        `.attribute(...) (RETURNS) NAME (PARAMETERS) DIRECTIVES`; all but the name may be missing.

        Args:
            linkage: "visible", "extern", "weak" or another linkage; "" for none.
            start: Index of the declaration's first token.
            is_entry: Whether it is a kernel.
        """
        if self.accept(".attribute"):
            self.skip_attribute()
        returns: list[Param] = []
        if self.words[self.at] == "(":
            if is_entry:
                raise self.fail("an entry returns nothing")
            returns = self._parse_params("a returned value")
        at = self.at
        name = self.parse_name("an entry" if is_entry else "a function")
        params = self._parse_params("a parameter") if self.words[self.at] == "(" else []
        self._check_names(name, [*returns, *params], at)
        function = PtxFunction(
            name=name,
            is_entry=is_entry,
            linkage=linkage,
            params=tuple(params),
            returns=tuple(returns),
            line=self.source.line(at),
            directives=self._parse_directives(),
            start=self.source.starts[start],
        )
        return function, at

    def _check_names(self, function: str, params: list[Param], at: int) -> None:
        """Raise ArtifactError, at token `at`, if two parameters of a function have the same name."""
        seen: set[str] = set()
        for param in params:
            if param.name in seen and param.name != "_":
                raise self.fail(f"two parameters of '{function}' are named '{param.name}'", at)
            seen.add(param.name)

    def _parse_params(self, what: str) -> list[Param]:
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
            params.append(self._parse_param(space[1:], what))
            if not self.accept(","):
                break
        self.expect(")", f" or ',' after {what}")
        return params

    def _parse_param(self, space: str, what: str) -> Param:
        """Parse one parameter or return value after its state space, such as `.align 8 .b8 name[16]` after `.param`.

        Args:
            space: "param" or "reg".
            what: "a parameter" or "a returned value", for messages.
        """
        # Alignment, type, and what a pointer points to; the alignment may also follow the type.
        align = self.parse_alignment() if self.accept(".align") else 0  # 0: that of the type
        kind = self.parse_type(what)
        if self.accept(".ptr"):  # the state space that the pointer points to, and its alignment
            if self.words[self.at][1:] in SPACES and self.words[self.at][:1] == ".":
                self.at += 1
            if self.accept(".align"):
                self.parse_alignment()
        elif self.accept(".align"):
            align = self.parse_alignment()
        # Name and sizes.
        at = self.at
        name = self.parse_name(what)
        sizes = self.parse_dimensions()
        count = math.prod(sizes)
        if len(sizes) > 1 or count * SIZES[kind] > _MAX_PARAMETER_BYTES:
            raise self.fail(f"'{name}' is no parameter that PTX has: arrays have one dimension and up to 1 MiB", at)
        return Param(
            name=name,
            type=kind,
            align=align or SIZES[kind],
            count=count if sizes else 0,  # 0: a scalar
            line=self.source.line(at),
            space=space,
        )

    def _parse_directives(self) -> dict[str, tuple[int, ...]]:
        """Parse the directives between a function's parameters and its body; return the integers of each.

        `.maxntid 128, 1, 1` gives {"maxntid": (128, 1, 1)}; pragmas and attributes are skipped. Raise ArtifactError for
        an unknown directive, and for one that occurs twice. The first word without a dot, `{` or `;`, ends them.
        """
        directives: dict[str, tuple[int, ...]] = {}
        while True:
            word = self.words[self.at]
            if word[:1] != ".":
                return directives
            at = self.at
            self.at += 1
            if word == ".pragma":
                self.parse_string("a pragma")
                while self.accept(","):
                    self.parse_string("a pragma")
                self.accept(";")
            elif word == ".attribute":
                self.skip_attribute()
            elif word in _NUMBERED:
                numbers = self._parse_numbers()
                if word[1:] in directives:
                    raise self.fail(f"a second '{word}'", at)
                directives[word[1:]] = numbers
            else:
                raise self.fail(f"'{word}' is no directive of a function", at)

    def _parse_numbers(self) -> tuple[int, ...]:
        """Parse integers that are separated by commas, or none."""
        numbers: list[int] = []
        if is_number(self.words[self.at][:1]):
            numbers.append(self.parse_integer("a number"))
            while self.accept(","):
                numbers.append(self.parse_integer("a number"))
        return tuple(numbers)
