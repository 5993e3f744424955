"""Slow clients, busy users, a full disk under the log, SIGTERM while questions run, and files that others may read."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import yaml

import discretion as dc
from discretion.cli.app import run
from discretion.errors import DataError
from discretion.online.client import ServiceError
from discretion.online.declare import ServerSpec
from discretion.online.ledger import open_ledger
from discretion.online.server.access import KeyRing, hash_key, new_key
from discretion.online.server.guard import AuditLog
from discretion.online.server.protocol import PatientProtocol, patient
from discretion.online.statistical_database import read_secret
from tests.online.services import NOISE, STUDENTS, Process, running, students

AT_ONCE = ServerSpec().questions_at_once
COUNT = {"sql": "SELECT count(*) FROM students"}


class Hasty(PatientProtocol):
    head_seconds = 0.2


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"hi"})


@contextmanager
def listening_at(protocol: type[PatientProtocol]) -> Iterator[int]:
    config = uvicorn.Config(_hello, port=0, log_level="critical", http=protocol, ws="none", lifespan="off")
    listening = config.bind_socket()
    listening.listen(16)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join(10)
    listening.close()


@pytest.fixture
def hasty_port() -> Iterator[int]:
    with listening_at(Hasty) as port:
        yield port


def _answered(line: HTTPConnection) -> bool:
    try:
        line.request("GET", "/")
        response = line.getresponse()
        response.read()
    except (OSError, HTTPException):
        return False
    return response.status == 200


def test_more_connections_than_allowed_are_closed_and_the_others_go_on() -> None:
    def another() -> HTTPConnection:
        line = HTTPConnection("127.0.0.1", port, timeout=20)
        line.connect()
        line.auto_open = 0  # once closed it stays closed
        return line

    with listening_at(patient(3)) as port, ExitStack() as lines:
        opened = [lines.enter_context(closing(another())) for _ in range(3)]
        assert [_answered(line) for line in opened] == [True] * 3
        for _ in range(5):
            with closing(another()) as line:
                assert not _answered(line)
        assert _answered(opened[0])
        opened[1].close()
        until = time.monotonic() + 20
        while True:  # the service notices a moment later
            with closing(another()) as line:
                if _answered(line):
                    break
            assert time.monotonic() < until


@pytest.mark.parametrize("start", [b"", b"GET", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_a_request_that_never_ends_its_headers_is_closed(hasty_port: int, start: bytes) -> None:
    with socket.create_connection(("127.0.0.1", hasty_port), timeout=20) as line:
        line.sendall(start)
        assert line.recv(100) == b"", "closed by the service"


def test_also_after_a_first_answer_and_no_others_are_touched(hasty_port: int) -> None:
    whole = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.create_connection(("127.0.0.1", hasty_port), timeout=20) as line:
        for _ in range(3):
            line.sendall(whole)
            answer = b""
            while not answer.endswith(b"hi"):
                answer += line.recv(1000)
        line.sendall(b"GET / HT")
        rest = b""
        while got := line.recv(1000):
            rest += got
        assert b"200" not in rest


def test_health_answers_while_a_user_keeps_the_service_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    go, entered = threading.Event(), threading.Semaphore(0)
    with students(users={"ann": {}, "bob": {}}) as database, running(database) as (url, keys):
        ask = database.ask

        def slow(question: Any, **options: Any) -> Any:
            if options["user"] == "ann":
                entered.release()
                go.wait(30)
            return ask(question, **options)

        monkeypatch.setattr(database, "ask", slow)
        statuses: list[int] = []

        def post(user: str) -> int:
            headers = {"Authorization": f"Bearer {keys[user]}"}
            return httpx.post(url + "/query", json=COUNT, headers=headers, timeout=60).status_code

        threads = [threading.Thread(target=lambda: statuses.append(post("ann"))) for _ in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert entered.acquire(timeout=30)
        try:
            assert httpx.get(url + "/health").status_code == 200
            assert post("ann") == 429
            assert post("bob") == 200
        finally:
            go.set()
            for thread in threads:
                thread.join(30)
        assert statuses == [200] * AT_ONCE
        assert post("ann") == 200


def test_a_log_that_cannot_be_written_does_not_stop_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    log = AuditLog("/dev/full")
    with students() as database, running(database, log) as (url, keys):
        headers = {"Authorization": f"Bearer {keys['analyst']}"}
        for _ in range(2):
            assert httpx.post(url + "/query", json=COUNT, headers=headers, timeout=60).status_code == 200
    log.close()
    assert "the audit log cannot be written" in capsys.readouterr().err
    with pytest.raises(DataError, match="audit log"):
        AuditLog(tmp_path / "no folder" / "log.jsonl")
    AuditLog(tmp_path / "log.jsonl").close()
    assert (tmp_path / "log.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_ledger_that_fails_is_told_without_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with students(users={"bob": {"policy": NOISE}}) as database, running(database) as (url, keys):
        headers = {"Authorization": f"Bearer {keys['bob']}"}
        store = database.ledger._store
        connection = store._connection  # type: ignore[attr-defined]
        connection.execute("PRAGMA query_only = ON")
        found = httpx.post(url + "/query", json=COUNT, headers=headers, timeout=60)
        assert found.status_code == 503
        assert "memory" not in found.text
        connection.execute("PRAGMA query_only = OFF")
        assert httpx.post(url + "/query", json=COUNT, headers=headers, timeout=60).status_code == 200


def _service(folder: Path, key: str) -> Path:
    dc.datasets.students().frame.write_csv(folder / "students.csv")
    content = {
        "tables": {"students": {"source": "students.csv", "columns": json.loads(json.dumps(STUDENTS))}},
        "policy": {**NOISE, "epsilon": 1000.0, "epsilon_per_query": 0.01},
        "users": {"ann": {"key_hash": hash_key(key)}},
        "server": {"requests_per_minute": 10**9},
    }
    (folder / "service.yaml").write_text(yaml.safe_dump(content))
    return folder / "service.yaml"


def test_sigterm_answers_what_is_charged_and_ends_well(tmp_path: Path) -> None:
    key = new_key()
    process = Process(_service(tmp_path, key))
    url = process.start()
    told: list[int] = []

    def work(start: int) -> None:
        with dc.connect(url, key) as connection:
            for number in range(start, start + 10_000):
                try:
                    connection.ask(f"SELECT count(*) FROM students WHERE class < {number}")
                except ServiceError:
                    return
                told.append(number)

    threads = [threading.Thread(target=work, args=(i * 10_000,)) for i in range(4)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 60
    while len(told) < 12 and time.monotonic() < until:
        time.sleep(0.01)
    assert process.stop() == 0
    for thread in threads:
        thread.join(30)
    with open_ledger(tmp_path / "ledger.db", create=False) as ledger:
        assert ledger.verify().holds
        kinds = [entry.kind for entry in ledger.history()]
    assert kinds.count("dp") == kinds.count("answer"), "a question was charged and not answered"
    assert len(told) == kinds.count("dp"), "an answer was charged and did not arrive"


def test_an_address_that_is_taken_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _service(tmp_path, new_key())
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert run(["serve", str(path), "--port", str(other.getsockname()[1])]) == 3
    assert "cannot listen on 127.0.0.1 port" in capsys.readouterr().err
    assert run(["serve", str(path), "--host", "no.such.host.invalid", "--port", "0"]) == 3


def test_files_that_others_can_read_are_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _service(tmp_path, new_key())
    assert run(["key", "add", str(path), "ann", "--quiet"]) == 0
    files = {"keys": "service.keys.json", "secret": "ledger.db.secret", "ledger": "ledger.db"}
    with dc.StatisticalDatabase(path):
        pass
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        assert run(["serve", str(path), "--port", port]) == 3
        assert "others on this machine" not in capsys.readouterr().err
        for name in files.values():
            (tmp_path / name).chmod(0o644)
        assert run(["serve", str(path), "--port", port]) == 3
    error = capsys.readouterr().err
    assert error.count("others on this machine") == 3
    assert all(f"chmod 600 {tmp_path / name}" in error for name in files.values())


def test_the_secret_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from discretion.online.declare import ServiceSpec

    spec = ServiceSpec(tables={"t": {"columns": STUDENTS}}, ledger=f"sqlite:///{tmp_path / 'l.db'}")

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", killed)
        with pytest.raises(KeyboardInterrupt):
            read_secret(spec)
    assert list(tmp_path.iterdir()) == []
    first = read_secret(spec)
    assert len(first) == 32
    assert read_secret(spec) == first
    assert [path.name for path in tmp_path.iterdir()] == ["l.db.secret"]
    assert (tmp_path / "l.db.secret").stat().st_mode & 0o777 == 0o600


def test_keys_made_at_once_are_all_kept(tmp_path: Path) -> None:
    path, made = tmp_path / "k.json", []

    def work() -> None:
        ring = KeyRing(path=path)
        made.extend(ring.add("ann", ["ann"]) for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ring = KeyRing(path=path)
    assert len(ring.stored()) == 20
    assert all(ring.user_of(key) == "ann" for key in made)


def test_a_header_does_not_change_who_is_counted(tmp_path: Path) -> None:
    """Strangers on the same machine said they came from elsewhere, and were never slowed down."""
    dc.datasets.students().frame.write_csv(tmp_path / "students.csv")
    (tmp_path / "service.yaml").write_text(
        "tables: {students: {source: students.csv, columns: {sex: {role: public, type: category}}}}\n"
        "users: {ann: {}}\nserver: {requests_per_minute: 5}\n"
    )
    process = Process(tmp_path / "service.yaml")
    url = process.start()
    try:
        found = [
            httpx.get(f"{url}/tables", headers={"X-Forwarded-For": f"10.0.0.{i}", "Forwarded": f"for=10.0.0.{i}"})
            for i in range(12)
        ]
    finally:
        process.stop()
    assert [one.status_code for one in found].count(401) < 8 and found[-1].status_code == 429


def test_a_ledger_with_a_removed_entry_is_not_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Budgets would be fuller and the audit would have forgotten a question; only the owner may accept that."""
    dc.datasets.students().frame.write_csv(tmp_path / "students.csv")
    service = tmp_path / "service.yaml"
    service.write_text(
        "tables: {students: {source: students.csv, columns: {sex: {role: public, type: category, categories: [female, "
        "male]}}}}\nusers: {ann: {}}\npolicy: {mode: dp, epsilon: 1, epsilon_per_query: 0.1}\n"
    )
    with dc.StatisticalDatabase(service) as base:
        for sex in ("female", "male"):
            base.ask(f"SELECT count(*) FROM students WHERE sex = '{sex}'")
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as file:
        (text,) = file.execute("SELECT sql FROM sqlite_master WHERE name = 'ledger_no_delete'").fetchone()
        file.execute("DROP TRIGGER ledger_no_delete")
        file.execute("DELETE FROM ledger WHERE id = 1")
        file.execute(text)
        file.commit()
    assert run(["serve", str(service), "--port", "0"]) == 3
    said = capsys.readouterr().err
    assert "the ledger is damaged" in said and "--damaged-ledger" in said and "listening" not in said
    process = Process(service, "--damaged-ledger")
    try:
        assert httpx.get(process.start() + "/health").status_code == 200
    finally:
        process.stop()
