"""A certificate of our own for tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def self_signed(folder: Path, name: str, address: str = "IP:127.0.0.1,DNS:localhost") -> tuple[Path, Path]:
    """Make a certificate for an address and its key; skip with the reason when openssl is not installed."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("the command openssl is not installed")
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        [
            openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", f"/CN={name}",
            "-addext", f"subjectAltName={address}",
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return certificate, key
