"""Arrays of one function's arguments and result, which each step changes in place."""

from __future__ import annotations

import numpy as np

from pydispatch.generate.interface import StepFunction
from pydispatch.generate.pages import SCRAP_PAGE
from pydispatch.generate.sequence import Sampling


class CallArrays:
    """The arguments of one function, `prefill` or `decode`, and its prepared call, which is bound to these arrays.

    The scheduler creates one for each of the two functions, changes the arrays in place before a call, calls `run`, and
    reads `sampled`.

    A row is one sequence of the call; a row with a count of 0 is unused. The keys and values of a sequence are in pages
    of the cache, of `page_size` tokens each. Its page table lists these pages in order: token q of the sequence is at
    offset q % page_size of page pages[row, q // page_size].

    Example: `decode` has rows=4, table_pages=3 and pages of 16 tokens. A sequence of 18 tokens, the last one 42, is in
    row 0 and has the pages 5 and 9. Then tokens[0] = [42], starts[0] = 17, counts = [1, 0, 0, 0] and
    pages[0] = [5, 9, SCRAP_PAGE]. The call writes the keys and values of token 17 to page 9; sampled[0] is token 18.

    rows: sequences of a call. width: tokens of a row. table_pages: entries of a row's page table.

    Attributes:
        tokens: i32[rows, width].
        first_tokens: i32[rows], a view of the first column of `tokens`: one token of each row, when decoding.
        starts: i32[rows], the position in its sequence of the first token of each row.
        counts: i32[rows], the number of valid tokens of each row.
        pages: i32[rows, table_pages], the page table of each row's sequence; unused entries are SCRAP_PAGE, a page that
            belongs to no sequence.
        sampled: i32[rows], the result: the next token of each row. The token of an unused row is unspecified.
    """

    def __init__(self, function: StepFunction, rows: int, width: int, table_pages: int) -> None:
        """Allocate the arrays with all rows unused, and prepare the call of `function`, which is bound to them.

        function: `prefill` or `decode` of the program. rows: sequences of a call. width: tokens of a row. table_pages:
        entries of a row's page table, which are SCRAP_PAGE, a page that belongs to no sequence, until they are set.
        """
        self.tokens = np.zeros((rows, width), np.int32)
        self.first_tokens = self.tokens[:, 0]
        self.starts = np.zeros(rows, np.int32)
        self.counts = np.zeros(rows, np.int32)
        self.pages = np.full((rows, table_pages), SCRAP_PAGE, np.int32)
        self.sampled = np.zeros(rows, np.int32)
        # Parameters by which the token of each row is chosen. These values choose the most probable one.
        self._temperature = np.zeros(rows, np.float32)
        self._top_k = np.zeros(rows, np.int32)
        self._top_p = np.ones(rows, np.float32)
        self._seeds = np.zeros(rows, np.int32)
        self.run = function.prepare(
            self.tokens,
            self.starts,
            self.counts,
            self.pages,
            self._temperature,
            self._top_k,
            self._top_p,
            self._seeds,
            out=self.sampled,
        )
        """Function without arguments that runs the call on the arrays' present contents, and fills `sampled`."""

    def set_sampling(self, row: int, sampling: Sampling) -> None:
        """Write the sampling parameters of one request into the row of its sequence."""
        self._temperature[row] = sampling.temperature
        self._top_k[row] = sampling.top_k
        self._top_p[row] = sampling.top_p
        self._seeds[row] = sampling.seed
