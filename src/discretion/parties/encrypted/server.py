"""The untrusted server: it keeps running totals of ciphertexts, and has no key that could open them."""

from __future__ import annotations

import hmac
import json
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from discretion.errors import DataError, need
from discretion.parties.encrypted.keys import HEAD_BITS, SLOTS, PublicKey, tenseal, token_id

if TYPE_CHECKING:
    from fastapi import FastAPI

_MOST_BYTES, _MOST_JOBS, _MOST_COLUMNS = 1 << 28, 16, 1000


def framed(blobs: Sequence[bytes]) -> bytes:
    """Put byte strings one after the other, each with its length."""
    return b"".join(struct.pack("<I", len(blob)) + blob for blob in blobs)


def unframed(data: bytes) -> list[bytes]:
    """Take byte strings apart again."""
    found, place = [], 0
    while place < len(data):
        if place + 4 > len(data):
            raise DataError("the message is cut off")
        (size,) = struct.unpack_from("<I", data, place)
        if place + 4 + size > len(data):
            raise DataError("the message is cut off")
        found.append(data[place + 4 : place + 4 + size])
        place += 4 + size
    return found


@dataclass
class EncryptedTotals:
    """The totals of one job; parts of owners are added as they come and not kept, one of each owner.

    Owners and holder are known by the hashes of their tokens, key and bounds by the digest of the job.
    """

    scheme: str
    key: Any
    columns: int
    digest: str = ""
    holder: str = ""
    waiting: set[str] = field(default_factory=set)
    """owners who have not sent their part"""
    sent: set[str] = field(default_factory=set)
    closed: bool = False
    """the totals were handed out: no more parts, whose owners would be told by the difference"""
    parts: int = 0
    totals: list[Any] = field(default_factory=list)

    @classmethod
    def open(cls, scheme: str, columns: int, key: bytes) -> EncryptedTotals:
        """Begin a job under a public key; a secret one is refused."""
        if not 0 < columns <= _MOST_COLUMNS:
            raise DataError(f"a job has 1 to {_MOST_COLUMNS:,} columns")
        if scheme == "paillier":
            return cls(scheme, PublicKey(int(key)), columns)
        if scheme != "ckks":
            raise DataError("the scheme is paillier or ckks")
        context = tenseal().context_from(key)
        if context.has_secret_key():
            raise DataError("a secret key was sent: it is not safe any more; make new keys")
        return cls(scheme, context, columns)

    def take(self, owner: str, digest: str, blobs: Sequence[bytes]) -> None:
        """Add the part of one of the owners, who sends it once and before the job is closed."""
        if owner in self.sent:
            raise DataError("this owner has sent its part; one of each is taken")
        if owner not in self.waiting:
            raise DataError("this is none of the owners of the job")
        if digest != self.digest:
            raise DataError("the part was made under another key or other bounds than those of the job")
        if self.closed:
            raise DataError("the totals were opened; the job takes no more parts")
        self.add(blobs)
        self.waiting.remove(owner)
        self.sent.add(owner)

    def close(self, least: int) -> list[bytes]:
        """Give the totals and take no more parts; with fewer parts than `least` the job stays open."""
        if self.parts < least:
            raise DataError(f"{self.parts} owners contributed; {least} are needed")
        found = self.result()
        self.closed = True
        return found

    def add(self, blobs: Sequence[bytes]) -> None:
        """Add an owner's part."""
        if self.parts + 1 >= 1 << HEAD_BITS:
            raise DataError("the job has as many parts as its counters can hold")
        added = self._paillier(blobs) if self.scheme == "paillier" else self._ckks(blobs)
        if not self.totals:
            self.totals = added
        elif self.scheme == "paillier":
            self.totals = [self.key.add(one, other) for one, other in zip(self.totals, added, strict=True)]
        else:
            self.totals = [one + other for one, other in zip(self.totals, added, strict=True)]
        self.parts += 1

    def _paillier(self, blobs: Sequence[bytes]) -> list[int]:
        if len(blobs) != -(-(self.columns + 1) // self.key.slots):
            raise DataError("a part has its counters of people and columns in as few ciphertexts as hold them")
        return [self.key.check(int.from_bytes(blob, "big")) for blob in blobs]

    def _ckks(self, blobs: Sequence[bytes]) -> list[Any]:
        """Add the blocks of every column, and the products of every pair of columns; column 0 says who is there."""
        width = self.columns + 1
        if not blobs or len(blobs) % width:
            raise DataError("a part has one ciphertext for each column and block of rows")
        sums: list[Any] = []
        for start in range(0, len(blobs), width):
            block = [tenseal().ckks_vector_from(self.key, blob) for blob in blobs[start : start + width]]
            if any(vector.size() != SLOTS for vector in block):
                raise DataError("a ciphertext has another number of rows than a block")
            found = [*block, *(block[i] * block[j] for i in range(1, width) for j in range(i, width))]
            sums = [one + other for one, other in zip(sums, found, strict=True)] if sums else found
        return sums

    def result(self) -> list[bytes]:
        """Give the encrypted totals: re-randomized, or added up over all rows so that no row can be told."""
        if not self.parts:
            raise DataError("the job has no parts yet")
        if self.scheme == "paillier":
            size = (int(self.key.square).bit_length() + 7) // 8
            return [self.key.refresh(total).to_bytes(size, "big") for total in self.totals]
        return [total.sum().serialize() for total in self.totals]


def create_app() -> FastAPI:
    """Give the ASGI application of the untrusted server; any ASGI server can run it."""
    fastapi = need("fastapi", "the server", "parties")
    responses = need("fastapi.responses", "the server", "parties")
    app = fastapi.FastAPI(
        title="discretion: totals of encrypted columns", docs_url=None, redoc_url=None, openapi_url=None
    )
    jobs: dict[str, EncryptedTotals] = {}
    lock = threading.Lock()

    async def body(request: Any) -> bytes:
        found = bytearray()
        async for piece in request.stream():
            found += piece
            if len(found) > _MOST_BYTES:
                raise DataError("the message is too large")
        return bytes(found)

    def answered(work: Any) -> Any:
        async def answer(request: Any) -> Any:
            try:
                name, data = request.path_params["job"], await body(request)
                with lock:
                    return work(name, data, request)
            except PermissionError:
                return responses.JSONResponse({"error": "only the holder of the keys can do this"}, 403)
            except KeyError:
                return responses.JSONResponse({"error": "there is no such job"}, 404)
            except (DataError, ValueError, TypeError, ArithmeticError, RuntimeError) as error:
                text = str(error) if isinstance(error, DataError) else "the message cannot be read"
                return responses.JSONResponse({"error": text}, 422)

        return answer

    def known(request: Any) -> str:
        return token_id(request.headers.get("authorization", "").removeprefix("Bearer "))

    def held(name: str, request: Any) -> EncryptedTotals:
        if not hmac.compare_digest(known(request), jobs[name].holder):
            raise PermissionError
        return jobs[name]

    def begin(name: str, data: bytes, _: Any) -> Any:
        if name in jobs or len(jobs) >= _MOST_JOBS:
            raise DataError("the job exists, or the server has too many")
        about, key = unframed(data)
        given = json.loads(about)
        if not isinstance(given, dict) or not {"scheme", "columns", "digest", "holder", "owners"} <= set(given):
            raise DataError("a job has a scheme, columns, a digest, a holder and owners")
        made = EncryptedTotals.open(str(given["scheme"]), int(given["columns"]), key)
        made.digest, made.holder, made.waiting = str(given["digest"]), str(given["holder"]), set(given["owners"])
        jobs[name] = made
        return responses.JSONResponse({"job": name}, 201)

    def part(name: str, data: bytes, request: Any) -> Any:
        jobs[name].take(known(request), request.headers.get("job-digest", ""), unframed(data))
        return responses.JSONResponse({"parts": jobs[name].parts}, 201)

    def result(name: str, _: bytes, request: Any) -> Any:
        found = held(name, request)
        blobs = found.close(int(request.query_params.get("least", "1")))
        return responses.Response(framed([str(found.parts).encode(), *blobs]), media_type="application/octet-stream")

    def drop(name: str, _: bytes, request: Any) -> Any:
        held(name, request)
        del jobs[name]
        return responses.Response(status_code=204)

    app.add_route("/v1/jobs/{job}", answered(begin), methods=["PUT"])
    app.add_route("/v1/jobs/{job}", answered(drop), methods=["DELETE"])
    app.add_route("/v1/jobs/{job}/parts", answered(part), methods=["POST"])
    app.add_route("/v1/jobs/{job}/result", answered(result), methods=["GET"])
    return app  # type: ignore[no-any-return]
