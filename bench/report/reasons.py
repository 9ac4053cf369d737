"""Why a peer is faster, for the tables of losses."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from report.figures import Row


@dataclass(frozen=True)
class Reason:
    """text: what a profile of `machine` showed. sizes: patterns of the sizes that it explains, `*` for any text.
    peers: contenders that win for this reason, all when there are none."""

    machine: str
    sizes: tuple[str, ...]
    text: str
    peers: tuple[str, ...] = ()

    def explains(self, machine: str, row: Row) -> bool:
        is_peer = not self.peers or row.contender in self.peers
        return self.machine == machine and is_peer and any(fnmatchcase(row.size, pattern) for pattern in self.sizes)


REASONS: tuple[Reason, ...] = ()


def reason(machine: str, row: Row) -> str:
    """Return the text of the first reason that explains a loss, "" when none does."""
    return next((known.text for known in REASONS if known.explains(machine, row)), "")
