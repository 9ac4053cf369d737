"""Translation of xDSL's parser errors into messages that state the error, the expected text and the remedy."""

from __future__ import annotations

import re

from pydispatch.suggestions import nearest

_TYPE_MISMATCH = re.compile(r"operand is used with type (.*), but has been previously used or defined with type (.*)")
"""xDSL's error message about a value with two types: that of this use, and that of an earlier use or definition."""
_TYPES = {
    "bool": "i1", "char": "i8", "int8": "i8", "uint8": "i8", "int16": "i16", "uint16": "i16", "int": "i32",
    "int32": "i32", "uint32": "i32", "int64": "i64", "uint64": "i64", "long": "i64", "size_t": "index",
    "half": "f16", "float16": "f16", "float": "f32", "float32": "f32", "double": "f64", "float64": "f64",
    "bfloat": "bf16", "bfloat16": "bf16",
}  # fmt: skip
"""Name of a type in C, Python or NumPy → type in MLIR that it is likely to mean."""
_KNOWN = ("index", "i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "tensor", "memref", "vector", "none")
"""Types that are suggested for a misspelled one."""


def explain(message: str, token: str) -> tuple[str, str | None]:
    """Translate an error message of xDSL's parser into a message and a note with the remedy, or None.

    For "operand expected" at the token `x`, the message names `x`, and the note says that values begin with %. Other
    messages are returned without their capital letter.

    `token` is the text of the token at which the error was raised; "" at the end of the program.
    """
    message = message.strip()
    note = None
    if message == "in block definition":
        message = "expected an operation, a block label or '}'"
    if match := _TYPE_MISMATCH.fullmatch(message):
        message = f"{token} has type {match[2]}, but is used here with type {match[1]}"
    elif message == "operand expected":
        message, note = _explain_operand(token)
    elif message == "type expected":
        message, note = _explain_type(token, "a type")
    elif message == "attribute expected":
        message, note = _explain_type(token, "an attribute or a type")
    elif message.startswith("SSA value ") and message.endswith("is already defined"):
        message = f"value {token} is defined twice"
        note = "each name is given once in a function; choose another"
    elif message.startswith("Expected 'x' in shape"):
        message, note = "expected 'x' between the sizes of a shape and its element type", "for example tensor<4x?xf32>"
    if message[1:2].islower():  # a message that begins with an acronym, such as SSA, is left unchanged
        message = message[:1].lower() + message[1:]
    return message, note


_ELEMENTS = re.compile(r"attribute (\S+) expected from variable .*, but got (\S+)")
"""Error of a constraint that two types are equal: the expected one and the actual one."""
_COUNT = re.compile(r"Expected (\d+) operands?, but got (\d+)")
"""Error of an operation with another number of operands than its body or definition takes."""
_UNEXPECTED = re.compile(r"Unexpected attribute (.*)")
"""Error of an attribute or type that is none of several allowed ones."""
_WANTED = re.compile(r"Expected attribute (.*) but got (.*)")
"""Error of a constraint on a single attribute or type: the expected one and the actual one."""
_BASE = re.compile(r"(.*) should be of base attribute (\S+)")
"""Error of a constraint on the class of an attribute or type: the actual one, and the name of the expected class."""
_SEVERAL = "The following constraints were not satisfied:"
"""First line of xDSL's errors of an attribute that violates several constraints, one in each further line."""
_BASES = {
    "symbol_ref": "a symbol such as @name", "string": 'text such as "name"', "tensor": "a tensor type",
    "memref": "a memref type", "vector": "a vector type", "index": "the type index", "integer": "a number",
    "integer_type": "an integer type", "array": "a list such as [1, 2]",
    "dense_array": "a list such as array<i64: 1, 2>",
    "dictionary": "a dictionary such as {key = 1}", "affine_map": "an affine_map", "unit": "no value",
}  # fmt: skip
"""xDSL's name of a class of attributes or types → words for it in a message."""
_CAUSES = {
    OverflowError: "a number in it is too large",
    RecursionError: "it is nested too deeply",
    AssertionError: "its operands, types or attributes are not what it takes",
}
"""Class of an exception that is not meant for users → usual cause, for the message of a refused operation."""


def explain_refusal(name: str, error: Exception) -> tuple[str, str | None]:
    """Translate an exception that xDSL raised when it built or verified an operation into words for users.

    For "a.b" and a VerifyException "1 should be of base attribute symbol_ref" the message is "'a.b': a symbol such as
    @name is wanted where it has 1". An error that no branch translates becomes the message as it is.

    Args:
        name: Full name of the operation, such as "linalg.map".
        error: The exception.

    Returns:
        The message, which contains the name; and a note with the remedy, or None.
    """
    text, note = _error_line(error), None
    if match := _ELEMENTS.match(text):  # attribute f32 expected from variable 'T', but got i32
        text = f"{match[1]} is wanted where it has {match[2]}"
        note = "operands and results that belong together have equal types: convert one of them first"
    elif match := _COUNT.match(text):  # Expected 2 operands, but got 1; on building: 2 operand
        text = f"{match[1]} operand(s) are wanted, it has {match[2]}"
        if name == "linalg.map":  # its short form names the operation of the body: linalg.map { arith.addf } ins(...)
            text = f"the operation of its body takes {match[1]} elements, ins(...) has {match[2]}"
            note = "give as many tensors in ins(...) as the operation in braces has operands"
    elif match := _WANTED.fullmatch(text):  # Expected attribute i1 but got i32
        text = f"{match[1]} is wanted where it has {match[2]}"
    elif match := _UNEXPECTED.fullmatch(text):  # Unexpected attribute i32
        text = f"{match[1]} is not allowed here"
        if name == "arith.constant":
            text = f"a constant is a number, got {match[1]}"
            note = "for example 1 : index, 2.5 : f32, dense<0> : tensor<4xi32>"
    elif match := _BASE.fullmatch(text):  # 1 should be of base attribute symbol_ref
        text = f"{_BASES.get(match[2], 'an attribute or type of kind ' + match[2])} is wanted where it has {match[1]}"
    elif text.startswith("number of dynamic sizes must equal"):  # raised for tensor.splat
        note = f"give one size in brackets for each ? of the result, as in {name} %value[%size]"
    elif text.startswith("'block' property of Region class"):  # a region of the operation has no or several blocks
        text, note = "its region has one block", "leave out labels and branches inside of it; scf.if and scf.for choose"
    elif text.startswith("not enough values to unpack"):  # Python's ValueError, in xDSL's code for the operands
        text = "a value is missing in it"
    return text if name in text else f"'{name}': {text}", note


def _error_line(error: Exception) -> str:
    """Return the line of an exception that states the error.

    For an exception whose text is meant for developers, such as AssertionError, return its usual cause, with that line
    in parentheses.
    """
    lines = [line.strip() for line in _text_of(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0] == _SEVERAL:  # a heading, which the first constraint follows
        del lines[0]
    text = lines[0] if lines else ""
    if type(error) in _CAUSES or isinstance(error, (TypeError, AttributeError, LookupError)):
        cause = _CAUSES.get(type(error), _CAUSES[AssertionError])
        return f"{cause} ({text})" if text else cause
    return text or type(error).__name__


def _text_of(error: Exception) -> str:
    """Return the text of an exception; the strings among several arguments, or in a tuple, are joined with spaces."""
    is_tuple = len(error.args) == 1 and isinstance(error.args[0], tuple)  # raised as Error(("text", ...))
    parts = error.args[0] if is_tuple else error.args
    texts = [part for part in parts if isinstance(part, str)]
    return " ".join(texts).strip() if len(texts) > 1 else str(error).strip()


def _explain_operand(token: str) -> tuple[str, str | None]:
    """Return the message, and a note or None, for `token` where an operand is expected.

    At the end of the program the token is "".
    """
    message = f"expected a value, got '{token}'" if token else "expected a value"
    if re.fullmatch(r"-?[0-9.]+(e[+-]?\d+)?|true|false", token):
        return message, f"make a value of it in front: %name = arith.constant {token} : type"
    if re.fullmatch(r"[A-Za-z_]\w*", token):
        return message, f"names of values begin with %: %{token}"
    return message, None


def _explain_type(token: str, expected: str) -> tuple[str, str | None]:
    """Return the message for a token that is no type, and a note with the MLIR type that it is likely to mean.

    For a type's name in C, Python or NumPy, such as "int", the note names MLIR's type, i32. For another token it names
    types with similar names; it is None without such types. `expected` is the expected text in words, such as "an
    attribute or a type".
    """
    message = f"expected {expected}, got '{token}'" if token else f"expected {expected}"
    note = f"nearest: {_TYPES[token]}" if token in _TYPES else nearest(token, _KNOWN, most=2)
    return message, note or None


def end_of_previous(text: str, start: int) -> int | None:
    """Return the offset after the token before `start` if that token is on an earlier line; else None.

    Parse errors at the first token of a line are shown at this offset, since the missing text belongs there. Comments
    between that token and `start` are skipped.
    """
    before = text[:start]
    is_first_of_line = "\n" in before and not before.rpartition("\n")[2].strip()
    if not is_first_of_line:
        return None
    code = before.rstrip()
    while (shorter := _without_comment(code)) != code:
        code = shorter.rstrip()
    return len(code) or None  # None if only comments precede


_CODE = re.compile(r'(?:[^"/]|"(?:[^"\\]|\\.)*"?|/(?!/))*')
"""Line of MLIR up to its comment. A `//` in a string begins none."""


def _without_comment(text: str) -> str:
    """Return a text without the comment at the end of its last line."""
    match = _CODE.match(text, text.rfind("\n") + 1)
    assert match is not None  # an empty match is one, too
    return text[: match.end()]
