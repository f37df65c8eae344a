"""What the three kinds of network have in common."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Domain, check_states


class Network:
    """A model over a domain.

    Attributes
    ----------
    domain : Domain
        The variables.
    provenance : dict
        Where the model came from: plain values under short names, kept in native files.
    """

    kind: str

    def __init__(self, domain: Domain, provenance: Mapping[str, Any] | None = None) -> None:
        check_states(domain)
        self.domain = domain
        self.provenance: dict[str, Any] = dict(provenance or {})

    def blanket(self, name: str) -> tuple[str, ...]:
        """Return the names of the variables that render one independent of all others."""
        return tuple(self.domain.names[i] for i in self.blankets()[self.domain.index(name)])

    def blankets(self) -> list[tuple[int, ...]]:
        """Return the Markov blanket of every variable, by position."""
        raise NotImplementedError

    def log_conditional(self, name: str, rows: Any) -> FloatArray:
        """Return log P(X = state | the rest of the row), rows by states.

        Parameters
        ----------
        name : str
            The variable X.
        rows : Table, array of codes, mapping or iterable of mappings
            Rows that are complete but for X; what they say of X itself is ignored.
        """
        raise NotImplementedError

    def conditional(self, name: str, rows: Any) -> FloatArray:
        """Return P(X = state | the rest of the row), rows by states."""
        return np.exp(self.log_conditional(name, rows))

    def save(self, path: str | Path) -> None:
        """Write the model to a file, in the format that its ending names."""
        from conjoin.formats.files import save

        save(self, path)
