"""The tasks of learning: run in parallel, with progress, and kept in a checkpoint when they are done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from conjoin.jobs import count_steps, finished
from conjoin.learning.checkpoint import Checkpoint


@dataclass(frozen=True)
class TaskRunner:
    """Runs the tasks of each stage of learning.

    Attributes
    ----------
    n_jobs : int, optional
        The number of tasks to run at a time, as in joblib.
    checkpoint : Checkpoint, optional
        Where results are saved, and where the results of an earlier run are found.
    label : str
        The part of the run that the stages belong to, shown with the progress.
    """

    n_jobs: int | None = None
    checkpoint: Checkpoint | None = None
    label: str = ""

    def labelled(self, label: str) -> TaskRunner:
        """Return the runner of a part of the run."""
        return replace(self, label=label)

    def fold(self, number: int, folds: int) -> TaskRunner:
        """Return the runner of one of several folds, counted from 0."""
        return self.labelled(f"fold {number + 1} of {folds}" if folds > 1 else "")

    def run(
        self,
        function: Callable[..., Any],
        tasks: Sequence[tuple[Any, ...]],
        what: str,
        sizes: Sequence[int],
    ) -> list[Any]:
        """Run a stage; return the results of its tasks in order.

        Parameters
        ----------
        function : callable
            The function to call.
        tasks : sequence of tuple
            The arguments of each call.
        what : str
            The name of the stage, such as "trees, kappa 0.01".
        sizes : sequence of int
            The number of variables of each task.
        """
        results: dict[int, Any] = {}
        keys: list[str] = []
        if self.checkpoint is not None:
            keys = self.checkpoint.stage_keys(what, len(tasks))
            found = enumerate(map(self.checkpoint.get, keys))
            results = {i: kept[0] for i, kept in found if kept is not None}
        left = [i for i in range(len(tasks)) if i not in results]
        done = finished(function, [tasks[i] for i in left], self.n_jobs)
        label = f"{self.label}: {what}" if self.label else what
        with closing(count_steps(done, label, [sizes[i] for i in left])) as numbered:
            for number, result in numbered:
                i = left[number]
                if self.checkpoint is not None:
                    self.checkpoint.put(keys[i], result)
                results[i] = result
        return [results[i] for i in range(len(tasks))]
