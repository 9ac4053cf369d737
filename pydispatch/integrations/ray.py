"""Functions of programs over datasets of Ray: a pool of workers that each load the artifact once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pydispatch._core.rowwise import Stacking
from pydispatch.errors import Error, InvalidArgumentError
from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.packages import importing
from pydispatch.runtime.device import device

Batch = dict[str, np.ndarray]
"""Columns of some rows of a dataset by name."""


def predict(
    dataset: Any,
    artifact: str | os.PathLike[str] | bytes | Artifact,
    function: str = "main",
    *,
    inputs: Callable[[Batch], Mapping[str, Any]] | Mapping[str, str] | None = None,
    outputs: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    constants: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    batch_size: int | None = 256,
    threads: int = 1,
    workers: int | tuple[int, int] | None = None,
    retries: int = 2,
    **options: Any,
) -> Any:
    """Return the results of `function` for the rows of a `ray.data.Dataset`, as a Dataset that computes them when it is
    read.

    The artifact, constants and parameters are in Ray's object store once for each node. Each worker copies the artifact
    once; it reads constants and parameters in the store if they are aligned there.

    Args:
        dataset: The dataset.
        artifact: The artifact, its bytes, or its path.
        function: Name of the function.
        inputs: Column of each argument by name, by default of the same name. Or a function of a batch, a mapping from
            columns to arrays. The function returns the arguments by name, each with as many rows as the batch.
        outputs: Columns of the results; by default their names in the program, or "result0" and so on.
        keep: Columns of the dataset that the result has too.
        constants: Arguments that are the same for all rows.
        parameters: Arrays of the artifact's external weights by name, as for `load` of a device.
        batch_size: Rows of a call; None for the blocks of the dataset.
        threads: Threads of a worker, and CPUs that Ray counts for it.
        workers: Number of workers, or a pair (minimum, maximum); by default as many as the cluster has CPUs for.
        retries: How often a batch is computed again after an error of the program, before the error ends the job. A
            batch whose worker dies is passed to another one.
        options: Further options of `Dataset.map_batches`.

    Raises:
        InvalidArgumentError: An option is wrong. Errors of the function are raised when the result is read.
    """
    with importing("integrations.ray", "ray"):
        import ray
        from ray.data import ActorPoolStrategy
    if threads < 1 or retries < 0:
        raise InvalidArgumentError(f"expected threads >= 1 and retries >= 0, got {threads} and {retries}")
    if workers is None:
        workers = 1, max(1, int(ray.cluster_resources().get("CPU", 1) // threads))
    min_workers, max_workers = workers if isinstance(workers, tuple) else (workers, workers)
    if not 1 <= min_workers <= max_workers:
        raise InvalidArgumentError(
            f"workers: expected a number, or a pair (minimum, maximum) with 1 <= minimum <= maximum, got {workers!r}"
        )
    data = _bytes_of(artifact)
    shared = ray.put((np.frombuffer(data, np.uint8), dict(constants or {}), dict(parameters or {})))
    return dataset.map_batches(
        Predictor,
        fn_constructor_args=([shared], function, inputs, outputs, tuple(keep), threads, retries),
        batch_size=batch_size,
        batch_format="numpy",
        compute=ActorPoolStrategy(min_size=min_workers, max_size=max_workers),
        num_cpus=threads,
        udf_modifying_row_count=False,
        **options,
    )


def _bytes_of(artifact: str | os.PathLike[str] | bytes | Artifact) -> bytes:
    """Return the bytes of an artifact, which may be a path."""
    if isinstance(artifact, bytes):
        return artifact
    if not isinstance(artifact, Artifact):
        artifact = Artifact.from_file(artifact)
    return artifact.to_bytes()


class Predictor:
    """Callable that `Dataset.map_batches` applies in a worker; it maps a batch of columns to a batch of columns."""

    def __init__(
        self,
        shared: Sequence[Any],
        function: str,
        inputs: Callable[[Batch], Mapping[str, Any]] | Mapping[str, str] | None,
        outputs: Sequence[str] | None,
        keep: Sequence[str],
        threads: int,
        retries: int,
    ) -> None:
        """Load the artifact in a worker.

        Args:
            shared: List of one reference to (bytes of the artifact as an array, constants by name, parameters by name).
                It is a list because Ray replaces references that are arguments by copies of their objects.
            function: Name of the function.
            inputs: Column of each argument by name, or a function of a batch that returns the arguments by name.
            outputs: Columns of the results; None for their names in the program, or "result0" and so on.
            keep: Columns of the dataset that the result has too.
            threads: Threads of the worker.
            retries: How often a batch is computed again after an error of the program.

        Raises:
            InvalidArgumentError: `outputs` has another number of columns than the function has results.
        """
        import ray

        artifact, constants, parameters = ray.get(shared[0])  # arrays in the object store, which stay there
        self._program = device(f"cpu?workers={threads}").load(memoryview(artifact), parameters or None)
        called = self._program[function]
        self._stacking = Stacking(called, constants)  # calls the function with rows that are stacked to a batch
        self._function_name = self._stacking.name
        self._program_outputs = called.outputs
        self._inputs, self._keep, self._retries = inputs, keep, retries
        names = [value.name or f"result{i}" for i, value in enumerate(called.outputs)]
        self._outputs = list(outputs or names)
        if len(self._outputs) != len(names):
            raise InvalidArgumentError(f"outputs: @{function} has {len(names)} results, got {self._outputs}")

    def __call__(self, batch: Batch) -> Batch:
        """Return the columns of the results, and those of `keep`, for a batch.

        For `main(x: float32[n, 4]) -> float32[n, 2]` with outputs ["y"] and keep ["id"], a batch of 600 rows with the
        columns "id" and "x" gives {"id": 600 values, "y": an array of the shape (600, 2)}.

        A function that was compiled for a fixed batch size, such as 256, is called for rows 0 to 255, for 256 to 511,
        and for the remaining 88.
        """
        if not batch:  # no column says how many rows there are
            return {}
        rows = len(next(iter(batch.values())))
        passed_columns = self._columns("keep", {name: name for name in self._keep}, batch)
        if not rows:
            return passed_columns | self._empty_results()
        columns = self._arguments(batch)
        batch_rows = self._stacking.fixed or rows  # rows of one call: without a fixed batch size, all
        # The last block may have fewer rows. `Stacking.run` adds copies of its first row, and drops their results.
        results_of_blocks = []
        for start in range(0, rows, batch_rows):
            block = tuple(value[start : start + batch_rows] for value in columns)
            results_of_blocks.append(self._run(block, count=min(batch_rows, rows - start)))
        if len(results_of_blocks) == 1:
            results = results_of_blocks[0]
        else:
            results = [np.concatenate(blocks) for blocks in zip(*results_of_blocks, strict=True)]
        return passed_columns | dict(zip(self._outputs, results, strict=True))

    def _empty_results(self) -> Batch:
        """Return the results for a batch without rows: arrays with the right dtypes, and 0 for dynamic sizes."""
        empty: Batch = {}
        for name, value in zip(self._outputs, self._program_outputs, strict=True):
            shape = [0, *(n if isinstance(n, int) else 0 for n in (value.shape or ())[1:])]
            empty[name] = np.empty(shape, value.dtype)
        return empty

    def _columns(self, what: str, wanted: Mapping[str, str], batch: Batch) -> Batch:
        """Return the column for each name. `wanted`: name → name of its column in the batch.

        Raise InvalidArgumentError for a column that the batch lacks. `what` is the option in the error, such as "keep".
        """
        missing = [column for column in wanted.values() if column not in batch]
        if missing:
            raise InvalidArgumentError(
                f"@{self._function_name}: {what}: there is no column '{missing[0]}'; there are: {', '.join(batch)}"
            )
        return {name: batch[column] for name, column in wanted.items()}

    def _arguments(self, batch: Batch) -> list[np.ndarray]:
        """Return the arrays of a batch in the order of the function's arguments.

        Raise InvalidArgumentError if an array is missing, has another element type, or another number of rows than the
        batch.
        """
        # Arrays of the batch by the name of the argument: from the user's function, or the columns that `inputs` names.
        arguments = self._stacking.arguments
        columns: Any = self._inputs or {argument.name: argument.name for argument in arguments}
        named = columns(batch) if callable(columns) else self._columns("inputs", columns, batch)
        missing = [argument.name for argument in arguments if argument.name not in named]
        if missing:
            raise InvalidArgumentError(
                f"@{self._function_name}: inputs: there is none for '{missing[0]}'; it takes "
                f"{', '.join(argument.name for argument in arguments)}, and `inputs` gives {', '.join(named) or 'none'}"
            )
        stacked = [_stacked(named[argument.name]) for argument in arguments]  # an array of arrays becomes one array
        rows = len(next(iter(batch.values())))
        for argument, value in zip(arguments, stacked, strict=True):
            is_number = argument.tail is None  # `tail`: the sizes after the batch dimension; a number has no rows
            if is_number or value.dtype != argument.dtype or value.shape[:1] != (rows,):
                raise InvalidArgumentError(
                    f"{argument.text}: expected an array of {argument.dtype} with {rows} rows, got {value.dtype}"
                    f"{list(value.shape)}; convert it in `inputs`, a function of the batch"
                )
        return stacked

    def _run(self, arguments: tuple[np.ndarray, ...], count: int) -> Sequence[np.ndarray]:
        """Call the function, and repeat the call after errors that may be transient.

        Args:
            arguments: An array of `count` rows for each argument that is not a constant.
            count: Number of rows, at most the fixed batch size of the function if it has one.
        """
        for attempt in range(self._retries):
            try:
                return self._stacking.run([arguments], count)  # a list of blocks of rows: one block
            except InvalidArgumentError:
                raise
            except Error:
                time.sleep(0.1 * 2**attempt)  # memory may be free again
        return self._stacking.run([arguments], count)  # the last try, whose error ends the job


def _stacked(column: Any) -> np.ndarray:
    """Return a column as one array; in some formats, Ray passes an array of arrays."""
    array = np.asarray(column)
    return np.stack(array) if array.dtype == object and len(array) else array  # type: ignore[call-overload]
