"""Damaged programs: whatever is lost, doubled, swapped or cut off, the answer is a program or an error, and soon."""

import random
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from work import count_calls

from pydispatch import ir
from pydispatch.errors import CompileError

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "tests" / "ir" / "data").glob("*.mlir"), *(ROOT / "examples").rglob("*.mlir")])
TOKEN = re.compile(r'"[^"\n]*"|[%@#!^]?[\w.$]+|->|\s+|[^\w\s]')
CALLS = 200  # for a character; a healthy parse makes a tenth of that


def mutants(seed: int, texts: list[str]) -> Iterator[str]:
    """An endless, repeatable row of texts with one to four damages each."""
    rng = random.Random(seed)
    pools = [TOKEN.findall(text) for text in texts]
    while True:
        tokens = list(rng.choice(pools))
        for _ in range(rng.choice((1, 1, 2, 4))):
            i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
            kind = rng.randrange(7)
            if kind == 0:
                del tokens[i]
            elif kind == 1:
                tokens.insert(i, tokens[i])
            elif kind == 2:
                tokens[i], tokens[j] = tokens[j], tokens[i]
            elif kind == 3:
                tokens[i] = rng.choice(rng.choice(pools))
            elif kind == 4:
                del tokens[i : i + rng.randrange(2, 12)]
            elif kind == 5:
                tokens = tokens[: max(1, i)]
            else:
                word = tokens[i]
                at = rng.randrange(len(word))
                letter = chr(rng.choice((rng.randrange(32, 127), rng.randrange(1, 0x3FF))))
                tokens[i] = word[:at] + letter + word[at + 1 :]
            tokens = tokens or [""]
        yield "".join(tokens)


def check(text: str) -> bool:
    """Whether a text is a program. Fails on anything but a program or a located error."""

    def parse_and_print() -> None:
        ir.print_module(ir.parse(text, "mutant.mlir"))

    try:
        count_calls(parse_and_print, limit=CALLS * (len(text) + 1000))
        return True
    except CompileError as error:
        assert error.location is not None, text
        assert error.location.line >= 1, text
        return False


@pytest.mark.parametrize("seed", range(3))
def test_mutants(seed: int) -> None:
    texts = [path.read_text() for path in FILES]
    row = mutants(seed, texts)
    good = sum(check(next(row)) for _ in range(60))
    assert 0 < good < 60


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_every_prefix_of_lines(path: Path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    for n in range(0, len(lines), 5):
        check("".join(lines[:n]))


def main(seconds: float, seed: int) -> None:
    """Mutates for so long; prints what must not be."""
    import traceback

    end, row, count, good = time.monotonic() + seconds, mutants(seed, [p.read_text() for p in FILES]), 0, 0
    seen: set[str] = set()
    while time.monotonic() < end:
        text = next(row)
        count += 1
        try:
            good += check(text)
        except BaseException as error:
            key = "".join(traceback.format_exception(error)[-2:])
            if key not in seen:
                seen.add(key)
                Path(f"mutant-{len(seen)}.mlir").write_text(text)
                print(f"== mutant-{len(seen)}.mlir\n{key}", flush=True)
    print(f"{count} mutants, {good} programs, {len(seen)} kinds of failure")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
