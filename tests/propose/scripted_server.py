"""An OpenAI-compatible server that answers by script, over real HTTP, with the faults that real ones have."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PIECE = 400  # characters of a piece of a stream


@dataclass(frozen=True)
class Answer:
    """One reply. `fault` happens after the first piece of the text: stall, broken (the connection) or malformed."""

    text: str = ""
    finish: str = "stop"
    status: int = 200
    delay: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)
    fault: str = ""


@dataclass
class ScriptedServer:
    """`script` gives the answer to a request's JSON; `requests` holds them all, `headers` what came with them."""

    script: Callable[[dict[str, Any]], Answer]
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def prompts(self) -> list[str]:
        """What the last message of each request said."""
        return [request["messages"][-1]["content"] for request in self.requests]


@contextmanager
def serving(script: Callable[[dict[str, Any]], Answer], port: int = 0) -> Iterator[ScriptedServer]:
    """The server is up inside."""
    server = ScriptedServer(script)
    http = _Http(("127.0.0.1", port), server)
    server.port = http.server_address[1]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        http.shutdown()
        http.server_close()


def in_turn(*answers: Answer) -> Callable[[dict[str, Any]], Answer]:
    """One after the other, the last one for ever."""
    left = list(answers)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], scripted: ScriptedServer) -> None:
        self.scripted = scripted
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        scripted: ScriptedServer = self.server.scripted  # type: ignore[attr-defined]
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        scripted.requests.append(request)
        scripted.headers.append(dict(self.headers.items()))
        answer = scripted.script(request)
        scripted.released.wait(answer.delay) if answer.delay else None
        try:
            if answer.status != 200:
                error = {"error": {"message": f"no: {answer.status}", "type": "scripted", "code": answer.status}}
                self._whole(answer.status, error, answer.headers)
            elif request.get("stream"):
                self._stream(request, answer, scripted)
            else:
                choice = {"index": 0, "finish_reason": answer.finish, "message": _message(answer.text)}
                self._whole(
                    200,
                    {
                        **_head(request),
                        "object": "chat.completion",
                        "choices": [choice],
                        "usage": _usage(request, answer),
                    },
                )
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client has had enough

    def _whole(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(content)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, request: dict[str, Any], answer: Answer, scripted: ScriptedServer) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        pieces = [answer.text[at : at + PIECE] for at in range(0, len(answer.text), PIECE)] or [""]
        for number, piece in enumerate(pieces):
            if number == 1 or (answer.fault and len(pieces) == 1):
                if answer.fault == "stall":
                    scripted.released.wait(30)
                if answer.fault == "broken":
                    self.close_connection = True
                    self.connection.close()
                    return
                if answer.fault == "malformed":
                    self._piece("{not json")
            self._event(request, {"index": 0, "delta": _message(piece), "finish_reason": None})
        self._event(request, {"index": 0, "delta": {}, "finish_reason": answer.finish})
        self._piece(
            json.dumps(
                {**_head(request), "object": "chat.completion.chunk", "choices": [], "usage": _usage(request, answer)}
            )
        )
        self._piece("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, request: dict[str, Any], choice: dict[str, Any]) -> None:
        self._piece(json.dumps({**_head(request), "object": "chat.completion.chunk", "choices": [choice]}))

    def _piece(self, text: str) -> None:
        data = f"data: {text}\n\n".encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def log_message(self, *arguments: object) -> None:
        """Nothing on the screen."""


def _head(request: dict[str, Any]) -> dict[str, Any]:
    return {"id": "scripted", "created": 0, "model": request.get("model", "")}


def _message(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def _usage(request: dict[str, Any], answer: Answer) -> dict[str, int]:
    prompt = sum(len(message["content"]) for message in request["messages"]) // 4
    reply = len(answer.text) // 4
    return {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply}
