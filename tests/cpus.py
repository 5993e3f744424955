"""Run the numeric tests as other processors would compute them: `python tests/cpus.py [--quick] [pytest options]`.

numpy and OpenBLAS choose their inner loops by the processor, and sums taken in another order differ in their last
digits. Each variant below switches some of these loops off or takes those of an older processor; whether it really did
is looked up in a first, empty run. Variants that this processor lacks, or that change nothing on it, are left out, and
said to be. `--quick` runs one variant on the tests that depend most on linear algebra.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

WIDE = "X86_V4 AVX512_ICL AVX512_SPR"
VARIANTS = {
    "OpenBLAS for Prescott": {"OPENBLAS_CORETYPE": "Prescott"},
    "OpenBLAS for Sandybridge": {"OPENBLAS_CORETYPE": "Sandybridge"},
    "OpenBLAS for Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "OpenBLAS for Zen": {"OPENBLAS_CORETYPE": "Zen"},
    "OpenBLAS for SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX"},
    "numpy without AVX-512": {"NPY_DISABLE_CPU_FEATURES": WIDE},
    "numpy without AVX-512 and AVX2": {"NPY_DISABLE_CPU_FEATURES": f"{WIDE} X86_V3"},
}
NUMERIC = (
    "kernels", "golden", "statistical", "tables", "risk", "utility", "learning", "privacy", "protect", "anonymize"
)  # fmt: skip
QUICK = (
    "tests/tables/test_cell_key.py",
    "tests/kernels/test_null_vector.py",
    "tests/utility/test_eigen.py",
    "tests/risk/test_log_linear.py",
    "tests/statistical/test_noise_moments.py",
    "tests/golden",
)

PROBE = """
import json, numpy as np, scipy.linalg, threadpoolctl
from numpy._core._multiarray_umath import __cpu_dispatch__ as dispatched, __cpu_features__ as features
x = np.random.default_rng(0).normal(size=(70, 70))
scipy.linalg.cho_factor(x @ x.T + np.eye(70)), np.linalg.svd(x), np.exp(x), np.sort(x, axis=None)
libraries = sorted({str(one.get("architecture")) for one in threadpoolctl.threadpool_info()})
print(json.dumps([[name for name in dispatched if features[name]], libraries]))
"""
"""Says what is switched on; it also computes a little, so that instructions the processor lacks end it."""


def probe(extra: dict[str, str]) -> tuple[list[str], list[str]] | None:
    """Give the features of numpy that are on and the processors OpenBLAS computes for; None where it cannot run."""
    command = [sys.executable, "-c", PROBE]
    done = subprocess.run(command, check=False, env=os.environ | extra, capture_output=True, text=True)
    if done.returncode:
        return None
    features, libraries = json.loads(done.stdout)
    return features, libraries


def main() -> int:
    """Run what can be run, and give the number of variants that fail."""
    arguments = sys.argv[1:]
    quick = "--quick" in arguments
    options = [argument for argument in arguments if argument != "--quick"]
    places = QUICK if quick else [f"tests/{folder}" for folder in NUMERIC]
    usual = probe({})
    if usual is None:
        print("numpy and scipy do not run here", file=sys.stderr)
        return 1
    seen = {str(usual): "what runs here anyway"}
    failed = ran = 0
    for name, variables in VARIANTS.items():
        extra = dict(variables)
        if "NPY_DISABLE_CPU_FEATURES" in extra:  # numpy warns of names that it does not know or have here
            present = [word for word in extra["NPY_DISABLE_CPU_FEATURES"].split() if word in usual[0]]
            extra = {"NPY_DISABLE_CPU_FEATURES": " ".join(present)} if present else {}
        found = probe(extra)
        if found is None or str(found) in seen:
            reason = "this processor lacks it" if found is None else f"the same as {seen[str(found)]}"
            print(f"== {name}: left out, {reason}", flush=True)
            continue
        seen[str(found)] = name
        if quick and ran:
            continue
        ran += 1
        loops = ", ".join(found[0]) or "its baseline only"
        print(f"== {name}: numpy with {loops}, OpenBLAS for {', '.join(found[1])}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", *options, *places]
        failed += subprocess.run(command, check=False, env=os.environ | extra).returncode != 0
    print(f"== {ran} variants were run, {failed} failed", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
