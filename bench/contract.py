"""Contractions and windows beside the peer and OpenBLAS: shapes and layouts that bench/tensors.py does not have.

    python bench/contract.py [--workers N] [--only TEXT] [--seconds S]

OpenBLAS has as many threads as workers. Contenders alternate; the least times are compared.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Read when NumPy is imported.
os.environ["OPENBLAS_NUM_THREADS"] = sys.argv[sys.argv.index("--workers") + 1] if "--workers" in sys.argv else "1"

import numpy as np
import programs
from contract_works import products, windows
from report.figures import Figures, parser, rows_of, table

import pydispatch as pd
from pydispatch.bench.measure import measure
from pydispatch.bench.peers import iree

METHOD = "Least times; contenders alternate in one process, with pauses, since threads of some spin after a call."
"""How the figures were measured, for the report."""


def main() -> None:
    """Measure each case, after a comparison of its result with NumPy's, or IREE's where NumPy has no function."""
    arguments = parser(__doc__)
    arguments.add_argument("--workers", type=int, default=1)
    arguments.add_argument("--only", default="", help="cases with this text in their names")
    arguments.add_argument("--seconds", type=float, default=0.3, help="per contender")
    args = arguments.parse_args()
    iree.set_workers(args.workers)
    figures = Figures("Contractions and windows", METHOD)
    with tempfile.TemporaryDirectory() as folder:
        for index, (name, text, inputs, numpy, _multiplications) in enumerate((*products(), *windows())):
            if args.only not in name:
                continue
            artifact = pd.compile(text, targets="cpu", cpu="native")
            flags = *iree.THIS_CPU, "--iree-input-demote-f64-to-f32=false"
            vmfb = programs.peer_compile(text, Path(folder) / f"{index}.vmfb", *flags)
            peer = iree.Module(vmfb, "local-sync" if args.workers == 1 else "local-task")
            own = pd.device(f"cpu?workers={args.workers}").load(artifact).f.prepare(*inputs)
            # Without NumPy's way the two compilers are compared with each other.
            expected = numpy() if numpy is not None else np.asarray(peer.function("f")(*inputs))
            np.testing.assert_allclose(own(), expected, rtol=1e-3, atol=1e-2)
            contenders: dict[str, Callable[[], Any]] = {"pydispatch": own, "iree": peer.raw("f", *inputs)}
            if numpy is not None:
                contenders["numpy"] = numpy
            samples = measure(contenders, args.seconds, pause=programs.PAUSE)
            rows = rows_of("a call", samples, name, args.workers, least=True)
            print(table(rows), flush=True)
            figures.rows += rows
    if args.json:
        figures.save(args.json)


if __name__ == "__main__":
    main()
