"""`discretion party`: compute a statistic with others without showing them the data."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import click

from discretion.cli.console import common_options, print_json, print_table, say

SKELETON = """\
# What these parties compute together. Everybody reads it, changes it until all agree, and signs the same text:
#   discretion party agree {file} --as NAME
title: {title}
id: {id}   # random: a signature is good for this agreement only

parties:
{parties}
# Every party's file has these columns, one row for each person.
{body}time_out: 60
runs: 1
"""
SEVERAL = """\
columns:
  age: {lower: 0, upper: 120, step: 1}
  # sex: {categories: [female, male]}

# All that is opened. Others: count, sum, variance, covariance, correlation, histogram, table, quantile,
# linear-regression, logistic-regression; intersection (of identifiers) between two parties.
statistics:
  - mean: {columns: [age], decimals: 2}

# Checked inside the protocol; if anything does not hold, nobody learns more than that.
people: {each: 100, total: 1000}
rules: {p_percent: 10, dominance: {parties: 1, percent: 90}}

# noise: {epsilon: 1}   # differential privacy of the result, for one person of one party
"""
TWO = """\
columns: {}

# Two parties can ask how many identifiers both have; for other statistics each would know the other's part.
statistics:
  - intersection: {column: person_id, at_least: 20, epsilon: 1}
people: {each: 1000, total: 2000}

"""


@click.group()
def party() -> None:
    """Compute a statistic with other parties: each keeps its file, all learn the result and nothing else."""


@party.command(name="key")
@click.argument("name", metavar="NAME")
@click.option("--out", default=".", show_default=True, metavar="FOLDER", help="where the two files are written")
@click.option("--force", is_flag=True, help="write over an earlier key: what it signed cannot be run any more")
@common_options
def make_key(name: str, out: str, force: bool, as_json: bool, quiet: bool) -> None:
    """Make a certificate (NAME.crt, for everybody) and its key (NAME.key, for nobody else)."""
    from discretion.parties.agreement import checked_party, fingerprint, make_identity

    certificate, key = make_identity(checked_party(name), Path(out), overwrite=force)
    shown = fingerprint(certificate.read_text(encoding="ascii"))
    if as_json:
        print_json({"certificate": str(certificate), "key": str(key), "fingerprint": shown})
    say(f"wrote {certificate} for the others and {key}, which stays here", quiet)
    say(f"read the fingerprint to the others over the telephone: {shown}", quiet)


@party.command(name="new")
@click.argument("agreement", metavar="AGREEMENT")
@click.option(
    "--party", "parties", metavar="NAME ADDRESS", nargs=2, multiple=True, required=True,
    help="a party and the host:port where it listens; its certificate NAME.crt lies beside the agreement",
)  # fmt: skip
@click.option("--title", default="A joint statistic", show_default=True, help="what it is about")
@click.option("--force", is_flag=True, help="write over an earlier file")
@common_options
def new(
    agreement: str, parties: tuple[tuple[str, str], ...], title: str, force: bool, as_json: bool, quiet: bool
) -> None:
    """Write a first agreement between parties, to be changed and then signed by all."""
    from discretion.data.write import write_text
    from discretion.parties.agreement import Agreement

    path = Path(agreement)
    text = skeleton(path, dict(parties), title)
    made = Agreement.parse(text, path.name)
    write_text(path, text, overwrite=force)
    if as_json:
        print_json({"agreement": agreement, "parties": list(made.names)})
    say(
        f"wrote {agreement}: send it to all; each reads and signs it: discretion party agree {path.name} --as …",
        quiet,
    )


def skeleton(path: Path, parties: dict[str, str], title: str) -> str:
    """Write the text of a first agreement; certificates are taken from beside it."""
    from discretion.errors import DataError

    blocks = []
    for name, address in parties.items():
        certificate = path.with_name(f"{name}.crt")
        if not certificate.is_file():
            raise DataError(f"there is no certificate {certificate}; discretion party key {name}")
        lines = certificate.read_text(encoding="ascii").strip().splitlines()
        body = "\n".join(f"      {line}" for line in lines)
        blocks.append(f'  {name}:\n    address: "{address}"\n    certificate: |\n{body}\n')
    body = TWO if len(parties) == 2 else SEVERAL
    return SKELETON.format(file=path.name, title=title, id=secrets.token_hex(16), parties="".join(blocks), body=body)


@party.command(name="agree")
@click.argument("agreement", metavar="AGREEMENT")
@click.option("--as", "name", metavar="NAME", help="sign as this party; without it the agreement is only shown")
@click.option("--key", metavar="FILE", help="key of the party  [default: NAME.key beside the agreement]")
@click.option("--data", metavar="FILE", help="identifiers to commit to (only for an intersection)")
@click.option("--yes", is_flag=True, help="sign without asking")
@common_options
def agree(
    agreement: str, name: str | None, key: str | None, data: str | None, yes: bool, as_json: bool, quiet: bool
) -> None:
    """Show what will be computed and revealed, and sign it."""
    from discretion.errors import PlanError
    from discretion.parties.agreement import Agreement, sign_agreement
    from discretion.parties.session import RunCount

    path = Path(agreement)
    found = Agreement.load(path)
    described = found.describe()
    if not as_json:
        show(described)
    if name is None:
        if as_json:
            print_json({"agreement": described})
        return
    found.party(name)
    key_file = Path(key) if key else path.with_name(f"{name}.key")
    if others := RunCount(key_file, found).others():
        say(f"this key was used under {others} other agreements; results about the same people can be subtracted")
    if not yes:
        click.confirm(f"sign as {name}?", abort=True, err=True)
    commitment = ""
    if found.statistics[0].kind == "intersection":
        from discretion.parties.intersection import commit

        if data is None:
            raise PlanError("an intersection is signed together with the set: name its file, --data FILE")
        commitment = commit(path, name, found, data)
    elif data is not None:
        raise PlanError("--data is for the identifiers of an intersection only")
    signed = sign_agreement(path, name, key_file, commitment)
    if as_json:
        print_json({"agreement": described, "signed": signed.party})
    say(f"signed as {name}; digest {found.digest[:16]}…", quiet)


def _in_groups(digits: str) -> str:
    """Write digits as they are read over the telephone; a long word would not fit into a narrow terminal."""
    return " ".join(digits[start : start + 8] for start in range(0, len(digits), 8))


def show(described: dict[str, Any]) -> None:
    """Print an agreement for people."""
    people, rules = described["people"], described["rules"]
    rows = [("parties", ", ".join(f"{name} ({address})" for name, address in described["parties"].items()))]
    rows += [(f"fingerprint of {name}", _in_groups(shown)) for name, shown in described["fingerprints"].items()]
    rows += [("everybody will see", text) for text in described["revealed"]]
    rows += [("can disclose", text) for text in described["warnings"]]
    if not described["two"]:
        t, m = described["coalitions"], len(described["parties"])
        rows += [
            ("nobody sees more", f"unless more than {t} of {m} parties put their heads together or change the program"),
            ("people", f"at least {people['each']:,} of each party and {people['total']:,} in all"),
            (
                "rules over parties",
                f"p% rule with p = {rules['p_percent']:g}; the {rules['dominance']['parties']} largest contribute"
                f" {rules['dominance']['percent']:g}% at most",
            ),
        ]
    rows += [
        ("noise", described["noise"]),
        ("computed at most", "once" if described["runs"] == 1 else f"{described['runs']} times"),
    ]
    rows += [("digest", _in_groups(described["digest"]))]
    print_table(described["title"] or "Agreement", ("what", "agreed"), rows)


@party.command(name="run")
@click.argument("agreement", metavar="AGREEMENT")
@click.option("--as", "name", metavar="NAME", required=True, help="which party of the agreement this is")
@click.option(
    "--data", metavar="FILE", help="this party's file: it is read here and not sent (an intersection has its own)"
)
@click.option("--key", metavar="FILE", help="key of the party  [default: NAME.key beside the agreement]")
@common_options
def run_command(agreement: str, name: str, data: str | None, key: str | None, as_json: bool, quiet: bool) -> None:
    """Take part in the computation; all parties run this at the same time."""
    from discretion.parties.session import run_party

    result = run_party(agreement, name, data, key, lambda text: say(f"{name}: {text}", quiet))
    if as_json:
        print_json(result.to_dict())
    else:
        for one in result.statistics:
            print_statistic(one)
    shown = sum(one.values for one in result.opened)
    say(f"{name}: {shown} values were opened ({', '.join(dict.fromkeys(o.label for o in result.opened))})", quiet)
    if result.left:
        say(f"warning: {', '.join(result.left)} left before confirming; it may not have the result")


def print_statistic(found: dict[str, Any]) -> None:
    """Print one statistic as a table."""
    kind = found["kind"]
    if kind in ("mean", "variance") or "coefficients" in found:
        values = found.get("coefficients") or found[kind]
        title = f"{kind} of {found['target']}" if "target" in found else kind
        print_table(title, ("column", "value"), [(name, repr(value)) for name, value in values.items()], (1,))
    elif kind in ("covariance", "correlation"):
        names = found["columns"]
        rows = [(name, *map(repr, row)) for name, row in zip(names, found[kind], strict=True)]
        print_table(kind, ("", *names), rows, tuple(range(1, len(names) + 1)))
    elif kind in ("table", "histogram"):
        rows = [
            (*(f"{part:g}" if isinstance(part, float) else str(part) for part in label), "–" if n is None else f"{n:,}")
            for label, n in zip(found["cells"], found["people"], strict=True)
        ]
        heads = ("from", "to") if kind == "histogram" else tuple(found["by"])
        print_table(kind, (*heads, "people"), rows, (len(heads),))
    else:
        value = found.get("people", found.get(kind))
        label = found.get("column", "people") + (f", {found['share']:g}" if "share" in found else "")
        print_table(kind, ("of", kind), [(label, "too small to tell" if value is None else f"{value:,}")], (1,))


@party.command(name="server")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="where to listen")
@click.option("--port", default=8770, show_default=True, type=click.IntRange(0, 65_535), help="port (0: a free one)")
@click.option("--certificate", metavar="FILE", help="certificate for TLS, in PEM")
@click.option("--certificate-key", metavar="FILE", help="its key")
@common_options
def server(
    host: str, port: int, certificate: str | None, certificate_key: str | None, as_json: bool, quiet: bool
) -> None:
    """Add up encrypted columns of others; this server has no key to read them."""
    import socket

    from discretion.errors import need
    from discretion.parties.encrypted import create_app

    uvicorn = need("uvicorn", "the server", "parties")
    config = uvicorn.Config(
        create_app(), host=host, port=port, ssl_certfile=certificate, ssl_keyfile=certificate_key, log_level="warning",
        access_log=False, server_header=False, ws="none",
    )  # fmt: skip
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family)
    url = f"{'https' if certificate else 'http'}://{host}:{listening.getsockname()[1]}"
    if as_json:
        print_json({"url": url})
    say(f"listening on {url} (Ctrl+C stops)", quiet)
    uvicorn.Server(config).run(sockets=[listening])


@party.command(name="job")
@click.argument("folder", metavar="FOLDER")
@click.option("--server", "url", metavar="URL", required=True, help="the server that adds up")
@click.option(
    "--column", "columns", metavar="NAME LOWER UPPER", nargs=3, type=(str, float, float), multiple=True, required=True,
    help="a column and its bounds",
)  # fmt: skip
@click.option("--step", default=1.0, show_default=True, type=float, help="values are multiples of this (exact totals)")
@click.option("--moments", is_flag=True, help="also variances and regression, near instead of exact (CKKS)")
@click.option(
    "--owner", "owners", metavar="NAME", multiple=True, default=("owner-1", "owner-2", "owner-3"), show_default=True,
    help="an owner of data, who can send one part",
)  # fmt: skip
@click.option(
    "--least-people", default=10, show_default=True, type=click.IntRange(1), help="an owner with fewer sends nothing"
)
@common_options
def job(
    folder: str, url: str, columns: tuple[tuple[str, float, float], ...], step: float, moments: bool,
    owners: tuple[str, ...], least_people: int, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Make keys in FOLDER and open a job on a server; FOLDER/owners/NAME is for that owner of data."""
    from discretion.parties.encrypted import Keys, begin

    declared = {
        name: {"lower": low, "upper": high} | ({} if moments else {"step": step}) for name, low, high in columns
    }
    made = begin(url, Keys.make(folder, declared, "ckks" if moments else "paillier", owners, least_people))
    if as_json:
        print_json({"job": made, "folder": folder, "owners": list(owners)})
    say(
        f"opened the job; give each of {folder}/owners/ to its owner, and keep {folder}/secret and {folder}/holder",
        quiet,
    )


@party.command(name="send")
@click.argument("job_folder", metavar="JOB")
@click.argument("data", metavar="DATA")
@click.option("--server", "url", metavar="URL", required=True, help="the server that adds up")
@common_options
def send(job_folder: str, data: str, url: str, as_json: bool, quiet: bool) -> None:
    """Encrypt the columns of a job and send them, once; JOB is the folder that the holder of the keys made for you."""
    from discretion.parties.encrypted import contribute

    people = contribute(url, job_folder, data)
    if as_json:
        print_json({"people": people})
    say(f"sent the encrypted columns of {people:,} people", quiet)


@party.command(name="open")
@click.argument("folder", metavar="FOLDER")
@click.option("--server", "url", metavar="URL", required=True, help="the server that adds up")
@click.option("--least-parts", default=3, show_default=True, type=click.IntRange(1), help="refuse with fewer owners")
@common_options
def open_totals(folder: str, url: str, least_parts: int, as_json: bool, quiet: bool) -> None:
    """Fetch the encrypted totals of a job, open them with the keys in FOLDER, and close the job for further parts."""
    from discretion.parties.encrypted import collect

    found = collect(url, folder, least_parts)
    if as_json:
        moments = {"covariance": found.covariances.tolist()} if found.products is not None else {}
        print_json({"people": found.people, "sum": found.sums, "mean": found.means, "exact": found.exact, **moments})
    else:
        rows = [(name, repr(total), repr(found.means[name])) for name, total in found.sums.items()]
        print_table(f"{found.people:,} people of {found.parts} owners", ("column", "sum", "mean"), rows, (1, 2))
    if not found.exact:
        say("these figures are near, not exact: do not hand them on; take exact totals for that", quiet)
