"""Each way to dispatch a multiplication, over sizes: `pydispatch bench --modes` as a benchmark of the report.

python bench/modes.py [--seconds S] [--json FILE]
"""

from __future__ import annotations

from report.figures import OURS, Figures, Row, parser, table

from pydispatch.bench.modes import compare


def main() -> None:
    """Measure all ways to dispatch over all sizes, and print the times."""
    arguments = parser(__doc__)
    arguments.add_argument("--seconds", type=float, default=0.2, help="for each way and size")
    args = arguments.parse_args()
    data = compare.figures(seconds=args.seconds)  # "seconds": for each way, the time of a call with each size
    method = "Medians; all ways alternate. A product of two arrays of f32, 64 elements a workgroup, prepared calls."
    missing = [f"{name}: {why.splitlines()[0]}" for name, why in data["missing"].items()]
    rows = [
        Row("a call", OURS if name == "generated code" else f"{OURS}, {name}", seconds, size=f"{size:,}",
            workers=data["machine"]["workers"])
        for name, times in data["seconds"].items()
        for size, seconds in zip(data["sizes"], times, strict=True)
        if seconds is not None  # a way that does not run with this size
    ]  # fmt: skip
    figures = Figures("Ways to dispatch, over numbers of elements", method, rows, missing)
    print(table(rows))
    if args.json:
        figures.save(args.json)


if __name__ == "__main__":
    main()
