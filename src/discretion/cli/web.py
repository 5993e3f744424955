"""`discretion web`: the app in a browser."""

from __future__ import annotations

import secrets
import threading
from pathlib import Path
from typing import Any

import click

from discretion.cli.console import say

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
