"""The reference as pages of Markdown: Python from docstrings, the command line from its help, C from the headers."""

from __future__ import annotations

import argparse
import inspect
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import is_typeddict

import pydispatch
from pydispatch.cli.__main__ import _parser

HEADERS = Path(__file__).parents[2] / "csrc" / "include" / "pydispatch"
ADDRESS = re.compile(r" (?:object )?at 0x[0-9a-f]+")


def pages() -> dict[str, str]:
    """Name -> text of each page."""
    return {"python": python(), "cli": command_line(), "c": headers()}


class _Bare(str):
    """An annotation that is shown without quotes."""

    __repr__ = str.__str__


def _text(thing: object) -> str:
    """A docstring as Markdown: outside of code, signs are what they are."""
    parts = re.split(r"(`[^`]*`)", inspect.cleandoc(getattr(thing, "__doc__", None) or ""))
    return "".join(part if part.startswith("`") else re.sub(r"([*_<\[])", r"\\\1", part) for part in parts)


def _signature(name: str, thing: Callable[..., object]) -> str:
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return f"{name}(...)"
    parameters = [p.replace(annotation=_bare(p.annotation)) for p in found.parameters.values()]
    shown = found.replace(parameters=parameters, return_annotation=_bare(found.return_annotation))
    return ADDRESS.sub("", f"{name}{shown}")


def _bare(annotation: object) -> object:
    return _Bare(annotation) if isinstance(annotation, str) else annotation


def _shown(call: str) -> str:
    """A signature that fits: its parameters in lines of their own when it is long."""
    if len(call) <= 90:
        return f"```python\n{call}\n```"
    head, _, rest = call.partition("(")
    inner, _, result = rest.rpartition(")")
    depth, parts = 0, [""]
    for character in inner:
        depth += (character in "[({") - (character in "])}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    lines = "".join(f"    {part.strip()},\n" for part in parts)
    return f"```python\n{head}(\n{lines}){result}\n```"


def _members(owner: type) -> Iterator[str]:
    for name, member in inspect.getmembers(owner):
        defined = next((kind for kind in owner.__mro__ if name in vars(kind)), object)
        if name.startswith("_") or not defined.__module__.startswith("pydispatch"):
            continue
        text = _text(member)
        if isinstance(inspect.getattr_static(owner, name), property) or not callable(member):
            if text and not isinstance(member, int | str | float | tuple):
                yield f"#### `{name}`\n\n{text}"
        else:
            yield f"#### `{name}`\n\n{_shown(_signature(name, member))}\n\n{text}"


def _is_function(thing: object) -> bool:
    return callable(thing) and hasattr(thing, "__name__")


def _entry(name: str) -> str:
    thing = getattr(pydispatch, name)
    parts = [f"### `{name}`"]
    if is_typeddict(thing):
        keys = "".join(f"    {key}: {kind.__forward_arg__}\n" for key, kind in thing.__annotations__.items())
        parts += [f"```python\nclass {name}(TypedDict, total=False):\n{keys}```", _text(thing)]
    elif inspect.isclass(thing):
        bases = ", ".join(base.__name__ for base in thing.__bases__ if base is not object)
        is_error = issubclass(thing, BaseException)
        parts.append(_shown(f"class {name}({bases})" if is_error else f"class {_signature(name, thing)}"))
        parts.append(_text(thing))
        parts += [] if is_error else _members(thing)
    elif _is_function(thing):
        parts += [_shown(_signature(name, thing)), _text(thing)]
    else:
        parts.append(f"A value of type `{type(thing).__name__}`: {_text(type(thing))}")
    return "\n\n".join(part for part in parts if part)


def python() -> str:
    """A page with every public name of `pydispatch`."""
    kinds: dict[str, list[str]] = {"Functions": [], "Classes": [], "Errors": [], "Types and other values": []}
    for name in sorted(pydispatch.__all__, key=str.lower):
        thing = getattr(pydispatch, name)
        if inspect.isclass(thing):
            kind = "Errors" if issubclass(thing, BaseException) else "Classes"
        else:
            kind = "Functions" if _is_function(thing) else "Types and other values"
        kinds[kind].append(name)
    sections = ["# Python", "Every public name, as `import pydispatch as pd` has it."]
    for title, names in kinds.items():
        sections += [f"## {title}", *map(_entry, names)]
    return "\n\n".join(sections) + "\n"


def command_line() -> str:
    """A page with the help of every subcommand."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "88"
    try:
        parser = _parser(None)
        (choices,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        helps = {name: sub.format_help() for name, sub in choices.choices.items()}
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    texts = [f"## pydispatch {name}\n\n```text\n{text.rstrip()}\n```" for name, text in helps.items()]
    return "\n\n".join(["# Command line", "What `pydispatch COMMAND --help` says.", *texts]) + "\n"


def headers() -> str:
    """A page with every public header: their comments are the contracts."""
    paths = sorted([*HEADERS.rglob("*.h")], key=lambda path: (path.name != "api.h", str(path)))
    texts = [f"## {path.relative_to(HEADERS.parent)}\n\n```c\n{path.read_text().rstrip()}\n```" for path in paths]
    intro = "The headers in `pydispatch.get_include()`. Their comments state owners, threads and failures."
    return "\n\n".join(["# C", intro, *texts]) + "\n"
