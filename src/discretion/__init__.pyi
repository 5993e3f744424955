"""Made by `make stubs` from the registry of parts; do not edit."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from discretion import datasets as datasets
from discretion import errors as errors
from discretion import online as online
from discretion import tables as tables
from discretion.anonymize.solutions import (
    anonymize as anonymize,
)
from discretion.context import (
    Context as Context,
)
from discretion.data.dataset import (
    Dataset as Dataset,
)
from discretion.data.detect import (
    propose as propose_roles,
)
from discretion.data.hierarchy import (
    Hierarchy as Hierarchy,
)
from discretion.data.read import (
    read as read,
)
from discretion.data.schema import (
    Schema as Schema,
)
from discretion.data.write import (
    write as write,
)
from discretion.errors import (
    BudgetExhausted as BudgetExhausted,
    Cancelled as Cancelled,
    DataError as DataError,
    DiscretionError as DiscretionError,
    Infeasible as Infeasible,
    PlanError as PlanError,
    QueryRefused as QueryRefused,
    RequirementNotMet as RequirementNotMet,
)
from discretion.measure import (
    Measure as Measure,
    Score as Score,
)
from discretion.method import (
    Decision as Decision,
    Method as Method,
    StratifiedMethod as StratifiedMethod,
)
from discretion.model import (
    PrivacyModel as PrivacyModel,
    Verdict as Verdict,
)
from discretion.online.client import (
    connect as connect,
)
from discretion.online.ledger import (
    Ledger as Ledger,
)
from discretion.online.statistical_database import (
    StatisticalDatabase as StatisticalDatabase,
)
from discretion.part import (
    Part,
    confidential as confidential,
)
from discretion.privacy.differential_privacy import (
    DifferentialPrivacy as DifferentialPrivacy,
)
from discretion.release.assess import (
    assess as assess,
)
from discretion.release.compare import (
    compare as compare,
)
from discretion.release.plan import (
    Plan as Plan,
)
from discretion.release.release import (
    Release as Release,
)
from discretion.release.study import (
    Study as Study,
)
from discretion.release.tune import (
    tune as tune,
)
from discretion.release.tune_space import (
    Grid as Grid,
    Range as Range,
    Vary as Vary,
)
from discretion.risk.identity.intruder import (
    Intruder as Intruder,
)
from discretion.tables.cells import (
    Cells as Cells,
)
from discretion.tables.dimensions import (
    Dimension as Dimension,
)
from discretion.tables.tabulate import (
    tabulate as tabulate,
)

__version__: str

def parts() -> list[str]: ...

class AdditiveNoise(Method):
    """Add independent random noise of mean zero to each value."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    integers: bool
    keep_zeros: bool
    keep_sign: bool
    lower: Any | None
    upper: Any | None
    variance_share: float | None
    sd_share: float | None
    distribution: Literal['normal', 'laplace']
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        integers: bool = False,
        keep_zeros: bool = False,
        keep_sign: bool = False,
        lower: Any | None = None,
        upper: Any | None = None,
        variance_share: float | None = None,
        sd_share: float | None = None,
        distribution: Literal['normal', 'laplace'] = 'normal',
    ) -> None: ...

class AlphaK(PrivacyModel):
    """Every class has at least k records, and no sensitive value makes up more than a share α of it."""

    columns: tuple[str, ...]
    missing: Literal['category', 'ignore']
    sensitive: tuple[str, ...]
    k: int
    alpha: float
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        sensitive: Sequence[str] = (),
        k: int,
        alpha: float,
    ) -> None: ...

class AssignmentLinkage(Measure):
    """Share of people an intruder finds who links all records at once, each to another published record."""

    columns: tuple[str, ...]
    distance: Literal['euclidean', 'gower', 'mahalanobis', 'robust-mahalanobis'] | None
    missing: Literal['average', 'match', 'exclude']
    intruder: Any
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        distance: Literal['euclidean', 'gower', 'mahalanobis', 'robust-mahalanobis'] | None = None,
        missing: Literal['average', 'match', 'exclude'] = 'average',
        intruder: Any = ...,
    ) -> None: ...

class AtHouseholdLevel(Method):
    """Apply a method to households as wholes, so that all members get the same change."""

    method: Any
    household: str
    def __init__(
        self,
        *,
        method: Any,
        household: str = '',
    ) -> None: ...

class AttackerRisk(Measure):
    """Probability that an intruder who knows the quasi-identifiers picks the right person."""

    columns: tuple[str, ...]
    attacker: Literal['prosecutor', 'journalist', 'marketer']
    threshold: float
    population: Any | None
    frequency: str
    missing: Literal['category', 'wildcard', 'ignore']
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        attacker: Literal['prosecutor', 'journalist', 'marketer'] = 'prosecutor',
        threshold: float = 0.2,
        population: Any | None = None,
        frequency: str = '',
        missing: Literal['category', 'wildcard', 'ignore'] = 'category',
    ) -> None: ...

class AverageClassSize(Measure):
    """Mean number of records per class, divided by k: 1 is the best a k-anonymous release can do."""

    k: int
    columns: tuple[str, ...]
    def __init__(
        self,
        *,
        k: int,
        columns: Sequence[str] = (),
    ) -> None: ...

class AverageDivergence(Measure):
    """Mean of (x + x')/2 over all values, as defined in the source text."""

    columns: tuple[str, ...]
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

class AverageRisk(PrivacyModel):
    """On average over the records, the probability of picking the right one in its class is small."""

    columns: tuple[str, ...]
    missing: Literal['category', 'ignore']
    risk: float
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        risk: float,
    ) -> None: ...

class BetaLikeness(PrivacyModel):
    """No sensitive value is much more frequent in a class than in the whole table, relative to its frequency there."""

    columns: tuple[str, ...]
    missing: Literal['category', 'ignore']
    sensitive: tuple[str, ...]
    beta: float
    enhanced: bool
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        sensitive: Sequence[str] = (),
        beta: float,
        enhanced: bool = True,
    ) -> None: ...

class BlankAndImpute(Method):
    """Replace values of some households in small blocks by those of similar households elsewhere."""

    columns: tuple[str, ...]
    small_block: int
    geography: tuple[str, ...]
    match_on: tuple[str, ...]
    per_block: int
    column_share: float
    household: str
    def __init__(
        self,
        *,
        columns: Sequence[str],
        small_block: int,
        geography: Sequence[str] = (),
        match_on: Sequence[str] = (),
        per_block: int = 1,
        column_share: float = 1.0,
        household: str = '',
    ) -> None: ...

class BlockRankSwap(Method):
    """Shuffle the values inside consecutive blocks of ranks."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    percent: float
    bottom_share: float
    top_share: float
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        percent: float,
        bottom_share: float = 0.0,
        top_share: float = 0.0,
    ) -> None: ...

class BottomCode(Method):
    """Replace all values below a bound by one value."""

    by: tuple[str, ...]
    column: str
    at: Any | None
    quantile: float | None
    replace: Literal['cut', 'flag', 'mean']
    label: str | None
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        column: str,
        at: Any | None = None,
        quantile: float | None = None,
        replace: Literal['cut', 'flag', 'mean'] = 'cut',
        label: str | None = None,
    ) -> None: ...

class ChangedShare(Measure):
    """Share of the cells whose value is not the original one, suppressed cells among them."""

    columns: tuple[str, ...]
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

class ClassificationUtility(Measure):
    """Share of people that a classifier trained on the release classifies right."""

    target: str
    features: tuple[str, ...]
    model: Any
    folds: int
    def __init__(
        self,
        *,
        target: str = '',
        features: Sequence[str] = (),
        model: Any = ...,
        folds: int = 5,
    ) -> None: ...

class ClosestRecord(Measure):
    """Share of released records that are closer to a record of the data than to one of a control group."""

    holdout: Any | None
    confidence: float
    columns: tuple[str, ...]
    def __init__(
        self,
        *,
        holdout: Any | None = None,
        confidence: float = 0.95,
        columns: Sequence[str] = (),
    ) -> None: ...

class ClusteringUtility(Measure):
    """Agreement of the groups found in the release with the groups found in the original."""

    features: tuple[str, ...]
    clusters: int
    model: Any
    def __init__(
        self,
        *,
        features: Sequence[str] = (),
        clusters: int = 3,
        model: Any = ...,
    ) -> None: ...

class ConfidentialityEdit(Method):
    """Let a sample of households exchange places with similar households elsewhere."""

    geography: tuple[str, ...]
    match_on: tuple[str, ...]
    share: float
    small_block_share: float | None
    small_block: int | None
    household: str
    def __init__(
        self,
        *,
        geography: Sequence[str] = (),
        match_on: Sequence[str] = (),
        share: float,
        small_block_share: float | None = None,
        small_block: int | None = None,
        household: str = '',
    ) -> None: ...

class Contingency(Measure):
    """Mean difference between the tables of counts of the original and of the release."""

    columns: tuple[str, ...]
    ways: int
    difference: Literal['absolute', 'relative', 'root']
    bins: int
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        ways: int = 2,
        difference: Literal['absolute', 'relative', 'root'] = 'absolute',
        bins: int = 5,
    ) -> None: ...

class CorrelatedNoise(Method):
    """Add noise whose correlations are those of the data."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    integers: bool
    keep_zeros: bool
    keep_sign: bool
    lower: Any | None
    upper: Any | None
    variance_share: float
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        integers: bool = False,
        keep_zeros: bool = False,
        keep_sign: bool = False,
        lower: Any | None = None,
        upper: Any | None = None,
        variance_share: float,
    ) -> None: ...

class CorrelationChange(Measure):
    """Distance between the diagonals of the inverse correlation matrices, between 0 and 1."""

    columns: tuple[str, ...]
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

class DeltaDisclosure(PrivacyModel):
    """No sensitive value is much more or much less frequent in a class than in the whole table."""

    columns: tuple[str, ...]
    missing: Literal['category', 'ignore']
    sensitive: tuple[str, ...]
    delta: float
    absent: Literal['fail', 'ignore']
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        sensitive: Sequence[str] = (),
        delta: float,
        absent: Literal['fail', 'ignore'] = 'fail',
    ) -> None: ...

class DeltaPresence(PrivacyModel):
    """Of the people of the population that fit a class, a share between two bounds is in the data."""

    columns: tuple[str, ...]
    missing: Literal['category', 'ignore']
    delta_min: float
    delta_max: float
    population: Any
    frequency: str
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        delta_min: float = 0.0,
        delta_max: float,
        population: Any,
        frequency: str = '',
    ) -> None: ...

class DetailLimits(PrivacyModel):
    """The release has few enough columns, large enough categories, and coarse enough geography."""

    max_columns: int | None
    min_category_size: int | None
    max_areas: int | None
    min_area_population: float | None
    columns: tuple[str, ...]
    geography: tuple[str, ...]
    weight: str | None
    missing: Literal['category', 'wildcard', 'ignore']
    def __init__(
        self,
        *,
        max_columns: int | None = None,
        min_category_size: int | None = None,
        max_areas: int | None = None,
        min_area_population: float | None = None,
        columns: Sequence[str] = (),
        geography: Sequence[str] = (),
        weight: str | None = None,
        missing: Literal['category', 'wildcard', 'ignore'] = 'category',
    ) -> None: ...

class Discernibility(Measure):
    """Sum over all records of the number of records each cannot be told from."""

    columns: tuple[str, ...]
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

class Disco(Measure):
    """Share of the people whose secret the release states with certainty, and rightly (DiSCO)."""

    holdout: Any | None
    confidence: float
    columns: tuple[str, ...]
    targets: tuple[str, ...]
    def __init__(
        self,
        *,
        holdout: Any | None = None,
        confidence: float = 0.95,
        columns: Sequence[str] = (),
        targets: Sequence[str] = (),
    ) -> None: ...

class DistanceLinkage(Measure):
    """Share of people an intruder finds by looking for the nearest published record."""

    columns: tuple[str, ...]
    distance: Literal['euclidean', 'gower', 'mahalanobis', 'robust-mahalanobis'] | None
    standardize: bool
    missing: Literal['average', 'match', 'exclude']
    intruder: Any
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        distance: Literal['euclidean', 'gower', 'mahalanobis', 'robust-mahalanobis'] | None = None,
        standardize: bool = True,
        missing: Literal['average', 'match', 'exclude'] = 'average',
        intruder: Any = ...,
    ) -> None: ...

class DistinctLDiversity(PrivacyModel):
    """Every class of records that look the same holds at least l different values of each sensitive column."""

    columns: tuple[str, ...]
    missing: Literal['category', 'ignore']
    sensitive: tuple[str, ...]
    l: int
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        sensitive: Sequence[str] = (),
        l: int,
    ) -> None: ...

class Dominance(Part):
    """Cells of which the n largest contributions make k percent or more are sensitive."""

    negatives: Literal['refuse', 'absolute']
    n: int
    percent: float
    boundary: Literal['sensitive', 'safe']
    def __init__(
        self,
        *,
        negatives: Literal['refuse', 'absolute'] = 'refuse',
        n: int = 2,
        percent: float = 70,
        boundary: Literal['sensitive', 'safe'] = 'sensitive',
    ) -> None: ...

class DropIdentifiers(Method):
    """Remove the columns that name people directly."""

    columns: tuple[str, ...]
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

class EigenDifference(Measure):
    """Mean relative difference of the eigenvalues of the correlation matrices."""

    columns: tuple[str, ...]
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

class Elimination(Part):
    """Suppress complementary cells until no sensitive cell can be computed exactly."""

    cost: Literal['value', 'frequency', 'unit']
    singletons: bool
    coalition: int
    def __init__(
        self,
        *,
        cost: Literal['value', 'frequency', 'unit'] = 'value',
        singletons: bool = True,
        coalition: int = 1,
    ) -> None: ...

class EntropyLDiversity(PrivacyModel):
    """The sensitive values of every class are as mixed as l equally frequent values would be."""

    columns: tuple[str, ...]
    missing: Literal['category', 'ignore']
    sensitive: tuple[str, ...]
    l: float
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        sensitive: Sequence[str] = (),
        l: float,
    ) -> None: ...

class Generalize(Method):
    """Replace each value by a broader one, by the column's hierarchy."""

    levels: Mapping[str, int]
    def __init__(
        self,
        *,
        levels: Mapping[str, int],
    ) -> None: ...

class GroupAttack(Measure):
    """Share of people whose sensitive value is learnt from the group they are known to be in."""

    columns: tuple[str, ...]
    sensitive: tuple[str, ...]
    coalition: int
    published: Literal['values', 'total']
    percent: float
    share: float
    lower: float | None
    upper: float | None
    weight: str | None
    missing: Literal['category', 'ignore']
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        sensitive: Sequence[str] = (),
        coalition: int = 0,
        published: Literal['values', 'total'] = 'values',
        percent: float = 0.0,
        share: float = 1.0,
        lower: float | None = 0.0,
        upper: float | None = None,
        weight: str | None = None,
        missing: Literal['category', 'ignore'] = 'category',
    ) -> None: ...

class GroupCategories(Method):
    """Put categories together under one label."""

    column: str
    groups: Any | None
    smaller_than: int | None
    label: str
    def __init__(
        self,
        *,
        column: str,
        groups: Any | None = None,
        smaller_than: int | None = None,
        label: str = 'other',
    ) -> None: ...

class GroupDisclosure(Part):
    """Cells that hold everybody of a group are sensitive: who is in the group is known to be in the cell."""

    columns: Any | None
    def __init__(
        self,
        *,
        columns: Any | None = None,
    ) -> None: ...

class Height(Measure):
    """Sum of the generalization levels of all columns."""

    columns: tuple[str, ...]
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

class HouseholdRisk(Measure):
    """Probability that at least one member of each record's household is found."""

    columns: tuple[str, ...]
    weight: str
    share: float | None
    missing: Literal['category', 'wildcard', 'ignore']
    alpha: float
    estimator: Literal['exact', 'approximate']
    approximate: bool
    household: str
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        weight: str = '',
        share: float | None = None,
        missing: Literal['category', 'wildcard', 'ignore'] = 'category',
        alpha: float = 1.0,
        estimator: Literal['exact', 'approximate'] = 'exact',
        approximate: bool = False,
        household: str = '',
    ) -> None: ...

class ILoss(Measure):
    """Mean loss per record: the share of a column's values that a generalized value could stand for."""

    columns: tuple[str, ...]
    weights: Mapping[str, float]
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        weights: Mapping[str, float] = ...,
    ) -> None: ...

class Il1s(Measure):
    """Sum of absolute changes, each in units of √2 standard deviations of its column."""

    columns: tuple[str, ...]
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

class IndividualRanking(Method):
    """Replace each value by the mean of k neighboring values, each column on its own."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    k: int
    aggregate: Literal['mean', 'median', 'mode']
    replace: Literal['all', 'one']
    integers: bool
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        k: int = 3,
        aggregate: Literal['mean', 'median', 'mode'] = 'mean',
        replace: Literal['all', 'one'] = 'all',
        integers: bool = False,
    ) -> None: ...

class IndividualRisk(Measure):
    """Probability that each record is found, estimated from the sampling weights of its class."""

    columns: tuple[str, ...]
    weight: str
    share: float | None
    missing: Literal['category', 'wildcard', 'ignore']
    alpha: float
    estimator: Literal['exact', 'approximate']
    approximate: bool
    thresholds: tuple[float, ...]
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        weight: str = '',
        share: float | None = None,
        missing: Literal['category', 'wildcard', 'ignore'] = 'category',
        alpha: float = 1.0,
        estimator: Literal['exact', 'approximate'] = 'exact',
        approximate: bool = False,
        thresholds: Sequence[float] = ...,
    ) -> None: ...

class InferenceRisk(Measure):
    """Share of people whose secret the release gives away to somebody who knows their other values, beyond chance."""

    holdout: Any | None
    confidence: float
    attacks: int
    columns: tuple[str, ...]
    targets: tuple[str, ...]
    percent: float
    def __init__(
        self,
        *,
        holdout: Any | None = None,
        confidence: float = 0.95,
        attacks: int = 2000,
        columns: Sequence[str] = (),
        targets: Sequence[str] = (),
        percent: float = 5,
    ) -> None: ...

class IntervalOverlap(Measure):
    """Mean overlap of the confidence intervals that the original and the release give, between 0 and 1."""

    columns: tuple[str, ...]
    target: str
    confidence: float
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        target: str = '',
        confidence: float = 0.95,
    ) -> None: ...

class IntervalProtection(PrivacyModel):
    """Only a small share of the published values lies close to the true ones."""

    percent: float
    share: float
    columns: tuple[str, ...]
    interval: Literal['sd', 'rank']
    def __init__(
        self,
        *,
        percent: float,
        share: float,
        columns: Sequence[str] = (),
        interval: Literal['sd', 'rank'] = 'sd',
    ) -> None: ...

class IntervalRisk(Measure):
    """Share of records whose true values all lie within a few standard deviations of the published ones."""

    columns: tuple[str, ...]
    sd_share: float
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        sd_share: float = 0.05,
    ) -> None: ...

class KAnonymity(PrivacyModel):
    """Every combination of quasi-identifier values that occurs, occurs in at least k records."""

    columns: tuple[str, ...]
    missing: Literal['category', 'wildcard', 'ignore']
    k: int
    alpha: float
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'wildcard', 'ignore'] = 'category',
        k: int,
        alpha: float = 1.0,
    ) -> None: ...

class KMap(PrivacyModel):
    """Every class of the release fits at least k people of the population."""

    columns: tuple[str, ...]
    missing: Literal['category', 'ignore']
    k: int
    population: Any | None
    frequency: str
    population_size: int | None
    significance: float
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        k: int,
        population: Any | None = None,
        frequency: str = '',
        population_size: int | None = None,
        significance: float = 0.05,
    ) -> None: ...

class KmAnonymity(PrivacyModel):
    """Every combination of up to m items that occurs in somebody's set occurs in at least k people's sets."""

    k: int
    m: int
    columns: tuple[str, ...]
    def __init__(
        self,
        *,
        k: int,
        m: int = 2,
        columns: Sequence[str] = (),
    ) -> None: ...

class KmGeneralization(Method):
    """Replace the items of a set-valued column by broader ones until m known items fit at least k records."""

    k: int
    m: int
    columns: tuple[str, ...]
    item_hierarchy: Any
    suppression_limit: float
    def __init__(
        self,
        *,
        k: int,
        m: int = 2,
        columns: Sequence[str] = (),
        item_hierarchy: Any = None,
        suppression_limit: float = 0.0,
    ) -> None: ...

class LearnedLinkage(Measure):
    """Share of people an intruder finds with the distance that, of all distances of a form, finds most of them."""

    columns: tuple[str, ...]
    distance: Literal['weighted', 'owa', 'bilinear', 'choquet']
    folds: int
    learn_records: int
    milp_bound: bool
    milp_seconds: float
    intruder: Any
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        distance: Literal['weighted', 'owa', 'bilinear', 'choquet'] = 'weighted',
        folds: int = 5,
        learn_records: int = 1000,
        milp_bound: bool = False,
        milp_seconds: float = 60.0,
        intruder: Any = ...,
    ) -> None: ...

class Levels(Part):
    """Suppress complementary cells until every sensitive cell has the interval its rules require."""

    cost: Literal['value', 'frequency', 'unit']
    singletons: bool
    coalition: int
    clean: int | None
    def __init__(
        self,
        *,
        cost: Literal['value', 'frequency', 'unit'] = 'value',
        singletons: bool = True,
        coalition: int = 1,
        clean: int | None = None,
    ) -> None: ...

class Linkability(Measure):
    """Share of people whose data in two sources the release links, beyond what it does for people outside it."""

    holdout: Any | None
    confidence: float
    attacks: int
    first: tuple[str, ...]
    second: tuple[str, ...]
    neighbors: int
    def __init__(
        self,
        *,
        holdout: Any | None = None,
        confidence: float = 0.95,
        attacks: int = 2000,
        first: Sequence[str] = (),
        second: Sequence[str] = (),
        neighbors: int = 1,
    ) -> None: ...

class LocalRecoding(Method):
    """Generalize each record only as far as the few records most like it require, by the hierarchies."""

    columns: tuple[str, ...]
    k: int | None
    models: tuple[Any, ...]
    suppression_limit: float
    importance: Mapping[str, float]
    loss: Literal['loss', 'height', 'precision-loss', 'entropy']
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        k: int | None = None,
        models: Sequence[Any] = (),
        suppression_limit: float = 0.0,
        importance: Mapping[str, float] = ...,
        loss: Literal['loss', 'height', 'precision-loss', 'entropy'] = 'loss',
    ) -> None: ...

class LocalSuppression(Method):
    """Make a few cells missing, so that every record shares its quasi-identifier values with at least k − 1 others."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    k: int | None
    models: tuple[Any, ...]
    subsets: tuple[Any, ...]
    importance: Mapping[str, float | str]
    missing: Literal['category', 'wildcard']
    alpha: float
    linked: Mapping[str, Any]
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        k: int | None = None,
        models: Sequence[Any] = (),
        subsets: Sequence[Any] = (),
        importance: Mapping[str, float | str] = ...,
        missing: Literal['category', 'wildcard'] = 'category',
        alpha: float = 1.0,
        linked: Mapping[str, Any] = ...,
    ) -> None: ...

class LogLinearRisk(Measure):
    """Share of the unique records whose person is expected to be unique in the population."""

    columns: tuple[str, ...]
    share: float | None
    population_size: int | None
    interactions: tuple[Any, ...]
    missing: Literal['category', 'ignore']
    max_cells: int
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        share: float | None = None,
        population_size: int | None = None,
        interactions: Sequence[Any] = (),
        missing: Literal['category', 'ignore'] = 'category',
        max_cells: int = 20000000,
    ) -> None: ...

class Mae(Measure):
    """Mean absolute error between original and released figures."""

    columns: tuple[str, ...]
    on: Literal['values', 'covariance', 'correlation']
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        on: Literal['values', 'covariance', 'correlation'] = 'values',
    ) -> None: ...

class Marginals(Measure):
    """Mean distance between the original's and the release's distribution of each column, between 0 and 1."""

    columns: tuple[str, ...]
    distance: Literal['hellinger', 'total-variation', 'kolmogorov', 'wasserstein']
    bins: int
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        distance: Literal['hellinger', 'total-variation', 'kolmogorov', 'wasserstein'] = 'hellinger',
        bins: int = 20,
    ) -> None: ...

class Mdav(Method):
    """Replace each record's values by the mean of its group of at least k similar records."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    k: int
    aggregate: Literal['mean', 'median', 'mode']
    replace: Literal['all', 'one']
    integers: bool
    blocks: tuple[Any, ...]
    distance: Literal['euclidean', 'gower', 'cosine', 'jaccard', 'edit'] | None
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        k: int = 3,
        aggregate: Literal['mean', 'median', 'mode'] = 'mean',
        replace: Literal['all', 'one'] = 'all',
        integers: bool = False,
        blocks: Sequence[Any] = (),
        distance: Literal['euclidean', 'gower', 'cosine', 'jaccard', 'edit'] | None = None,
    ) -> None: ...

class MembershipInference(Measure):
    """Probability that an intruder can tell a person who is in the data from one who is not."""

    model: Any | None
    target: str
    features: tuple[str, ...]
    holdout: Any | None
    shadows: int
    false_positive_share: float
    def __init__(
        self,
        *,
        model: Any | None = None,
        target: str = '',
        features: Sequence[str] = (),
        holdout: Any | None = None,
        shadows: int = 8,
        false_positive_share: float = 0.01,
    ) -> None: ...

class ModelAgreement(Measure):
    """Share of people about whom a model of the release says the same as a model of the original."""

    target: str
    features: tuple[str, ...]
    model: Any
    percent: float
    def __init__(
        self,
        *,
        target: str = '',
        features: Sequence[str] = (),
        model: Any = ...,
        percent: float = 10.0,
    ) -> None: ...

class ModelDisclosure(Measure):
    """Share of people whose secret a model learned from the release predicts right."""

    target: str
    features: tuple[str, ...]
    model: Any
    percent: float
    folds: int
    scan: int
    def __init__(
        self,
        *,
        target: str = '',
        features: Sequence[str] = (),
        model: Any = ...,
        percent: float = 10.0,
        folds: int = 5,
        scan: int = 0,
    ) -> None: ...

class Mondrian(Method):
    """Divide the records into groups of at least k and publish each group's range instead of the values."""

    columns: tuple[str, ...]
    k: int | None
    models: tuple[Any, ...]
    suppression_limit: float
    importance: Mapping[str, float]
    loss: Literal['loss', 'entropy']
    strict: bool
    representation: Literal['interval', 'mean']
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        k: int | None = None,
        models: Sequence[Any] = (),
        suppression_limit: float = 0.0,
        importance: Mapping[str, float] = ...,
        loss: Literal['loss', 'entropy'] = 'loss',
        strict: bool = True,
        representation: Literal['interval', 'mean'] = 'interval',
    ) -> None: ...

class Mre(Measure):
    """Mean relative error between original and released figures."""

    columns: tuple[str, ...]
    on: Literal['values', 'covariance', 'correlation']
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        on: Literal['values', 'covariance', 'correlation'] = 'values',
    ) -> None: ...

class Mse(Measure):
    """Mean squared error between original and released figures."""

    columns: tuple[str, ...]
    on: Literal['values', 'covariance', 'correlation']
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        on: Literal['values', 'covariance', 'correlation'] = 'values',
    ) -> None: ...

class MultiplicativeNoise(Method):
    """Multiply each value by a random factor of mean one that is never negative."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    integers: bool
    keep_zeros: bool
    keep_sign: bool
    lower: Any | None
    upper: Any | None
    sd: float
    distribution: Literal['normal', 'lognormal']
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        integers: bool = False,
        keep_zeros: bool = False,
        keep_sign: bool = False,
        lower: Any | None = None,
        upper: Any | None = None,
        sd: float,
        distribution: Literal['normal', 'lognormal'] = 'normal',
    ) -> None: ...

class NonUniformEntropy(Measure):
    """Bits lost when each value is replaced by its generalized group."""

    columns: tuple[str, ...]
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

class Optimal(Part):
    """Suppress complementary cells so that every sensitive cell has its interval, at the least cost possible."""

    cost: Literal['value', 'frequency', 'unit']
    seconds: float | None
    largest: int
    budget: float | None
    def __init__(
        self,
        *,
        cost: Literal['value', 'frequency', 'unit'] = 'value',
        seconds: float | None = None,
        largest: int = 2000,
        budget: float | None = None,
    ) -> None: ...

class OptimalGeneralization(Method):
    """Generalize the quasi-identifiers as little as the privacy models allow, and drop the records that still fail."""

    models: tuple[Any, ...]
    columns: tuple[str, ...]
    loss: Literal['loss', 'height', 'precision-loss', 'aecs', 'discernibility', 'entropy', 'ambiguity']
    suppression_limit: float
    importance: Mapping[str, float]
    levels: Mapping[str, Any]
    suppression_factor: float
    aggregate: Literal['geometric-mean', 'mean', 'sum', 'max'] | None
    seconds: float | None
    def __init__(
        self,
        *,
        models: Sequence[Any],
        columns: Sequence[str] = (),
        loss: Literal['loss', 'height', 'precision-loss', 'aecs', 'discernibility', 'entropy', 'ambiguity'] = 'loss',
        suppression_limit: float = 0.0,
        importance: Mapping[str, float] = ...,
        levels: Mapping[str, Any] = ...,
        suppression_factor: float = 0.5,
        aggregate: Literal['geometric-mean', 'mean', 'sum', 'max'] | None = None,
        seconds: float | None = None,
    ) -> None: ...

class OptimalMicroaggregation(Method):
    """Replace each value by the mean of its group, each column on its own, with the least possible squared error."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    k: int
    aggregate: Literal['mean', 'median', 'mode']
    replace: Literal['all', 'one']
    integers: bool
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        k: int = 3,
        aggregate: Literal['mean', 'median', 'mode'] = 'mean',
        replace: Literal['all', 'one'] = 'all',
        integers: bool = False,
    ) -> None: ...

class OrthogonalNoise(Method):
    """Mix records by a random rotation that keeps means and covariances exactly."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    integers: bool
    keep_zeros: bool
    keep_sign: bool
    lower: Any | None
    upper: Any | None
    variance_share: float
    rounds: int
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        integers: bool = False,
        keep_zeros: bool = False,
        keep_sign: bool = False,
        lower: Any | None = None,
        upper: Any | None = None,
        variance_share: float,
        rounds: int = 3,
    ) -> None: ...

class OutlierNoise(Method):
    """Add random noise to the values of outliers, and leave all other values as they are."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    integers: bool
    keep_zeros: bool
    keep_sign: bool
    lower: Any | None
    upper: Any | None
    variance_share: float
    joint: bool
    quantile: float
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        integers: bool = False,
        keep_zeros: bool = False,
        keep_sign: bool = False,
        lower: Any | None = None,
        upper: Any | None = None,
        variance_share: float,
        joint: bool = False,
        quantile: float = 0.975,
    ) -> None: ...

class PPercent(Part):
    """Cells from which a contribution could be estimated to within p percent are sensitive."""

    negatives: Literal['refuse', 'absolute']
    percent: float
    coalition: int
    def __init__(
        self,
        *,
        negatives: Literal['refuse', 'absolute'] = 'refuse',
        percent: float = 10,
        coalition: int = 1,
    ) -> None: ...

class PQ(Part):
    """Cells that bring an estimate of a contribution from q percent to within p percent are sensitive."""

    negatives: Literal['refuse', 'absolute']
    p_percent: float
    q_percent: float
    coalition: int
    def __init__(
        self,
        *,
        negatives: Literal['refuse', 'absolute'] = 'refuse',
        p_percent: float = 10,
        q_percent: float = 100,
        coalition: int = 1,
    ) -> None: ...

class PSensitive(PrivacyModel):
    """Every class has at least k records and at least p different values of each sensitive column."""

    columns: tuple[str, ...]
    missing: Literal['category', 'ignore']
    sensitive: tuple[str, ...]
    k: int
    p: int
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        sensitive: Sequence[str] = (),
        k: int,
        p: int,
    ) -> None: ...

class PopulationUniqueness(Measure):
    """Share of the people who are alone with their quasi-identifier values in the population."""

    columns: tuple[str, ...]
    population_size: int | None
    share: float | None
    population: Any | None
    frequency: str
    estimator: Literal['dankar', 'pitman', 'zayatz', 'snb']
    missing: Literal['category', 'ignore']
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        population_size: int | None = None,
        share: float | None = None,
        population: Any | None = None,
        frequency: str = '',
        estimator: Literal['dankar', 'pitman', 'zayatz', 'snb'] = 'dankar',
        missing: Literal['category', 'ignore'] = 'category',
    ) -> None: ...

class PopulationUniquenessBound(PrivacyModel):
    """Only a small share of the records belongs to people who are unique in the population."""

    columns: tuple[str, ...]
    missing: Literal['category', 'ignore']
    share: float
    population_size: int | None
    sampling_fraction: float | None
    estimator: Literal['dankar', 'pitman', 'zayatz', 'snb']
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        share: float,
        population_size: int | None = None,
        sampling_fraction: float | None = None,
        estimator: Literal['dankar', 'pitman', 'zayatz', 'snb'] = 'dankar',
    ) -> None: ...

class Pram(Method):
    """Move each category to another one at random, by the probabilities of a transition matrix."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    keep_share: float | None
    matrix: Any | None
    spread: Literal['proportional', 'uniform']
    invariant: bool
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        keep_share: float | None = None,
        matrix: Any | None = None,
        spread: Literal['proportional', 'uniform'] = 'proportional',
        invariant: bool = False,
    ) -> None: ...

class Precision(Measure):
    """How much detail is left, from 1 (nothing generalized) to 0 (everything at the top of its hierarchy)."""

    columns: tuple[str, ...]
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

class ProbabilisticLinkage(Measure):
    """Share of people an intruder finds by weighing, column by column, agreement against coincidence."""

    columns: tuple[str, ...]
    tolerance_sd: tuple[float, ...]
    text_similarity: tuple[float, ...]
    false_link_share: float
    false_nonlink_share: float
    knows_m: bool
    max_pairs: int
    candidates: int
    intruder: Any
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        tolerance_sd: Sequence[float] = ...,
        text_similarity: Sequence[float] = (),
        false_link_share: float = 0.1,
        false_nonlink_share: float = 0.05,
        knows_m: bool = False,
        max_pairs: int = 1000000000,
        candidates: int = 50,
        intruder: Any = ...,
    ) -> None: ...

class ProjectionMicroaggregation(Method):
    """Replace values by the mean of k records that follow each other along one axis through the data."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    k: int
    aggregate: Literal['mean', 'median', 'mode']
    replace: Literal['all', 'one']
    integers: bool
    axis: Literal['component', 'robust', 'z-scores']
    sort_by: str | None
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        k: int = 3,
        aggregate: Literal['mean', 'median', 'mode'] = 'mean',
        replace: Literal['all', 'one'] = 'all',
        integers: bool = False,
        axis: Literal['component', 'robust', 'z-scores'] = 'component',
        sort_by: str | None = None,
    ) -> None: ...

class Propensity(Measure):
    """How well a model tells released records from original ones, between 0 (not at all) and 1 (always)."""

    columns: tuple[str, ...]
    model: Literal['tree', 'logit']
    permutations: int
    null: Literal['synthetic', 'samples']
    smallest_leaf: int
    leaf_share: float
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        model: Literal['tree', 'logit'] = 'tree',
        permutations: int = 20,
        null: Literal['synthetic', 'samples'] = 'synthetic',
        smallest_leaf: int = 20,
        leaf_share: float = 0.002,
    ) -> None: ...

class Pseudonymize(Method):
    """Replace identifiers by pseudonyms that only the holder of a secret key can reproduce."""

    columns: tuple[str, ...]
    key_file: str
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        key_file: str,
    ) -> None: ...

class QuasiIdentifiers(Measure):
    """How well subsets of the columns tell the records apart, and which columns identify."""

    columns: tuple[str, ...]
    known: int
    max_size: int | None
    missing: Literal['category', 'ignore']
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        known: int = 3,
        max_size: int | None = None,
        missing: Literal['category', 'ignore'] = 'category',
    ) -> None: ...

class RandomizedResponse(Method):
    """Replace each answer, with a given probability, by one drawn evenly from all possible answers."""

    columns: tuple[str, ...]
    truth_share: float
    answers: Any | None
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        truth_share: float = 0.5,
        answers: Any | None = None,
    ) -> None: ...

class RangeQueries(Measure):
    """Mean relative error of random range counts."""

    columns: tuple[str, ...]
    queries: int
    size: int
    selectivity: float
    floor_share: float
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        queries: int = 500,
        size: int = 2,
        selectivity: float = 0.1,
        floor_share: float = 0.001,
    ) -> None: ...

class RankInterval(Measure):
    """Share of values that lie within a percentage of the ranks around the published value."""

    columns: tuple[str, ...]
    percent: float
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        percent: float = 10.0,
    ) -> None: ...

class RankSwap(Method):
    """Exchange each value with a value whose rank lies at most a given percentage of the records away."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    percent: float
    bottom_share: float
    top_share: float
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        percent: float,
        bottom_share: float = 0.0,
        top_share: float = 0.0,
    ) -> None: ...

class Recode(Method):
    """Replace the numbers of a column by labeled intervals."""

    column: str
    cuts: tuple[float, ...] | None
    width: float | None
    origin: float
    quantiles: int | None
    labels: tuple[str, ...] | None
    def __init__(
        self,
        *,
        column: str,
        cuts: Sequence[float] | None = None,
        width: float | None = None,
        origin: float = 0.0,
        quantiles: int | None = None,
        labels: Sequence[str] | None = None,
    ) -> None: ...

class RecursiveLDiversity(PrivacyModel):
    """In every class the most frequent sensitive value is not much more frequent than the rarer ones together."""

    columns: tuple[str, ...]
    missing: Literal['category', 'ignore']
    sensitive: tuple[str, ...]
    c: float
    l: int
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        sensitive: Sequence[str] = (),
        c: float,
        l: int,
    ) -> None: ...

class RegressionUtility(Measure):
    """Share of the variance that a regression fitted to the release explains in people it has not seen."""

    target: str
    features: tuple[str, ...]
    model: Any
    folds: int
    def __init__(
        self,
        *,
        target: str = '',
        features: Sequence[str] = (),
        model: Any = ...,
        folds: int = 5,
    ) -> None: ...

class ReidentificationBound(PrivacyModel):
    """An attack on the release finds at most a given share of the people."""

    at_most: float
    measure: Any
    def __init__(
        self,
        *,
        at_most: float,
        measure: Any = ...,
    ) -> None: ...

class ReplicatedUniques(Measure):
    """Share of the original records that are alone with their key values, in the data and in the release (repU)."""

    holdout: Any | None
    confidence: float
    columns: tuple[str, ...]
    def __init__(
        self,
        *,
        holdout: Any | None = None,
        confidence: float = 0.95,
        columns: Sequence[str] = (),
    ) -> None: ...

class RequestRule(Part):
    """Cells that show much of a respondent who asked for protection are sensitive."""

    negatives: Literal['refuse', 'absolute']
    percent: float
    def __init__(
        self,
        *,
        negatives: Literal['refuse', 'absolute'] = 'refuse',
        percent: float = 70,
    ) -> None: ...

class RobustEigenDifference(Measure):
    """Mean relative difference of the eigenvalues of robust correlation matrices."""

    columns: tuple[str, ...]
    support_share: float | None
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        support_share: float | None = None,
    ) -> None: ...

class Round(Method):
    """Round each value to a multiple of a base."""

    columns: tuple[str, ...]
    base: float
    how: Literal['nearest', 'random', 'up', 'down']
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        base: float,
        how: Literal['nearest', 'random', 'up', 'down'] = 'nearest',
    ) -> None: ...

class Sample(Method):
    """Publish a random sample of the records and adjust their weights."""

    by: tuple[str, ...]
    share: float | None
    size: int | None
    household: bool | str
    weight: str | None
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        share: float | None = None,
        size: int | None = None,
        household: bool | str = False,
        weight: str | None = None,
    ) -> None: ...

class SampleUniqueness(Measure):
    """Share of records that nobody else shares the quasi-identifier values of."""

    columns: tuple[str, ...]
    missing: Literal['category', 'wildcard', 'ignore']
    share: float | None
    population: Any | None
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'wildcard', 'ignore'] = 'category',
        share: float | None = None,
        population: Any | None = None,
    ) -> None: ...

class SdInterval(Measure):
    """Share of values whose published value is closer than a percentage of the standard deviation."""

    columns: tuple[str, ...]
    percent: float
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        percent: float = 10.0,
    ) -> None: ...

class Shuffle(Method):
    """Deal the values of columns out anew: who gets which is drawn from a model on other columns."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    predictors: tuple[str, ...]
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        predictors: Sequence[str] = (),
    ) -> None: ...

class SinglingOut(Measure):
    """Share of descriptions learned from the release that fit exactly one person in the data, beyond chance."""

    holdout: Any | None
    confidence: float
    attacks: int
    columns: tuple[str, ...]
    size: int
    def __init__(
        self,
        *,
        holdout: Any | None = None,
        confidence: float = 0.95,
        attacks: int = 2000,
        columns: Sequence[str] = (),
        size: int = 3,
    ) -> None: ...

class SpecialRule(Part):
    """Cells at a level of detail that may not go out are sensitive, however many respondents they have."""

    detail: Mapping[str, int]
    range_percent: float
    def __init__(
        self,
        *,
        detail: Mapping[str, int],
        range_percent: float = 30,
    ) -> None: ...

class Sse(Measure):
    """Sum of squared errors between original and released values."""

    columns: tuple[str, ...]
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

class Suda(Measure):
    """Share of records that are special: a few of their values are enough to be alone, so a match is likely right."""

    columns: tuple[str, ...]
    max_size: int | None
    share: float
    threshold: float
    scoring: Literal['product', 'supersets']
    missing: Literal['category', 'wildcard', 'ignore']
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        max_size: int | None = None,
        share: float = 0.01,
        threshold: float = 0.1,
        scoring: Literal['product', 'supersets'] = 'product',
        missing: Literal['category', 'wildcard', 'ignore'] = 'category',
    ) -> None: ...

class SuppressByRisk(Method):
    """Make cells of the records missing whose risk is above a bound, or drop these records."""

    at_most: float
    measure: Any
    columns: tuple[str, ...]
    drop: bool
    limit: float
    def __init__(
        self,
        *,
        at_most: float,
        measure: Any = ...,
        columns: Sequence[str] = (),
        drop: bool = False,
        limit: float = 1.0,
    ) -> None: ...

class SuppressRecords(Method):
    """Drop the records of classes that break privacy models, up to a limit."""

    columns: tuple[str, ...]
    k: int | None
    models: tuple[Any, ...]
    limit: float
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        k: int | None = None,
        models: Sequence[Any] = (),
        limit: float = 0.05,
    ) -> None: ...

class TCloseness(PrivacyModel):
    """The sensitive values of every class are distributed almost as in the whole table."""

    columns: tuple[str, ...]
    missing: Literal['category', 'ignore']
    sensitive: tuple[str, ...]
    t: float
    distance: Literal['ordered', 'equal', 'hierarchical']
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        sensitive: Sequence[str] = (),
        t: float,
        distance: Literal['ordered', 'equal', 'hierarchical'] = 'ordered',
    ) -> None: ...

class TargetedRecordSwap(Method):
    """Let households at risk exchange places with similar households in another area, and others at random."""

    geography: tuple[str, ...]
    risk_columns: tuple[str, ...]
    k: int
    share: float
    match_on: tuple[str, ...]
    similar: tuple[str, ...]
    carry_along: tuple[str, ...]
    household: str
    def __init__(
        self,
        *,
        geography: Sequence[str] = (),
        risk_columns: Sequence[str] = (),
        k: int,
        share: float = 0.0,
        match_on: Sequence[str] = (),
        similar: Sequence[str] = (),
        carry_along: Sequence[str] = (),
        household: str = '',
    ) -> None: ...

class Threshold(Part):
    """Cells with fewer than a minimum of respondents are sensitive."""

    minimum: int
    zeros: Literal['safe', 'sensitive']
    range_percent: float
    def __init__(
        self,
        *,
        minimum: int = 3,
        zeros: Literal['safe', 'sensitive'] = 'safe',
        range_percent: float = 30,
    ) -> None: ...

class TopCode(Method):
    """Replace all values above a bound by one value."""

    by: tuple[str, ...]
    column: str
    at: Any | None
    quantile: float | None
    replace: Literal['cut', 'flag', 'mean']
    label: str | None
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        column: str,
        at: Any | None = None,
        quantile: float | None = None,
        replace: Literal['cut', 'flag', 'mean'] = 'cut',
        label: str | None = None,
    ) -> None: ...

class ValueAgreement(Measure):
    """Share of values that the release shows as they are in the original."""

    columns: tuple[str, ...]
    tolerance: float
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        tolerance: float = 0.0,
    ) -> None: ...

class VariableChange(Measure):
    """Mean distance between original and released values, each between 0 and 1."""

    columns: tuple[str, ...]
    standardize: bool
    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        standardize: bool = True,
    ) -> None: ...

class VariableMdav(Method):
    """Replace values by the mean of a group of k to 2k−1 similar records, larger where records lie close together."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    k: int
    aggregate: Literal['mean', 'median', 'mode']
    replace: Literal['all', 'one']
    integers: bool
    gamma: float
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        k: int = 3,
        aggregate: Literal['mean', 'median', 'mode'] = 'mean',
        replace: Literal['all', 'one'] = 'all',
        integers: bool = False,
        gamma: float = 0.2,
    ) -> None: ...

class VariancePreservingNoise(Method):
    """Shrink values toward their mean and add noise that makes up for it, so that variances stay the same."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    integers: bool
    keep_zeros: bool
    keep_sign: bool
    lower: Any | None
    upper: Any | None
    variance_share: float
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        integers: bool = False,
        keep_zeros: bool = False,
        keep_sign: bool = False,
        lower: Any | None = None,
        upper: Any | None = None,
        variance_share: float,
    ) -> None: ...

class WinsorizeOutliers(Method):
    """Pull records that lie far from the bulk of the data back onto an ellipse around it."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    quantile: float
    integers: bool
    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        quantile: float = 0.975,
        integers: bool = False,
    ) -> None: ...
