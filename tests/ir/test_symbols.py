"""Renaming of symbols in attributes that hold references at any depth."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, SymbolRefAttr, TensorType, UnrankedMemRefType, f32, i64
from xdsl.ir import Attribute

from pydispatch.ir.core.symbols import renamed
from pydispatch.ir.dialects.hal.device import DeviceAffinityAttr


def affinity(name: str) -> Attribute:
    return DeviceAffinityAttr(SymbolRefAttr(name), ArrayAttr([]))


def nested(name: str) -> list[Attribute]:
    """Return attributes with one reference each: directly, in containers, and in a parameter of a parameter."""
    in_type = UnrankedMemRefType(f32, affinity(name))
    return [
        SymbolRefAttr(name, ["inner"]), ArrayAttr([SymbolRefAttr(name)]), DictionaryAttr({"key": affinity(name)}),
        TensorType(f32, [2], affinity(name)), in_type, ArrayAttr([in_type]),
    ]  # fmt: skip


@pytest.mark.parametrize("index", range(len(nested("a"))))
def test_references_are_renamed_at_any_depth(index: int) -> None:
    assert renamed(nested("a")[index], {"a": "b"}) == nested("b")[index]


@pytest.mark.parametrize("attribute", [f32, TensorType(i64, [2]), *nested("other")])
def test_attributes_without_renamed_references_are_not_copied(attribute: Attribute) -> None:
    assert renamed(attribute, {"a": "b"}) is attribute
