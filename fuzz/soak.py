"""Very many questions to the same and to ever new models: memory stays bounded."""

from __future__ import annotations

import gc
import resource
from pathlib import Path

import numpy as np

import conjoin
from conjoin import ConjoinError
from fuzz.evidence import random_evidence
from fuzz.examples import random_joint, random_markov_network
from fuzz.trials import count

QUESTIONS = 100
"""Number of questions per case."""

WARM = 20
"""Number of cases before the memory is measured for the first time."""

MORE = 64 << 20
"""Maximum number of bytes that memory may grow by, however many questions are asked."""

_memory: list[int] = []


def in_use() -> int:
    """Return the memory that this process takes, in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def case(rng: np.random.Generator) -> str:
    """Ask a model many questions, and forget it."""
    numbers = rng.random() < 0.1
    model = random_joint(rng) if numbers else random_markov_network(rng)
    for k in range(QUESTIONS):
        given = random_evidence(rng, model.domain).given
        try:
            if k % 4:
                conjoin.marginals(model, given)
            elif k % 8:
                conjoin.most_probable(model, given)
            else:
                conjoin.sample(model, 10, given, random_state=k)
        except ConjoinError:
            continue
    count("questions", QUESTIONS)
    del model
    gc.collect()
    _memory.append(in_use())
    if len(_memory) > WARM:
        grown = _memory[-1] - _memory[WARM]
        assert grown < MORE, f"memory grew by {grown >> 20} MB in {len(_memory)} cases"
    return "joint" if numbers else "network"


def prepare() -> None:
    """Nothing to prepare."""
