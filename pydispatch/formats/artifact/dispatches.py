"""The key `dispatches` of a manifest: which operations the compiler fused into each dispatch, for people.

It is JSON inside a string, so that loading an artifact skips it at the speed of a copy.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydispatch.errors import ArtifactError
from pydispatch.formats.artifact.choices import Choice
from pydispatch.formats.artifact.strict import listed, text

KEY = "dispatches"
"""Key of the manifest with the text of `encode`."""


class Boundary(NamedTuple):
    """Reason why the producer of a value and its consumer are in different dispatches.

    Attributes:
        producer: The producing operation with its source location; "" in artifacts of older versions.
        consumer: The consuming operation with its source location.
        reason: Why the compiler did not fuse the two, as text.
    """

    producer: str
    consumer: str
    reason: str


@dataclass(frozen=True)
class DispatchEntry:
    """Description of one dispatch for people, stored in an artifact.

    Attributes:
        executable, export: Names of its executable and of its export (kernel).
        ops: Its operations, each with its source location; () for a dispatch that only copies.
        apart: For each dispatch that reads its results, why both were not fused.
        grids: Workgroup counts as text, one for each variant of the executable if these differ; () if unknown.
    """

    executable: str
    export: str
    ops: tuple[str, ...]
    apart: tuple[Boundary, ...] = ()
    grids: tuple[str, ...] = ()


Listing = Sequence[tuple[str, Sequence[DispatchEntry]]]
"""Dispatches of a program for display: pairs of a function's name and its dispatches, in the order of the program."""


def encode(listing: Listing) -> str:
    """Encode a listing as compact, deterministic JSON text; "" if it is empty.

    The text is {function: [[executable, export, fused operations, boundaries, workgroup counts], ...]}, where a
    boundary is [producer, consumer, reason that both are in different dispatches].
    """
    by_function: dict[str, Any] = {
        function: [
            [d.executable, d.export, list(d.ops), [list(b) for b in d.apart], list(d.grids)] for d in dispatches
        ]
        for function, dispatches in listing
    }  # fmt: skip
    return json.dumps(by_function, separators=(",", ":"), ensure_ascii=False) if by_function else ""


def decode(encoded: object) -> Listing:
    """Decode the text of encode(); raise ArtifactError for other text."""
    try:
        by_function = json.loads(text(encoded))
        return [
            (text(function), [_entry(*listed(item)) for item in listed(dispatches)])
            for function, dispatches in by_function.items()
        ]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"manifest.json: {KEY}: {error}") from None


def _entry(executable: object, export: object, ops: object, apart: object, grids: object = None) -> DispatchEntry:
    """Return the DispatchEntry with these JSON values; raise ValueError if one has another type.

    `grids` is missing in artifacts of older versions.
    """
    boundaries = tuple(_boundary(*map(text, listed(item))) for item in listed(apart))
    return DispatchEntry(
        executable=text(executable),
        export=text(export),
        ops=tuple(map(text, listed(ops))),
        apart=boundaries,
        grids=tuple(map(text, listed([] if grids is None else grids))),
    )


def _boundary(first: str, second: str, third: str | None = None) -> Boundary:
    """Return a Boundary from the 3 fields of its record, or from the 2 fields (consumer, reason) of older versions."""
    return Boundary("", first, second) if third is None else Boundary(first, second, third)


def _lines_of(dispatch: DispatchEntry) -> list[str]:
    """Return the lines of a dispatch as `render` shows them."""
    lines = [f"  @{dispatch.export}", f"    holds {', '.join(dispatch.ops) or 'a copy'}"]
    if dispatch.grids:  # several counts are those of the executable's variants
        lines.append(f"    workgroups: {' or '.join(dispatch.grids)}")
    for producer, consumer, reason in dispatch.apart:
        reads = f", which reads {producer}" if producer else ""  # unknown in artifacts of older versions
        lines.append(f"    apart from {consumer}{reads}: {reason}")
    return lines


def render(listing: Listing, choices: Sequence[Choice] = ()) -> str:
    """Format a listing for people.

    Args:
        listing: The dispatches of each function.
        choices: Tuning results. One whose subject is the export of a dispatch is shown with the dispatch. The others,
            whose subjects are source locations of operations, are shown at the end.

    Returns:
        Text such as this; "apart from" is the reason why a dispatch that reads a result was not fused with this one:

            @f: 2 dispatches
              @f_dispatch_0
                holds 5:8 matmul, 6:8 absf
                workgroups: 4x1x1 or 2x1x1
                apart from 9:8 matmul, which reads 6:8 absf: REASON
                measured: 8x48, tile 104x256: 812.3 us; nothing tried was faster
              @f_dispatch_1
                holds 9:8 matmul
    """
    lines: list[str] = []
    unshown = {choice.subject: choice for choice in choices}  # choices that are not in `lines` yet
    for function, dispatches in listing:
        count = len(dispatches)
        lines.append(f"@{function}: {count} dispatch{'' if count == 1 else 'es'}")
        for dispatch in dispatches:
            lines += _lines_of(dispatch)
            if choice := unshown.pop(dispatch.export, None):
                lines.append(f"    measured: {choice.words()}")
    lines += [f"{subject}\n    measured: {choice.words()}" for subject, choice in unshown.items()]
    return "\n".join(lines) or "no dispatches were formed"
