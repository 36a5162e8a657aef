"""JSON without the ``json`` package, whose imports cost more than the start of Python.

Runs inside the sandbox with the standard library of Python 3.9 alone: the C half of that package is called directly,
and where there is none, the package.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def dumps(value: Any) -> bytes:
    """One line of ASCII. Raises ``TypeError`` and ``ValueError`` as ``json.dumps`` without NaN."""
    try:
        from _json import encode_basestring_ascii, make_encoder
    except ImportError:
        import json

        return json.dumps(value, allow_nan=False).encode()
    encode = make_encoder({}, _refuse, encode_basestring_ascii, None, ":", ",", False, False, False)
    return "".join(encode(value, 0)).encode()


def _refuse(value: Any) -> Any:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


class _Context:
    """What the C scanner asks for."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    memo = None

    @staticmethod
    def parse_constant(name: str) -> Any:
        raise ValueError(name)


def loads(text: str) -> Any:
    """What the host sent. Raises ``ValueError`` and ``StopIteration`` where it is no JSON."""
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text)
    context: Any = _Context
    return make_scanner(context)(text, 0)[0]
