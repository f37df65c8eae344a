"""The graph of a network, for networkx."""

from __future__ import annotations

from typing import Any

from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.network import Network, takes_estimators
from conjoin.reports.links import interactions


@takes_estimators(picture=True)
def to_networkx(model: Network, table: Table | None = None, *, base: Any = None) -> Any:
    """Return the graph of a network as a networkx graph.

    Needs networkx (``pip install "conjoin[graphs]"``).

    Parameters
    ----------
    model : Network
        The edges of a Markov network join variables that share a feature or a factor; those of a
        dependency or Bayesian network point to each variable from those that its CPD depends on.
    table : Table, optional
        A table whose marginals are the distribution under which strengths are measured.
    base : optional
        That distribution itself; see `conjoin.reports.interactions`.

    Returns
    -------
    networkx Graph or DiGraph
        Nodes are names, with the attribute ``states``; edges have the attribute ``strength``, in nats.
        It is 0 if two variables interact only together with others. Hidden columns are left out; any
        two variables may also depend on each other through them.

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
    if isinstance(model, DependencyNetwork | BayesianNetwork):
        graph = nx.DiGraph()
        pairs = [(parent, cpd.target) for cpd in model.cpds for parent in cpd.blanket]
    else:
        graph = nx.Graph()
        seen = len(model.domain.observed)
        pairs = [
            (i, j) for i, others in enumerate(model.blankets()) for j in others if i < j < seen
        ]
    for variable in model.domain.observed:
        graph.add_node(variable.name, states=list(variable.states))
    strengths = interactions(model, table, base=base).between(pairs)
    names = model.domain.names
    for (i, j), strength in zip(pairs, strengths.tolist(), strict=True):
        graph.add_edge(names[i], names[j], strength=strength)
    return graph
