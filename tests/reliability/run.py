"""Runs what looks for faults by chance for a stated time, and prints one table: executions, what was new, findings.

The parts are tests/fuzz/run.py and every file of this folder that takes --seconds or --count and ends its output with a
line `{"rows": [{"name": ..., "executions": ..., "new": ..., "coverage": ..., "findings": ...}]}`. A part that ends its
output in another way is one row of as many executions as were asked for, with a finding when it fails.

    python tests/reliability/run.py [--seconds 3600] [--record] [PART...]

--record adds the figures to totals.json beside this file and writes them into docs/reliability.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOTALS = HERE / "totals.json"
DOCUMENT = ROOT / "docs" / "reliability.md"
NOT_PARTS = {"run", "coverage", "mutation"}
SHARES = {"fuzz": 0.4, "differential": 0.15, "models": 0.2, "readers": 0.15, "sequences": 0.1}
"""Of the whole time. A part that is not here takes a count, PER_SECOND of the time that is given."""
PER_SECOND = {"cycles": 1.0, "kill9": 0.05, "device_states": 0.05}


def parts() -> dict[str, Path]:
    found = {path.stem: path for path in sorted(HERE.glob("*.py")) if path.stem not in NOT_PARTS}
    return {"fuzz": ROOT / "tests" / "fuzz" / "run.py", **found}


def arguments(name: str, path: Path, seconds: float) -> list[str]:
    """How a part is told for how long to run."""
    text = path.read_text()
    if '"--seconds"' not in text:
        return ["--count", str(max(1, round(seconds * PER_SECOND.get(name, 0.1))))]
    own = max(1.0, seconds * SHARES.get(name, 0.1))
    return ["--seconds", str(int(own))]


def run_part(name: str, path: Path, seconds: float) -> list[dict[str, Any]]:
    """The rows of one part."""
    given = arguments(name, path, seconds)
    command = [sys.executable, str(path), *given]
    print(f"{name}: {' '.join(command[2:])}", flush=True)
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    lines = ran.stdout.splitlines()
    last = lines[-1] if lines else ""
    count = int(given[1]) if given[0] == "--count" else 0
    rows: list[dict[str, Any]] = []
    if last.startswith("{"):
        found = json.loads(last)
        rows = found.get("rows", [found])
    rows = [{"name": name, "executions": 0, "new": 0, "coverage": "", "findings": 0, **row} for row in rows]
    if ran.returncode and not any(row["findings"] for row in rows):
        rows = rows or [{"name": name, "executions": count, "new": 0, "coverage": last}]
        rows[0]["findings"] = 1
        print("\n".join(lines[-40:]), file=sys.stderr)
    return rows or [{"name": name, "executions": count, "new": 0, "coverage": last, "findings": 0}]


def cpu() -> str:
    """The processor's name and how many CPUs this process may use."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    found = [re.search(rf"^{key}\s*: (.*)", text, re.MULTILINE) for key in ("model name", "cpu family", "model")]
    if all(found):  # virtual machines hide the number of the product, not its family
        name = "{} (family {}, model {})".format(*(match[1] for match in found if match))
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {count} CPUs"


def table(rows: list[dict[str, Any]]) -> str:
    width = max(len(row["name"]) for row in rows)
    lines = [f"{'':{width}}  {'executions':>13}  {'new':>6}  {'findings':>8}  coverage"]
    lines += [
        f"{row['name']:{width}}  {row['executions']:>13,}  {row['new']:>6}  {row['findings']:>8}  {row['coverage']}"
        for row in rows
    ]
    total = sum(row["executions"] for row in rows), sum(row["findings"] for row in rows)
    return "\n".join([*lines, f"{'all':{width}}  {total[0]:>13,}  {'':>6}  {total[1]:>8}"])


def record(rows: list[dict[str, Any]], seconds: float) -> None:
    """Adds a run to the totals, and writes the totals into the document."""
    totals = json.loads(TOTALS.read_text()) if TOTALS.exists() else {"seconds": 0, "runs": 0, "rows": {}}
    totals["seconds"] += round(seconds)
    totals["runs"] += 1
    totals["cpu"] = cpu()
    totals["date"] = datetime.date.today().isoformat()
    for row in rows:
        total = totals["rows"].setdefault(row["name"], {"executions": 0, "findings": 0})
        total["executions"] += row["executions"]
        total["findings"] += row["findings"]
        total["coverage"] = row["coverage"]
    totals["rows"] = dict(sorted(totals["rows"].items()))
    TOTALS.write_text(json.dumps(totals, indent=1) + "\n")
    write_document(totals)


def write_document(totals: dict[str, Any]) -> None:
    lines = ["| what | executions | findings | coverage of the last run |", "| --- | --- | --- | --- |"]
    for name, row in totals["rows"].items():
        lines.append(f"| {name} | {row['executions']:,} | {row['findings']} | {row['coverage']} |")
    executions = sum(row["executions"] for row in totals["rows"].values())
    findings = sum(row["findings"] for row in totals["rows"].values())
    lines.append(f"| all | {executions:,} | {findings} | |")
    hours = totals["seconds"] / 3600
    runs = f"{totals['runs']} run{'s' if totals['runs'] != 1 else ''}"
    lines += ["", f"{runs}, {hours:.1f} hours, the last on {totals['date']}; {totals['cpu']}."]
    text = DOCUMENT.read_text()
    begin, end = "<!-- totals -->\n", "<!-- end of totals -->"
    head, _, rest = text.partition(begin)
    DOCUMENT.write_text(head + begin + "\n".join(lines) + "\n" + end + rest.partition(end)[2])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts()))
    parser.add_argument("--seconds", type=float, default=3600, help="for all parts together, about")
    parser.add_argument("--record", action="store_true", help="add the figures to the totals")
    args = parser.parse_args()
    unknown = [name for name in args.parts if name not in parts()]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are: {', '.join(parts())}")
    start = time.monotonic()
    rows = [
        row
        for name, path in parts().items()
        if not args.parts or name in args.parts
        for row in run_part(name, path, args.seconds)
    ]
    print(f"\n{table(rows)}\n{time.monotonic() - start:.0f} s, {datetime.date.today().isoformat()}, {cpu()}")
    if args.record:
        record(rows, time.monotonic() - start)
    return 1 if any(row["findings"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
