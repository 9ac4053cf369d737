"""The reference as pages of Markdown: Python from docstrings, the command line from its help, C from the headers."""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import re
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pydispatch
from pydispatch.cli.__main__ import _parser
from pydispatch.options import OPTIONS

HEADERS = Path(__file__).parents[2] / "csrc" / "include" / "pydispatch"
MODULE = re.compile(r"\b(collections\.abc|os|typing)\.")
ADDRESS = re.compile(r" (?:object )?at 0x[0-9a-f]+")
SECTIONS = {
    "Compile": "compile CompileOptions Artifact from_jax jax_source from_torch CFunction CustomOperation WholeKernel "
    "get_include get_cython_include",
    "Devices and buffers": "device devices Device Buffer dlpack",
    "Programs and calls": "Program Function Prepared Future Batched Request trace",
    "Text for many requests": "generate.Engine generate.Handle generate.Completion generate.Statistics "
    "generate.QueueFullError generate.DeadlineError generate.EngineStoppedError",
    "Derivatives": "grad value_and_grad vjp",
    "Frameworks": "to_jax to_torch",
    "Patterns that match and replace": "pattern matcher imported ptx shader",
    "Programs in Python": "program state cond loop erf rsqrt reduce argmax ceil cos exp exp2 floor log log2 maximum "
    "minimum sin sqrt tanh",
    "Kernels in Python": "kernel View partial static global_id group_id local_id group_size grid_size shared barrier "
    "group_sum group_max group_min atomic_add atomic_max atomic_min atomic_exchange atomic_and atomic_or atomic_xor "
    "atomic_cas subgroup_shuffle subgroup_sum subgroup_max subgroup_min subgroup_ballot private where fma cdiv bitcast",
    "Tiles in kernels": "arange load zeros full reshape cumsum scan argmin",
    "Element types": "f64 f32 f16 bf16 f8E4M3FN f8E5M2 i64 i32 i16 i8 i1 u64 u32 u16 u8 index",
    "Errors": "Error CompileError CompileWarning ArtifactError CheckError CommandError DeviceUnavailableError "
    "InternalError InvalidArgumentError KernelError MissingImportError OutOfMemoryError errors.SystemError_ "
    "errors.Location",
}
"""Sections of the page for Python, with their names in order."""
RETURNED = {
    "Device": ("pydispatch.runtime.interface.Device", "Returned by `pd.device`."),
    "Function": ("pydispatch._core.function.Function", "A member of a `Program`."),
    "Prepared": ("pydispatch._core.prepared.Prepared", "Returned by `Function.prepare`."),
    "Batched": ("pydispatch._core.batching.Batched", "Returned by `Function.batched`."),
    "Request": ("pydispatch._core.batching.Request", "Returned by `Batched.submit`."),
}
"""Classes of objects that functions return -> where they are defined, and what returns them."""
INTERNAL = frozenset(("arguments", "arranged", "check_fresh", "described", "help", "results", "text", "usage"))
"""Members of public classes for other parts of the package."""


def pages() -> dict[str, str]:
    """Name -> text of each page."""
    return {"python": python(), "cli": command_line(), "c": headers()}


class _Bare(str):
    """An annotation that is shown without quotes."""

    __repr__ = str.__str__


SECTION = re.compile(r"^(Args|Returns|Yields|Raises|Example):$")


def _escaped(text: str) -> str:
    """Escape Markdown in a line outside of code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<\[])", r"\\\1", part) for part in parts)


def _section(title: str, lines: list[str]) -> str:
    """Format a section of a docstring: entries as a list, an example as code, and anything else as text."""
    if title == "Example":
        return "**Example**\n\n```pycon\n" + "\n".join(lines) + "\n```"
    entries: list[str] = []
    for line in lines:
        entry = re.match(r"([*\w, ]+): (.*)", line) if title in ("Args", "Raises") else None
        if entry and not line.startswith(" "):
            entries.append(f"- `{entry[1]}`: {_escaped(entry[2])}")
        elif entries:
            entries[-1] += f" {_escaped(line.strip())}"
        else:
            entries.append(_escaped(line.strip()))
    shown = {"Args": "Arguments"}.get(title, title)
    return f"**{shown}**\n\n" + "\n".join(entries)


def _text(thing: object) -> str:
    """Return a docstring as Markdown."""
    text = inspect.getdoc(thing) if inspect.isclass(thing) else getattr(thing, "__doc__", None)
    lines = inspect.cleandoc(text or "").splitlines()
    if lines and re.match(r"[\w.]+\(.*\)$", lines[0]):  # the signature that Cython puts before the text
        lines = inspect.cleandoc("\n".join(lines[1:])).splitlines()
    parts, title, pending = [], "", []
    for line in [*lines, "End:"]:
        if SECTION.match(line) or line == "End:":
            content = inspect.cleandoc("\n".join(pending)).strip()
            if title and content:
                parts.append(_section(title, content.splitlines()))
            elif content:
                parts.append("\n".join(map(_escaped, content.splitlines())))
            title, pending = line[:-1], []
        else:
            pending.append(line)
    return "\n\n".join(parts)


def _signature(name: str, thing: Callable[..., object]) -> str:
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return f"{name}(...)"
    parameters = [p.replace(annotation=_bare(p.annotation)) for p in found.parameters.values()]
    shown = found.replace(parameters=parameters, return_annotation=_bare(found.return_annotation))
    return ADDRESS.sub("", f"{name}{shown}")


def _bare(annotation: object) -> object:
    """Return an annotation that is shown without quotes and without the modules of its types."""
    if annotation is inspect.Parameter.empty:
        return annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _Bare(MODULE.sub("", text))


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
        if name.startswith("_") or name in INTERNAL or not defined.__module__.startswith("pydispatch"):
            continue
        text = _text(member)
        if isinstance(inspect.getattr_static(owner, name), property) or not callable(member):
            if text and not isinstance(member, int | str | float | tuple):
                yield f"#### `{name}`\n\n{text}"
        else:
            yield f"#### `{name}`\n\n{_shown(_signature(name, member))}\n\n{text}"


def _is_function(thing: object) -> bool:
    return callable(thing) and hasattr(thing, "__name__")


def _entry(name: str, thing: Any) -> str:
    parts = [f"### `{name}`"]
    if thing is pydispatch.CompileOptions:
        keys = "".join(f"    {key}: {_bare(option.type)}\n" for key, option in OPTIONS.items())
        parts += [f"```python\nclass {name}(TypedDict, total=False):\n{keys}```", _text(thing)]
    elif name in RETURNED:
        parts += [f"*{RETURNED[name][1]}*", _text(thing), *_members(thing)]
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
    """Return a page with every public name of `pydispatch`, by task."""
    listed = [name for names in SECTIONS.values() for name in names.split()]
    inner = {f"generate.{name}" for name in pydispatch.generate.__all__}
    inner |= {f"errors.{name}" for name in set(pydispatch.errors.__all__) - set(pydispatch.__all__)}
    wrong = set(listed) ^ {*pydispatch.__all__, *inner, *RETURNED}
    assert not wrong and len(listed) == len(set(listed)), f"docs/site/reference.py: SECTIONS is wrong about {wrong}"
    sections = ["# Python", "Every public name, as `import pydispatch as pd` has it."]
    for title, names in SECTIONS.items():
        sections.append(f"## {title}")
        for name in names.split():
            thing = _imported(RETURNED[name][0]) if name in RETURNED else attrgetter(name)(pydispatch)
            sections.append(_entry(name, thing))
    return "\n\n".join(sections) + "\n"


def _imported(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


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
    wide = "---\nhide: [navigation]\n---"  # their 120 columns fit into the page without the menu
    return "\n\n".join([wide, "# C", intro, *texts]) + "\n"
