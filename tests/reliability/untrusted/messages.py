"""Changes of ONNX models that keep the form of Protocol Buffers: of numbers, names, and messages in messages."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from typing import Any

from untrusted.mutations import BYTES, EDGES, WORDS, Mutation, mutate_bytes

FIXED = {1: 8, 5: 4}  # bytes of a value, by its wire type
VARINT, LENGTH = 0, 2


@dataclass
class Field:
    """One field. value: a number, bytes, or a message."""

    number: int
    wire: int
    value: int | bytes | Message


@dataclass
class Message:
    """Fields in their order. kind: the class of pydispatch that declares them."""

    kind: Any
    fields: list[Field] = field(default_factory=list)

    def __bytes__(self) -> bytes:
        return b"".join(_written(f) for f in self.fields)


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def _written(f: Field) -> bytes:
    tag = _varint(f.number << 3 | f.wire)
    if isinstance(f.value, int):
        return tag + _varint(f.value & (1 << 64) - 1)
    data = bytes(f.value)
    return tag + (_varint(len(data)) if f.wire == LENGTH else b"") + data


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def read(data: bytes, kind: Any) -> Message:
    """The fields of a message. IndexError and ValueError for what is none."""
    found, at = Message(kind), 0
    while at < len(data):
        tag, at = _number(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, at = _number(data, at)
            found.fields.append(Field(number, wire, value))
            continue
        size, at = _number(data, at) if wire == LENGTH else (FIXED[wire], at)
        if size > len(data) - at:
            raise ValueError(data)
        declared = kind.declared().get(number)
        part: bytes | Message = data[at : at + size]
        if wire == LENGTH and declared is not None and not hasattr(declared.kind, "wire"):
            part = read(data[at : at + size], declared.kind())
        found.fields.append(Field(number, wire, part))
        at += size
    return found


def _all(of: Message) -> list[tuple[Message, int]]:
    """Every field: its message, and its place there."""
    found = [(of, n) for n in range(len(of.fields))]
    return [*found, *(place for f in of.fields if isinstance(f.value, Message) for place in _all(f.value))]


def _fields(places: list[tuple[Message, int]]) -> list[tuple[Any, Field]]:
    return [(message.kind, message.fields[n]) for message, n in places]


def mutate_model(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """One change of a field somewhere; bytes that are no model are changed as bytes."""
    from pydispatch.frontends.onnx.model import ModelProto

    try:
        whole, second = read(data, ModelProto), read(other, ModelProto)
    except (IndexError, KeyError, ValueError, RecursionError):
        return mutate_bytes(rng, data, other)
    places = _all(whole)
    if not places:
        return other
    message, n = rng.choice(places)
    given, choice = message.fields[n], rng.randrange(8)
    if choice == 0:
        del message.fields[n]
    elif choice == 1:
        message.fields.insert(rng.randrange(len(message.fields) + 1), copy.deepcopy(given))
    elif choice == 2:
        to = rng.randrange(len(message.fields))
        message.fields[n], message.fields[to] = message.fields[to], given
    elif choice in (3, 4):  # what stands in the same field elsewhere: a name, an operator, a graph
        alike = [f for kind, f in _fields(places + _all(second)) if kind is message.kind and f.number == given.number]
        message.fields[n] = copy.deepcopy(rng.choice(alike))
    elif choice == 5:
        alike = [f for _, f in _fields(places) if f.wire == given.wire]
        given.value = copy.deepcopy(rng.choice(alike).value)
    else:
        given.value = _other_value(rng, given.value)
    return bytes(whole)


def _other_value(rng: random.Random, value: int | bytes | Message) -> int | bytes:
    if isinstance(value, int):
        return rng.choice((rng.choice(EDGES), value + 1, value - 1, -1, rng.randrange(30)))
    choice = rng.randrange(4)
    if choice == 0:
        return rng.choice(WORDS)
    if choice == 1:  # numbers
        return b"".join(_varint(rng.choice(EDGES)) for _ in range(rng.randrange(5)))
    return mutate_bytes(rng, bytes(value), b"")


MODEL: tuple[Mutation, ...] = (mutate_model, mutate_model, mutate_model, *BYTES)
