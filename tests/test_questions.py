"""Questions about a model: what to ask next, what if, joint distributions; how answers are found."""

from __future__ import annotations

import json
from functools import partial
from itertools import combinations, pairwise
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import polars as pl
import pytest

import conjoin as cj
from conjoin import (
    DependencyNetwork,
    Domain,
    JointModel,
    Likelihood,
    Marginal,
    MarkovNetwork,
    next_questions,
    what_if,
)
from conjoin.cli.main import main
from conjoin.errors import DataWarning, ModelError
from conjoin.inference import Completion, TooLarge, evidence_of, free_memory
from conjoin.models import TableFactor
from conjoin.views.reports.svg import heat_map
from test_evidence import CASES, fitted, random_evidence, random_model


def information(joint):
    """The mutual information of the rows and columns of a table, in bits."""
    independent = joint.sum(1, keepdims=True) * joint.sum(0)
    inside = joint > 0
    return float((joint[inside] * np.log2(joint[inside] / independent[inside])).sum())


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_questions_are_ranked_by_information(kind, seed):
    rng, model, states, potential = random_model(kind, seed)
    domain = model.domain
    target = domain.names[rng.integers(4)]
    given, weights = random_evidence(rng, domain, states, 0.4)
    given.pop(target, None)
    weights = np.ones(len(states))
    for name, value in given.items():
        v = domain.index(name)
        weights *= np.exp(evidence_of(domain, {name: value}).log_weights(v))[states[:, v]]
    p = potential * weights
    if not p.any():
        with pytest.raises(ModelError, match="impossible"):
            next_questions(model, target, given)
        return
    p /= p.sum()
    found = next_questions(model, target, given)
    t = domain.index(target)
    assert found.run.exact and found.target == target
    certain = evidence_of(domain, given).certain
    open_names = [n for n in domain.observed.names if n not in certain and n != target]
    assert sorted(q.name for q in found) == sorted(open_names)
    assert all(a.information >= b.information for a, b in pairwise(found))
    for question in found:
        u = domain.index(question.name)
        joint = np.array([
            [p[(states[:, t] == s) & (states[:, u] == r)].sum() for r in range(domain.cards[u])]
            for s in range(domain.cards[t])
        ])  # fmt: skip
        assert question.information == pytest.approx(information(joint), abs=1e-9)
        for r, state in enumerate(domain.variables[u].states):
            assert question.answers[state] == pytest.approx(joint[:, r].sum(), abs=1e-9)
            if joint[:, r].sum():
                after = list(question.targets[state].values())
                np.testing.assert_allclose(after, joint[:, r] / joint[:, r].sum(), atol=1e-9)
        assert question.information <= found.entropy + 1e-9
    printed = [line.split()[0] for line in repr(found).splitlines()[1:] if line.split()[0] != "..."]
    assert printed == [q.name for q in found if q.information >= 0.001]


def test_questions_after_new_marginals():
    _, model, states, potential = random_model("features and factors", 3)
    domain = model.domain
    given = {"word": Marginal({"a": 0.2, "b": 0.3, "c, d": 0.5})}
    p = fitted(potential, states, {domain.index("word"): np.array([0.2, 0.3, 0.5])})
    found = {q.name: q for q in next_questions(model, "n", given)}
    t, u = domain.index("n"), domain.index("word")
    joint = np.array(
        [[p[(states[:, t] == s) & (states[:, u] == r)].sum() for r in range(3)] for s in range(3)]
    )
    assert found["word"].information == pytest.approx(information(joint), abs=1e-9)


def test_questions_where_exact_inference_does_not_fit():
    rng = np.random.default_rng(0)
    domain = Domain({f"x{i}": [0, 1] for i in range(5)})
    tables = [TableFactor((i, i + 1), rng.normal(size=(2, 2))) for i in range(4)]
    mn = MarkovNetwork(domain, factors=tables)
    exact = next_questions(mn, "x2", "x0=1")
    sampled = next_questions(mn, "x2", "x0=1", max_memory=8, n_samples=4000)
    by_name = {q.name: q.information for q in sampled}
    for question in exact:
        assert by_name[question.name] == pytest.approx(question.information, abs=0.02)
    dn = DependencyNetwork.from_markov_network(mn)
    found = next_questions(dn, "x2", "x0=1")
    assert not found.run.exact and len(found) == 3
    with pytest.raises(ModelError, match="'x0' is given"):
        next_questions(mn, "x0", "x0=1")


def test_what_if_compares_answers():
    _, model, _, _ = random_model("features and factors", 1)
    row = {"n": 2, "word": "a", "age": 30}
    found = what_if(model, row, ["n=5", {"word": None, "n": 1}], targets=["day", "age"])
    for answer, given in zip(
        found.answers, [{"n": 2, "word": "a"}, {"n": 5, "word": "a"}, {"n": 1}], strict=True
    ):
        for name in ("day", "age"):
            np.testing.assert_allclose(
                answer.array(name), cj.marginals(model, given).array(name), atol=1e-12
            )
    assert found.changes == ["n=5", "n=1, forget word"]
    lines = repr(found).splitlines()
    assert lines[0].split("  ")[-1].strip() == "n=1, forget word"
    assert len(lines) == 1 + 3 + 3 + 1
    assert set(what_if(model, row, "n=5").answers[0]) == {"day"}
    assert found.moved("day") > 0
    with pytest.raises(ModelError, match="at least one change"):
        what_if(model, row, [])
    soft = what_if(model, {"n": Likelihood({1: 1, 2: 2, 5: 3})}, "n != 1", targets=["word"])
    np.testing.assert_allclose(
        soft.answers[1].array("word"), cj.marginals(model, "n in {2, 5}").array("word"), atol=1e-12
    )


def test_what_if_takes_the_rows_that_explain_takes():
    rng = np.random.default_rng(1)
    age = rng.integers(20, 80, 300)
    frame = pd.DataFrame({
        "id": [f"r{i}" for i in range(300)],
        "age": age,
        "ill": np.where(age + rng.normal(0, 10, 300) > 50, "yes", "no"),
        "dose": np.where(rng.random(300) < 0.1, np.nan, age + rng.normal(0, 5, 300)),
    })  # fmt: skip
    with pytest.warns(DataWarning, match="'id'"):
        model = JointModel(effort="quick").fit(frame)
    at = int(np.flatnonzero(frame["dose"].isna())[0])
    names = ["age", "ill"]
    expected = what_if(model, dict(frame.loc[at, names]), "age=30", targets=["ill"]).answers
    rows = [frame.iloc[at], frame.iloc[[at]], pl.from_pandas(frame[at : at + 1])]
    own = model.encoding_.table(frame.iloc[[at]])
    for row in [*rows, own]:
        model.explain(row, "ill")
        found = what_if(model, row, "age=30", targets=["ill"]).answers
        for one, other in zip(found, expected, strict=True):
            assert one["ill"] == pytest.approx(other["ill"])
    with pytest.raises(ModelError, match="give one row, not 300"):
        what_if(model, frame, "age=30")
    with pytest.raises(ModelError, match="none of the columns of the model"):
        what_if(model, pd.Series({"x": 1}), "age=30")
    with pytest.raises(ModelError, match="choose the columns to compare with targets"):
        what_if(model, frame.dropna().iloc[0], "age=30")
    with pytest.raises(ModelError, match="not as Series$"):
        cj.marginals(model, frame.iloc[0])


def test_joint_models_are_models():
    rng = np.random.default_rng(0)
    rain = rng.random(400) < 0.3
    wet = np.where(rng.random(400) < 0.9, rain, ~rain)
    model = JointModel().fit(np.where(np.stack([rain, wet], axis=1), "yes", "no").astype(object))
    (question,) = next_questions(model, "v0")
    assert question.name == "v1" and question.information > 0.3
    assert what_if(model, "v0=yes", "v0=no").answers[0]["v1"]["yes"] > 0.8
    assert cj.marginals(model, "v0=yes")["v1"] == model.marginals({"v0": "yes"})["v1"]
    assert float(cj.probability(model, "v1 != no", {"v0": ["yes"]})) > 0.8
    assert set(model.sample(50, "v0 != no")[:, 0]) == {"yes"}


def test_two_columns_as_a_table_and_as_a_picture():
    domain = Domain({"rain <b>": ["no", "yes"], "wet": ["no", "yes", "x" * 40]})
    table = np.log([[0.6, 0.1, 0.05], [0.05, 0.15, 0.05]])
    joint = cj.inference.joint_distribution(
        MarkovNetwork(domain, factors=[TableFactor((0, 1), table)]), domain.names
    )
    lines = repr(joint).splitlines()
    assert lines[0].split() == ["rain", "<b>", "\\", "wet", "no", "yes", "x" * 40]
    assert lines[2].split() == ["yes", "0.05", "0.15", "0.05"]
    picture = ElementTree.fromstring(heat_map(joint))
    titles = [t.text for t in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[1] == "rain <b>=no, wet=yes: 0.1" and len(titles) == 6
    three = Domain({"a": [0, 1], "b": [0, 1], "c": [0, 1]})
    with pytest.raises(ModelError, match="two columns"):
        heat_map(cj.inference.joint_distribution(MarkovNetwork(three), three.names))


@pytest.fixture
def path(tmp_path):
    domain = Domain(
        {"rain": ["no", "yes"], "city, state": ["Austin, TX", "Reno, NV"], "n": [1, 2, 3]}
    )
    rng = np.random.default_rng(0)
    tables = [
        TableFactor(scope, rng.normal(size=domain.cards[list(scope)])) for scope in ((0, 1), (1, 2))
    ]
    MarkovNetwork(domain, factors=tables).save(tmp_path / "m.conjoin")
    return str(tmp_path / "m.conjoin")


def asked(capsys, *arguments):
    assert main(["query", *arguments]) == 0
    return capsys.readouterr()


def test_questions_on_the_command_line(path, tmp_path, capsys):
    model = cj.load(path)
    said = asked(
        capsys, path, "--given", '"city, state"="Austin, TX", n > 1', "--target", "rain"
    ).out
    assert said.startswith('Probabilities given "city, state"="Austin, TX", n > 1 (exact)')
    said = asked(
        capsys,
        path,
        "--probability",
        "n >= 2 and rain=no",
        "--given",
        '"city, state" != "Reno, NV"',
    ).out
    true = cj.probability(model, {"n": [2, 3], "rain": "no"}, {"city, state": "Austin, TX"})
    assert said == f'P(n >= 2, rain=no | "city, state" != "Reno, NV") = {float(true):.4g} (exact)\n'
    said = asked(capsys, path, "--next", "rain", "--json").out
    report = json.loads(said)
    assert [q["name"] for q in report["questions"]] == ["city, state", "n"]
    assert report["questions"][1]["answers"]["1"]["rain"].keys() == {"no", "yes"}
    assert (
        "What to ask about rain given n=1"
        in asked(capsys, path, "--next", "rain", "--given", "n=1").out
    )
    said = asked(
        capsys, path, "--given", "n=1", "--what-if", "n=2", "--what-if", "n=3", "--target", "rain"
    ).out
    assert said.splitlines()[:2] == ["What if given n=1", "          as it is     n=2     n=3"]
    said = asked(capsys, path, "--given", "n=1", "--what-if", "n=2", "--json").out
    report = json.loads(said)
    assert report["what_if"][0]["change"] == "n=2" and report["exact"]
    picture = tmp_path / "joint.svg"
    said = asked(capsys, path, "--joint", "n", "--joint", "rain", "--picture", str(picture)).out
    assert "n \\ rain" in said and picture.read_text(encoding="utf-8").startswith("<svg")
    report = json.loads(asked(capsys, path, "--joint", "n", "--joint", "rain", "--json").out)
    assert np.sum(report["probabilities"]) == pytest.approx(1)


def test_quoting_is_explained(path, capsys):
    assert main(["query", path, "--given", "city, state=Austin, TX"]) == 1
    assert 'write "city, state"="Austin, TX"' in capsys.readouterr().err
    for pair in (
        ("--next", "n", "--map"),
        ("--what-if", "n=1", "--joint", "n"),
        ("--picture", "x.svg"),
    ):
        assert main(["query", path, *pair]) == 1
        assert "conjoin: --" in capsys.readouterr().err


@pytest.mark.parametrize("task", ["MAR", "PR", "MAP"])
def test_approximate_answers_say_so(task, path, capsys):
    said = asked(capsys, path, "--task", task)
    assert said.err == "" and said.out.startswith(task)
    method = {"MAR": "gibbs", "PR": "ais", "MAP": "annealing"}[task]
    said = asked(capsys, path, "--task", task, "--method", method)
    assert f"conjoin: the answer is approximate ({method}: " in said.err
    said = asked(capsys, path, "--target", "rain", "--method", "bp")
    assert said.err == ""  # exact on a tree
    said = asked(capsys, path, "--probability", "rain=no, n=1", "--max-memory", "1e-9")
    assert "approximate (ais: " in said.err


def test_sampled_predictions_say_so(path, tmp_path, monkeypatch, capsys):
    (tmp_path / "t.csv").write_text("rain\nyes\n", encoding="utf-8")
    command = ["predict", path, str(tmp_path / "t.csv"), "--target", "n"]
    assert main(command) == 0
    assert capsys.readouterr().err == ""
    sampled = partial(Completion, max_cells=1, max_network_cells=1)
    monkeypatch.setattr("conjoin.inference.joint_rows.Completion", sampled)
    assert main(command) == 0
    assert "1 of 1 predictions are approximate (gibbs: sampled)" in capsys.readouterr().err


# ---- memory ------------------------------------------------------------------------------------


def set_free_memory(monkeypatch, *sizes):
    monkeypatch.setattr(free_memory, "_limits", lambda: iter(sizes))
    free_memory._share_of_free.cache_clear()


def test_the_memory_limit_is_a_share_of_what_is_free(monkeypatch):
    assert free_memory.memory_limit(123) == 123
    for free, limit in (([8 << 30], 6 << 30), ([8 << 30, 4 << 30], 3 << 30), ([], 3 << 30)):
        set_free_memory(monkeypatch, *free)
        assert free_memory.memory_limit() == limit
    monkeypatch.undo()
    free_memory._share_of_free.cache_clear()
    assert (1 << 20) <= free_memory.memory_limit() < float(1 << 50)


def test_limits_of_control_groups(tmp_path):
    (tmp_path / "memory.max").write_text("max\n")
    assert list(free_memory._of_control_group(tmp_path)) == []
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 50\n")
    assert list(free_memory._of_control_group(tmp_path)) == [350.0]


def test_auto_is_exact_if_the_forecast_fits_the_free_memory(monkeypatch):
    rng = np.random.default_rng(0)
    domain = Domain.numbered([210, 210, 210])
    pairs = combinations(range(3), 2)  # one clique of all three
    network = MarkovNetwork(
        domain, factors=[TableFactor(p, rng.normal(size=(210, 210))) for p in pairs]
    )
    needed = cj.inference.forecast(network).bytes
    set_free_memory(monkeypatch, needed / 2)
    with pytest.raises(TooLarge):
        cj.marginals(network, method="exact")
    assert not cj.marginals(network, n_samples=50).run.exact
    assert cj.marginals(network, max_memory=2 * needed).run.exact
    set_free_memory(monkeypatch, 3 * needed + (8 << 20))
    assert cj.marginals(network).run.exact
    free_memory._share_of_free.cache_clear()
