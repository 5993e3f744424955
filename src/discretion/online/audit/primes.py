"""Random primes of 63 bits."""

from __future__ import annotations

import numpy as np

LEAST, MOST = 2**62, 2**63
"""Between these lie more than 2⁵⁶·⁵ primes."""
_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def is_prime(number: int) -> bool:
    """Say whether a number below 3.3·10²⁴ is prime: Miller–Rabin with witnesses that are proven to suffice."""
    if number < 2:
        return False
    for small in _WITNESSES:
        if number % small == 0:
            return number == small
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(_passes(witness, odd, twos, number) for witness in _WITNESSES)


def _passes(witness: int, odd: int, twos: int, number: int) -> bool:
    power = pow(witness, odd, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False


def random_prime(generator: np.random.Generator) -> int:
    """Draw a prime between 2⁶² and 2⁶³, each with the same chance."""
    while True:
        number = int(generator.integers(LEAST, MOST, dtype=np.uint64))
        if is_prime(number):
            return number
