"""The experiments on each data set, as steps whose results are kept and not computed again."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from conjoin import __version__
from conjoin.conversion.closed_form import convert
from conjoin.errors import FormatError
from conjoin.formats.model_files import load, save
from conjoin.joint import learn_weights
from conjoin.learning.conditional_learning import learn_conditionals
from conjoin.models import MarkovNetwork
from conjoin.models.network import Network
from conjoin.research.reproduction.experiment_files import (
    Files,
    Result,
    read_result,
    write_result,
)
from conjoin.scoring import cmll, pll

CPDS = ("tree", "logistic")
PRIORS = {"tree": (0.05, 0.1, 0.2, 0.5, 1.0), "logistic": (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)}
"""The standard deviations of Section 6.2."""
VARIANTS: dict[str, dict[str, Any]] = {
    "1": {"orders": "single", "reverse": False, "base": "mode"},
    "2": {"orders": "single", "base": "mode"},
    "3": {"orders": "single", "reverse": False},
    "4": {"orders": "single"},
    "5": {"orders": "rotations", "reverse": False},
    "6": {"orders": "rotations"},
}
"""The six conversions of Section 6.2."""
CMLL_SWEEPS = 200
"""Number of Gibbs sweeps that count; their error is a hundredth of that of the finite test sets."""


def reproduce(
    folder: Path,
    out: Path,
    names: Sequence[str],
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
    command: str = "",
    report_progress: Callable[[str], None] = lambda _: None,
) -> None:
    """Run the paper's evaluation on some data sets of a folder.

    Steps that already have results in the folder `out` are skipped. The seed is for the sets and the
    chains of CMLL; only times depend on `n_jobs`. The command line is recorded with the results, and
    `report_progress` is called with a line about each step.
    """
    plan: list[tuple[Experiment, ExperimentStep]] = []
    for name in names:
        experiment = Experiment(Files(name, folder), out, random_state, n_jobs)
        experiment.files.check()
        missing = [step for step in experiment.steps() if experiment.result(step.name) is None]
        plan += [(experiment, step) for step in missing]
    # Quick steps of all data sets come first, sampling last.
    ranks = {"lw": 1, "cmll": 2}
    plan.sort(key=lambda item: ranks.get(item[1].name.rpartition(".")[2], 0))
    _write_about(out, random_state, command)
    for number, (experiment, step) in enumerate(plan, 1):
        name = experiment.files.name
        report_progress(f"[{number}/{len(plan)}] {name}: {step.description}")
        experiment.do(step)


def read_results(out: Path) -> dict[str, dict[str, Result]]:
    """Return all results in a folder: {data set: {step: result}}."""
    results: dict[str, dict[str, Result]] = {}
    for path in sorted((out / "results").glob("*/*.json")):
        result = read_result(path)
        if result is None:
            raise FormatError("is damaged; delete it, and run the same command again", str(path))
        results.setdefault(path.parent.name, {})[path.stem] = result
    return results


def _write_about(out: Path, random_state: int, command: str) -> None:
    """Record the command, the versions and the machine with the results."""
    import os

    import numba

    path = out / "about.json"
    earlier = str((read_result(path) or {}).get("command", "")).split("; ")
    about = {
        "command": "; ".join(dict.fromkeys([*filter(None, earlier), command])),
        "conjoin": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "seed": random_state,
    }
    write_result(path, about)


@dataclass(frozen=True)
class ExperimentStep:
    """One piece of work: its name, a description, and the function that does it."""

    name: str
    description: str
    run: Callable[[], Result]


@dataclass(frozen=True)
class Experiment:
    """The experiments on one data set; results and models are kept in the folder `out`."""

    files: Files
    out: Path
    random_state: int = 0
    n_jobs: int | None = None

    def path(self, step: str) -> Path:
        """Return the file of a step's result."""
        return self.out / "results" / self.files.name / f"{step}.json"

    def result(self, step: str) -> Result | None:
        """Return the result of a step, if it was computed with this seed and version."""
        result = read_result(self.path(step)) or {}
        current = result.get("seed") == self.random_state and result.get("version") == __version__
        return result if current else None

    def do(self, step: ExperimentStep) -> None:
        """Run a step and store its result."""
        result, seconds = _timed(step.run)
        head = {"version": __version__, "seed": self.random_state, "step": step.name}
        write_result(self.path(step.name), {**head, "wall_seconds": round(seconds, 3), **result})

    def _model_path(self, step: str) -> Path:
        return self.out / "models" / self.files.name / f"{step}.conjoin"

    def _keep(self, step: str, model: Network) -> None:
        path = self._model_path(step)
        path.parent.mkdir(parents=True, exist_ok=True)
        save(model, path)

    def _model(self, step: str) -> Any:
        return load(self._model_path(step))

    def steps(self) -> Iterator[ExperimentStep]:
        """Yield all steps in order; each needs only the results of earlier ones."""
        step = ExperimentStep
        for cpd in CPDS:
            yield step(f"{cpd}.dn", f"learn {cpd} CPDs", partial(self._learn, cpd))
            for variant in VARIANTS:
                description = f"convert {cpd} CPDs, variant {variant}"
                yield step(f"{cpd}.{variant}", description, partial(self._convert, cpd, variant))
            yield step(f"{cpd}.lw", f"weights over the {cpd} network", partial(self._weights, cpd))
        for source in ("tree.lw", "tree.6", "logistic.lw", "logistic.6"):
            yield step(f"{source}.cmll", f"CMLL of {source}", partial(self._cmll, source))

    def _score(self, model: Network) -> Result:
        score = pll(model, self.files.test, n_jobs=self.n_jobs)
        return {"pll": score.mean, "stderr": score.stderr, "npll": score.normalized}

    def _learn(self, cpd: str) -> Result:
        dn, seconds = _timed(
            lambda: learn_conditionals(
                self.files.train, cpd, valid=self.files.valid, n_jobs=self.n_jobs, exhaustive=True
            )
        )
        self._keep(f"{cpd}.dn", dn)
        learned = dn.provenance["learned"]
        chosen = {k: learned[k] for k in ("kappa", "penalty") if k in learned}
        return {**self._score(dn), "learn_seconds": seconds, **chosen}

    def _convert(self, cpd: str, variant: str) -> Result:
        """Convert; the time includes reading the training rows and writing the model (Table 5)."""
        dn = self._model(f"{cpd}.dn")
        options = dict(VARIANTS[variant])

        def converted() -> MarkovNetwork:
            train = replace(self.files).train
            if options.get("base") == "mode":
                modes = [int(train.counts(i).argmax()) for i in range(len(train.domain))]
                options["base"] = train.domain.decode(modes)
            mn = convert(dn, train, **options)
            self._keep(f"{cpd}.{variant}", mn)
            return mn

        mn, seconds = _timed(converted)
        return {**self._score(mn), "seconds": seconds, "features": len(mn.features)}

    def _weights(self, cpd: str) -> Result:
        """Learn weights from zero; times include reading and writing, and are with and without tuning."""
        dn = self._model(f"{cpd}.dn")

        def learned(name: str, prior_sd: Any, *, tune: bool) -> MarkovNetwork:
            files = replace(self.files)  # whose tables are read again
            mn = learn_weights(
                dn, files.train, valid=files.valid if tune else None,
                prior_sd=prior_sd, n_jobs=self.n_jobs,
            )  # fmt: skip
            self._keep(name, mn)
            return mn

        mn, tuned = _timed(lambda: learned(f"{cpd}.lw", PRIORS[cpd], tune=True))
        sd, once = mn.provenance["weights"]["prior_sd"], f"{cpd}.lw.once"
        _, seconds = _timed(lambda: learned(once, sd, tune=False))
        self._model_path(once).unlink()
        times = {"seconds": tuned, "seconds_without_tuning": seconds, "prior_sd": sd}
        return {**self._score(mn), **times, "features": len(mn.features)}

    def _cmll(self, source: str) -> Result:
        score = cmll(
            self._model(source), self.files.test, samples=CMLL_SWEEPS,
            random_state=self.random_state, n_jobs=self.n_jobs,
        )  # fmt: skip
        kept = {"stderr": score.stderr, "mc_stderr": score.mc_stderr, "exact": score.exact}
        return {"cmll": score.mean, **kept, "sets": [list(part) for part in score.sets]}


def _timed(function: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    return function(), time.perf_counter() - started
