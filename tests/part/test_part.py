"""What every part shares: frozen, validated in words, found by kind and by class name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import discretion as dc
from discretion import part
from discretion.errors import PlanError


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test register parts that no other test sees."""
    monkeypatch.setattr(part, "_REGISTERED", dict(part._REGISTERED))


def test_parts_are_frozen_and_comparable() -> None:
    swap = dc.RankSwap(columns="income", percent=10)
    assert swap == dc.RankSwap(columns=["income"], percent=10.0) != dc.RankSwap(columns=["income"], percent=11)
    with pytest.raises(ValueError, match="frozen"):
        swap.percent = 5
    levels = dc.Generalize(levels={"age": 1}).levels
    with pytest.raises(TypeError):
        levels["age"] = 2


def test_every_fault_of_a_part_at_once() -> None:
    with pytest.raises(PlanError) as caught:
        dc.RankSwap(colums=["x"], percent="much", by=3)
    problems = caught.value.problems
    assert len(problems) == 3 and all(problem.startswith("rank-swap: ") for problem in problems)
    assert any("unknown field 'colums'; did you mean 'columns'?" in problem for problem in problems)
    assert any("percent" in problem and "'much'" in problem for problem in problems)
    with pytest.raises(PlanError, match="the field 'percent' is required"):
        dc.RankSwap()


@pytest.mark.parametrize("percent", [0, -1, 100.1, float("nan"), float("inf")])
def test_percent_has_bounds(percent: float) -> None:
    with pytest.raises(PlanError, match="percent"):
        dc.RankSwap(columns=["x"], percent=percent)


def test_settings_leave_out_defaults_and_what_is_confidential() -> None:
    swap = dc.RankSwap(columns=["income"], percent=7.31)
    assert swap.settings() == {"columns": ["income"], "percent": 7.31}
    assert swap.settings(public=True) == {"columns": ["income"]}
    assert swap.to_plan() == {"rank-swap": {"columns": ["income"], "percent": 7.31}}
    assert dc.RankSwap.confidential_fields() == ("percent", "bottom_share", "top_share")


@pytest.mark.parametrize("name", ["Mdaw", "KAnonimity", "RankSwapp"])
def test_a_class_that_does_not_exist_is_suggested(name: str) -> None:
    with pytest.raises(AttributeError, match="did you mean"):
        getattr(dc, name)


def test_names_are_found_and_others_are_not() -> None:
    assert dc.Mdav is part.find("mdav") and "Mdav" in dir(dc) and "Dataset" in dir(dc)
    assert sorted(dc.parts()) == dc.parts() and {"mdav", "k-anonymity", "il1s"} <= set(dc.parts())
    for name in ("mdav", "_secret", "nothing"):
        assert not hasattr(dc, name)
    for name in dc.__all__:
        assert getattr(dc, name) is not None


def test_parse_takes_a_kind_or_one_mapping() -> None:
    assert part.parse("mdav") == part.parse({"mdav": None}) == part.parse({"mdav": {"k": 3}}) == dc.Mdav()
    for spec, words in (
        ({"mdav": {}, "il1s": {}}, "2 keys"),
        (7, "int 7"),
        ({"mdav": [3]}, "mapping of fields"),
        ("mdaw", "did you mean 'mdav'"),
    ):
        with pytest.raises(PlanError, match=words):
            part.parse(spec)
    with pytest.raises(PlanError, match="'mdav' is a method; a model or risk is needed here"):
        part.parse("mdav", "model", "risk")


def test_a_kind_is_registered_once(own_registry: None) -> None:
    class Mine(dc.Method, kind="mine-alone"):
        """A method of this test."""

    assert part.find("mine-alone") is Mine
    with pytest.raises(TypeError, match="'mine-alone' is already registered"):

        class Other(dc.Method, kind="mine-alone"):
            """Another one."""


def test_fields_that_name_a_file_are_marked() -> None:
    paths = {(p.kind, field) for p in part.all_parts() for field in p.path_fields()}
    assert ("pseudonymize", "key_file") in paths and ("sample-uniqueness", "population") in paths


AROUND = '''"""Methods of a stranger."""
from discretion.method import Method


class {name}({bases}):
{body}
'''
DOCUMENTED = '    """Do nothing."""'


@pytest.mark.parametrize(
    ("bases", "body", "summary"),
    [
        ('Method, kind="strange"', DOCUMENTED, "Do nothing."),
        ('Method, kind="strange"', "    pass", ""),
        ("Method, kind='strange'", DOCUMENTED, "Do nothing."),
        ('Method, kind = "strange"', "    # a comment\n" + DOCUMENTED, "Do nothing."),
        ('Method, kind="strange"', '    r"""Do nothing.\n\n    \\alpha\n    """', "Do nothing."),
        ('Method, kind="strange"', '    """\n    Do nothing.\n    """', "Do nothing."),
        ('Method, kind="strange"', "    'Do nothing.'", "Do nothing."),
        ('\n    Method,  # (a base\n    kind="strange",\n', DOCUMENTED, "Do nothing."),
        ('Method, object if (1 + (2 * (3))) < 0 else Base, kind="strange"', DOCUMENTED, "Do nothing."),
    ],
)
def test_a_part_is_found_however_it_is_written(tmp_path: Path, bases: str, body: str, summary: str) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "moves.py").write_text(AROUND.format(name="Strange", bases=bases, body=body), encoding="utf-8")
    (tmp_path / "plain.py").write_text("class Plain(object):\n    kind = 'no part'\n", encoding="utf-8")
    (found,) = part._scan(tmp_path, "stranger", "method")
    assert (found.kind, found.name, found.summary) == ("strange", "Strange", summary)
    assert found.module == "stranger.inner.moves"


@pytest.mark.parametrize("bases", ["Method, kind=KIND", 'Method, kind="Not so"', 'Method, kind=f"strange"'])
def test_a_kind_that_cannot_be_read_is_an_error(tmp_path: Path, bases: str) -> None:
    (tmp_path / "moves.py").write_text(AROUND.format(name="Strange", bases=bases, body=DOCUMENTED), encoding="utf-8")
    with pytest.raises(PlanError, match=r"stranger\.moves, line 5: the class Strange cannot be registered"):
        list(part._scan(tmp_path, "stranger", "method"))
    inside = 'def make():\n    class Strange(Method, kind="strange"):\n        pass\n'
    (tmp_path / "moves.py").write_text(inside, encoding="utf-8")
    with pytest.raises(PlanError, match="cannot be registered"):
        list(part._scan(tmp_path, "stranger", "method"))


def test_every_class_that_names_a_kind_is_in_the_index() -> None:
    root = Path(dc.__file__).parent
    named = set()
    for path in root.rglob("*.py"):
        if path.parent.name == "parties":  # statistics of an agreement have kinds too, and are no parts
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                named |= {(node.name, ast.literal_eval(k.value)) for k in node.keywords if k.arg == "kind"}
    assert named == {(entry.name, entry.kind) for entry in part.index().values() if entry.entry_point is None}
