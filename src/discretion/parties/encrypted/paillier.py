"""Paillier's scheme on gmpy2: whole numbers that can be added while encrypted. All randomness is from `secrets`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from discretion.errors import DataError, need

LEAST_BITS = 3072
VALUE_BITS, HEAD_BITS = 48, 16
"""a counter holds numbers below 2^VALUE_BITS, and 2^HEAD_BITS of them can be added without touching the next one"""


def _gmpy2() -> ModuleType:
    return need("gmpy2", "Paillier's scheme", "parties")


class PublicKey:
    """Encrypts, adds and re-randomizes; g = n + 1."""

    def __init__(self, n: int) -> None:
        if n.bit_length() < LEAST_BITS or n % 2 == 0:
            raise DataError(f"a modulus of at least {LEAST_BITS} bits is needed")
        self.n = _gmpy2().mpz(n)
        self.square = self.n**2
        self.slots = (n.bit_length() - 2) // (VALUE_BITS + HEAD_BITS)

    def _mask(self) -> Any:
        """Encrypt zero anew: r^n for a random unit r."""
        gmpy2 = _gmpy2()
        while True:
            r = gmpy2.mpz(secrets.randbelow(int(self.n)))
            if r > 1 and gmpy2.gcd(r, self.n) == 1:
                return gmpy2.powmod(r, self.n, self.square)

    def encrypt(self, message: int) -> int:
        """Encrypt a whole number 0 ≤ message < n."""
        if not 0 <= message < self.n:
            raise DataError("a number is out of the range of the key")
        return int((1 + message * self.n) * self._mask() % self.square)

    def add(self, one: int, other: int) -> int:
        """Add two encrypted numbers."""
        return int(_gmpy2().mpz(one) * other % self.square)

    def refresh(self, ciphertext: int) -> int:
        """Give another ciphertext of the same number, which nobody can connect with the old one."""
        return int(ciphertext * self._mask() % self.square)

    def check(self, ciphertext: int) -> int:
        """Raise unless a number can be a ciphertext under this key."""
        if not 0 < ciphertext < self.square or _gmpy2().gcd(ciphertext, self.n) != 1:
            raise DataError("this is not a ciphertext of the key")
        return ciphertext

    def pack(self, counters: Sequence[int]) -> list[int]:
        """Put many counters in few numbers."""
        if any(not 0 <= value < 1 << VALUE_BITS for value in counters):
            raise DataError(f"a total is not between 0 and 2^{VALUE_BITS}; take a larger step")
        width, found = VALUE_BITS + HEAD_BITS, []
        for start in range(0, len(counters), self.slots):
            block = counters[start : start + self.slots]
            found.append(sum(value << width * place for place, value in enumerate(block)))
        return found

    def unpack(self, numbers: Sequence[int], count: int) -> list[int]:
        """Take counters out again; nothing may be above them."""
        width = VALUE_BITS + HEAD_BITS
        blocks = [min(self.slots, count - start) for start in range(0, count, self.slots)]
        if len(blocks) != len(numbers) or any(n >> width * held for n, held in zip(numbers, blocks, strict=True)):
            raise DataError("the numbers hold something else than the totals: another key, or not what owners sent")
        return [
            numbers[place // self.slots] >> width * (place % self.slots) & ((1 << width) - 1) for place in range(count)
        ]


class SecretKey:
    """Decrypts, by the Chinese remainder theorem."""

    def __init__(self, p: int, q: int) -> None:
        gmpy2 = _gmpy2()
        self.p, self.q = gmpy2.mpz(p), gmpy2.mpz(q)
        self.public = PublicKey(int(self.p * self.q))
        g = self.public.n + 1
        self._hp = gmpy2.invert((gmpy2.powmod(g, self.p - 1, self.p**2) - 1) // self.p, self.p)
        self._hq = gmpy2.invert((gmpy2.powmod(g, self.q - 1, self.q**2) - 1) // self.q, self.q)
        self._inverse = gmpy2.invert(self.p, self.q)

    @classmethod
    def make(cls, bits: int = LEAST_BITS) -> SecretKey:
        """Draw two primes of the same length, so far apart that their product cannot be taken apart by roots."""
        gmpy2 = _gmpy2()
        if bits < LEAST_BITS:
            raise DataError(f"a modulus of at least {LEAST_BITS} bits is needed")
        while True:
            p, q = _prime(bits // 2), _prime(bits // 2)
            if abs(p - q).bit_length() > bits // 2 - 100 and gmpy2.gcd(p * q, (p - 1) * (q - 1)) == 1:
                return cls(int(p), int(q))

    def decrypt(self, ciphertext: int) -> int:
        """Decrypt to a whole number 0 ≤ message < n."""
        gmpy2 = _gmpy2()
        c = gmpy2.mpz(self.public.check(ciphertext))
        mp = (gmpy2.powmod_sec(c % self.p**2, self.p - 1, self.p**2) - 1) // self.p * self._hp % self.p
        mq = (gmpy2.powmod_sec(c % self.q**2, self.q - 1, self.q**2) - 1) // self.q * self._hq % self.q
        return int(mp + self.p * ((mq - mp) * self._inverse % self.q))


def _prime(bits: int) -> Any:
    """Draw a prime with its two highest bits set: strong BPSW and 40 rounds of Miller–Rabin."""
    gmpy2 = _gmpy2()
    while True:
        p = gmpy2.mpz(secrets.randbits(bits) | (3 << bits - 2) | 1)
        if gmpy2.is_strong_bpsw_prp(p) and gmpy2.is_prime(p, 40):
            return p
