"""Classifies the images of a Parquet file: python infer.py IMAGES OUT [--ray] [--batch N]

OUT becomes a folder with one Parquet file for each row group of IMAGES. Its columns are the id of an image, the shape
with the highest score, and this score. Files are complete when they appear, so a run that was killed can be repeated
and continues with the missing row groups. With --ray, workers of a Ray cluster take row groups; all nodes must see both
paths.
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
"""Files that the scores depend on: with others, a folder of results cannot be continued."""


def compiled() -> pd.Artifact:
    """Compile the model with the C function in place of its activation.

    There is one variant of the code, for all CPUs of the architecture: every machine of a cluster computes the same
    bits. The default has a faster one for this machine's CPU, too.
    """
    return pd.compile(HERE / "model.mlir", patterns=[hard_swish], require_match=True, cpu="generic")


def read(images: Path, group: int) -> pa.Table:
    """Return the columns id and pixels of one row group, counted from 0."""
    return pq.ParquetFile(images).read_row_group(group, columns=["id", "pixels"])


def pixels_of(column: pa.ChunkedArray) -> np.ndarray:
    """Return binary values of 256 bytes, one for each image, as the input of the model: f32[n, 256] from 0 to 1."""
    # Buffer 0 of an array of Arrow says which values are null; buffer 1 has the values.
    data = np.concatenate([np.frombuffer(chunk.buffers()[1], np.uint8) for chunk in column.chunks])
    return data.reshape(len(column), -1).astype(np.float32) / 255


def write(out: Path, group: int, ids: Any, scores: np.ndarray) -> None:
    """Write the results of a row group, under a temporary name first, so that the file is never incomplete.

    Args:
        out: the folder of results.
        group: number of the row group.
        ids: array with the id of each image.
        scores: f32[images, shapes] of the model.
    """
    best = scores.argmax(1)
    named = pa.DictionaryArray.from_arrays(pa.array(best.astype(np.int8)), list(SHAPES))
    table = pa.table({"id": ids, "shape": named, "score": scores[np.arange(len(best)), best]})
    path = out / f"part-{group:05}.parquet"
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    pq.write_table(table, temporary)
    temporary.replace(path)


def remaining(images: Path, out: Path) -> list[int]:
    """Return the numbers of the row groups without results in `out`, which is created if it does not exist.

    job.json in the folder identifies the images and the model. SystemExit if it is that of another job.
    """
    out.mkdir(parents=True, exist_ok=True)
    digests = [hashlib.sha256((HERE / name).read_bytes()).hexdigest() for name in SOURCES]
    status = images.stat()
    job = json.dumps({"images": [str(images.resolve()), status.st_size, status.st_mtime_ns], "sources": digests})
    note = out / "job.json"
    if note.exists() and note.read_text() != job:
        raise SystemExit(f"{out} has results of other images or of another model; give another folder")
    note.write_text(job)
    for temporary in out.glob("*.tmp"):  # of a run that was killed
        temporary.unlink()
    groups = range(pq.ParquetFile(images).num_row_groups)
    return [group for group in groups if not (out / f"part-{group:05}.parquet").exists()]


def in_this_process(images: Path, out: Path, groups: list[int], batch: int) -> Iterator[tuple[int, int]]:
    """Classify row groups one after another, `batch` images a call.

    Yields:
        The number of each row group whose file was written, and the id of the process that wrote it.
    """
    model = pd.device("cpu").load(compiled(), parameters={"model": HERE / "weights.npz"}).main
    for group in groups:
        table = read(images, group)
        pixels = pixels_of(table["pixels"])
        scores = [model(pixels[first : first + batch]) for first in range(0, len(pixels), batch)]
        write(out, group, table["id"], np.concatenate(scores))
        yield group, os.getpid()


def on_cluster(images: Path, out: Path, groups: list[int], batch: int) -> Iterator[tuple[int, int]]:
    """Classify row groups on workers of Ray. Arguments and results are those of in_this_process()."""
    import ray

    from pydispatch.integrations.ray import predict

    def read_group(row: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the ids and pixels of the row group with the number in `row`, and the number for each image."""
        (group,) = row["item"]
        table = read(images, group)
        columns = {"id": table["id"].to_numpy(), "pixels": pixels_of(table["pixels"])}
        return columns | {"group": np.full(len(table), group)}

    def write_groups(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Write the results of the row groups in a block, and return their numbers and the id of this process."""
        # Ray passes whole blocks, each from one read_group() call, unless it has split a large one.
        metadata = pq.ParquetFile(images).metadata
        done = np.unique(rows["group"])
        for group in done:
            chosen = rows["group"] == group
            if chosen.sum() != metadata.row_group(group).num_rows:
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
    """Classify the row groups that have no results yet, and print each one that is done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--batch", type=int, default=250, help="images in a call of the model")
    parser.add_argument("--ray", action="store_true", help="on the cluster of RAY_ADDRESS, or one of this machine")
    args = parser.parse_args()
    groups = remaining(args.images, args.out)
    print(f"{len(groups)} row groups to do", flush=True)
    run = on_cluster if args.ray else in_this_process
    for done, (group, process) in enumerate(run(args.images, args.out, groups, args.batch) if groups else (), 1):
        print(f"row group {group} by process {process}: {done} of {len(groups)}", flush=True)


if __name__ == "__main__":
    main()
