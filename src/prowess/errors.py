"""Every error that Prowess raises, in one tree.

::

    ProwessError
    ├── InvalidInput      400  the caller sent something malformed, too large or of the wrong type
    │   ├── SkillFileError 422 a skill folder or file that cannot be read; carries file and line
    │   └── PayloadTooLarge 413 a request body beyond its limit
    ├── Denied            403  the gate said no
    ├── NotFound          404  absent, or not visible to the asker: the two answer alike (G8)
    ├── Conflict          409  somebody else was first, or an id was used for something else
    ├── LimitExceeded     429  a per-turn or per-tool limit was reached
    ├── StorageError      503  the database is missing, newer than this program, or unusable
    ├── VoiceError        502  the model could not answer
    └── DeliveryError     502  a receiver of notifications did not take one

An error is a stable ``code`` plus fields. Its words live in ``messages/en`` and ``messages/zh``, so every
face shows the same sentence in the reader's language. The JSON shape is that of ``docs/contracts.md``:
``{"error": {"code", "message", "detail", "remedy"}}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from prowess.messages import render

__all__ = [
    "Conflict",
    "DeliveryError",
    "Denied",
    "InvalidInput",
    "LimitExceeded",
    "NotFound",
    "PayloadTooLarge",
    "ProwessError",
    "SkillFileError",
    "StorageError",
    "VoiceError",
]


class ProwessError(Exception):
    """Root of the tree.

    ``code`` is stable across releases; ``detail`` says where (``field``, ``file``, ``line``, ``limit`` …) and never
    holds message text, memory text or tool input (R3).
    """

    http_status: ClassVar[int] = 500

    def __init__(self, code: str, /, **detail: Any) -> None:
        self.code = code
        self.detail: Mapping[str, Any] = detail
        super().__init__(f"{code}: {self.message()}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive pickling: exceptions cross process boundaries in workers and in tests."""
        return (_rebuild, (type(self), self.code, dict(self.detail)))

    def message(self, language: str = "en") -> str:
        """One sentence saying what is wrong, in ``en`` or ``zh``."""
        return render(f"error.{self.code}", language, self.detail)

    def remedy(self, language: str = "en") -> str:
        """One sentence saying what to do about it."""
        return render(f"remedy.{self.code}", language, self.detail)

    def to_json(self, language: str = "en") -> dict[str, Any]:
        """The one JSON error shape of every face."""
        body = {
            "code": self.code,
            "message": self.message(language),
            "detail": dict(self.detail),
            "remedy": self.remedy(language),
        }
        return {"error": body}


def _rebuild(kind: type[ProwessError], code: str, detail: dict[str, Any]) -> ProwessError:
    return kind(code, **detail)


class InvalidInput(ProwessError):
    """Malformed, oversize or wrongly typed input; nothing was stored."""

    http_status = 400


class SkillFileError(InvalidInput):
    """A skill folder or file that cannot be read. ``detail`` holds ``file`` and, where known, ``line``."""

    http_status = 422


class PayloadTooLarge(InvalidInput):
    """A request body beyond its limit; nothing of it was kept."""

    http_status = 413


class Denied(ProwessError):
    """The gate decided against it. ``detail`` holds ``layer`` and ``missing``."""

    http_status = 403


class NotFound(ProwessError):
    """No such thing for this asker."""

    http_status = 404


class Conflict(ProwessError):
    """The state moved on, or the id already stands for something else; the newer state is kept."""

    http_status = 409


class LimitExceeded(ProwessError):
    """A declared limit was reached."""

    http_status = 429


class StorageError(ProwessError):
    """The database cannot be used as it is."""

    http_status = 503


class VoiceError(ProwessError):
    """The model port failed; the turn is recorded and can be repeated with the same message id."""

    http_status = 502


class MountError(ProwessError):
    """A mounted server could not be reached, or did not say what it has to say."""

    http_status = 502


class DeliveryError(ProwessError):
    """A notification was not delivered: the receiver could not be reached, or did not answer with a 2xx."""

    http_status = 502
