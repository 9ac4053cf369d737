"""Noisy images of four shapes, 16x16 pixels, and a Parquet file of them: python shapes.py FILE [--images N]"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

SHAPES = ("disk", "ring", "cross", "stripes")
"""Names of the shapes; labels are indices of this list."""
PIXELS = 16
"""Width and height of an image."""


def images(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw images of random shapes at random positions, sizes and angles.

    Returns:
        The pixels, uint8[count, 256] in row-major order, and for each image the index in SHAPES of what it shows.
    """
    rng = np.random.default_rng(seed)
    shape = rng.integers(0, len(SHAPES), count)
    x0, y0 = rng.uniform(5, 11, (2, count, 1, 1))
    radius = rng.uniform(3, 6, (count, 1, 1))
    angle = rng.uniform(0, np.pi, (count, 1, 1))
    y, x = np.mgrid[:PIXELS, :PIXELS]
    dx, dy = x - x0, y - y0  # from the center of the shape, in pixels
    distance = np.hypot(dx, dy)
    along, across = dx * np.cos(angle) + dy * np.sin(angle), dy * np.cos(angle) - dx * np.sin(angle)
    drawn = (  # for each of SHAPES the pixels that belong to it: bool[count, 16, 16]
        distance < radius,
        np.abs(distance - radius) < 1,
        (np.minimum(np.abs(along), np.abs(across)) < 1) & (distance < radius),
        (np.sin(2 * across) > 0) & (distance < radius),
    )
    ink = np.choose(shape[:, None, None], drawn) * rng.uniform(120, 200, (count, 1, 1))
    noisy = ink + rng.normal(30, 20, ink.shape)
    return noisy.clip(0, 255).astype(np.uint8).reshape(count, -1), shape


def write(path: Path, count: int, rows: int, seed: int) -> None:
    """Write a Parquet file of `count` images, `rows` in each row group.

    Its columns are id (counted from 0), pixels (256 bytes) and shape (index in SHAPES). The file appears complete.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    pixels, shape = images(count, seed)
    columns = {"id": pa.array(np.arange(count)), "shape": pa.array(shape.astype(np.int8))}
    columns["pixels"] = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(PIXELS * PIXELS), count, [None, pa.py_buffer(pixels.tobytes())]
    )
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    pq.write_table(pa.table(columns), temporary, row_group_size=rows)
    temporary.replace(path)


def main() -> None:
    """Write a file of random images."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=5_000, help="in a row group")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    write(args.file, args.images, args.rows, args.seed)


if __name__ == "__main__":
    main()
