"""Rules of the JSON trace event format, as Perfetto reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

KINDS = {"call", "schedule", "submit", "wake", "run", "host", "wait", "idle"}


def read(path: Path) -> dict[str, Any]:
    """The file, whose events keep every rule that a reader of the format relies on."""
    data: dict[str, Any] = json.loads(path.read_text())
    assert data["displayTimeUnit"] in ("ms", "ns")
    named, ends = set(), {}
    for event in data["traceEvents"]:
        place = event["pid"], event["tid"]
        assert type(event["pid"]) is int and type(event["tid"]) is int and 0 <= event["tid"] < 1 << 31
        assert type(event["name"]) is str and event["name"]
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name", "thread_sort_index")
            if event["name"] == "thread_name":
                assert place not in named and event["args"]["name"]
                named.add(place)
            continue
        assert place in named, "an event of a thread without a name"
        assert event["ts"] >= 0 and event["cat"]
        if event["ph"] == "i":
            assert event["s"] in ("t", "p", "g")
            continue
        assert event["ph"] == "X" and event["cat"] in KINDS and event["dur"] >= 0
        begin = round(1000 * event["ts"])
        around = ends.setdefault(place, [])  # (begin, end) of what is open
        assert begin >= (around[-1][0] if around else 0), "events of a thread are in order"
        while around and around[-1][1] <= begin:
            around.pop()
        end = begin + round(1000 * event["dur"])
        assert not around or end <= around[-1][1], "an event ends within the one that it began in"
        around.append((begin, end))
    return data


def spans(data: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The events of a kind."""
    return [event for event in data["traceEvents"] if event["ph"] == "X" and event["cat"] == kind]
