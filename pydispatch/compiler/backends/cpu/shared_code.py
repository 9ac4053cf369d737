"""Code that exports share if it differs only in integers, such as the sizes of matrices: one function, compiled once.

The function takes the integers that differ as arguments, and each export calls it with its own. LLVM compiles such
exports in the time of one. The code loses what LLVM concludes from known sizes, so this is for fallback variants.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_INSTRUCTION = re.compile(
    r"^  %\w+ = (?:(?:add|sub|mul|udiv|urem|sdiv|srem)(?: nsw| nuw)* i64 |icmp \w+ i64 |phi i64 "
    r'|getelementptr (?:inbounds )?\w+, |call i64 @"llvm\.[su](?:min|max)\.i64"\().*',
    re.MULTILINE,
)
"""Instructions whose integer operands may be replaced by i64 values, such as `%integer0`.

Integer literals elsewhere are parts of types, counts or flags, and have to stay literals."""
_OPERAND = re.compile(r"(?<=i64 )-?\d+\b|(?<=, )-?\d+(?=,|$)|(?<=\[ )-?\d+(?=,)")
"""Integer operand of an instruction that `_INSTRUCTION` matches: `i64 7`, `i64 %a, 7`, `phi i64 [ 7, %b ]`."""
_DEFINITION = re.compile(
    r'^define (?P<linkage>\w+) i32 @(?P<symbol>"[^"]+")\((?P<parameters>.*)\) #0 \{$', re.MULTILINE
)
"""Definition of a function that an export calls, with its attribute group `#0`."""
_ANY_DEFINITION = re.compile(r"^define ", re.MULTILINE)
"""Beginning of each definition of a function in LLVM IR."""
_HOLE = "\0"
"""Character that replaces an integer in a template, where each instance has its own."""


@dataclass(frozen=True)
class Template:
    """LLVM IR of an export without its symbol and the integers that may become arguments.

    Attributes:
        head: The text before the definition: declarations.
        parameters: Parameters of the definition.
        body: The text from the first instruction on, with `_HOLE` in place of each of these integers.
    """

    head: str
    parameters: str
    body: str


@dataclass(frozen=True)
class Instance:
    """LLVM IR of one export as a template and the integers that fill its holes.

    Attributes:
        template: The template.
        linkage: Linkage of the export's function.
        symbol: Quoted symbol of the export's function.
        integers: The text of the integer in each hole, in order.
    """

    template: Template
    linkage: str
    symbol: str
    integers: tuple[str, ...]


def instance_of(text: str) -> Instance | None:
    """Split the LLVM IR of an export into a template and its integers.

    For `%2 = mul nsw i64 %1, 768`, the template has `_HOLE` in place of 768, and the instance has the integer "768".
    Only integers that may become arguments are replaced, those of the instructions that `_INSTRUCTION` matches.

    Args:
        text: LLVM module of one export, without library tables.

    Returns:
        The instance; None if the module defines another function beside that of the export.
    """
    definition = _DEFINITION.search(text)
    if definition is None or len(_ANY_DEFINITION.findall(text)) > 1:
        return None
    integers: list[str] = []

    def without_integers(instruction: re.Match[str]) -> str:
        """Return an instruction with holes for its integers, which are appended to `integers`."""
        integers.extend(_OPERAND.findall(instruction[0]))
        return _OPERAND.sub(_HOLE, instruction[0])

    body = _INSTRUCTION.sub(without_integers, text[definition.end() :])
    template = Template(text[: definition.start()], definition["parameters"], body)
    return Instance(template, definition["linkage"], definition["symbol"], tuple(integers))


def shared_module(instances: Sequence[Instance]) -> str:
    """Return one LLVM module for several instances of one template; the code of the template is in it only once.

    The code becomes an internal function. Integers that are equal in all instances stay literals, the others become its
    arguments. The function of each export only calls it. For the exports f and g, which differ in 768 and 512:

        define internal i32 @"f.shared"(ptr %env, ..., i64 %integer0) { ... mul nsw i64 %1, %integer0 ... }
        define i32 @"f"(ptr %env, ...) { ... call i32 @"f.shared"(ptr %env, ..., i64 768) ... }
        define i32 @"g"(ptr %env, ...) { ... call i32 @"f.shared"(ptr %env, ..., i64 512) ... }
    """
    template = instances[0].template
    operands, arguments = _operands_of_holes(instances)
    start, *texts_after_holes = template.body.split(_HOLE)
    body = start + "".join(operand + text for operand, text in zip(operands, texts_after_holes, strict=True))
    shared = f'@{instances[0].symbol[:-1]}.shared"'  # the symbol ends with a quote
    parameters = ", ".join([template.parameters, *(f"i64 {argument}" for argument in arguments.values())])
    # "#0" is the attribute group of the exports, which the text after the body defines. Without "noinline" LLVM would
    # compile a copy of the code for each export.
    functions = [f"define internal i32 {shared}({parameters}) #0 noinline {{{body}"]
    # All parameters of an export are pointers; a call repeats them without their attributes.
    pointers = [f"ptr {name}" for name in re.findall(r"%\w+", template.parameters)]
    for index, instance in enumerate(instances):
        passed = ", ".join([*pointers, *(f"i64 {integers[index]}" for integers in arguments)])
        functions.append(
            f"define {instance.linkage} i32 @{instance.symbol}({template.parameters}) #0 {{\n"
            f"  %status = call i32 {shared}({passed})\n"
            "  ret i32 %status\n}\n"
        )
    return template.head + "\n".join(functions)


def _operands_of_holes(instances: Sequence[Instance]) -> tuple[list[str], dict[tuple[str, ...], str]]:
    """Return the operand for each hole of the instances' template in the function that they share, and its arguments.

    Returns:
        For each hole, the integer if all instances have the same, else the name of an argument. Then the names of the
        arguments by the integers that the instances pass for them: holes with the same integers share an argument.
    """
    operands: list[str] = []
    arguments: dict[tuple[str, ...], str] = {}
    for integers in zip(*(instance.integers for instance in instances), strict=True):
        is_equal = len(set(integers)) == 1
        operands.append(integers[0] if is_equal else arguments.setdefault(integers, f"%integer{len(arguments)}"))
    return operands, arguments
