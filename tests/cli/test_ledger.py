"""`discretion ledger verify` and `ledger export`."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from discretion.online.ledger import Cost, open_ledger
from tests.cli.conftest import Cli


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with open_ledger(tmp_path / "ledger.db") as ledger:
        for number in range(3):
            entry = ledger.charge("ann", "people", str(number), Cost(micro_epsilon=5))
            ledger.record_answer(entry.id, str(number))
    return tmp_path / "ledger.db"


def test_verify_and_export(file: Path, cli: Cli) -> None:
    found = cli("ledger", "verify", file)
    assert found.code == 0 and found.out.startswith("6:") and "6 entries" in found.err
    assert cli("ledger", "verify", f"sqlite:///{file}", "--head", found.out.strip()).code == 0
    assert cli("ledger", "verify", file, "--head", "6:" + "0" * 64).code == 4
    exported = file.with_name("ledger.jsonl")
    assert cli("ledger", "export", file, "-o", exported).code == 0
    assert cli("ledger", "export", file, "-o", exported).code == 3
    assert cli("ledger", "export", file, "-o", exported, "--force").code == 0
    lines = exported.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 6 and json.loads(lines[0])["micro_epsilon"] == 5
    assert cli("ledger", "export", file).out.splitlines() == lines
    assert cli("ledger", "verify", exported, "--json").json()["head"] == found.out.strip()
    exported.write_text("\n".join(lines[:2] + lines[3:]) + "\n", encoding="utf-8")
    assert cli("ledger", "verify", exported).code == 4


def test_damage_is_found(file: Path, cli: Cli) -> None:
    connection = sqlite3.connect(file)
    connection.execute("DROP TRIGGER ledger_no_update")
    connection.execute("UPDATE ledger SET micro_epsilon = 1 WHERE id = 3")
    connection.commit()
    connection.close()
    found = cli("ledger", "verify", file)
    assert found.code == 4 and "entry 3 was changed" in found.err and found.out == ""
    as_json = cli("ledger", "verify", file, "--json")
    assert as_json.code == 4 and as_json.json()["holds"] is False


def test_wrong_targets(tmp_path: Path, cli: Cli) -> None:
    assert cli("ledger", "verify", tmp_path / "absent.db").code == 3
    assert not (tmp_path / "absent.db").exists()
    assert cli("ledger", "verify", "mysql://somewhere").code == 2
    assert cli("ledger", "verify", tmp_path / "absent.jsonl").code == 3
    (tmp_path / "wrong.jsonl").write_text("no json\n", encoding="utf-8")
    assert cli("ledger", "verify", tmp_path / "wrong.jsonl").code == 4
    for content in (b"\xff\xfe\n", b"[" * 100_000, b"3\n", b'"x"\n', b"[]\n", b'{"id": 1}\n'):
        (tmp_path / "wrong.jsonl").write_bytes(content)
        found = cli("ledger", "verify", tmp_path / "wrong.jsonl")
        assert found.code == 4 and "Traceback" not in found.err
    for head in ("7", "²:" + "0" * 64, "7:" + "g" * 64):
        assert cli("ledger", "verify", tmp_path / "x.db", "--head", head).code == 2
    (tmp_path / "other.db").write_bytes(b"something else " * 500)
    assert cli("ledger", "verify", tmp_path / "other.db").code == 3
    (tmp_path / "empty.db").touch()
    assert cli("ledger", "verify", tmp_path / "empty.db").code == 3
    assert cli("ledger", "verify", tmp_path).code == 3
    assert cli("ledger", "verify", "postgresql://127.0.0.1:1/base").code == 3
