"""Parallel calls through joblib: on threads, processes, or a Dask or Ray cluster.

joblib does the work, on the backend that `joblib.parallel_config` names and on threads by default: the
kernels release the interpreter's lock. Three things are added to it here:

* A single job runs in a thread of its own. joblib would call it in the main thread, where Ctrl-C waits
  for the end of the kernel that is running.
* Arguments that all calls share are one object, so that every backend sends it once, and not with each
  call.
* Arrays in other arguments and in results are writable wherever they arrive.
"""

from __future__ import annotations

import contextvars
import pickle
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, nullcontext
from functools import lru_cache
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
    what: str = "",
    sizes: Sequence[int] | None = None,
) -> list[Any]:
    """Call a function with each tuple of arguments; return the results in order.

    Parameters
    ----------
    function : callable
        The function. It runs in threads by default, so its kernels should release the interpreter's
        lock.
    tasks : iterable of tuple
        The arguments of each call.
    n_jobs : int, optional
        The number of jobs, as in joblib: -1 is all cores, None is the number that
        `joblib.parallel_config` sets, or 1.
    what : str
        The label of the progress bar; by default there is none.
    sizes : sequence of int, optional
        The number of steps of the progress bar per task; by default 1.
    """
    listed = list(tasks)
    results = [None] * len(listed)
    done = finished(function, listed, n_jobs)
    with closing(count_steps(done, what, sizes or [1] * len(listed))) as pieces:
        for i, result in pieces:
            results[i] = result
    return results


def count_steps(
    done: Generator[tuple[int, Any], None, None], what: str, sizes: Sequence[int]
) -> Generator[tuple[int, Any], None, None]:
    """Pass on numbered results, and show the progress if it has a label."""
    with closing(done):  # also when nobody asks for more
        if not what:
            yield from done
            return
        with closing(progress(range(sum(sizes)), what)) as steps:
            for i, result in done:
                yield i, result
                for _ in range(sizes[i]):
                    next(steps)


def finished(
    function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], n_jobs: int | None
) -> Generator[tuple[int, Any], None, None]:
    """Call a function with each tuple of arguments; yield (number, result) in order of completion.

    See `run` for the parameters. When the generator is closed or interrupted, calls that have not begun
    are dropped, and those that run in threads end at their next `stop_point`.
    """
    if not tasks:
        return
    caller = _Caller()
    shared = _Shared(function, tasks)
    calls = [(i, shared, shared.others(task), caller) for i, task in enumerate(tasks)]
    backend = _parallel_backend(n_jobs)
    done = _in_one_thread(calls) if backend is None else _through_joblib(calls, n_jobs, backend)
    try:
        with one_thread(), closing(done):
            for i, result in done:
                yield i, result.value
                del result
    finally:
        caller.waits = False


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
) -> Generator[tuple[int, _Writable], None, None]:
    from joblib import Parallel, delayed

    if type(backend).__module__.startswith("ray."):
        calls = _through_ray_store(calls)
    streams = getattr(backend, "supports_return_generator", False)  # Ray's does not
    parallel = Parallel(
        n_jobs,
        prefer="threads",
        batch_size=1,
        return_as="generator_unordered" if streams else "list",
        mmap_mode="c",  # arrays in files are writable, so that kernels are not compiled once more
    )
    # After an error, results that nobody uses are no reason for a warning. Filters of warnings are not
    # an option: they are shared with threads that are still running.
    parallel._warn_exit_early = lambda: None
    yield from parallel(delayed(_call)(*call) for call in calls)


def _through_ray_store(calls: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Put the shared arguments in Ray's object store.

    Ray's backend does that itself, but only with versions of joblib that have a `SafeFunction`; with
    later ones it sends the arguments with every call.
    """
    import ray

    shared = _InRayStore(ray.put(_Writable(calls[0][1])))
    return [(number, shared, *rest) for number, _, *rest in calls]


class _InRayStore:
    """Shared arguments in the object store of a Ray cluster."""

    def __init__(self, reference: Any) -> None:
        self.reference = reference

    def call(self, others: _Writable) -> Any:
        """Call the function with its shared arguments and the others."""
        return _from_ray_store(self.reference).call(others)


@lru_cache(maxsize=1)
def _from_ray_store(reference: Any) -> _Shared:
    """Return shared arguments; a worker unpacks them once for all its calls."""
    import ray

    found: _Writable = ray.get(reference)
    shared: _Shared = found.value
    return shared


# ---- one job --------------------------------------------------------------------------------------


def _in_one_thread(
    calls: Sequence[tuple[Any, ...]],
) -> Generator[tuple[int, _Writable], None, None]:
    """Make calls one after another in a thread, so that the main thread hears an interrupt at once."""
    if threading.current_thread() is not threading.main_thread():
        yield from (_call(*call) for call in calls)
        return
    done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            for call in calls:
                done.put((_call(*call), None))
        except BaseException as error:
            done.put((None, error))

    context = contextvars.copy_context()
    worker = threading.Thread(target=context.run, args=(work,), name=THREAD_NAME, daemon=True)
    worker.start()
    for _ in calls:
        result, error = _wait_for(done)
        if error is not None:
            worker.join()
            raise error
        yield result


def _wait_for(results: queue.SimpleQueue[Any]) -> Any:
    """Return the next result; wake up now and then, as a signal may have gone to another thread."""
    while True:
        try:
            return results.get(timeout=0.1)
        except queue.Empty:
            continue


def off_main_thread(function: Callable[[], Any], n_jobs: int | None) -> Any:
    """Call a function that makes many short calls of `run`, one after another; return its result.

    If there is one job, the function itself runs in a thread, which is cheaper than a thread for each
    of its calls.
    """
    return run(function, [()], 1)[0] if _parallel_backend(n_jobs) is None else function()


# ---- stopping -------------------------------------------------------------------------------------


class _Caller:
    """Whether the caller still waits for results; in another process, that is not known."""

    def __init__(self, is_here: bool = True) -> None:
        self.is_here, self.waits = is_here, True

    def __reduce__(self) -> tuple[Any, ...]:
        return _Caller, (False,)


_local = threading.local()


class _StoppedError(Exception):
    """The caller no longer waits for the results of this thread."""


def stop_point() -> None:
    """End this thread's call if its caller was interrupted; to be called now and then in long work.

    joblib drops the calls that have not begun, but cannot end one that runs in a thread.
    """
    caller = getattr(_local, "caller", None)
    if caller is not None and not caller.waits:
        raise _StoppedError


# ---- arguments and results ------------------------------------------------------------------------


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


def _call(
    number: int, shared: _Shared | _InRayStore, others: _Writable, caller: _Caller
) -> tuple[int, _Writable]:
    """Make one call, in any thread or process."""
    before = getattr(_local, "caller", None)
    _local.caller = caller
    try:
        stop_point()
        with nullcontext() if caller.is_here else one_thread():  # which the caller has set here
            return number, _Writable(shared.call(others))
    finally:
        _local.caller = before


# ---- helpers --------------------------------------------------------------------------------------


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
