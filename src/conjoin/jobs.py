"""Work shared among threads, processes or the machines of a cluster, through joblib."""

from __future__ import annotations

import hashlib
import pickle
import sys
import threading
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np


def run(
    function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], n_jobs: int | None
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
        The backend is threads unless that configuration names another, such as Dask's or Ray's.
    """
    listed = list(tasks)
    unset = n_jobs is None and "joblib" not in sys.modules
    if unset or n_jobs == 1 or len(listed) < 2:
        return [function(*task) for task in listed]
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    parallel = Parallel(n_jobs=n_jobs, prefer="threads")
    backend, _ = get_active_backend(prefer="threads")
    if getattr(backend, "supports_sharedmem", False):
        return list(parallel(delayed(function)(*task) for task in listed))
    shared = [i for i, a in enumerate(listed[0]) if all(task[i] is a for task in listed)]
    # One array, because that is what every backend sends once a worker and not once a task.
    packed = pickle.dumps([listed[0][i] for i in shared], 5)
    key = hashlib.blake2b(packed, digest_size=16).hexdigest()
    sent: Any = np.array(np.frombuffer(packed, np.uint8))
    if type(backend).__module__.startswith("ray."):  # but Ray only what is in its store
        import ray

        sent = ray.put(sent)
    owned = (pickle.dumps([a for i, a in enumerate(task) if i not in shared], 5) for task in listed)
    done = parallel(delayed(_call)(function, key, sent, shared, own) for own in owned)
    return [pickle.loads(result) for result in done]


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


def spread(items: list[Any], parts: int) -> list[list[Any]]:
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
