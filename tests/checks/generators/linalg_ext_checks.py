"""Check files of attentions and of Fourier and Winograd transforms, with the values that NumPy gives."""

from __future__ import annotations

import random
from collections.abc import Iterator

import attentions
import transforms
from attentions import Letters
from harness import Body

NOTE = "// Written by tests/checks/generators/linalg_ext_checks.py; the expected values are NumPy's.\n\n"

HEADS = Letters("bmd", "bkd", "bkn", "bmn", "mk")
GROUPED = Letters("bcmd", "kbd", "kbn", "mbcn", "k")
LENGTHS = {"b": 2, "c": 3, "m": 5, "d": 4, "k": 7, "n": 6}


def _attentions() -> Iterator[tuple[str, Body]]:
    rows = [
        ("heads", HEADS, "same", "i1", "f32", "f32", "static"),
        ("grouped", GROUPED, "soft cap", "f32", "f32", "f32", "mixed"),
        ("causal", HEADS._replace(mask=None), "causal", None, "f16", "f16", "dynamic"),
        ("narrow", GROUPED, "none", "f16", "bf16", "f32", "static"),
    ]  # fmt: skip
    for seed, (name, letters, kind, mask, element, result, sizes) in enumerate(rows):
        body = Body(sizes, seed=seed)
        attentions.one(body, letters, LENGTHS, kind, mask, element, result)
        yield f"attention_{name}", body
    for base in (True, False):
        body = Body("dynamic" if base else "static", seed=9)
        letters = Letters("bmd", "kbd", "bnk", "bnm", "k")
        attentions.online(body, letters, dict(LENGTHS), base, random.Random(1))
        yield f"online_attention_{'two' if base else 'e'}", body


def _transforms() -> Iterator[tuple[str, Body]]:
    for stages, element in ((1, "f32"), (5, "f32"), (4, "f16")):
        body = Body("dynamic" if stages == 4 else "static", seed=stages)
        transforms.fourier(body, (2, 3), stages, element, random.Random(stages))
        yield f"fft_{1 << stages}_{element}", body
    for tile, kernel, inner, sizes in ((6, 3, False, "static"), (4, 3, True, "dynamic"), (2, 5, False, "dynamic")):
        body = Body(sizes, seed=tile)
        transforms.winograd(body, tile, kernel, inner, "f32", random.Random(tile))
        yield f"winograd_{tile}_{kernel}", body
    body = Body()
    transforms.packing(body)
    yield "packing", body


def texts() -> Iterator[tuple[str, str]]:
    """The names and texts of the files."""
    for name, bodies in (("linalg_ext_attention", _attentions()), ("linalg_ext_transforms", _transforms())):
        yield name, NOTE + "\n".join(body.check_text(function) for function, body in bodies)
