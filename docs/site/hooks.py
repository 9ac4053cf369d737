"""Hooks of MkDocs: the README is the home page, the reference is generated, files outside of docs/ are named."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import reference

ROOT = Path(__file__).parents[2]
WORKER = re.compile(r"https://[^\"]+/iframe-worker/shim")  # for pages that are opened as files
LINK = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def outside_named(text: str, folder: str) -> str:
    """Return the text of a file of `folder` for the site: links that leave docs/ become their text and the path."""
    page = folder or "docs"  # the README becomes docs/index.md

    def replaced(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        if target == "README.md":
            target = "docs/index.md"
        if target.startswith("docs/"):
            return f"[{link[1]}]({posixpath.relpath(target, page)}{link[3] or ''})"
        shown = link[1].strip("`")
        return f"`{target}`" if shown == target else f"{link[1]} (`{target}`)"

    return LINK.sub(replaced, text)


def on_files(files: Any, *, config: Any) -> Any:
    from mkdocs.structure.files import File

    pages = {"index.md": outside_named((ROOT / "README.md").read_text(), "")}
    pages |= {f"reference/{name}.md": text for name, text in reference.pages().items()}
    pages["assets/worker.js"] = (ROOT / "docs" / "site" / "worker.js").read_text()
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri)).rstrip("/")
    return markdown if page.file.generated_by else outside_named(markdown, folder)


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    assert WORKER.search(output), f"the theme no longer loads {WORKER.pattern}: docs/site/worker.js may be needless"
    return WORKER.sub(posixpath.relpath("assets/worker.js", posixpath.dirname(page.file.dest_uri) or "."), output)


def on_post_template(output: str, *, template_name: str, config: Any) -> str:
    return WORKER.sub("/assets/worker.js", output)
