"""Database of measurements: one file per dispatch and machine, in the compiler's cache folder.

Files are replaced atomically: of processes that tune at the same time, the results of one are retained.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydispatch.formats.artifact.artifact import package_version
from pydispatch.formats.artifact.strict import flag, table, text
from pydispatch.formats.storage import cache

VERSION = 1
"""Version of the content of a file. Files of other versions are ignored."""

FOLDER = "tuning"
"""Folder of the measurements in the compiler's cache folder."""


@dataclass(frozen=True)
class Measurement:
    """Stored result of tuning one tunable: the chosen configuration and its time.

    Attributes:
        chosen: Name of the chosen configuration.
        us: Microseconds of a call with the chosen configuration.
        default: Name of the configuration that it was compared with.
        default_us: Microseconds of a call with the default configuration.
        complete: Whether all neighbours of the chosen configuration were tried.
    """

    chosen: str
    us: float
    default: str
    default_us: float
    complete: bool


class Database:
    """Database of the tuning results of one machine: a JSON file for each tunable, in the compiler's cache folder.

    The path of an entry is `tuning/3f/a0...`: the digits are the SHA-256 of the package's release, the machine and the
    tunable's key.

    Args:
        machine: Text that identifies machines to which the same measurements apply: CPU, workers, and target features.
        note: Receives sentences about entries that cannot be used.
    """

    def __init__(self, machine: str, note: Callable[[str], object]) -> None:
        """Create the database of a machine; entries are read from the cache when they are looked up."""
        self.machine, self._note = machine, note

    def load(self, key: str) -> Measurement | None:
        """Return the entry of a tunable, by its key; None if there is none or it is damaged."""
        parts = self._parts(key)
        data = cache.load(*parts)
        if data is None:
            # `cache.load` returns None for a missing file, and for one that it refuses. Only the latter is reported.
            root = cache.directory()
            if cache.is_enabled() and root is not None and Path(root, *parts).exists():
                self._note(f"{Path(root, *parts)}: a damaged entry is ignored")
            return None
        try:
            return _entry(table(json.loads(data)))
        except (ValueError, KeyError, RecursionError) as error:
            self._note(f"{Path(cache.directory() or '', *parts)}: an entry is ignored: {error}")
            return None

    def store(self, key: str, entry: Measurement) -> None:
        """Store the entry of a tunable, by its key, if the cache folder is writable."""
        data = json.dumps({"version": VERSION, "machine": self.machine, **asdict(entry)}, sort_keys=True)
        # There are 256 subfolders, named by two hexadecimal digits. Each has that share of the cache's size limit.
        cache.store(data.encode(), *self._parts(key), folder_count=256)

    def _parts(self, key: str) -> tuple[str, str, str]:
        """Return the path of an entry in the cache folder: folder, subfolder, file.

        It depends on the release of the package, since other releases may generate other code for the same key.
        """
        digest = hashlib.sha256("\0".join((package_version(), self.machine, key)).encode()).hexdigest()
        return FOLDER, digest[:2], digest[2:]


def _entry(fields: dict[str, Any]) -> Measurement:
    """Return the measurement that a JSON object describes. Raise KeyError or ValueError if it is malformed."""
    if fields["version"] != VERSION:
        raise ValueError(f"expected version {VERSION}, got {fields['version']!r:.60}")
    times = [fields[key] for key in ("us", "default_us")]
    if not all(type(time) in (int, float) and 0 <= time < 1e15 for time in times):
        raise ValueError(f"expected microseconds, got {times!r:.60}")
    us, default_us = map(float, times)
    return Measurement(text(fields["chosen"]), us, text(fields["default"]), default_us, flag(fields["complete"]))
