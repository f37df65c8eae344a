"""Run all methods on a collection of data sets, each within a time limit.

Networks are learned from the training rows, all choices are made on the validation rows, and the test
rows are scored once. Each method and data set has a result of its own, which is stored after every score:
a run that was stopped resumes, and a method that was stopped leaves the scores that it had.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from conjoin import __version__
from conjoin.data.holdout import sample_rows
from conjoin.errors import ConjoinError
from conjoin.inference.engines import forecast
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import Network
from conjoin.reproduction.data import Files
from conjoin.reproduction.methods import METHODS, Rows
from conjoin.reproduction.stored_results import read_result, write_result
from conjoin.reproduction.tree_mixture import tree_mixture_scores
from conjoin.scoring.likelihood import log_likelihood
from conjoin.scoring.marginal_likelihood import cmll
from conjoin.scoring.pseudo_likelihood import pll

Result = dict[str, Any]

LIMIT = 60.0
"""Default of the CPU seconds that a method may take on a data set, scores included."""

MAX_BYTES = 1 << 30
"""The likelihood is computed if exact inference needs at most this much memory."""

CMLL_ROWS = 1_000
"""Maximum number of test rows by which CMLL is measured, the same for all methods."""

MIXTURE = "tree-mixture"
"""The mixture of trees, which is scored by its likelihood only."""

TITLES = {
    **{name: method.title for name, method in METHODS.items()},
    MIXTURE: "mixture of trees (Meila and Jordan)",
}
"""The names of all methods in tables, in their order."""


def compare_methods(
    folder: Path,
    out: Path,
    names: Sequence[str],
    *,
    methods: Sequence[str] = tuple(TITLES),
    limit: float = LIMIT,
    random_state: int = 0,
    n_jobs: int | None = None,
    report_progress: Callable[[str], None] = lambda _: None,
) -> dict[str, dict[str, Result]]:
    """Learn and score networks by several methods; return {data set: {method: result}}.

    Parameters
    ----------
    folder : Path
        The collection.
    out : Path
        The folder for results; those that are there already are kept. Methods that failed, or that were
        stopped under a lower limit, are run again.
    names : sequence of str
        The data sets, by file name.
    methods : sequence of str
        The methods, by name.
    limit : float
        The CPU seconds that one method may take on one data set. Methods run in a process of their own,
        which is ended then; with 0 there is no limit, and no process.
    random_state : int
        The seed of all random choices.
    n_jobs : int, optional
        The number of jobs; only times depend on it.
    report_progress : callable
        Called with a line about each run.
    """
    sizes = {}
    for name in names:  # fail on a missing file before any work is done
        paths = [Files(name, folder).path(part) for part in ("train", "valid", "test")]
        sizes[name] = paths[0].stat().st_size
    tasks = [(name, method) for name in names for method in methods]
    tasks.sort(key=lambda task: sizes[task[0]] * _cost(task[1]))
    todo = []
    for name, method in tasks:
        found = read_result(_path(out, name, method))
        if found is None or not _is_done(found, random_state, limit):
            todo.append((name, method))
    worker = _Worker() if limit > 0 else None
    try:
        for number, (name, method) in enumerate(todo, 1):
            report_progress(f"[{number}/{len(todo)}] {name}: {TITLES[method]}")
            path = _path(out, name, method)
            arguments = (folder, name, method, path, random_state, n_jobs)
            if worker is None:
                run_method(*arguments)
            elif not worker.run(arguments, limit):
                _mark_stopped(path, random_state, limit)
    finally:
        if worker is not None:
            worker.close()
    return read_comparison(out, names)


def read_comparison(out: Path, names: Sequence[str]) -> dict[str, dict[str, Result]]:
    """Return the results in a folder, by data set and method."""
    results: dict[str, dict[str, Result]] = {}
    for name in names:
        for method in TITLES:
            found = read_result(_path(out, name, method))
            if found is not None:
                results.setdefault(name, {})[method] = found
    return results


def run_method(
    folder: Path, name: str, method: str, path: Path, random_state: int, n_jobs: int | None
) -> None:
    """Run one method on one data set, and store its result after every score."""
    result: Result = {"version": __version__, "seed": random_state}
    try:
        for figures in _figures(Files(name, folder), method, random_state, n_jobs):
            result.update(figures)
            write_result(path, result)
        result["finished"] = True
    except (ConjoinError, MemoryError, ArithmeticError) as error:
        result["failed"] = f"{type(error).__name__}: {error}"
    write_result(path, result)


def _figures(
    files: Files, method: str, random_state: int, n_jobs: int | None
) -> Iterator[dict[str, Any]]:
    """Yield the time and size of a network, and then its scores."""
    rows = Rows(files.train, files.valid, random_state, n_jobs)
    test = files.test
    started, wall = time.process_time(), time.perf_counter()
    if method == MIXTURE:
        score, components = tree_mixture_scores(rows.train, rows.valid, test, random_state)
        yield {"ll": score, "size": components, "seconds": time.process_time() - started}
        return
    model = METHODS[method].learn(rows)
    yield {
        "seconds": time.process_time() - started,
        "wall_seconds": time.perf_counter() - wall,
        "size": network_size(model),
    }
    found = pll(model, test, n_jobs=n_jobs)
    yield {"pll": found.mean, "pll_stderr": found.stderr}
    few = sample_rows(test, CMLL_ROWS, np.random.default_rng(random_state))
    sampled = cmll(model, few, random_state=random_state, n_jobs=n_jobs)
    yield {"cmll": sampled.mean, "cmll_mc_stderr": sampled.mc_stderr}
    if isinstance(model, BayesianNetwork) or _fits(model):
        likelihood = log_likelihood(model, test)
        yield {"ll": likelihood.mean, "ll_stderr": likelihood.stderr}


def network_size(model: Network) -> int:
    """Return the number of weights of a network: its features, and the cells of tables and leaves."""
    if isinstance(model, MarkovNetwork) and not model.factors:
        return len(model.features)
    return len(model.form.features)


def _fits(model: Network) -> bool:
    try:
        return forecast(model, max_memory=MAX_BYTES).bytes <= MAX_BYTES
    except ConjoinError:
        return False


def _cost(method: str) -> float:
    return METHODS[method].cost if method in METHODS else 20.0


def _path(out: Path, name: str, method: str) -> Path:
    return out / "methods" / name / f"{method}.json"


def _is_done(result: Result, random_state: int, limit: float) -> bool:
    """Return whether a stored result need not be computed again."""
    if result.get("seed") != random_state or result.get("version") != __version__:
        return False
    stopped_after = result.get("stopped_after")
    if stopped_after is not None:
        return 0 < limit <= stopped_after
    return bool(result.get("finished"))


def _mark_stopped(path: Path, random_state: int, limit: float) -> None:
    """Note in a result that its method was stopped."""
    result = read_result(path) or {}
    if result.get("seed") != random_state or result.get("version") != __version__:
        result = {"version": __version__, "seed": random_state}
    write_result(path, {**result, "stopped_after": limit})


class _Worker:
    """A process that runs methods one after the other, and ends itself when one takes too long."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._process: Any = None

    def run(self, arguments: tuple[Any, ...], limit: float) -> bool:
        """Run `run_method`; return whether it came to an end within the limit."""
        if self._process is None:
            self._pipe, theirs = self._context.Pipe()
            self._process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        try:
            self._pipe.send((arguments, limit))
            error = self._pipe.recv()
        except (EOFError, OSError):  # it ended itself, or the system did, for its memory perhaps
            self.close()
            return False
        if error is not None:
            raise error
        return True

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.terminate()
            self._process.join()
            self._pipe.close()
            self._process = None


def _serve(pipe: Any) -> None:
    """Run methods until the process is ended."""
    while True:
        try:
            arguments, limit = pipe.recv()
            with _limited(limit):
                run_method(*arguments)
            pipe.send(None)
        except EOFError:
            return
        except Exception as error:
            pipe.send(error)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """End this process if the block takes more seconds of processor time, or if its parent ends."""
    finished = threading.Event()
    end, parent = time.process_time() + seconds, os.getppid()

    def watch() -> None:
        while not finished.wait(min(1.0, seconds)):
            if time.process_time() > end or os.getppid() != parent:
                os._exit(1)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()
