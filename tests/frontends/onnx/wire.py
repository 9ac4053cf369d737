"""Writes ONNX messages for tests: each field is a pair of its number and a value."""

from __future__ import annotations

import struct
from collections.abc import Sequence


def varint(n: int) -> bytes:
    """A number, seven bits in each byte."""
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def message(*fields: tuple[int, int | float | str | bytes]) -> bytes:
    """A message of numbers, floats (32 bits), texts and bytes."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        elif isinstance(value, float):
            out += varint(number << 3 | 5) + struct.pack("<f", value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def value(name: str, *shape: int | str, dtype: int = 1) -> bytes:
    """A ValueInfo of a tensor."""
    sizes = [(1, message((1, n) if isinstance(n, int) else (2, n))) for n in shape]
    return message((1, name), (2, message((1, message((1, dtype), (2, message(*sizes)))))))


def node(op: str, inputs: list[str], outputs: list[str], *attributes: bytes, name: str = "", domain: str = "") -> bytes:
    """A node."""
    return message(
        *((1, n) for n in inputs), *((2, n) for n in outputs), (3, name), (4, op), *((5, a) for a in attributes),
        (7, domain),
    )  # fmt: skip


def tensor(name: str, shape: list[int], dtype: int, *fields: tuple[int, int | float | str | bytes]) -> bytes:
    """A TensorProto with elements in further fields: 9 for raw bytes, 13 and 14 for a file beside."""
    return message(*((1, n) for n in shape), (2, dtype), (8, name), *fields)


def external(**entries: str) -> list[tuple[int, int | float | str | bytes]]:
    """The fields of a tensor whose elements are in a file."""
    return [(14, 1), *((13, message((1, key), (2, text))) for key, text in entries.items())]


def model(
    nodes: list[bytes], inputs: list[bytes], outputs: list[bytes], weights: Sequence[bytes] = (), opset: int = 17,
    *more: tuple[int, bytes],
) -> bytes:  # fmt: skip
    """A ModelProto."""
    graph = message(
        *((1, n) for n in nodes), (2, "g"), *((5, w) for w in weights), *((11, i) for i in inputs),
        *((12, o) for o in outputs),
    )  # fmt: skip
    return message((1, 8), (7, graph), (8, message((1, ""), (2, opset))), *more)
