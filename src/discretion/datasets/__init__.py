"""Example data: an artificial census of any size, and the small tables the worked values belong to."""

from discretion.datasets.anonymity import (
    diverse_classes,
    generalization_example,
    generalized_release,
    homogeneous_classes,
    identified_people,
    people_without_names,
    teachers_list,
    three_anonymous,
)
from discretion.datasets.answers import adjacent_ages, coin_answers, schizophrenia_counts, students
from discretion.datasets.census import census, census_frame, census_hierarchies, census_roles
from discretion.datasets.losses import class_sizes, entropy_example, precision_example, tree_predictions
from discretion.datasets.perturbation import (
    divergence_example,
    error_example,
    linkage_example,
    microaggregation_example,
    noise_example,
    rank_swap_example,
)
from discretion.datasets.tables import describe, names, table

__all__ = [
    "adjacent_ages",
    "census",
    "census_frame",
    "census_hierarchies",
    "census_roles",
    "class_sizes",
    "coin_answers",
    "describe",
    "divergence_example",
    "diverse_classes",
    "entropy_example",
    "error_example",
    "generalization_example",
    "generalized_release",
    "homogeneous_classes",
    "identified_people",
    "linkage_example",
    "microaggregation_example",
    "names",
    "noise_example",
    "people_without_names",
    "precision_example",
    "rank_swap_example",
    "schizophrenia_counts",
    "students",
    "table",
    "teachers_list",
    "three_anonymous",
    "tree_predictions",
]
