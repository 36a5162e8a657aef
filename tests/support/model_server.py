"""A model that is no model: a real HTTP server that speaks the chat-completions protocol and says what it is told to.

::

    with ModelServer([tool_calls(("c1", "tool_lookup", '{"text": "x"}')), text("It is ", "x.")]) as server:
        ...  # talk to server.url
    assert server.requests[1].body["messages"][-1]["role"] == "tool"

A script is a series of steps, one a request in the order of their arrival, or a function from a request to its step.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

LIMIT = 60.0
"""seconds that anything is waited for; never reached where all is well"""

Call = tuple[str, str, str]
"""id, name, arguments as the model wrote them"""


@dataclass(frozen=True, slots=True)
class Step:
    """One answer. Made by the functions below; ``replace`` changes one."""

    pieces: tuple[str, ...] = ()
    """of the text; a chunk each where the answer is streamed"""
    calls: tuple[Call, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """sent instead of anything else"""
    cut_after: int | None = None
    """the connection ends after this many pieces and calls"""
    clean_cut: bool = False
    """whether what was cut looks like a complete HTTP body; only the protocol's own end is missing"""
    hold: threading.Event | None = None
    """waited for, unless the client goes away first"""
    hold_after: int = -1
    """this many pieces and calls are sent before; -1: not even the headers"""
    error: Mapping[str, Any] | None = None
    """the stream ends with this error instead of its end"""
    finish_reason: str | None = None
    usage: tuple[int, int] = (10, 5)
    """tokens read and written"""


def text(*pieces: str, **changed: Any) -> Step:
    """An answer, in these pieces where it is streamed."""
    return Step(pieces=pieces, **changed)


def tool_calls(*calls: Call, say: Iterable[str] = (), **changed: Any) -> Step:
    """Calls, and before them what the model says; arguments are sent as they are, well-formed or not."""
    return Step(pieces=tuple(say), calls=calls, **changed)


def status(code: int, headers: Mapping[str, str] | None = None, message: str = "no") -> Step:
    """An answer that is none."""
    body = json.dumps({"error": {"message": message, "type": "test", "param": None, "code": None}}).encode()
    return Step(status=code, headers=headers or {}, body=body)


def cut(*pieces: str, after: int, clean: bool = False, calls: tuple[Call, ...] = ()) -> Step:
    """A stream that ends after so many of its pieces and calls; where the client asked for no stream, no answer at all."""
    return Step(pieces=pieces, calls=calls, cut_after=after, clean_cut=clean)


def malformed(
    body: bytes = b'{"id": "x", "choices": [{"message": {"cont', content_type: str = "application/json"
) -> Step:
    """An answer of status 200 that nobody can read."""
    return Step(body=body, headers={"Content-Type": content_type})


def hang(released: threading.Event, *pieces: str, after: int = -1) -> Step:
    """An answer that waits for ``released`` after ``after`` pieces, by default before its headers."""
    return Step(pieces=pieces or ("late",), hold=released, hold_after=after)


def endless(name: str, arguments: str = "{}") -> Callable[[Request], Step]:
    """A model that calls one tool again and again, as long as it is offered any; then it says nothing."""

    def answer(request: Request) -> Step:
        return tool_calls((f"call-{request.number}", name, arguments)) if request.tools else text("")

    return answer


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sent."""

    number: int
    """counts from 1"""
    path: str
    headers: Mapping[str, str]
    """names in lower case"""
    body: Any
    closed_early: threading.Event = field(default_factory=threading.Event)
    """set when the client closes the connection before it has the whole answer"""
    answered: threading.Event = field(default_factory=threading.Event)
    """set when nothing more is sent"""

    @property
    def streamed(self) -> bool:
        """Whether the answer is to come in pieces."""
        return bool(self.body.get("stream"))

    @property
    def tools(self) -> list[str]:
        """Names of the tools that are offered."""
        return [tool["function"]["name"] for tool in self.body.get("tools", [])]

    @property
    def messages(self) -> list[tuple[str, Any]]:
        """Role and content of every message."""
        return [(message["role"], message.get("content")) for message in self.body["messages"]]


class ModelServer:
    """Serves from entering to leaving its ``with`` block, on a free port of the loopback interface."""

    def __init__(self, script: Iterable[Step] | Callable[[Request], Step]) -> None:
        self._script = script if callable(script) else iter(script)
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._connections: set[socket.socket] = set()
        self.errors: list[BaseException] = []
        """what went wrong in here; not the client's closing of a connection"""
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self.stopping = threading.Event()

    @property
    def url(self) -> str:
        """The base URL to configure."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def requests(self) -> list[Request]:
        """What arrived so far."""
        with self._lock:
            return list(self._requests)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._thread.join(LIMIT)
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            _shut(connection)
        self._server.server_close()

    def receive(self, path: str, headers: Mapping[str, str], body: Any) -> tuple[Request, Step]:
        """Record a request, and say what to answer."""
        with self._lock:
            request = Request(len(self._requests) + 1, path, headers, body)
            self._requests.append(request)
            if isinstance(self._script, Iterator):
                return request, next(self._script, status(501, message="the script is over"))
        return request, self._script(request)

    def connected(self, connection: socket.socket, *, still: bool) -> None:
        """Keep in mind which connections are open."""
        with self._lock:
            (self._connections.add if still else self._connections.discard)(connection)


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, owner: ModelServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.owner = owner

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            self.owner.errors.append(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.owner.connected(self.connection, still=True)

    def finish(self) -> None:
        self.server.owner.connected(self.connection, still=False)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request, step = self.server.owner.receive(self.path, headers, body)
        if self.path != "/v1/chat/completions":
            step = status(404)
        try:
            self._answer(request, step)
        except (OSError, _ClosedError):
            request.closed_early.set()
            self.close_connection = True
        finally:
            request.answered.set()

    def _answer(self, request: Request, step: Step) -> None:
        if step.hold_after < 0:
            self._hold(step)
        if step.body is not None:
            self._send(step.status, step.body, {"Content-Type": "application/json", **step.headers})
        elif request.streamed:
            self._stream(request, step)
        elif step.cut_after is not None:
            self._hang_up()
        else:
            self._send(step.status, _dump(_completion(request, step)), {"Content-Type": "application/json"})

    def _send(self, code: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, request: Request, step: Step) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        if step.cut_after is not None:
            self.send_header("Connection", "close")  # or the client's next request may meet the closed connection
        self.end_headers()
        for index, part in enumerate([*step.pieces, *step.calls, None]):
            if index == step.hold_after:
                self._hold(step)
            if index == step.cut_after:
                if step.clean_cut:
                    self.wfile.write(b"0\r\n\r\n")
                self._hang_up()
                return
            if isinstance(part, str):
                self._event(_chunk(request, {"role": "assistant", "content": part}))
            elif part is not None:
                self._call(request, index - len(step.pieces), part)
        if step.error is not None:
            self._event({"error": step.error})
            self._write(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")
            return
        self._event(_chunk(request, {}, finish_reason=_finish_reason(step)))
        self._event({**_chunk(request, {}), "choices": [], "usage": _usage(step)})
        self._write(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _call(self, request: Request, index: int, call: Call) -> None:
        """A call in three chunks, its arguments in two."""
        id, name, arguments = call
        begun = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
        self._event(_chunk(request, {"tool_calls": [begun]}))
        half = len(arguments) // 2
        for part in (arguments[:half], arguments[half:]):
            self._event(_chunk(request, {"tool_calls": [{"index": index, "function": {"arguments": part}}]}))

    def _event(self, chunk: Mapping[str, Any]) -> None:
        self._write(b"data: " + _dump(chunk) + b"\n\n")

    def _write(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _hold(self, step: Step) -> None:
        """Wait until the step's event is set; raises where the client is gone before."""
        if step.hold is None:
            return
        for _ in range(int(LIMIT / 0.01)):
            if step.hold.is_set() or self.server.owner.stopping.is_set():
                return
            readable, _, _ = select.select([self.connection], [], [], 0.01)
            if readable and self.connection.recv(1, socket.MSG_PEEK) == b"":
                raise _ClosedError
        raise TimeoutError("nobody released the answer")

    def _hang_up(self) -> None:
        self.close_connection = True
        _shut(self.connection)


class _ClosedError(Exception):
    """The client went away."""


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _finish_reason(step: Step) -> str:
    return step.finish_reason or ("tool_calls" if step.calls else "stop")


def _usage(step: Step) -> dict[str, int]:
    read, written = step.usage
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _chunk(request: Request, delta: Mapping[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {
        "id": f"answer-{request.number}",
        "object": "chat.completion.chunk",
        "created": 1_772_352_000,
        "model": request.body["model"],
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def _completion(request: Request, step: Step) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(step.pieces) if step.pieces else None}
    if step.calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in step.calls
        ]
    return {
        "id": f"answer-{request.number}",
        "object": "chat.completion",
        "created": 1_772_352_000,
        "model": request.body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": _finish_reason(step)}],
        "usage": _usage(step),
    }
