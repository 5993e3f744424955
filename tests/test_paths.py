"""Wherever a file or a folder is named in Python, a text and a `Path` do the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import discretion as dc
from discretion.online.declare import ServiceSpec, TableSpec
from discretion.online.ledger import open_ledger
from discretion.online.server.access import KeyRing, keys_beside
from discretion.online.server.guard import AuditLog
from discretion.release.journal import SeedFile, read_decisions, read_order
from discretion.release.plan import Output
from discretion.release.table_plan import TablePlan
from discretion.risk.identity.intruder import Intruder
from tests.online.services import NOISE, STUDENTS
from tests.release.survey import ROLES, survey

Named = Callable[[Path], Any]
"""Gives the name of a file as a text, or as a `Path`."""

REGIONS = "coast;land;*\nhills;land;*\nplain;land;*\n"
STEPS = [{"drop-identifiers": {}}, {"generalize": {"levels": {"region": 1}}}]


def _folder(folder: Path) -> Path:
    survey().write_csv(folder / "survey.csv")
    (folder / "regions.csv").write_text(REGIONS)
    (folder / "secret").write_bytes(bytes(range(32)))
    dc.datasets.students().frame.write_csv(folder / "students.csv")
    return folder


def _content(named: Named, folder: Path) -> dict[str, Any]:
    return {
        "data": named(folder / "survey.csv"),
        "roles": ROLES,
        "hierarchies": {"region": named(folder / "regions.csv")},
        "steps": STEPS,
        "requirements": "none",
        "output": {"folder": named(folder / "out"), "journal": named(folder / "private")},
    }


def _rows(data: Any) -> list[Any]:
    return sorted(map(str, dc.Dataset.of(data).frame.rows()))


def _read_and_write(named: Named, folder: Path) -> Any:
    people = survey()
    found = []
    for name in ("a.csv", "a.parquet", "a.xlsx", "a.sav", "a.dta", "a.jsonl", "a.csv.gz"):
        dc.write(people, named(folder / name))
        found.append(_rows(dc.read(named(folder / name))))
    for name in ("a.duckdb", "a.sqlite"):
        dc.write(people, named(folder / name), table="t")
        found.append(_rows(dc.read(named(folder / name), table="t")))
    return found


def _hierarchies(named: Named, folder: Path) -> Any:
    file = named(folder / "regions.csv")
    read = dc.read(named(folder / "survey.csv"), roles=ROLES, hierarchies={"region": file})
    made = dc.Dataset(survey(), roles=ROLES, hierarchies={"region": {"file": file}})
    level = dc.Generalize(levels={"region": 1})
    told = dc.Dataset(survey(), roles=ROLES, hierarchies={"region": dc.Hierarchy.read(file)})
    found = dc.anonymize(told, models=[dc.KAnonymity(k=2)], suppression_limit=0.5)
    return [_rows(level(data)) for data in (read, made, told)], found.levels["region"]


def _plan_file(named: Named, folder: Path) -> Any:
    plan = dc.Plan.from_dict(_content(named, folder))
    plan.save(named(folder / "plan.yaml"))
    loaded = dc.Plan.load(named(folder / "plan.yaml"))
    moved = loaded.with_data(named(folder / "survey.csv"))
    assert moved.to_dict()["data"] == str(folder / "survey.csv")
    return (folder / "plan.yaml").read_text(), _rows(loaded.read()), _rows(loaded.read(named(folder / "survey.csv")))


def _plan_run(named: Named, folder: Path) -> Any:
    plan = dc.Plan.from_dict(_content(named, folder))
    told = plan.run(seed=2**128 + 1)
    data = named(folder / "survey.csv")
    other = plan.run(data, out=named(folder / "o"), journal=named(folder / "j"), seed=2**128 + 1)
    order, decisions = read_order(named(folder / "j/order.npy")), read_decisions(named(folder / "j"))
    return _rows(told.data), _rows(other.data), order.tolist(), sorted(decisions)


def _built_plan(named: Named, folder: Path) -> Any:
    SeedFile.new(named(folder / "seed.json"))
    SeedFile.read(named(folder / "seed.json"))
    plan = dc.Plan.from_dict({"roles": ROLES, "steps": STEPS[:1]})
    built = dc.Plan(
        schema=plan.schema,
        steps=plan.steps,
        data={"path": named(folder / "survey.csv")},
        seed_file=named(folder / "seed.json"),
        output=Output(named(folder / "out"), named(folder / "private")),
        no_requirements=True,
    )
    built.save(folder / "plan.yaml")
    moved = built.with_output(folder=named(folder / "out2"))
    release = moved.run()
    return (folder / "plan.yaml").read_text(), _rows(release.data), len(list((folder / "out2").iterdir()))


def _earlier(named: Named, folder: Path) -> Any:
    dc.Plan.from_dict(_content(named, folder)).run(seed=2**128 + 1)
    place = {"journal": named(folder / "private"), "folder": named(folder / "out")}
    later = {"steps": [{"bottom-code": {"column": "income", "quantile": 0.1}}], "roles": ROLES}
    short = dc.Plan.from_dict({**later, "from": place["journal"]}).run(seed=2**128 + 2)
    whole = dc.Plan.from_dict({**later, "from": place}).run(seed=2**128 + 2)
    again = {**_content(named, folder), "output": {}}
    beside = dc.Plan.from_dict({**again, "previous": [place, place["journal"]]}).run(seed=2**128 + 3)
    study = dc.Study.from_release(named(folder / "private"), seed=2**128 + 4)
    built = dc.Plan(made_from=place, previous=({"journal": named(folder / "private")},))
    return [_rows(one.data) for one in (short, whole, beside)], _rows(study.current), len(built.to_dict())


def _study(named: Named, folder: Path) -> Any:
    study = dc.Study(dc.Dataset(survey(), roles=ROLES), seed=2**128 + 1).apply(dc.DropIdentifiers())
    study.plan().save(named(folder / "study.yaml"))
    study.release(named(folder / "released"), named(folder / "kept"), no_requirements=True)
    return sorted(file.name for name in ("released", "kept") for file in (folder / name).iterdir())


def _parts(named: Named, folder: Path) -> Any:
    people = dc.Dataset(survey(), roles=ROLES)
    file = named(folder / "survey.csv")
    known = {"columns": ["sex", "region"]}
    unique = dc.SampleUniqueness(**known, population=file)
    pseudonyms = dc.Pseudonymize(columns=["person_id"], key_file=named(folder / "secret"))
    linked = dc.DistanceLinkage(columns=["age"], intruder=Intruder(data=file))
    sets = dc.KmGeneralization(columns=["region"], k=2, item_hierarchy=named(folder / "regions.csv"))
    return (
        unique(people).value,
        dc.KMap(k=2, population=file, **known)(people).value,
        _rows(pseudonyms(people)),
        linked(people, people).value,
        _rows(sets(survey().with_columns(pl.concat_list("region")))),
        [part.to_plan() for part in (unique, pseudonyms, sets)],
    )


def _tables(named: Named, folder: Path) -> Any:
    dimension = dc.Dimension.read("region", named(folder / "regions.csv"))
    cells = dc.tabulate(survey(), by=["region", "sex"], hierarchies={"region": named(folder / "regions.csv")})
    for name in ("a.csv", "a.json", "a.xlsx"):
        cells.publish(named(folder / name))
    table = {"by": ["region"], "hierarchies": {"region": named(folder / "regions.csv")}}
    content = {"data": named(folder / "survey.csv"), "table": table}
    found = TablePlan.from_dict(content).run(seed=1)
    (folder / "table.yaml").write_text("data: survey.csv\ntable: {by: [region]}\n")
    loaded = TablePlan.load(named(folder / "table.yaml")).run(seed=1)
    keyed = dc.tables.with_record_keys(survey(), by="person_id", key_file=named(folder / "secret"))
    return len(dimension), len(cells), len(found.cells), len(loaded.cells), _rows(keyed)


def _formats(named: Named, folder: Path) -> Any:
    from discretion.tables import formats

    cells = dc.tabulate(survey(), by=["region", "sex"], value="income")
    formats.write_jj(cells, named(folder / "a.jj"))
    formats.write_argus_table(cells, named(folder / "a.csv"))
    read = formats.read_argus_table(named(folder / "a.rda")) if (folder / "a.rda").is_file() else None
    return len(formats.read_jj(named(folder / "a.jj")).value), None if read is None else len(read)


def _tune(named: Named, folder: Path) -> Any:
    people = dc.Dataset(survey(), roles=ROLES)
    method = dc.Vary(dc.RankSwap, columns=["income"], percent=dc.Grid([5, 20]))
    options = {"risk": dc.IntervalRisk(columns=["income"]), "utility": dc.VariableChange(columns=["income"])}
    dc.tune(people, [method], **options, max_risk=0.9, cache=named(folder / "cache"), seed=1)
    return (folder / "cache").exists()


def _service(named: Named, folder: Path) -> Any:
    content = {
        "tables": {"students": {"source": named(folder / "students.csv"), "columns": STUDENTS}},
        "users": {"ann": {}},
        "policy": NOISE,
        "ledger": named(folder / "ledger.db"),
        "secret_file": named(folder / "secret.bin"),
        "server": {"log": named(folder / "audit.jsonl")},
    }
    spec = ServiceSpec.model_validate(content)
    with dc.StatisticalDatabase(spec) as base:
        people = [base.people("students")]
    (folder / "service.yaml").write_text(
        "tables: {students: {source: students.csv, columns: {sex: {role: public, type: category}}}}\n"
        "users: {ann: {}}\nledger: sqlite:///other.db\n"
    )
    for source, options in (
        (named(folder / "service.yaml"), {"ledger": named(folder / "third.db")}),
        (ServiceSpec.load(named(folder / "service.yaml")), {}),
        (named(folder / "students.csv"), {"columns": STUDENTS, "table": "students", "ledger": named(folder / "4.db")}),
    ):
        with dc.StatisticalDatabase(source, **options) as base:
            people.append(base.people("students"))
    with open_ledger(named(folder / "4.db"), create=False) as ledger:
        holds = ledger.verify().holds
    table = TableSpec(name="t", source=named(folder / "students.csv"), columns=STUDENTS)
    ring = KeyRing(path=named(folder / "keys.json"))
    key = ring.add("ann", ["ann"])
    AuditLog(named(folder / "log.jsonl")).close()
    assert Path(str(table.source)) == folder / "students.csv"
    beside = keys_beside(named(folder / "service.yaml")).name
    return people, holds, ring.user_of(key), beside, sorted(file.name for file in folder.glob("*.db"))


def _client(named: Named, folder: Path) -> Any:
    with pytest.raises(dc.DiscretionError) as caught:
        dc.connect("https://127.0.0.1:1", "dk_key", verify=named(folder / "students.csv")).tables()
    return str(caught.value).replace(str(folder), "")


USES: dict[str, Callable[[Named, Path], Any]] = {
    function.__name__[1:]: function
    for function in (
        _read_and_write, _hierarchies, _plan_file, _plan_run, _built_plan, _earlier, _study, _parts, _tables, _formats,
        _tune, _service, _client,
    )
}  # fmt: skip


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_path_does_what_a_text_does(use: Callable[[Named, Path], Any], tmp_path: Path) -> None:
    found = []
    for number, named in enumerate((str, Path)):
        folder = tmp_path / str(number)
        folder.mkdir()
        found.append(use(named, _folder(folder)))
    assert repr(found[0]).replace(str(tmp_path / "0"), "") == repr(found[1]).replace(str(tmp_path / "1"), "")
