"""PTX modules split into definitions: functions and variables by name, with the names each refers to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.ptx import read
from pydispatch.formats.ptx.lex import Words
from pydispatch.formats.ptx.module import Param, PtxFunction, PtxModule, Variable

BUILT_IN = frozenset((
    "vprintf", "malloc", "free", "__assertfail", "cudaGetParameterBuffer", "cudaGetParameterBufferV2",
    "cudaLaunchDevice", "cudaLaunchDeviceV2", "cudaDeviceSynchronize", "cudaDeviceGetAttribute", "cudaGetDevice",
    "cudaMalloc", "cudaFuncGetAttributes", "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
))  # fmt: skip
"""Functions that the driver itself has."""


@dataclass
class Item:
    """Definition or declaration of a function or variable in a PTX module.

    Attributes:
        name: Name of the function or variable.
        declaration: The function or variable, with its offsets in the module's text.
        begin: Index of the first token of its statement in the module.
        end: Index after the last token of the statement. One statement may declare several variables.
        uses: Names of the module that a definition mentions, including its own name; () for a declaration.
    """

    name: str
    declaration: PtxFunction | Variable
    begin: int
    end: int
    uses: tuple[str, ...] = ()

    @property
    def is_defined(self) -> bool:
        """Return whether this is a definition; `.extern .shared` variables count, because the kernel launch
        allocates them."""
        if isinstance(self.declaration, PtxFunction):
            return self.declaration.body is not None
        return self.declaration.linkage != "extern" or self.declaration.space == "shared"

    @property
    def is_offered(self) -> bool:
        """Return whether this is a definition that other modules may refer to: a visible one that is no kernel."""
        if isinstance(self.declaration, PtxFunction) and self.declaration.is_entry:
            return False
        return self.is_defined and self.declaration.linkage in ("visible", "weak", "common")


@dataclass
class PtxParts:
    """PTX module split into items: functions and variables with the tokens of their text.

    Attributes:
        module: The parsed module.
        words: Tokens of the module's text.
        items: By name the definition, or the first declaration if there is no definition.
        declarations: All declarations without a definition: functions without a body and `.extern` variables.
    """

    module: PtxModule
    words: Words
    items: dict[str, Item] = field(default_factory=dict)
    declarations: list[Item] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the module in messages."""
        return self.module.name

    def location(self, item: Item) -> str:
        """Return the file and line of an item for messages, such as `lib.ptx:12`."""
        return f"{self.name}:{item.declaration.line}"


def read_parts(source: PtxModule | str | bytes | bytearray | memoryview, name: str) -> PtxParts:
    """Split a module into items and record the names that each refers to.

    `name` is the name of the module in messages. Raises ArtifactError if the module is broken.
    """
    if isinstance(source, PtxModule):
        module, words = source, Words(source.text, source.name)
    else:
        module, words = read.read_words(source, name)
    parts = PtxParts(module, words)
    everything: list[PtxFunction | Variable] = [*module.variables, *module.functions]
    # Index of a statement's first token → names that it declares: two for `.global .b32 a, b`, which stay together.
    names_of_statement: dict[int, list[str]] = {}
    for declaration in everything:
        # `words.starts` has the offset of each token: offsets in the text become indices of tokens.
        begin, end = bisect_left(words.starts, declaration.start), bisect_left(words.starts, declaration.end)
        item = Item(declaration.name, declaration, begin, end)
        names_of_statement.setdefault(begin, []).append(declaration.name)
        if not item.is_defined:
            parts.declarations.append(item)
        # A definition replaces a declaration of the same name; otherwise the first one counts.
        known = parts.items.get(declaration.name)
        if known is None or (item.is_defined and not known.is_defined):
            parts.items[declaration.name] = item
    _record_uses(parts, words, names_of_statement)
    return parts


def _record_uses(parts: PtxParts, words: Words, names_of_statement: Mapping[int, Sequence[str]]) -> None:
    """Record for each defined item the names of the module that its statement mentions.

    names_of_statement: index of a statement's first token -> the names that it declares.
    """
    uses_of_statement: dict[int, tuple[str, ...]] = {}  # index of its first token → names that it mentions
    for item in parts.items.values():
        if item.is_defined and item.begin not in uses_of_statement:
            mentioned = dict.fromkeys((*words.words[item.begin : item.end], *names_of_statement[item.begin]))
            uses_of_statement[item.begin] = tuple(word for word in mentioned if word in parts.items)
        item.uses = uses_of_statement.get(item.begin, ())


class PtxLibrary:
    """PTX module that other modules link against.

    Attributes:
        parts: The module, split into functions and variables.
        name: Name for messages.
        offered: Functions and variables that other modules may refer to, by name.
        functions: The functions among them.
    """

    def __init__(self, parts: PtxParts, name: str) -> None:
        """Index the definitions that other modules may refer to: visible variables and functions, except kernels.

        For the parameters, see the class.
        """
        self.parts, self.name = parts, name
        self.offered = {item.name: item for item in parts.items.values() if item.is_offered}
        self.functions: Mapping[str, PtxFunction] = {
            name: item.declaration for name, item in self.offered.items() if isinstance(item.declaration, PtxFunction)
        }

    def names(self) -> list[str]:
        """Return the names of the exported functions."""
        return list(self.functions)

    def prototype(self, name: str) -> str:
        """Return the signature of a function, such as `(.b32, .b32) -> .b32`."""
        return signature_text(self.functions[name])


def open_library(data: str | bytes | bytearray | memoryview, label: str) -> PtxLibrary:
    """Read a PTX module as a library.

    Args:
        data: Text of the module.
        label: Name of the module for messages.

    Raises:
        ArtifactError: The module is broken.
        InvalidArgumentError: The module is valid but exports no function.
    """
    library = PtxLibrary(read_parts(data, label), label)
    if not library.functions:
        hidden = [f.name for f in library.parts.module.functions if f.body is not None and not f.is_entry]
        entries = [f.name for f in library.parts.module.functions if f.is_entry]
        # At most eight names keep the message short.
        if hidden:
            has = f"the functions {', '.join(hidden[:8])} are not .visible"
        elif entries:
            has = f"it has the kernels {', '.join(entries[:8])}, which cannot be called"
        else:
            has = "it defines none"
        raise InvalidArgumentError(
            f'{label} offers no function: {has}; write extern "C" __device__ before a function, and compile '
            "with nvcc -ptx -rdc=true"
        )
    return library


# Text for messages


def type_text(param: Param) -> str:
    """Return the type of a parameter for messages, such as `.f32` or `.align 8 .b8[24]`."""
    return f".align {param.align} .{param.type}[{param.count}]" if param.count else f".{param.type}"


def signature_text(function: PtxFunction) -> str:
    """Return the signature of a function for messages, such as `(.b32, .b32) -> .b32` or `(.b32) -> nothing`."""
    params = ", ".join(map(type_text, function.params))
    returns = ", ".join(map(type_text, function.returns))
    return f"({params}) -> {returns or 'nothing'}"


def variable_text(variable: Variable) -> str:
    """Return the type of a variable for messages, such as `.const .align 4 .b8[16]`."""
    sizes = "".join(f"[{size or ''}]" for size in variable.sizes)  # size 0 stands for `[]`
    return f".{variable.space} .align {variable.align} .{variable.type}{sizes}"


def fits(wanted: PtxFunction, definition: PtxFunction) -> bool:
    """Return whether a definition has the signature that its caller declares.

    Untyped bits (`.b32`) match integers and floats of the same size; integers do not match floats.
    """
    pairs = ((wanted.params, definition.params), (wanted.returns, definition.returns))
    return all(len(a) == len(b) and all(map(_alike, a, b)) for a, b in pairs)


def _alike(lhs: Param, rhs: Param) -> bool:
    """Return whether two parameters are passed alike: both are scalars, or both are arrays of the same alignment.

    Their sizes and state spaces must also be equal, and their type classes compatible.
    """
    is_array = lhs.count > 0
    if lhs.size != rhs.size or lhs.space != rhs.space or is_array != (rhs.count > 0):
        return False
    if is_array and lhs.align != rhs.align:
        return False
    kinds = {_class(lhs.type), _class(rhs.type)} - {"b"}  # untyped bits are compatible with every class
    return len(kinds) < 2


def _class(kind: str) -> str:
    """Return the class of a PTX type: "i" integer, "f" float, "b" untyped bits, "p" predicate."""
    # u32 and s32 are integers, b32 is bits; f32, bf16 and other types are floats.
    return "i" if kind[0] in "su" else kind[0] if kind[0] in "bp" and not kind.startswith("bf") else "f"
