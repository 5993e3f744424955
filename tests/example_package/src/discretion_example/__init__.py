"""A method of somebody else's."""

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.method import Decision, Method
from discretion.part import Columns, confidential


class Negate(Method, kind="negate"):
    """Turn the sign of every value, and add a constant.

    An example, and no protection at all.
    """

    columns: Columns = ()
    """numeric columns to turn"""
    plus: float = confidential(0.0)
    """what is added to every value"""

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Turn the signs."""
        columns = data.choose(self.columns, "perturb")
        return data.with_columns({name: self.plus - data.number(name) for name in columns})
