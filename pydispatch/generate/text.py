"""Text of a sequence, piece by piece while its tokens arrive, and its end at a stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_INCOMPLETE = "\ufffd"
"""Character that tokenizers decode a part of a multi-byte character to."""

_MAX_HELD_TOKENS = 16
"""Tokens that wait for the end of a character, at most. A character has up to 4 bytes, each of which may be a token, so
that 16 leaves a margin. A larger number delays the text of a model that writes invalid bytes."""


class TextStream:
    """Converter of the tokens of one sequence to pieces of text, as they arrive; it ends at a stop string.

    The concatenated pieces equal the text of all tokens, or its part before the first stop string.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], stops: Sequence[str] = ()) -> None:
        """Create the stream of a sequence without tokens.

        Args:
            decode: Returns the text of tokens.
            stops: Strings that end the text.
        """
        self._decode = decode
        self._stops = tuple(stops)
        self._tokens: list[int] = []
        # Indices of tokens. The text of tokens before `_end` has been added to `_held` already. Tokens from `_start` to
        # `_end` are decoded again with new ones, because a token may decode differently beside others.
        self._start = 0
        self._end = 0
        self._held = ""  # text that may be the beginning of a stop string
        self.is_stopped = False
        """Whether a stop string has ended the text."""

    def push(self, token: int) -> str:
        """Add a token and return the text that is now certain, which may be "": no later token can change it."""
        self._tokens.append(token)
        return self._settle(is_last=False)

    def finish(self) -> str:
        """Return the text that was held back, after the last token; "" if a stop string has ended the text."""
        return "" if self.is_stopped else self._settle(is_last=True)

    def _settle(self, is_last: bool) -> str:
        """Return the text that is certain: all new text, but without an end that may be the beginning of a stop string.

        With the stop string "END" and the new text "at the E", "at the " is returned and "E" is held. The first whole
        stop string ends the text, and the part before it is returned. With `is_last` no token follows, so the end is
        certain too.
        """
        self._held += self._new_text(is_last)
        starts = [start for stop in self._stops if (start := self._held.find(stop)) >= 0]
        if starts:
            self.is_stopped = True
            return self._held[: min(starts)]
        held_length = 0 if is_last else max((_overlap(self._held, stop) for stop in self._stops), default=0)
        certain = self._held[: len(self._held) - held_length]
        self._held = self._held[len(certain) :]
        return certain

    def _new_text(self, is_last: bool) -> str:
        """Return the text of the tokens from `_end` on; "" while their last character is incomplete, such as half an
        emoji. With `is_last`, an incomplete character is returned as the replacement character.

        As a token may decode differently beside others, the tokens of the previous text, from `_start`, are decoded
        with the new ones, and the previous text is cut off.
        """
        tokens = self._tokens
        before = self._decode(tokens[self._start : self._end])
        text = self._decode(tokens[self._start :])
        is_incomplete = text.endswith(_INCOMPLETE) and len(tokens) - self._end < _MAX_HELD_TOKENS
        has_new_text = len(text) > len(before)  # false for tokens without text, such as the end of a sequence
        if not has_new_text or (is_incomplete and not is_last):
            return ""
        self._start, self._end = self._end, len(tokens)
        return text[len(before) :]


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest suffix of `text` that is a prefix of `stop` but not all of it; 0 for none."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
