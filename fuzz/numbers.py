"""Answers of random joints of states and numbers against their definition, state by state."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import conjoin
from conjoin import Table
from conjoin.inference import JointRows
from conjoin.models import Joint
from fuzz.examples import fine_reference, random_joints
from fuzz.trials import count

AT = (-4.0, 0.0, 3.0, 8.0, 15.0, 19.0, 24.0)


def case(rng: np.random.Generator) -> str:
    """Ask a random joint about rows that lack a few columns or most of them."""
    joint, log_p = random_joints.random_joint(rng)
    domain = joint.domain.observed
    missing = int(rng.integers(len(domain)))
    table = random_joints.random_rows(rng, domain, 3, missing)
    rows = JointRows(joint, table)
    for name in domain.names:
        check(joint, log_p, rows, name)
    check_evidence(joint, rows, int(rng.integers(3)))
    if rng.random() < 0.2:
        check_saved(joint, table)
    return f"{missing} missing"


def check(joint: Joint, log_p: Any, rows: JointRows, name: str) -> None:
    """Compare the distributions of a column given the rest of rows with sums over all states."""
    fine: Any = joint.fine
    v = rows.domain.index(name)
    answer = rows.answer(name)
    for row in range(len(rows.table)):
        codes = rows.codes[row].copy()
        codes[v] = -1
        if np.count_nonzero(codes < 0) > 1:
            codes[rows.absent[row]] = -1
        if not random_joints.sums_over_chain(joint, codes, v):
            continue
        scores = known_scores(rows, row, name)
        expected = fine_reference.states_of(log_p, fine, codes, scores, v)
        np.testing.assert_allclose(answer.p[row], expected, rtol=0, atol=1e-9, err_msg=name)
        count("questions")
        if name not in fine.names:
            continue
        found = rows.number(name)[row]
        mean, sd, below = fine_reference.number_of(log_p, fine, codes, scores, name, AT)
        np.testing.assert_allclose([found.mean(), found.sd()], [mean, sd], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose([found.cdf(x) for x in AT], below, rtol=0, atol=1e-9)


def known_scores(rows: JointRows, row: int, without: str) -> Any:
    """Return the scores of a row that are evidence, NaN for others."""
    fine: Any = rows.fine
    scores = np.full(len(fine.names), np.nan)
    for j, name in enumerate(fine.names):
        column, code = rows.domain.numbers(name), rows.codes[row, rows.domain.index(name)]
        if name != without and code >= 0 and column.intervals[code]:
            scores[j] = fine_reference.score(column, rows.table.column(name)[row])
    return scores


def check_evidence(joint: Joint, rows: JointRows, row: int) -> None:
    """The values of a row as evidence have the same answers as the row."""
    given = {}
    lost = np.count_nonzero(rows.codes[row] < 0) > 1
    for v, name in enumerate(rows.domain.names):
        if rows.codes[row, v] >= 0 and not (lost and rows.absent[row, v]):
            given[name] = rows.domain[name].states[rows.codes[row, v]]
            if name in rows.domain.numeric and not rows.absent[row, v]:
                given[name] = int(rows.table.column(name)[row])
    answer = conjoin.marginals(joint, given)
    codes = np.array([-1 + (name in given) for name in rows.domain.names])
    for v, name in enumerate(rows.domain.names):
        if name not in given and random_joints.sums_over_chain(joint, codes, v):
            expected = rows.states(name)[row]
            np.testing.assert_allclose(answer.array(name), expected, rtol=0, atol=1e-9)
            if name in rows.domain.numeric:
                mean = rows.number(name).mean()[row]
                np.testing.assert_allclose(answer[name].mean(), mean, rtol=0, atol=1e-9)


def check_saved(joint: Joint, table: Table) -> None:
    """A saved and loaded joint gives the same answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.conjoin"
        conjoin.save(joint, path)
        other = conjoin.load(path)
    before, after = JointRows(joint, table), JointRows(other, table)
    count("questions", 2)
    for name in table.names:
        assert (before.states(name) == after.states(name)).all(), name


def prepare() -> None:
    """Nothing to prepare."""
