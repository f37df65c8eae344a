"""One model used by many threads, by copies of the process, and by fresh processes at once."""

from __future__ import annotations

import atexit
import faulthandler
import multiprocessing
import os
import pickle
import threading
from functools import cache
from typing import Any

import numpy as np

import conjoin
from conjoin import ConjoinError, Domain
from fuzz.evidence import random_evidence
from fuzz.examples import random_joint, small_estimator
from fuzz.queries import random_network
from fuzz.trials import count

THREADS = 6
QUESTIONS = 8
"""Number of different questions per case."""


def answer(model: Any, given: Any, seed: int) -> Any:
    """Return everything that one question yields, in types that can be compared."""
    try:
        found = conjoin.marginals(model, given)
        distributions = [(name, repr(found[name])) for name in found]
        p = [] if not hasattr(found, "array") else [found.array(name).tobytes() for name in found]
        if isinstance(model, conjoin.MarkovNetwork | conjoin.BayesianNetwork):
            rows = conjoin.sample(model, 5, given, random_state=seed)
            best = conjoin.most_probable(model, given)
            return distributions, p, rows.codes.tolist(), dict(best), best.score
        return distributions, p
    except ConjoinError as error:
        return type(error).__name__, str(error)


def case(rng: np.random.Generator) -> str:
    """Ask the same questions one after another, and at once."""
    model: Any = random_joint(rng) if rng.random() < 0.3 else random_network(rng)
    domain = model.domain
    if rng.random() < 0.15:
        model, domain = small_estimator(), Domain({"v0": ["blue", "red"]})
    questions = [(random_evidence(rng, domain).given, k) for k in range(QUESTIONS)]
    fresh = pickle.loads(pickle.dumps(model))
    expected = [answer(model, *question) for question in questions]
    count("questions", len(questions))
    kind = str(rng.choice(["threads", "fork", "spawn"], p=[0.55, 0.4, 0.05]))
    {"threads": in_threads, "fork": after_fork, "spawn": in_processes}[kind](
        fresh, questions, expected
    )
    count(f"questions in {kind}", len(questions) * (THREADS if kind == "threads" else 1))
    return kind


def in_threads(model: Any, questions: list[Any], expected: list[Any]) -> None:
    """Ask a model from several threads at once, each in another order."""
    wrong: list[Any] = []
    start = threading.Barrier(THREADS)

    def ask(first: int) -> None:
        try:
            start.wait()
            for k in range(len(questions)):
                at = (k + first) % len(questions)
                if answer(model, *questions[at]) != expected[at]:
                    wrong.append((at, "another answer"))
        except BaseException as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    assert not wrong, wrong[:3]


def after_fork(model: Any, questions: list[Any], expected: list[Any]) -> None:
    """Ask in a copy of the process, of a model that some thread has used before."""
    thread = threading.Thread(target=answer, args=(model, *questions[0]))
    thread.start()
    thread.join()
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(120, exit=True)
        same = False
        try:
            same = [answer(model, *question) for question in questions] == expected
        finally:
            os._exit(0 if same else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the copy of the process ended with {os.waitstatus_to_exitcode(status)}"


def in_processes(model: Any, questions: list[Any], expected: list[Any]) -> None:
    """Send a model to fresh processes."""
    tasks = [(model, *question) for question in questions]
    assert _pool().starmap_async(answer, tasks).get(300) == expected


@cache
def _pool() -> Any:
    pool = multiprocessing.get_context("spawn").Pool(2)
    atexit.register(pool.terminate)
    return pool


def prepare() -> None:
    """Nothing to prepare."""
