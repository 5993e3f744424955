"""`dc.online`: the mechanisms and the ledger by their public names."""

from __future__ import annotations

import pytest

import discretion as dc


def test_every_name_is_found_and_others_are_not() -> None:
    assert all(getattr(dc.online, name) is not None for name in dc.online.__all__)
    assert dc.Ledger is dc.online.Ledger
    with pytest.raises(AttributeError, match="nothing"):
        _ = dc.online.nothing


def test_a_mechanism_draws_by_itself() -> None:
    unit = dc.online.Unit()
    noise = dc.online.Additive(dc.online.sensitivity.counts(unit), dc.online.Loss.micro_epsilon(1_000_000))
    assert noise.scale == pytest.approx(1.0)
    told = noise.release([1000] * 4000)
    assert abs(sum(told) / 4000 - 1000) < 5 * (noise.variance / 4000) ** 0.5
    assert len(set(told)) > 3
