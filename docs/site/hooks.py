"""Hooks of MkDocs: the README is the home page, READMEs of folders and notebooks are
pages, the reference is generated.

Links to other files outside of docs/ become their text and the path.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import notebooks
import reference

ROOT = Path(__file__).parents[2]
WORKER = re.compile(r"https://[^\"]+/iframe-worker/shim")  # for pages that are opened as files
FOLDERS = ("pydispatch", "csrc", "_core", "tests")
LINK = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
CELL = re.compile(r"<td([^>]*)>(.*?)</td>", re.DOTALL)
TAG = re.compile(r"<[^>]+>")
LONG_NAME = re.compile(r"(?<!\S)(?=\S{12})\S*?\w[_.:/]+\w")
"""Pattern of a word of code, such as a qualified name, that is too long for a narrow column."""
GENERATED_ROWS = """\
| [Python](python.md) | every public name, with its docstring |
| [Command line](cli.md) | the help of each subcommand |
| [C](c.md) | the public headers |
"""
"""Rows of the overview of the reference for pages that are generated: only the site has them."""
WIDE_PAGES = ("benchmarks/", "ir.md")
"""Pages with tables that need the width of the table of contents."""
PROSE_CHARACTERS = 60
"""Least length of a cell that `site.css` keeps wide: with a higher limit, long cells are narrow columns on phones."""


def page_of(readme: str) -> str:
    """Return the page of the README of a folder, in docs/: `link/README.md` is `docs/folders/link.md`."""
    return f"docs/folders/{posixpath.dirname(readme)}.md"


READMES = {path.relative_to(ROOT).as_posix() for top in FOLDERS for path in (ROOT / top).rglob("README.md")}


def notebook_page(path: str) -> str:
    """Return the page of a notebook, in docs/."""
    return f"docs/notebooks/{Path(path).stem}.md"


NOTEBOOKS = {path.relative_to(ROOT).as_posix() for path in (ROOT / "examples" / "notebooks").glob("*.ipynb")}


def outside_named(text: str, folder: str, page: str) -> str:
    """Return the text of a file of `folder` for the site, where it is in the folder `page`: links that leave docs/ and
    name no page become their text and the path."""

    def replaced(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        if target == "README.md":
            target = "docs/index.md"
        elif target in READMES:
            target = page_of(target)
        elif target in NOTEBOOKS:
            target = notebook_page(target)
        if target.startswith("docs/"):
            return f"[{link[1]}]({posixpath.relpath(target, page)}{link[3] or ''})"
        shown = link[1].strip("`")
        return f"`{target}`" if target.startswith(shown) or target.endswith(f"/{shown}") else f"{link[1]} (`{target}`)"

    return LINK.sub(replaced, text)


def on_files(files: Any, *, config: Any) -> Any:
    from mkdocs.structure.files import File, InclusionLevel

    pages = {"index.md": outside_named((ROOT / "README.md").read_text(), "", "docs")}
    pages |= {f"reference/{name}.md": text for name, text in reference.pages().items()}
    for notebook in sorted(NOTEBOOKS):
        shown, pictures = notebooks.page(
            ROOT / notebook, lambda text: outside_named(text, "examples/notebooks", "docs/notebooks")
        )
        pages[posixpath.relpath(notebook_page(notebook), "docs")] = shown
        pages |= {f"notebooks/{name}": picture for name, picture in pictures.items()}
    pages["assets/worker.js"] = (ROOT / "docs" / "site" / "worker.js").read_text()
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    for readme in sorted(READMES):
        page = page_of(readme)
        text = outside_named((ROOT / readme).read_text(), posixpath.dirname(readme), posixpath.dirname(page))
        path = posixpath.relpath(page, "docs")
        files.append(File.generated(config, path, content=text, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    if page.file.src_uri.startswith(WIDE_PAGES):
        page.meta["hide"] = ["toc"]
    if page.file.src_uri == "reference/index.md":
        head = "|---|---|\n"
        markdown = markdown.replace(head, head + GENERATED_ROWS, 1)
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri)).rstrip("/")
    return markdown if page.file.generated_by else outside_named(markdown, folder, folder)


def on_page_content(html: str, *, page: Any, config: Any, files: Any) -> str:
    """Mark the cells of tables that hold prose or long names, and show `\\|` in them, as GitHub wants it, as `|`."""

    def marked(cell: re.Match[str]) -> str:
        attributes, content = cell.groups()
        shown = TAG.sub("", content)
        kinds = ["prose"] * (len(shown) >= PROSE_CHARACTERS) + ["long-names"] * bool(LONG_NAME.search(shown))
        kind = f' class="{" ".join(kinds)}"' if kinds else ""
        return f"<td{kind}{attributes}>{content}</td>".replace("\\|", "|")

    return CELL.sub(marked, html)


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    assert WORKER.search(output), f"the theme no longer loads {WORKER.pattern}: docs/site/worker.js may be needless"
    return WORKER.sub(posixpath.relpath("assets/worker.js", posixpath.dirname(page.file.dest_uri) or "."), output)


def on_post_template(output: str, *, template_name: str, config: Any) -> str:
    return WORKER.sub("/assets/worker.js", output)
