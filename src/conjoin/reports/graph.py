"""The graph of a network for networkx."""

from __future__ import annotations

from typing import Any

from conjoin.conversion.interactions import interactions
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.network import Network


def to_networkx(model: Network, table: Table | None = None, *, base: Any = None) -> Any:
    """Return the graph of a network as a networkx graph.

    Needs networkx (``pip install "conjoin[graphs]"``).

    Parameters
    ----------
    model : Network
        Of a Markov network, edges join the variables that share a feature; of a dependency or a
        Bayesian network, edges lead to each variable from those that its CPD depends on.
    table : Table, optional
        Its marginals are the distribution that strengths are measured under.
    base : optional
        That distribution; see `conjoin.reports.interactions`.

    Returns
    -------
    networkx Graph or DiGraph
        Nodes are the names, with the attribute ``states``; edges have the attribute ``strength``, in
        nats. It is 0 where two variables act on each other only together with others.

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"], "wind": ["no", "yes"]})
    >>> terms = [(2.0, {"rain": "yes", "wet": "yes"})]
    >>> graph = to_networkx(MarkovNetwork(domain, Features.from_terms(domain, terms)))
    >>> list(graph), list(graph.edges(data="strength"))
    (['rain', 'wet', 'wind'], [('rain', 'wet', 0.5)])
    """
    try:
        import networkx as nx
    except ImportError:
        raise ModelError('graphs need networkx: pip install "conjoin[graphs]"') from None
    directed = isinstance(model, DependencyNetwork | BayesianNetwork)
    graph = nx.DiGraph() if directed else nx.Graph()
    for variable in model.domain:
        graph.add_node(variable.name, states=list(variable.states))
    if isinstance(model, DependencyNetwork | BayesianNetwork):
        pairs = [(parent, cpd.target) for cpd in model.cpds for parent in cpd.blanket]
    else:
        pairs = [(i, j) for i, others in enumerate(model.blankets()) for j in others if i < j]
    strengths = interactions(model, table, base=base).between(pairs)
    names = model.domain.names
    for (i, j), strength in zip(pairs, strengths.tolist(), strict=True):
        graph.add_edge(names[i], names[j], strength=strength)
    return graph
