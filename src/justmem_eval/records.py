"""What each stage writes: one JSON line per item, in a file that is resumed after a kill.

run.json               what is pinned
memory.jsonl           Built       a history
evidence.jsonl         Retrieved   a question
predictions.N.jsonl    Predicted   a question, for each of the runs
strict.N.jsonl         Verdict     a question, by the strict judge
lenient.N.jsonl        Verdict     a question, by the lenient judge
corrected.N.jsonl      Verdict     a question whose answer was corrected
planted.NAME.jsonl     Verdict     an answer that is right or wrong for sure
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from justmem.domain import Call, Plan, Value
from justmem.errors import InvalidFile, JustMemError, ModelError
from justmem.ports import Completion
from justmem_eval.benchmarks import Case

T = TypeVar("T", bound="Record")
Place = tuple[str, tuple[int, ...]]  # a session and turns of it
CORRECTED = "corrected"
K = 10  # pieces of evidence that recall@10 counts


class Usage(Value):
    """What a lane of the meter was asked, and what a peer's process took."""

    requests: int = 0  # calls of the language model
    embeddings: int = 0  # requests for vectors
    tokens_in: int = 0
    tokens_out: int = 0
    embedding: int = 0  # tokens of vectors, kept apart as the paper does
    failed: int = 0
    estimated: int = 0  # calls without a usage in the reply
    cpu: float = 0.0  # seconds
    peak_mb: float = 0.0

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    def since(self, before: Usage) -> Usage:
        now, then = self.model_dump(), before.model_dump()
        return Usage(**{name: now[name] - then[name] for name in now})

    def plus(self, other: Usage) -> Usage:
        both = self.model_dump(), other.model_dump()
        return Usage(**{name: both[0][name] + both[1][name] for name in both[0]})


class PeerFailed(ModelError):
    """The peer crashed, hung, or reported an error."""

    usage: Usage | None = None


class PeerCannotStart(JustMemError):
    """Ends the run: a peer that cannot start fails on every question in the same way."""


class Record(Value):
    """One item of a stage with the calls it took. `usage` is what the meter counted, where a
    system's own calls are out of sight."""

    id: str
    error: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage | None = None

    @property
    def requests(self) -> int:
        return self.usage.requests if self.usage else len(self.calls)

    @property
    def tokens(self) -> int:
        if self.usage:
            return self.usage.tokens
        return sum(call.tokens_in + call.tokens_out for call in self.calls)


class Built(Record):
    """`id` is the history's."""

    sessions: int = 0
    cards: int = 0
    card_tokens: int = 0
    failed: tuple[str, ...] = ()  # sessions without cards, and why
    disk_kb: int = 0


class Piece(Value):
    """One piece of evidence. `aligned`: its place was found by its words."""

    place: Place
    text: str = ""
    aligned: bool = False


class Retrieved(Record):
    """The evidence for a question. No gold in it."""

    plan: Plan | None = None
    access: str = ""
    chosen: tuple[Piece, ...] = ()  # best first; recall@10 counts the first ten
    read: tuple[Piece, ...] = ()  # everything that is read, the chosen included
    sources: tuple[Place, ...] = ()
    pool: tuple[Place, ...] = ()  # all candidates
    context: str = ""  # what a reader is shown
    evidence_tokens: int = 0  # of the context
    payload: Any = None  # what the system itself needs to answer


class Predicted(Record):
    answer: str = ""
    sufficient: bool = True
    cited: tuple[tuple[str, int], ...] = ()  # session and turn


class Verdict(Record):
    """`right` is None where there is no verdict."""

    right: bool | None = None
    score: float | None = None  # BEAM: from 0 to 1
    said: str = ""


class Reply(Record):
    """A reply of a language model, so that it is not paid for twice. `recorded:FILE` replays such
    lines. `id` is a digest of the prompt and the number of the sample."""

    model: str
    context: int
    text: str
    truncated: bool = False

    @property
    def completion(self) -> Completion:
        """It keeps the tokens that it cost and says `attempts=0`."""
        call = self.calls[0].model_copy(update={"attempts": 0, "seconds": 0.0})
        return Completion(self.text, call, self.truncated)


class Lines(Generic[T]):
    """The records of a file by id; the last line of an id counts. A line that was cut by a kill is
    dropped, and an item that failed is done again by the next run."""

    def __init__(self, path: Path, kind: type[T]) -> None:
        self.kind = kind
        self._path = path
        self._items: dict[str, T] = {}
        for line in path.read_bytes().splitlines() if path.exists() else ():
            try:
                item = kind.model_validate_json(line)
            except ValueError:
                continue
            self._items[item.id] = item

    def __getitem__(self, id: str) -> T:
        return self._items[id]

    def get(self, id: str) -> T | None:
        return self._items.get(id)

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> list[T]:
        return list(self._items.values())

    def done(self, id: str) -> bool:
        item = self._items.get(id)
        return item is not None and not item.error

    def add(self, item: T) -> None:
        append_line(self._path, item.model_dump_json())
        self._items[item.id] = item


class Files:
    """The files of a run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.memory = Lines(folder / "memory.jsonl", Built)
        self.evidence = Lines(folder / "evidence.jsonl", Retrieved)

    def predictions(self, run: int) -> Lines[Predicted]:
        return Lines(self.folder / f"predictions.{run}.jsonl", Predicted)

    def verdicts(self, run: int, judge: str = "strict") -> Lines[Verdict]:
        return Lines(self.folder / f"{judge}.{run}.jsonl", Verdict)

    def planted(self, judge: str) -> Lines[Verdict]:
        return Lines(self.folder / f"planted.{judge}.jsonl", Verdict)

    def retrieved(self, cases: Iterable[Case]) -> Sequence[tuple[Case, Retrieved]]:
        """The evidence of the questions that have some."""
        done = [case for case in cases if self.evidence.done(case.question.id)]
        return [(case, self.evidence[case.question.id]) for case in done]

    def pinned(self) -> dict[str, Any]:
        path = self.folder / "run.json"
        try:
            found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InvalidFile(
                f"{self.folder} is not the folder of a run: {path} ({error})."
            ) from error
        return found


def append_line(path: Path, line: str) -> None:
    """The line before may have been cut by a kill, so a new one is begun."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"\n" + line.encode() + b"\n")


def write_json(path: Path, value: Any) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n", "utf-8")
    draft.replace(path)
