"""Classifies the images of a Parquet file: python infer.py IMAGES OUT [--ray] [--batch N]

OUT becomes a folder with a Parquet file for each row group: id, and the shape that was recognised with its score. A row
group is there whole or not at all, so a run that was killed goes on where it was. With --ray, workers of a cluster of
Ray take row groups; all nodes must see both paths.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from activation import hard_swish
from shapes import SHAPES

import pydispatch as pd

HERE = Path(__file__).parent
SOURCES = ("model.mlir", "hard_swish.c", "weights.npz")


def compiled() -> pd.Artifact:
    """The model with the C function in the place of its activation. One variant: the same bits on all machines."""
    return pd.compile(HERE / "model.mlir", patterns=[hard_swish], require_match=True)


def read(images: Path, group: int) -> pa.Table:
    return pq.ParquetFile(images).read_row_group(group, columns=["id", "pixels"])


def pixels_of(column: pa.ChunkedArray) -> np.ndarray:
    """uint8[n, 256] → what the model takes."""
    data = np.concatenate([np.frombuffer(chunk.buffers()[1], np.uint8) for chunk in column.chunks])
    return data.reshape(len(column), -1).astype(np.float32) / 255


def write(out: Path, group: int, ids: Any, scores: np.ndarray) -> None:
    """The file of a row group. Whoever sees it sees all of it."""
    best = scores.argmax(1)
    named = pa.DictionaryArray.from_arrays(pa.array(best.astype(np.int8)), list(SHAPES))
    table = pa.table({"id": ids, "shape": named, "score": scores[np.arange(len(best)), best]})
    path = out / f"part-{group:05}.parquet"
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    pq.write_table(table, temporary)
    temporary.replace(path)


def remaining(images: Path, out: Path) -> list[int]:
    """The row groups that are not done. Refuses a folder that has results of another job."""
    out.mkdir(parents=True, exist_ok=True)
    digests = [hashlib.sha256((HERE / name).read_bytes()).hexdigest() for name in SOURCES]
    size = images.stat()
    job = json.dumps({"images": [str(images.resolve()), size.st_size, size.st_mtime_ns], "sources": digests})
    note = out / "job.json"
    if note.exists() and note.read_text() != job:
        raise SystemExit(f"{out} has results of other images or of another model; give another folder")
    note.write_text(job)
    for left in out.glob("*.tmp"):  # of a run that was killed
        left.unlink()
    groups = range(pq.ParquetFile(images).num_row_groups)
    return [group for group in groups if not (out / f"part-{group:05}.parquet").exists()]


def here(images: Path, out: Path, groups: list[int], batch: int) -> Iterator[tuple[int, int]]:
    """Does row groups in this process. Yields (row group, process) of each that is done."""
    model = pd.device("cpu").load(compiled(), parameters={"model": HERE / "weights.npz"}).main
    for group in groups:
        table = read(images, group)
        pixels = pixels_of(table["pixels"])
        scores = [model(pixels[first : first + batch]) for first in range(0, len(pixels), batch)]
        write(out, group, table["id"], np.concatenate(scores))
        yield group, os.getpid()


def on_cluster(images: Path, out: Path, groups: list[int], batch: int) -> Iterator[tuple[int, int]]:
    """The same with workers of Ray."""
    import ray

    from pydispatch.integrations.ray import predict

    def read_group(row: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        (group,) = row["item"]
        table = read(images, group)
        columns = {"id": table["id"].to_numpy(), "pixels": pixels_of(table["pixels"])}
        return columns | {"group": np.full(len(table), group)}

    def write_groups(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        sizes = pq.ParquetFile(images).metadata
        done = np.unique(rows["group"])
        for group in done:
            chosen = rows["group"] == group
            if chosen.sum() != sizes.row_group(group).num_rows:
                raise ValueError(f"row group {group} is too large for one block of Ray")
            write(out, group, rows["id"][chosen], rows["scores"][chosen])
        return {"group": done, "process": np.full(len(done), os.getpid())}

    images, out = images.resolve(), out.resolve()
    ray.init(ignore_reinit_error=True)
    data = ray.data.from_items(groups, override_num_blocks=len(groups)).map_batches(read_group, batch_size=1)
    weights = dict(np.load(HERE / "weights.npz"))
    data = predict(
        data, compiled(), outputs=["scores"], keep=["id", "group"], parameters={"model": weights}, batch_size=batch
    )
    for row in data.map_batches(write_groups, batch_size=None).iter_rows():
        yield row["group"], row["process"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--batch", type=int, default=250, help="images in a call")
    parser.add_argument("--ray", action="store_true", help="on the cluster of RAY_ADDRESS, or one of this machine")
    args = parser.parse_args()
    groups = remaining(args.images, args.out)
    print(f"{len(groups)} row groups to do", flush=True)
    run = on_cluster if args.ray else here
    for done, (group, process) in enumerate(run(args.images, args.out, groups, args.batch) if groups else (), 1):
        print(f"row group {group} by process {process}: {done} of {len(groups)}", flush=True)


if __name__ == "__main__":
    main()
