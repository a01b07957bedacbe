"""A TCP proxy that fails when a test asks it to."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from typing_extensions import Self


class Proxy:
    """Forwards connections to a server.

    Attributes:
        connections: The number of connections so far.
        drops: The number of answers to drop after the server has sent them.
        answers: Answers to send in place of those of the server, to requests that it never gets.
        cut_after: The number of bytes of answers after which each new connection is closed.
        refuses: ``True`` to close new connections at once.
    """

    def __init__(self, url: str) -> None:
        target = urlsplit(url)
        self._target = (target.hostname or "", target.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self.drops = 0
        self.answers: deque[bytes] = deque()
        self.cut_after: int | None = None
        self.refuses = False
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        _close(self._listener)
        self.cut()

    def cut(self) -> None:
        """Closes all connections."""
        with self._lock:
            for one in self._open:
                _close(one)
            self._open.clear()

    def answer(self, status: str, *headers: str, body: str = "") -> None:
        """Answers the next request in place of the server."""
        head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body.encode())}", "Connection: close"]
        self.answers.append(("\r\n".join([*head, *headers]) + "\r\n\r\n" + body).encode())

    def _start(self, function: object, *arguments: object) -> None:
        assert callable(function)
        threading.Thread(target=function, args=arguments, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
            except OSError:
                return
            if self.refuses:
                _close(client, server)
                continue
            with self._lock:
                self.connections += 1
                self._open |= {client, server}
            self._start(self._requests, client, server)
            self._start(self._responses, server, client, self.cut_after)

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self.answers:
                    client.sendall(self.answers.popleft())
                    break
                server.sendall(data)
        _close(client, server)

    def _responses(self, server: socket.socket, client: socket.socket, left: int | None) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if self.drops > 0:
                    self.drops -= 1
                    break
                client.sendall(data[:left])
                if left is not None:
                    left -= len(data)
                    if left <= 0:
                        break
        _close(client, server)


def _close(*sockets: socket.socket) -> None:
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
