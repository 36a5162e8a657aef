"""From a call to its surface: once, and whatever goes wrong is the end of the call (G9, rulings 12.9 and 12.23)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from prowess.access.resolver import CallContext, SurfaceSource
from prowess.access.surface import CapabilitySurface
from prowess.errors import Denied, InvalidInput

CONTEXT = CallContext("t1", "u1", "mira", "conversation", "c1", "m1")
ALLOW_ALL, DENY_ALL = CapabilitySurface.ALLOW_ALL, CapabilitySurface.DENY_ALL


class Resolver:
    """Answers by a function, and counts."""

    def __init__(self, answer: Callable[[CallContext], Any], **marks: Any) -> None:
        self._answer = answer
        self.contexts: list[CallContext] = []
        for name, value in marks.items():
            setattr(self, name, value)

    def resolve(self, context: CallContext) -> Any:
        self.contexts.append(context)
        return self._answer(context)


def answers(value: Any, **marks: Any) -> Resolver:
    return Resolver(lambda _context: value, **marks)


def cause(source: SurfaceSource) -> Any:
    with pytest.raises(Denied) as denied:
        source.resolve(CONTEXT)
    assert denied.value.code == "surface_unresolved"
    return denied.value.detail["cause"]


def test_g9_the_answer_is_the_surface_of_the_call_and_asked_for_once() -> None:
    surface = CapabilitySurface(skills=["a"])
    resolver = answers(surface)
    assert SurfaceSource(resolver).resolve(CONTEXT) is surface
    assert resolver.contexts == [CONTEXT]


@pytest.mark.parametrize("server", [False, True])
@pytest.mark.parametrize("error", [RuntimeError, KeyError, SystemExit, KeyboardInterrupt, MemoryError])
def test_g9_a_resolver_that_raises_aborts_the_call(error: type[BaseException], server: bool) -> None:
    def raises(_context: CallContext) -> Any:
        raise error("no")

    for chosen in (False, True):
        assert cause(SurfaceSource(Resolver(raises), server=server, allow_all=chosen)) == "raised"


def test_g9_a_resolver_that_hangs_aborts_the_call() -> None:
    over = threading.Event()
    assert cause(SurfaceSource(Resolver(lambda _context: over.wait(60)), seconds=0.05)) == "timeout"
    over.set()


def test_g9_null_aborts_the_call_where_the_operator_did_not_choose_otherwise() -> None:
    for server in (False, True):
        assert cause(SurfaceSource(answers(None), server=server)) == "nothing"
        assert SurfaceSource(answers(None), server=server, allow_all=True).resolve(CONTEXT) == ALLOW_ALL


@pytest.mark.parametrize(
    "value", ["", "ALLOW_ALL", True, 0, {}, {"skills": None}, (None, None, None), CapabilitySurface]
)
def test_g9_anything_but_a_surface_aborts_the_call(value: Any) -> None:
    for chosen in (False, True):
        assert cause(SurfaceSource(answers(value), allow_all=chosen)) == "wrong_type"


def test_g6_g9_an_unrestricted_answer_in_a_server_is_refused_unless_it_was_chosen() -> None:
    assert cause(SurfaceSource(answers(ALLOW_ALL), server=True)) == "unrestricted"
    assert SurfaceSource(answers(ALLOW_ALL), server=True, allow_all=True).resolve(CONTEXT).allows_all
    assert SurfaceSource(answers(ALLOW_ALL, grants_all_by_name=True), server=True).resolve(CONTEXT).allows_all
    assert SurfaceSource(answers(ALLOW_ALL)).resolve(CONTEXT).allows_all
    assert SurfaceSource(answers(DENY_ALL), server=True).resolve(CONTEXT) == DENY_ALL


def test_g6_g9_a_server_without_a_resolver_starts_only_if_that_was_chosen() -> None:
    with pytest.raises(InvalidInput, match="resolver_required"):
        SurfaceSource(None, server=True)
    for source in (SurfaceSource(None), SurfaceSource(None, server=True, allow_all=True)):
        assert source.resolve(CONTEXT) == ALLOW_ALL


@pytest.mark.parametrize(
    "wrong", [lambda _context: ALLOW_ALL, object(), "resolver", {"resolve": 1}, DENY_ALL], ids=range(5)
)
def test_g9_what_is_no_resolver_is_refused_at_start_up(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="wrong_type"):
        SurfaceSource(wrong)


def test_g9_calls_of_different_users_never_mix() -> None:
    """Case C4: no state is shared between calls."""
    source = SurfaceSource(Resolver(lambda context: CapabilitySurface(skills=[context.user])))
    found: dict[str, Any] = {}

    def ask(user: str) -> None:
        found[user] = source.resolve(CallContext("t1", user, "mira"))

    threads = [threading.Thread(target=ask, args=(f"u{number}",)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {f"u{number}": CapabilitySurface(skills=[f"u{number}"]) for number in range(20)}
