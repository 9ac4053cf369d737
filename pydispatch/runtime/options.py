"""Parsing of the suffix of a device name: its number, and options as key=value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydispatch.errors import InvalidArgumentError

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def check_options(base: str, options: Mapping[str, str], known: Sequence[str]) -> None:
    """InvalidArgumentError for an option that the device does not have."""
    unknown = set(options) - set(known)
    if unknown:
        raise InvalidArgumentError(f"device '{base}' has no option '{min(unknown)}'; it has: {', '.join(known)}")


def flag(base: str, options: Mapping[str, str], key: str) -> bool:
    """Return an option that is 0 or 1, 0 when it is not given. InvalidArgumentError for anything else."""
    text = options.get(key, "0")
    if text not in ("0", "1"):
        raise InvalidArgumentError(f"device '{base}': {key}: expected 0 or 1, got '{text}'")
    return text == "1"


def whole_number(base: str, key: str, text: str, low: int, high: int, more: str = "") -> int:
    """Return an option that is a number. InvalidArgumentError for anything else; more: ends its message."""
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or not low <= int(text) <= high:
        raise InvalidArgumentError(f"device '{base}': {key}: expected {low} to {high}, got '{text}'{more}")
    return int(text)


def byte_count(base: str, key: str, text: str) -> int:
    """Return an option that is a number of bytes: 1048576, 1024KiB, 512MiB, 2GiB. InvalidArgumentError for anything
    else.
    """
    digits, unit = (text[:-3], text[-3:]) if text[-3:] in UNITS else (text, "")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 15 or int(digits) == 0:
        raise InvalidArgumentError(f"device '{base}': {key}: expected bytes, as in 1073741824 or 1GiB, got '{text}'")
    return int(digits) * UNITS.get(unit, 1)


def device_number(name: str) -> int:
    """Return the number in a name such as "cuda:1" or "vulkan://1", 0 without one. InvalidArgumentError for anything
    else.
    """
    base, _, digits = name.partition(":")
    digits = digits.removeprefix("//") or "0"
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 4:
        raise InvalidArgumentError(f"device '{name}': expected a number after '{base}:', got '{digits}'")
    return int(digits)
