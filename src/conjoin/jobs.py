"""Work shared among threads, processes or the machines of a cluster, through joblib."""

from __future__ import annotations

import contextvars
import hashlib
import pickle
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any

import numpy as np

from conjoin.progress import progress

PIECES = 64
"""How many pieces work is dealt out in: short ones, and few enough to send."""
THREAD = "conjoin"
"""The name of the threads that work."""


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
        What to call. The kernels it uses let go of the interpreter's lock.
    tasks : iterable of tuple
        The arguments of each call.
    n_jobs : int, optional
        As joblib understands it: -1 is all cores; None is what `joblib.parallel_config` says, else 1.
        The work is done by threads unless that configuration names a backend such as Dask's or Ray's.
    what : str
        What is being done, said with the progress on a terminal; by default nothing is said.
    sizes : sequence of int, optional
        How many steps of the progress each task is; by default one.
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
    """Pass on what is done, and show the progress if it has a name."""
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
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    n_jobs: int | None,
    sent: Sent | None = None,
) -> Generator[tuple[int, Any], None, None]:
    """Call a function with each tuple of arguments; yield (number, result) as they come.

    Parameters
    ----------
    function, tasks, n_jobs
        See `run`.
    sent : Sent, optional
        What is on the cluster already, from earlier calls.
    """
    threads, backend = _workers(n_jobs, len(tasks))
    if backend is None:
        yield from _on_threads(function, tasks, threads)
    else:
        yield from _elsewhere(function, tasks, n_jobs, backend, sent or Sent())


def beside(function: Callable[[], Any], n_jobs: int | None) -> Any:
    """Call a function that does many small tasks one after the other; return what it returns.

    If no other jobs are to help, all of it is done by one thread beside the main one, instead of a
    thread for each task.
    """
    if _workers(n_jobs, 2) == (1, None):
        return run(function, [()], 1)[0]
    return function()


def _workers(n_jobs: int | None, tasks: int) -> tuple[int, Any]:
    """Return how many threads to use, or joblib's backend if that is elsewhere."""
    if n_jobs == 1 or (n_jobs is None and "joblib" not in sys.modules):
        return 1, None
    from joblib import effective_n_jobs
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend(prefer="threads")
    if getattr(backend, "supports_sharedmem", False) or tasks < 2:
        return effective_n_jobs(n_jobs), None
    return 1, backend


# ---- threads --------------------------------------------------------------------------------------


class _StoppedError(Exception):
    """Nobody waits for this thread's work any more."""


_local = threading.local()


def stop_point() -> None:
    """End this thread's work if nobody waits for it any more; call it now and then in long work."""
    stop = getattr(_local, "stop", None)
    if stop is not None and stop.is_set():
        raise _StoppedError


def _on_threads(
    function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], threads: int
) -> Generator[tuple[int, Any], None, None]:
    """Share tasks among threads that need not be waited for.

    Even one thread is not the main one: that is left to wait, so that an interrupt is heard at once
    and not at the end of a long kernel.
    """
    if threads == 1 and threading.current_thread() is not threading.main_thread():
        for i, task in enumerate(tasks):
            yield i, function(*task)
        return
    todo = deque(enumerate(tasks))
    done: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()
    stop = threading.Event()

    def work() -> None:
        _local.stop = stop
        while todo and not stop.is_set():
            try:
                i, task = todo.popleft()
            except IndexError:
                return
            try:
                done.put((i, function(*task), None))
            except BaseException as error:
                done.put((i, None, error))

    workers = [
        threading.Thread(
            target=contextvars.copy_context().run, args=(work,), name=THREAD, daemon=True
        )
        for _ in range(min(threads, len(tasks)))
    ]
    try:
        # A library's own threads would be too many, and change the last digits of products.
        with one_thread():
            for worker in workers:
                worker.start()
            for _ in tasks:
                i, result, error = _next(done)
                if error is not None:
                    raise error
                yield i, result
                del result
    except Exception:
        stop.set()
        for worker in workers:
            worker.join()
        raise
    finally:
        stop.set()


def _next(done: queue.SimpleQueue[Any]) -> Any:
    """Wait for the next result, awake now and then: a signal may have gone to another thread."""
    while True:
        try:
            return done.get(timeout=0.1)
        except queue.Empty:
            continue


# ---- processes and clusters -----------------------------------------------------------------------


class Sent:
    """What is held by the workers of a cluster for several calls, as long as this lives."""

    def __init__(self) -> None:
        self._known: list[tuple[list[Any], str, Any]] = []

    def put(self, shared: list[Any], backend: Any) -> tuple[str, Any]:
        """Send objects, unless they are there; return their key and what stands for them."""
        for objects, key, there in self._known:
            if len(objects) == len(shared) and all(map(lambda a, b: a is b, objects, shared)):
                return key, there
        # One array, because that is what every backend sends once a worker and not once a task.
        packed = pickle.dumps(shared, 5)
        key = hashlib.blake2b(packed, digest_size=16).hexdigest()
        array = np.array(np.frombuffer(packed, np.uint8))
        place = type(backend).__module__
        if place.startswith("ray."):
            import ray

            there = ray.put(array)
        elif place == "joblib._dask":
            there = backend.client.scatter(array, broadcast=True, hash=False)
        else:  # processes on this machine map a file, which joblib keeps for one call
            return key, array
        self._known.append((shared, key, there))
        return key, there

    def forget(self) -> None:
        """Let the workers drop what they hold."""
        self._known.clear()


def _elsewhere(
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    n_jobs: int | None,
    backend: Any,
    sent: Sent,
) -> Generator[tuple[int, Any], None, None]:
    """Send tasks to other processes; what they share goes once."""
    from joblib import Parallel, delayed

    small = int, float, str, type(None)
    shared = [
        i
        for i, a in enumerate(tasks[0])
        if not isinstance(a, small) and all(task[i] is a for task in tasks)
    ]
    key, there = sent.put([tasks[0][i] for i in shared], backend)
    owned = (pickle.dumps([a for i, a in enumerate(task) if i not in shared], 5) for task in tasks)
    streams = getattr(backend, "supports_return_generator", False)
    parallel = Parallel(n_jobs, prefer="threads", return_as="generator" if streams else "list")
    done = parallel(delayed(_call)(function, key, there, shared, own) for own in owned)
    for i, result in enumerate(done):
        yield i, pickle.loads(result)


_held: dict[str, list[Any]] = {}
_lock = threading.Lock()


def _call(
    function: Callable[..., Any],
    key: str,
    sent: Any,
    shared: list[int],
    own: bytes,
) -> bytes:
    """Call a function on a worker; what the tasks share is unpacked once and kept for the next.

    Arguments and results travel as plain bytes, so that their arrays are writable where they arrive.
    """
    with _lock:
        if key not in _held:
            if not isinstance(sent, np.ndarray):
                import ray

                sent = ray.get(sent)
            _held.clear()
            _held[key] = pickle.loads(sent.data)
        common = _held[key]
    arguments = pickle.loads(own)
    for i, argument in zip(shared, common, strict=True):
        arguments.insert(i, argument)
    return pickle.dumps(function(*arguments), 5)


def one_thread() -> Any:
    """Return a context in which matrix products take one thread.

    Then results do not depend on the number of threads, and jobs do not fight for cores.
    """
    if not _controllers:
        from threadpoolctl import ThreadpoolController

        _controllers.append(ThreadpoolController())  # looking for the libraries takes a millisecond
    return _controllers[0].limit(limits=1)


_controllers: list[Any] = []


def spread(items: list[Any], parts: int = PIECES) -> list[list[Any]]:
    """Deal items out into a number of lists of about the same length, in order.

    Examples
    --------
    >>> spread([1, 2, 3, 4, 5], 2)
    [[1, 2, 3], [4, 5]]
    """
    parts = max(1, min(parts, len(items)))
    size, extra = divmod(len(items), parts)
    ends = [size * i + min(i, extra) for i in range(parts + 1)]
    return [items[a:b] for a, b in pairwise(ends)]
