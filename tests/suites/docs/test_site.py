"""The site of the documents: what was built, read as a browser would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import pydispatch

ROOT = Path(__file__).parents[3]


class Page(HTMLParser):
    """The anchors, links and loaded files of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        is_loaded_link = tag == "link" and values.get("rel") in ("stylesheet", "icon", "preconnect")
        if tag in ("script", "img", "iframe") or is_loaded_link:
            self.loaded += [values[name] for name in ("src", "href") if name in values]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="session")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}


def test_every_document_has_a_page(site: Path, pages: dict[Path, Page]) -> None:
    documents = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    generated = {Path("index"), *(Path("reference", name) for name in ("python", "cli", "c"))}
    generated |= {Path("notebooks", path.stem) for path in (ROOT / "examples" / "notebooks").glob("*.ipynb")}
    readmes = [path for top in ("pydispatch", "csrc", "_core", "tests") for path in (ROOT / top).rglob("README.md")]
    generated |= {Path("folders", path.parent.relative_to(ROOT)) for path in readmes}
    assert documents | generated == {path.relative_to(site).with_suffix("") for path in pages}


def test_links_and_anchors(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{path.name} points at {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, f"{path.name} points at {link}"


def test_nothing_comes_from_the_network(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert [name for name in page.loaded if urlsplit(name).netloc] == [], path.name
    for style in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//[^)\"']+", style.read_text()) == [], style.name


def test_every_public_name_is_in_the_reference_and_is_found(site: Path, pages: dict[Path, Page]) -> None:
    text = (site / "reference" / "python.html").read_text()
    assert [name for name in pydispatch.__all__ if f"<code>{name}</code>" not in text] == []
    commands = (site / "reference" / "cli.html").read_text()
    assert [name for name in ("compile", "run", "bench") if f"pydispatch {name}" not in commands] == []
    found = (site / "search" / "search_index.js").read_text()
    assert "reference/python.html#atomic_add" in found and "tutorial.html" in found


def test_the_overview_of_the_reference_has_its_generated_pages(site: Path) -> None:
    table = (site / "reference" / "index.html").read_text().partition("<table>")[2].partition("</table>")[0]
    assert all(f'href="{name}.html"' in table for name in ("python", "cli", "c"))


def test_cells_of_tables_show_no_escaped_bars(pages: dict[Path, Page]) -> None:
    for path in pages:
        cells = re.findall(r"<td[^>]*>(.*?)</td>", path.read_text(), re.DOTALL)
        assert [cell for cell in cells if "\\|" in cell] == [], path.name
