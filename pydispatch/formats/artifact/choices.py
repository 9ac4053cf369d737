"""The key `choices` of a manifest: what was chosen by measurement while compiling, for people.

It is JSON inside a string, so that loading an artifact skips it at the speed of a copy.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pydispatch.errors import ArtifactError
from pydispatch.formats.artifact.strict import listed, text

KEY = "choices"
"""Key of the manifest with the text of `encode`."""


@dataclass(frozen=True)
class Choice:
    """Tuning result: the implementation that was chosen for a dispatch or for operations.

    Attributes:
        subject: Name of the export of a dispatch, or source location of operations.
        chosen: The chosen implementation as text, such as "8x48, tile 104x256".
        us: Microseconds of a call with it, without other load.
        default: The implementation that is used without measurement.
        default_us: Microseconds of a call with the default, without other load.
        machine: Description of the machine on which it was measured.
    """

    subject: str
    chosen: str
    us: float
    default: str
    default_us: float
    machine: str

    @property
    def is_default(self) -> bool:
        """Return whether no alternative was faster than the default."""
        return self.chosen == self.default

    def words(self) -> str:
        """Return the choice as text for people.

        For example: `8x48, tile 104x256: 812.3 us; default 14x32, tile 112x256: 1004.1 us (-19.1 %)`.
        """
        if self.is_default:
            return f"{self.chosen}: {self.us:.1f} us; nothing tried was faster"
        gain = (1 - self.us / self.default_us) * 100 if self.default_us else 0
        return f"{self.chosen}: {self.us:.1f} us; default {self.default}: {self.default_us:.1f} us (-{gain:.1f} %)"


def encode(choices: Sequence[Choice]) -> str:
    """Encode tuning results as compact, deterministic JSON text; "" if there are none."""
    rows = [[c.subject, c.chosen, c.us, c.default, c.default_us, c.machine] for c in choices]
    return json.dumps(rows, separators=(",", ":"), ensure_ascii=False) if rows else ""


def decode(encoded: object) -> list[Choice]:
    """Decode the text of encode(); raise ArtifactError for other text."""
    try:
        return [_choice(*listed(row, 6)) for row in listed(json.loads(text(encoded)))]
    except (ValueError, TypeError, RecursionError) as error:
        raise ArtifactError(f"manifest.json: {KEY}: {error}") from None


def _choice(
    subject: object, chosen: object, us: object, default: object, default_us: object, machine: object
) -> Choice:
    """Return the Choice with these JSON values; raise ValueError if one has another type."""
    return Choice(
        subject=text(subject),
        chosen=text(chosen),
        us=_time(us),
        default=text(default),
        default_us=_time(default_us),
        machine=text(machine),
    )


def _time(value: object) -> float:
    """Return a JSON value that is a time in microseconds; raise ValueError for other values, also for NaN."""
    if type(value) not in (int, float) or not 0 <= value < 1e15:  # type: ignore[operator]
        raise ValueError(f"expected microseconds, got {value!r:.60}")
    return float(value)  # type: ignore[arg-type]
