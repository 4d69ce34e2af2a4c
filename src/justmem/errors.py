"""All exceptions, grouped by cause.

    JustMemError
    ├── InputError            the caller's mistake: correct it and call again
    │   ├── InvalidSession      a session that cannot be remembered as given
    │   ├── InvalidQuestion     an empty or oversized question, or a plan that cannot be used
    │   ├── InvalidFile         a file that is not what it claims to be
    │   ├── InvalidSetting      a setting, model name or profile that cannot be used
    │   ├── NotInMemory         no such card, session or turn
    │   │   └── NoSuchSpace       no such space
    │   ├── BudgetExceeded      the next call would pass a limit the caller set
    │   └── TimeLimitExceeded   the rules took too long over a text or a question
    ├── ModelError            a model failed: wait, or check the provider
    │   ├── ModelUnavailable    no reply after all retries
    │   ├── ModelRefused        it rejected the request (key, name, size)
    │   ├── ModelNonsense       its reply cannot be used
    │   └── WeightsUnavailable  local model files are missing or are not the pinned ones
    ├── StoreError            the store failed: nothing was partly written
    │   ├── StoreBusy           another process holds it
    │   ├── StoreDamaged        the file is not a readable store
    │   ├── StoreLocked         it is encrypted and no key was given
    │   │   └── WrongKey          the given key is not its key
    │   ├── StoreNotLocked      a key was given for a store that is not encrypted
    │   ├── StoreFull           no room left on the disk
    │   ├── StoreTooNew         written by a newer JustMem
    │   ├── NotForgotten        words of what was forgotten are still found on disk
    │   └── EmbedderMismatch    its vectors come from another embedder
    └── Refused               the server rejected the request
        ├── KeyNeeded           no key, or an unknown or revoked key
        ├── KeyTooWeak          the key may not do this
        ├── TooLarge            the request is too large
        ├── Unfinished          the body of the request did not arrive in time
        ├── TooMany             too many requests with one key
        ├── TooSlow             the request took too long
        └── NoRoom              the server is busy

Each message is a sentence that says what happened and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from justmem.domain import Call


class JustMemError(Exception):
    """The root: `except JustMemError` catches all exceptions of JustMem.

    `calls` are the model calls that were made before the error.
    """

    calls: tuple[Call, ...] = ()


class InputError(JustMemError): ...


class InvalidSession(InputError): ...


class InvalidQuestion(InputError): ...


class InvalidFile(InputError): ...


class InvalidSetting(InputError): ...


class NotInMemory(InputError): ...


class NoSuchSpace(NotInMemory): ...


class BudgetExceeded(InputError): ...


class TimeLimitExceeded(InputError): ...


class ModelError(JustMemError):
    def __init__(self, message: str, call: Call | None = None) -> None:
        super().__init__(message)
        if call is not None:
            self.calls = (call,)


class ModelUnavailable(ModelError): ...


class ModelRefused(ModelError): ...


class ModelNonsense(ModelError): ...


class WeightsUnavailable(ModelError): ...


class StoreError(JustMemError): ...


class StoreBusy(StoreError): ...


class StoreDamaged(StoreError): ...


class StoreLocked(StoreError): ...


class WrongKey(StoreLocked): ...


class StoreNotLocked(StoreError): ...


class StoreFull(StoreError): ...


class StoreTooNew(StoreError): ...


class NotForgotten(StoreError): ...


class EmbedderMismatch(StoreError): ...


class Refused(JustMemError):
    """`after`: seconds to wait before the next attempt."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class KeyNeeded(Refused): ...


class KeyTooWeak(Refused): ...


class TooLarge(Refused): ...


class Unfinished(Refused): ...


class TooMany(Refused): ...


class TooSlow(Refused): ...


class NoRoom(Refused): ...
