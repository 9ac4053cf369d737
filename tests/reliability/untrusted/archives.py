"""Changes of `.pt2` files: of the values in their JSON, their arrays, and the members of the archive."""

from __future__ import annotations

import copy
import io
import json
import random
import warnings
import zipfile
from typing import Any

from untrusted.mutations import BYTES, EDGES, Mutation, mutate_bytes, mutate_tokens

ODD = [None, 1.5, -0.0, 1e300, "", "x", "Infinity", True, [], {}, [0], {"a": 1}, -1, -(2**63), *EDGES]
Path = tuple[Any, ...]


def members(data: bytes) -> dict[str, bytes]:
    """The members of an archive. BadZipFile and other errors for what is none."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(content: list[tuple[str, bytes]]) -> bytes:
    """An archive that stores its members as they are, also those that are there twice."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data in content:
            file.writestr(name, data)
    return stream.getvalue()


def places(value: Any, path: Path = ()) -> list[Path]:
    """Every place in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [p for key, inner in items for p in [(*path, key), *places(inner, (*path, key))]]


def at(value: Any, path: Path) -> Any:
    """What is at a place."""
    for key in path:
        value = value[key]
    return value


def mutate_json(rng: random.Random, value: Any, other: Any) -> None:
    """One change at a place of a JSON value."""
    found = places(value)
    if not found:
        return
    path = rng.choice(found)
    inside, key, choice = at(value, path[:-1]), path[-1], rng.randrange(8)
    if choice == 0:
        del inside[key]
    elif choice == 1 and isinstance(inside, list):
        inside.insert(rng.randrange(len(inside) + 1), copy.deepcopy(inside[key]))
    elif choice == 2 and isinstance(inside, list):
        to = rng.randrange(len(inside))
        inside[to], inside[key] = inside[key], inside[to]
    elif choice <= 4:  # what has the same key elsewhere: a name, an operator, an argument
        alike = [(source, p) for source in (value, other) for p in places(source) if p[-1] == key]
        inside[key] = copy.deepcopy(at(*rng.choice(alike)))
    elif choice == 5:
        inside[key] = copy.deepcopy(at(value, rng.choice(found)))
    else:
        inside[key] = copy.deepcopy(rng.choice(ODD))


def mutate_archive(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """One change of a member, or of the archive; bytes that are no archive are changed as bytes."""
    try:
        content, second = members(data), members(other)
        texts = [name for name in content if name.endswith(".json")]
        name = rng.choice([*texts, *[n for n in texts if "/models/" in n] * 4])
        model = json.loads(content[name])
        others = [json.loads(d) for n, d in second.items() if n.endswith(".json") and "/models/" in n]
    except Exception:  # whatever zipfile and json make of it
        return mutate_bytes(rng, data, other)
    choice = rng.randrange(12)
    if choice == 0:
        changed = rng.choice(list(content))
        content[changed] = rng.choice((mutate_bytes, mutate_tokens))(rng, content[changed], b"")
    elif choice == 1:
        del content[rng.choice(list(content))]
    elif choice == 2:
        content[rng.choice(list(content))] = content[rng.choice(list(content))]
    elif choice == 3:
        return packed([*content.items(), rng.choice(list(second.items()))])
    else:
        mutate_json(rng, model, rng.choice([*others, model]))
        content[name] = json.dumps(model).encode()
    return packed(list(content.items()))


ARCHIVE: tuple[Mutation, ...] = (mutate_archive,) * 9 + BYTES
