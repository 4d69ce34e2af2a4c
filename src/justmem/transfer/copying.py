"""One space from one store to another, whatever they are made of.

Sessions go as wholes, some at a time. An interrupted copy goes on where it was: what has arrived
is skipped. At the end every session is read back from both sides and compared, word for word and
number for number.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from justmem.domain import dump
from justmem.errors import StoreError
from justmem.ports import Store, Vectors, Whole

T = TypeVar("T")
BATCH = 50  # sessions

OnCopied = Callable[[int, int], None]  # sessions done, sessions in all


@dataclass(frozen=True, slots=True)
class Copied:
    """What was compared at the end: the same on both sides."""

    space: str
    sessions: int
    brought: int  # by this run; the others had arrived before
    cards: int
    passages: int
    quarantined: int
    forgotten: int
    spent_tokens: int
    digest: str  # of everything above, content and all


async def copy(source: Store, target: Store, on_copied: OnCopied | None = None) -> Copied:
    """Raises StoreError where the two differ afterwards, as when someone writes to the source
    meanwhile: run it again then."""
    records = {record.id: record for record in await source.sessions()}
    arrived = {record.id: record for record in await target.sessions()}
    if strangers := arrived.keys() - records.keys():
        raise StoreError(
            f"The space {target.space!r} holds sessions that are not in the source, such as "
            f"{min(strangers)!r}: copy to an empty space, or to one that an earlier copy began."
        )
    rest = await source.rest()
    if set((await target.rest()).forgotten) - set(rest.forgotten):
        raise StoreError(
            f"The space {target.space!r} has forgotten cards or turns that the source still "
            "holds: forget them there too, or copy to an empty space. Nothing was copied."
        )
    if rest.embedder or rest.dim:
        await target.bind(rest.embedder, rest.dim)
    missing = [id for id, record in records.items() if arrived.get(id) != record]
    done = len(records) - len(missing)

    async def bring(some: Sequence[str]) -> None:
        nonlocal done
        await target.take(await source.wholes(some))
        done += len(some)
        if on_copied:
            on_copied(done, len(records))

    await target.take([], rest)
    await in_flight(bring, _batches(missing, BATCH))
    return await _compared(source, target, list(records), len(missing))


async def in_flight(work: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
    """Two at a time: one is made ready while the other is being stored."""
    going: set[asyncio.Task[None]] = set()
    try:
        for item in items:
            if len(going) == 2:
                done, going = await asyncio.wait(going, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            going.add(asyncio.create_task(_awaited(work(item))))
        await asyncio.gather(*going)
    finally:
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)


async def _awaited(work: Awaitable[None]) -> None:
    await work


async def _compared(source: Store, target: Store, ids: Sequence[str], brought: int) -> Copied:
    total = hashlib.blake2b(digest_size=16)
    sums = np.zeros(3, np.int64)
    async for one, other in _pairs(source, target, ids):
        print_ = fingerprint(one)
        if other is None or fingerprint(other) != print_:
            raise StoreError(
                f"Session {one.session.id!r} is not the same on both sides: someone wrote to it "
                "during the copy. Run the copy again."
            )
        total.update(print_)
        made = one.digested
        sums += [len(made.cards), len(made.passages), len(made.quarantined)]
    rest = await source.rest()
    if rest != await target.rest():
        raise StoreError(
            "What was forgotten or spent is not the same on both sides: someone wrote to the "
            "space during the copy. Run the copy again."
        )
    spending = [(str(day), tokens) for day, tokens in rest.spending]
    total.update(json.dumps([rest.forgotten, spending]).encode())
    cards, passages, quarantined = sums.tolist()
    return Copied(
        space=target.space,
        sessions=len(ids),
        brought=brought,
        cards=cards,
        passages=passages,
        quarantined=quarantined,
        forgotten=len(rest.forgotten),
        spent_tokens=sum(tokens for _, tokens in rest.spending),
        digest=total.hexdigest(),
    )


async def _pairs(
    source: Store, target: Store, ids: Sequence[str]
) -> AsyncIterator[tuple[Whole, Whole | None]]:
    for some in _batches(ids, BATCH):
        others = {whole.session.id: whole for whole in await target.wholes(some)}
        for whole in await source.wholes(some):
            yield whole, others.get(whole.session.id)


def fingerprint(whole: Whole) -> bytes:
    """The same for two sessions that are the same in everything a store holds of them."""
    made = whole.digested
    said = [
        whole.session.id,
        whole.session.digest,
        whole.waiting.digest if whole.waiting else None,
        whole.failure,
        str(made.state),
        made.reason,
        made.tokens,
        made.card_tokens,
        [dump(card) for card in made.cards],
        [(p.turn, p.start, p.end) for p in made.passages],
        [dump(held) for held in made.quarantined],
    ]
    digest = hashlib.blake2b(json.dumps(said).encode(), digest_size=16)
    for vectors in (made.card_vectors, made.passage_vectors):
        digest.update(_bytes(vectors))
    return digest.digest()


def _bytes(vectors: Vectors) -> bytes:
    return np.ascontiguousarray(vectors, "<f4").tobytes() if vectors.size else b""


def _batches(items: Sequence[T], count: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), count):
        yield items[start : start + count]
