"""Every function that takes a network takes a fitted `JointModel`, with and without numbers."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest

import conjoin as cj
from conjoin import Domain, Features, MarkovNetwork, Variable
from conjoin.errors import ModelError
from conjoin.inference import ENGINES, forecast, joint_distribution, samples
from conjoin.joint import learn_weights, thin
from conjoin.scoring import cmll, log_likelihood, score
from conjoin.views.explorer import explore
from conjoin.views.reports import html_card, plot, to_networkx, write_report

CALLS = {
    "convert": lambda m, X, _: cj.convert(m, X),
    "inconsistency": lambda m, X, _: cj.inconsistency(m, X),
    "log_partition": lambda m, X, _: cj.log_partition(m, "ill=yes"),
    "marginals": lambda m, X, _: cj.marginals(m, "ill=yes"),
    "most_probable": lambda m, X, _: cj.most_probable(m, "ill=yes"),
    "next_questions": lambda m, X, _: cj.next_questions(m, "city"),
    "pll": lambda m, X, _: cj.pll(m, X),
    "probability": lambda m, X, _: cj.probability(m, "ill=yes", "city=A"),
    "refine": lambda m, X, _: cj.refine(m, X, effort="quick"),
    "sample": lambda m, X, _: cj.sample(m, 5, "ill=yes"),
    "save": lambda m, X, folder: cj.save(m, folder / "m.conjoin"),
    "surprises": lambda m, X, _: cj.surprises(m, X),
    "what_if": lambda m, X, _: cj.what_if(m, "ill=yes", "ill=no"),
}
"""The functions of `conjoin` itself."""

MORE = {
    "cmll": lambda m, X, _: cmll(m, X, samples=10, burn_in=1),
    "explore": lambda m, X, _: explore(m, X),
    "forecast": lambda m, X, _: forecast(m, "ill=yes"),
    "html_card": lambda m, X, _: html_card(m),
    "interactions": lambda m, X, _: cj.joint.interactions(m),
    "joint": lambda m, X, _: joint_distribution(m, ["ill", "city"]),
    "learn_weights": lambda m, X, _: learn_weights(m, X, max_iterations=1),
    "log_likelihood": lambda m, X, _: log_likelihood(m, X),
    "plot": lambda m, X, _: plot(m),
    "samples": lambda m, X, _: list(samples(m, 5)),
    "score": lambda m, X, _: score(m, X, "pll"),
    "thin": lambda m, X, _: thin(m),
    "to_bayesian_network": lambda m, X, _: cj.research.to_bayesian_network(m, X),
    "to_networkx": lambda m, X, _: to_networkx(m),
    "write_report": lambda m, X, folder: write_report(m, folder / "r.html", X),
}
"""Those of other modules."""

NEED_CONDITIONALS = {"convert", "inconsistency", "to_bayesian_network"}
NO_MODEL = {
    "__version__", "learn_conditionals", "learn_joint", "load", "read_table", "write_table",
}  # fmt: skip


def frame(rows=200):
    rng = np.random.default_rng(0)
    age = rng.integers(20, 80, rows)
    ill = np.where(rng.random(rows) < age / 100, "yes", "no")
    return pd.DataFrame({"age": age, "ill": ill, "city": rng.choice(["A", "B", "C"], rows)})


@pytest.fixture(scope="module")
def models():
    """Two fitted models, by whether they have numbers, with their tables."""
    mixed, states = frame(), frame().assign(age=np.where(frame().age > 50, "old", "young"))
    return {
        "numbers": (cj.JointModel(effort="quick").fit(mixed), mixed),
        "states": (cj.JointModel("tree", refine=False).fit(states), states),
    }


def test_no_function_is_forgotten():
    functions = {n for n in cj.__all__ if not inspect.isclass(getattr(cj, n))}
    assert functions == set(CALLS) | NO_MODEL


@pytest.mark.parametrize("kind", ["numbers", "states"])
@pytest.mark.parametrize("name", [*CALLS, *MORE])
def test_it_takes_a_joint_model(name, kind, models, tmp_path):
    model, X = models[kind]
    call = {**CALLS, **MORE}[name]
    found = call(model, X, tmp_path)
    assert found is not None or all(path.stat().st_size for path in tmp_path.iterdir())
    if kind == "numbers" and name not in NEED_CONDITIONALS:
        rows = model.encoding_.table(X)  # the network alone takes coded rows
        assert type(call(model.model_, rows, tmp_path)) is type(found)


def test_draws_and_answers_with_numbers(models):
    model, _ = models["numbers"]
    drawn = cj.sample(model, 400, "age > 60", random_state=1)
    assert (drawn.column("age") > 60).all()
    again = cj.sample(model.model_, 400, "age > 60", random_state=1)
    np.testing.assert_array_equal(drawn.numbers, again.numbers)
    share = (drawn.codes[:, drawn.domain.index("ill")] == drawn.domain["ill"].index("yes")).mean()
    expected = cj.marginals(model, "age > 60")
    assert 60 < expected["age"].mean() < 80
    assert share == pytest.approx(expected["ill"]["yes"], abs=0.08)
    assert len(cj.sample(model, 3, method="gibbs")) == 3


QUESTIONS = {
    "marginals": lambda m, **o: cj.marginals(m, "ill=yes", **o),
    "probability": lambda m, **o: cj.probability(m, "ill=yes", "city=A", **o),
    "log_partition": lambda m, **o: cj.log_partition(m, "ill=yes", **o),
    "most_probable": lambda m, **o: cj.most_probable(m, "ill=yes", **o),
    "next_questions": lambda m, **o: cj.next_questions(m, "ill", **o),
    "what_if": lambda m, **o: cj.what_if(m, "ill=yes", "ill=no", **o),
}


@pytest.mark.parametrize("kind", ["numbers", "states", "network", "hidden", "conditionals"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_options_that_do_not_exist_are_errors(name, kind, models):
    model = models["numbers" if kind == "numbers" else "states"][0]
    if kind in ("network", "hidden"):
        model = model.model_
    if kind == "hidden":
        domain = Domain([*model.domain, Variable("(hidden)", range(2), hidden=True)])
        model = MarkovNetwork(domain, Features.from_terms(domain, [(1.0, {"ill": "yes"})]))
    if kind == "conditionals" and name not in ("log_partition", "most_probable"):
        model = model.network_
    ask = QUESTIONS[name]
    ask(model)
    with pytest.raises(ModelError, match="there is no option 'interval'. "):
        ask(model, interval=0.9)
    with pytest.raises(ModelError, match="there is no option 'foo'. Known: .*'method'"):
        ask(model, foo=3)
    if kind in ("states", "network") and name in ENGINES:
        with pytest.raises(ModelError, match="no option 'random_state' for method='exact'"):
            ask(model, method="exact", random_state=2)


def test_options_of_any_engine_are_accepted(models):
    """Whichever engine answers in the end."""
    for model in (models["states"][0], models["states"][0].network_):
        for options in ({"chains": 2}, {"damping": 0.1}, {"steps": 50}, {"n_samples": 100}):
            assert 0 < cj.probability(model, "ill=yes", "city=A", **options) < 1
            assert 0 < cj.probability(model, "ill=yes, age=old", "city=A", **options) < 1
    found = cj.probability(models["states"][0], "ill=yes, age != old", method="gibbs", chains=2)
    assert found.run.method == "gibbs"


def test_scores_of_numbers_are_differences_of_log_densities(models):
    model, X = models["numbers"]
    X = X.head(30).copy()
    X["age"] = X["age"].astype(float)
    X.loc[3, "age"], X.loc[4, "city"] = np.nan, None
    whole = model.score_samples(X)
    found = log_likelihood(model, X)
    np.testing.assert_allclose(found.by_row, whole, rtol=0, atol=1e-12)
    assert model.score(X) == pytest.approx(found.mean)
    for name in X:
        known = X[name].notna().to_numpy()
        given = whole - model.score_samples(X.assign(**{name: None}))
        if name != "age":  # the only number: without it, nothing is known of where numbers lie
            assert cj.pll(model, X).by_variable[name] == pytest.approx(
                given[known].mean(), abs=1e-9
            )
    pll = cj.pll(model, X)
    assert pll.cells == 88 and model.score(X, metric="pll") == pytest.approx(pll.mean)
    with pytest.raises(cj.ConjoinError, match="there is no column 'city'"):
        cj.pll(model, X[["age", "ill"]])
