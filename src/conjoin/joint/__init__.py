"""Joint distributions that answer well whatever is known: thin networks and hidden columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conjoin.lazy_imports import lazy_names

if TYPE_CHECKING:
    from conjoin.joint.learning import learn_joint as learn_joint
    from conjoin.joint.mixed_learning import learn_mixed as learn_mixed
    from conjoin.joint.reliability import learn_say as learn_say
    from conjoin.joint.thinning import thin as thin
    from conjoin.joint.weight_learning import learn_weights as learn_weights

_HOMES = {
    "learn_joint": "joint.learning",
    "learn_mixed": "joint.mixed_learning",
    "learn_say": "joint.reliability",
    "learn_weights": "joint.weight_learning",
    "thin": "joint.thinning",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
