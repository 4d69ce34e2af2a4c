"""An embedder of your own: any object with a name, a dimension and one method."""

from collections.abc import Sequence
from tempfile import TemporaryDirectory
from zlib import crc32

import numpy as np

import justmem
from justmem.ports import Embedded


class Trigrams:
    """Texts with the same groups of three letters are similar, also if a word is misspelt."""

    name = "trigrams-512"  # the space stores it: vectors of two embedders cannot be mixed
    dim = 512

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded:
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for start in range(len(text) - 2):
                row[crc32(text[start : start + 3].lower().encode()) % self.dim] += 1
            row /= np.linalg.norm(row) or 1
        return Embedded(vectors=vectors, tokens=0)


with (
    TemporaryDirectory() as folder,
    justmem.open("mira", folder=folder, embedder=Trigrams(), reranker="none") as memory,
):
    memory.remember([{"speaker": "Mira", "text": "I play the accordion."}], at="2025-04-02")
    memory.remember([{"speaker": "Mira", "text": "I moved to Ghent."}], at="2025-04-03")
    print(memory.recall("Who plays the acordeon?").cards[0].text)
    print(memory.stats().embedder)
