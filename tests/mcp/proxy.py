"""A proxy on the loopback interface that adds a key to each request, for clients that cannot send one."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from program import WAIT

# These headers belong to one connection.
CONNECTION_HEADERS = {"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding"}


def handler(server: str, key: str) -> type[BaseHTTPRequestHandler]:
    upstream = urlsplit(server)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            connection = http.client.HTTPConnection(upstream.hostname, upstream.port, timeout=WAIT)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in CONNECTION_HEADERS | {"authorization"}:
                    connection.putheader(name, self.replaced(name, value))
            connection.putheader("Authorization", f"Bearer {key}")
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            content = answer.read()
            self.send_response(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in CONNECTION_HEADERS:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            connection.close()

        def replaced(self, name: str, value: str) -> str:
            """Replaces the address of the proxy by that of the server; other values pass, also invalid ones."""
            own = "%s:%s" % self.server.server_address[:2]
            return value.replace(own, upstream.netloc) if name.lower() in ("host", "origin") else value

        do_GET = do_POST = do_DELETE = do_OPTIONS = forward

        def log_message(self, *_: object) -> None:
            pass

    return Handler


class Proxy(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Ignores clients that close their connection early."""


@contextmanager
def proxied(server: str, key: str) -> Iterator[str]:
    """Starts the proxy, and returns its address."""
    proxy = Proxy(("127.0.0.1", 0), handler(server, key))
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield "http://%s:%s" % proxy.server_address[:2]
    finally:
        proxy.shutdown()
        proxy.server_close()
