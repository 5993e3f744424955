"""What an owner declares is frozen and checked, and every problem is reported at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from discretion.errors import PlanError
from discretion.part import explain

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

_MOST_NAME = 63


class _Checked(ModelMetaclass):
    """Word the faults of a declaration; inside another declaration the outer one words them all."""

    def __call__(self, *args: Any, **values: Any) -> Any:
        try:
            return super().__call__(*args, **values)
        except ValidationError as error:
            raise PlanError(explain(cast("type[BaseModel]", self), error)) from None


class Declared(BaseModel, metaclass=_Checked):
    """Something the owner declares."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, protected_namespaces=()
    )


def checked_name(text: str) -> str:
    """Raise unless a text can be the name of a table, a column or a user."""
    if not text.strip() or len(text.encode("utf-8", "replace")) > _MOST_NAME or not text.isprintable():
        raise ValueError(f"a name has 1 to {_MOST_NAME} printable characters")
    return text


Name = Annotated[str, AfterValidator(checked_name)]
