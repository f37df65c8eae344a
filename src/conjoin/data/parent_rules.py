"""Which variables may, must or must not be parents of which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from conjoin.data.domain import Domain
from conjoin.errors import ModelError

FORBIDDEN, ALLOWED, REQUIRED = 0, 1, 2


def parent_rules(
    domain: Domain,
    forbidden: Mapping[str, Iterable[str]] | None,
    required: Mapping[str, Iterable[str]] | None,
) -> npt.NDArray[np.int8]:
    """Return, variable by target, whether the first may, must or must not be a parent."""
    rules = np.full((len(domain), len(domain)), ALLOWED, np.int8)
    np.fill_diagonal(rules, FORBIDDEN)
    for given, value in ((forbidden, FORBIDDEN), (required, REQUIRED)):
        for target, parents in (given or {}).items():
            for parent in parents:
                i, j = domain.index(parent), domain.index(target)
                if value == REQUIRED and rules[i, j] == FORBIDDEN:
                    raise ModelError(f"{parent!r} is both required and forbidden for {target!r}")
                rules[i, j] = value
    return rules
