"""The figures of one response variable in every cell of a table."""

from __future__ import annotations

from dataclasses import dataclass

from discretion.kernels.arrays import Floats, Ints, Ints32


@dataclass(frozen=True, eq=False, repr=False)
class Response:
    """The figures of one response variable in every cell (m cells, t largest contributions)."""

    name: str
    """the response column; `count` for a table of frequencies"""
    value: Floats
    """(m,) what the table shows: the (weighted) sum, or the (weighted) number of records"""
    count: Ints
    """(m,) respondents that contribute, never weighted; several records of one respondent are one"""
    gross: Floats
    """(m,) sum of the absolute contributions; equal to `value` where none is negative"""
    top: Floats
    """(m, t) largest absolute contributions, weighted, descending; 0 where there are fewer"""
    top_ids: Ints32
    """(m, t) the respondents behind `top` (numbers; equal numbers are the same respondent), −1 where there is none"""
    negative: Ints
    """(m,) respondents whose contribution is negative"""
    open_count: Ints
    """(m,) respondents that have not waived protection"""
    open_top: Floats
    """(m,) the largest contribution among respondents that have not waived protection"""
    requested: Floats | None
    """(m,) the largest contribution among respondents that requested protection; None where nobody was asked"""
    inner_value: Floats
    """(n_inner,) the sum in each inner cell: `value == x.transposed.dot(inner_value)`"""
    frequency: bool = False
    """whether the table counts records"""
    counted: bool = True
    """whether `count` is known (ready-made cells may come without)"""

    def __repr__(self) -> str:
        return f"Response({self.name!r}, {len(self.value)} cells, {self.top.shape[1]} largest contributions)"
