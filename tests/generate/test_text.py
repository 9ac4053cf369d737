"""Text of tokens: characters of several bytes, and stop strings."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from fake_program import FakeProgram, expected

from pydispatch.generate import Engine
from pydispatch.generate.text import TextStream

TEXTS = ("plain", "naïve café", "日本語のテキスト", "👩‍👩‍👧‍👦 family 🏳️‍🌈", "a�b", "tail 🎉")


class Bytes:
    """A tokenizer whose tokens are bytes."""

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(tokens).decode(errors="replace")


class Stripping(Bytes):
    """A tokenizer that drops the space before the first word, as those of SentencePiece do."""

    def decode(self, tokens: Sequence[int]) -> str:
        return super().decode(tokens).removeprefix(" ")


class Runs(Bytes):
    """A tokenizer that decodes a text that is not complete to one mark per byte, as byte fallback does."""

    def decode(self, tokens: Sequence[int]) -> str:
        try:
            return bytes(tokens).decode()
        except UnicodeDecodeError:
            return "�" * len(tokens)


def pieces(stream: TextStream, tokens: Sequence[int]) -> list[str]:
    parts = []
    for token in tokens:
        parts.append(stream.push(token))
        if stream.is_stopped:
            return parts
    return [*parts, stream.finish()]


@pytest.mark.parametrize("tokenizer", [Bytes(), Stripping(), Runs()], ids=lambda t: type(t).__name__)
def test_pieces_are_the_text(tokenizer: Bytes) -> None:
    for text in (*TEXTS, " " + TEXTS[1]):
        tokens = tokenizer.encode(text)
        parts = pieces(TextStream(tokenizer.decode), tokens)
        assert "".join(parts) == tokenizer.decode(tokens)
        assert text == TEXTS[4] or not any("�" in part for part in parts), "no part of a character is shown"


def test_a_character_appears_with_its_last_byte() -> None:
    assert pieces(TextStream(Bytes().decode), Bytes().encode("aé🎉b")) == ["a", "", "é", "", "", "", "🎉", "b", ""]


def test_bytes_that_are_no_text() -> None:
    """An incomplete character at the end is replaced, and invalid bytes do not hold back text forever."""
    assert "".join(pieces(TextStream(Bytes().decode), b"ab\xf0\x9f")) == "ab�"
    parts = pieces(TextStream(Bytes().decode), [0x80] * 100)
    assert "".join(parts) == "�" * 100 and max(map(len, parts)) <= 16


@pytest.mark.parametrize(("text", "stops", "shown"), [
    ("one two END three", ["END"], ["o", "n", "e", " ", "t", "w", "o", " ", "", "", ""]),
    ("ENEND.", ["END"], ["", "", "EN", "", ""]),
    ("abcabd", ["abd", "zz"], ["", "", "abc", "", "", ""]),
    ("EN", ["END"], ["", "", "EN"]),
    ("aéb", ["é"], ["a", "", ""]),
    ("xyz", ["z", "yz"], ["x", "", ""]),
])  # fmt: skip
def test_stop_strings(text: str, stops: list[str], shown: list[str]) -> None:
    """Text that may begin a stop string is held back; a stop string ends the text before it."""
    assert pieces(TextStream(Bytes().decode, stops), Bytes().encode(text)) == shown


def test_random_texts_and_stop_strings() -> None:
    draw = random.Random(5)
    for _ in range(300):
        text = "".join(draw.choice("ab é🎉") for _ in range(draw.randrange(12)))
        stops = ["".join(draw.choice("ab é🎉") for _ in range(draw.randrange(1, 4))) for _ in range(draw.randrange(3))]
        ends = [place for stop in stops if (place := text.find(stop)) >= 0]
        parts = "".join(pieces(TextStream(Bytes().decode, stops), Bytes().encode(text)))
        if not ends:
            assert parts == text
        else:  # the stop string that is complete first ends the text
            first = min(text.find(stop) + len(stop) for stop in stops if stop in text)
            assert parts in {text[: text.find(stop)] for stop in stops if 0 <= text.find(stop) < first}


def test_an_engine_with_a_tokenizer() -> None:
    answer = Bytes().decode(expected(list(b"Hello"), 20))
    with Engine(FakeProgram(), Bytes()) as engine:
        handle = engine.submit("Hello", max_new_tokens=20)
        assert "".join(handle) == handle.result().text == answer
        assert engine.submit(list(b"Hello"), max_new_tokens=20).result().text == answer
        stop = answer[7:9]
        stopped = engine.submit("Hello", max_new_tokens=20, stop=[stop, "no such text"])
        assert "".join(stopped) == stopped.result().text == answer[: answer.index(stop)]
        assert stopped.result().finish_reason == "stop"
    with Engine(FakeProgram(), Bytes(), stop=stop) as engine:
        assert engine.submit("Hello", max_new_tokens=20).result().text == answer[: answer.index(stop)]


def test_a_tokenizer_that_fails_ends_its_request_only() -> None:
    class Failing(Bytes):
        def decode(self, tokens: Sequence[int]) -> str:
            if set(tokens) & failing:
                raise LookupError("no such token")
            return super().decode(tokens)

    failing = {expected([65], 3)[2]}
    with Engine(FakeProgram(), Failing()) as engine:
        first, second = (engine.submit([token], max_new_tokens=3) for token in (65, 66))
        with pytest.raises(LookupError, match="no such token"):
            first.result()
        assert list(second.result().tokens) == expected([66], 3)
        assert engine.statistics().pages_used == 0


def test_a_tokenizer_that_fails_for_the_end_of_a_text() -> None:
    class Failing(Bytes):
        calls = 0

        def decode(self, tokens: Sequence[int]) -> str:
            self.calls += 1
            if self.calls > 2:  # two for the only token, more for the end
                raise LookupError("no more texts")
            return super().decode(tokens)

    with Engine(FakeProgram(), Failing()) as engine:
        with pytest.raises(LookupError, match="no more texts"):
            engine.submit([65], max_new_tokens=1).result()
        assert engine.statistics().pages_used == 0
