"""Who gives out tokens in tests: a key, its public half as brokers read it, and an endpoint on 127.0.0.1."""

import json
import subprocess
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs

AUDIENCE = "kafka"


class Issuer:
    """Signs tokens (RS256) by a key in `folder`, of which brokers are shown `jwks`."""

    def __init__(self, folder: Path) -> None:
        self._key = folder / "issuer.key"
        self.jwks = folder / "jwks.json"
        run("openssl", "genrsa", "-out", str(self._key), "2048")
        printed = run("openssl", "rsa", "-in", str(self._key), "-noout", "-modulus").decode()
        modulus = bytes.fromhex(printed.strip().removeprefix("Modulus="))
        key = {"kty": "RSA", "kid": "one", "alg": "RS256", "use": "sig", "e": "AQAB", "n": url_safe(modulus)}
        self.jwks.write_text(json.dumps({"keys": [key]}))

    def token(self, subject: str, life_s: float = 3600, audience: str = AUDIENCE) -> str:
        now_s = int(time.time())
        claims = {"sub": subject, "aud": audience, "iat": now_s, "exp": now_s + life_s, "scope": "all"}
        head = url_safe(json.dumps({"alg": "RS256", "kid": "one", "typ": "JWT"}).encode())
        signed = f"{head}.{url_safe(json.dumps(claims).encode())}"
        signature = run("openssl", "dgst", "-sha256", "-sign", str(self._key), given=signed.encode())
        return f"{signed}.{url_safe(signature)}"


def run(*command: str, given: bytes = b"") -> bytes:
    return subprocess.run(command, input=given, check=True, capture_output=True).stdout


def url_safe(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


class Asked:
    """A question to the endpoint: who asked, and for what."""

    def __init__(self, authorization: str, form: str) -> None:
        kind, _, encoded = authorization.partition(" ")
        assert kind == "Basic"
        self.user, _, self.password = b64decode(encoded).decode().partition(":")
        self.form = {name: values[0] for name, values in parse_qs(form).items()}


Answer = Callable[[Asked], "tuple[int, Iterator[bytes] | bytes]"]
"""Status, and the body or its pieces."""


@contextmanager
def endpoint(answer: Answer) -> Iterator[str]:
    """The URL of a token endpoint."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
            status, body = answer(Asked(self.headers.get("authorization", "Basic "), form))
            self.send_response(status)
            self.end_headers()
            try:
                for piece in (body,) if isinstance(body, bytes) else body:
                    self.wfile.write(piece)
                    self.wfile.flush()
            except OSError:
                self.close_connection = True  # whoever asked has gone

        def log_message(self, format: str, *args: object) -> None:
            """Tests print what they saw."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def granting(issuer: Issuer, life_s: float) -> Answer:
    """Tokens for who knows his secret: the user's name and `-secret`."""

    def answer(asked: Asked) -> tuple[int, bytes]:
        if asked.password != f"{asked.user}-secret" or asked.form.get("grant_type") != "client_credentials":
            return 401, b'{"error": "invalid_client", "error_description": "%s"}' % asked.password.encode()
        return 200, json.dumps({"access_token": issuer.token(asked.user, life_s), "expires_in": life_s}).encode()

    return answer
