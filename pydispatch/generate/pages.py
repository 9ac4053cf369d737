"""Pages of the cache of keys and values: allocation, reference counts, and reuse for equal prefixes of tokens."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np

SCRAP_PAGE = 0
"""Page that no sequence owns. A call of the program writes keys and values of padding tokens there, and unused entries
of page tables refer to it."""

_KEY_BYTES = 16
"""Size of a page's key. A collision would show one request the tokens of another, so a shorter key is no option."""


def page_key(parent: bytes, tokens: np.ndarray, prompt_tokens: int) -> bytes:
    """Return the key of a full page: a hash of all tokens from the start of the sequence to the end of the page.

    Args:
        parent: Key of the page before; b"" for the first page.
        tokens: i32[page_size], the tokens of this page.
        prompt_tokens: How many of them belong to the prompt, which `prefill` computes; `decode` computes the others.
            The two may round differently, so pages with other numbers of prompt tokens have other keys.
    """
    digest = blake2b(parent, digest_size=_KEY_BYTES)
    digest.update(tokens.tobytes())
    digest.update(prompt_tokens.to_bytes(4, "little"))
    return digest.digest()


class PagePool:
    """Allocator of the pages of the cache of keys and values of one engine, with the references to each page.

    A page is free, referenced by one or more sequences, or retained: without references, but published under a key, so
    that a later sequence with equal tokens can use it. Retained pages are evicted when no page is free, the least
    recently used first. SCRAP_PAGE, which is page 0, belongs to no sequence and is never allocated.
    """

    def __init__(self, count: int) -> None:
        """Create a pool of `count` pages, including SCRAP_PAGE, to which padding tokens are written."""
        self._free = list(range(count - 1, SCRAP_PAGE, -1))  # all pages but the scrap page
        self._references = [0] * count  # page → number of sequences that reference it
        # Page → its key (`page_key`) if it is published, else None.
        self._keys: list[bytes | None] = [None] * count
        self._published: dict[bytes, int] = {}  # key → page
        self._retained: OrderedDict[int, None] = OrderedDict()  # least recently used first

    @property
    def available(self) -> int:
        """Number of pages that can be allocated: free pages, and retained ones, which `allocate` evicts."""
        return len(self._free) + len(self._retained)

    @property
    def retained(self) -> int:
        """Number of pages without references that are retained for reuse."""
        return len(self._retained)

    @property
    def referenced(self) -> int:
        """Number of pages that sequences use."""
        return len(self._references) - 1 - self.available  # without the scrap page

    def allocate(self) -> int | None:
        """Return a page with one reference; None if sequences use all pages.

        If no page is free, evict the least recently used one of those that are retained without a reference.
        """
        if self._free:
            page = self._free.pop()
        elif self._retained:
            page, _ = self._retained.popitem(last=False)
            self._unpublish(page)
        else:
            return None
        self._references[page] = 1
        return page

    def acquire(self, keys: Sequence[bytes]) -> list[int]:
        """Return the pages of the longest prefix of `keys` whose pages are all published, with one more reference each.

        keys: those of a sequence's full pages in order. `page_key` hashes the tokens, so that sequences with the same
            first tokens find the same pages.
        """
        pages = []
        for key in keys:
            page = self._published.get(key)
            if page is None:
                break
            if self._references[page] == 0:
                del self._retained[page]
            self._references[page] += 1
            pages.append(page)
        return pages

    def count_unreferenced(self, keys: Iterable[bytes]) -> int:
        """Return how many of these keys have no page that a sequence references.

        For each of them `acquire` or `allocate` takes one of the available pages.
        """
        pages = (self._published.get(key) for key in keys)
        return sum(page is None or self._references[page] == 0 for page in pages)

    def publish(self, page: int, key: bytes) -> None:
        """Let later sequences use a full page under its key; its content must not change any more.

        If another page was published under this key, nothing changes: later sequences use that page.
        """
        if key not in self._published:
            self._published[key] = page
            self._keys[page] = key

    def release(self, pages: Sequence[int]) -> None:
        """Remove one reference from each page of a sequence; `pages` are in the order of its tokens.

        Later pages are evicted before earlier ones, because `acquire` finds pages from the first one on: a page whose
        predecessor was evicted could not be reused.
        """
        for page in reversed(pages):
            self._references[page] -= 1
            if self._references[page] == 0:
                if self._keys[page] is None:
                    self._free.append(page)
                else:
                    self._retained[page] = None

    def _unpublish(self, page: int) -> None:
        """Remove the key of a published page, so that its content may change."""
        key = self._keys[page]
        if key is not None:
            del self._published[key]
            self._keys[page] = None
