"""Parallel calls through joblib: on threads, processes, or a Dask or Ray cluster.

joblib does the work, on the backend that `joblib.parallel_config` names and on threads by default: the
kernels release the interpreter's lock. Three things are added to it here:

* A single job runs in a thread of its own. joblib would call it in the main thread, where Ctrl-C waits
  for the end of the kernel that is running.
* Arguments that all calls share are one object, which joblib's processes and Dask send once per worker.
* Arrays in other arguments and in results are writable wherever they arrive.
"""

from __future__ import annotations

import contextvars
import pickle
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from conjoin.progress import progress

MAX_PARTS = 64
"""The maximum number of parts that work is split into: enough to balance it, few enough to send."""
THREAD_NAME = "conjoin"
"""The name of the thread that does the work of a single job."""


def run(
    function: Callable[..., Any],
    tasks: Iterable[tuple[Any, ...]],
    n_jobs: int | None,
    label: str = "",
    sizes: Sequence[int] | None = None,
) -> list[Any]:
    """Call a function with each tuple of arguments; return the results in order.

    It runs in threads by default, so its kernels should release the interpreter's lock. `n_jobs` is the
    number of jobs, as in joblib: -1 is all cores, None is what `joblib.parallel_config` sets, or 1. With
    a label, `progress` shows it, with the given number of steps per task (by default 1).

    After an interrupt, calls that have not begun are dropped, and those that run in threads end at their
    next `stop_point`.
    """
    tasks = list(tasks)
    if not tasks:
        return []
    shared = _Shared(function, tasks)
    calls = [(shared, shared.others(task)) for task in tasks]
    backend = _parallel_backend(n_jobs)
    done = _in_one_thread(calls) if backend is None else _through_joblib(calls, n_jobs, backend)
    steps = sizes or [1] * len(tasks)
    results = []

    def collect() -> Iterator[int]:
        for size, result in zip(steps, done, strict=True):
            results.append(result.value)
            yield from range(size)

    try:
        with one_thread(), closing(done):
            for _ in progress(collect(), label, sum(steps)) if label else collect():
                pass
    finally:
        shared.is_awaited = False
    return results


@dataclass(frozen=True)
class TaskRunner:
    """Runs the stages of learning with one number of jobs, and labels their progress."""

    n_jobs: int | None = None
    label: str = ""

    def labelled(self, label: str) -> TaskRunner:
        """Return the runner of a part of the learning."""
        return TaskRunner(self.n_jobs, label)

    def run(
        self,
        function: Callable[..., Any],
        tasks: Sequence[tuple[Any, ...]],
        stage: str,
        sizes: Sequence[int],
    ) -> list[Any]:
        """Return the results of a stage's tasks; `sizes` are the numbers of variables of each."""
        label = f"{self.label}: {stage}" if self.label else stage
        return run(function, tasks, self.n_jobs, label, sizes)


def _parallel_backend(n_jobs: int | None) -> Any:
    """Return joblib's backend, or None if there is to be one job on this machine."""
    if n_jobs == 1:
        return None
    from joblib import effective_n_jobs
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend(prefer="threads")
    if getattr(backend, "supports_sharedmem", False) and effective_n_jobs(n_jobs) == 1:
        return None
    return backend


def _through_joblib(
    calls: Sequence[tuple[Any, ...]], n_jobs: int | None, backend: Any
) -> Generator[_Writable, None, None]:
    from joblib import Parallel, delayed

    if type(backend).__module__.startswith("ray."):  # which makes all arrays read-only
        calls = [(_Writable(shared), others) for shared, others in calls]
    streams = getattr(backend, "supports_return_generator", False)  # Ray's does not
    parallel = Parallel(
        n_jobs,
        prefer="threads",
        batch_size=1,
        return_as="generator" if streams else "list",
        mmap_mode="c",  # arrays in files are writable, so that kernels are not compiled once more
    )
    # After an error, results that nobody uses are no reason for a warning. Filters of warnings are not
    # an option: they are shared with threads that are still running.
    parallel._warn_exit_early = lambda: None
    yield from parallel(delayed(_call)(*call) for call in calls)


def _in_one_thread(
    calls: Sequence[tuple[Any, ...]],
) -> Generator[_Writable, None, None]:
    """Make calls one after another in a thread, so that the main thread hears an interrupt at once."""
    if threading.current_thread() is not threading.main_thread():
        yield from (_call(*call) for call in calls)
        return
    done: queue.SimpleQueue[_Writable | BaseException] = queue.SimpleQueue()

    def work() -> None:
        try:
            for call in calls:
                done.put(_call(*call))
        except BaseException as error:
            done.put(error)

    context = contextvars.copy_context()
    worker = threading.Thread(target=context.run, args=(work,), name=THREAD_NAME, daemon=True)
    worker.start()
    for _ in calls:
        result = None
        while result is None:  # wakes up now and then, as a signal may have gone to another thread
            with suppress(queue.Empty):
                result = done.get(timeout=0.1)
        if isinstance(result, BaseException):
            worker.join()
            raise result
        yield result


def off_main_thread(function: Callable[[], Any], n_jobs: int | None) -> Any:
    """Call a function that makes many short calls of `run`, one after another; return its result.

    If there is one job, the function itself runs in a thread, which is cheaper than a thread for each
    of its calls.
    """
    return run(function, [()], 1)[0] if _parallel_backend(n_jobs) is None else function()


class _Writable:
    """A value whose arrays are writable in every process that receives it.

    Clusters unpickle arrays as read-only views of their own memory. A string of bytes is copied.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpacked, (pickle.dumps(self.value, 5),)


def _unpacked(data: bytes) -> _Writable:
    return _Writable(pickle.loads(data))


class _Shared:
    """The function and the arguments that are the same objects in all calls."""

    def __init__(self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> None:
        self.function = function
        self.arguments = {
            i: value for i, value in enumerate(tasks[0]) if all(task[i] is value for task in tasks)
        }
        self.is_here = self.is_awaited = True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "is_here": False}

    def __sizeof__(self) -> int:
        """Return a large number: Dask sends large arguments once for all calls, and others with each."""
        return 1 << 20

    def others(self, task: tuple[Any, ...]) -> _Writable:
        """Return the arguments of one call that are its own."""
        return _Writable([value for i, value in enumerate(task) if i not in self.arguments])

    def call(self, others: _Writable) -> Any:
        """Call the function with its shared arguments and the others."""
        arguments = list(others.value)
        for i, value in self.arguments.items():
            arguments.insert(i, value)
        return self.function(*arguments)


_local = threading.local()


def _call(shared: Any, others: _Writable) -> _Writable:
    """Make one call, in any thread or process."""
    shared = shared.value if isinstance(shared, _Writable) else shared
    before = getattr(_local, "shared", None)
    _local.shared = shared
    try:
        stop_point()
        with nullcontext() if shared.is_here else one_thread():  # here, `run` has set it
            return _Writable(shared.call(others))
    finally:
        _local.shared = before


class _StoppedError(Exception):
    """The caller no longer waits for the results of this thread."""


def stop_point() -> None:
    """End this thread's call if its caller was interrupted; to be called now and then in long work.

    joblib drops the calls that have not begun, but cannot end one that runs in a thread.
    """
    shared = getattr(_local, "shared", None)
    if shared is not None and not shared.is_awaited:
        raise _StoppedError


def one_thread() -> Any:
    """Return a context in which matrix products use one thread.

    Results then do not depend on the number of cores, and jobs do not compete for them.
    """
    if not _controllers:
        from threadpoolctl import ThreadpoolController

        _controllers.append(ThreadpoolController())  # finding the libraries takes a millisecond
    return _controllers[0].limit(limits=1)


_controllers: list[Any] = []


def split_evenly(items: list[Any], parts: int = MAX_PARTS) -> list[list[Any]]:
    """Split items into a number of lists of about the same length, in order.

    Examples
    --------
    >>> split_evenly([1, 2, 3, 4, 5], 2)
    [[1, 2, 3], [4, 5]]
    """
    parts = max(1, min(parts, len(items)))
    size, extra = divmod(len(items), parts)
    ends = [size * i + min(i, extra) for i in range(parts + 1)]
    return [items[a:b] for a, b in pairwise(ends)]
