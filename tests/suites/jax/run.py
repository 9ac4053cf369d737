"""Compares functions of JAX, compiled by `pd.from_jax`, with what JAX computes on the CPU.

    python tests/suites/jax/run.py [--only TEXT] [--part 0/4] [--device cpu] [--least 97]

Prints the reason of every failure, and the share that is right by group; the exit status is 1 when that is below
--least.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

import jax.numpy as jnp  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cases import CASES, Case  # noqa: E402

import pydispatch as pd  # noqa: E402

# Distances of numbers of a type: JAX's own functions, sums in another order, and intermediate types differ by as much.
UNITS = 64


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="cases with this text in their name")
    parser.add_argument("--part", default="0/1", help="N/OF: every OF-th of the cases and types, from the N-th on")
    parser.add_argument("--least", type=float, default=97.0, help="the share that has to be right, per cent")
    options = parser.parse_args()
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    first, every = (int(n) for n in options.part.split("/"))
    named = [(f"{case.name}[{type_}]", case, type_) for case in CASES for type_ in case.types.split()]
    for name, case, type_ in [entry for entry in named if options.only in entry[0]][first::every]:
        group = case.name.partition(".")[0]
        why = run(case, type_, options.device)
        if why is None:
            continue
        total[group] += 1
        right[group] += not why
        if why:
            print(f"FAIL {name}: {why}", flush=True)
    print("\ngroup: right of run")
    for group, count in total.items():
        print(f"  {group}: {right[group]} of {count}")
    share = 100 * right.total() / max(total.total(), 1)
    print(f"\n{right.total()} of {total.total()} are right ({share:.1f} %)")
    return 0 if total and share >= options.least else 1


def run(case: Case, type_: str, device: str) -> str | None:
    """What is wrong, "" when nothing is; None where JAX itself does not take the type."""
    rng = np.random.default_rng(zlib.crc32(f"{case.name}{type_}".encode()))
    arguments = [_argument(rng, shape, type_) for shape in case.shapes]
    try:
        expected = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(case.function)(*arguments))]
    except (TypeError, ValueError, NotImplementedError):
        return None
    try:
        artifact = pd.from_jax(case.function, *arguments, targets={"cpu": None}.get(device, device))
        found = pd.device(device).load(artifact).main(*arguments)
    except pd.Error as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    except Exception as error:
        return f"UNEXPECTED {type(error).__name__}: {error}"[:300]
    results = found if isinstance(found, (tuple, list)) else [found]
    reasons = [_difference(np.asarray(got), want, case.exact) for got, want in zip(results, expected, strict=True)]
    return next(filter(None, reasons), "")


def _argument(rng: np.random.Generator, shape: str, type_: str) -> Any:
    kind = shape[:1] if shape[:1].isalpha() else ""
    if kind == "k":
        return np.array(jax.random.key_data(jax.random.key(int(rng.integers(1000)))))
    sizes = tuple(int(n) for n in shape.removeprefix(kind).split("x") if n) if kind != "d" else (5, 5)
    if kind == "i":
        return rng.integers(0, 4, sizes).astype(np.int32)
    dtype = np.dtype(getattr(ml_dtypes, type_, None) or type_)
    if dtype.kind == "b":
        return rng.random(sizes) > 0.4
    if dtype.kind in "iu":
        return rng.integers(1 if kind == "p" else 0 if dtype.kind == "u" else -5, 6, sizes).astype(dtype)
    made = rng.normal(0, 2, sizes) if kind != "u" else rng.uniform(-0.95, 0.95, sizes)
    made = np.abs(made) + 0.3 if kind == "p" else made
    if dtype.kind == "c":
        made = made + 1j * rng.normal(0, 2, sizes)
    if kind == "d":
        made = made @ made.conj().T + 5 * np.eye(5)
    return made.astype(dtype)


def _difference(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], exact: bool) -> str:
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if exact or want.dtype.kind in "biu":
        wrong = got != want
    else:
        part = want.real.dtype
        wide: Any = np.complex128 if want.dtype.kind == "c" else np.float64
        a, b = got.astype(wide), want.astype(wide)
        room = UNITS * float(jnp.finfo(part).eps)
        with np.errstate(all="ignore"):
            wrong = ~np.isclose(a, b, rtol=room, atol=room, equal_nan=True)
    if not wrong.any():
        return ""
    place = tuple(int(n) for n in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} differ, first at {list(place)}: {got[place]} instead of {want[place]}"


if __name__ == "__main__":
    sys.exit(main())
