"""Compiled kernels against the same functions run by the interpreter.

Small tables are learned from, scored and asked. A few of the calls of kernels that this makes are
repeated in a process without a compiler, with the same arguments.
"""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import warnings
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any
from unittest import mock

import numpy as np

import conjoin
from conjoin.estimator.impute import imputed_codes
from conjoin.joint import learn_joint, learn_weights, thin
from conjoin.kernels.kernel import Kernel
from conjoin.learning.options import LIMITS
from conjoin.scoring import cmll, log_likelihood
from fuzz.comparison import LINE_SEARCH, compare, take_the_same_steps
from fuzz.examples import dependency_network, random_bayesian_network
from fuzz.queries import random_network
from fuzz.trials import count

MAX_VALUES = 200_000
"""Calls with more values in their arguments are not repeated."""

PER_CASE = 12
"""Maximum number of calls that are repeated per case (kernels that were never compared are always
repeated), and of those of one kernel."""
PER_KERNEL = 2

SEEN: Counter[str] = Counter()
"""How often each kernel was compared."""


class _Recorder:
    """Runs compiled kernels, and keeps some of their calls: arguments before and after, and results."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.calls = rng, []  # type: ignore[var-annotated]
        self.own: Counter[str] = Counter()
        self.real = Kernel.__call__

    def call(self, kernel: Kernel, *arguments: Any) -> Any:
        """Stand for `Kernel.__call__`."""
        name = kernel.signature.name
        wanted = not SEEN[name] or len(self.calls) < PER_CASE
        wanted = wanted and self.own[name] < PER_KERNEL
        if not wanted or self.rng.random() < 1 - 1 / (1 + SEEN[name]) ** 0.5:
            return self.real(kernel, *arguments)
        if sum(a.size for a in _arrays(arguments)) > MAX_VALUES:
            return self.real(kernel, *arguments)
        before = copy.deepcopy(arguments)
        result = self.real(kernel, *arguments)
        self.own[name] += 1
        self.calls.append((kernel, before, copy.deepcopy(arguments), copy.deepcopy(result)))
        return result


def _arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, tuple | list):
        return [array for part in value for array in _arrays(part)]
    return []


def case(rng: np.random.Generator) -> str:
    """Do something small with recorded kernels, and repeat their calls."""
    task = TASKS[int(rng.integers(len(TASKS)))]
    recorder = _Recorder(rng)
    with (
        warnings.catch_warnings(),
        mock.patch.object(Kernel, "__call__", lambda kernel, *a: recorder.call(kernel, *a)),
    ):
        warnings.simplefilter("ignore")
        task(rng)
    for kernel, before, after, result in recorder.calls:
        name = kernel.signature.name
        pipe = _interpreter()
        assert pipe.stdin is not None and pipe.stdout is not None
        pickle.dump((kernel.__module__, kernel.__name__, before), pipe.stdin)
        pipe.stdin.flush()
        other_result, other, error = pickle.load(pipe.stdout)
        assert error is None, f"{name}: {error}"
        short = any(array.dtype == np.float32 for array in _arrays(before))
        rtol = 2e-4 if short else 1e-7
        if name == LINE_SEARCH:
            take_the_same_steps(before, after, other)
        compare(f"{name}: the result", result, other_result, rtol)
        for i, parameter in enumerate(kernel.signature.parameters):
            compare(f"{name}: {parameter}", after[i], other[i], rtol)
        SEEN[name] += 1
        count("calls of kernels")
        if SEEN[name] == 1:
            count("different kernels")
    return task.__name__.replace("_", " ")


@cache
def _interpreter() -> subprocess.Popen[bytes]:
    """Start the process without a compiler."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "CONJOIN_KERNELS": "numba"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-m", "fuzz.interpreted"],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


# ---- small tasks ----------------------------------------------------------------------------------


def random_table(rng: np.random.Generator, columns: int = 4) -> conjoin.Table:
    """Return a small table of dependent columns, sometimes with missing values or weights."""
    rows = int(rng.integers(40, 90))
    cards = rng.integers(2, 4, columns)
    if rng.random() < 0.3:
        cards[:] = 2
    hidden = rng.integers(0, 3, rows)
    codes = np.stack(
        [np.where(rng.random(rows) < 0.7, hidden % c, rng.integers(0, c, rows)) for c in cards], 1
    ).astype(np.uint8)
    if rng.random() < 0.4:
        codes[rng.random(codes.shape) < 0.1] = 255
    domain = conjoin.Domain({f"x{i}": [f"s{k}" for k in range(c)] for i, c in enumerate(cards)})
    weights = rng.random(rows) + 0.1 if rng.random() < 0.3 else None
    return conjoin.Table(domain, codes, weights)


def learning(rng: np.random.Generator) -> None:
    """Learn conditionals and convert them."""
    table = random_table(rng)
    cpd = str(rng.choice(["tree", "logistic", "hybrid", "mixed", "boosted"]))
    network = conjoin.learn(table, cpd, n_jobs=1)
    conjoin.convert(network, table)


def joint_learning(rng: np.random.Generator) -> None:
    """Learn a joint distribution."""
    learn_joint(random_table(rng), n_jobs=1, random_state=0)


def weight_learning(rng: np.random.Generator) -> None:
    """Learn weights by pseudo-likelihood."""
    table = random_table(rng)
    network = conjoin.convert(conjoin.learn(table, "tree", n_jobs=1), table)
    learn_weights(network, table, n_jobs=1)
    thin(network)


def scoring(rng: np.random.Generator) -> None:
    """Score a network."""
    table = random_table(rng)
    network = conjoin.learn(table, "tree", n_jobs=1)
    markov = conjoin.convert(network, table)
    conjoin.pll(network if rng.random() < 0.5 else markov, table, n_jobs=1)
    complete = table.codes.max() < table.missing
    log_likelihood(markov, table)
    if complete:
        cmll(markov, table, n_jobs=1)


def asking(rng: np.random.Generator) -> None:
    """Ask by every engine."""
    network = random_network(rng)
    evidence = {}
    if rng.random() < 0.5:
        variable = network.domain.observed.variables[0]
        evidence = {variable.name: variable.states[0]}
    method = str(rng.choice(["exact", "bp", "mean_field", "gibbs"]))
    options = {"n_samples": 20, "burn_in": 5, "n_jobs": 1} if method == "gibbs" else {}
    try:
        conjoin.marginals(network, evidence, method=method, **options)
        conjoin.most_probable(network, evidence)
        conjoin.sample(network, 20, evidence, random_state=1)
        conjoin.next_questions(network, network.domain.names[-1 - network.domain.hidden.sum()])
    except conjoin.ConjoinError:
        return


def conditionals(rng: np.random.Generator) -> None:
    """Ask a network of conditionals."""
    network = dependency_network()
    conjoin.sample(network, 20, random_state=int(rng.integers(1000)))
    conjoin.most_probable(network)
    codes = rng.integers(0, 2, (70, 5)).astype(np.uint8)
    conjoin.pll(network, conjoin.Table(network.domain, codes), n_jobs=1)
    conjoin.inconsistency(network)


def sparse_learning(rng: np.random.Generator) -> None:
    """Learn regressions from sparse matrices."""
    table = random_table(rng, columns=6)
    limits = replace(LIMITS, sparse_share=1.0)
    conjoin.learn(table, str(rng.choice(["logistic", "hybrid"])), n_jobs=1, limits=limits)


def sampling_marginals(rng: np.random.Generator) -> None:
    """Estimate marginal likelihoods of a network whose columns follow one another."""
    rows = rng.integers(0, 2, (90, 40))
    for i in range(1, 40):
        rows[:, i] = np.where(rng.random(90) < 0.9, rows[:, i - 1], rows[:, i])
    network = conjoin.convert(conjoin.learn(rows, "tree", n_jobs=1), rows)
    sets = [network.domain.names[:20], network.domain.names[20:]]
    cmll(network, rows[:20], sets=sets, burn_in=2, samples=20, n_jobs=1)


def imputing(rng: np.random.Generator) -> None:
    """Fill in rows of networks with features or tables."""
    kind = int(rng.integers(3))
    if kind == 0:
        network = random_bayesian_network(rng)
        codes = np.stack([rng.integers(0, c, 20) for c in network.domain.cards], 1)
    else:
        table = random_table(rng, columns=int(rng.integers(9, 14)))
        network = conjoin.convert(conjoin.learn(table, "tree", n_jobs=1), table)
        network = network if kind == 1 else thin(network)
        codes = table.codes[:20].copy()
    codes[rng.random(codes.shape) < rng.choice([0.2, 0.9])] = 255
    rows = conjoin.Table(network.domain, codes.astype(np.uint8))
    try:
        imputed_codes(network, rows, draws=2 if rng.random() < 0.3 else None, random_state=1)
        log_likelihood(network, rows)
    except conjoin.ConjoinError:
        return


def wide_network(rng: np.random.Generator) -> None:
    """Ask a network of more than 64 variables."""
    rows = rng.integers(0, 2, (60, 66))
    network = conjoin.convert(conjoin.learn(rows, "tree", n_jobs=1, kappa=0.5), rows)
    try:
        conjoin.marginals(network, method="exact", max_memory=1 << 20)
    except conjoin.ConjoinError:
        return


TASKS = (
    learning, sparse_learning, joint_learning, weight_learning, scoring, sampling_marginals,
    asking, conditionals, imputing, wide_network,
)  # fmt: skip


def prepare() -> None:
    """Start the interpreter."""
    _interpreter()
