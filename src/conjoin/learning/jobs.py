"""Work shared among threads, processes or the machines of a cluster, through joblib."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any


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

    return list(Parallel(n_jobs=n_jobs, prefer="threads")(delayed(function)(*t) for t in listed))


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
