"""Other systems that a program is compared with: `--peer=iree,onnxruntime=model.onnx`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydispatch.bench import peers
from pydispatch.errors import InvalidArgumentError


@dataclass(frozen=True)
class Question:
    """Function call that a peer is to measure.

    Attributes:
        file: The file that the user passed for the peer, or else the program.
        function: Name of the function.
        inputs: Arrays and numbers, in order.
        workers: Number of threads that the peer may use.
        folder: Folder for files that the peer writes.
    """

    file: Path
    function: str
    inputs: Sequence[Any]
    workers: int
    folder: Path


def names() -> list[str]:
    """Return the names of all peers, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(peers.__path__))


def parse(text: str) -> list[tuple[str, str]]:
    """Parse the value of `--peer` into pairs (name, file); raise InvalidArgumentError for an unknown peer.

    The file is "" for a peer that reads the file of the program.
    """
    selected = []
    for item in text.split(","):
        name, _, file = item.partition("=")
        if name not in names():
            raise InvalidArgumentError(f"--peer={text}: expected names of {', '.join(names())}, got '{name}'")
        selected.append((name, file))
    return selected


def contender(name: str, question: Question) -> Any:
    """Return the `Work` of a peer, another system that is measured: its call, and the results of a first call.

    A peer is a module of `peers`, such as `peers.onnxruntime`, with `READS` (suffixes of its files), `PACKAGES` (to
    install) and `work`, a function that returns the Work for a question: file, function, inputs and threads.

    Raises:
        InvalidArgumentError: The peer cannot read files with the suffix of `question.file`, or is not installed.
    """
    module = importlib.import_module(f"{peers.__name__}.{name}")
    if question.file.suffix not in module.READS:
        suffixes = " or ".join(module.READS)
        raise InvalidArgumentError(
            f"--peer={name}: it does not read '{question.file}'; give it a file of its own: --peer={name}=FILE with "
            f"a {suffixes} file of the same function"
        )
    try:
        return module.work(question)
    except ModuleNotFoundError as error:
        raise InvalidArgumentError(
            f"--peer={name}: {error.name} is not installed: pip install {module.PACKAGES}"
        ) from None
