"""Parameters of a C function, from source, bitcode or debug information, and the check of a pattern's arguments for
them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pydispatch.compiler.toolchain.signatures import bitcode_parameters
from pydispatch.errors import CompileError
from pydispatch.formats.elf import dwarf

_NO_CODE = re.compile(
    r"/\*.*?\*/|//[^\n]*"  # comments
    r"|^[ \t]*#(?:[^\n\\]|\\.)*$"  # a directive
    r"""|"(?:[^"\n\\]|\\.)*"|'(?:[^'\n\\]|\\.)*'""",  # literals
    re.DOTALL | re.MULTILINE,
)
"""Comment of C, a preprocessor directive with its continuation lines, or a literal of a string or character."""
_QUALIFIERS = frozenset(["const", "volatile", "restrict", "__restrict", "__restrict__", "register", "static", "struct"])
"""Words of a C declaration that do not change how a parameter is passed; `struct` is followed by the type's name."""
# C type → element type of a pattern.
_FLOATS = {"float": "f32", "double": "f64", "_Float16": "f16", "__fp16": "f16", "__bf16": "bf16"}
# C type of an integer, as `_spelled` returns it → its bits.
_BITS = {
    "bool": 8, "_Bool": 8, "char": 8, "short": 16, "int": 32, "long": 64, "long long": 64,
    "size_t": 64, "ptrdiff_t": 64, "intptr_t": 64, "uintptr_t": 64,
    **{f"{sign}int{bits}_t": bits for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_INTEGER_WORDS = frozenset(["signed", "unsigned", "char", "short", "int", "long"])
"""Keywords of which C composes the types of integers, in any order."""
_TYPE_WORDS = _INTEGER_WORDS | {"bool", "_Bool", "float", "double", "_Complex"}
"""Keywords of types: a declaration that ends with one of them has no name."""
# Type in LLVM IR → C type.
_LLVM_TYPES = {
    "i1": "bool", "half": "_Float16", "bfloat": "__bf16", **{f"i{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
}  # fmt: skip
# Type in debug information, as `dwarf.parameters` names it → C type.
_C_TYPES = {
    "f32": "float", "f64": "double", "i1": "bool", **{f"i{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
}  # fmt: skip
# Element type of a pattern → bits of an element in memory.
_DTYPE_BITS = {
    "index": 64, "i1": 8, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f8E4M3FN": 8, "f8E5M2": 8, "bf16": 16, "f16": 16,
    "f32": 32, "f64": 64,
}  # fmt: skip


@dataclass(frozen=True)
class CParameter:
    """Parameter of a C function in the source of a kernel, as its prototype states it.

    Attributes:
        name: Name; may be empty.
        type: Its type, without qualifiers and `*`, and without the sign of integers; "" if it is not known.
        is_pointer: Whether it is a pointer to that type.
        is_constant: Whether it is a pointer to const.
        text: The parameter as messages print it; two spellings of a parameter are equal.
    """

    name: str
    type: str
    is_pointer: bool
    is_constant: bool
    text: str = field(compare=False)

    def takes(self, dtype: str, is_pointer: bool) -> bool:
        """Return whether a number of this dtype, or a pointer to such elements, may be passed.

        `float *` takes a pointer to f32, and `int n` takes an i32. A pointer to integers takes elements of any type of
        their width: `uint16_t *` takes f16 and bf16. A parameter of unknown type, such as a typedef of the user, takes
        everything that is passed in the same way: by pointer, or by value.

        Args:
            dtype: Element type in the pattern, such as "f32" or "index".
            is_pointer: Whether a pointer is passed, as for a tensor, rather than a number.
        """
        # A number for a pointer never fits. A pointer fits `T x` if T is not known: T may be a typedef of a pointer.
        if is_pointer != self.is_pointer:
            is_known = self.type in _FLOATS or self.type in _BITS
            return not is_known and not self.is_pointer
        if self.type in _FLOATS:
            has_unknown_size = dtype not in _DTYPE_BITS  # a dtype without a C type to compare with
            return has_unknown_size or dtype == _FLOATS[self.type]
        # An integer of C, or a type that is not known.
        bits, dtype_bits = _BITS.get(self.type), _DTYPE_BITS.get(dtype)
        if bits is None or dtype_bits is None:
            return True
        is_integer = dtype == "index" or dtype.startswith("i")
        return bits == dtype_bits and (is_pointer or is_integer)


def parameters_of(file: str, data: bytes, symbol: str) -> list[CParameter] | None:
    """Return the parameters of a function that C source, bitcode or an object file defines.

    Return None if the file does not state them, such as an object file without debug information: calls of the function
    then cannot be checked.
    """
    if file.endswith((".c", ".cu")):
        return _parameters_of_source(data, symbol)
    if file.endswith(".bc"):
        return _parameters_of_bitcode(data, symbol)
    return _parameters_of_object(data, symbol)


def _parameters_of_source(source: bytes, symbol: str) -> list[CParameter] | None:
    """Return the parameters in the definition of a function.

    Return None if the source has no definition, or several with different parameters, of which the preprocessor selects
    one.
    """
    text = _NO_CODE.sub(" ", source.decode(errors="replace"))
    # A name, its parameters and a brace: calls and declarations have a `;` or `)` before the next brace.
    lists = re.findall(rf"\b{re.escape(symbol)}\s*\(([^(){{}};]*)\)[^(){{}};]*{{", text)
    definitions = [_parameter_list(parameters) for parameters in lists]
    is_known = bool(definitions) and all(parameters == definitions[0] for parameters in definitions)
    return definitions[0] if is_known else None


def _parameters_of_bitcode(bitcode: bytes, symbol: str) -> list[CParameter] | None:
    """Return the parameters of a function that LLVM bitcode defines; None if it does not.

    The parameter `float const *x` is `ptr readonly %x` there: a pointer to an unknown type (""), constant, of the name
    x. Integers have no sign. Names come from parameters or debug information, and may be empty.
    """
    declared = bitcode_parameters(bitcode, symbol)
    if declared is None:
        return None
    # A pointer is `ptr`, or a type with `*` in the bitcode of an old LLVM.
    parameters = []
    for parameter in declared:
        is_pointer = parameter.type.startswith("ptr") or parameter.type.endswith("*")
        type = "" if is_pointer else _LLVM_TYPES.get(parameter.type, parameter.type)
        parameters.append(
            CParameter(
                name=parameter.name,
                type=type,
                is_pointer=is_pointer,
                is_constant=parameter.is_read_only,
                text=f"{parameter.type} {parameter.name}".rstrip(),
            )
        )
    return parameters


def _parameters_of_object(data: bytes, symbol: str) -> list[CParameter] | None:
    """Return the parameters from the DWARF debug information of an object; None if there is none for the function.

    A type that is not one of `_C_TYPES`, such as a struct, is "" (unknown), and "..." in messages.
    """
    declared = dwarf.parameters(data, symbol)
    if declared is None:
        return None
    parameters = []
    for parameter in declared:
        type = _C_TYPES.get(parameter.type, "")
        text = f"{'const ' * parameter.is_constant}{type or '...'} {'*' * parameter.is_pointer}{parameter.name}"
        parameters.append(
            CParameter(
                name=parameter.name,
                type=type,
                is_pointer=parameter.is_pointer,
                is_constant=parameter.is_constant,
                text=text,
            )
        )
    return parameters


def _parameter_list(text: str) -> list[CParameter]:
    """Parse the parameters of a function, the text between its parentheses."""
    listed = [parameter.strip() for parameter in text.split(",")]
    return [] if listed in ([""], ["void"]) else [_parameter(parameter) for parameter in listed]


def _parameter(text: str) -> CParameter:
    """Parse the declaration of one parameter."""
    words = [word for word in re.findall(r"\w+", re.sub(r"\[[^\]]*\]", " ", text)) if word not in _QUALIFIERS]
    is_named = len(words) > 1 and words[-1] not in _TYPE_WORDS  # "unsigned int" is a type without a name
    type = _spelled(words[:-1] if is_named else words)
    is_pointer = "*" in text or "[" in text
    is_constant = is_pointer and "const" in text.partition("*")[0].split()  # a const after `*` is of the pointer
    return CParameter(
        name=words[-1] if is_named else "",
        type=type,
        is_pointer=is_pointer,
        is_constant=is_constant,
        text=" ".join(text.split()),
    )


def _spelled(words: Sequence[str]) -> str:
    """Return the words of a type as one string. Types of integers have one spelling for each size, without their sign:
    "long" for "long unsigned int"."""
    if not words or not _INTEGER_WORDS.issuperset(words):
        return " ".join(words)
    sizes = [word for word in words if word in ("char", "short", "long")]
    return " ".join(sizes) or "int"


def check_arguments(
    pattern: str,
    symbol: str,
    parameters: Sequence[CParameter],
    arguments: Sequence[str],
    values: Mapping[str, tuple[str, str]],
    outputs: Collection[str],
) -> None:
    """Raise CompileError if the values that a pattern passes do not fit the parameters of the C function.

    First their number is checked. Then for each parameter:

    - the type of the value that is passed,
    - that a pointer to const is not passed a result, which the function would have to write,
    - that a parameter with the name of a value of the pattern is passed that value.

    Args:
        pattern: Name of the pattern.
        symbol: Name of the function.
        parameters: Its parameters.
        arguments: Name of the value that is passed for each parameter.
        values: Name of a value → (SSA value, its type in the kernel: "f32", "index" or "memref<f32>").
        outputs: Names of the values that the function writes.
    """
    head = f"pattern '{pattern}': the C function {symbol}({', '.join(declared.text for declared in parameters)})"
    remedy = f"name the arguments in the order of its parameters; there are {', '.join(values)}"
    if len(arguments) != len(parameters):
        raise CompileError(
            f"{head} takes {len(parameters)} arguments, and is passed {', '.join(arguments)}", note=remedy
        )
    for position, (parameter, name) in enumerate(zip(parameters, arguments, strict=True), 1):
        value, type = values[name]
        passed = f"{head}: parameter {position} is passed '{name}'"
        if not parameter.takes(*_kind(type)):
            raise CompileError(f"{passed}, which is {_described(type)}", note=remedy)
        if parameter.is_constant and name in outputs:
            raise CompileError(f"{passed}, which is a result, but the function only reads it", note=remedy)
        # A parameter with the name of another value: the arguments are probably in the wrong order.
        value_of_name = values[parameter.name][0] if parameter.name in values else None
        if value_of_name is not None and value_of_name != value:
            raise CompileError(
                f"{passed}, and '{parameter.name}' is another value of the pattern",
                note=f"{remedy}; or rename the parameter",
            )


def _kind(type: str) -> tuple[str, bool]:
    """Return the element type of a value, and whether it is a pointer: ("f32", True) for "memref<f32>"."""
    return (type[len("memref<") : -1], True) if type.startswith("memref<") else (type, False)


def _described(type: str) -> str:
    """Return a type as messages describe it."""
    dtype, is_pointer = _kind(type)
    if is_pointer:
        return f"a pointer to {dtype}"
    return "a size (size_t)" if dtype == "index" else f"a number of type {dtype}"
