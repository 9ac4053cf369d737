"""Rewrites definitions for another PTX module, and combines architectures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.ptx import interface
from pydispatch.formats.ptx.module import PtxFunction
from pydispatch.link.ptx.library import Item, PtxParts

_SPECIFICITY = {"": 0, "f": 1, "a": 2}
"""Suffix of an architecture → rank. Code for a higher rank runs on fewer devices: for sm_100 on it and all later
ones, for sm_100f on its family, for sm_100a on sm_100 only."""


def higher(lhs: tuple[str, str], rhs: tuple[str, str]) -> tuple[str, str]:
    """Return one of two modules: the one whose target architecture also runs the code of the other one.

    Args:
        lhs: Pair (`.target` such as "sm_80", name of the module for messages).
        rhs: Such a pair of the other module.

    Returns:
        `lhs` or `rhs`; `lhs` if the targets are equal.

    Raises:
        InvalidArgumentError: No target runs both, for example sm_90a and sm_100.
    """
    # Numbers and suffixes: sm_90a is (90, "a").
    (lhs_number, lhs_suffix), (rhs_number, rhs_suffix) = interface.split(lhs[0]), interface.split(rhs[0])
    if lhs_number == rhs_number:  # the one that runs on fewer devices: "a" before "f" before no suffix
        return lhs if _SPECIFICITY[lhs_suffix] >= _SPECIFICITY[rhs_suffix] else rhs
    low, high = (lhs, rhs) if lhs_number < rhs_number else (rhs, lhs)
    (low_target, low_name), (high_target, high_name) = low, high
    low_suffix, high_suffix = interface.split(low_target)[1], interface.split(high_target)[1]
    # Code for sm_90a runs on that architecture only; code for sm_100f on targets of its family that have a suffix, such
    # as sm_103a and sm_103f.
    is_one_family = lhs_number // 10 == rhs_number // 10  # sm_100 and sm_103
    high_runs_family_code = high_suffix != "" and is_one_family
    if low_suffix == "a" or (low_suffix == "f" and not high_runs_family_code):
        raise InvalidArgumentError(
            f"{low_name} is only for {low_target} and {high_name} needs {high_target}: they cannot be linked; compile "
            "both for the same architecture"
        )
    return high


def item_text(parts: PtxParts, item: Item) -> str:
    """Return the text of a definition as the module has it."""
    return parts.module.text[item.declaration.start : item.declaration.end]


class Text:
    """Text of a definition in a PTX module with renamed symbols, to be written into another module.

    If f is renamed to f$2, the definition `.visible .func f (.param .b32 a) { ... }` gives

        .func f$2 (.param .b32 a);          prototype()
        .func f$2 (.param .b32 a) { ... }   whole()

    Attributes:
        parts: The module.
        item: The definition: a function, a variable or an alias, with the indices of its tokens.
        edits: Replacements (start, end, new text), sorted by start; offsets in the module's text, the end exclusive.

    Args:
        rename: Function that returns the new name of a symbol of the module.
    """

    def __init__(self, parts: PtxParts, item: Item, rename: Callable[[str], str]) -> None:
        """Determine the edits: symbols are renamed; in functions, `.loc`, `.visible` and `.weak` are removed.

        Without `.visible` or `.weak` a function is local to the module that it is written into.
        """
        self.parts, self.item = parts, item
        tokens, words = parts.words, parts.words.words  # offsets of the tokens in the text of the module; their texts
        self.edits: list[tuple[int, int, str]] = []  # (start, end, new text)
        is_function, index = isinstance(item.declaration, PtxFunction), item.begin
        while index < item.end:
            word = words[index]
            if word == ".loc" and is_function:  # it refers to a file by number; the `.file` directive is not copied
                end_of_location = _end_of_location(words, index)
                self.edits.append((tokens.starts[index], tokens.end(end_of_location - 1), ""))
                index = end_of_location
                continue
            # A function may have the name of an instruction, such as `trap`, which is not renamed in `trap;`.
            is_symbol = word in parts.items and not (is_function and _is_opcode(words, index))
            if is_function and word in (".visible", ".weak"):
                self.edits.append((tokens.starts[index], tokens.starts[index + 1], ""))
            elif is_symbol:
                new = rename(word)
                if new != word:
                    self.edits.append((tokens.starts[index], tokens.end(index), new))
            index += 1

    def whole(self) -> str:
        """Return the edited text of the whole definition."""
        return self._edited_text_until(self.item.declaration.end)

    def prototype(self) -> str:
        """Return the declaration of the function; raise ArtifactError for an alias that the module does not declare."""
        tokens = self.parts.words  # the tokens with their offsets
        words = tokens.words  # their texts
        if words[self.item.begin] == ".alias":
            name = self.item.name
            declared = next((item for item in self.parts.declarations if item.name == name), None)
            if declared is None:
                raise tokens.fail(self.item.begin, f"the alias '{name}' lacks a declaration .func {name}")
            return self.parts.module.text[declared.declaration.start : declared.declaration.end] + "\n"
        brace = words.index("{", self.item.begin, self.item.end)
        return self._edited_text_until(tokens.starts[brace]).rstrip() + ";\n"

    def _edited_text_until(self, end: int) -> str:
        """Return the edited text from the start of the definition to an offset in the module's text."""
        text, copied_to, pieces = self.parts.module.text, self.item.declaration.start, list[str]()
        for start, stop, new in self.edits:
            if start >= end:
                break
            pieces += (text[copied_to:start], new)
            copied_to = stop
        return "".join(pieces) + text[copied_to:end]


def _end_of_location(words: Sequence[str], index: int) -> int:
    """Return the index after the `.loc` directive that begins at `index`.

    File, line and column are followed by optional clauses `, function_name LABEL`, `, function_name LABEL + OFFSET` and
    `, inlined_at FILE LINE COLUMN`.
    """
    index += len((".loc", "file", "line", "column"))
    while words[index] == ",":
        if words[index + 1] == "inlined_at":
            index += len((",", "inlined_at", "file", "line", "column"))
        else:
            has_offset = words[index + 3] == "+"
            index += len((",", "function_name", "label")) + (len(("+", "offset")) if has_offset else 0)
    return index


def _is_opcode(words: Sequence[str], index: int) -> bool:
    """Return whether a word starts an instruction and is thus no name: `trap;` in a module with a function `trap`."""
    if words[index + 1] == ":":  # a label
        return False
    # An instruction follows another statement, a label, or a guard such as `@p` or `@!p`.
    before = words[index - 1]
    return before in (";", "{", "}", ":") or words[index - 2] == "@" or words[index - 3 : index - 1] == ["@", "!"]
