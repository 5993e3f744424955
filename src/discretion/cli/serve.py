"""`discretion serve`, `key` and `ledger`: a database over HTTP and who may ask it; `web`: the app in a browser."""

from __future__ import annotations

import json
import math
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import common_options, print_json, print_table, say
from discretion.errors import DataError, PlanError, RequirementNotMet

if TYPE_CHECKING:
    from discretion.online.declare import ServiceSpec
    from discretion.online.ledger import Entry, Ledger


@click.group()
def ledger() -> None:
    """Check or export the ledger of an on-line service.

    A ledger is a SQLite file, sqlite:///path, postgresql://user@host/base or an export (.jsonl).
    """


@ledger.command()
@click.argument("target")
@click.option("--head", "head_text", metavar="NUMBER:HASH", help="a head kept elsewhere; finds a lost end too")
@click.option("--name", default="discretion_ledger", show_default=True, help="name of the table in PostgreSQL")
@common_options
def verify(target: str, head_text: str | None, name: str, as_json: bool, quiet: bool) -> int:
    """Find entries that were changed, removed or moved; exit code 4 if there are any.

    Prints the head (number and hash of the last entry): keep it elsewhere and check against it later.
    """
    from discretion.online.ledger import Head, verify_chain

    expected = Head.parse(head_text) if head_text is not None else None
    if target.endswith(".jsonl"):
        found = verify_chain(_exported(Path(target)), expected)
    else:
        with _open(target, name) as opened:
            found = opened.verify(expected)
    if as_json:
        about = {"entries": found.entries, "head": str(found.head), "holds": found.holds}
        print_json({**about, "problems": list(found.problems)})
    elif found.holds:
        click.echo(str(found.head))
    if not found.holds:
        if as_json:
            return RequirementNotMet.exit_code
        raise RequirementNotMet("the ledger was tampered with or damaged:\n" + "\n".join(found.problems))
    say(f"{found.entries} entries, nothing changed", quiet)
    return 0


@ledger.command()
@click.argument("target")
@click.option("-o", "--out", default="-", show_default=True, help="file to write; - is standard output")
@click.option("--force", is_flag=True, help="overwrite OUT if it exists")
@click.option("--name", default="discretion_ledger", show_default=True, help="name of the table in PostgreSQL")
@click.option("--quiet", "-q", is_flag=True, help="say nothing but results and errors")
def export(target: str, out: str, force: bool, name: str, quiet: bool) -> None:
    """Write every entry as a line of JSON, answers and query sets included: as confidential as the answers."""
    from discretion.data.write import replacing

    with _open(target, name) as opened:
        if out == "-":
            count = opened.export(sys.stdout)
        else:
            whole = replacing(Path(out), overwrite=force, private=True)
            with whole as temporary, temporary.open("w", encoding="utf-8") as stream:
                count = opened.export(stream)
    say(f"{count} entries", quiet)


def _open(target: str, name: str) -> Ledger:
    from discretion.online.ledger import open_ledger

    if not target:
        raise PlanError("name the file or URL of a ledger")
    return open_ledger(target, create=False, name=name)


def _exported(path: Path) -> Iterator[Entry]:
    from discretion.online.ledger import Entry

    with path.open(encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            try:
                content = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"line {number} of {path} is not JSON") from error
            yield Entry.from_json(content)


_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@click.command()
@click.argument("service", metavar="SERVICE")
@click.option("--check", "check_only", is_flag=True, help="check the file, the data and the ledger, and stop")
@click.option("--draft", metavar="DATA", help="write a first SERVICE file for this data, and stop")
@click.option(
    "--new-key", "new_keys", metavar="USER", multiple=True, help="make a key for this user and print it first"
)
@click.option("--host", metavar="ADDRESS", help="listen here instead of where the file says")
@click.option(
    "--port", metavar="NUMBER", type=click.IntRange(0, 65_535), help="port instead of the file's (0: a free one)"
)
@click.option("--force", is_flag=True, help="overwrite SERVICE (with --draft)")
@click.option(
    "--damaged-ledger", is_flag=True, help="start although the ledger is damaged: what it lost may be asked again"
)
@common_options
def serve(service: str, as_json: bool, quiet: bool, **options: Any) -> None:
    """Answer questions about the tables of a service file; only statistics, under the owner's policies."""
    if options["draft"]:
        _draft(service, options["draft"], options["force"], as_json, quiet)
        return
    from discretion.online.declare import ServiceSpec

    spec = ServiceSpec.load(service)
    changes = {name: options[name] for name in ("host", "port") if options[name] is not None}
    spec = spec.model_copy(update={"server": spec.server.model_copy(update=changes)})
    if options["check_only"]:
        if options["new_keys"]:
            raise click.UsageError("--check changes nothing: make keys with --new-key alone")
        _check(spec, service, as_json, quiet)
        return
    keys = [(user, _ring(spec, service).add(user, spec.users)) for user in options["new_keys"]]
    if as_json and keys:
        print_json({"keys": [{"user": user, "key": key} for user, key in keys]})
    for user, key in keys if not as_json else ():
        click.echo(f"{user}\t{key}")
    _run(spec, service, quiet, damaged=options["damaged_ledger"])


def _ring(spec: ServiceSpec, service: str) -> Any:
    from discretion.online.server.access import KeyRing, keys_beside

    return KeyRing.of(spec, keys_beside(service))


def _run(spec: ServiceSpec, service: str, quiet: bool, *, damaged: bool) -> None:
    from discretion.errors import DataError, need
    from discretion.online.server import create_app
    from discretion.online.statistical_database import StatisticalDatabase

    uvicorn = need("uvicorn", "the server", "online")
    from discretion.online.server.protocol import patient

    server, ring = spec.server, _ring(spec, service)
    _check_tls(spec)
    try:
        _check_ledger(spec)
    except DataError as error:
        if not damaged:
            hint = "mend it from a copy, or start with --damaged-ledger: what it lost may then be asked again"
            raise DataError(f"{error}; {hint}") from None
        say(f"warning: {error}")
    _warn(spec, service, ring)
    say(f"reading {', '.join(spec.tables)} …", quiet)
    with _stopping_on_term(), StatisticalDatabase(spec) as database:
        config = uvicorn.Config(
            create_app(database, ring), host=server.host, port=server.port, ssl_certfile=server.tls_certificate,
            ssl_keyfile=server.tls_key, log_level="warning", access_log=False, server_header=False, ws="none",
            proxy_headers=False,  # an address that the caller writes himself would escape the limit of strangers
            http=patient(server.connections), timeout_keep_alive=30,
            timeout_graceful_shutdown=math.ceil(server.query_seconds) + 5,
        )  # fmt: skip
        _warm(database)
        taken = listening(server.host, server.port, config.backlog)
        scheme = "https" if server.tls_certificate else "http"
        host = f"[{server.host}]" if ":" in server.host else server.host
        say(f"listening on {scheme}://{host}:{taken.getsockname()[1]} (Ctrl+C stops)", quiet)
        uvicorn.Server(config).run(sockets=[taken])


@contextmanager
def _stopping_on_term() -> Iterator[None]:
    """Let SIGTERM end the service as it should end: questions that run are answered, ledger and data are closed."""

    def stop(*_: object) -> None:
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def listening(host: str, port: int, backlog: int) -> socket.socket:
    """Take the address, or say why it cannot be had."""
    from discretion.errors import DataError

    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        taken = socket.socket(family, kind, protocol)
        try:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(address)
            taken.listen(backlog)
        except BaseException:
            taken.close()
            raise
    except OSError as error:
        raise DataError(f"the service cannot listen on {host} port {port}: {error.strerror}") from None
    return taken


def _check_tls(spec: ServiceSpec) -> None:
    """Raise unless certificate and key can be read and belong together."""
    import ssl

    from discretion.errors import DataError

    server = spec.server
    if server.tls_certificate is None or server.tls_key is None:
        return
    for name in ("tls_certificate", "tls_key"):
        if not Path(getattr(server, name)).is_file():
            raise DataError(f"`server.{name}`: there is no file {getattr(server, name)}")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(server.tls_certificate, server.tls_key, password="")
    except ssl.SSLError as error:
        reason = (
            "they do not belong together" if error.reason == "KEY_VALUES_MISMATCH" else "not PEM, or with a password"
        )
        raise DataError(f"`server.tls_certificate` and `server.tls_key` cannot be used: {reason}") from None
    except OSError as error:
        raise DataError(f"`server.tls_certificate` and `server.tls_key`: {error.strerror}") from None


def _warm(database: Any) -> None:
    """Load the libraries that the first question would otherwise wait for."""
    from discretion.errors import QueryRefused

    spec, warm = database.spec, set()
    for user in spec.users:
        for table in spec.tables_for(user) if spec.users[user].role != "auditor" else ():
            kind = (table, spec.policy_for(user, table).mode)
            if kind not in warm:
                warm.add(kind)
                with suppress(QueryRefused):
                    database.dry_run({"table": table, "aggregates": [{"function": "count"}]}, user=user)


def _warn(spec: ServiceSpec, service: str, ring: Any) -> None:
    """Say what would make the service useless or unsafe."""
    if not spec.users:
        say("warning: the service declares no `users`, so nobody can ask")
    elif not ring.stored():
        say(f"warning: nobody has a key yet; discretion key add {service} {next(iter(spec.users))}")
    if spec.server.host not in _LOOPBACK and not spec.server.tls_certificate:
        say("warning: keys and answers travel without encryption; set `tls_certificate` and `tls_key`")
    for what, place in _confidential(spec, service).items():
        if place.is_file() and place.stat().st_mode & 0o077:
            say(f"warning: others on this machine can read {what}; chmod 600 {place}")


def _confidential(spec: ServiceSpec, service: str) -> dict[str, Path]:
    """Name the files that only the owner of the service may read."""
    from discretion.online.server.access import keys_beside
    from discretion.online.statistical_database import secret_place

    found = {"the hashes of the keys": keys_beside(service)}
    if spec.server.tls_key is not None:
        found["the key of the certificate"] = Path(spec.server.tls_key)
    if (secret := secret_place(spec)) is not None:
        found["the secret"] = secret
    if (ledger := _ledger_file(spec)) is not None:
        found["the ledger, with all answers"] = ledger
    return found


def _ledger_file(spec: ServiceSpec) -> Path | None:
    """Give the file of a SQLite ledger."""
    if "://" in spec.ledger and not spec.ledger.startswith("sqlite:///"):
        return None
    return Path(spec.ledger.removeprefix("sqlite:///"))


def _check(spec: ServiceSpec, service: str, as_json: bool, quiet: bool) -> None:
    """Open everything without writing anything; say which declarations are missing, by column."""
    from discretion.online.declare import undeclared
    from discretion.online.statistical_database import StatisticalDatabase, secret_place

    _check_tls(spec)
    secret_place(spec)
    with StatisticalDatabase(spec.model_copy(update={"ledger": ":memory:", "secret_file": None})) as database:
        people = {name: database.people(name) for name in spec.tables}
        rules = {name: database.rules(name) for name in spec.tables}
    entries = _check_ledger(spec)
    owners = [key.user for key in _ring(spec, service).stored()]
    keys = {user: owners.count(user) for user in spec.users}
    missing = undeclared(spec)
    if as_json:
        named = {
            name: {column: {"rule": rule, "why": why} for column, (rule, why) in found.items()}
            for name, found in rules.items()
        }
        found = {"people": people, "keys": keys, "ledger_entries": entries, "rules": named, "undeclared": missing}
        print_json({"service": "valid", **found})
        return
    rows = [(name, f"{count:,}", ", ".join(spec.tables[name].visible)) for name, count in people.items()]
    print_table("Tables", ("table", "people", "columns"), rows, numeric=(1,))
    policies = [
        (user, spec.users[user].role, ", ".join(f"{t}: {spec.policy_for(user, t).mode}" for t in spec.tables_for(user)),
         str(keys[user]))
        for user in spec.users
    ]  # fmt: skip
    print_table("Users", ("user", "role", "answers", "keys"), policies, numeric=(3,))
    ruled = [(f"{t}.{column}", *rule) for t, by in rules.items() for column, rule in by.items()]
    if ruled:
        print_table("Sensitive columns", ("column", "true sums by", "why"), ruled)
    lines = [(f"{t}.{column}", text) for t, by in missing.items() for column, listed in by.items() for text in listed]
    if lines:
        print_table("Not declared", ("column", "what is missing, and what is refused for it"), lines)
    say(f"the service is valid; the ledger has {entries:,} entries", quiet)


def _check_ledger(spec: ServiceSpec) -> int:
    """Verify the ledger if there is one already; give the number of its entries."""
    from discretion.errors import DataError
    from discretion.online.ledger import NoLedger, open_ledger

    file = _ledger_file(spec)
    try:
        with open_ledger(spec.ledger if file is None else file, create=False) as ledger:
            found = ledger.verify()
    except NoLedger:
        return 0
    if not found.holds:
        raise DataError("the ledger is damaged: " + "; ".join(found.problems))
    return found.entries


def _draft(service: str, data: str, force: bool, as_json: bool, quiet: bool) -> None:
    from discretion.data.read import read
    from discretion.data.write import write_text
    from discretion.online.declare import draft

    path = Path(service)
    folder, source = path.resolve().parent, Path(data).resolve()
    relative = source.relative_to(folder) if source.is_relative_to(folder) else source
    others = any(file != source and file.suffix in (source.suffix, ".db") for file in folder.iterdir())
    write_text(path, draft(read(data), str(relative), others=others), overwrite=force)
    if as_json:
        print_json({"service": service})
    say(f"wrote {service}: read it, declare bounds and roles, then `discretion serve {service} --check`", quiet)


@click.group()
def key() -> None:
    """Make, list and take back the keys that open a service."""


@key.command(name="add")
@click.argument("service", metavar="SERVICE")
@click.argument("user", metavar="USER")
@click.option("--days", metavar="NUMBER", type=click.IntRange(1), help="the key stops to open after so many days")
@common_options
def add_key(service: str, user: str, days: int | None, as_json: bool, quiet: bool) -> None:
    """Make a key for a user of the service and print it: the only time it is seen."""
    from discretion.online.declare import ServiceSpec

    spec = ServiceSpec.load(service)
    ring = _ring(spec, service)
    made = ring.add(user, spec.users, days=days)
    if as_json:
        print_json({"user": user, "key": made})
    else:
        click.echo(made)
    say(f"its hash is in {ring.path}; a running service takes it at once", quiet)


@key.command(name="list")
@click.argument("service", metavar="SERVICE")
@common_options
def list_keys(service: str, as_json: bool, quiet: bool) -> None:
    """List the keys of a service: whose, when made, until when, and the id that takes them back."""
    from discretion.online.declare import ServiceSpec

    found = _ring(ServiceSpec.load(service), service).stored()
    if as_json:
        print_json(
            {
                "keys": [
                    {"id": one.id, "user": one.user, "made": one.made, "expires": one.expires or None} for one in found
                ]
            }
        )
        return
    print_table(
        "", ("id", "user", "made", "expires"), [(one.id, one.user, one.made, one.expires or "never") for one in found]
    )
    say(f"{len(found)} {'key' if len(found) == 1 else 'keys'}", quiet)


@key.command(name="revoke")
@click.argument("service", metavar="SERVICE")
@click.argument("what", metavar="USER|ID")
@common_options
def revoke_key(service: str, what: str, as_json: bool, quiet: bool) -> None:
    """Take back a key by its id, or all keys of a user."""
    from discretion.errors import PlanError
    from discretion.online.declare import ServiceSpec

    count = _ring(ServiceSpec.load(service), service).revoke(what)
    if not count:
        raise PlanError(f"no key has the id or the user {what!r}; keys written in the service file are removed there")
    if as_json:
        print_json({"revoked": count})
    say(f"took back {count} {'key' if count == 1 else 'keys'}", quiet)


_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.command()
@click.option("--folder", default="projects", show_default=True, metavar="PROJECTS", help="where the projects lie")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="listen here")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65_535), help="port (0: a free one)")
@click.option("--users", metavar="FILE", help="who may log in; needed where others can reach the address")
@click.option(
    "--data", metavar="FOLDER", multiple=True, help="with --users: files below it may be opened by their path"
)
@click.option("--new-user", metavar="NAME", help="add a user to the users file (asks for the password), and stop")
@click.option(
    "--role", type=click.Choice(["owner", "reviewer"]), default="owner", show_default=True, help="of --new-user"
)
@click.option("--tls-certificate", metavar="FILE", help="certificate, for addresses that others can reach")
@click.option("--tls-key", metavar="FILE", help="its key")
@click.option(
    "--behind", metavar="NAME", multiple=True, help="name under which browsers reach the app, as in their address"
)
@click.option("--demo", is_flag=True, help="have the demo ready")
@click.option("--open", "open_browser", is_flag=True, help="open a browser")
@click.option("--quiet", is_flag=True, help="print the address only")
def web(**options: Any) -> None:
    """Do the whole job in a browser: nothing leaves this computer."""
    from discretion.errors import PlanError

    users = Path(options["users"]) if options["users"] else None
    if options["new_user"]:
        _add_user(users, options["new_user"], options["role"])
        return
    loopback = options["host"] in _LOOPBACK
    if not loopback and users is None:
        raise PlanError(
            f"others can reach {options['host']}: name the people who may log in with --users FILE "
            "(`discretion web --users FILE --new-user NAME` adds one)"
        )
    if not loopback and not options["tls_certificate"] and not options["behind"]:
        raise PlanError(
            "passwords would travel without encryption: give --tls-certificate and --tls-key, or --behind NAME where a "
            "proxy does that"
        )
    if options["host"] in ("0.0.0.0", "::") and not options["behind"]:
        raise PlanError(
            f"browsers do not ask for {options['host']}: say by --behind NAME:PORT under which names they do; "
            "requests for other names are refused"
        )
    _serve(options, users)


def _add_user(users: Path | None, name: str, role: Any) -> None:
    from discretion.errors import PlanError
    from discretion.web.guard import Users

    if users is None:
        raise PlanError("name the users file: --users FILE")
    password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    if len(password) < 10:
        raise PlanError("the password is too short: ten characters at least")
    Users.add(users, name, password, role)
    say(f"{name} may log in as {role}")


def _serve(options: dict[str, Any], users: Path | None) -> None:
    from discretion.cli.serve import listening
    from discretion.errors import need

    uvicorn = need("uvicorn", "the web app", "web")
    need("fastapi", "the web app", "web")
    need("python_multipart", "the web app", "web")
    from discretion.part import all_parts
    from discretion.web.actions import Actions
    from discretion.web.app import create_app, login_page
    from discretion.web.guard import Users, WebGuard
    from discretion.web.project import Projects, Workers

    root = Path(options["folder"]).resolve()
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    folders = tuple(Path(one).resolve() for one in options["data"]) if users else None
    actions = Actions(Projects(root), Workers(), folders)
    token = "" if users else secrets.token_urlsafe(24)
    taken = listening(options["host"], options["port"], 128)
    port, secure = taken.getsockname()[1], bool(options["tls_certificate"])
    names = {options["host"], *(("127.0.0.1", "localhost", "[::1]") if options["host"] in _LOOPBACK else ())}
    hosts = {f"{name}:{port}" for name in names} | set(options["behind"]) | (names if port in (80, 443) else set())
    if options["demo"] and not users:
        actions.open_demo("owner")
    guard = WebGuard(
        create_app(actions), hosts=hosts, token=token, users=Users(users) if users else None, login=login_page,
        secure=secure or bool(options["behind"]),
    )  # fmt: skip
    address = f"{'https' if secure else 'http'}://{options['host']}:{port}/" + (f"?token={token}" if token else "")
    click.echo(address)
    say(f"projects in {root}; Ctrl+C stops the server, not the jobs", options["quiet"])
    actions.workers.warm()
    threading.Thread(target=all_parts, args=("method",), daemon=True).start()  # the page of the methods needs them
    if options["open_browser"]:
        import webbrowser

        webbrowser.open(address)
    config = uvicorn.Config(
        guard, log_level="warning", access_log=False, server_header=False, ws="none", proxy_headers=False,
        ssl_certfile=options["tls_certificate"], ssl_keyfile=options["tls_key"], timeout_graceful_shutdown=3,
    )  # fmt: skip
    try:
        uvicorn.Server(config).run(sockets=[taken])
    except KeyboardInterrupt:
        say("stopped; jobs that run go on, and the projects are as they were", options["quiet"])
    finally:
        actions.workers.close()
