"""Rewrites definitions for another PTX module, and combines architectures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.ptx import interface
from pydispatch.formats.ptx.module import PtxFunction
from pydispatch.link.ptx.library import Item, PtxParts

_BOUND = {"": 0, "f": 1, "a": 2}  # how specific sm_100, sm_100f, sm_100a are


def higher(lhs: tuple[str, str], rhs: tuple[str, str]) -> tuple[str, str]:
    """Return the target that runs the code of both modules.

    Args:
        lhs: Pair (`.target`, name of the module for messages).
        rhs: The other pair.

    Raises:
        InvalidArgumentError: No target runs both, for example sm_90a and sm_100.
    """
    (one, exact), (other, also_exact) = interface.split(lhs[0]), interface.split(rhs[0])
    if one == other:
        return lhs if _BOUND[exact] >= _BOUND[also_exact] else rhs
    low, high = (lhs, rhs) if one < other else (rhs, lhs)
    bound, free = interface.split(low[0])[1], not interface.split(high[0])[1]
    if bound == "a" or (bound and (free or one // 10 != other // 10)):
        raise InvalidArgumentError(
            f"{low[1]} is only for {low[0]} and {high[1]} needs {high[0]}: they cannot be linked; compile both for "
            "the same architecture"
        )
    return high


def item_text(parts: PtxParts, item: Item) -> str:
    """Return the text of a definition as the module has it."""
    return parts.module.text[item.what.start : item.what.end]


class Text:
    """Text of a definition in a PTX module with renamed symbols, to be written into another module.

    Attributes:
        parts: The module.
        item: The definition: a function, a variable or an alias.
        edits: Replacements (start, end, text), sorted by start; offsets are in the module's text.
    """

    def __init__(self, parts: PtxParts, item: Item, rename: Callable[[str], str]) -> None:
        """Determine the edits: symbols of the module are renamed; `.loc`, `.visible` and `.weak` are removed."""
        self.parts, self.item = parts, item
        source, words = parts.words, parts.words.words
        self.edits: list[tuple[int, int, str]] = []
        is_function, index = isinstance(item.what, PtxFunction), item.first
        while index < item.last:
            word = words[index]
            if word == ".loc" and is_function:  # it names a file of another text
                last = _end_of_location(words, index)
                self.edits.append((source.starts[index], source.end(last - 1), ""))
                index = last
                continue
            if is_function and word in (".visible", ".weak"):
                self.edits.append((source.starts[index], source.starts[index + 1], ""))
            elif word in parts.items and not (is_function and _is_opcode(words, index)):
                new = rename(word)
                if new != word:
                    self.edits.append((source.starts[index], source.end(index), new))
            index += 1

    def whole(self) -> str:
        """Return the edited text of the whole definition."""
        return self._until(self.item.what.end)

    def prototype(self) -> str:
        """Return the declaration of the function; raise ArtifactError for an alias that the module does not declare."""
        words = self.parts.words
        if words.words[self.item.first] == ".alias":
            name = self.item.name
            declaration = next((item for item in self.parts.declarations if item.name == name), None)
            if declaration is None:
                raise words.fail(self.item.first, f"the alias '{name}' lacks a declaration .func {name}")
            return self.parts.module.text[declaration.what.start : declaration.what.end] + "\n"
        brace = words.words.index("{", self.item.first, self.item.last)
        return self._until(words.starts[brace]).rstrip() + ";\n"

    def _until(self, end: int) -> str:
        """Return the edited text from the start of the definition to an offset in the module's text."""
        text, copied_to, pieces = self.parts.module.text, self.item.what.start, list[str]()
        for start, stop, new in self.edits:
            if start >= end:
                break
            pieces += (text[copied_to:start], new)
            copied_to = stop
        return "".join(pieces) + text[copied_to:end]


def _end_of_location(words: Sequence[str], index: int) -> int:
    """Return the index after a `.loc` directive: file, line and column, then optional function_name and inlined_at
    clauses."""
    index += 4
    while words[index] == ",":
        if words[index + 1] == "inlined_at":
            index += 5
        else:
            index += 5 if words[index + 3] == "+" else 3
    return index


def _is_opcode(words: Sequence[str], index: int) -> bool:
    """Return whether a word starts an instruction and is thus no name: `trap;` in a module with a function `trap`."""
    if words[index + 1] == ":":
        return False
    before = words[index - 1]
    return before in (";", "{", "}", ":") or words[index - 2] == "@" or words[index - 3 : index - 1] == ["@", "!"]
