"""Eight clients at once on ten million rows: everybody is answered, and the service stays small beside its data."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

import discretion as dc
from discretion.online.server.access import hash_key, new_key
from tests.online.services import Process, census

CLIENTS = 8
COLUMNS = {
    "region": {"role": "public", "type": "category", "categories": [str(i) for i in range(50)]},
    "age": {"role": "public", "type": "integer", "bounds": [0, 120]},
    "income": {"role": "sensitive", "type": "number", "bounds": [0, 100_003]},
}
QUESTIONS = (
    "SELECT count(*) AS n FROM people WHERE age > {}",
    "SELECT avg(income) AS m FROM people WHERE age > {}",
    "SELECT region, count(*) AS n FROM people WHERE age > {} GROUP BY region",
)


def resident_bytes(pid: int) -> int:
    """Memory of a process, from the kernel; peak."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no figure of memory")


def serve(folder: Path, rows: int) -> tuple[Process, str, dict[str, str]]:
    census(rows).write_parquet(folder / "people.parquet")
    keys = {f"user{i}": new_key() for i in range(CLIENTS)}
    service = {
        "tables": {"people": {"source": "people.parquet", "columns": COLUMNS}},
        "policy": {"mode": "dp", "epsilon": 1000.0, "epsilon_per_query": 1.0},
        "users": {user: {"key_hash": hash_key(key)} for user, key in keys.items()},
        "server": {"requests_per_minute": 10**6, "log": "log.jsonl"},
    }
    (folder / "service.yaml").write_text(yaml.safe_dump(service))
    process = Process(folder / "service.yaml")
    return process, process.start(), keys


def besiege(url: str, keys: dict[str, str], each: int) -> list[Any]:
    """Let every client ask `each` questions of its own; give what they got."""
    found: list[Any] = []

    def work(user: str) -> None:
        with dc.connect(url, keys[user]) as connection:
            asked = [QUESTIONS[number % len(QUESTIONS)].format(17 + number) for number in range(each)]
            found.extend(connection.ask(sql) for sql in asked)

    threads = [threading.Thread(target=work, args=(user,)) for user in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def check(folder: Path, rows: int, each: int) -> int:
    process, url, keys = serve(folder, rows)
    try:
        before = resident_bytes(process.pid)
        answers = besiege(url, keys, each)
        assert len(answers) == CLIENTS * each
        assert all(answer.cost.micro_epsilon == 10**6 for answer in answers)
        counts = [answer.frame["n"].item() for answer in answers if answer.frame.columns == ["n"]]
        assert max(counts) - min(counts) < rows
        peak = resident_bytes(process.pid)
    finally:
        assert process.stop() in (0, -15)
    with dc.StatisticalDatabase(folder / "service.yaml") as database:
        assert database.ledger.verify().holds
        charged = [entry for entry in database.history() if entry.kind == "dp"]
        assert len(charged) == CLIENTS * each
    return peak - before


def test_eight_clients_at_once(tmp_path: Path) -> None:
    check(tmp_path, 20_000, 6)


@pytest.mark.slow
def test_eight_clients_on_ten_million_rows_and_memory(tmp_path: Path) -> None:
    grown = check(tmp_path, 10_000_000, 6)
    assert grown < 10**9, f"the service grew by {grown / 2**20:,.0f} MB beside the loaded database"
    assert (tmp_path / "ledger.db").stat().st_size < 50 * 2**20
