"""Kill the server without warning, again and again, under load: no answer without its charge, no double spend."""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.forkserver
import os
import random
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import pytest
import yaml

import discretion as dc
from discretion.online.client import ServiceError
from discretion.online.declare import ServiceSpec
from discretion.online.ledger import Entry, Ledger, open_ledger
from discretion.online.question.answer import Answer, AnswerFigures
from discretion.online.question.query import parse_sql
from discretion.online.server.access import hash_key, new_key
from tests.online.services import census

CLIENTS = 8
EPSILON, EACH = 50.0, 0.01
USERS = [f"user{i}" for i in range(CLIENTS)]
NOISY = USERS[:6]
COLUMNS = {
    "region": {"role": "public", "type": "category"},
    "age": {"role": "public", "type": "integer"},
    "income": {"role": "sensitive", "type": "number", "bounds": [0, 100_003]},
}
FORKS = multiprocessing.get_context("forkserver")


@pytest.fixture(scope="module", autouse=True)
def _loaded_once() -> None:
    """Start the process that all servers are forked from, with the libraries loaded."""
    FORKS.set_forkserver_preload(["tests.online.fault_server"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        multiprocessing.forkserver.ensure_running()


@dataclass
class Heard:
    """What one client knows: what it asked how often, and what it was told."""

    user: str
    asked: Counter[str] = field(default_factory=Counter)
    answers: dict[str, Answer] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def work(self, url: str, key: str, first: int, stop: threading.Event) -> None:
        """Ask for old answers again, then new questions, until the server is gone."""
        with dc.connect(url, key) as connection:
            try:
                for sql in list(self.asked)[-2:]:
                    self._ask(connection, sql)
                for number in range(first, first + 10_000):
                    if stop.is_set():
                        return
                    where = f"age < {20 + number % 60} OR age > {number}"
                    self._ask(connection, f"SELECT count(*) AS n, sum(income) AS s FROM people WHERE {where}")
            except ServiceError:
                return

    def _ask(self, connection: Any, sql: str) -> None:
        before = self.answers.get(sql)
        self.asked[sql] += 1
        try:
            answer = connection.ask(sql)
        except dc.QueryRefused:
            return
        if before is not None and not (answer.cached and answer.frame.equals(before.frame)):
            self.wrong.append(f"{self.user}: an answer that was told came back otherwise")
        self.answers[sql] = answer


class Siege:
    """A service, its clients and the ledger between them."""

    def __init__(self, folder: Path, ledger: str) -> None:
        census(2000).write_csv(folder / "people.csv")
        self.keys = {user: new_key() for user in USERS}
        truth: dict[str, Any] = {"mode": "exact+audit", "min_query_size": 2}
        noise: dict[str, Any] = {"mode": "dp", "epsilon": EPSILON, "epsilon_per_query": EACH}
        service = {
            "tables": {"people": {"source": "people.csv", "columns": COLUMNS}},
            "users": {
                user: {"policy": noise if user in NOISY else truth, "key_hash": hash_key(key)}
                for user, key in self.keys.items()
            },
            "ledger": ledger,
            "server": {"requests_per_minute": 10**9, "log": "log.jsonl", "threads": 1},
        }
        self.path = folder / "service.yaml"
        self.path.write_text(yaml.safe_dump(service))
        self.spec = ServiceSpec.load(self.path)
        self.clients = [Heard(user) for user in USERS]
        self.before: list[str] = []

    def round(self, number: int, delay: float) -> None:
        """Start, let everybody ask, kill at a moment nobody chose."""
        from tests.online.fault_server import serve

        here, there = FORKS.Pipe()
        process = FORKS.Process(target=serve, args=(str(self.path), there), daemon=True)
        process.start()
        there.close()
        url = _address(here)
        stop = threading.Event()
        threads = [
            threading.Thread(target=heard.work, args=(url, self.keys[heard.user], number * 10_000, stop))
            for heard in self.clients
        ]
        for thread in threads:
            thread.start()
        if number % 2:
            self._wait_for_answers()
        time.sleep(delay)
        process.kill()
        process.join()
        stop.set()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()

    def _wait_for_answers(self) -> None:
        """Let every second round get as far as three new answers, however slow the machine is."""
        told, until = self.told, time.monotonic() + 20
        while self.told < told + 3 and time.monotonic() < until:
            time.sleep(0.01)

    @property
    def told(self) -> int:
        """How many answers the clients have heard."""
        return sum(len(heard.answers) for heard in self.clients)

    def check(self, ledger: Ledger) -> None:
        """Compare what was told with what is written."""
        found = ledger.verify()
        assert found.holds, found.problems
        entries = list(ledger.history())
        hashes = [entry.hash for entry in entries]
        assert hashes[: len(self.before)] == self.before, "the history lost entries"
        self.before = hashes
        for heard in self.clients:
            assert not heard.wrong
            self._check_user(heard, [entry for entry in entries if entry.user == heard.user])

    def _check_user(self, heard: Heard, entries: list[Entry]) -> None:
        charges = [entry for entry in entries if entry.kind in ("dp", "exact")]
        recorded = {entry.refers: entry for entry in entries if entry.kind == "answer"}
        assert set(recorded) <= {entry.id for entry in charges}
        answered = {entry.digest: recorded[entry.id] for entry in charges if entry.id in recorded}
        per_question = Counter(entry.digest for entry in charges)
        asked: Counter[str] = Counter()
        for sql, times in heard.asked.items():
            query = parse_sql(sql, self.spec)
            asked[query.digest()] += times
            if sql in heard.answers:
                assert query.digest() in answered, "an answer without its charge"
                content = json.loads(answered[query.digest()].answer or "")
                figures = AnswerFigures.from_text(json.dumps(content.get("answer", content)))
                assert figures.frames(query, self.spec.tables["people"])[0].equals(heard.answers[sql].frame)
        for digest, times in per_question.items():
            assert times <= asked[digest], "charged more often than asked"
            unanswered = sum(entry.digest == digest and entry.id not in recorded for entry in charges)
            assert times - unanswered <= 1, "the same question was answered and charged twice"
        if heard.user in NOISY:
            spent = sum(entry.cost.micro_epsilon for entry in charges)
            assert spent == len(charges) * round(EACH * 10**6)
            assert spent <= EPSILON * 10**6


def _address(pipe: Pipe) -> str:
    assert pipe.poll(60), "the server did not start"
    return str(pipe.recv())


def _besiege(folder: Path, ledger: str, rounds: int) -> Siege:
    siege, chance = Siege(folder, ledger), random.Random(8)
    for number in range(rounds):
        siege.round(number, chance.uniform(0.02, 0.8))
        if number % 5 == 4 or number == rounds - 1:
            with open_ledger(siege.spec.ledger, create=False) as opened:
                siege.check(opened)
    assert siege.told >= rounds, "the clients hardly got an answer: nothing was tested"
    return siege


def test_killed_8_times_under_load_sqlite(tmp_path: Path) -> None:
    siege = _besiege(tmp_path, "sqlite:///ledger.db", 8)
    with dc.StatisticalDatabase(siege.path) as database:
        for heard in siege.clients:
            for sql, answer in list(heard.answers.items())[-5:]:
                again = database.ask(sql, user=heard.user)
                assert again.cached
                assert again.frame.equals(answer.frame)


def test_killed_5_times_under_load_postgres(tmp_path: Path, postgres_url: str) -> None:
    _besiege(tmp_path, _fresh_database(postgres_url), 5)


@pytest.mark.slow
def test_killed_200_times_under_load_sqlite(tmp_path: Path) -> None:
    _besiege(tmp_path, "sqlite:///ledger.db", 200)


@pytest.mark.slow
def test_killed_200_times_under_load_postgres(tmp_path: Path, postgres_url: str) -> None:
    _besiege(tmp_path, _fresh_database(postgres_url), 200)


def _fresh_database(url: str) -> str:
    import psycopg

    name = f"siege_{os.getpid()}_{time.monotonic_ns()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return url.rsplit("/", 1)[0] + "/" + name


def test_a_charge_without_its_answer_stays_spent_and_the_question_is_charged_again(tmp_path: Path) -> None:
    """The server dies between charge and answer: nobody knows what was seen, so it counts."""
    columns = {"region": {"role": "public", "type": "category"}}
    policy = {"mode": "dp", "epsilon": 1.0, "epsilon_per_query": 0.4}
    options: dict[str, Any] = {"columns": columns, "policy": policy, "ledger": tmp_path / "l.db"}
    frame = census(100).select("region")
    with dc.StatisticalDatabase(frame, **options) as database:
        query = database.read("SELECT count(*) FROM data")
        database.ledger.charge("analyst", "data", query.digest(), database.dry_run(query).cost, "dp")
    with dc.StatisticalDatabase(frame, **options) as database:
        assert not database.ask("SELECT count(*) FROM data").cached
        assert database.budget()[0].spent.micro_epsilon == 800_000
        assert database.ask("SELECT count(*) FROM data").cached


def test_the_check_itself_finds_what_it_looks_for(tmp_path: Path) -> None:
    """A told answer without a charge, and a question that was charged twice, do not pass."""
    import polars as pl

    siege = Siege(tmp_path, "sqlite:///ledger.db")
    sql = "SELECT count(*) AS n, sum(income) AS s FROM people WHERE age < 30"
    with dc.StatisticalDatabase(siege.path) as database:
        answer = database.ask(sql, user="user0")
        siege.clients[0].asked[sql] += 1
        siege.clients[0].answers[sql] = answer
        siege.check(database.ledger)
        siege.clients[1].asked[sql] += 1
        siege.clients[1].answers[sql] = Answer(pl.DataFrame({"n": [1], "s": [2.0]}), "dp")
        with pytest.raises(AssertionError, match="without its charge"):
            siege.check(database.ledger)
        siege.clients[1] = Heard("user1")
        query = database.read(sql, user="user0")
        for _ in range(2):
            database.ledger.charge("user0", "people", query.digest(), answer.cost, "dp")
        with pytest.raises(AssertionError, match="more often than asked"):
            siege.check(database.ledger)
