"""Changes of texts and of bytes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

MAX_BYTES = 1 << 16
Mutation = Callable[[random.Random, bytes, bytes], bytes]
"""change(rng, data, another input) -> the data with one change."""

TOKEN = re.compile(rb"\w+|\s+|[^\w\s]")
EDGES = (0, 1, 2, 3, 4, 7, 8, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
WORDS = (
    b"0",
    b"-1",
    b"4294967296",
    b"18446744073709551616",
    b"1e999",
    b"\x00",
    b"\xff",
    b'"',
    b"\\",
    b"(" * 200,
    b"[" * 2000,
    b"{" * 200,
)


def mutate_tokens(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """One change of the tokens of a text: another word, left out, repeated, swapped, a number."""
    tokens = TOKEN.findall(data)
    if not tokens:
        return data
    place, choice = rng.randrange(len(tokens)), rng.randrange(6)
    if choice == 0:
        tokens[place] = rng.choice(WORDS)
    elif choice == 1:
        tokens[place] = rng.choice(TOKEN.findall(other) or [b" "])
    elif choice == 2:
        tokens[place : place + rng.randrange(1, 6)] = []
    elif choice == 3:
        tokens[place:place] = tokens[place : place + rng.randrange(1, 12)]
    elif choice == 4:
        second = rng.randrange(len(tokens))
        tokens[place], tokens[second] = tokens[second], tokens[place]
    else:
        tokens[place] = str(rng.choice(EDGES)).encode()
    return b"".join(tokens)


def mutate_bytes(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """One change of bytes or little-endian words, or a piece of another input."""
    changed, kind = bytearray(data), rng.randrange(7)
    at = rng.randrange(len(changed) + 1)
    if kind == 0 and changed:
        changed[at % len(changed)] ^= 1 << rng.randrange(8)
    elif kind == 1 and changed:
        changed[at % len(changed)] = rng.randrange(256)
    elif kind == 2:
        del changed[at : at + rng.choice((1, 2, 4, 16, 200))]
    elif kind == 3:
        where = rng.randrange(len(changed) + 1)
        changed[where:where] = changed[at : at + rng.choice((1, 4, 16, 64, 300))]
    elif kind == 4:
        begin = rng.randrange(len(other) + 1)
        changed[at : at + rng.choice((0, 4, 40))] = other[begin : begin + rng.choice((1, 4, 32, 400))]
    else:
        width = rng.choice((1, 2, 4, 4, 8))
        at = at // width * width if rng.random() < 0.7 else at
        number = rng.choice(EDGES) + rng.randrange(-1, 2)
        changed[at : at + width] = number.to_bytes(12, "little", signed=True)[:width]
    return bytes(changed)


BYTES: tuple[Mutation, ...] = (mutate_bytes,)
TEXT: tuple[Mutation, ...] = (mutate_tokens, mutate_tokens, mutate_bytes)


def mutate(rng: random.Random, data: bytes, others: list[bytes], mutations: tuple[Mutation, ...]) -> bytes:
    """One to four changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        data = rng.choice(mutations)(rng, data, rng.choice(others))[:MAX_BYTES]
    return data
