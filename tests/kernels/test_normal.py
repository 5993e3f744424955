"""Normal quantiles against scipy."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from discretion.kernels.distributions import normal_quantile


def test_quantiles_are_those_of_scipy() -> None:
    rng = np.random.default_rng(1)
    tails = 10.0 ** -rng.uniform(0, 300, 20_000), 1 - 10.0 ** -rng.uniform(0, 16, 20_000)
    edges = [0.0, 1.0, 0.5, np.exp(-2), 1 - np.exp(-2), np.exp(-32), -0.1, 1.1, np.nan]
    shares = np.concatenate([rng.random(40_000), *tails, edges])
    np.testing.assert_allclose(normal_quantile(shares), ndtri(shares), rtol=1e-15)
    assert normal_quantile(0.975) == ndtri(0.975)
    assert normal_quantile(np.empty(0)).shape == (0,)
    assert normal_quantile(np.full((2, 3), 0.5)).tolist() == [[0.0] * 3] * 2
