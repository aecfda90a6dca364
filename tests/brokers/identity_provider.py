"""A small OpenID provider for tests: keys that rotate, tokens with whatever claims, logins by code with PKCE; down,
slow to change, or evil, when a test asks for it. `HeldProvider` answers in this process, `served` on a socket."""

import base64
import hashlib
import hmac
import html
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jws
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from api.access.oidc.exchange import ProviderAnswer, ProviderUnavailable
from delayline.clock import Clock
from tests.ports import free_port

AUDIENCE, CLIENT, SECRET = "delayline-api", "delayline-console", "a secret: with +%& in it"
RSA = RSAKey.generate_key(2048)
"""Made once: it takes a tenth of a second."""

_KINDS: Mapping[str, Any] = {
    "ES256": lambda: ECKey.generate_key("P-256"),
    "ES384": lambda: ECKey.generate_key("P-384"),
    "EdDSA": lambda: OKPKey.generate_key("Ed25519"),
}


def new_key(algorithm: str = "ES256") -> Key:
    return RSAKey.generate_key(2048) if algorithm not in _KINDS else _KINDS[algorithm]()


class Reply(NamedTuple):
    status: int
    body: bytes = b"{}"
    location: str = ""


class IdentityProvider:
    """`claims` and `answer` change what is in ID tokens, and in the discovery document, by name."""

    def __init__(self, issuer: str, clock: Clock) -> None:
        self.issuer = issuer
        self.clock = clock
        self.keys: dict[str, tuple[str, Key]] = {"one": ("RS256", RSA)}
        self.person = {"sub": "ann", "groups": ["ops"]}
        self.claims: dict[str, Any] = {}
        self.discovery: dict[str, Any] = {}
        self.back: dict[str, str] = {}  # more of the query with which a browser is sent back
        self.replies: dict[str, Reply] = {}  # by path, instead of what would be right
        self.is_down = False
        self.asks = False  # a person has to agree, on a page
        self.signs_with: tuple[str, Key] | None = None
        self.asked: list[str] = []
        self.forms: list[tuple[dict[str, str], str]] = []  # (form, authorization) of the token endpoint
        self._codes: dict[str, dict[str, str]] = {}

    @property
    def now_s(self) -> int:
        return self.clock.now_ms() // 1000

    def rotate(self, key_id: str, algorithm: str = "ES256", *, keeps: bool = False) -> None:
        """From now on it signs with a new key, and publishes the others only where it keeps them."""
        self.keys = {key_id: (algorithm, new_key(algorithm)), **(self.keys if keeps else {})}

    def access_token(self, header: Mapping[str, Any] | None = None, **claims: Any) -> str:
        """A right one but for what is given; a claim that is None is left out."""
        return self.token({"aud": AUDIENCE, "sub": "svc", **claims}, header)

    def token(self, claims: Mapping[str, Any], header: Mapping[str, Any] | None = None) -> str:
        all_claims = {"iss": self.issuer, "iat": self.now_s, "exp": self.now_s + 300, **claims}
        return self.sign(json.dumps({k: v for k, v in all_claims.items() if v is not None}).encode(), header)

    def sign(self, payload: bytes, header: Mapping[str, Any] | None = None) -> str:
        """With the newest key, or `signs_with`; a member of the header that is None is left out."""
        key_id = next(iter(self.keys))
        algorithm, key = self.signs_with or self.keys[key_id]
        whole = {"alg": algorithm, "kid": key_id, "typ": "JWT", **(header or {})}
        return signed(payload, {k: v for k, v in whole.items() if v is not None}, key)

    def reply(self, method: str, url: str, form: Mapping[str, str], authorization: str) -> Reply:
        path = urlsplit(url).path.removeprefix(urlsplit(self.issuer).path.rstrip("/"))
        self.asked.append(path)
        if path in self.replies:
            return self.replies[path]
        if path == "/.well-known/openid-configuration":
            return Reply(200, json.dumps(self._document()).encode())
        if path == "/keys":
            return Reply(200, json.dumps({"keys": [self._jwk(key_id) for key_id in self.keys]}).encode())
        if path == "/authorize":
            back = self.send_back(url)
            return (
                Reply(200, f'<a href="{html.escape(back)}">Agree</a>'.encode())
                if self.asks
                else Reply(303, b"", back)
            )
        if path == "/token" and method == "POST":
            return self._exchange(dict(form), authorization)
        return Reply(404)

    def _document(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "jwks_uri": f"{self.issuer}/keys",
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "authorization_response_iss_parameter_supported": True,
            **self.discovery,
        }

    def _jwk(self, key_id: str) -> dict[str, Any]:
        return {**self.keys[key_id][1].as_dict(private=False), "kid": key_id, "use": "sig"}

    def send_back(self, url: str) -> str:
        """Where the browser goes that opens this URL: the person has logged in and agreed."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        code = hashlib.sha256(repr((asked, len(self._codes))).encode()).hexdigest()
        self._codes[code] = asked
        query = {"code": code, "state": asked["state"], "iss": self.issuer, "session_state": "x", **self.back}
        return f"{asked['redirect_uri']}?{urlencode({k: v for k, v in query.items() if v})}"

    def _exchange(self, form: dict[str, str], authorization: str) -> Reply:
        """A code is for once, for its client, and for who has the verifier (RFC 7636, 4.6)."""
        self.forms.append((form, authorization))
        asked = self._codes.pop(form.get("code", ""), None)
        verifier = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if (
            asked is None
            or asked["code_challenge"] != verifier.rstrip(b"=").decode()
            or form.get("redirect_uri") != asked["redirect_uri"]
            or form.get("client_id") != asked["client_id"]
        ):
            return Reply(400, b'{"error":"invalid_grant"}')
        claims = {"aud": CLIENT, "nonce": asked["nonce"], **self.person, **self.claims}
        body = {"id_token": self.token(claims), "access_token": "x", "token_type": "Bearer"}
        return Reply(200, json.dumps(body).encode())


def signed(payload: bytes, header: Mapping[str, Any], key: Key | bytes) -> str:
    """Whatever the header has: it is an attacker's, too. With bytes, by HMAC, or not at all where there are none."""
    algorithm = str(header["alg"])
    head = b".".join(map(encoded, (json.dumps(header).encode(), payload)))
    return b".".join((head, encoded(_signature(head, algorithm, key)))).decode()


def _signature(head: bytes, algorithm: str, key: Key | bytes) -> bytes:
    if isinstance(key, bytes):
        return hmac.digest(key, head, f"sha{algorithm[2:]}") if key else b""
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    return registry.get_alg(algorithm).sign(head, key)


def encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


class HeldProvider:
    """Asks a provider in this process, as `HttpxProvider` does over the network."""

    def __init__(self, provider: IdentityProvider) -> None:
        self.provider = provider

    def get(self, url: str) -> bytes:
        reply = self._asked("GET", url, {}, "")
        if reply.status != 200:
            raise ProviderUnavailable(f"{url} answers {reply.status}")
        return reply.body

    def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> ProviderAnswer:
        reply = self._asked("POST", url, form, headers.get("authorization", ""))
        return ProviderAnswer(reply.status, reply.body)

    def _asked(self, method: str, url: str, form: Mapping[str, str], authorization: str) -> Reply:
        if self.provider.is_down:
            self.provider.asked.append("down")
            raise ProviderUnavailable("down")
        return self.provider.reply(method, url, form, authorization)


@contextmanager
def served(clock: Clock, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Iterator[IdentityProvider]:
    """On a port of 127.0.0.1; `host` is its name in URLs."""
    port = free_port()
    provider = IdentityProvider(f"{'http' if tls is None else 'https'}://{host}:{port}", clock)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            form = {name: values[0] for name, values in parse_qs(self.rfile.read(length).decode()).items()}
            self._answer(form)

        def _answer(self, form: Mapping[str, str]) -> None:
            if provider.is_down:
                self.close_connection = True
                return
            reply = provider.reply(self.command, self.path, form, self.headers.get("authorization", ""))
            self.send_response(reply.status)
            if reply.location:
                self.send_header("location", reply.location)
            if reply.body.startswith(b"<"):
                self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: pytest shows what fails."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
