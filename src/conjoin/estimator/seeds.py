"""Seeds from what scikit-learn understands as a random state."""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.errors import ModelError


def integer_seed(random_state: Any) -> int:
    """Return an integer seed.

    `random_state`: an integer is its own seed. A generator is advanced, so that the next seed is
    another one. None gives a fresh seed each time.
    """
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    raise ModelError(
        "random_state must be a non-negative integer, a numpy Generator or RandomState, or None, "
        f"not {random_state!r}"
    )
