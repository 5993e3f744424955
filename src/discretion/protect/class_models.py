"""What methods share that make privacy models hold: which columns, which class size, which models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema, model_validator

from discretion.errors import DiscretionError
from discretion.method import Method
from discretion.model import PrivacyModel
from discretion.part import HOLDS_PARTS, Columns, confidential, parse
from discretion.privacy.class_table import ClassModel


def _models(given: object) -> tuple[ClassModel, ...]:
    """Take models as objects or as a plan writes them; one may stand without a list."""
    if isinstance(given, PrivacyModel | str | Mapping):
        given = [given]
    if not isinstance(given, list | tuple):
        raise ValueError("expected privacy models, for example [{k-anonymity: {k: 5}}]")
    models = []
    for item in given:
        try:
            made = item if isinstance(item, PrivacyModel) else parse(item, "model")
        except DiscretionError as error:
            raise ValueError(str(error)) from None
        if not isinstance(made, ClassModel):
            raise ValueError(f"{made.kind!r} does not look at equivalence classes; a model that does is needed here")
        models.append(made)
    return tuple(models)


ClassModels = Annotated[
    tuple[Any, ...],
    BeforeValidator(_models),
    PlainSerializer(lambda models: [model.to_plan() for model in models]),
    WithJsonSchema({"type": "array", "items": {"type": "object"}}),
    HOLDS_PARTS,
]
"""Privacy models that look at classes of records; a plan writes each as `{kind: {fields}}`."""


class ReachesModels(Method):
    """A method that changes the data until privacy models hold for classes of records."""

    columns: Columns = ()
    """columns that an intruder may know; without it, those that the models name, or the quasi-identifiers"""
    k: int | None = confidential(None, ge=1)
    """smallest number of records that share their values; short for the model k-anonymity"""
    models: ClassModels = confidential(())
    """privacy models about classes of records that must hold, instead of `k` or with it"""

    goals: ClassVar[tuple[str, ...]] = ("k", "models")
    """Fields that say what is to be reached; at least one is given."""

    @model_validator(mode="after")
    def _something_to_reach(self) -> Self:
        if not any(getattr(self, name) not in (None, ()) for name in self.goals):
            *first, last = (f"`{name}`" for name in self.goals)
            raise ValueError(f"give {', '.join(first)} or {last}")
        return self
