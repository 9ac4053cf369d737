"""Parsing of the suffix of a device name: its number, and options as key=value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydispatch.errors import InvalidArgumentError

# Suffix of a number of bytes → bytes
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

_MAX_BYTES = (1 << 63) - 1
"""Largest byte count of an option: the core has signed 64-bit sizes, to which larger ones do not convert."""


def check_options(base: str, options: Mapping[str, str], known: Sequence[str]) -> None:
    """Raise InvalidArgumentError for an option that the device does not have.

    Args:
        base: Name of the device without number and options, for the message: "vulkan".
        options: Options that the user has given, by key.
        known: Keys of the device's options.
    """
    unknown = set(options) - set(known)
    if unknown:
        first = min(unknown)  # the same one in each run, unlike next(iter())
        raise InvalidArgumentError(f"device '{base}' has no option '{first}'; it has: {', '.join(known)}")


def flag(base: str, options: Mapping[str, str], key: str) -> bool:
    """Return whether the option `key` is "1"; it may also be "0" or missing.

    Raise InvalidArgumentError for any other text. base: name of the device, for the message.
    """
    text = options.get(key, "0")
    if text not in ("0", "1"):
        raise InvalidArgumentError(f"device '{base}': {key}: expected 0 or 1, got '{text}'")
    return text == "1"


def whole_number(base: str, key: str, text: str, low: int, high: int, more: str = "") -> int:
    """Return the value of an option that is a decimal number from `low` to `high`, both inclusive.

    Raise InvalidArgumentError for any other text.

    Args:
        base: Name of the device, for the message.
        key: Name of the option, for the message.
        text: Value of the option.
        low, high: Smallest and largest number, of at most 9 digits.
        more: Text that ends the message, such as a hint.
    """
    # int() of a long text takes long, or raises ValueError: its length is checked first, here and below.
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or not low <= int(text) <= high:
        raise InvalidArgumentError(f"device '{base}': {key}: expected {low} to {high}, got '{text}'{more}")
    return int(text)


def byte_count(base: str, key: str, text: str) -> int:
    """Return the bytes of an option that is a positive number of bytes: 1048576, 1024KiB, 512MiB, 2GiB.

    Raise InvalidArgumentError for any other text. base, key: names of device and option, for the message.
    """
    digits, unit = (text[:-3], text[-3:]) if text[-3:] in UNITS else (text, "")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= 15
    count = int(digits) * UNITS.get(unit, 1) if is_number else 0
    if not 0 < count <= _MAX_BYTES:
        raise InvalidArgumentError(f"device '{base}': {key}: expected bytes, as in 1073741824 or 1GiB, got '{text}'")
    return count


def device_number(name: str) -> int:
    """Return the index in the name of a device such as "cuda:1" or "vulkan://1"; 0 for a name without one, "cuda".

    Raise InvalidArgumentError if what follows the colon is no number of at most 4 digits.
    """
    base, _, digits = name.partition(":")
    digits = digits.removeprefix("//") or "0"
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 4:
        raise InvalidArgumentError(f"device '{name}': expected a number after '{base}:', got '{digits}'")
    return int(digits)
