"""Modules are checked once, and the places of ids are found once for all instructions of one form."""

from __future__ import annotations

import random
from typing import Any

import pytest
from test_spirv_check import VALID, assembled

import pydispatch as pd
from pydispatch.formats.spirv import check as spirv_check
from pydispatch.formats.spirv import operands as spirv_operands
from pydispatch.formats.spirv.instruction import SpirvInstruction


def test_a_good_module_is_checked_once_and_a_broken_one_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    whole = spirv_check._check

    def counted(data: Any, what: str) -> None:
        read.append(what)
        whole(data, what)

    monkeypatch.setattr(spirv_check, "_check", counted)
    monkeypatch.setattr(spirv_check, "_valid_digests", {})
    good = assembled(VALID)
    spirv_check.check(good, "first")
    spirv_check.check(memoryview(good), "again")
    assert read == ["first"]
    for name in ("broken", "broken again"):
        with pytest.raises(pd.ArtifactError, match=name):
            spirv_check.check(good[:-4], name)
    assert read == ["first", "broken", "broken again"]


def test_few_modules_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spirv_check, "_check", lambda data, what: None)
    monkeypatch.setattr(spirv_check, "_valid_digests", {})
    monkeypatch.setattr(spirv_check, "MAX_CACHED_DIGESTS", 3)
    for i in range(10):
        spirv_check.check(bytes([i]))
    assert len(spirv_check._valid_digests) == 3


def test_places_by_form_are_those_of_a_walk() -> None:
    pick, seen = random.Random(5), 0

    def fail(at: int, text: str) -> Exception:
        return ValueError(f"word {at}: {text}")

    def outcome(found: Any, *arguments: Any) -> object:
        try:
            return found(*arguments)
        except ValueError as error:
            return str(error)

    def walked(inst: SpirvInstruction) -> object:
        return spirv_operands._walked_positions(inst, fail, lambda selector: 1)

    def located(inst: SpirvInstruction) -> object:
        spirv_operands.locate_ids(inst, 4, fail, lambda selector: 1)
        return inst.type_word, inst.result_word, inst.id_positions

    for opcode in spirv_operands.patterns():
        for count in (*range(1, 10), 31, 32, 33):
            words = [pick.randrange(1, 4) for _ in range(count)]
            inst = SpirvInstruction(opcode, words, pick.randrange(5, 50))
            assert outcome(located, inst) == outcome(walked, inst)
            seen += spirv_operands._positions_by_length(opcode, count) is not None
    assert seen > 500
