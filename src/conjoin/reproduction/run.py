"""Run the experiments on several data sets, resuming where an earlier run stopped."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from conjoin import __version__
from conjoin.errors import FormatError
from conjoin.reproduction.data import Files
from conjoin.reproduction.published import DATA_SETS
from conjoin.reproduction.steps import Experiment, Step
from conjoin.reproduction.stored_results import read_result, write_result


def reproduce(
    folder: Path,
    out: Path,
    names: Sequence[str],
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
    command: str = "",
    report_progress: Callable[[str], None] = lambda _: None,
) -> dict[str, dict[str, Any]]:
    """Run the paper's evaluation on some data sets of a folder; return {data set: {step: result}}.

    Steps that already have results in the folder `out` are skipped. The seed is for the sets and the
    chains of CMLL; only times depend on `n_jobs`. The command line is recorded with the results, and
    `report_progress` is called with a line about each step and the estimated time left.
    """
    experiments = {
        name: Experiment(Files(name, folder), out, random_state, n_jobs) for name in names
    }
    plan: list[tuple[str, Step]] = []
    results: dict[str, dict[str, Any]] = {name: {} for name in names}
    for name, experiment in experiments.items():
        for part in ("train", "valid", "test"):
            experiment.files.path(part)  # fail on a missing file before any work is done
        for step in experiment.steps():
            done = experiment.result(step.name)
            if done is None:
                plan.append((name, step))
            else:
                results[name][step.name] = done
    plan.sort(key=lambda item: _rank(item[1].name))
    total = sum(_size(name) * step.cost for name, step in plan)
    started, finished = time.perf_counter(), 0.0
    _write_about(out, random_state, command)
    for number, (name, step) in enumerate(plan, 1):
        spent = time.perf_counter() - started
        left = ""
        if finished > 0.02 * total:
            left = f", about {_duration(spent * (total - finished) / finished)} left"
        report_progress(f"[{number}/{len(plan)}] {name}: {step.description}{left}")
        results[name][step.name] = experiments[name].do(step)
        finished += _size(name) * step.cost
    return results


def read_results(out: Path) -> dict[str, dict[str, Any]]:
    """Return all results in a folder."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((out / "results").glob("*/*.json")):
        result = read_result(path)
        if result is None:
            raise FormatError("is damaged; delete it, and run the same command again", str(path))
        found.setdefault(path.parent.name, {})[path.stem] = result
    return found


def _rank(step: str) -> int:
    """Return the priority of a step: quick steps of all data sets come first, sampling last."""
    end = step.rpartition(".")[2]
    return {"lw": 1, "tuned": 2, "cmll": 3}.get(end, 0)


def _size(name: str) -> float:
    """Return a rough measure of the time that a data set takes."""
    listed = DATA_SETS.get(name)
    return 1e5 if listed is None else float(listed.train + listed.test) * listed.variables


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _write_about(out: Path, random_state: int, command: str) -> None:
    """Record the command, the versions and the machine with the results."""
    import os

    import numba

    about = {
        "command": command,
        "conjoin": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "seed": random_state,
    }
    path = out / "about.json"
    old = read_result(path)
    if old is not None:  # earlier commands wrote to the same folder
        before = str(old.get("command", "")).split("; ")
        about["command"] = "; ".join(dict.fromkeys([*filter(None, before), command]))
    write_result(path, about)
