from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from prowess.adapters.sandboxes.network import tunnel as tunnels
from prowess.adapters.sandboxes.network.model import NetworkLimits
from prowess.adapters.sandboxes.network.tunnel import Stream, Tunnel


async def pair() -> tuple[Stream, Stream]:
    """Both ends of a connection."""
    ends = socket.socketpair()
    return Stream(*await asyncio.open_connection(sock=ends[0])), Stream(*await asyncio.open_connection(sock=ends[1]))


def run_with_time(work: Callable[[list[float]], Awaitable[Any]]) -> None:
    """Run in a loop whose time is given: it stands still but for what is added to it."""
    time = [0.0]

    def loop() -> asyncio.AbstractEventLoop:
        made = asyncio.new_event_loop()
        made.time = lambda: time[0]  # type: ignore[method-assign]
        return made

    async def main() -> None:
        await work(time)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


def always(count: int) -> bool:
    return True


@pytest.mark.parametrize("down", [False, True])
def test_x6_a_tunnel_is_idle_only_where_nothing_goes_either_way(down: bool) -> None:
    async def work(time: list[float]) -> None:
        script, inside = await pair()
        outside, host = await pair()
        tunnel = Tunnel(inside, outside, NetworkLimits(idle_s=30.0, life_s=300.0))
        running = asyncio.ensure_future(tunnel.run(always, always))
        await asyncio.sleep(0)  # it begins
        speaker, listener = (host, script) if down else (script, host)
        for _ in range(9):
            time[0] += 29.0
            speaker.writer.write(b"x")
            assert await listener.reader.readexactly(1) == b"x"
        time[0] += 31.0
        with pytest.raises(TimeoutError):
            await running
        for stream in (script, inside, outside, host):
            stream.abort()

    run_with_time(work)


def test_x6_a_tunnel_lives_so_long() -> None:
    async def work(time: list[float]) -> None:
        script, inside = await pair()
        outside, host = await pair()
        running = asyncio.ensure_future(Tunnel(inside, outside, NetworkLimits()).run(always, always))
        await asyncio.sleep(0)  # it begins
        for _ in range(10):
            time[0] += 29.0
            script.writer.write(b"x")
            await host.reader.readexactly(1)
        time[0] += 10.0
        with pytest.raises(TimeoutError):
            await running
        for stream in (script, inside, outside, host):
            stream.abort()

    run_with_time(work)


def test_x6_what_is_still_unsent_is_delivered_before_the_end() -> None:
    async def work() -> bytes:
        near, far = await pair()
        near.writer.write(bytes(5_000_000))
        _, received = await asyncio.gather(near.finish(), far.reader.read())
        far.abort()
        return received

    assert asyncio.run(work()) == bytes(5_000_000)


def test_x6_who_takes_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnels, "FLUSH_S", 0.05)

    async def work() -> None:
        ends = socket.socketpair()
        near = Stream(*await asyncio.open_connection(sock=ends[0]))
        near.writer.write(bytes(5_000_000))
        await near.finish()
        assert near.writer.transport.get_write_buffer_size() == 0  # what nobody took is dropped
        ends[1].close()

    asyncio.run(work())
