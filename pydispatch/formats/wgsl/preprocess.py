"""Preprocessor of WGSL with C's directives: conditions, macros without parameters, and includes.

The text keeps its lines, so that messages of drivers name lines of the user's file; an included file becomes one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydispatch import files
from pydispatch.errors import ArtifactError, SystemError_
from pydispatch.formats.wgsl.condition import holds
from pydispatch.formats.wgsl.lex import MAX_BYTES, decode

MAX_INCLUDES = 64
"""Maximum depth of includes: files each of which includes the next."""
MAX_MACROS = 100
"""Macros that may be nested in one another: each is a frame of Python's stack, which has 1000 by default."""
INCLUDE_CHARACTERS = 1 << 12
"""Characters that each include takes from the budget of MAX_BYTES, besides those of the file, for the time of its
lookup. Thus a module has at most 4096 includes. With a smaller number, it takes seconds until nested files, each of
which includes the next one twice, exceed the budget and are refused."""
_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(\w*)[ \t]*(.*)", re.DOTALL)
"""Line of a directive: the word after `#`, and the text after it."""
_COMMENT = re.compile(r"//[^\n]*|/\*")
"""A line comment, or the opening mark of a block comment."""
_BLOCK_EDGE = re.compile(r"/\*|\*/")
"""Opening or closing mark of a block comment; these nest."""
_WORD = re.compile(r"(?:0[xX][\da-fA-F]|\.?\d)[\w.]*|[^\W\d]\w*")
"""A name, which may be a macro, or a number, whose letters are no names."""
_DEFINE = re.compile(r"([^\W\d]\w*)(\(?)(.*)", re.DOTALL)
"""Text after #define: the name, a bracket if the macro has parameters (an error), and the value."""
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*([^\W\d]\w*)\s*\)|([^\W\d]\w*))")
"""`defined(NAME)` or `defined NAME` in a condition."""
_INCLUDE = re.compile(r'"([^"]+)"\Z')
"""Text after #include: a file name in quotes."""


@dataclass
class _Branch:
    """Conditional (#if ... #endif) of a WGSL text that the preprocessor has entered and not left.

    Attributes:
        line: Line of its #if, from 1.
        is_outer_active: Whether the surrounding text is active.
        is_active: Whether the current branch is active.
        is_taken: Whether one of its branches has been active.
        has_else: Whether its #else has been read.
    """

    line: int
    is_outer_active: bool
    is_active: bool
    is_taken: bool
    has_else: bool = False


@dataclass
class _State:
    """State of the preprocessor that all files of one WGSL module share.

    Attributes:
        folders: Include folders, which are searched after the folder of the including file.
        macros: Values of macros by name; "" for one without a value.
        including: Paths of the files that are being included, outermost first.
        budget: Number of characters that macros and includes may still produce; nested ones could produce without
            limit.
    """

    folders: Sequence[Path]
    macros: dict[str, str] = field(default_factory=dict)
    including: list[str] = field(default_factory=list)
    budget: int = MAX_BYTES

    def charge_budget(self, characters: int, location: str, what: str, remedy: str) -> None:
        """Subtract characters from the budget of the module; raise ArtifactError if it is exhausted.

        Args:
            characters: Number of characters.
            location: File and line for the message.
            what: The macro or include that produces them.
            remedy: Advice to the user.
        """
        self.budget -= characters
        if self.budget < 0:
            limit = f"makes more than {MAX_BYTES} characters with the macros and includes before"
            raise ArtifactError(f"{location}: {what} {limit}; {remedy}")


def has_directives(text: str) -> bool:
    """Return whether a line of a text starts with `#`, which WGSL itself does not allow."""
    return re.search(r"^[ \t]*#", text, re.MULTILINE) is not None


def preprocess(data: bytes, where: str, *, defines: Sequence[str] = (), include_dirs: Sequence[Path] = ()) -> bytes:
    """Return WGSL with its preprocessor directives expanded.

    Directives are #define and #undef of macros without parameters, #ifdef, #ifndef, #if, #elif, #else, #endif, #include
    "file" and #error. In a condition, a macro without a value counts as 1 and an undefined name as 0. The bytes are
    returned unchanged if there are no directives and no defines.

    Args:
        data: The WGSL file, in UTF-8.
        where: Name of the file for messages; its folder is searched first for includes.
        defines: Macros, `NAME=VALUE`.
        include_dirs: Further folders that are searched for includes.

    Raises:
        ArtifactError: With file and line: a directive is invalid, or an include is not found.
    """
    text = decode(data, where)
    if not defines and not has_directives(text):
        return data
    state = _State(include_dirs)
    for define in defines:
        name, _, value = define.partition("=")
        state.macros[name] = value
    return "\n".join(_FilePreprocessor(where, state).lines(text)).encode()


class _FilePreprocessor:
    """Preprocessor of one file: `lines` is called once with its text.

    Attributes:
        where: The file in messages; its folder is searched first for includes.
        state: Macros and files of the module; they are updated.
        branches: Open conditions, outermost first.
        line: Number of the line that is being read, from 1.
    """

    def __init__(self, where: str, state: _State) -> None:
        """Begin before the first line."""
        self.where, self.state = where, state
        self.branches: list[_Branch] = []  # open conditions, outermost first
        self.line = 0  # number of the line that is being read, from 1

    @property
    def location(self) -> str:
        """Return the file and the line that is being read, for messages."""
        return f"{self.where}:{self.line}"

    def lines(self, text: str) -> Iterator[str]:
        """Yield the lines of the file, with comments and directives removed and macros expanded.

        A directive that backslashes continue over several lines becomes as many lines, so that lines keep their
        numbers.
        """
        joined = ""  # text so far of a directive that backslashes continue
        continuation_count = 0  # number of its lines so far
        for line_number, line in enumerate(_without_comments(text).split("\n"), 1):
            self.line = line_number
            line = joined + line.rstrip("\r")
            if line.endswith("\\") and _DIRECTIVE.match(line):
                joined, continuation_count = f"{line[:-1]} ", continuation_count + 1
                continue
            joined = ""
            if (match := _DIRECTIVE.match(line)) is not None:
                yield self._execute(match[1], match[2].strip())
            else:
                yield self._expanded(line) if self._is_active() else ""
            yield from [""] * continuation_count
            continuation_count = 0
        if self.branches:
            raise ArtifactError(f"{self.where}:{self.branches[-1].line}: a condition without #endif")

    def _is_active(self) -> bool:
        """Return whether text inside of the open conditions is retained: the current branch of each is active."""
        return not self.branches or self.branches[-1].is_active

    def _error(self, problem: str) -> ArtifactError:
        """Return an error at the line that is being read."""
        return ArtifactError(f"{self.location}: {problem}")

    def _execute(self, name: str, rest: str) -> str:
        """Execute a directive, and return the text that replaces it: an included file, else "".

        `name` is the word after `#`, and `rest` the text after it.
        """
        # Conditions, which are followed in text that is left out, too: an #endif there belongs to the #if there.
        is_active = self._is_active()
        if name in ("if", "ifdef", "ifndef"):
            is_true = is_active and self._condition(name, rest)
            self.branches.append(_Branch(self.line, is_outer_active=is_active, is_active=is_true, is_taken=is_true))
        elif name in ("elif", "else", "endif"):
            if not self.branches:
                raise self._error(f"#{name} without #if")
            self._enter_next_branch(name, rest)
        # Other directives, which have no effect in text that is left out. "#" alone has none anywhere.
        elif not is_active:
            return ""
        elif name == "define":
            self._define(rest)
        elif name == "undef":
            self.state.macros.pop(rest, None)
        elif name == "include":
            return self._included(rest)
        elif name == "error":
            raise self._error(f"#error {rest}")
        elif name:
            raise self._error(
                f"#{name} is no directive of WGSL; known are #define, #undef, #if, #ifdef, #ifndef, #elif, #else, "
                "#endif, #include and #error"
            )
        return ""

    def _enter_next_branch(self, name: str, rest: str) -> None:
        """Execute an #elif, #else or #endif of the innermost open condition. `rest` is the condition of an #elif."""
        branch = self.branches[-1]
        if name == "endif":
            self.branches.pop()
            return
        if branch.has_else:
            raise self._error(f"#{name} after the #else of the condition of line {branch.line}")
        branch.has_else = name == "else"
        # At most one branch is active: the first whose condition is true. Conditions after it are not evaluated.
        may_be_active = branch.is_outer_active and not branch.is_taken
        branch.is_active = may_be_active and (name == "else" or self._condition("if", rest))
        if branch.is_active:
            branch.is_taken = True

    def _condition(self, name: str, rest: str) -> bool:
        """Return whether the condition of an #if, #ifdef or #ifndef is true. `rest` is the text after the directive."""
        if name == "if":
            # `defined(FAST)` and `defined FAST` become 1 or 0.
            text = _DEFINED.sub(lambda match: "1" if (match[1] or match[2]) in self.state.macros else "0", rest)
            # A macro without a value counts as 1: `#define FAST` makes `#if FAST` true.
            return holds(self._expanded(text, empty="1"), self.location)
        if not re.fullmatch(r"[^\W\d]\w*", rest):
            raise self._error(f"#{name} needs the name of a macro, got '{rest}'")
        is_defined = rest in self.state.macros
        return is_defined if name == "ifdef" else not is_defined

    def _define(self, rest: str) -> None:
        """Execute a #define. `rest` is the text after it: a name, and a value if the macro has one."""
        match = _DEFINE.match(rest)
        if match is None:
            raise self._error(f"#define needs the name of a macro, got '{rest}'")
        name, bracket, value = match.groups()
        if bracket:
            raise self._error(f"macro '{name}' has parameters; write a function of WGSL instead")
        if value and not value[0].isspace():
            raise self._error(f"a space is missing after the name of macro '{name}'")
        self.state.macros[name] = value.strip()

    def _expanded(self, text: str, hidden: frozenset[str] = frozenset(), empty: str = "") -> str:
        """Expand the macros in a text, and those in their values.

        With the macros N = `4` and M = `N * 2`, the text `x = M;` becomes `x = 4 * 2;`.

        Args:
            text: The text.
            hidden: Macros that are being expanded, which are not expanded again, as in C.
            empty: Expansion of macros without a value: "1" in conditions, so that `#if FAST` is true after
                `#define FAST`.
        """
        parts, at = [], 0
        for match in _WORD.finditer(text):
            word = match.group()
            value = None if word in hidden else self.state.macros.get(word)
            if value is None:
                continue
            if len(hidden) == MAX_MACROS:
                raise self._error(
                    f"macro '{word}' is nested in {MAX_MACROS} other macros; shorten the chain of definitions"
                )
            value = self._expanded(value, hidden | {word}, empty) if value else empty
            # The budget limits the characters of all macros and includes of a module, since macros may grow
            # exponentially. One more than the value has: expansions of empty macros take time as well.
            self.state.charge_budget(len(value) + 1, self.location, f"macro '{word}'", "use shorter macros")
            parts += [text[at : match.start()], value]
            at = match.end()
        return "".join([*parts, text[at:]]) if parts else text

    def _included(self, rest: str) -> str:
        """Return an included file, preprocessed and joined into one line, so that later lines keep their numbers.

        `rest` is the text after `#include`: a file name in quotes.
        """
        match = _INCLUDE.match(rest)
        if match is None:
            raise self._error(f'#include needs the name of a file, such as #include "common.wgsl"; got {rest}')
        folders = [Path(self.where).parent, *self.state.folders]
        path = self._find(match[1], folders)
        if path is not None:
            return self._included_text(path)
        shown = ", ".join(str(folder) for folder in folders)
        raise self._error(f"'{match[1]}' was not found in {shown}; name its folder in include_dirs")

    def _find(self, name: str, folders: Sequence[Path]) -> Path | None:
        """Return the first path of the included file `name` in folders that exists, or None."""
        for path in dict.fromkeys(folder / name for folder in folders):
            try:
                exists = path.is_file()
            except OSError as error:
                raise self._error(
                    f"'{name}' cannot be looked up in {path.parent}: {error.strerror}; include a file whose name is "
                    "valid, from folders that can be read"
                ) from None
            if exists:
                return path
            files.record_accesses(missed=[str(path)])  # a cached result is invalid once the file exists
        return None

    def _included_text(self, path: Path) -> str:
        """Return the text of an included file, preprocessed and joined into one line.

        The one line replaces the line of the #include, so that later lines keep their numbers in messages.
        """
        state = self.state
        if str(path) in state.including or len(state.including) == MAX_INCLUDES:
            raise self._error(f"{path} includes itself, or includes are {MAX_INCLUDES} deep")
        try:
            text = decode(files.read(path), str(path))
        except SystemError_ as error:
            raise self._error(str(error)) from None
        remedy = "include each file once, with #ifndef around its text"
        state.charge_budget(len(text) + INCLUDE_CHARACTERS, self.location, f"the include of {path}", remedy)
        state.including.append(str(path))
        lines = _FilePreprocessor(str(path), state).lines(text)
        joined = " ".join(filter(None, map(str.strip, lines)))
        state.including.pop()
        return joined


def _without_comments(text: str) -> str:
    """Return a text in which each comment is a space; line ends of block comments, which nest, are retained.

    A block comment without an end reaches to the end of the text.
    """
    parts: list[str] = []
    at = 0  # offset of the text that is not in `parts` yet
    depth = 0  # number of block comments around the text at `at`
    while True:
        match = (_BLOCK_EDGE if depth else _COMMENT).search(text, at)
        before = text[at : match.start()] if match is not None else text[at:]
        parts.append("\n" * before.count("\n") if depth else before)
        if match is None:
            return "".join(parts)
        if depth == 0:
            parts.append(" ")
        if match.group() == "/*":
            depth += 1
        elif match.group() == "*/":
            depth -= 1
        at = match.end()
