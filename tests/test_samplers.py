"""The samplers: one contract for all of them, and the kernels against plain NumPy."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given as with_random
from hypothesis import settings

from conjoin import DependencyNetwork, Domain, Features, MarkovNetwork, sample
from conjoin.inference import ais, annealing
from conjoin.inference.chain import Sampler
from conjoin.inference.gibbs import gibbs
from reference import all_states, log_potentials, normalized
from strategies import (
    generators,
    random_dependency_network,
    random_domain,
    random_features,
    random_markov_network,
)

KINDS = ("binary", "multi-valued", "hard constraints", "off values", "dependency network")


def random_model(kind, seed):
    """A model, the joint distribution that it should follow, and evidence that is possible."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    domain = random_domain(rng, 4, 5, 2 if kind == "binary" else 4)
    features = random_features(rng, domain, count=15)
    if kind == "hard constraints":
        a, b = domain.names[:2]
        never = Features.from_terms(
            domain, [(-np.inf, {a: domain[a].states[0], b: domain[b].states[0]})]
        )
        features = Features.concatenate([features, never])
    elif kind == "off values":
        shape = features.indices.shape
        off = np.where(rng.random(shape) < 0.5, rng.uniform(-0.5, 1, shape), 0.0)
        features = Features(
            features.tests, features.indptr, features.indices, features.weights, off
        )
    joint = MarkovNetwork(domain, features)
    model = DependencyNetwork.from_markov_network(joint) if kind == KINDS[-1] else joint
    last = domain.names[-1]
    return model, joint, {last: domain[last].states[int(rng.integers(len(domain[last])))]}


def true_marginals(joint, given):
    states = all_states(joint.domain)
    logs = log_potentials(joint, states)
    for name, state in given.items():
        logs[states[:, joint.domain.index(name)] != joint.domain[name].index(state)] = -np.inf
    p = np.exp(normalized(logs))
    return [
        np.bincount(states[:, v], weights=p, minlength=card)
        for v, card in enumerate(joint.domain.cards)
    ]


# ---- samplers: (model, given, random_state, n_jobs) -> marginals and their errors ---------------


def by_gibbs(model, given, random_state, n_jobs):
    found = gibbs(model, given, n_samples=4000, random_state=random_state, n_jobs=n_jobs)
    known = model.domain.encode_partial(given)
    shape = [np.eye(c)[known[v]] if v in known else None for v, c in enumerate(model.domain.cards)]
    names = model.domain.names
    mean = [found.marginals[n] if s is None else s for n, s in zip(names, shape, strict=True)]
    error = [found.stderr[n] if s is None else 0 * s for n, s in zip(names, shape, strict=True)]
    return mean, error


def by_drawing(method):
    def sampler(model, given, random_state, n_jobs):
        table = sample(
            model,
            8000,
            given,
            method=method,
            sweeps_per_row=5,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        parts = table.codes.reshape(20, 400, -1)
        share = [
            np.stack([(parts[:, :, v] == s).mean(axis=1) for s in range(c)], axis=1)
            for v, c in enumerate(model.domain.cards)
        ]
        # With no spread at all between the parts a probability may still be off by one in 8,000.
        error = [p.std(axis=0, ddof=1) / np.sqrt(20) + 2e-4 for p in share]
        return [p.mean(axis=0) for p in share], error

    return sampler


SAMPLERS = {
    "gibbs": by_gibbs,
    "drawn by gibbs": by_drawing("gibbs"),
    "drawn exactly": by_drawing("exact"),
    "drawn by any method": by_drawing("auto"),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler(name, kind, seed):
    model, joint, given = random_model(kind, seed)
    if name == "drawn exactly" and kind == "dependency network":
        pytest.skip("a dependency network has no exact distribution")
    run = SAMPLERS[name]
    mean, error = run(model, given, 1, 1)
    for v, true in enumerate(true_marginals(joint, given)):
        assert mean[v].sum() == pytest.approx(1, abs=1e-5)  # some sum in single precision
        assert (np.abs(mean[v] - true) <= 5 * error[v] + 1e-4).all(), (mean[v], true, error[v])
        assert error[v].max() < 0.03
    known = model.domain.encode_partial(given)
    for v, state in known.items():
        assert mean[v][state] == 1
    again, other = run(model, given, 1, 2), run(model, given, 2, 1)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(mean, again[0], strict=True))
    if max(e.max() for e in error) > 1e-3:
        assert any(a.tobytes() != b.tobytes() for a, b in zip(mean, other[0], strict=True))
    one, two = (run(model, given, np.random.default_rng(7), 1)[0] for _ in range(2))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one, two, strict=True))


def test_random_state_is_the_same_word_everywhere():
    for function in (gibbs, sample, annealing.most_probable, ais.log_partition):
        names = inspect.signature(function).parameters
        assert "random_state" in names and "seed" not in names


# ---- the kernel of the general chain -------------------------------------------------------------


def network_of(rng):
    domain = random_domain(rng, 3, 6)
    if rng.random() < 0.3:
        return random_dependency_network(rng, domain)
    mn = random_markov_network(rng, domain)
    features = mn.form.features
    if rng.random() < 0.5:
        shape = features.indices.shape
        off = np.where(rng.random(shape) < 0.3, rng.uniform(-0.5, 1, shape), 0.0)
        features = Features(
            features.tests, features.indptr, features.indices, features.weights, off
        )
    return MarkovNetwork(domain, features)


@settings(max_examples=40)
@with_random(generators())
def test_log_odds_after_random_moves(rng):
    """Incremental log-odds, counts and log-potential equal those computed from the definition."""
    model = network_of(rng)
    sampler = Sampler(model.form, {}, rng.permutation(len(model.domain)))
    chain = sampler.chain(np.random.SeedSequence(int(rng.integers(1000))))
    betas = rng.uniform(0, 2, int(rng.integers(1, 40)))
    trace = chain.run(betas, score=True, draw=True)
    soft = model.form.features.soft_rows()
    plain = model.form.nonzero()
    plain = plain.select(~plain.features.soft_rows())
    codes = chain.state[None].astype(np.uint16)
    for v, card in enumerate(model.domain.cards.tolist()):
        touching = np.zeros(len(model.domain), bool)
        touching[v] = True
        own = plain.about(touching)
        rows = np.repeat(codes, card, axis=0)
        rows[:, v] = np.arange(card)
        expected = own.features.evaluate(rows)
        found = chain.arrays.field[sampler.plain.state_first[v] :][:card]
        assert found - found[0] == pytest.approx(expected - expected[0], abs=1e-9)
    if model.form.is_joint:
        after = trace.drawn.astype(np.uint16)
        expected = model.form.features.evaluate(after)
        found = np.append(trace.scores[1:], chain.log_potential)
        assert found == pytest.approx(expected, abs=1e-9)
    assert len(sampler.soft.weight) == (soft & (model.form.features.weights != 0)).sum()


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 3.0])
def test_the_inverse_temperature(beta):
    """At beta the chain has the distribution P^beta, normalised."""
    rng = np.random.default_rng(1)
    mn = random_markov_network(rng, Domain({"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]}))
    states = all_states(mn.domain)
    p = np.exp(normalized(beta * log_potentials(mn, states)))
    trace = (
        Sampler(mn.form, {}).chain(np.random.SeedSequence(3)).run(np.full(40_000, beta), batches=20)
    )
    expected = np.concatenate(
        [np.bincount(states[:, v], weights=p, minlength=c) for v, c in enumerate(mn.domain.cards)]
    )
    means = trace.sums / 2000
    error = means.std(axis=0, ddof=1) / np.sqrt(20)
    assert (np.abs(means.mean(axis=0) - expected) <= 5 * error + 1e-9).all()


@settings(max_examples=25)
@with_random(generators())
def test_zero_temperature_ends_in_a_local_optimum(rng):
    mn = random_markov_network(rng, random_domain(rng, 3, 6))
    chain = Sampler(mn.form, {}).chain(np.random.SeedSequence(int(rng.integers(1000))))
    trace = chain.run(np.full(100, np.inf), score=True)
    assert trace.sweeps <= 100
    scores = trace.scores[: trace.sweeps]
    assert (np.diff(scores) >= -1e-9).all()
    here = log_potentials(mn, chain.state[None])[0]
    for v, card in enumerate(mn.domain.cards.tolist()):
        rows = np.repeat(chain.state[None], card, axis=0)
        rows[:, v] = np.arange(card)
        assert (log_potentials(mn, rows) <= here + 1e-8).all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS[:4])
def test_annealed_importance_sampling(kind, seed):
    model, _, given = random_model(kind, seed)
    states = all_states(model.domain)
    logs = log_potentials(model, states)
    for name, state in given.items():
        logs[states[:, model.domain.index(name)] != model.domain[name].index(state)] = -np.inf
    top = logs.max()
    exact = top + np.log(np.exp(logs - top).sum())
    found = ais.log_partition(model, given, chains=200, steps=100)
    assert abs(found.value - exact) <= 5 * found.error + 1e-9
    assert found.error < 0.1
    again = ais.log_partition(model, given, chains=200, steps=100)
    assert again.value == found.value
