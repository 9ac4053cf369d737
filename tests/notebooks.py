"""Run the notebooks of examples/notebooks as Jupyter does, without Jupyter.

`python tests/notebooks.py --write` runs all of them and stores their outputs.

The code cells of a notebook run in order in a fresh interpreter. The value of a last expression is shown by its
`_repr_svg_` or `_repr_html_`, and as text. A cell with the tag `timing` shows figures, which differ from run to run.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
REPRESENTATIONS = {"image/svg+xml": "_repr_svg_", "text/html": "_repr_html_"}

Output = dict[str, Any]
"""An output of a cell, in the form of nbformat 4."""


def code_cells(notebook: Path) -> Iterator[dict[str, Any]]:
    """Yield the code cells of a notebook, in order."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield cell


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def run_cell(source: str, number: int, names: dict[str, Any]) -> list[Output]:
    """Execute one cell over the names of the cells before it."""
    file = f"<cell {number}>"
    linecache.cache[file] = (len(source), None, lines(source), file)  # kernels read their own source
    *statements, last = ast.parse(source).body
    shown = last if isinstance(last, ast.Expr) and not source.rstrip().endswith(";") else None
    module = ast.Module(statements if shown else [*statements, last], [])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(module, file, "exec"), names)
        value = eval(compile(ast.Expression(shown.value), file, "eval"), names) if shown else None
    found: list[Output] = []
    if printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        data = {
            mime: lines(getattr(value, method)()) for mime, method in REPRESENTATIONS.items() if hasattr(value, method)
        }
        data["text/plain"] = lines(str(value) if data else repr(value))
        found.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return found


def run_here(notebook: Path) -> list[list[Output]]:
    """Execute all cells in this process, from the folder of the notebook."""
    os.chdir(notebook.parent)
    sys.path.insert(0, str(notebook.parent))
    names: dict[str, Any] = {"__name__": "__main__"}
    return [run_cell("".join(cell["source"]), n, names) for n, cell in enumerate(code_cells(notebook), 1)]


def run(notebook: Path) -> list[list[Output]]:
    """Execute all cells in a fresh interpreter, and return the outputs of each."""
    words = [sys.executable, __file__, "--run", str(notebook)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{notebook.name}:\n{done.stderr}"
    outputs: list[list[Output]] = json.loads(done.stdout.splitlines()[-1])
    return outputs


def comparable(outputs: list[Output], has_figures: bool) -> list[Any]:
    """Return outputs without what may differ between two runs. has_figures: only the kinds of outputs are compared."""
    if has_figures:
        return [sorted(output.get("data", [output["output_type"]])) for output in outputs]
    return [output.get("data", output.get("text")) for output in outputs]


def write(notebook: Path) -> None:
    """Run a notebook and store the outputs in it."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    for number, (cell, outputs) in enumerate(zip(cells, run(notebook), strict=True), 1):
        cell |= {"execution_count": number, "outputs": outputs}
    notebook.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        print(json.dumps(run_here(Path(sys.argv[2]).resolve())))
    elif sys.argv[1] == "--write":
        for path in NOTEBOOKS:
            write(path)
