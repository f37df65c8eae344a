"""Progress of work that takes more than two seconds, on a terminal."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TypeVar

Item = TypeVar("Item")


def progress(
    items: Iterable[Item], what: str, total: int | None = None
) -> Generator[Item, None, None]:
    """Yield items, with a bar on standard error after two seconds if that is a terminal.

    Parameters
    ----------
    items : iterable
        The items; each counts as one step when it is asked for the next.
    what : str
        What is being done, said before the bar.
    total : int, optional
        How many items there are, if they have no length.

    Examples
    --------
    >>> sum(progress([1, 2, 3], "adding"))
    6
    """
    from tqdm import tqdm

    yield from tqdm(items, desc=what, total=total, delay=2, disable=None, leave=False)
