"""A progress bar for work that takes more than two seconds, on a terminal."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TypeVar

Item = TypeVar("Item")


def progress(
    items: Iterable[Item], what: str, total: int | None = None
) -> Generator[Item, None, None]:
    """Yield items; after two seconds show a bar on standard error, if that is a terminal.

    Parameters
    ----------
    items : iterable
        The items. Each counts as one step when the next is requested.
    what : str
        The label of the bar.
    total : int, optional
        The number of items, if they have no length.

    Examples
    --------
    >>> sum(progress([1, 2, 3], "adding"))
    6
    """
    from tqdm import tqdm

    yield from tqdm(items, desc=what, total=total, delay=2, disable=None, leave=False)
