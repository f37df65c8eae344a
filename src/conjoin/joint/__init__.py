"""Joint distributions that answer well whatever is known: thin networks and hidden columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conjoin.lazy_imports import lazy_names

if TYPE_CHECKING:
    from conjoin.joint.joint_learning import learn_joint as learn_joint
    from conjoin.joint.pair_links import interactions as interactions
    from conjoin.joint.refinement import refine as refine
    from conjoin.joint.thinning import thin as thin
    from conjoin.joint.weight_learning import learn_weights as learn_weights

_INTERNAL = {
    "EQUIVALENT_ROWS": "joint.directed_search",
    "Expectations": "joint.expectations",
    "FamilyScores": "joint.directed_search",
    "HiddenFit": "joint.hidden_fit",
    "HiddenModel": "joint.hidden_column",
    "HiddenTables": "joint.hidden_tables",
    "Parameters": "joint.hidden_column",
    "Priors": "joint.hidden_column",
    "PseudoLikelihood": "joint.pseudo_likelihood_learning",
    "descend": "joint.lbfgs",
    "fit_batches": "joint.hidden_fit",
    "fit_further": "joint.hidden_fit",
    "fit_further_batches": "joint.hidden_fit",
    "fit_hidden": "joint.hidden_fit",
    "fitted": "joint.directed_network",
    "learn_structure": "joint.directed_network",
    "left_out_gain": "joint.dependence_tree",
    "mutual_information": "joint.dependence_tree",
    "pair_joints": "joint.pair_links",
    "search_parents": "joint.directed_search",
    "stacked": "joint.hidden_tables",
    "stacking_weights": "joint.hidden_tables",
    "tree_network": "joint.dependence_tree",
    "tree_part": "joint.hidden_tables",
}
"""Names for the other packages of Conjoin, and for its tests."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _INTERNAL)
