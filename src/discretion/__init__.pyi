"""Made by `make stubs` from the registry of parts; do not edit."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from discretion import datasets as datasets
from discretion import errors as errors
from discretion import online as online
from discretion import outputs as outputs
from discretion import parties as parties
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
from discretion.engines.duckdb import (
    scan as scan,
)
from discretion.errors import (
    BudgetExhausted as BudgetExhausted,
    Cancelled as Cancelled,
    DataError as DataError,
    DiscretionError as DiscretionError,
    Infeasible as Infeasible,
    PartyLost as PartyLost,
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
    confidential as confidential,
)
from discretion.policy.policy import (
    Policy as Policy,
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
    PrivacyBudget as PrivacyBudget,
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
from discretion.utility.combine import (
    combine as combine,
)

__version__: str

def parts() -> list[str]: ...

from discretion.protect.noise import AdditiveNoise as _AdditiveNoise

class AdditiveNoise(_AdditiveNoise):
    """Add independent random noise of mean zero to each value."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        precision: Literal['original', 'full'] = 'original',
        keep_zeros: bool = False,
        keep_sign: bool = False,
        lower: Any | None = None,
        upper: Any | None = None,
        by_person: bool = False,
        person: str = '',
        variance_share: float | None = None,
        sd_share: float | None = None,
        distribution: Literal['normal', 'laplace'] = 'normal',
    ) -> None: ...

from discretion.tables.protections import Adjust as _Adjust

class Adjust(_Adjust):
    """Move every sensitive cell up or down beyond its protection level and adjust the others so that all adds up."""

    def __init__(
        self,
        *,
        weight: Literal['relative', 'equal'] = 'relative',
        least_percent: float = 1.0,
        limit_percent: Any | None = None,
        spread_percent: float = 100.0,
        whole: bool | None = None,
        seconds: float = 20.0,
        gap: float = 0.05,
    ) -> None: ...

from discretion.privacy.l_diversity import AlphaK as _AlphaK

class AlphaK(_AlphaK):
    """Every class has at least k records, and no sensitive value makes up more than a share α of it."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        sensitive: Sequence[str] = (),
        k: int,
        count: Literal['units', 'records'] = 'units',
        alpha: float,
    ) -> None: ...

from discretion.risk.identity.assignment import AssignmentLinkage as _AssignmentLinkage

class AssignmentLinkage(_AssignmentLinkage):
    """Share of people an intruder finds who links all records at once, each to another published record."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        distance: Literal['euclidean', 'gower', 'mahalanobis', 'robust-mahalanobis'] | None = None,
        missing: Literal['average', 'match', 'exclude'] = 'average',
        intruder: Any = ...,
    ) -> None: ...

from discretion.protect.record_swap import AtHouseholdLevel as _AtHouseholdLevel

class AtHouseholdLevel(_AtHouseholdLevel):
    """Apply a method to households as wholes, so that all members get the same change."""

    def __init__(
        self,
        *,
        method: Any,
        household: str = '',
    ) -> None: ...

from discretion.risk.identity.uniqueness import AttackerRisk as _AttackerRisk

class AttackerRisk(_AttackerRisk):
    """Probability that an intruder who knows the quasi-identifiers picks the right person."""

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

from discretion.utility.hierarchy_loss import AverageClassSize as _AverageClassSize

class AverageClassSize(_AverageClassSize):
    """Mean number of records per class, divided by k: 1 is the best a k-anonymous release can do."""

    def __init__(
        self,
        *,
        k: int,
        columns: Sequence[str] = (),
    ) -> None: ...

from discretion.utility.errors import AverageDivergence as _AverageDivergence

class AverageDivergence(_AverageDivergence):
    """Mean of (x + x')/2 over all values, as defined in the source text."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

from discretion.privacy.average_risk import AverageRisk as _AverageRisk

class AverageRisk(_AverageRisk):
    """On average over the records, the probability of picking the right one in its class is small."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        risk: float,
    ) -> None: ...

from discretion.privacy.l_diversity import BetaLikeness as _BetaLikeness

class BetaLikeness(_BetaLikeness):
    """No sensitive value is much more frequent in a class than in the whole table, relative to its frequency there."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        sensitive: Sequence[str] = (),
        beta: float,
        enhanced: bool = True,
    ) -> None: ...

from discretion.protect.record_swap import BlankAndImpute as _BlankAndImpute

class BlankAndImpute(_BlankAndImpute):
    """Replace values of some households in small blocks by those of similar households elsewhere."""

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

from discretion.protect.rank_swap import BlockRankSwap as _BlockRankSwap

class BlockRankSwap(_BlockRankSwap):
    """Shuffle the values inside consecutive blocks of ranks."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        percent: float,
        bottom_share: float = 0.0,
        top_share: float = 0.0,
    ) -> None: ...

from discretion.protect.recode import BottomCode as _BottomCode

class BottomCode(_BottomCode):
    """Replace all values below a bound by one value."""

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

from discretion.utility.errors import ChangedShare as _ChangedShare

class ChangedShare(_ChangedShare):
    """Share of the cells whose value is not the original one, suppressed cells among them."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

from discretion.utility.classification import ClassificationUtility as _ClassificationUtility

class ClassificationUtility(_ClassificationUtility):
    """Share of people that a classifier trained on the release classifies right."""

    def __init__(
        self,
        *,
        target: str = '',
        features: Sequence[str] = (),
        model: Any = ...,
        folds: int = 5,
    ) -> None: ...

from discretion.risk.synthetic.attacks import ClosestRecord as _ClosestRecord

class ClosestRecord(_ClosestRecord):
    """Share of released records that are closer to a record of the data than to one of a control group."""

    def __init__(
        self,
        *,
        holdout: Any | None = None,
        confidence: float = 0.95,
        columns: Sequence[str] = (),
    ) -> None: ...

from discretion.utility.classification import ClusteringUtility as _ClusteringUtility

class ClusteringUtility(_ClusteringUtility):
    """Agreement of the groups found in the release with the groups found in the original."""

    def __init__(
        self,
        *,
        features: Sequence[str] = (),
        clusters: int = 3,
        model: Any = ...,
    ) -> None: ...

from discretion.risk.attribute.column_dependence import ColumnDependence as _ColumnDependence

class ColumnDependence(_ColumnDependence):
    """Share of true values of a protected column that another published column tells."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        known_share: float = 0.1,
        sd_share: float = 0.05,
    ) -> None: ...

from discretion.protect.record_swap import ConfidentialityEdit as _ConfidentialityEdit

class ConfidentialityEdit(_ConfidentialityEdit):
    """Let a sample of households exchange places with similar households elsewhere."""

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

from discretion.utility.marginals import Contingency as _Contingency

class Contingency(_Contingency):
    """Mean difference between the tables of counts of the original and of the release."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        ways: int = 2,
        difference: Literal['absolute', 'relative', 'root'] = 'absolute',
        bins: int = 5,
    ) -> None: ...

from discretion.protect.noise import CorrelatedNoise as _CorrelatedNoise

class CorrelatedNoise(_CorrelatedNoise):
    """Add noise whose correlations are those of the data."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        precision: Literal['original', 'full'] = 'original',
        keep_zeros: bool = False,
        keep_sign: bool = False,
        lower: Any | None = None,
        upper: Any | None = None,
        variance_share: float,
    ) -> None: ...

from discretion.utility.marginals import CorrelationChange as _CorrelationChange

class CorrelationChange(_CorrelationChange):
    """Distance between the diagonals of the inverse correlation matrices, between 0 and 1."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

from discretion.privacy.l_diversity import DeltaDisclosure as _DeltaDisclosure

class DeltaDisclosure(_DeltaDisclosure):
    """No sensitive value is much more or much less frequent in a class than in the whole table."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        sensitive: Sequence[str] = (),
        delta: float,
        absent: Literal['fail', 'ignore'] = 'fail',
    ) -> None: ...

from discretion.privacy.population import DeltaPresence as _DeltaPresence

class DeltaPresence(_DeltaPresence):
    """Of the people of the population that fit a class, a share between two bounds is in the data."""

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

from discretion.privacy.detail_limits import DetailLimits as _DetailLimits

class DetailLimits(_DetailLimits):
    """The release has few enough columns, large enough categories, and coarse enough geography."""

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

from discretion.utility.hierarchy_loss import Discernibility as _Discernibility

class Discernibility(_Discernibility):
    """Sum over all records of the number of records each cannot be told from."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

from discretion.risk.synthetic.attacks import Disco as _Disco

class Disco(_Disco):
    """Share of the people whose secret the release states with certainty, and rightly (DiSCO)."""

    def __init__(
        self,
        *,
        holdout: Any | None = None,
        confidence: float = 0.95,
        columns: Sequence[str] = (),
        targets: Sequence[str] = (),
    ) -> None: ...

from discretion.risk.identity.linkage import DistanceLinkage as _DistanceLinkage

class DistanceLinkage(_DistanceLinkage):
    """Share of people an intruder finds by looking for the nearest published record."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        distance: Literal['euclidean', 'gower', 'mahalanobis', 'robust-mahalanobis'] | None = None,
        standardize: bool = True,
        missing: Literal['average', 'match', 'exclude'] = 'average',
        intruder: Any = ...,
        sample: int = 0,
    ) -> None: ...

from discretion.privacy.l_diversity import DistinctLDiversity as _DistinctLDiversity

class DistinctLDiversity(_DistinctLDiversity):
    """Every class of records that look the same holds at least l different values of each sensitive column."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        sensitive: Sequence[str] = (),
        l: int,
    ) -> None: ...

from discretion.tables.rules.magnitude import Dominance as _Dominance

class Dominance(_Dominance):
    """Cells of which the n largest contributions make k percent or more are sensitive."""

    def __init__(
        self,
        *,
        negatives: Literal['refuse', 'absolute'] = 'refuse',
        n: int = 2,
        percent: float = 70,
        boundary: Literal['sensitive', 'safe'] = 'sensitive',
    ) -> None: ...

from discretion.protect.identifiers import DropIdentifiers as _DropIdentifiers

class DropIdentifiers(_DropIdentifiers):
    """Remove the columns that name people directly."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

from discretion.privacy.edit_rules import EditRules as _EditRules

class EditRules(_EditRules):
    """No record breaks an edit rule that it did not break in the original."""

    def __init__(
        self,
        *,
        rules: Sequence[str] = (),
        at_most: int = 0,
    ) -> None: ...

from discretion.utility.marginals import EigenDifference as _EigenDifference

class EigenDifference(_EigenDifference):
    """Mean relative difference of the eigenvalues of the correlation matrices."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

from discretion.tables.engines import Elimination as _Elimination

class Elimination(_Elimination):
    """Suppress complementary cells until no sensitive cell can be computed exactly."""

    def __init__(
        self,
        *,
        cost: Literal['value', 'frequency', 'unit'] = 'value',
        coalition: int | None = None,
        singletons: bool = True,
    ) -> None: ...

from discretion.privacy.l_diversity import EntropyLDiversity as _EntropyLDiversity

class EntropyLDiversity(_EntropyLDiversity):
    """The sensitive values of every class are as mixed as l equally frequent values would be."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        sensitive: Sequence[str] = (),
        l: float,
    ) -> None: ...

from discretion.privacy.l_diversity import EstimatedEntropyLDiversity as _EstimatedEntropyLDiversity

class EstimatedEntropyLDiversity(_EstimatedEntropyLDiversity):
    """The sensitive values of every class come from people as mixed as l equally frequent values would be."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        sensitive: Sequence[str] = (),
        l: float,
    ) -> None: ...

from discretion.protect.synthetic.gaussian_copula import GaussianCopula as _GaussianCopula

class GaussianCopula(_GaussianCopula):
    """Draw rows whose ranks come from a normal distribution, and whose values come from each column's distribution."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        rows: int | None = None,
        copies: int = 1,
        constants: Literal['refuse', 'keep'] = 'refuse',
        extremes: Literal['code', 'keep'] = 'code',
        rules: Sequence[str] = (),
        records: Literal['all', 'risky'] = 'all',
        measure: Any = 'sample-uniqueness',
        at_most: float | None = None,
        others: float = 1.0,
        smoothing: float = 10.0,
        min_support: int = 3,
    ) -> None: ...

from discretion.protect.recode import Generalize as _Generalize

class Generalize(_Generalize):
    """Replace each value by a broader one, by the column's hierarchy."""

    def __init__(
        self,
        *,
        levels: Mapping[str, int],
    ) -> None: ...

from discretion.risk.attribute.membership import GeneratorMembership as _GeneratorMembership

class GeneratorMembership(_GeneratorMembership):
    """Share of people recognized as members of the data behind a synthetic file, when few others are taken for members."""

    def __init__(
        self,
        *,
        generator: Any | None = None,
        columns: Sequence[str] = (),
        shadows: int = 16,
        sample: int | None = None,
    ) -> None: ...

from discretion.utility.hierarchy_loss import Granularity as _Granularity

class Granularity(_Granularity):
    """How precise the published values are, from 1 (original values) to 0 (all at the top), as ARX reports it."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

from discretion.risk.attribute.group_attack import GroupAttack as _GroupAttack

class GroupAttack(_GroupAttack):
    """Share of people whose sensitive value is learnt from the group they are known to be in."""

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
        truth: Literal['original', 'released'] = 'original',
    ) -> None: ...

from discretion.protect.recode import GroupCategories as _GroupCategories

class GroupCategories(_GroupCategories):
    """Put categories together under one label."""

    def __init__(
        self,
        *,
        column: str,
        groups: Any | None = None,
        smaller_than: int | None = None,
        label: str = 'other',
    ) -> None: ...

from discretion.tables.rules.magnitude import GroupDisclosure as _GroupDisclosure

class GroupDisclosure(_GroupDisclosure):
    """Cells that hold everybody of a group are sensitive: who is in the group is known to be in the cell."""

    def __init__(
        self,
        *,
        columns: Any | None = None,
    ) -> None: ...

from discretion.utility.hierarchy_loss import Height as _Height

class Height(_Height):
    """Sum of the generalization levels of all columns."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

from discretion.protect.hide_rules import HideRules as _HideRules

class HideRules(_HideRules):
    """Take the fewest items out of records so that given association rules are no longer found."""

    def __init__(
        self,
        *,
        rules: Sequence[Any],
        min_support: float,
        min_confidence: float = 0.0,
        margin: float = 0.3,
        columns: Sequence[str] = (),
        missing: Literal['wildcard', 'category'] = 'wildcard',
        max_items: int = 3,
    ) -> None: ...

from discretion.privacy.k_anonymity import HouseholdKAnonymity as _HouseholdKAnonymity

class HouseholdKAnonymity(_HouseholdKAnonymity):
    """Every composition of a household that occurs, occurs in at least k households."""

    def __init__(
        self,
        *,
        k: int,
        columns: Sequence[str] = (),
        household: str = '',
    ) -> None: ...

from discretion.risk.identity.household import HouseholdRisk as _HouseholdRisk

class HouseholdRisk(_HouseholdRisk):
    """Probability that at least one member of each record's household is found."""

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

from discretion.risk.identity.household import HouseholdUniqueness as _HouseholdUniqueness

class HouseholdUniqueness(_HouseholdUniqueness):
    """Share of records that live in a household whose composition nobody else has."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        household: str = '',
    ) -> None: ...

from discretion.utility.hierarchy_loss import ILoss as _ILoss

class ILoss(_ILoss):
    """Mean loss per record: the share of a column's values that a generalized value could stand for."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        weights: Mapping[str, float] = ...,
    ) -> None: ...

from discretion.risk.attribute.identity_denoising import IdentityDenoising as _IdentityDenoising

class IdentityDenoising(_IdentityDenoising):
    """Share of true values that an intruder comes near to by sums that everybody knows to hold."""

    def __init__(
        self,
        *,
        rules: Sequence[str] = (),
        sd_share: float = 0.05,
    ) -> None: ...

from discretion.utility.errors import Il1s as _Il1s

class Il1s(_Il1s):
    """How far values moved in all: the sum of absolute changes, each as a part of its column's usual spread."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

from discretion.protect.synthetic.sequential_trees import IndependentMargins as _IndependentMargins

class IndependentMargins(_IndependentMargins):
    """Draw every column from its own distribution, independently of all others."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        rows: int | None = None,
        copies: int = 1,
        constants: Literal['refuse', 'keep'] = 'refuse',
        extremes: Literal['code', 'keep'] = 'code',
        rules: Sequence[str] = (),
        records: Literal['all', 'risky'] = 'all',
        measure: Any = 'sample-uniqueness',
        at_most: float | None = None,
        others: float = 1.0,
        smoothing: float = 10.0,
        min_support: int = 3,
    ) -> None: ...

from discretion.protect.microaggregation_groups import IndividualRanking as _IndividualRanking

class IndividualRanking(_IndividualRanking):
    """Replace each value by the mean of k neighboring values, each column on its own."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        k: int = 3,
        aggregate: Literal['mean', 'median', 'mode'] = 'mean',
        replace: Literal['all', 'one'] = 'all',
        integers: bool = False,
        precision: Literal['original', 'full'] = 'full',
    ) -> None: ...

from discretion.risk.identity.household import IndividualRisk as _IndividualRisk

class IndividualRisk(_IndividualRisk):
    """Probability that each record is found, estimated from the sampling weights of its class."""

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

from discretion.risk.synthetic.attacks import InferenceRisk as _InferenceRisk

class InferenceRisk(_InferenceRisk):
    """Share of people whose secret the release gives away to somebody who knows their other values, beyond chance."""

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

from discretion.privacy.integral_privacy import IntegralPrivacy as _IntegralPrivacy

class IntegralPrivacy(_IntegralPrivacy):
    """A statistic or model recurs over many random samples of the data, and no record is needed to get it."""

    def __init__(
        self,
        *,
        result: str | Any,
        columns: Sequence[str] = (),
        target: str = '',
        grid: Mapping[str, float] = ...,
        points: Mapping[str, Sequence[str | float]] = ...,
        samples: int = 1000,
        sample_share: float = 0.5,
        k: int = 5,
        min_share: float = 0.1,
        max_excess: float = 0.25,
    ) -> None: ...

from discretion.utility.propensity import IntervalOverlap as _IntervalOverlap

class IntervalOverlap(_IntervalOverlap):
    """Mean overlap of the confidence intervals that the original and the release give, between 0 and 1."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        target: str = '',
        confidence: float = 0.95,
    ) -> None: ...

from discretion.privacy.average_risk import IntervalProtection as _IntervalProtection

class IntervalProtection(_IntervalProtection):
    """Only a small share of the published values lies close to the true ones."""

    def __init__(
        self,
        *,
        percent: float,
        share: float,
        knows_method: bool | None = None,
        columns: Sequence[str] = (),
        interval: Literal['sd', 'rank'] = 'sd',
    ) -> None: ...

from discretion.risk.attribute.intervals import IntervalRisk as _IntervalRisk

class IntervalRisk(_IntervalRisk):
    """Share of records whose true values all lie close to the published ones."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        knows_method: bool | None = None,
        sd_share: float = 0.05,
    ) -> None: ...

from discretion.privacy.k_anonymity import KAnonymity as _KAnonymity

class KAnonymity(_KAnonymity):
    """Every combination of quasi-identifier values that occurs, occurs in at least k records."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'wildcard', 'ignore'] = 'category',
        k: int,
        alpha: float = 1.0,
        count: Literal['units', 'records'] = 'units',
    ) -> None: ...

from discretion.tables.rules.magnitude import KDisclosure as _KDisclosure

class KDisclosure(_KDisclosure):
    """Cells that hold all but a few of a group are sensitive: those few know where everybody else of the group is."""

    def __init__(
        self,
        *,
        columns: Any | None = None,
        coalition: int = 1,
    ) -> None: ...

from discretion.privacy.population import KMap as _KMap

class KMap(_KMap):
    """Every class of the release fits at least k people of the population."""

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

from discretion.privacy.km_anonymity import KmAnonymity as _KmAnonymity

class KmAnonymity(_KmAnonymity):
    """Every combination of up to m items that occurs in somebody's set occurs in at least k people's sets."""

    def __init__(
        self,
        *,
        k: int,
        m: int = 2,
        columns: Sequence[str] = (),
    ) -> None: ...

from discretion.anonymize.set_valued import KmGeneralization as _KmGeneralization

class KmGeneralization(_KmGeneralization):
    """Replace the items of a set-valued column by broader ones until m known items fit at least k records."""

    def __init__(
        self,
        *,
        k: int,
        m: int = 2,
        columns: Sequence[str] = (),
        item_hierarchy: Any = None,
        suppression_limit: float = 0.0,
    ) -> None: ...

from discretion.risk.identity.learned import LearnedLinkage as _LearnedLinkage

class LearnedLinkage(_LearnedLinkage):
    """Share of people an intruder finds with the distance that, of all distances of a form, finds most of them."""

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

from discretion.tables.engines import Levels as _Levels

class Levels(_Levels):
    """Suppress complementary cells until every sensitive cell has the interval its rules require."""

    def __init__(
        self,
        *,
        cost: Literal['value', 'frequency', 'unit'] = 'value',
        coalition: int | None = None,
        singletons: bool = True,
        respondents: bool = True,
        clean: int | None = None,
    ) -> None: ...

from discretion.risk.synthetic.attacks import Linkability as _Linkability

class Linkability(_Linkability):
    """Share of people whose data in two sources the release links, beyond what it does for people outside it."""

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

from discretion.anonymize.local_recoding import LocalRecoding as _LocalRecoding

class LocalRecoding(_LocalRecoding):
    """Generalize each record only as far as the few records most like it require, by the hierarchies."""

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

from discretion.protect.suppress import LocalSuppression as _LocalSuppression

class LocalSuppression(_LocalSuppression):
    """Make a few cells missing, so that every record shares its quasi-identifier values with at least k − 1 others."""

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

from discretion.risk.identity.uniqueness import LogLinearRisk as _LogLinearRisk

class LogLinearRisk(_LogLinearRisk):
    """Share of the unique records whose person is expected to be unique in the population."""

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

from discretion.utility.errors import Mae as _Mae

class Mae(_Mae):
    """Mean absolute error between original and released figures."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        on: Literal['values', 'covariance', 'correlation'] = 'values',
    ) -> None: ...

from discretion.utility.marginals import Marginals as _Marginals

class Marginals(_Marginals):
    """Mean distance between the original's and the release's distribution of each column, between 0 and 1."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        distance: Literal['hellinger', 'total-variation', 'kolmogorov', 'wasserstein'] = 'hellinger',
        bins: int = 20,
    ) -> None: ...

from discretion.protect.microaggregation import Mdav as _Mdav

class Mdav(_Mdav):
    """Replace each record's values by the mean of its group of at least k similar records."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        k: int = 3,
        aggregate: Literal['mean', 'median', 'mode'] = 'mean',
        replace: Literal['all', 'one'] = 'all',
        integers: bool = False,
        precision: Literal['original', 'full'] = 'full',
        blocks: Sequence[Any] = (),
        distance: Literal['euclidean', 'robust-mahalanobis', 'gower', 'cosine', 'jaccard', 'edit'] | None = None,
    ) -> None: ...

from discretion.risk.attribute.membership import MembershipInference as _MembershipInference

class MembershipInference(_MembershipInference):
    """Probability that an intruder can tell a person who is in the data from one who is not."""

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

from discretion.risk.attribute.model_disclosure import ModelAgreement as _ModelAgreement

class ModelAgreement(_ModelAgreement):
    """Share of people about whom a model of the release says the same as a model of the original."""

    def __init__(
        self,
        *,
        target: str = '',
        features: Sequence[str] = (),
        model: Any = ...,
        percent: float = 10.0,
    ) -> None: ...

from discretion.risk.attribute.model_disclosure import ModelDisclosure as _ModelDisclosure

class ModelDisclosure(_ModelDisclosure):
    """Share of people whose secret a model learned from the release predicts right."""

    def __init__(
        self,
        *,
        target: str = '',
        features: Sequence[str] = (),
        model: Any = ...,
        percent: float = 10.0,
        folds: int = 5,
        scan: int = 0,
        sample: int = 0,
        truth: Literal['original', 'released'] = 'original',
    ) -> None: ...

from discretion.protect.synthetic.moment_preserving import MomentPreserving as _MomentPreserving

class MomentPreserving(_MomentPreserving):
    """Draw normal numbers, then turn them so that their means and covariances are exactly those of the data."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        rows: int | None = None,
        copies: int = 1,
        constants: Literal['refuse', 'keep'] = 'refuse',
        dominance: float = 0.85,
    ) -> None: ...

from discretion.anonymize.mondrian import Mondrian as _Mondrian

class Mondrian(_Mondrian):
    """Divide the records into groups of at least k and publish each group's range instead of the values."""

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

from discretion.utility.errors import Mre as _Mre

class Mre(_Mre):
    """Mean relative error between original and released figures."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        on: Literal['values', 'covariance', 'correlation'] = 'values',
    ) -> None: ...

from discretion.utility.errors import Mse as _Mse

class Mse(_Mse):
    """Mean squared error between original and released figures."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        on: Literal['values', 'covariance', 'correlation'] = 'values',
    ) -> None: ...

from discretion.protect.noise import MultiplicativeNoise as _MultiplicativeNoise

class MultiplicativeNoise(_MultiplicativeNoise):
    """Multiply each value by a random factor of mean one that is never negative."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        precision: Literal['original', 'full'] = 'original',
        keep_zeros: bool = False,
        keep_sign: bool = False,
        lower: Any | None = None,
        upper: Any | None = None,
        by_person: bool = False,
        person: str = '',
        sd: float,
        distribution: Literal['normal', 'lognormal'] = 'normal',
    ) -> None: ...

from discretion.tables.rules.magnitude import NarrowRange as _NarrowRange

class NarrowRange(_NarrowRange):
    """Groups whose members all lie within a few neighboring categories are sensitive: their range gives them away."""

    def __init__(
        self,
        *,
        column: str,
        categories: int = 2,
        smallest: int = 1,
    ) -> None: ...

from discretion.utility.hierarchy_loss import NonUniformEntropy as _NonUniformEntropy

class NonUniformEntropy(_NonUniformEntropy):
    """Bits lost when each value is replaced by its generalized group."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

from discretion.tables.engines import Optimal as _Optimal

class Optimal(_Optimal):
    """Suppress complementary cells so that every sensitive cell has its interval, at the least cost possible."""

    def __init__(
        self,
        *,
        cost: Literal['value', 'frequency', 'unit'] = 'value',
        coalition: int | None = None,
        respondents: bool = True,
        seconds: float | None = None,
        largest: int = 2000,
        budget: float | None = None,
    ) -> None: ...

from discretion.anonymize.optimal import OptimalGeneralization as _OptimalGeneralization

class OptimalGeneralization(_OptimalGeneralization):
    """Generalize the quasi-identifiers as little as the privacy models allow, and drop the records that still fail."""

    def __init__(
        self,
        *,
        models: Sequence[Any],
        columns: Sequence[str] = (),
        loss: Literal['loss', 'height', 'precision-loss', 'aecs', 'discernibility', 'discernibility-star', 'entropy', 'normalized-entropy', 'entropy-based', 'ambiguity', 'kl', 'kl-arx', 'payout'] = 'loss',
        suppression_limit: float = 0.0,
        importance: Mapping[str, float] = ...,
        levels: Mapping[str, Any] = ...,
        suppression_factor: float = 0.5,
        aggregate: Literal['geometric-mean', 'mean', 'sum', 'max', 'rank'] | None = None,
        summarize: Mapping[str, Literal['mean', 'geometric-mean', 'median', 'interval', 'set']] = ...,
        cluster: Sequence[str] = (),
        seconds: float | None = None,
    ) -> None: ...

from discretion.protect.microaggregation_groups import OptimalMicroaggregation as _OptimalMicroaggregation

class OptimalMicroaggregation(_OptimalMicroaggregation):
    """Replace each value by the mean of its group, each column on its own, with the least possible squared error."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        k: int = 3,
        aggregate: Literal['mean', 'median', 'mode'] = 'mean',
        replace: Literal['all', 'one'] = 'all',
        integers: bool = False,
        precision: Literal['original', 'full'] = 'full',
    ) -> None: ...

from discretion.protect.noise import OrthogonalNoise as _OrthogonalNoise

class OrthogonalNoise(_OrthogonalNoise):
    """Mix records by a random rotation that keeps means and covariances exactly."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        precision: Literal['original', 'full'] = 'full',
        keep_zeros: bool = False,
        keep_sign: bool = False,
        lower: Any | None = None,
        upper: Any | None = None,
        variance_share: float,
        rounds: int = 3,
    ) -> None: ...

from discretion.risk.attribute.intervals import OutlierInterval as _OutlierInterval

class OutlierInterval(_OutlierInterval):
    """Share of records with a published value close to the true one, where close means less for outliers."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        knows_method: bool | None = None,
        sd_share: float = 0.01,
        isolation: float = 0.05,
    ) -> None: ...

from discretion.protect.outliers import OutlierNoise as _OutlierNoise

class OutlierNoise(_OutlierNoise):
    """Add random noise to the values of outliers, and leave all other values as they are."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        precision: Literal['original', 'full'] = 'original',
        keep_zeros: bool = False,
        keep_sign: bool = False,
        lower: Any | None = None,
        upper: Any | None = None,
        variance_share: float,
        joint: bool = False,
        quantile: float = 0.975,
    ) -> None: ...

from discretion.tables.rules.magnitude import PPercent as _PPercent

class PPercent(_PPercent):
    """Cells from which a contribution could be estimated to within p percent are sensitive."""

    def __init__(
        self,
        *,
        negatives: Literal['refuse', 'absolute'] = 'refuse',
        percent: float = 10,
        coalition: int = 1,
    ) -> None: ...

from discretion.tables.rules.magnitude import PQ as _PQ

class PQ(_PQ):
    """Cells that bring an estimate of a contribution from q percent to within p percent are sensitive."""

    def __init__(
        self,
        *,
        negatives: Literal['refuse', 'absolute'] = 'refuse',
        p_percent: float = 10,
        q_percent: float = 100,
        coalition: int = 1,
    ) -> None: ...

from discretion.privacy.l_diversity import PSensitive as _PSensitive

class PSensitive(_PSensitive):
    """Every class has at least k records and at least p different values of each sensitive column."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        sensitive: Sequence[str] = (),
        k: int,
        count: Literal['units', 'records'] = 'units',
        p: int,
    ) -> None: ...

from discretion.tables.protections import Perturb as _Perturb

class Perturb(_Perturb):
    """Add noise to every cell that depends only on who is in it, so that a cell is the same in every table."""

    def __init__(
        self,
        *,
        variance: Any | None = None,
        maximum: int | None = None,
        forbidden: int = 0,
        stay: Any | None = None,
        sd_percent: Any | None = None,
        maximum_percent: Any | None = None,
        contributions: int = 1,
        key_file: Any | None = None,
        key_by: Sequence[str] = (),
    ) -> None: ...

from discretion.risk.identity.uniqueness import PopulationUniqueness as _PopulationUniqueness

class PopulationUniqueness(_PopulationUniqueness):
    """Share of the people who are alone with their quasi-identifier values in the population."""

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

from discretion.privacy.average_risk import PopulationUniquenessBound as _PopulationUniquenessBound

class PopulationUniquenessBound(_PopulationUniquenessBound):
    """Only a small share of the records belongs to people who are unique in the population."""

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

from discretion.protect.pram import Pram as _Pram

class Pram(_Pram):
    """Move each category to another one at random, by the probabilities of a transition matrix."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        keep_share: float | None = None,
        matrix: Any | None = None,
        spread: Literal['proportional', 'uniform'] = 'proportional',
        invariant: bool = False,
        by_person: bool = False,
        person: str = '',
    ) -> None: ...

from discretion.utility.hierarchy_loss import Precision as _Precision

class Precision(_Precision):
    """How much detail is left, from 1 (nothing generalized) to 0 (everything at the top of its hierarchy)."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

from discretion.anonymize.private_generalization import PrivateGeneralization as _PrivateGeneralization

class PrivateGeneralization(_PrivateGeneralization):
    """Publish a random sample of the records in broad, declared classes, and only classes with enough records."""

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float = 1e-09,
        domain: Mapping[str, Any],
        groups: Mapping[str, Any] = ...,
        person: str = '',
        coarser: Mapping[str, Sequence[Any | Sequence[int] | Sequence[float] | Sequence[Any]]] = ...,
        search_epsilon: float = 0.0,
        share: float | None = None,
        drop: Sequence[str] = (),
    ) -> None: ...

from discretion.protect.synthetic.private_marginals import PrivateMarginals as _PrivateMarginals

class PrivateMarginals(_PrivateMarginals):
    """Replace all rows by new ones drawn from noisy tables of each column and each pair of columns."""

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float = 1e-09,
        domain: Mapping[str, Any],
        person: str = '',
        rows_per_person: int = 1,
        rows: int | None = None,
        pairs: Sequence[Any] = (),
        drop: Sequence[str] = (),
    ) -> None: ...

from discretion.risk.identity.probabilistic import ProbabilisticLinkage as _ProbabilisticLinkage

class ProbabilisticLinkage(_ProbabilisticLinkage):
    """Share of people an intruder finds by weighing, column by column, agreement against coincidence."""

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

from discretion.privacy.population import Profitability as _Profitability

class Profitability(_Profitability):
    """Every record brings its publisher more than it costs, against an attacker who attacks where that pays."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        benefit: float,
        loss: float,
        gain: float,
        cost: float,
        attacks: Literal['allowed', 'none'] = 'none',
        population: Any | None = None,
        frequency: str = '',
    ) -> None: ...

from discretion.protect.microaggregation_groups import ProjectionMicroaggregation as _ProjectionMicroaggregation

class ProjectionMicroaggregation(_ProjectionMicroaggregation):
    """Replace values by the mean of k records that follow each other along one axis through the data."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        k: int = 3,
        aggregate: Literal['mean', 'median', 'mode'] = 'mean',
        replace: Literal['all', 'one'] = 'all',
        integers: bool = False,
        precision: Literal['original', 'full'] = 'full',
        axis: Literal['component', 'robust', 'pursuit', 'z-scores'] = 'component',
        sort_by: str | None = None,
    ) -> None: ...

from discretion.utility.propensity import Propensity as _Propensity

class Propensity(_Propensity):
    """How well a model tells released records from original ones, between 0 (not at all) and 1 (always)."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        model: Literal['tree', 'logit'] = 'tree',
        permutations: int = 20,
        null: Literal['samples', 'synthpop', 'refit'] = 'samples',
        smallest_leaf: int = 20,
        leaf_share: float = 0.002,
    ) -> None: ...

from discretion.protect.identifiers import Pseudonymize as _Pseudonymize

class Pseudonymize(_Pseudonymize):
    """Replace identifiers by pseudonyms that only the holder of a secret key can reproduce."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        key_file: str | Path,
    ) -> None: ...

from discretion.risk.identity.suda import QuasiIdentifiers as _QuasiIdentifiers

class QuasiIdentifiers(_QuasiIdentifiers):
    """How well subsets of the columns tell the records apart, and which columns identify."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        known: int = 3,
        max_size: int | None = None,
        missing: Literal['category', 'ignore'] = 'category',
        smaller_than: int | None = None,
    ) -> None: ...

from discretion.protect.pram import RandomizedResponse as _RandomizedResponse

class RandomizedResponse(_RandomizedResponse):
    """Replace each answer, with a given probability, by one drawn evenly from all possible answers."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        truth_share: float = 0.5,
        answers: Any | None = None,
        by_person: bool = False,
        person: str = '',
    ) -> None: ...

from discretion.utility.marginals import RangeQueries as _RangeQueries

class RangeQueries(_RangeQueries):
    """Mean relative error of random range counts."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        queries: int = 500,
        size: int = 2,
        selectivity: float = 0.1,
        floor_share: float = 0.001,
    ) -> None: ...

from discretion.risk.attribute.intervals import RankInterval as _RankInterval

class RankInterval(_RankInterval):
    """Share of values that lie within a percentage of the ranks around the published value."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        knows_method: bool | None = None,
        percent: float = 10.0,
    ) -> None: ...

from discretion.protect.rank_swap import RankSwap as _RankSwap

class RankSwap(_RankSwap):
    """Exchange each value with a value whose rank lies at most a given percentage of the records away."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        percent: float,
        bottom_share: float = 0.0,
        top_share: float = 0.0,
    ) -> None: ...

from discretion.risk.identity.uniqueness import RareValues as _RareValues

class RareValues(_RareValues):
    """Share of records that stand out by a single published value: a rare category, or an extreme number."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        k: int = 3,
    ) -> None: ...

from discretion.protect.recode import Recode as _Recode

class Recode(_Recode):
    """Replace the numbers of a column by labeled intervals."""

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

from discretion.privacy.l_diversity import RecursiveLDiversity as _RecursiveLDiversity

class RecursiveLDiversity(_RecursiveLDiversity):
    """In every class the most frequent sensitive value is not much more frequent than the rarer ones together."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        sensitive: Sequence[str] = (),
        c: float,
        l: int,
    ) -> None: ...

from discretion.utility.classification import RegressionUtility as _RegressionUtility

class RegressionUtility(_RegressionUtility):
    """Share of the variance that a regression fitted to the release explains in people it has not seen."""

    def __init__(
        self,
        *,
        target: str = '',
        features: Sequence[str] = (),
        model: Any = ...,
        folds: int = 5,
    ) -> None: ...

from discretion.privacy.average_risk import ReidentificationBound as _ReidentificationBound

class ReidentificationBound(_ReidentificationBound):
    """An attack on the release finds at most a given share of the people."""

    def __init__(
        self,
        *,
        at_most: float,
        measure: Any = ...,
    ) -> None: ...

from discretion.protect.sample import ReissueWeights as _ReissueWeights

class ReissueWeights(_ReissueWeights):
    """Replace each sampling weight by the mean weight of the records that look alike in published columns."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        weight: str | None = None,
        smallest: int = 10,
        digits: int = 6,
    ) -> None: ...

from discretion.risk.synthetic.attacks import ReplicatedUniques as _ReplicatedUniques

class ReplicatedUniques(_ReplicatedUniques):
    """Share of the original records that are alone with their key values, in the data and in the release (repU)."""

    def __init__(
        self,
        *,
        holdout: Any | None = None,
        confidence: float = 0.95,
        columns: Sequence[str] = (),
    ) -> None: ...

from discretion.tables.rules.magnitude import RequestRule as _RequestRule

class RequestRule(_RequestRule):
    """Cells that show much of a respondent who asked for protection are sensitive."""

    def __init__(
        self,
        *,
        negatives: Literal['refuse', 'absolute'] = 'refuse',
        percent: float = 70,
    ) -> None: ...

from discretion.protect.edit_rules import RestoreEditRules as _RestoreEditRules

class RestoreEditRules(_RestoreEditRules):
    """Change values that break edit rules so that they hold again: clip to ranges, set what follows, add sums anew."""

    def __init__(
        self,
        *,
        rules: Sequence[str] = (),
    ) -> None: ...

from discretion.tables.protections import Restructure as _Restructure

class Restructure(_Restructure):
    """Roll categories up until no cell is sensitive, each time the step that loses fewest cells per sensitive one."""

    def __init__(
        self,
        *,
        keep: Sequence[str] = (),
        ordered: Sequence[str] = (),
    ) -> None: ...

from discretion.privacy.integral_privacy import ResultPrivacy as _ResultPrivacy

class ResultPrivacy(_ResultPrivacy):
    """Given association rules are not found by whoever mines the release at the stated thresholds."""

    def __init__(
        self,
        *,
        rules: Sequence[Any],
        min_support: float,
        min_confidence: float = 0.0,
        columns: Sequence[str] = (),
        missing: Literal['category', 'wildcard', 'ignore'] = 'wildcard',
    ) -> None: ...

from discretion.utility.marginals import RobustEigenDifference as _RobustEigenDifference

class RobustEigenDifference(_RobustEigenDifference):
    """Mean relative difference of the eigenvalues of robust correlation matrices."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        support_share: float | None = None,
    ) -> None: ...

from discretion.protect.recode import Round as _Round

class Round(_Round):
    """Round each value to a multiple of a base."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        base: float,
        how: Literal['nearest', 'random', 'up', 'down'] = 'nearest',
    ) -> None: ...

from discretion.tables.protections import RoundControlled as _RoundControlled

class RoundControlled(_RoundControlled):
    """Round every cell to a multiple of a base so that totals stay the sums of their parts, changing least."""

    def __init__(
        self,
        *,
        base: float,
        max_steps: int = 3,
        seconds: float = 60.0,
        gap: float = 0.0,
    ) -> None: ...

from discretion.tables.protections import RoundRandom as _RoundRandom

class RoundRandom(_RoundRandom):
    """Round every cell to a neighboring multiple of a base by chance, so that it is right on average."""

    def __init__(
        self,
        *,
        base: float,
        totals: Literal['independent', 'added'] = 'independent',
        keys: bool = False,
    ) -> None: ...

from discretion.risk.attribute.column_dependence import RowOrder as _RowOrder

class RowOrder(_RowOrder):
    """Share of true values that an intruder guesses from nothing but where a row stands in the released file."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        known_share: float = 0.05,
        sd_share: float = 0.05,
    ) -> None: ...

from discretion.protect.sample import Sample as _Sample

class Sample(_Sample):
    """Publish a random sample of the records and adjust their weights."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        share: float | None = None,
        size: int | None = None,
        household: bool | str = False,
        weight: str | None = None,
    ) -> None: ...

from discretion.risk.identity.uniqueness import SampleUniqueness as _SampleUniqueness

class SampleUniqueness(_SampleUniqueness):
    """Share of records that nobody else shares the quasi-identifier values of."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'wildcard', 'ignore'] = 'category',
        share: float | None = None,
        population: Any | None = None,
    ) -> None: ...

from discretion.privacy.average_risk import SampleUniquenessBound as _SampleUniquenessBound

class SampleUniquenessBound(_SampleUniquenessBound):
    """Only a small share of the records is alone with its quasi-identifiers in the file."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        share: float,
    ) -> None: ...

from discretion.risk.attribute.intervals import SdInterval as _SdInterval

class SdInterval(_SdInterval):
    """Share of values whose published value is closer than a percentage of the standard deviation."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        knows_method: bool | None = None,
        percent: float = 10.0,
    ) -> None: ...

from discretion.protect.synthetic.sequential_trees import SequentialTrees as _SequentialTrees

class SequentialTrees(_SequentialTrees):
    """Draw rows column by column, each from a tree that was fitted on the columns before it."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        rows: int | None = None,
        copies: int = 1,
        constants: Literal['refuse', 'keep'] = 'refuse',
        extremes: Literal['code', 'keep'] = 'code',
        rules: Sequence[str] = (),
        records: Literal['all', 'risky'] = 'all',
        measure: Any = 'sample-uniqueness',
        at_most: float | None = None,
        others: float = 1.0,
        order: Sequence[str] = (),
        min_leaf: int = 5,
        pruning: float = 3.0,
        smoothing: float = 10.0,
        min_support: int = 3,
    ) -> None: ...

from discretion.protect.shuffle import Shuffle as _Shuffle

class Shuffle(_Shuffle):
    """Deal the values of columns out anew: who gets which is drawn from a model on other columns."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        predictors: Sequence[str] = (),
    ) -> None: ...

from discretion.risk.synthetic.attacks import SinglingOut as _SinglingOut

class SinglingOut(_SinglingOut):
    """Share of descriptions learned from the release that fit exactly one person in the data, beyond chance."""

    def __init__(
        self,
        *,
        holdout: Any | None = None,
        confidence: float = 0.95,
        attacks: int = 2000,
        columns: Sequence[str] = (),
        size: int = 3,
    ) -> None: ...

from discretion.tables.rules.magnitude import SpecialRule as _SpecialRule

class SpecialRule(_SpecialRule):
    """Cells at a level of detail that may not go out are sensitive, however many respondents they have."""

    def __init__(
        self,
        *,
        detail: Mapping[str, int],
        range_percent: float = 30,
    ) -> None: ...

from discretion.utility.errors import Sse as _Sse

class Sse(_Sse):
    """Sum of squared errors between original and released values."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
    ) -> None: ...

from discretion.risk.identity.suda import Suda as _Suda

class Suda(_Suda):
    """Share of records that are special: a few of their values are enough to be alone, so a match is likely right."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        max_size: int | None = None,
        share: float = 0.01,
        threshold: float = 0.1,
        scoring: Literal['product', 'supersets'] = 'product',
        missing: Literal['category', 'wildcard', 'ignore'] | Literal['skip'] = 'category',
    ) -> None: ...

from discretion.tables.protections import Suppress as _Suppress

class Suppress(_Suppress):
    """Suppress complementary cells so that sensitive cells cannot be computed from others, and audit the result."""

    def __init__(
        self,
        *,
        engine: Any = ...,
        cost: Literal['value', 'frequency', 'unit'] | Any | None = None,
    ) -> None: ...

from discretion.protect.suppress import SuppressByRisk as _SuppressByRisk

class SuppressByRisk(_SuppressByRisk):
    """Make cells of the records missing whose risk is above a bound, or drop these records."""

    def __init__(
        self,
        *,
        at_most: float,
        measure: Any = ...,
        columns: Sequence[str] = (),
        drop: bool = False,
        limit: float = 1.0,
    ) -> None: ...

from discretion.protect.suppress import SuppressRecords as _SuppressRecords

class SuppressRecords(_SuppressRecords):
    """Drop the records of classes that break privacy models, up to a limit."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        k: int | None = None,
        models: Sequence[Any] = (),
        limit: float = 0.05,
    ) -> None: ...

from discretion.privacy.t_closeness import TCloseness as _TCloseness

class TCloseness(_TCloseness):
    """The sensitive values of every class are distributed almost as in the whole table."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        missing: Literal['category', 'ignore'] = 'category',
        sensitive: Sequence[str] = (),
        t: float,
        distance: Literal['ordered', 'equal', 'hierarchical'] = 'ordered',
    ) -> None: ...

from discretion.protect.record_swap import TargetedRecordSwap as _TargetedRecordSwap

class TargetedRecordSwap(_TargetedRecordSwap):
    """Let households at risk exchange places with similar households in another area, and others at random."""

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

from discretion.tables.rules.magnitude import Threshold as _Threshold

class Threshold(_Threshold):
    """Cells with fewer than a minimum of respondents are sensitive."""

    def __init__(
        self,
        *,
        minimum: int = 3,
        zeros: Literal['safe', 'sensitive'] = 'safe',
        range_percent: float = 30,
    ) -> None: ...

from discretion.protect.recode import TopCode as _TopCode

class TopCode(_TopCode):
    """Replace all values above a bound by one value."""

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

from discretion.risk.attribute.group_attack import ValueAgreement as _ValueAgreement

class ValueAgreement(_ValueAgreement):
    """Share of values that the release shows as they are in the original."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        tolerance: float = 0.0,
    ) -> None: ...

from discretion.utility.errors import VariableChange as _VariableChange

class VariableChange(_VariableChange):
    """Mean distance between original and released values, each between 0 and 1."""

    def __init__(
        self,
        *,
        columns: Sequence[str] = (),
        standardize: bool = True,
    ) -> None: ...

from discretion.protect.microaggregation import VariableMdav as _VariableMdav

class VariableMdav(_VariableMdav):
    """Replace values by the mean of a group of k to 2k−1 similar records, larger where records lie close together."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        k: int = 3,
        aggregate: Literal['mean', 'median', 'mode'] = 'mean',
        replace: Literal['all', 'one'] = 'all',
        integers: bool = False,
        precision: Literal['original', 'full'] = 'full',
        gamma: float = 0.2,
    ) -> None: ...

from discretion.protect.noise import VariancePreservingNoise as _VariancePreservingNoise

class VariancePreservingNoise(_VariancePreservingNoise):
    """Shrink values toward their mean and add noise that makes up for it, so that variances stay the same."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        precision: Literal['original', 'full'] = 'original',
        keep_zeros: bool = False,
        keep_sign: bool = False,
        lower: Any | None = None,
        upper: Any | None = None,
        variance_share: float,
    ) -> None: ...

from discretion.risk.attribute.group_attack import WeightDisclosure as _WeightDisclosure

class WeightDisclosure(_WeightDisclosure):
    """Share of records of which the published weight tells a stratum, an area or another quasi-identifier."""

    def __init__(
        self,
        *,
        weight: str = '',
        columns: Sequence[str] = (),
    ) -> None: ...

from discretion.protect.outliers import WinsorizeOutliers as _WinsorizeOutliers

class WinsorizeOutliers(_WinsorizeOutliers):
    """Pull records that lie far from the bulk of the data back onto an ellipse around it."""

    def __init__(
        self,
        *,
        by: Sequence[str] = (),
        columns: Sequence[str] = (),
        quantile: float = 0.975,
        precision: Literal['original', 'full'] = 'original',
    ) -> None: ...
