"""The experiments on one data set, as steps whose results are kept and not computed again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from conjoin import __version__
from conjoin.conversion.convert import convert
from conjoin.formats.model_files import load, save
from conjoin.joint.weight_learning import learn_weights
from conjoin.learning.learn import learn
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import Network
from conjoin.reproduction.data import Files
from conjoin.reproduction.stored_results import read_result, write_result
from conjoin.scoring.marginal_likelihood import cmll
from conjoin.scoring.pseudo_likelihood import pll

Result = dict[str, Any]

CPDS = ("tree", "logistic", "hybrid")
PAPER_CPDS = ("tree", "logistic")
PRIORS = {"tree": (0.05, 0.1, 0.2, 0.5, 1.0), "logistic": (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)}
"""The standard deviations of Section 6.2."""
VARIANTS: dict[str, dict[str, Any]] = {
    "1": {"orders": "single", "reverse": False, "base": "mode"},
    "2": {"orders": "single", "base": "mode"},
    "3": {"orders": "single", "reverse": False},
    "4": {"orders": "single"},
    "5": {"orders": "rotations", "reverse": False},
    "6": {"orders": "rotations"},
    "all": {"orders": "all"},
}
"""The six conversions of Section 6.2, and all orders."""


@dataclass(frozen=True)
class Step:
    """One piece of work: its name, a description, its relative cost, and the function that does it."""

    name: str
    description: str
    cost: float
    run: Callable[[], Result]


class Experiment:
    """The experiments on one data set; results and models are kept in the folder `out`."""

    def __init__(
        self, files: Files, out: Path, random_state: int = 0, n_jobs: int | None = None
    ) -> None:
        self.files, self.out = files, out
        self.random_state, self.n_jobs = random_state, n_jobs

    # ---- stored results -----------------------------------------------------------------------------

    def path(self, step: str) -> Path:
        """Return the file of a step's result."""
        return self.out / "results" / self.files.name / f"{step}.json"

    def model_path(self, step: str) -> Path:
        """Return the file of a step's model."""
        return self.out / "models" / self.files.name / f"{step}.conjoin"

    def result(self, step: str) -> Result | None:
        """Return the result of a step, if it was computed with this seed and version."""
        found = read_result(self.path(step))
        if found is None:
            return None
        same = found.get("seed") == self.random_state and found.get("version") == __version__
        return found if same else None

    def do(self, step: Step) -> Result:
        """Run a step and store its result."""
        started = time.perf_counter()
        result = step.run()
        result = {
            "version": __version__,
            "seed": self.random_state,
            "step": step.name,
            "wall_seconds": round(time.perf_counter() - started, 3),
            **result,
        }
        write_result(self.path(step.name), result)
        return result

    def _keep(self, step: str, model: Network) -> None:
        path = self.model_path(step)
        path.parent.mkdir(parents=True, exist_ok=True)
        save(model, path)

    def _model(self, step: str) -> Any:
        return load(self.model_path(step))

    # ---- the list of steps --------------------------------------------------------------------------

    def steps(self) -> Iterator[Step]:
        """Yield all steps in order; each needs only the results of earlier ones."""
        for cpd in CPDS:
            yield Step(f"{cpd}.dn", f"learn {cpd} CPDs", 2.0, partial(self._learn, cpd))
            for variant in VARIANTS:
                if cpd == "hybrid" and variant not in ("6", "all"):
                    continue
                yield Step(
                    f"{cpd}.{variant}",
                    f"convert {cpd} CPDs, variant {variant}",
                    0.3,
                    partial(self._convert, cpd, variant),
                )
        for cpd in PAPER_CPDS:
            yield Step(
                f"{cpd}.lw", f"weights over the {cpd} network", 8.0, partial(self._weights, cpd)
            )
        yield Step("mean.all", "mean of the tree and logistic networks", 0.3, self._mean)
        for source in ("tree.6", "logistic.6", "hybrid.6"):
            yield Step(f"{source}.tuned", f"fine-tune {source}", 6.0, partial(self._tune, source))
        for source in ("tree.lw", "tree.6", "logistic.lw", "logistic.6", "hybrid.6"):
            yield Step(f"{source}.cmll", f"CMLL of {source}", 8.0, partial(self._cmll, source))

    # ---- the steps --------------------------------------------------------------------------------

    def _score(self, model: Network) -> Result:
        score = pll(model, self.files.test, n_jobs=self.n_jobs)
        return {"pll": score.mean, "stderr": score.stderr, "npll": score.normalized}

    def _learn(self, cpd: str) -> Result:
        started = time.perf_counter()
        valid, n_jobs = self.files.valid, self.n_jobs
        dn = learn(self.files.train, cpd, valid=valid, n_jobs=n_jobs, exhaustive=True)
        seconds = time.perf_counter() - started
        self._keep(f"{cpd}.dn", dn)
        learned = dn.provenance["learned"]
        chosen = {k: learned[k] for k in ("kappa", "penalty") if k in learned}
        return {**self._score(dn), "learn_seconds": seconds, **chosen}

    def _convert(self, cpd: str, variant: str) -> Result:
        """Convert; the time includes reading the training rows and writing the model (Table 5)."""
        dn = self._model(f"{cpd}.dn")
        options = dict(VARIANTS[variant])
        started = time.perf_counter()
        train = replace(self.files).train
        if options.get("base") == "mode":
            modes = [int(train.counts(i).argmax()) for i in range(len(train.domain))]
            options["base"] = train.domain.decode(modes)
        mn = convert(dn, train, **options)
        self._keep(f"{cpd}.{variant}", mn)
        seconds = time.perf_counter() - started
        return {**self._score(mn), "seconds": seconds, "features": len(mn.features)}

    def _weights(self, cpd: str) -> Result:
        """Learn weights from zero; times include reading and writing, and are with and without tuning."""
        dn = self._model(f"{cpd}.dn")
        started = time.perf_counter()
        files = replace(self.files)
        mn = learn_weights(
            dn, files.train, valid=files.valid, prior_sd=PRIORS[cpd], n_jobs=self.n_jobs
        )
        self._keep(f"{cpd}.lw", mn)
        tuned = time.perf_counter() - started
        sd = mn.provenance["weights"]["prior_sd"]
        started = time.perf_counter()
        files = replace(self.files)
        once = learn_weights(dn, files.train, prior_sd=sd, n_jobs=self.n_jobs)
        self._keep(f"{cpd}.lw.once", once)
        seconds = time.perf_counter() - started
        self.model_path(f"{cpd}.lw.once").unlink()
        result = {"seconds": tuned, "seconds_without_tuning": seconds, "prior_sd": sd}
        return {**self._score(mn), **result, "features": len(mn.features)}

    def _mean(self) -> Result:
        """Take the geometric mean of two joints: the mean of their log-potentials."""
        halves = []
        for source in ("tree.all", "logistic.all"):
            features = self._model(source).features
            halves.append(replace(features, weights=features.weights / 2))
        mn = MarkovNetwork(self.files.train.domain, Features.concatenate(halves)).merged()
        self._keep("mean.all", mn)
        return self._score(mn)

    def _tune(self, source: str) -> Result:
        started = time.perf_counter()
        mn = learn_weights(
            self._model(source),
            self.files.train,
            valid=self.files.valid,
            start="model",
            n_jobs=self.n_jobs,
        )
        seconds = time.perf_counter() - started
        self._keep(f"{source}.tuned", mn)
        sd = mn.provenance["weights"]["prior_sd"]
        return {**self._score(mn), "seconds": seconds, "prior_sd": sd}

    def _cmll(self, source: str) -> Result:
        score = cmll(
            self._model(source),
            self.files.test,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        return {
            "cmll": score.mean,
            "stderr": score.stderr,
            "mc_stderr": score.mc_stderr,
            "exact": score.exact,
            "sets": [list(part) for part in score.sets],
        }
