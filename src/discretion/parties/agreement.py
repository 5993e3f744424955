"""The agreement: who computes what together, what is shown of it, and everybody's signature below the same text."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import ssl
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from discretion.data.documents import Document, DocumentKind, Faults, Place, parse_yaml, read_document
from discretion.errors import DataError, PlanError, need
from discretion.parties.statistics import KINDS, Statistic, completed, parse_statistic

# Who a party is: a self-signed Ed25519 certificate that the agreement holds, and the key that only its owner has.

_DAYS = 825
_WHAT = "computing between parties"


def make_identity(name: str, folder: Path, *, overwrite: bool = False) -> tuple[Path, Path]:
    """Write `name.crt`, which everybody may see, and `name.key`, which only its owner may read."""
    from discretion.data.write import check_target, write_text

    x509 = need("cryptography.x509", _WHAT, "parties")
    forms = need("cryptography.hazmat.primitives.serialization", _WHAT, "parties")
    key = need("cryptography.hazmat.primitives.asymmetric.ed25519", _WHAT, "parties").Ed25519PrivateKey.generate()
    place = folder / f"{name}.crt", folder / f"{name}.key"
    for path in place:
        check_target(path, overwrite)
    subject = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, None)
    )
    secret = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    write_text(place[1], secret.decode(), overwrite=overwrite, private=True)
    write_text(place[0], certificate.public_bytes(forms.Encoding.PEM).decode(), overwrite=overwrite)
    return place


def fingerprint(certificate: str) -> str:
    """Give the SHA-256 of a certificate in PEM; raise `ValueError` unless it is exactly one."""
    if certificate.count("-----BEGIN") != 1:
        raise ValueError("expected one certificate in PEM, beginning with -----BEGIN CERTIFICATE-----")
    try:
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.strip())).hexdigest()
    except ValueError:
        raise ValueError("this is not a certificate in PEM") from None


def check_private(path: Path) -> Path:
    """Raise unless a secret file is there and only its owner can read it."""
    if not path.is_file():
        raise DataError(f"there is no file {str(path)!r}; `discretion party key` makes certificate and key")
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise DataError(f"others on this machine can read {path}; chmod 600 {path}")
    return path


def sign(key: Path, message: bytes) -> str:
    """Sign with a party's key."""
    forms = need("cryptography.hazmat.primitives.serialization", _WHAT, "parties")
    content = check_private(key).read_bytes()
    try:
        secret = forms.load_pem_private_key(content, None)
        return bytes(secret.sign(message)).hex()
    except (ValueError, TypeError):
        raise DataError(f"{key} does not hold the key of a party") from None


def signed_by(certificate: str, message: bytes, signature: str) -> bool:
    """Say whether a signature is that of the certificate's owner."""
    wrong = need("cryptography.exceptions", _WHAT, "parties").InvalidSignature
    public = need("cryptography.x509", _WHAT, "parties").load_pem_x509_certificate(certificate.encode()).public_key()
    try:
        public.verify(bytes.fromhex(signature), message)
    except (wrong, ValueError, TypeError):
        return False
    return True


def tls(purpose: ssl.Purpose, certificates: list[str], own: str, key: Path) -> ssl.SSLContext:
    """Give a context for mutual TLS 1.3 that trusts exactly these certificates; whose is whose is checked after it."""
    server = purpose is ssl.Purpose.CLIENT_AUTH
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    if server:
        context.num_tickets = 0
    context.load_verify_locations(cadata="\n".join(certificates))
    with tempfile.NamedTemporaryFile("w", suffix=".crt") as file:
        file.write(own)
        file.flush()
        try:
            context.load_cert_chain(file.name, check_private(key), password="")
        except (ssl.SSLError, OSError):
            raise DataError(f"the key in {key} does not belong to the certificate in the agreement") from None
    return context


_KIND = DocumentKind(
    "agreement", "an agreement is a mapping with entries such as `parties`, `columns` and `statistics`"
)
_MOST_PARTIES = 15
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


class _Declared(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, protected_namespaces=()
    )


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise ValueError("expected host:port, such as hospital-a.example.org:7000")
    return text


def _one_certificate(text: str) -> str:
    fingerprint(text)
    return text.strip() + "\n"


def checked_party(name: str) -> str:
    """Raise unless a text can be a party's name."""
    if not _NAME.fullmatch(name):
        raise PlanError("a party's name has lower-case letters, digits and hyphens, 40 at most")
    return name


class PartySpec(_Declared):
    """One party: where it listens and the certificate that it proves itself with."""

    address: Annotated[str, AfterValidator(_address)]
    """host:port where the others reach this party"""
    certificate: Annotated[str, AfterValidator(_one_certificate)]
    """its certificate in PEM, or the name of a file beside the agreement that holds it"""

    @property
    def host(self) -> str:
        """Name the machine."""
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """Give the port."""
        return int(self.address.rpartition(":")[2])


class AgreedColumn(_Declared):
    """What every party's file has under this name: numbers between bounds, or one of the categories."""

    lower: float | None = None
    """smallest number that is allowed"""
    upper: float | None = None
    """largest number that is allowed"""
    step: float | None = Field(None, gt=0)
    """numbers are whole multiples of this; needed for sums and quantiles, 1 for whole numbers"""
    outside: Literal["refuse", "clamp"] = "refuse"
    """what a party does with numbers beyond the bounds: end the computation, or move them to the bound"""
    categories: tuple[str | int, ...] = ()
    """all categories, in the order in which tables show them"""

    @model_validator(mode="after")
    def _one_kind(self) -> AgreedColumn:
        if self.categories:
            if self.lower is not None or self.upper is not None or self.step is not None:
                raise ValueError("a column has bounds or categories, not both")
            if len(set(map(str, self.categories))) < len(self.categories) or len(self.categories) < 2:
                raise ValueError("at least two categories are needed, and each once")
            if len({isinstance(category, str) for category in self.categories}) > 1:
                raise ValueError("categories are all texts or all whole numbers")
        elif self.lower is None or self.upper is None or not self.lower < self.upper:
            raise ValueError("a column needs `lower` and a larger `upper`, or `categories`")
        return self

    @property
    def middle(self) -> float:
        """Give the middle between the bounds."""
        return ((self.lower or 0.0) + (self.upper or 0.0)) / 2

    @property
    def half(self) -> float:
        """Give half the distance between the bounds."""
        return ((self.upper or 0.0) - (self.lower or 0.0)) / 2


class PeopleSpec(_Declared):
    """How many people (rows) there must be; checked inside the protocol, and only whether all hold is shown."""

    each: int = Field(100, ge=1)
    """at least so many people of every party"""
    total: int = Field(1000, ge=1)
    """at least so many people of all parties together"""


class DominanceSpec(_Declared):
    """The dominance rule over parties."""

    parties: int = Field(1, ge=1)
    """the so many largest parties together"""
    percent: float = Field(90, gt=0, le=100)
    """contribute at most this much of the total"""


class RulesSpec(_Declared):
    """When one party's contribution could be computed too closely from the result by the others."""

    p_percent: float = Field(10, ge=0, le=100)
    """a coalition that subtracts what it has itself is off by at least this much of every other party's contribution"""
    dominance: DominanceSpec = DominanceSpec()
    """the largest parties do not make up nearly all of the total"""


class NoiseSpec(_Declared):
    """Joint noise, drawn in shares so that no coalition knows enough of it to take it away."""

    epsilon: float = Field(gt=0, le=20)
    """privacy loss of all statistics of one run together, against any coalition of the tolerated size"""


class Agreement(_Declared):
    """Everything that the parties have to agree on; frozen, and the same text for all."""

    title: str = ""
    """what this is about, for people"""
    id: str = Field(pattern=r"^[0-9a-f]{16,64}$")
    """a random number, so that a signature is good for this agreement only"""
    parties: dict[str, PartySpec]
    """name of each party → address and certificate"""
    columns: dict[str, AgreedColumn] = Field(default_factory=dict)
    """columns that every file has, with bounds or categories"""
    statistics: tuple[Annotated[Statistic, BeforeValidator(parse_statistic)], ...] = Field(min_length=1)
    """what is computed and shown, and nothing else"""
    people: PeopleSpec = PeopleSpec()
    """least numbers of people"""
    rules: RulesSpec = RulesSpec()
    """rules over parties"""
    noise: NoiseSpec | None = None
    """joint noise; without it results are exact up to rounding"""
    missing: Literal["refuse", "skip"] = "refuse"
    """rows with a missing value in a column of the agreement end the computation, or are left out"""
    time_out: float = Field(60, ge=1, le=86_400)
    """seconds without a sign of life of a party after which the others stop"""
    wait: float = Field(600, ge=1, le=86_400)
    """seconds to wait for all parties to come"""
    runs: int = Field(1, ge=1, le=1000)
    """how often the parties may compute under this agreement; a run that was refused by sizes or rules counts too"""

    @model_validator(mode="after")
    def _consistent(self) -> Agreement:
        faults: dict[Place, str] = {}
        for name in self.parties:
            if not _NAME.fullmatch(name):
                faults["parties", name] = "a party's name has lower-case letters, digits and hyphens, 40 at most"
        prints = [fingerprint(party.certificate) for party in self.parties.values()]
        if len(set(prints)) < len(prints):
            faults["parties",] = "every party needs a certificate of its own"
        two = [statistic for statistic in self.statistics if statistic.kind == "intersection"]
        if two and (len(self.statistics) > 1 or len(self.parties) != 2):
            faults["statistics",] = "an intersection is computed by exactly two parties, alone in its agreement"
        elif not two and not 3 <= len(self.parties) <= _MOST_PARTIES:
            faults["parties",] = (
                f"3 to {_MOST_PARTIES} parties are needed: with two each would know the other's part of every result"
            )
        for place, statistic in enumerate(self.statistics):
            for text in statistic.faults(self):
                faults["statistics", place, statistic.kind] = text
        for one, other, why in completed(self.statistics) if self.noise is None else ():
            kinds = [f"statistic {place + 1} ({self.statistics[place].kind})" for place in sorted((one, other))]
            faults["statistics", max(one, other)] = (
                f"{' and '.join(kinds)} in one agreement would tell cells that are left empty: {why};"
                " take one of them, or noise"
            )
        if self.noise and self.missing == "skip":
            faults["missing",] = "with noise every row counts: a person with a missing value would change the number"
        if faults:
            raise Faults(faults)
        return self

    @classmethod
    def load(cls, path: str | Path) -> Agreement:
        """Read an agreement; every fault at once, with its line."""
        return cls._of(read_document(path, _KIND), Path(path).resolve().parent)

    @classmethod
    def parse(cls, text: str, source: str = "agreement", base: Path | None = None) -> Agreement:
        """Parse the text of an agreement; certificates may stand in files beside it."""
        return cls._of(parse_yaml(text, source, _KIND), base or Path())

    @classmethod
    def _of(cls, document: Document, base: Path) -> Agreement:
        _read_certificates(document, base)
        # entries with faults of their own are not missing
        return document.validated(cls, _siblings, counts=lambda item: item["type"] != "too_short" or not item["input"])

    @property
    def threshold(self) -> int:
        """How many parties may put their heads together without learning more than the result."""
        return max(1, (len(self.parties) - 1) // 2)

    @property
    def names(self) -> tuple[str, ...]:
        """The parties in the order in which the protocol numbers them."""
        return tuple(self.parties)

    def canonical(self) -> bytes:
        """Give the one text that everybody signs: JSON with sorted keys, certificates by their fingerprint."""
        plain = self.model_dump(mode="json", exclude={"statistics", "parties"})
        plain["statistics"] = [{one.kind: one.model_dump(mode="json")} for one in self.statistics]
        plain["parties"] = [
            [name, party.address, fingerprint(party.certificate)] for name, party in self.parties.items()
        ]
        return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @property
    def digest(self) -> str:
        """Give the SHA-256 of the canonical text."""
        return hashlib.sha256(b"discretion agreement 1\n" + self.canonical()).hexdigest()

    def party(self, name: str) -> PartySpec:
        """Give a party, or say which there are."""
        from discretion.errors import unknown

        if name not in self.parties:
            raise PlanError(unknown("party", name, self.parties))
        return self.parties[name]

    def reveals(self) -> list[str]:
        """Say line by line what everybody will see."""
        found = []
        for one in self.statistics:
            found += [f"{one.kind}: {text}" for text in one.reveals(self)]
        if self.statistics[0].kind != "intersection":
            found.insert(0, "whether every size and rule of the agreement holds (one bit for all of them)")
        return found

    def warnings(self) -> list[str]:
        """Say line by line what the result can disclose although every size and rule holds."""
        found = [f"{one.kind}: {text}" for one in self.statistics for text in one.warnings(self)]
        if self.statistics[0].kind != "intersection":
            if self.rules.p_percent == 0:
                found.append("without a p% rule one party's contribution can be computed from the result by another")
            if self.people.each < 10:
                found.append(f"a party may have no more than {self.people.each} people")
        if self.runs > 1 and not self.noise:
            found.append("what changes between two runs is told by their difference: people who came or left")
        return found

    def describe(self) -> dict[str, Any]:
        """Say what was agreed, for people and programs."""
        m, t = len(self.parties), self.threshold
        noise = "none: results are exact up to rounding"
        if self.noise:
            noise = (
                f"ε = {self.noise.epsilon:g} a run, {self.noise.epsilon * self.runs:g} in all, for one person of one"
                f" party whose values change, against coalitions of {t} of {m}"
            )
        elif self.statistics[0].kind == "intersection":
            noise = self.statistics[0].reveals(self)[-1]
        return {
            "title": self.title,
            "digest": self.digest,
            "parties": {name: party.address for name, party in self.parties.items()},
            "fingerprints": {name: fingerprint(party.certificate) for name, party in self.parties.items()},
            "two": self.statistics[0].kind == "intersection",
            "coalitions": t,
            "revealed": self.reveals(),
            "warnings": self.warnings(),
            "people": {"each": self.people.each, "total": self.people.total},
            "rules": self.rules.model_dump(mode="json"),
            "noise": noise,
            "runs": self.runs,
        }


def _read_certificates(document: Document, base: Path) -> None:
    """Put the text of a certificate where a file is named."""
    parties = document.content.get("parties")
    for name, party in parties.items() if isinstance(parties, dict) else ():
        given = party.get("certificate") if isinstance(party, dict) else None
        if isinstance(given, str) and "-----BEGIN" not in given and given.strip():
            file = base / given
            if not file.is_file() or file.stat().st_size > 65_536:
                where = document.where("parties", name, "certificate")
                raise PlanError(f"{where}: there is no certificate {given!r}")
            party["certificate"] = file.read_text(encoding="ascii", errors="replace")


def _siblings(place: Place) -> tuple[str, ...]:
    if len(place) == 1:
        return tuple(Agreement.model_fields)
    if place[0] == "statistics":
        fields = [name for kind in KINDS.values() if kind.kind in place for name in kind.model_fields]
        return tuple(fields or KINDS)
    parts: dict[str, type[BaseModel]] = {
        "parties": PartySpec, "columns": AgreedColumn, "people": PeopleSpec, "rules": RulesSpec, "noise": NoiseSpec,
    }  # fmt: skip
    if "dominance" in place[:-1]:
        return tuple(DominanceSpec.model_fields)
    return tuple(parts[str(place[0])].model_fields) if place[0] in parts else ()


def statement(agreement: Agreement, party: str, commitment: str = "") -> bytes:
    """Give what a party signs: the agreement, its name in it and, for an intersection, the set it came with."""
    return f"discretion signature 1\n{agreement.digest}\n{party}\n{commitment}\n".encode()


class Signature(_Declared):
    """A party's signature under an agreement."""

    party: str
    digest: str
    commitment: str = ""
    signature: str

    def verify(self, agreement: Agreement) -> None:
        """Raise unless this is the named party's signature under this very agreement."""
        if self.digest != agreement.digest:
            raise DataError(f"{self.party} signed another agreement; compare the files and sign again")
        signed = statement(agreement, self.party, self.commitment)
        if not signed_by(agreement.party(self.party).certificate, signed, self.signature):
            raise DataError(f"the signature of {self.party} does not hold")


def signature_file(path: Path, party: str) -> Path:
    """Name the file of a signature, beside the agreement."""
    return path.with_name(f"{path.name}.{party}.signature")


def sign_agreement(path: Path, party: str, key: Path, commitment: str = "") -> Signature:
    """Sign an agreement for a party; the signature is written beside it."""
    from discretion.data.write import write_text

    agreement = Agreement.load(path)
    certificate = agreement.party(party).certificate
    text = statement(agreement, party, commitment)
    signed = Signature(party=party, digest=agreement.digest, commitment=commitment, signature=sign(key, text))
    if not signed_by(certificate, text, signed.signature):
        raise DataError(f"the key in {key} does not belong to the certificate of {party} in the agreement")
    write_text(signature_file(path, party), signed.model_dump_json(indent=2) + "\n", overwrite=True)
    return signed


def read_signature(path: Path, party: str, agreement: Agreement) -> Signature:
    """Read one's own signature: nothing is sent without it."""
    file = signature_file(path, party)
    if not file.is_file():
        raise PlanError(f"{party} has not signed {path.name}; discretion party agree {path} --as {party}")
    try:
        found = Signature.model_validate_json(file.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError):
        raise DataError(f"{file} does not hold a signature") from None
    if found.party != party:
        raise DataError(f"{file} holds the signature of somebody else")
    found.verify(agreement)
    return found
