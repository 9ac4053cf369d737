"""Protocol Buffers decoder for messages that are declared as dataclasses. Input bytes are untrusted.

Fields that a class does not declare are skipped. Byte fields and packed numbers are views of the input, so that the
weights of a memory-mapped file are not copied.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

_MAX_DEPTH = 100  # nesting of messages, the default limit of protobuf's own decoders
_WIRE_NAMES = {0: "a varint", 1: "8 bytes", 2: "a length", 5: "4 bytes"}
"""Names of the wire types, the encodings of a field, in errors."""
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5

M = TypeVar("M", bound="Message")


class FormatError(ValueError):
    """Error: the bytes are no valid encoding of a message. The text names the message and the byte offset."""


@dataclass(frozen=True)
class FieldKind:
    """Encoding of the value of a protobuf field.

    Attributes:
        name: Name of the kind.
        wire: Wire type: _VARINT, _FIXED64, _LENGTH or _FIXED32.
        dtype: NumPy type of a number, also in the array of a repeated field; None for texts and bytes.
    """

    name: str
    wire: int
    dtype: Any = None


INT = FieldKind("int", _VARINT, np.int64)
FLOAT = FieldKind("float", _FIXED32, np.dtype("<f4"))
DOUBLE = FieldKind("double", _FIXED64, np.dtype("<f8"))
TEXT = FieldKind("text", _LENGTH)
BYTES = FieldKind("bytes", _LENGTH)

_DEFAULTS = {"int": 0, "float": 0.0, "double": 0.0, "text": "", "bytes": b""}
"""Value of a field that a message lacks, by the name of its kind."""
# Default of a repeated field of numbers, an empty array, by the kind's name.
_NO_NUMBERS: dict[str, np.ndarray[Any, Any]] = {kind.name: np.zeros(0, kind.dtype) for kind in (INT, FLOAT, DOUBLE)}


@dataclass(frozen=True)
class _Field:
    """Declaration of a field of a protobuf message.

    Attributes:
        name: Attribute of the message class that stores the field.
        kind: Kind of a number, text or bytes; for a message a function that returns its class.
        repeated: Whether the field is a list.
    """

    name: str
    kind: FieldKind | Callable[[], type[Message]]
    repeated: bool


class _FieldEncoding(NamedTuple):
    """Encoding of a declared field, the value in the metadata {field number: encoding} of its dataclass field.

    Attributes:
        kind: Kind of a number, text or bytes; for a message a function that returns its class.
        repeated: Whether the field is a list.
    """

    kind: FieldKind | Callable[[], type[Message]]
    repeated: bool


def one(field_number: int, kind: FieldKind) -> Any:
    """Declare a field with a single number, text or bytes. An absent field has the kind's default."""
    encoding = _FieldEncoding(kind, repeated=False)
    return dataclasses.field(default=_DEFAULTS[kind.name], metadata={field_number: encoding})


def many(field_number: int, kind: FieldKind) -> Any:
    """Declare a repeated field: a NumPy array for numbers, a list for texts and bytes."""
    make = functools.partial(_NO_NUMBERS.__getitem__, kind.name) if kind.dtype else list
    return dataclasses.field(default_factory=make, metadata={field_number: _FieldEncoding(kind, repeated=True)})


def message(field_number: int, kind: Callable[[], type[Message]]) -> Any:
    """Declare a field with a single message; None if it is absent. `kind` returns the class, which may be declared
    later.
    """
    return dataclasses.field(default=None, metadata={field_number: _FieldEncoding(kind, repeated=False)})


def messages(field_number: int, kind: Callable[[], type[Message]]) -> Any:
    """Declare a repeated field of messages: a list. `kind` returns the class, which may be declared later."""
    return dataclasses.field(default_factory=list, metadata={field_number: _FieldEncoding(kind, repeated=True)})


@dataclass
class Message:
    """Base class of messages. A subclass is a dataclass whose fields are declared by `one`, `many`, `message` and
    `messages`, with the field numbers of the `.proto` file.

    `read` creates an instance from bytes: `Sample.read(memoryview(bytes([8, 5]))).size` is 5. Example:

        @dataclass
        class Sample(Message):
            size: int = one(1, INT)  # optional int64 size = 1;
            parts: list[Part] = messages(2, lambda: Part)  # repeated Part parts = 2;
    """

    _declared: ClassVar[dict[int, _Field]]  # field number -> field; computed by the first call of `declared`

    @classmethod
    def read(cls: type[M], data: memoryview) -> M:
        """Decode a message; its views keep `data` alive. Raise FormatError if the bytes are invalid."""
        message_ = cls()
        _MessageReader(data).fill(message_, position=0, end=len(data), depth=0)
        return message_

    @classmethod
    def declared(cls) -> dict[int, _Field]:
        """Return the declared fields by field number."""
        if "_declared" not in cls.__dict__:  # each class has its own attribute, and does not inherit it from its base
            cls._declared = {
                field_number: _Field(field.name, encoding.kind, encoding.repeated)
                for field in dataclasses.fields(cls)
                for field_number, encoding in field.metadata.items()
            }
        return cls._declared


class _MessageReader:
    """Recursive decoder of the protobuf messages in one buffer. Positions are byte offsets into it.

    `fill` decodes a message field by field, and calls itself for messages in it.
    """

    def __init__(self, data: memoryview) -> None:
        """Take the buffer, from which submessages are decoded without a copy."""
        self.data = data

    def fill(self, into: Message, position: int, end: int, depth: int) -> None:
        """Decode data[position:end] into a message. Repeated fields are extended, single messages are merged, and other
        fields are replaced, as protobuf demands for several occurrences.

        `depth` is the number of messages that contain this one.

        Raise FormatError for bytes that begin no field, for text that is no UTF-8, and for messages that are nested too
        deep.
        """
        if depth > _MAX_DEPTH:
            raise FormatError(f"messages are nested deeper than {_MAX_DEPTH} at byte {position}")
        declared = into.declared()
        numbers: dict[_Field, list[Any]] = {}  # elements of repeated numbers, joined to arrays at the end
        while position < end:
            start = position
            tag, position = self._varint(position, end)
            field_number, wire = tag >> 3, tag & 7  # the lowest three bits are the wire type
            if wire not in _WIRE_NAMES or field_number == 0:
                raise FormatError(f"byte {start} of {type(into).__name__} begins no field")
            field = declared.get(field_number)
            value, after = self._value(wire, position, end)
            if field is not None:  # a field that the class does not declare is skipped
                try:
                    self._store(into, field, wire, value, span=(position, after), numbers=numbers, depth=depth)
                except UnicodeDecodeError:
                    raise FormatError(f"{type(into).__name__}.{field.name} at byte {start} is no UTF-8 text") from None
            position = after
        for field, parts in numbers.items():
            setattr(into, field.name, _joined(getattr(into, field.name), parts, field.kind.dtype))  # type: ignore[union-attr]

    def _value(self, wire: int, position: int, end: int) -> tuple[Any, int]:
        """Decode the value of wire type `wire` at `position`: an integer for a varint, else a view of its bytes.

        Return it and the position after it, which is at most `end`.
        """
        if wire == _VARINT:
            return self._varint(position, end)
        if wire == _LENGTH:
            length, position = self._varint(position, end)
        else:
            length = 8 if wire == _FIXED64 else 4
        if length > end - position:
            raise FormatError(f"{length} bytes are announced at byte {position}, {end - position} are there")
        return self.data[position : position + length], position + length

    def _store(
        self, into: Message, field: _Field, wire: int, value: Any, span: tuple[int, int],
        numbers: dict[_Field, list[Any]], depth: int,
    ) -> None:  # fmt: skip
        """Store a decoded value in its field. Raise FormatError if the wire type does not fit the field.

        Args:
            into: The message.
            field: The field. Its `kind` is a FieldKind, or for a message a function that returns the class.
            wire: Wire type of the value, as the file states it.
            value: The value: an integer for a varint, else bytes.
            span: Positions at which the encoded value begins (at its length, if it has one) and ends (exclusive).
            numbers: Elements of repeated numbers, which are collected here and joined at the end of the message.
            depth: Number of messages that contain this one.
        """
        # Check the wire type. Messages, like text and bytes, are stored as a length and that many bytes (_LENGTH).
        kind = field.kind
        expected = kind.wire if isinstance(kind, FieldKind) else _LENGTH
        # Files may store repeated numbers one by one, or packed: all in one value with a length.
        packed = isinstance(kind, FieldKind) and kind.dtype is not None and field.repeated and wire == _LENGTH
        if wire != expected and not packed:
            raise FormatError(
                f"{type(into).__name__}.{field.name} before byte {span[1]} is stored as {_WIRE_NAMES[wire]}, "
                f"not as {_WIRE_NAMES[expected]}"
            )
        # Store the value by its kind: a message, numbers, or text and bytes.
        if not isinstance(kind, FieldKind):  # a message
            self._store_message(into, field, kind(), span, len(value), depth)
        elif packed:
            numbers.setdefault(field, []).append(_packed(kind, value, span[1]))
        elif kind.dtype is not None and field.repeated:
            numbers.setdefault(field, []).append(_number(kind, value))
        elif kind.dtype is not None:
            setattr(into, field.name, _number(kind, value))
        else:  # text or bytes
            text = str(value, "utf-8") if kind is TEXT else value
            if field.repeated:
                getattr(into, field.name).append(text)
            else:
                setattr(into, field.name, text)

    def _store_message(
        self, into: Message, field: _Field, kind: type[Message], span: tuple[int, int], length: int, depth: int
    ) -> None:
        """Decode a nested message of the class `kind`, the last `length` bytes of `span`, and store it in its field.

        `depth` is the number of messages that contain `into`.
        """
        # Protobuf merges several occurrences of a non-repeated message into one.
        current = None if field.repeated else getattr(into, field.name)
        item = kind() if current is None else current
        self.fill(item, span[1] - length, span[1], depth + 1)
        if field.repeated:
            getattr(into, field.name).append(item)
        else:
            setattr(into, field.name, item)

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        """Decode a varint as an unsigned 64-bit number. Return it and the position after it, which is at most `end`."""
        value = shift = 0
        data = self.data
        while position < end and shift < 70:  # at most 10 bytes of 7 bits
            byte = data[position]
            value |= (byte & 0x7F) << shift
            position += 1
            if byte < 0x80:
                return value & (1 << 64) - 1, position
            shift += 7
        raise FormatError(f"a number does not end before byte {position}")


def _number(kind: FieldKind, value: Any) -> Any:
    """Return the number of a field that is not packed: a varint as int64, or a little-endian float."""
    if kind.wire == _VARINT:
        return value - (1 << 64) if value >> 63 else value
    return np.frombuffer(value, kind.dtype)[0].item()


def _packed(kind: FieldKind, data: memoryview, end: int) -> np.ndarray[Any, Any]:
    """Decode the numbers of a packed repeated field from its bytes. `end` is the position after it, for errors."""
    if kind.wire == _VARINT:
        return _packed_varints(np.frombuffer(data, np.uint8), end)
    if len(data) % kind.dtype.itemsize:
        raise FormatError(f"{len(data)} bytes before byte {end} are no whole number of {kind.name}s")
    return np.frombuffer(data, kind.dtype)


def _packed_varints(data: np.ndarray[Any, Any], end: int) -> np.ndarray[Any, Any]:
    """Decode all numbers of a sequence of varints, as int64, without a loop over them.

    Each byte has seven bits of its number, the lowest ones first; a byte below 0x80 is the last one of its number.
    """
    last = np.flatnonzero(data < 0x80)  # index of the last byte of each number
    if len(data) and (not len(last) or last[-1] != len(data) - 1):
        raise FormatError(f"a number does not end before byte {end}")
    if len(last) == len(data):  # all numbers have one byte
        return data.astype(np.int64)
    first = np.concatenate([[0], last[:-1] + 1])  # index of the first byte of each number
    lengths = last - first + 1
    if lengths.max() > 10:
        raise FormatError(f"a number before byte {end} has more than 10 bytes")
    # Byte 0 of a number is not shifted, byte 1 is shifted by 7 bits, and so on; the sum of the bytes is the number.
    position = np.arange(len(data)) - np.repeat(first, lengths)
    bits = (data & 0x7F).astype(np.uint64) << (7 * position).astype(np.uint64)
    return np.add.reduceat(bits, first).view(np.int64)


def _joined(current: np.ndarray[Any, Any], parts: list[Any], dtype: Any) -> np.ndarray[Any, Any]:
    """Append decoded numbers to the array of a repeated field, and return the new array.

    `current` is the array of the field. Each of `parts` is a number, or an array of numbers that were stored packed.
    A single array is not copied, so that packed weights remain views of the file.
    """
    if len(parts) == 1 and isinstance(parts[0], np.ndarray) and not len(current):
        return parts[0]
    return np.concatenate([current, *(np.atleast_1d(np.asarray(part, dtype)) for part in _merge_scalars(parts, dtype))])


def _merge_scalars(parts: list[Any], dtype: Any) -> list[np.ndarray[Any, Any]]:
    """Return the parts of a repeated field as arrays, in order; adjacent numbers are merged: 1, 2, [3] -> [1, 2], [3].

    A part is a number, or the array of a packed run of numbers. Arrays of the result may be empty.
    """
    runs: list[np.ndarray[Any, Any]] = []
    single: list[Any] = []
    for part in parts:
        if not isinstance(part, np.ndarray):
            single.append(part)
            continue
        runs += [np.array(single, dtype), part]
        single = []
    return [*runs, np.array(single, dtype)]
