"""Writes the models of `cases.py` with what PyTorch computes: python tests/frontends/torch/make_models.py [NAME ...]

For each one `models/NAME.pt2`, and `models/NAME.npz` with the inputs of call N as N.in.M and its results as N.out.M.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cases import CASES, Case, exported, flat

FOLDER = Path(__file__).resolve().parent / "models"


def write(name: str, case: Case) -> None:
    """Both files of a case."""
    model, program = exported(case)
    _strip(program.graph_module)
    program.example_inputs = None
    torch.export.save(program, FOLDER / f"{name}.pt2")
    model, arrays = copy.deepcopy(case.make()), {}
    model.load_state_dict({**model.state_dict(), **program.state_dict})
    model.train(case.train)
    torch.manual_seed(2)
    makers = [case.inputs] * case.calls + ([case.more] if case.more else [])
    for n, make in enumerate(makers):
        inputs = make()
        arrays.update({f"{n}.in.{m}": x.numpy().copy() for m, x in enumerate(inputs)})
        with torch.no_grad():
            results = flat(model(*inputs))
        arrays.update({f"{n}.out.{m}": x.numpy().copy() for m, x in enumerate(results)})
    _save(FOLDER / f"{name}.npz", arrays)


def _strip(module: torch.fx.GraphModule) -> None:
    """Takes out where nodes come from: it is most of a small file, and differs from machine to machine."""
    for each in module.modules():
        for node in each.graph.nodes if isinstance(each, torch.fx.GraphModule) else ():
            for key in ("stack_trace", "from_node", "torch_fn", "source_fn_stack"):
                node.meta.pop(key, None)


def _save(path: Path, arrays: dict[str, Any]) -> None:
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or CASES:
        write(name, CASES[name])
        print(name, (FOLDER / f"{name}.pt2").stat().st_size)
