"""Names of parameters and variables say what they hold."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("pydispatch", "_core", "bench", "examples")
SAYS_NOTHING = frozenset({"made", "found", "given", "each", "number"})
MATHEMATICS = frozenset("ijkmnxyz")
"""One-letter names of coordinates, sizes and operands of formulas."""


def functions_in(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of all functions inside of `code`, with lambdas and comprehensions."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_flags & inspect.CO_OPTIMIZED:  # not the body of a class
                yield inner
            yield from functions_in(inner)


@cache
def functions() -> list[CodeType]:
    """Return the code of all functions of the folders. Compiling takes a fifth of the time of walking syntax trees."""
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    modules = (compile(path.read_text(), path.relative_to(ROOT), "exec", dont_inherit=True) for path in paths)
    return [code for module in modules for code in functions_in(module)]


def parameters(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def test_no_variable_has_a_name_that_says_nothing() -> None:
    wrong = {
        f"{code.co_filename}:{code.co_firstlineno} {code.co_name}: {name}"
        for code in functions()
        for name in SAYS_NOTHING.intersection((*code.co_varnames, *code.co_cellvars))
    }
    assert not wrong, "name these by what they hold:\n" + "\n".join(sorted(wrong))


def test_few_parameters_have_one_letter() -> None:
    package = [code for code in functions() if code.co_filename.startswith("pydispatch/")]
    named = [code for code in package if not code.co_name.startswith("<")]
    names = [name for code in named for name in parameters(code) if name not in ("self", "cls")]
    single = [name for name in names if len(name) == 1 and name not in MATHEMATICS and name != "_"]
    assert len(single) < 0.02 * len(names), f"{len(single)} of {len(names)} parameters; name new ones by words"


def test_names_are_seen() -> None:
    method = "def f(self, n, *, a=lambda z: z): found = [each for each in n]; return lambda: found"
    code = compile(f"class C:\n    made = 1\n    {method}", "x.py", "exec")
    seen = {name for inner in functions_in(code) for name in (*inner.co_varnames, *inner.co_cellvars)}
    assert {"self", "n", "a", "z", "found", "each"} <= seen and "made" not in seen
    assert [parameters(inner) for inner in functions_in(code) if inner.co_name == "f"] == [("self", "n", "a")]
