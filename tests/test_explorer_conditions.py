"""Typed conditions in the explorer's page give the numbers of `conjoin query`."""

from __future__ import annotations

import numpy as np
import pytest

import conjoin as cj
from conjoin.data import as_table
from conjoin.inference import as_markov_network
from conjoin.models import Joint, TableFactor
from conjoin.views.explorer import explore
from headless import show, wait
from random_joints import random_chain, random_fine, random_joint, random_number
from test_explorer import frame_of_numbers, hidden, refined, tables

QUESTIONS = 200


def small_joint():
    """A joint so small that known numbers always tell about other numbers within their states."""
    return random_joint(np.random.default_rng(1))[0]


def joint_with_hidden_column():
    """Shares of classes that depend on states, and a chain; numbers tell about 270 joint states."""
    return random_joint(np.random.default_rng(224), hidden=True)[0]


def with_chain(domain, factors, fine=None):
    """A joint with a chain, and factors of pairs of columns."""
    rng = np.random.default_rng(5)
    tables = [TableFactor(pair, rng.normal(0, 0.8, domain.cards[list(pair)])) for pair in factors]
    network = cj.MarkovNetwork(domain, factors=tables)
    return Joint(network, fine, random_chain(rng, domain.observed))


def chain_of_states():
    """Categories and a chain: all joint states are few."""
    domain = cj.Domain(
        {f"c{k}": list("abcde")[: 2 + k % 3] for k in range(5)} | {"constant": ["x"]}
    )
    return with_chain(domain, [(0, 1), (1, 2), (3, 4), (0, 4)])


def chain_and_numbers():
    """Numbers within their states, a hidden column and a chain: all joint states are few."""
    return numbers_and_chain(2, 1, hidden=True)


def chain_of_many_states():
    """Numbers, a hidden column and a chain, which counts only if a few columns are known."""
    return numbers_and_chain(3, 5, hidden=True)


def chain_of_improbable_states():
    """A network of probabilities that are too small for floating-point numbers, mixed with a chain."""
    domain = cj.Domain({f"c{k}": list("abcd") for k in range(7)})
    joint = with_chain(domain, [(0, 1), (2, 3), (4, 5)])
    steep = [TableFactor((k, k + 1), np.array(
        [[0, -900, -2, -np.inf], [-1, 0, -800, -3], [-2, -1, 0, -1], [-900, 0, -1, 0]]))
        for k in range(5)]  # fmt: skip
    return Joint(cj.MarkovNetwork(domain, factors=steep), None, joint.chain)


def numbers_and_chain(numbers, categories, hidden):
    rng = np.random.default_rng(11)
    columns = [random_number(rng, f"n{k}") for k in range(numbers)]
    columns += [cj.Variable(f"c{k}", list("abcd")) for k in range(categories)]
    columns += [cj.Variable("(hidden)", range(3), hidden=True)] if hidden else []
    domain = cj.Domain(columns)
    last = len(domain) - 1
    fine = random_fine(rng, domain.observed)
    return with_chain(domain, [(0, 1), (1, 2), *((v, last) for v in range(last))], fine)


def mixture(seed):
    """A random joint, and the log-probabilities of its joint states."""
    return random_joint(np.random.default_rng(seed), hidden=seed % 2 == 1)


def numbers():
    return cj.learn_joint(as_table(frame_of_numbers()), effort="quick")[1]


def few_columns():
    """Numbers with atoms, decimals and dates, which tell about each other."""
    frame = frame_of_numbers()[["ill", "age", "spent", "seen"]]
    return cj.learn_joint(as_table(frame), effort="quick")[1]


def states_in_order():
    """States that are numbers, dates or in an order of their own, and names that need quotes."""
    rng = np.random.default_rng(8)
    variables = [
        cj.Variable("rooms", [1, 2, 3, 5]),
        cj.Variable("year", ["1999", "2004", "2010"]),
        cj.Variable("size", ["small", "medium", "large"], ordered=True),
        cj.Variable("since", ["2024-01-01", "2024-06-01"]),
        cj.Variable("city", ["Bonn", "Ulm, am Fluss", "x=1"]),
    ]
    domain = cj.Domain(variables)
    factors = [
        TableFactor((i, i + 1), rng.normal(size=domain.cards[i : i + 2]))
        for i in range(len(variables) - 1)
    ]
    return cj.MarkovNetwork(domain, factors=factors)


MODELS = {
    f.__name__: f
    for f in (
        small_joint, joint_with_hidden_column, chain_of_states, chain_and_numbers,
        chain_of_many_states, chain_of_improbable_states, numbers, few_columns, states_in_order,
        refined, hidden, tables,
    )
}  # fmt: skip


def quoted(text):
    return '"' + str(text).replace('"', '""') + '"'


def some_value(rng, variable):
    """A value of a column as text: of a number, or a state."""
    if variable.numbers is not None:
        scale = variable.numbers.scale
        x = rng.uniform(scale.low, scale.high)
        if scale.kind != "number":
            return scale.short(float(scale.rounded(x)))
        return scale.text(float(scale.rounded(x)))
    return str(variable.states[rng.integers(len(variable))])


def random_condition(rng, variable):
    """A condition on a column of one of all kinds."""
    name, states = quoted(variable.name), [quoted(s) for s in variable.states]
    a, b = sorted(
        (some_value(rng, variable) for _ in range(2)),
        key=lambda text: (0, float(text)) if text.replace(".", "").lstrip("-").isdigit() else (1, text),
    )  # fmt: skip
    weights = (rng.integers(0, 9, len(states)) + (np.arange(len(states)) == 0)) / 8
    p = rng.dirichlet(np.ones(len(states)))
    kinds = [
        f"{name} = {quoted(a)}",
        f"{name} != {quoted(a)}",
        f"{name} in {{{quoted(a)}, {quoted(b)}}}" if a != b else f"{name} in {{{quoted(a)}}}",
        f"{name} not in {{{quoted(a)}}}",
        f"{name} = {states[int(rng.integers(len(states)))]}",
        f"{name} likelihood {{{', '.join(f'{s}: {w}' for s, w in zip(states, weights, strict=True))}}}",
        f"{name} marginal {{{', '.join(f'{s}: {float(x)!r}' for s, x in zip(states, p, strict=True))}}}",
    ]
    if variable.numbers is not None and variable.numbers.scale.step is None:
        del kinds[1:4]  # a share so small that it is known to few digits only
    if variable.absent:
        kinds += [f"{name} is absent", f"{name} is known"]
    if variable.ordered or variable.numbers is not None or variable.name in ("year", "since"):
        kinds += [
            f"{name} > {a}", f"{name} <= {b}", f"{name} >= {a}", f"{name} < {b}", f"{a} <= {name}",
            f"{a} <= {name} < {b}", f"{a} < {name} <= {b}", f"{b} > {name} >= {a}",
            f"{name} >= {a} and {name} <= {b}", f"{kinds[1]}, {name} <= {b}",
            f"{name} likelihood {{< {a}: 0.5, >= {a}: 2}}",
        ]  # fmt: skip
    return str(rng.choice(np.array(kinds, dtype=object)))


def questions(rng, domain):
    for _ in range(QUESTIONS):
        count = int(rng.integers(1, min(5, len(domain)) + 1))
        chosen = rng.permutation(len(domain))[:count].tolist()
        yield ", ".join(random_condition(rng, domain.variables[v]) for v in chosen)


def answers_of_the_page(browser, asked):
    """What the page answers, nothing if that is impossible.

    The number of columns with evidence, distributions, the mean and the interval of each number, and
    whether the network alone answers.
    """
    return browser.execute_script(
        "const { store, model } = explorer;"
        "const isUnknown = (i) => model.columns[i].extent && store.evidence.get(i)?.value === undefined;"
        "const ends = (number) => [number.absent, number.mean(), ...number.interval()];"
        "return arguments[0].map((text) => { store.clear(); explorer.setConditions(text);"
        "if (!store.evidence.size || !explorer.after) return [store.evidence.size, null];"
        "return [store.evidence.size, explorer.after.map((p) => [...p]),"
        " model.columns.map((_, i) => (isUnknown(i) ? ends(explorer.number(i)) : null)),"
        " document.getElementById('probability').title.includes('by the network alone')]; })",
        asked,
    )


@pytest.mark.parametrize("kind", MODELS)
def test_typed_conditions_are_answered_as_by_python(kind, browser, tmp_path):
    model = MODELS[kind]()
    domain = as_markov_network(model).domain.observed
    asked = list(questions(np.random.default_rng(len(kind)), domain))
    show(browser, explore(model), tmp_path)
    compared = 0
    for text, answer in zip(asked, answers_of_the_page(browser, asked), strict=True):
        try:
            expected = cj.marginals(model, text, method="exact")
        except cj.ConjoinError:
            assert answer[1] is None, text
            continue
        if answer[0] == 0:  # the evidence says nothing
            expected_prior = cj.marginals(model)
            for name in domain.names:
                assert expected.array(name) == pytest.approx(
                    expected_prior.array(name), abs=1e-9
                ), text
            continue
        compared += 1
        assert answer[3] == expected.run.by_network, text
        for v, (name, p) in enumerate(zip(domain.names, answer[1], strict=True)):
            np.testing.assert_allclose(
                p, expected.array(name), rtol=0, atol=1e-9, err_msg=f"{text}: {name}"
            )
            if answer[2][v] is not None and answer[2][v][0] < 1 - 1e-9:
                assert_number(expected[name], answer[2][v][1:], f"{text}: {name}")
    assert compared > 0.6 * QUESTIONS


def assert_number(expected, found, text):
    scale = expected.scale
    extent = scale.high - scale.low or 1.0
    mean, *ends = found
    assert mean == pytest.approx(expected.mean(), abs=1e-8 * extent), text
    for own, end in zip(ends, expected.interval(), strict=True):
        assert own == pytest.approx(
            scale.number(end), abs=1e-6 * extent + (scale.step or 0) * 1e-6
        ), text


def test_a_column_with_a_new_marginal_is_not_known(browser, tmp_path):
    """Even if one state has all of it; so the chain counts only if the column is known instead."""
    model = chain_of_many_states()
    show(browser, explore(model), tmp_path)
    new = "c4 marginal {a: 1, b: 0, c: 0, d: 0}"
    asked = [f"c0=a, c1=a, {condition}" for condition in (new, "c4=a")]
    notes = []
    for text, answer in zip(asked, answers_of_the_page(browser, asked), strict=True):
        expected = cj.marginals(model, text)
        notes.append(expected.run.by_network)
        assert answer[3] == expected.run.by_network
        for name, p in zip(model.domain.observed.names, answer[1], strict=True):
            np.testing.assert_allclose(p, expected.array(name), rtol=0, atol=1e-9)
    assert notes == [True, False]


# Random joints with a chain; every second one has a hidden column
MIXTURES = [seed for seed in range(12) if mixture(seed)[0].chain is not None]


@pytest.mark.parametrize("seed", MIXTURES)
def test_rows_of_a_mixture_with_a_chain(seed, browser, tmp_path):
    """Probabilities, the most probable row and random rows are those of the table of all joint states."""
    joint, log_p = mixture(seed)
    sizes, rng = log_p.shape, np.random.default_rng(seed)
    show(browser, explore(joint), tmp_path)
    for count in (0, 1, len(sizes) - 1, len(sizes)):
        given = {int(v): int(rng.integers(sizes[v])) for v in rng.permutation(len(sizes))[:count]}
        log, best, rows = browser.execute_script(
            "explorer.store.clear();"
            "const pieces = arguments[0].map(([i, s]) => [i, { kind: 'in', states: [s] }]);"
            "explorer.store.setAll(new Map(pieces));"
            "const { tree, lists } = explorer.lists;"
            "let seed = 1; const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;"
            "return [explorer.log, tree.mostProbable(lists[0]),"
            " explorer.answers.sample(explorer.lists, 2000, random)]",
            list(given.items()),
        )
        possible = np.full(sizes, -np.inf)
        where = tuple(given.get(v, slice(None)) for v in range(len(sizes)))
        possible[where] = log_p[where]
        total = np.logaddexp.reduce(possible, axis=None)
        assert log == pytest.approx(total, abs=1e-9)
        assert best["log"] == pytest.approx(possible.max(), abs=1e-9)
        assert possible[tuple(best["row"])] == pytest.approx(possible.max(), abs=1e-9)
        for v, size in enumerate(sizes):
            others = tuple(u for u in range(len(sizes)) if u != v)
            p = np.exp(np.logaddexp.reduce(possible, axis=others) - total)
            seen = np.bincount(np.array(rows)[:, v], minlength=size) / 2000
            assert (np.abs(seen - p) <= 5 * np.sqrt(p * (1 - p) / 2000) + 1e-9).all()


def test_questions_keep_to_the_network_or_to_the_chain(browser, tmp_path):
    """What a column tells is that of one distribution, even if the chain would count with its answer."""
    model = chain_of_many_states()
    domain = model.domain.observed
    target = len(domain) - 1
    show(browser, explore(model), tmp_path)
    sides = set()
    for count in (2, 3, 4):
        given = dict.fromkeys(domain.names[3 : 3 + count], "a")
        browser.execute_script(
            "explorer.explained = null; explorer.setConditions(arguments[0]);"
            "explorer.store.pin(arguments[1]);",
            ", ".join(f"{name}={state}" for name, state in given.items()), target,
        )  # fmt: skip
        wait(browser, "explorer.explained")
        bits = browser.execute_script("return explorer.questions.bits")
        for v, name in enumerate(domain.names):
            if v == target or name in given:
                continue
            pair = cj.inference.joint_distribution(model, [domain.names[target], name], given)
            sides.add(pair.run.by_network)
            p = pair.table
            outer = np.outer(p.sum(axis=1), p.sum(axis=0))
            assert bits[v] == pytest.approx((p * np.log2(p / outer)).sum(), abs=1e-9)
    assert sides == {True, False}
