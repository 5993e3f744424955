from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import polars as pl
import pytest

import discretion as dc

DATA = dc.Dataset(
    pl.DataFrame({"name": ["Ada", "Bob", "Ada", None], "id": [1, 2, 1, 3], "x": [1.0, 2.0, 3.0, 4.0]}),
    roles={"name": "identifier", "id": "identifier", "x": "sensitive"},
)
KEY = b"0123456789abcdef"


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    (tmp_path / "key").write_bytes(KEY + b"\n")
    return str(tmp_path / "key")


def test_identifiers_are_dropped() -> None:
    assert dc.DropIdentifiers()(DATA).columns == ("x",)
    assert dc.DropIdentifiers(columns="id")(DATA).columns == ("name", "x")


def test_no_identifier_is_an_error() -> None:
    with pytest.raises(dc.PlanError, match="no column has the role `identifier`"):
        dc.DropIdentifiers()(dc.Dataset(DATA.frame, roles={"x": "sensitive"}))


def test_pseudonyms_are_the_hmac_of_column_and_value(key_file: str) -> None:
    result = dc.Pseudonymize(key_file=key_file)(DATA)
    want = hmac.new(KEY, b"name\0Ada", hashlib.sha256).hexdigest()[:32]
    names = result.frame["name"].to_list()
    assert names[0] == names[2] == want
    assert names[1] != want and names[3] is None
    assert result.frame["id"][0] != result.frame["name"][0]
    assert result.having("identifier") == ()


def test_a_short_or_missing_key_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"abc")
    with pytest.raises(dc.PlanError, match="at least 16"):
        dc.Pseudonymize(key_file=str(tmp_path / "short"))(DATA)
    with pytest.raises(dc.PlanError, match="no key file"):
        dc.Pseudonymize(key_file=str(tmp_path / "absent"))(DATA)
