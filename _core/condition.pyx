"""Conditions that an exception of a signal's handler does not leave locked."""

from threading import Condition as PythonCondition


class Condition(PythonCondition):
    """A `threading.Condition` whose `with` statement always releases its lock.

    A handler can raise an exception in `threading.Condition.__enter__`, which is Python code, after the lock was
    acquired and before the `with` block begins: nothing releases the lock then. No handler runs in compiled code.
    """

    def __enter__(self):
        return self._lock.__enter__()

    def __exit__(self, *error):
        return self._lock.__exit__(*error)
