"""Decisions of each step: which sequences run, which chunk of a prompt, and which sequence gives way."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable
from operator import attrgetter

import numpy as np

from pydispatch.errors import DeviceUnavailableError
from pydispatch.generate.arrays import CallArrays
from pydispatch.generate.errors import DeadlineError
from pydispatch.generate.interface import GeneratingProgram
from pydispatch.generate.output import Completion, FinishReason, Wakeups
from pydispatch.generate.pages import SCRAP_PAGE, PagePool
from pydispatch.generate.sequence import WAITING, TokenSequence

_ORDER = attrgetter("order")
"""Key that sorts sequences by the order of their requests."""
_NEVER = float("inf")  # time of a deadline that does not exist


class Scheduler:
    """Scheduler of the requests of one engine. Only one thread calls it; `step` does all the work.

    A sequence waits, then runs: it has a row of the decode batch, and is first prefilling, then decoding. A step
    computes at most one chunk of one prompt, and one token of each decoding sequence. Sequences start in the order of
    their requests. When pages run out, the youngest running sequence is preempted: its pages are released, and it waits
    before all sequences that have not started. When it starts again, the keys and values of its tokens are recomputed:
    of its prompt by `prefill` and of generated tokens by `decode`, as the first time, so that rounding is the same.

    Attributes:
        pool: Pages of the cache.
        steps, prefills, preemptions: Numbers of calls of `decode`, of calls of `prefill`, and of preempted sequences.
    """

    def __init__(
        self,
        program: GeneratingProgram,
        max_sequences: int,
        clock: Callable[[], float],
        on_start: Callable[[TokenSequence], None],
        on_end: Callable[[TokenSequence], None],
    ) -> None:
        """Create a scheduler without sequences.

        Args:
            program: The program.
            max_sequences: Number of sequences that run at once, at most.
            clock: Returns seconds, for deadlines.
            on_start: Called when a sequence starts for the first time, not when it starts again after a preemption,
                the release of its pages for an older sequence.
            on_end: Called when a sequence has ended, also one that has never started.
        """
        self.pool = PagePool(program.page_count)
        self.steps = self.prefills = self.preemptions = 0
        self._page_size, self._chunk = program.page_size, program.chunk
        self._decode = CallArrays(program.decode, program.rows, width=1, table_pages=program.table_pages)
        self._prefill = CallArrays(program.prefill, rows=1, width=program.chunk, table_pages=program.table_pages)
        self._clock, self._on_start, self._on_end = clock, on_start, on_end
        # Each sequence is in one of three lists, all sorted by `order`.
        self._waiting: deque[TokenSequence] = deque()  # have neither a row nor pages
        self._prefilling: list[TokenSequence] = []  # have a row; their prompts are being computed
        self._decoding: list[TokenSequence] = []  # have a row; `decode` computes a token of each per step
        self._free_rows = list(range(max_sequences - 1, -1, -1))  # rows of `_decode`; the last one is used next
        self._may_start = False  # whether the oldest waiting sequence might fit now
        self._next_deadline = _NEVER  # earliest deadline of all sequences, or an earlier one of an ended sequence
        self._is_oldest_next = True  # whether `_compute_chunk` next takes the oldest prefilling sequence
        self._wakeups = Wakeups()  # readers to wake at the end of the step

    @property
    def is_idle(self) -> bool:
        """Whether no sequence waits or runs, so that `step` has nothing to do."""
        return not (self._decoding or self._prefilling or self._waiting)

    @property
    def running(self) -> int:
        """Number of sequences that have a row."""
        return len(self._decoding) + len(self._prefilling)

    def add(self, sequence: TokenSequence) -> None:
        """Append a sequence, the youngest one, to those that wait to start."""
        self._waiting.append(sequence)
        self._may_start = True
        self._next_deadline = min(self._next_deadline, sequence.deadline)

    def step(self) -> None:
        """Compute a chunk of a prompt and a token of each sequence that decodes; wake their readers.

        Raises:
            DeviceUnavailableError: The device is lost, and with it the cache.
        """
        if self._next_deadline != _NEVER:
            self._expire()
        if self._may_start:
            self._start()
        if self._prefilling:
            self._compute_chunk()
            self._wakeups.flush()  # first tokens do not wait for the next call
        if self._decoding:
            self._compute_tokens()
        self._wakeups.flush()

    def end(self, sequence: TokenSequence, outcome: Completion | BaseException) -> None:
        """End a waiting or running sequence, and release its row and pages; nothing happens if it has ended before."""
        if sequence.row != WAITING:  # it runs
            self._suspend(sequence)
        elif sequence in self._waiting:
            self._waiting.remove(sequence)
            self._may_start = True  # the next sequence in the queue may need fewer pages
        else:
            return
        sequence.output.finish(outcome, self._wakeups)
        self._on_end(sequence)

    def end_all(self, outcome: BaseException) -> None:
        """End all sequences and wake their readers."""
        for sequence in [*self._decoding, *self._prefilling, *self._waiting]:
            self.end(sequence, outcome)
        self._wakeups.flush()

    # ---- which sequences run

    def _expire(self) -> None:
        """End the sequences whose deadline has passed."""
        now = self._clock()
        if now < self._next_deadline:
            return
        sequences = [*self._decoding, *self._prefilling, *self._waiting]
        for sequence in sequences:
            if sequence.deadline <= now:
                count = len(sequence.generated)
                self.end(sequence, DeadlineError(f"the deadline passed after {count} of {sequence.limit} tokens"))
        self._next_deadline = min((s.deadline for s in sequences if s.deadline > now), default=_NEVER)

    def _start(self) -> None:
        """Give rows of `decode` to the sequences that have waited longest, as far as there are rows and pages.

        A page of the cache has the keys and values of `_page_size` tokens of a sequence. A sequence starts if pages for
        its known tokens (the prompt, and what it had generated before a preemption) are available, besides those that
        prefilling sequences will take, and one more for each running sequence; with fewer it might be preempted at
        once. Alone it always fits. If the first one in the queue does not fit, later ones do not start before it, and
        nothing is tried again until `_may_start` is set: by a new sequence, released rows or pages, or pages to share.
        """
        self._may_start = False
        promised = sum(map(self._missing_pages, self._prefilling))  # available pages that these sequences will take
        while self._waiting and self._free_rows:
            sequence = self._waiting[0]
            promised += self._missing_pages(sequence)
            if self.running and promised + self.running > self.pool.available:
                return
            self._waiting.popleft()
            sequence.row = self._free_rows.pop()
            insort(self._prefilling, sequence, key=_ORDER)
            if not sequence.has_started:
                sequence.has_started = True
                self._on_start(sequence)

    def _missing_pages(self, sequence: TokenSequence) -> int:
        """Return how many of the pool's available pages a sequence will still take for its known tokens.

        A sequence that has no pages yet will share the published pages of its reusable keys. A shared page that no
        running sequence references counts too: it is available until this sequence takes it.
        """
        total = -(-sequence.length // self._page_size)  # rounded up: the last page may be partly filled
        if sequence.pages:
            return total - len(sequence.pages)
        shared_keys = sequence.reusable_keys
        return total - len(shared_keys) + self.pool.count_unreferenced(shared_keys)

    def _suspend(self, sequence: TokenSequence) -> None:
        """Take the row and the pages from a running sequence, which then neither waits, prefills nor decodes."""
        row, batch = sequence.row, self._decode
        group = self._decoding if sequence.is_decoding else self._prefilling
        group.remove(sequence)
        batch.counts[row] = batch.starts[row] = batch.tokens[row, 0] = 0
        batch.pages[row] = SCRAP_PAGE
        self._free_rows.append(row)
        self._may_start = True
        self.pool.release(sequence.pages)
        sequence.forget_pages()

    def _preempt(self, sequence: TokenSequence) -> None:
        """Make a running sequence wait, before all younger ones, and release its row and its pages."""
        self.preemptions += 1
        self._suspend(sequence)
        insort(self._waiting, sequence, key=_ORDER)

    # ---- pages

    def _reserve(self, sequence: TokenSequence, length: int) -> bool:
        """Allocate pages, each for the keys and values of `_page_size` tokens, for the first `length` tokens of a
        running sequence.

        If no page is free, preempt the youngest running sequence (take its row and pages, and queue it again), and so
        on. Return False if `sequence` itself was the youngest, and was preempted.
        """
        pages = sequence.pages
        while len(pages) * self._page_size < length:
            page = self.pool.allocate()
            if page is not None:
                if sequence.is_decoding:  # it has a page table in `decode`; `_run_chunk` writes that of `prefill`
                    self._decode.pages[sequence.row, len(pages)] = page
                pages.append(page)
                continue
            youngest = max((group[-1] for group in (self._decoding, self._prefilling) if group), key=_ORDER)
            self._preempt(youngest)
            if youngest is sequence:
                return False
        return True

    def _acquire_published_pages(self, sequence: TokenSequence) -> None:
        """Let a sequence that starts use the pages with its first tokens that other sequences have published."""
        sequence.pages = self.pool.acquire(sequence.reusable_keys)
        sequence.published = len(sequence.pages)
        sequence.computed = sequence.published * self._page_size
        if sequence.reused is None:  # its first start
            sequence.reused = sequence.computed

    def _publish_full_pages(self, sequence: TokenSequence) -> None:
        """Publish the pages of a sequence that have become full, so that sequences with equal tokens can use them."""
        full = sequence.computed // self._page_size
        sequence.extend_page_keys(full)
        for index in range(sequence.published, full):
            self.pool.publish(sequence.pages[index], sequence.page_keys[index])
        sequence.published = full

    # ---- prompts

    def _compute_chunk(self) -> None:
        """Compute the next chunk of a prompt; its last chunk samples the first token, after which the sequence decodes.

        To compute a token is to write its keys and values to a page of the cache. A full page is published: sequences
        whose prompts begin with the same tokens share it and need not compute them.

        With chunks of 8 tokens, three calls compute a prompt of 20 tokens: tokens 0 to 7, 8 to 15 and 16 to 19.

        Chunks of the oldest prefilling sequence alternate with chunks of the one with the fewest prompt tokens left, so
        that long prompts do not delay short ones much, and short ones do not stop a long one.
        """
        group = self._prefilling
        sequence = group[0] if self._is_oldest_next else min(group, key=lambda s: len(s.prompt) - s.computed)
        self._is_oldest_next = not self._is_oldest_next
        if not sequence.pages:  # its first chunk: skip the tokens that other sequences have computed
            self._acquire_published_pages(sequence)
        start, end = sequence.computed, min(sequence.computed + self._chunk, len(sequence.prompt))
        # start >= end only after a preemption, when shared pages have the whole prompt. Before the first token is
        # sampled, shared pages do not have the prompt's last token (`reusable_keys`): computing it samples that token.
        if start < end:
            if not self._reserve(sequence, end) or not self._run_chunk(sequence, start, end):
                return
            sequence.computed = end
            self._publish_full_pages(sequence)
        if sequence.computed < len(sequence.prompt):
            return
        # A sequence that was preempted after its first token has that token already: the sampled one is dropped.
        was_preempted = bool(sequence.generated)
        if was_preempted or self._deliver(sequence, int(self._prefill.sampled[0])):  # the token does not end it
            self._start_decoding(sequence)

    def _run_chunk(self, sequence: TokenSequence, start: int, end: int) -> bool:
        """Call `prefill` for the tokens of the prompt from index `start` up to, not including, `end`: it writes their
        keys and values to the sequence's pages, and samples the token that follows the last one.

        Return False if the call failed; its error ends the sequence then. A device that is lost raises
        DeviceUnavailableError instead, which concerns all sequences.
        """
        batch = self._prefill
        batch.tokens[0, : end - start] = sequence.prompt[start:end]
        batch.starts[0], batch.counts[0] = start, end - start
        batch.pages[0, : len(sequence.pages)] = sequence.pages
        batch.pages[0, len(sequence.pages) :] = SCRAP_PAGE
        batch.set_sampling(0, sequence.sampling)
        self.prefills += 1
        try:
            batch.run()
        except DeviceUnavailableError:
            raise
        except Exception as error:
            self.end(sequence, error)
            return False
        return True

    # ---- tokens

    def _start_decoding(self, sequence: TokenSequence) -> None:
        """Add a sequence whose prompt is computed to `_decoding`, and fill its row of the arguments of `decode`.

        Its token there is the first generated token whose keys and values are not computed yet.
        """
        batch, row = self._decode, sequence.row
        self._prefilling.remove(sequence)
        insort(self._decoding, sequence, key=_ORDER)
        sequence.is_decoding = True
        self._may_start = True  # a waiting sequence with the same prompt can share the pages just published
        batch.set_sampling(row, sequence.sampling)
        batch.tokens[row, 0] = sequence.generated[sequence.computed - len(sequence.prompt)]
        batch.starts[row], batch.counts[row] = sequence.computed, 1
        batch.pages[row, : len(sequence.pages)] = sequence.pages

    def _compute_tokens(self) -> None:
        """Call `decode` for all decoding sequences: each computes keys and values of one token, and samples the next.

        A sequence whose pages are full gets one more page first; the youngest sequences may be preempted for it. A
        preempted sequence has lost the keys and values of the tokens that it has generated, and recomputes them: until
        it has reached the last of these tokens, each sampled token is replaced by the generated one.

        Example: a preempted sequence with a prompt of 3 tokens has generated [7, 8]. `prefill` has computed the prompt
        again: `computed` is 3, and the argument of the row is 7. This call samples generated[1], which is known: the
        next argument is 8. The next call, with `computed` 4, samples generated[2], which is new, and is delivered.

        A page that becomes full is published, so that other sequences with the same tokens can use it.
        """
        size, batch = self._page_size, self._decode
        # Make room in the pages for one more token of each sequence.
        for sequence in list(self._decoding):
            # The row is WAITING, no row, if an earlier iteration has preempted this sequence.
            if sequence.row != WAITING and sequence.computed == len(sequence.pages) * size:
                self._reserve(sequence, sequence.computed + 1)
        if not self._decoding:
            return
        sampled = self._run_decode()
        # The sampled tokens are the next call's tokens. Counts are 1, and 0 for unused rows, which get the token 0.
        np.multiply(sampled, batch.counts, out=batch.first_tokens)
        batch.starts += batch.counts
        # Deliver the sampled tokens, or replace those that a preempted sequence has already.
        tokens = sampled.tolist()
        for sequence in list(self._decoding):
            sequence.computed = computed = sequence.computed + 1
            if computed % size == 0:
                self._publish_full_pages(sequence)
            index = computed - len(sequence.prompt)  # of the sampled token among the generated ones
            if index == len(sequence.generated):
                self._deliver(sequence, tokens[sequence.row])
            else:  # the sequence was preempted, and has this token already
                batch.tokens[sequence.row, 0] = sequence.generated[index]

    def _run_decode(self) -> np.ndarray:
        """Call `decode` and return the sampled tokens: i32[rows]. Sequences for which it fails end with its error.

        Rows without a sequence, also those of sequences that end here, have unspecified tokens.
        """
        batch = self._decode
        self.steps += 1
        try:
            batch.run()
        except DeviceUnavailableError:
            raise
        except Exception as error:
            if len(self._decoding) > 1:
                return self._run_decode_one_by_one()
            self.end(self._decoding[0], error)
        return batch.sampled

    def _run_decode_one_by_one(self) -> np.ndarray:
        """Call `decode` for each sequence alone, after the common call has failed. Those whose call fails end.

        A row with the count 0 does not take part. Return the sampled tokens, i32[rows]; 0 for unused and failed rows.
        """
        batch = self._decode
        sampled = np.zeros_like(batch.sampled)
        # Written back after the calls: 1 for each sequence, 0 once its call has failed.
        counts = batch.counts.copy()
        for sequence in list(self._decoding):
            row = sequence.row
            batch.counts[:] = 0
            batch.counts[row] = 1
            try:
                batch.run()
            except DeviceUnavailableError:
                raise
            except Exception as error:
                counts[row] = 0
                self.end(sequence, error)
            else:
                sampled[row] = batch.sampled[row]
        batch.counts[:] = counts
        return sampled

    def _deliver(self, sequence: TokenSequence, token: int) -> bool:
        """Append a sampled token to a sequence, and the token, or with a tokenizer the text that it completes, to its
        output. Note the readers that wait for this output; the end of the step wakes them.

        Return False if this ends the sequence: the token is a stop token, which is not appended; the tokenizer raised
        an error; the text completes a stop string; or the sequence has as many tokens as it may have.
        """
        if token in sequence.stop_tokens:
            self._complete(sequence, "stop")
            return False
        sequence.generated.append(token)
        # The output: the token, or the text that it completes. A token may end within a character, or its text may be
        # the beginning of a stop string: then it completes no text yet.
        output, decoder = sequence.output, sequence.decoder
        if decoder is None:
            output.pieces.append(token)
        else:
            try:
                piece = decoder.push(token)
            except Exception as error:  # of the tokenizer
                self.end(sequence, error)
                return False
            if piece:
                output.pieces.append(piece)
            if decoder.is_stopped:
                self._complete(sequence, "stop")
                return False
        if len(sequence.generated) == sequence.limit:
            self._complete(sequence, "length")
            return False
        if output.piece_waiters:
            output.wake(self._wakeups)
        return True

    def _complete(self, sequence: TokenSequence, reason: FinishReason) -> None:
        """End a sequence with its completion: the tokens, and the text if there is a tokenizer.

        The decoder may hold back the last characters of the text until `finish`. An error there becomes the outcome.
        """
        output, text = sequence.output, None
        if sequence.decoder is not None:
            try:
                held_text = sequence.decoder.finish()
            except Exception as error:  # of the tokenizer
                self.end(sequence, error)
                return
            if held_text:
                output.pieces.append(held_text)
            text = "".join(map(str, output.pieces))  # the pieces are texts if there is a decoder
        tokens, reused = tuple(sequence.generated), sequence.reused or 0
        self.end(sequence, Completion(tokens, text, reason, prompt_tokens=len(sequence.prompt), reused_tokens=reused))
