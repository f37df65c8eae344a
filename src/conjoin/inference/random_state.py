"""Random states: from an integer or a generator to independent streams of random numbers."""

from __future__ import annotations

import numpy as np

from conjoin.errors import ModelError

RandomState = int | np.random.Generator | np.random.SeedSequence


def seed_sequence(random_state: RandomState) -> np.random.SeedSequence:
    """Return the seed sequence of a random state.

    `random_state`: an integer always gives the same sequence. A generator is advanced, so that the
    next call with it gives another one. A seed sequence is returned as it is.
    """
    if isinstance(random_state, np.random.SeedSequence):
        return random_state
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(0, 2**32, 4).tolist())
    if not isinstance(random_state, int | np.integer):
        raise ModelError(
            f"random_state must be an integer or a numpy Generator, not {random_state!r}"
        )
    if random_state < 0:
        raise ModelError(f"random_state must be 0 or more, not {random_state}")
    return np.random.SeedSequence(int(random_state))


def streams(random_state: RandomState, count: int) -> list[np.random.SeedSequence]:
    """Return independent seed sequences that do not depend on who uses which."""
    return seed_sequence(random_state).spawn(count)
