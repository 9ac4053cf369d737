"""Notebooks as pages of the site: Markdown, code, and the outputs that a notebook stores."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def page(notebook: Path, markdown: Callable[[str], str]) -> tuple[str, dict[str, str]]:
    """Return the text of a page, and its pictures by file name. markdown: rewrites the text of a cell."""
    pictures: dict[str, str] = {}
    parts = [f"*This page is the notebook `examples/notebooks/{notebook.name}`, with the outputs of its last run.*"]
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(markdown(source))
        else:
            parts.append(f"```python\n{source}\n```")
            parts += outputs(cell["outputs"], notebook.stem, pictures)
    title, _, rest = parts[1].partition("\n")
    return "\n\n".join([title, parts[0], rest.strip(), *parts[2:]]) + "\n", pictures


def outputs(found: list[dict[str, Any]], name: str, pictures: dict[str, str]) -> Iterator[str]:
    """Yield the outputs of a cell as Markdown; adds their pictures to `pictures`."""
    for output in found:
        data = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
        if "image/svg+xml" in data:
            file = f"{name}-{len(pictures) + 1}.svg"
            pictures[file] = data["image/svg+xml"]
            yield f"![The plot that the cell above draws]({file})"
        elif "text/html" in data:
            yield data["text/html"]
        else:
            text = "".join(output.get("text", [])) or data["text/plain"]
            yield f"```text\n{text.rstrip()}\n```"
