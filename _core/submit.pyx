"""Calls of functions that are submitted to pool threads: one, or a batch of many as one task."""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from pydispatch._core.arrays cimport ElementType
from pydispatch._core.bound cimport Binding
from pydispatch._core.c_status cimport pyd_status_t
from pydispatch._core.c_submit cimport pyd_batch_item_t, pyd_batch_submit, pyd_call_submit, pyd_function_may_block
from pydispatch._core.c_task cimport pyd_submit_options_t, pyd_task_is_cancelled, pyd_task_t
from pydispatch._core.function cimport Function, gather_plain
from pydispatch._core.memory cimport Block
from pydispatch._core.plan cimport Plan, Slot, flush_python
from pydispatch._core.planned cimport Frame, fresh_results, value_of
from pydispatch._core.public cimport PublicFunction
from pydispatch._core.status cimport check, exception_of
from pydispatch._core.task cimport MAX_AFTER, Task, fill_options, settling

from concurrent.futures import CancelledError
from concurrent.futures import Future as AnyFuture
from functools import partial

from pydispatch._core.future import CallFuture, deferred
from pydispatch._core.items import all_of, arguments_of, each_of, in_order, returns_errors, with_index
from pydispatch._core.status import InvalidArgumentError

cdef extern from "Python.h":
    PyObject** PySequence_Fast_ITEMS(object)


@cython.final
@cython.no_gc_clear  # __dealloc__ gives its slot back to the plan
cdef class Lease:
    """A slot (a prepared call with its scratch memory) leased from a plan, and the memory of the call's frame.

    The task of a call owns the lease while the call runs; deallocation returns the slot to the plan.
    """

    cdef Plan plan
    cdef Slot slot
    cdef uint64_t* words  # owned memory of the arrays of the task's Frame: frame_words + 1, so never 0 bytes
    cdef bint taken       # plan and slot are set, and the slot must be returned

    def __dealloc__(self):
        if self.taken:
            self.plan.give(&self.slot)
        free(self.words)


@cython.final
@cython.no_gc_clear
cdef class FunctionTask(Task):
    """Task of one call of a function that was submitted to the scheduler, with the memory that the call uses."""
    cdef Function function
    cdef Lease lease
    cdef Binding binding  # None: arguments are used as they are, without conversion, and results are new arrays
    cdef Frame frame
    cdef object made      # without a Binding: the new result array, or a list of several

    cdef object pending(self):
        """Return the array that receives the only result; None if there is none, or a Binding fills it in collect()."""
        with settling:  # another thread may settle the task, which clears `made` when `value` is set
            if self.settled:
                return self.value if self.error is None and self.function.simple else None
            return self.made if self.binding is None and self.function.simple else None

    cdef object collect(self):
        """Return the results of a call that has ended."""
        cdef Plan plan = self.lease.plan
        plan.read_scalars(&self.lease.slot, self.frame.out_scalars)
        if self.binding is not None:
            return self.binding.collect()
        return value_of(self.function, self.made, &self.frame)

    cdef void let_go(self) noexcept:
        """Release all objects that the running call needed, after it has ended."""
        self.kept = self.lease = self.binding = self.made = None


cdef int copy_unaligned(Plan plan, Frame* frame, list kept) except -1:
    """Let `frame.args` refer to copies of arguments that are less aligned than a kernel requires.

    kept: receives the copies, to keep them alive as long as the task.
    """
    cdef uint32_t i
    cdef Block block
    for i in range(plan.function.arg_count):
        # arg_bytes is 0 for numbers; arg_mask is the required alignment - 1.
        if plan.arg_bytes[i] and <uintptr_t>frame.args[i] & plan.arg_mask[i]:
            block = plan.module.pool.acquire(plan.arg_bytes[i])
            memcpy(block.data, frame.args[i], plan.arg_bytes[i])
            frame.args[i] = block.data
            kept.append(block)
    return 0


cdef Plan plan_of(Function function, Frame* frame):
    """Return the plan for the sizes and numbers in the frame. It mostly is the plan of the last call."""
    cdef Plan plan = function.last_plan()
    if plan is None or not plan.matches(frame.dims, frame.scalars):
        plan = function.find_plan(frame.dims, frame.scalars)
    return plan


cdef bint is_read_at_submit(Function function, Py_ssize_t index):
    """Return whether submit() itself reads the value of an argument: a number (no descr), or packed elements as i4."""
    return index < function.arg_count and (
        function.args[index].descr == NULL or (<ElementType>function.arg_types[index]).packed)


cdef tuple replace_futures(Function function, args, list after):
    """Return the arguments with the arrays that will hold the results of calls in place of their futures.

    Append the tasks of these calls to `after`: they must end first. Return None if the array of a future is not known
    yet, or if submit() would read the array before its call has run.
    """
    values = []
    for i, value in enumerate(args):
        if isinstance(value, AnyFuture):
            task = value._task if isinstance(value, CallFuture) and not is_read_at_submit(function, i) else None
            array = (<Task>task).pending() if task is not None else None
            if array is None:
                return None
            after.append(task)
            value = array
        values.append(value)
    return tuple(values)


cdef bint has_futures(args):
    """Return whether an argument is a future."""
    for value in args:
        if isinstance(value, AnyFuture):
            return True
    return False


def submit(Function function not None, args, out, priority, workers):
    """Start a call of the function and return its Future; the parameters are those of Function.submit()."""
    cdef list after = []
    cdef dict named = {"out": out, "priority": priority, "workers": workers}
    given = args
    # A future whose array is known is an argument of a call that starts after its task. For any other future, and for
    # a task of another scheduler, which cannot be a predecessor, a callback of the futures submits the call.
    if has_futures(args):
        given = replace_futures(function, args, after)
        if given is None:
            return deferred(function.submit, args, named)
        for task in after:
            if (<Task>task).module.sched is not function.module.sched:
                return deferred(function.submit, args, named)
    return CallFuture(start(function, given, out, priority, workers, tuple(after)))


cdef Task start(Function function, tuple args, object out, object priority, object workers, tuple after):
    """Submit one call, after checking and binding its arguments, and return its task.

    out: arrays for results, or None for new ones. priority: "high", "normal" or "low". workers: maximum number of
    threads of the call, or None. after: Tasks that must end before the call starts.
    """
    cdef FunctionTask task = FunctionTask.__new__(FunctionTask)
    cdef Lease lease = Lease.__new__(Lease)
    cdef Binding binding = None
    cdef Plan plan
    cdef Frame* frame = &task.frame
    cdef list kept = [lease, args]  # objects that must live until the call has ended
    cdef pyd_submit_options_t options
    cdef pyd_task_t* first[MAX_AFTER]
    cdef pyd_status_t status
    fill_options(&options, function.name, priority, workers, after, first)
    function.check_count(len(args))
    lease.words = <uint64_t*>malloc((function.frame_words + 1) * sizeof(uint64_t))  # + 1: never 0 bytes
    if lease.words == NULL:
        raise MemoryError()
    function.lay_out(lease.words, frame)
    # Check the arguments, and find the plan and the memory of the results.
    if out is None and not function.has_packed_elements and gather_plain(function, PySequence_Fast_ITEMS(args), frame):
        plan = plan_of(function, frame)
        task.made = fresh_results(function, plan, frame)
    else:
        binding = Binding(function, args, out)
        plan, frame[0] = binding.plan, binding.frame
    # Bind them to a call of the plan.
    copy_unaligned(plan, frame, kept)
    plan.take(&lease.slot)
    lease.plan, lease.taken = plan, True
    plan.bind(&lease.slot, frame.args, frame.scalars, frame.results)
    # Keep what the call uses alive until it has ended, and submit it.
    task.function, task.module, task.lease, task.binding, task.after = function, function.module, lease, binding, after
    kept.append(binding if binding is not None else task.made)
    kept.append(after)
    task.kept = kept
    if function.module.flushes:
        flush_python()
    with nogil:
        status = pyd_call_submit(lease.slot.call, &options, &task.task)
    check(status)
    return task


@cython.final
@cython.no_gc_clear
cdef class Items:
    """Memory of the calls of a batch, owned while its task uses it."""

    cdef pyd_batch_item_t* items  # one for each call
    cdef uint64_t* words          # of the Frames of the calls, frame_words + 1 each, so never 0 bytes

    def __dealloc__(self):
        free(self.items)
        free(self.words)


@cython.final
@cython.no_gc_clear
cdef class BatchTask(Task):
    """Task of a submitted batch of calls of one function: one call per item whose arguments were accepted."""
    cdef Function function
    cdef Items items
    cdef list made      # per call: its Binding, or the value of `fresh_results`
    cdef dict plans       # id -> each Plan in use, to keep them alive
    cdef uint32_t count   # of calls
    cdef list indices     # per call: the index of its item; None: each item has a call
    cdef dict refused     # index of an item without a call -> its error
    cdef bint is_returned  # errors are results, and do not raise

    cdef object index_of(self, uint32_t call):
        """Return the index, among all items of the batch, of the item that a call belongs to."""
        return call if self.indices is None else self.indices[call]

    cdef list with_refused(self, list outcomes):
        """Return the outcomes of all items: `outcomes` of calls, and errors of refused items, which have no call."""
        if self.indices is None:
            return outcomes
        # An item is in `refused`, or in `indices` if it has a call. The outcomes of calls, None here, are stored below.
        whole = [self.refused.get(i) for i in range(len(self.indices) + len(self.refused))]
        for index, outcome in zip(self.indices, outcomes, strict=True):
            whole[index] = outcome
        return whole

    cdef object value_at(self, uint32_t index):
        """Return the value of call number `index`, which has succeeded."""
        cdef Frame frame  # only out_scalars is set: value_of() reads no other field
        made = self.made[index]
        if type(made) is Binding:
            return (<Binding>made).collect()
        frame.out_scalars = self.items.items[index].out_scalars
        return value_of(self.function, made, &frame)

    cdef object collect(self):
        # Shortcut: each call returned one new array, which is its value already. `simple`: the only result is a tensor.
        if self.function.simple and not self.function.has_packed_elements and Binding not in map(type, self.made):
            return self.with_refused(self.made)
        return self.with_refused([self.value_at(i) for i in range(self.count)])

    cdef object failure(self):
        """Return the error that the future of the batch raises, with all items' outcomes as its attribute `outcomes`.

        Return None, after storing the outcomes as the value, if errors are results and nothing was cancelled.
        """
        cdef uint32_t i
        cdef pyd_batch_item_t* item
        first, outcomes = None, []  # first: the first error that the future must raise
        for i in range(self.count):
            item = &self.items.items[i]
            if item.has_run and item.status == NULL:  # succeeded
                outcomes.append(self.value_at(i))
                continue
            # A call that has not run was cancelled.
            outcome = exception_of(item.status) if item.has_run else CancelledError()
            # A running call is interrupted by a cancellation, as by Ctrl-C.
            if isinstance(outcome, KeyboardInterrupt) and pyd_task_is_cancelled(self.task):
                outcome = CancelledError()
            outcome = with_index(outcome, self.index_of(i))
            # Raised even if errors are results: cancellations, and errors such as KeyboardInterrupt.
            if not self.is_returned or isinstance(outcome, CancelledError) or not isinstance(outcome, Exception):
                first = first or outcome
            outcomes.append(outcome)
        outcomes = self.with_refused(outcomes)
        if first is None and pyd_task_is_cancelled(self.task):  # too late, when all calls had run
            first = CancelledError()
        if first is None:
            self.value = outcomes
        else:
            first.outcomes = outcomes
        return first

    cdef void let_go(self) noexcept:
        """Release all objects but the items and plans, which the C task uses until Task.__dealloc__ releases it."""
        self.kept, self.made = (self.items, self.plans), None


def submit_many(Function function not None, items, priority, workers, on_error):
    """Start one call per item and return one Future for all; the parameters are those of Function.submit_many()."""
    cdef bint is_returned = returns_errors(on_error)
    cdef list listed = list(each_of(items))
    start_one = partial(function.submit, priority=priority, workers=workers)
    if list in map(type, listed):  # a list is no item: all_of() refuses it, with its index
        return all_of(start_one, listed, is_returned)
    cdef list given = [arguments_of(item) for item in listed]
    # A host command may sleep, and would occupy a pool thread if it ran as a part of a batch.
    cdef bint may_block = pyd_function_may_block(function.module.program, function.index)
    if not given or may_block or any(map(has_futures, given)):  # start_many() needs items, none with futures
        return all_of(start_one, given, is_returned)
    return CallFuture(start_many(function, given, is_returned, priority, workers))


cdef class Batch:
    """Builder of the task of a batch of calls: it checks and binds the arguments of each call."""

    cdef Function function
    cdef Items items
    cdef list made        # per call: its Binding, or the value of `fresh_results`
    cdef list kept        # copies of unaligned arguments, and other objects that calls use
    cdef dict plans       # id -> each Plan in use
    cdef Plan previous    # of the last call
    cdef uint32_t count   # of calls
    cdef Py_ssize_t item  # index of the item whose arguments are bound next

    def __cinit__(self, Function function, Items items, list kept):
        self.function, self.items, self.made, self.kept, self.plans = function, items, [], kept, {}

    cdef dict add_accepted(self, list given, bint is_returned):
        """Bind the arguments of all items, each in `given` a tuple. Return the errors of wrong ones by item index.

        Raise the first error unless errors are results (`is_returned`).
        """
        refused = {}
        while self.item < len(given):
            try:
                self.add(given[self.item])
            except Exception as error:
                if not is_returned:
                    raise with_index(error, self.item) from error.__cause__
                refused[self.item] = with_index(error, self.item)
            self.item += 1
        return refused

    cdef int add(self, tuple args) except -1:
        """Bind the arguments of another call; if they are wrong, raise and add none."""
        cdef Function function = self.function
        cdef Frame frame
        cdef Plan plan
        cdef Binding binding
        cdef object results
        cdef pyd_batch_item_t* item = &self.items.items[self.count]
        function.check_count(len(args))
        # The words of each call are frame_words + 1, so that an allocation never has 0 bytes.
        function.lay_out(self.items.words + self.count * <size_t>(function.frame_words + 1), &frame)
        if not function.has_packed_elements and gather_plain(function, PySequence_Fast_ITEMS(args), &frame):
            plan = plan_of(function, &frame)
            results = fresh_results(function, plan, &frame)
        else:
            binding = Binding(function, args, None)
            plan, frame, results = binding.plan, binding.frame, binding
        if plan is not self.previous:  # else `plans` has it already
            self.plans[id(plan)] = self.previous = plan
        copy_unaligned(plan, &frame, self.kept)
        item.plan, item.args, item.results, item.out_scalars = plan.plan, frame.args, frame.results, frame.out_scalars
        item.scalars = frame.scalars if plan.has_scalars else NULL
        self.made.append(results)
        self.count += 1
        return 0


cdef Task start_many(Function function, list given, bint is_returned, object priority, object workers):
    """Submit one call for each item as one task.

    given: a tuple of arguments per item. Wrong arguments raise, or their errors are results if `is_returned`.
    """
    cdef BatchTask task = BatchTask.__new__(BatchTask)
    cdef Items items = Items.__new__(Items)
    cdef list kept = [items, given, function]
    cdef Batch batch = Batch(function, items, kept)
    cdef pyd_submit_options_t options
    cdef pyd_status_t status
    cdef size_t count = <size_t>len(given)
    fill_options(&options, function.name, priority, workers, (), NULL)
    items.items = <pyd_batch_item_t*>calloc(count, sizeof(pyd_batch_item_t))
    items.words = <uint64_t*>malloc(count * (function.frame_words + 1) * sizeof(uint64_t))  # + 1: never 0 bytes
    if items.items == NULL or items.words == NULL:
        raise MemoryError()
    task.refused = batch.add_accepted(given, is_returned)
    if task.refused:
        task.indices = [index for index in range(len(given)) if index not in task.refused]
    kept += [batch.made, batch.plans]
    task.function, task.module, task.items, task.made, task.plans = (
        function, function.module, items, batch.made, batch.plans)
    task.count, task.is_returned, task.kept, task.after = batch.count, is_returned, kept, ()
    if function.module.flushes:
        flush_python()
    with nogil:
        status = pyd_batch_submit(
            function.module.sched.sched, function.module.pool.pool, items.items, task.count, &function.batch_cost,
            &options, &task.task)
    check(status)
    return task


def mapped(PublicFunction function not None, items, in_flight, workers, on_error):
    """Return an iterator over the results of one call per item; the parameters are those of Function.map()."""
    cdef bint is_returned = returns_errors(on_error)
    # Default: for each worker a running call and a queued one.
    count = 2 * function.module.sched.workers if in_flight is None else in_flight
    if not isinstance(count, int) or count < 1:
        raise InvalidArgumentError(f"@{function.name}: map: in_flight: expected a number from 1 on, got {in_flight!r}")
    submit = function.submit if workers is None else partial(function.submit, workers=workers)
    return in_order(submit, each_of(items), count, is_returned)
