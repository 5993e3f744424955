"""Rules against their definitions, with coalitions, waivers, weights, negative values and decisions of people."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc

VALUES = st.lists(st.integers(0, 40), min_size=1, max_size=7)


def one_cell(values: list[float], *, top: int = 6, **options: object) -> dc.Cells:
    """Give a table with one category, so that cell 0 and cell 1 are the same respondents."""
    frame = pl.DataFrame({"a": ["x"] * len(values), "who": list(range(len(values))), "n": [float(v) for v in values]})
    return dc.tabulate(frame, ["a"], "n", contributor="who", top=top, **options)  # type: ignore[arg-type]


def estimates(values: list[float], coalition: int, waived: set[int]) -> list[tuple[float, float]]:
    """Give for every victim and every coalition what it does not know of the cell, and what the victim contributes."""
    margins: list[tuple[float, float]] = []
    for victim in range(len(values)):
        if victim in waived or values[victim] == 0:
            continue
        others = [i for i in range(len(values)) if i != victim]
        for team in combinations(others, min(coalition, len(others))):
            rest = sum(values[i] for i in others if i not in team)
            margins.append((rest, values[victim]))
    return margins


@settings(deadline=None, max_examples=150)
@given(VALUES, st.sampled_from([5, 10, 25, 50]), st.integers(1, 3), st.sets(st.integers(0, 6), max_size=3))
def test_p_percent_is_what_the_best_coalition_can_do(values: list[float], p: int, c: int, waived: set[int]) -> None:
    waived = {i for i in waived if i < len(values)}
    cells = one_cell(values, waivers=sorted(waived))
    margins = estimates(values, c, waived)
    want = any(rest < p / 100 * x - 1e-9 for rest, x in margins)
    found = cells.apply_rules([dc.PPercent(percent=p, coalition=c)])
    assert found.primary.tolist() == [want, want]
    need = max((p / 100 * x - rest for rest, x in margins), default=0.0)
    assert found.upper_required == pytest.approx(max(need, 0.0) if want else 0.0)
    assert found.lower_required == pytest.approx(found.upper_required)


@settings(deadline=None, max_examples=100)
@given(VALUES, st.integers(1, 3), st.sampled_from([50, 70, 75, 100]), st.sampled_from(["sensitive", "safe"]))
def test_dominance_follows_its_definition(values: list[float], n: int, k: int, boundary: str) -> None:
    largest, total = sum(sorted(values)[::-1][:n]), sum(values)
    reached = 100 * largest >= k * total if boundary == "sensitive" else 100 * largest > k * total
    found = one_cell(values).apply_rules([dc.Dominance(n=n, percent=k, boundary=boundary)])
    want = reached and total > 0
    assert found.primary.tolist() == [want, want]
    assert found.upper_required[0] == pytest.approx(100 / k * largest - total if want else 0.0)


@settings(deadline=None, max_examples=100)
@given(VALUES, st.sampled_from([5, 10, 30]), st.sampled_from([40, 50, 100]))
def test_pq_follows_its_definition(values: list[float], p: int, q: int) -> None:
    ordered = sorted(values)[::-1]
    rest = sum(ordered[2:])
    found = one_cell(values).apply_rules([dc.PQ(p_percent=p, q_percent=q)])
    want = q * rest < p * ordered[0]
    assert found.primary.tolist() == [want, want]
    assert found.upper_required[0] == pytest.approx(p / q * ordered[0] - rest if want else 0.0)
    if q == 100:
        assert found.primary.tolist() == dc.PPercent(percent=p)(one_cell(values)).tolist()


def test_decimal_sums_do_not_tip_the_boundary() -> None:
    # 0.3 of 3.0 is exactly 10 percent, although 0.1 + 0.2 is not exactly 0.3
    assert not dc.PPercent(percent=10)(one_cell([3.0, 2.9, 0.1, 0.2])).any()
    assert dc.Dominance(n=1, percent=10)(one_cell([0.3] + [0.1] * 27)).all()
    assert not dc.Dominance(n=1, percent=10, boundary="safe")(one_cell([0.3] + [0.1] * 27)).any()


def test_threshold_counts_respondents_without_weights() -> None:
    frame = pl.DataFrame({"a": list("xxxyyz"), "who": [1, 1, 2, 3, 4, 5], "w": [9.0] * 6, "n": [1.0] * 6})
    cells = dc.tabulate(frame, ["a"], weight="w", contributor="who")
    assert cells.value.tolist() == [54, 27, 18, 9] and cells.count.tolist() == [5, 2, 2, 1]
    assert dc.Threshold(minimum=3)(cells).tolist() == [False, True, True, True]
    assert dc.Threshold(minimum=2)(cells).tolist() == [False, False, False, True]
    found = cells.apply_rules([dc.Threshold(minimum=3, range_percent=50)])
    assert found.upper_required.tolist() == [0, 13.5, 9, 4.5] == found.lower_required.tolist()


def test_small_counts_need_a_whole_number_of_protection() -> None:
    cells = dc.tabulate(pl.DataFrame({"a": list("xxxy")}), ["a"]).apply_rules([dc.Threshold(minimum=2)])
    assert cells.upper_required.tolist() == [0, 0, 1] == cells.lower_required.tolist()


def test_waived_respondents_are_not_protected_by_the_threshold() -> None:
    assert not dc.Threshold(minimum=3)(one_cell([4, 5], waivers=[0, 1])).any()
    assert dc.Threshold(minimum=3)(one_cell([4, 5], waivers=[0])).all()
    assert not dc.Dominance(n=1, percent=60)(one_cell([9, 1], waivers=[0])).any()
    assert dc.Dominance(n=2, percent=60)(one_cell([9, 1], waivers=[0])).all()


def test_zeros() -> None:
    frame = pl.DataFrame({"a": ["x", "y", "y", "y"], "b": ["p", "q", "q", "q"]})
    full = dc.tabulate(frame, ["a", "b"], empty="keep")
    assert dc.Threshold(minimum=2)(full).sum() == 3
    found = full.apply_rules([dc.Threshold(minimum=2, zeros="sensitive")])
    assert found.primary.sum() == 5
    empty = found.count == 0
    assert found.upper_required[empty].tolist() == [1, 1] and found.lower_required[empty].tolist() == [0, 0]
    with pytest.raises(dc.PlanError, match="empty='keep'"):
        dc.Threshold(minimum=2, zeros="sensitive")(dc.tabulate(frame, ["a", "b"]))


def test_negative_contributions_are_explicit() -> None:
    cells = one_cell([-50, 30, 2, 1])
    for rule in (dc.PPercent(percent=10), dc.PQ(), dc.Dominance()):
        with pytest.raises(dc.DataError, match="2 cells of 'n' have negative contributions"):
            rule(cells)
    assert dc.PPercent(percent=10, negatives="absolute")(cells).all()
    assert not dc.PPercent(percent=5, negatives="absolute")(cells).any()


def test_weights_multiply_contributions() -> None:
    frame = pl.DataFrame({"a": ["x"] * 3, "n": [10.0, 30.0, 1.0], "w": [10.0, 1.0, 1.0]})
    cells = dc.tabulate(frame, ["a"], "n", weight="w")
    assert cells.top[1].tolist() == [100, 30, 1] and cells.value[1] == 131


def test_too_few_contributions_kept() -> None:
    with pytest.raises(dc.PlanError, match="top=4"):
        one_cell([1, 2, 3], top=2).apply_rules([dc.PPercent(coalition=3)])
    with pytest.raises(dc.PlanError, match="top=3"):
        dc.Dominance(n=3)(one_cell([1, 2, 3], top=2))


def test_several_rules_and_their_reasons() -> None:
    frame = pl.DataFrame({"a": list("xxyyyy"), "n": [5.0, 5.0, 90.0, 5.0, 1.0, 1.0]})
    cells = dc.tabulate(frame, ["a"], "n").apply_rules(
        [dc.Threshold(minimum=3), {"dominance": {"n": 1, "percent": 80}}]
    )
    assert cells.frame(internal=True)["reason"].to_list() == ["dominance", "threshold", "dominance"]
    assert cells.status.reasons == ("threshold", "dominance")
    one, two = (cells.apply_rules([rule]) for rule in (dc.Threshold(minimum=3), dc.Dominance(n=1, percent=80)))
    assert cells.upper_required.tolist() == np.maximum(one.upper_required, two.upper_required).tolist()
    with pytest.raises(dc.PlanError, match="a rule is needed here"):
        cells.apply_rules([{"k-anonymity": {"k": 3}}])


def test_all_responses_together() -> None:
    frame = pl.DataFrame({"a": list("xxxyyy"), "n": [9.0, 9, 9, 9, 9, 9], "m": [9.0, 9, 9, 90, 1, 0]})
    cells = dc.tabulate(frame, ["a"], ["n", "m"])
    rule = dc.PPercent(percent=20)
    assert cells.apply_rules([rule]).primary.tolist() == [False, False, False]
    assert cells.of_response("m").apply_rules([rule]).primary.tolist() == [False, False, True]
    assert cells.apply_rules([rule], responses="all").primary.tolist() == [False, False, True]


def test_special_rule_and_bad_detail() -> None:
    frame = pl.DataFrame({"r": list("abcd") * 3, "s": list("xy") * 6})
    cells = dc.tabulate(frame, ["r", "s"], hierarchies={"r": {"Total": {"N": ["a", "b"], "S": ["c", "d"]}}})
    found = dc.SpecialRule(detail={"r": 2, "s": 1})(cells)
    assert {cells.label(i)["r"] for i in found.nonzero()[0]} == set("abcd") and found.sum() == 4
    with pytest.raises(dc.PlanError, match="unknown variable"):
        dc.SpecialRule(detail={"q": 1})(cells)
    with pytest.raises(dc.PlanError, match="has 2 levels"):
        dc.SpecialRule(detail={"r": 3})(cells)
    with pytest.raises(dc.PlanError, match="at least one variable"):
        dc.SpecialRule(detail={})


def test_request_rule_needs_requests() -> None:
    with pytest.raises(dc.DataError, match="`requests`"):
        dc.RequestRule()(one_cell([1, 2]))


def test_group_disclosure_looks_at_groups_that_could_be_split() -> None:
    frame = pl.DataFrame({"town": list("AAABBB"), "ill": ["y", "n", "n", "y", "y", "y"], "one": ["z"] * 6})
    cells = dc.tabulate(frame, ["town", "ill", "one"])
    found = dc.GroupDisclosure()(cells)
    assert all(cells.label(i)["town"] == "B" or cells.label(i)["ill"] == "n" for i in found.nonzero()[0])
    assert found[cells.index({"town": "B", "ill": "y"})]
    assert not found[cells.index({"town": "A", "ill": "y"})] and not found[cells.index({"one": "z"})]


def test_students_of_the_textbook() -> None:
    """Nine students by major and sex: the one woman in electrical engineering is 240,000 less 190,000."""
    cells = dc.tabulate(dc.datasets.students(), ["major", "sex"], "income")
    ee, women = {"major": "EE"}, {"sex": "female"}
    assert [cells.value[cells.index(c)] for c in (ee, {**ee, "sex": "male"}, {**ee, **women})] == [240e3, 190e3, 50e3]

    def sensitive(rule: object) -> list[dict[str, str]]:
        return [cells.label(i) for i in rule(cells).nonzero()[0]]  # type: ignore[operator]

    few = [{"major": "CS", "sex": "female"}, {"major": "EE", "sex": "female"}]
    assert sensitive(dc.Threshold(minimum=3)) == sensitive(dc.PPercent(percent=10)) == few
    assert sensitive(dc.Dominance(n=2, percent=70)) == [{"major": "Total", "sex": "female"}, *few]


def test_decisions_of_people() -> None:
    frame = pl.DataFrame({"a": list("xxxyyz"), "b": list("pqppqq")})
    cells = dc.tabulate(frame, ["a", "b"]).apply_rules([dc.Threshold(minimum=2)])
    z = cells.where({"a": "z"})
    freed = cells.mark({"a": "z"}, "safe")
    assert cells.primary[z].all() and not freed.primary[z].any() and not freed.upper_required[z].any()
    assert not freed.apply_rules([dc.Threshold(minimum=2)]).primary[z].any()
    assert freed.mark(z, "plain").apply_rules([dc.Threshold(minimum=2)]).primary[z].all()
    top = cells.mark({"a": "Total", "b": "Total"}, "unsafe")
    again = top.apply_rules([dc.Threshold(minimum=2)])
    assert again.primary[0] and again.status.reasons == ("threshold", "manual")
    assert not again.mark([0], "plain").primary[0]
    both = cells.mark(z, "unsafe").mark(z, "plain")
    assert both.primary[z].all() and both.status.reason.tolist() == cells.status.reason.tolist()
    assert cells.mark(0, "must-publish").status.must_publish.tolist() == [True] + [False] * (len(cells) - 1)
    with pytest.raises(dc.PlanError, match="sensitive and must be published"):
        cells.mark({"a": "z"}, "must-publish")
    with pytest.raises(dc.PlanError, match="unknown mark"):
        cells.mark(0, "hidden")  # type: ignore[arg-type]
    with pytest.raises(dc.PlanError, match="no cell"):
        cells.mark([{"a": "z", "b": "p"}], "safe")
    with pytest.raises(dc.PlanError, match="cell numbers"):
        cells.mark([99], "safe")
    assert cells.mark({"a": "x"}, "preferred").status.preferred.sum() == cells.where({"a": "x"}).sum()


def test_status_is_checked() -> None:
    cells = dc.tabulate(pl.DataFrame({"a": list("xxy")}), ["a"])
    assert cells.with_status(cost=[1, 2, 3]).status.cost.tolist() == [1, 2, 3]  # type: ignore[union-attr]
    assert cells.with_released([3, 2, 1]).frame()["count"].to_list() == [3, 2, 1]
    for change, message in (
        ({"secondary": [True]}, "expected 3 entries"),
        ({"secondry": [True] * 3}, "did you mean"),
        ({"upper_required": [-1, 0, 0]}, "negative"),
        ({"secondary": [True] * 3, "must_publish": [True] * 3}, "suppressed and must be published"),
    ):
        with pytest.raises(dc.PlanError, match=message):
            cells.with_status(**change)
    with pytest.raises(ValueError, match="read-only"):
        cells.value[0] = 7


def test_public_frame_hides_values_and_reasons() -> None:
    frame = pl.DataFrame({"a": list("xxxy"), "n": [1.0, 2.0, 3.0, 9731.0]})
    cells = dc.tabulate(frame, ["a"], "n").apply_rules([dc.Threshold(minimum=2)])
    shown = cells.frame()
    assert shown.columns == ["a", "n", "suppressed"]
    assert shown["n"].to_list() == [9737.0, 6.0, None]
    assert cells.frame(internal=True)["true_value"].to_list() == [9737.0, 6.0, 9731.0]


def test_one_rule_may_stand_without_a_list() -> None:
    frame = pl.DataFrame({"row": ["a", "a", "b", "b"], "col": ["x", "y", "x", "y"], "n": [1, 5, 7, 9]})
    cells = dc.tables.from_cells(frame, ["row", "col"], count="n")
    listed = cells.apply_rules([dc.Threshold(minimum=3)])
    for rule in (dc.Threshold(minimum=3), {"threshold": {"minimum": 3}}):
        one = cells.apply_rules(rule)
        assert np.array_equal(one.status.reason, listed.status.reason) and one.status.reason.any()


def test_too_many_rules() -> None:
    cells = dc.tabulate(pl.DataFrame({"a": list("xxy")}), ["a"])
    assert cells.apply_rules([dc.Threshold(minimum=2)] * 31).mark({"a": "x"}, "unsafe").primary.sum() == 2
    with pytest.raises(dc.PlanError, match="at most 31"):
        cells.apply_rules([dc.Threshold(minimum=2)] * 33)
