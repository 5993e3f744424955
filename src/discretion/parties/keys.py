"""Who a party is: a self-signed Ed25519 certificate that the agreement holds, and the key that only its owner has."""

from __future__ import annotations

import datetime
import hashlib
import os
import ssl
import tempfile
from pathlib import Path

from discretion.errors import DataError, need

_DAYS = 825
_WHAT = "computing between parties"


def make_identity(name: str, folder: Path, *, overwrite: bool = False) -> tuple[Path, Path]:
    """Write `name.crt`, which everybody may see, and `name.key`, which only its owner may read."""
    from discretion.data.atomic import check_target, write_text

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
