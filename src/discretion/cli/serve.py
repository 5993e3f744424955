"""`discretion serve` and `discretion key`: a statistical database over HTTP, and who may ask it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import common_options, print_json, print_table, say

if TYPE_CHECKING:
    from discretion.online.catalog import ServiceSpec

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
@common_options
def serve(service: str, as_json: bool, quiet: bool, **options: Any) -> None:
    """Answer questions about the tables of a service file; only statistics, under the owner's policies."""
    if options["draft"]:
        _draft(service, options["draft"], options["force"], as_json, quiet)
        return
    from discretion.online.catalog import ServiceSpec

    spec = ServiceSpec.load(service)
    changes = {name: options[name] for name in ("host", "port") if options[name] is not None}
    spec = spec.model_copy(update={"server": spec.server.model_copy(update=changes)})
    if options["check_only"]:
        _check(spec, service, as_json, quiet)
        return
    keys = [(user, _ring(spec, service).add(user, spec.users)) for user in options["new_keys"]]
    if as_json and keys:
        print_json({"keys": [{"user": user, "key": key} for user, key in keys]})
    for user, key in keys if not as_json else ():
        click.echo(f"{user}\t{key}")
    _run(spec, service, quiet)


def _ring(spec: ServiceSpec, service: str) -> Any:
    from discretion.online.server.access import KeyRing, keys_beside

    return KeyRing.of(spec, keys_beside(service))


def _run(spec: ServiceSpec, service: str, quiet: bool) -> None:
    from discretion.online.extras import need
    from discretion.online.server import create_app
    from discretion.online.statistical_database import StatisticalDatabase

    uvicorn = need("uvicorn", "the server")
    ring = _ring(spec, service)
    _warn(spec, service, ring)
    say(f"reading {', '.join(spec.tables)} …", quiet)
    with StatisticalDatabase(spec) as database:
        server = spec.server
        config = uvicorn.Config(
            create_app(database, ring), host=server.host, port=server.port, ssl_certfile=server.tls_certificate,
            ssl_keyfile=server.tls_key, log_level="warning", access_log=False, server_header=False,
            timeout_keep_alive=30, timeout_graceful_shutdown=10,
        )  # fmt: skip
        _warm(database)
        listening = config.bind_socket()
        listening.listen(config.backlog)
        scheme = "https" if server.tls_certificate else "http"
        host = f"[{server.host}]" if ":" in server.host else server.host
        say(f"listening on {scheme}://{host}:{listening.getsockname()[1]} (Ctrl+C stops)", quiet)
        uvicorn.Server(config).run(sockets=[listening])


def _warm(database: Any) -> None:
    """Load the libraries that the first question would otherwise wait for."""
    spec = database.spec
    for user in spec.users:
        for table in spec.tables_for(user) if spec.users[user].role != "auditor" else ():
            database.dry_run({"table": table, "aggregates": [{"function": "count"}]}, user=user)


def _warn(spec: ServiceSpec, service: str, ring: Any) -> None:
    """Say what would make the service useless or unsafe."""
    if not spec.users:
        say("warning: the service declares no `users`, so nobody can ask")
    elif not ring.stored():
        say(f"warning: nobody has a key yet; discretion key add {service} {next(iter(spec.users))}")
    if spec.server.host not in _LOOPBACK and not spec.server.tls_certificate:
        say("warning: keys and answers travel without encryption; set `tls_certificate` and `tls_key`")


def _check(spec: ServiceSpec, service: str, as_json: bool, quiet: bool) -> None:
    """Open everything without writing anything."""
    from discretion.errors import DataError
    from discretion.online.ledger import open_ledger
    from discretion.online.statistical_database import StatisticalDatabase

    with StatisticalDatabase(spec.model_copy(update={"ledger": ":memory:", "secret_file": None})) as database:
        people = {name: database.people(name) for name in spec.tables}
    entries = 0
    place = Path(spec.ledger.removeprefix("sqlite:///"))
    if "postgres" in spec.ledger or place.is_file():
        with open_ledger(spec.ledger if "://" in spec.ledger else place, create=False) as ledger:
            found = ledger.verify()
        if not found.holds:
            raise DataError("the ledger is damaged: " + "; ".join(found.problems))
        entries = found.entries
    owners = [key.user for key in _ring(spec, service).stored()]
    keys = {user: owners.count(user) for user in spec.users}
    if as_json:
        print_json({"service": "valid", "people": people, "keys": keys, "ledger_entries": entries})
        return
    rows = [(name, f"{count:,}", ", ".join(spec.tables[name].visible)) for name, count in people.items()]
    print_table("Tables", ("table", "people", "columns"), rows, numeric=(1,))
    policies = [
        (user, spec.users[user].role, ", ".join(f"{t}: {spec.policy_for(user, t).mode}" for t in spec.tables_for(user)),
         str(keys[user]))
        for user in spec.users
    ]  # fmt: skip
    print_table("Users", ("user", "role", "answers", "keys"), policies, numeric=(3,))
    say(f"the service is valid; the ledger has {entries:,} entries", quiet)


def _draft(service: str, data: str, force: bool, as_json: bool, quiet: bool) -> None:
    from discretion.data.atomic import write_text
    from discretion.data.read import read
    from discretion.online.draft import draft

    path = Path(service)
    folder, source = path.resolve().parent, Path(data).resolve()
    relative = source.relative_to(folder) if source.is_relative_to(folder) else source
    write_text(path, draft(read(data), str(relative)), overwrite=force)
    if as_json:
        print_json({"service": service})
    say(f"wrote {service}: read it, correct roles, then `discretion serve {service} --new-key analyst`", quiet)


@click.group()
def key() -> None:
    """Make, list and take back the keys that open a service."""


@key.command(name="add")
@click.argument("service", metavar="SERVICE")
@click.argument("user", metavar="USER")
@common_options
def add_key(service: str, user: str, as_json: bool, quiet: bool) -> None:
    """Make a key for a user of the service and print it: the only time it is seen."""
    from discretion.online.catalog import ServiceSpec

    spec = ServiceSpec.load(service)
    ring = _ring(spec, service)
    made = ring.add(user, spec.users)
    if as_json:
        print_json({"user": user, "key": made})
    else:
        click.echo(made)
    say(f"its hash is in {ring.path}; a running service takes it at once", quiet)


@key.command(name="list")
@click.argument("service", metavar="SERVICE")
@common_options
def list_keys(service: str, as_json: bool, quiet: bool) -> None:
    """List the keys of a service: whose, when made, and the id that takes them back."""
    from discretion.online.catalog import ServiceSpec

    found = _ring(ServiceSpec.load(service), service).stored()
    if as_json:
        print_json({"keys": [{"id": one.id, "user": one.user, "made": one.made} for one in found]})
        return
    print_table("", ("id", "user", "made"), [(one.id, one.user, one.made) for one in found])
    say(f"{len(found)} keys", quiet)


@key.command(name="revoke")
@click.argument("service", metavar="SERVICE")
@click.argument("what", metavar="USER|ID")
@common_options
def revoke_key(service: str, what: str, as_json: bool, quiet: bool) -> None:
    """Take back a key by its id, or all keys of a user."""
    from discretion.errors import PlanError
    from discretion.online.catalog import ServiceSpec

    count = _ring(ServiceSpec.load(service), service).revoke(what)
    if not count:
        raise PlanError(f"no key has the id or the user {what!r}; keys written in the service file are removed there")
    if as_json:
        print_json({"revoked": count})
    say(f"took back {count} {'key' if count == 1 else 'keys'}", quiet)
