"""How the pieces of learning are done: by how many jobs, said how, and kept where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from conjoin.jobs import Sent, count_steps, finished
from conjoin.learning.checkpoint import Checkpoint


class Work:
    """Runs the pieces of each stage of learning.

    Parameters
    ----------
    n_jobs : int, optional
        How many pieces to do at a time, as joblib understands it.
    checkpoint : Checkpoint, optional
        Where finished pieces are kept, and those of an earlier run are found.
    part : str
        Which part of the run this is, said with the progress.
    """

    def __init__(
        self, n_jobs: int | None = None, checkpoint: Checkpoint | None = None, part: str = ""
    ) -> None:
        self.n_jobs, self.checkpoint, self.part = n_jobs, checkpoint, part
        self.sent = Sent()

    def named(self, part: str) -> Work:
        """Return the same for a part of the run."""
        twin = Work(self.n_jobs, self.checkpoint, part)
        twin.sent = self.sent
        return twin

    def fold(self, number: int, folds: int) -> Work:
        """Return the same for one of several folds, counted from 0."""
        return self.named(f"fold {number + 1} of {folds}" if folds > 1 else "")

    def run(
        self,
        function: Callable[..., Any],
        tasks: Sequence[tuple[Any, ...]],
        what: str,
        sizes: Sequence[int],
        *,
        dump: Callable[[Any], Any] = lambda result: result,
        restore: Callable[[tuple[Any, ...], Any], Any] = lambda _, kept: kept,
    ) -> list[Any]:
        """Do a stage; return the results of its pieces in order.

        Parameters
        ----------
        function : callable
            What to call.
        tasks : sequence of tuple
            The arguments of each piece.
        what : str
            What is being done, such as "trees, kappa 0.01".
        sizes : sequence of int
            How many variables each piece is of.
        dump : callable
            Turns a result into what the checkpoint keeps.
        restore : callable
            Turns a task's arguments and what was kept of it into its result.
        """
        results: list[Any] = [None] * len(tasks)
        keys: list[str] = []
        left = list(range(len(tasks)))
        if self.checkpoint is not None:
            stage = self.checkpoint.stage()
            keys = [f"{stage} {what} {i + 1}/{len(tasks)}" for i in left]
            left = [i for i in left if keys[i] not in self.checkpoint]
            for i in set(range(len(tasks))) - set(left):
                results[i] = restore(tasks[i], self.checkpoint.get(keys[i]))
        done = finished(function, [tasks[i] for i in left], self.n_jobs, self.sent)
        said = f"{self.part}: {what}" if self.part else what
        with closing(count_steps(done, said, [sizes[i] for i in left])) as pieces:
            for number, result in pieces:
                i = left[number]
                if self.checkpoint is not None:
                    self.checkpoint.put(keys[i], dump(result))
                results[i] = result
        return results
