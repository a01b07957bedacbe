"""Stand-ins for Slack and for the OpenID issuer of a CI service."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric import ed25519

if TYPE_CHECKING:
    from email.message import Message

#: The only bot token that Slack accepts.
BOT_TOKEN = "xoxb-example"

AUDIENCE = "https://journeyman.example.com"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class StandIns:
    """A server on the loopback interface."""

    def __init__(self) -> None:
        self._key = ed25519.Ed25519PrivateKey.generate()
        answers = self._answer

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                self.rfile.read(length)
                body = json.dumps(answers(self.path, self.headers)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        self.slack = f"{self.issuer}/slack/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _answer(self, path: str, headers: Message) -> Any:
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}
        if path == "/keys":
            public = encoded(self._key.public_key().public_bytes_raw())
            key = {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": "1"}
            return {"keys": [{**key, "x": public}]}
        if headers.get("Authorization") == f"Bearer {BOT_TOKEN}":
            return {"ok": True, "team_id": "T012AB3CD", "team": "Acme", "user_id": "U012AB3CD"}
        return {"ok": False, "error": "invalid_auth"}

    def token(self, **claims: str) -> str:
        """Returns a token of the issuer."""
        now = int(time.time())
        times = {"iat": now, "nbf": now, "exp": now + 300}
        payload = {"iss": self.issuer, "aud": AUDIENCE, "sub": "ci", **times, **claims}
        parts = ({"alg": "EdDSA", "kid": "1", "typ": "JWT"}, payload)
        signed = ".".join(encoded(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{encoded(self._key.sign(signed.encode()))}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
