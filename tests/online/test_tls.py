"""TLS: a service with a certificate, clients that trust it, clients that do not."""

from __future__ import annotations

import socket
import ssl
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import discretion as dc
from discretion.cli.app import run
from discretion.online.client import ServiceError
from discretion.online.server.access import hash_key, new_key
from tests.online.certificates import self_signed
from tests.online.services import Process

KEY = new_key()
SUM = "SELECT sum(income) AS s FROM students WHERE major = 'EE'"
SERVICE = """\
tables:
  students:
    source: students.csv
    columns:
      major: {{role: public, type: category}}
      income: {{role: sensitive, type: number, whole: false}}
policy: {{mode: exact+audit, min_query_size: 2}}
users: {{ann: {{key_hash: {hash}}}}}
server: {{tls_certificate: {certificate}, tls_key: {key}}}
"""


def service_file(folder: Path, certificate: Path, key: Path) -> Path:
    dc.datasets.students().frame.write_csv(folder / "students.csv")
    path = folder / "service.yaml"
    path.write_text(SERVICE.format(hash=hash_key(KEY), certificate=certificate.name, key=key.name))
    return path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = self_signed(folder, "service")
    process = Process(service_file(folder, certificate, key))
    try:
        yield process.start(), certificate
    finally:
        assert process.stop() == 0


def test_a_trusted_certificate_opens(served: tuple[str, Path]) -> None:
    url, certificate = served
    assert url.startswith("https://127.0.0.1:")
    for verify in (certificate, str(certificate)):
        with dc.connect(url, KEY, verify=verify) as connection:
            assert connection.ask(SUM).frame.item() == 240_000
    with dc.connect(url.replace("127.0.0.1", "localhost"), KEY, verify=certificate) as connection:
        assert list(connection.tables()) == ["students"]


def test_an_unknown_certificate_is_refused_before_the_key_is_sent(served: tuple[str, Path], tmp_path: Path) -> None:
    url, _ = served
    other, _ = self_signed(tmp_path, "other")
    for verify in (True, other):
        with (
            dc.connect(url, KEY, verify=verify) as connection,
            pytest.raises(ServiceError, match="certificate is not trusted"),
        ):
            connection.tables()


def test_a_certificate_for_another_host_is_refused(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path, "elsewhere", "DNS:elsewhere.example")
    process = Process(service_file(tmp_path, certificate, key))
    try:
        with (
            dc.connect(process.start(), KEY, verify=certificate) as connection,
            pytest.raises(ServiceError, match="not trusted"),
        ):
            connection.tables()
    finally:
        process.stop()


def test_plain_http_gets_nothing_from_a_port_with_tls_and_old_tls_neither(served: tuple[str, Path]) -> None:
    url, certificate = served
    with (
        dc.connect(url.replace("https", "http"), KEY) as connection,
        pytest.raises(ServiceError, match="did not answer"),
    ):
        connection.tables()
    context = ssl.create_default_context(cafile=str(certificate))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    port = int(url.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port)) as line, pytest.raises(ssl.SSLError):
        context.wrap_socket(line, server_hostname="127.0.0.1")


def test_certificates_that_cannot_be_used_are_told_before_anything_listens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate, key = self_signed(tmp_path, "one")
    _, wrong = self_signed(tmp_path, "two")
    path = service_file(tmp_path, certificate, key)
    assert run(["serve", str(path), "--check", "--quiet"]) == 0
    for cert, secret, words in (
        (certificate, wrong, "belong together"),
        (key, certificate, "PEM"),
        (tmp_path / "absent.pem", key, "tls_certificate"),
        (certificate, tmp_path / "absent.key", "tls_key"),
    ):
        service_file(tmp_path, cert, secret)
        for more in (["--check"], []):
            capsys.readouterr()
            assert run(["serve", str(path), *more]) == 3
            assert words in capsys.readouterr().err


def test_trust_that_is_no_file_of_certificates(tmp_path: Path) -> None:
    with pytest.raises(dc.PlanError, match="no file"):
        dc.connect("https://localhost", KEY, verify=tmp_path / "absent.pem")
    (tmp_path / "text.pem").write_text("hello")
    with (
        dc.connect("https://localhost", KEY, verify=tmp_path / "text.pem") as connection,
        pytest.raises(dc.PlanError, match="no certificates"),
    ):
        connection.tables()


def test_plain_http_through_a_network_is_warned_of() -> None:
    for url in ("http://10.0.0.7:8000", "http://stats.example", "http://[2001:db8::1]:80"):
        with pytest.warns(UserWarning, match="without encryption"):
            dc.connect(url, KEY)
    for url in ("http://127.0.0.1:8000", "http://[::1]:8000", "http://localhost", "https://stats.example"):
        dc.connect(url, KEY)
