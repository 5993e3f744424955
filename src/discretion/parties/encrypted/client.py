"""Owners encrypt and send their columns; the holder of the keys opens the totals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from discretion.errors import DataError, DiscretionError, PlanError, need, unknown
from discretion.kernels.arrays import Floats
from discretion.parties.encrypted.keys import SLOTS, VALUE_BITS, Job, Keys, tenseal, token_id
from discretion.parties.encrypted.server import framed, unframed

_IMPLAUSIBLE = (
    "the totals cannot be those of people within the declared bounds: a part was made under another key or other"
    " bounds, or the server did not add up what it got"
)


@dataclass(frozen=True)
class Totals:
    """What the totals say; moments only under CKKS, whose figures are near and for the holder of the keys only."""

    parts: int
    people: float
    sums: dict[str, float]
    exact: bool
    products: Floats | None = None
    """sums of products of columns, in units"""

    @property
    def means(self) -> dict[str, float]:
        """Give the mean of each column."""
        return {name: total / self.people for name, total in self.sums.items()}

    @property
    def covariances(self) -> Floats:
        """Give the covariances (over n − 1) of the columns, in their order."""
        if self.products is None:
            raise PlanError("exact totals have no products; take the scheme ckks")
        means = np.array(list(self.means.values()))
        return np.asarray((self.products - self.people * np.outer(means, means)) / (self.people - 1))

    @property
    def variances(self) -> dict[str, float]:
        """Give the variance (over n − 1) of each column."""
        return dict(zip(self.sums, np.diag(self.covariances).tolist(), strict=True))

    def regression(self, target: str, on: Sequence[str]) -> dict[str, float]:
        """Give the least-squares coefficients of one column on others."""
        names = list(self.sums)
        for name in (target, *on):
            if name not in names:
                raise PlanError(unknown("column", name, names))
        cov = self.covariances
        own, others = names.index(target), [names.index(name) for name in on]
        slopes = np.linalg.solve(cov[np.ix_(others, others)], cov[others, own])
        means = self.means
        found = dict(zip(on, slopes.tolist(), strict=True))
        return {"intercept": means[target] - sum(found[name] * means[name] for name in on), **found}


def _ask(method: str, url: str, verify: str | bool = True, **given: Any) -> bytes:
    httpx = need("httpx", "the server of encrypted totals", "parties")
    try:
        reply = httpx.request(method, url, timeout=600, verify=verify, trust_env=False, **given)
    except httpx.HTTPError as error:
        raise DiscretionError(f"the server cannot be reached: {type(error).__name__}") from None
    if reply.status_code >= 400:
        text = reply.json().get("error", "") if "json" in reply.headers.get("content-type", "") else ""
        raise DataError(f"the server refused ({reply.status_code}): {text}")
    return bytes(reply.content)


def begin(server: str, keys: Keys | str | Path, verify: str | bool = True) -> str:
    """Open the job on a server: it gets the public key and hashes of the tokens, and nothing else."""
    keys = keys if isinstance(keys, Keys) else Keys(keys)
    job = keys.job
    about = {
        "scheme": job.scheme, "columns": len(job.columns), "digest": job.digest, "holder": token_id(keys.token),
        "owners": keys.owners(),
    }  # fmt: skip
    message = framed([json.dumps(about).encode(), job.public("compute")])
    _ask("PUT", f"{server}/v1/jobs/{job.id}", verify, content=message)
    return job.id


def contribute(server: str, job: Job | str | Path, data: Any, verify: str | bool = True) -> int:
    """Encrypt the columns of a job with its public key and send them; give the number of people.

    `job` is the folder that the holder of the keys made for this owner (`owners/NAME`); each owner sends once.
    """
    job = job if isinstance(job, Job) else Job(job)
    proof = {"Authorization": f"Bearer {job.token}", "Job-Digest": job.digest}
    people, blobs = encrypt(job, data)
    _ask("POST", f"{server}/v1/jobs/{job.id}/parts", verify, content=framed(blobs), headers=proof)
    return people


def encrypt(job: Job, data: Any) -> tuple[int, list[bytes]]:
    """Encrypt the columns of a job: totals by Paillier, blocks of rows by CKKS; give also the number of people."""
    from discretion.parties.session import prepared

    ready = prepared(job.columns, data)
    people = ready.height
    if people < job.least_people:
        raise DataError(f"{people:,} people; the job asks every owner for {job.least_people:,}")
    columns = [ready[name].to_numpy().astype(np.float64) for name in job.columns]
    specs = list(job.columns.values())
    if job.paillier is not None:
        counters = [people]
        for values, spec in zip(columns, specs, strict=True):
            steps = np.rint((values - float(spec.lower or 0.0)) / float(spec.step or 1.0)).astype(np.int64)
            counters.append(int(steps.sum()))
        size = (int(job.paillier.square).bit_length() + 7) // 8
        blobs = [job.paillier.encrypt(number).to_bytes(size, "big") for number in job.paillier.pack(counters)]
    else:
        context = tenseal().context_from(job.public("encrypt"))
        scaled = [np.ones(people), *((x - spec.middle) / spec.half for x, spec in zip(columns, specs, strict=True))]
        blobs = []
        for start in range(0, people, SLOTS):
            for values in scaled:
                block = np.zeros(SLOTS)
                part = values[start : start + SLOTS]
                block[: len(part)] = part
                blobs.append(tenseal().ckks_vector(context, block.tolist()).serialize())
    return people, blobs


def collect(server: str, keys: Keys | str | Path, least_parts: int = 3, verify: str | bool = True) -> Totals:
    """Fetch the encrypted totals and open them; refuse when fewer owners than `least_parts` contributed.

    This closes the job: the server takes no more parts, so that two openings cannot be subtracted from each other.
    """
    keys = keys if isinstance(keys, Keys) else Keys(keys)
    proof = {"Authorization": f"Bearer {keys.token}"}
    answer = _ask(
        "GET", f"{server}/v1/jobs/{keys.job.id}/result", verify, headers=proof, params={"least": str(least_parts)}
    )
    parts, *blobs = unframed(answer)
    if int(parts) < least_parts:
        raise DataError(f"{int(parts)} owners contributed; {least_parts} are needed")
    return decrypt(keys, int(parts), blobs)


def decrypt(keys: Keys, parts: int, blobs: Sequence[bytes]) -> Totals:
    """Open encrypted totals; refuse what cannot be the totals of people within the declared bounds."""
    job = keys.job
    specs = list(job.columns.values())
    if job.paillier is not None:
        secret = keys.paillier()
        numbers = [secret.decrypt(int.from_bytes(blob, "big")) for blob in blobs]
        people, *totals = job.paillier.unpack(numbers, len(specs) + 1)
        sums = {}
        if not parts <= people < parts << VALUE_BITS:
            raise DataError(_IMPLAUSIBLE)
        for name, spec, total in zip(job.columns, specs, totals, strict=True):
            if total > people * round(2 * spec.half / float(spec.step or 1.0)):
                raise DataError(_IMPLAUSIBLE)
            exact = Fraction(str(spec.step)) * total + Fraction(str(spec.lower)) * people
            sums[name] = float(exact)
        return Totals(parts, people, sums, exact=True)
    context = keys.ckks()
    opened = [float(tenseal().ckks_vector_from(context, blob).decrypt()[0]) for blob in blobs]
    p = len(specs)
    people, scaled, flat = round(opened[0]), np.array(opened[1 : p + 1]), opened[p + 1 :]
    most = people * (1 + 1e-6) + 1e-3  # columns are scaled to −1…1: neither sums nor products can be more
    if people < parts or abs(opened[0] - people) > 1e-2 or max(map(abs, opened)) > most:
        raise DataError(_IMPLAUSIBLE)
    middle, half = np.array([spec.middle for spec in specs]), np.array([spec.half for spec in specs])
    inner = np.zeros((p, p))
    inner[np.triu_indices(p)] = flat
    inner = np.triu(inner) + np.triu(inner, 1).T
    sums_of = middle * people + half * scaled
    cross = np.outer(middle, half * scaled)
    products = np.outer(half, half) * inner + cross + cross.T + people * np.outer(middle, middle)
    return Totals(parts, people, dict(zip(job.columns, sums_of.tolist(), strict=True)), False, products)
