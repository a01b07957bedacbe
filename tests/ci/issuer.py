"""A stand-in for the OpenID issuer of a CI service, on the loopback interface."""

import base64
import json
import subprocess
import threading
import time
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

# What GitHub gives to a step in place of the token itself.
REQUEST_TOKEN = "request-token-of-the-runner"


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    def __init__(self, folder: Path):
        self.key = folder / "issuer.pem"
        generate = ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", self.key]
        subprocess.run(generate, check=True, capture_output=True)
        self.claims: dict = {}
        self.tokens: list[str] = []
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        place = urllib.parse.urlsplit(request.path)
        match place.path:
            case "/.well-known/openid-configuration":
                document = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
            case "/keys":
                document = {"keys": [self.public()]}
            case "/token" if request.headers["Authorization"] == f"bearer {REQUEST_TOKEN}":
                document = {"value": self.token(urllib.parse.parse_qs(place.query)["audience"][0])}
            case _:
                request.send_error(404)
                return
        body = json.dumps(document).encode()
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def public(self) -> dict:
        command = ["openssl", "rsa", "-in", self.key, "-noout", "-modulus"]
        modulus = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip().split("=")[1]
        return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "one", "n": encode(bytes.fromhex(modulus)), "e": "AQAB"}

    def token(self, audience: str) -> str:
        now = int(time.time())
        claims = {"iss": self.url, "aud": audience, "iat": now, "nbf": now, "exp": now + 300, "jti": str(uuid.uuid4()), **self.claims}
        parts = [{"alg": "RS256", "typ": "JWT", "kid": "one"}, claims]
        text = ".".join(encode(json.dumps(part).encode()) for part in parts)
        sign = ["openssl", "dgst", "-sha256", "-sign", self.key]
        signature = subprocess.run(sign, input=text.encode(), check=True, capture_output=True).stdout
        self.tokens.append(f"{text}.{encode(signature)}")
        return self.tokens[-1]
