"""What the provider is asked over HTTP: over sockets, within bounds, and led nowhere else."""

import os
import ssl
from pathlib import Path

import pytest

from api.access.oidc import exchange as module
from api.access.oidc.exchange import HttpxProvider, ProviderUnavailable
from delayline.clock import ManualClock, SystemClock
from delayline.errors import ConfigError
from tests.brokers.certificates import make_certificate
from tests.brokers.identity_provider import Reply, served
from tests.ports import free_port

CLOCK = SystemClock()


def test_a_body_comes_as_it_is() -> None:
    with served(CLOCK) as idp:
        idp.replies["/keys"] = Reply(200, b'{"keys":[]}')
        assert HttpxProvider(None, CLOCK).get(f"{idp.issuer}/keys") == b'{"keys":[]}'


def test_a_form_is_posted() -> None:
    with served(CLOCK) as idp:
        answer = HttpxProvider(None, CLOCK).post(f"{idp.issuer}/token", {"code": "x y"}, {"authorization": "Basic x"})
        assert answer.status == 400
        assert idp.forms == [({"code": "x y"}, "Basic x")]


def test_a_redirect_is_not_followed() -> None:
    with served(CLOCK) as idp:
        idp.replies["/keys"] = Reply(302, b"", f"{idp.issuer}/elsewhere")
        with pytest.raises(ProviderUnavailable, match="answers 302"):
            HttpxProvider(None, CLOCK).get(f"{idp.issuer}/keys")
        assert HttpxProvider(None, CLOCK).post(f"{idp.issuer}/keys", {}, {}).status == 302
        assert idp.asked == ["/keys", "/keys"]


def test_an_answer_is_bounded() -> None:
    with served(CLOCK) as idp:
        idp.replies["/keys"] = Reply(200, b"x" * (module.ANSWER_BYTES_MAX + 1))
        with pytest.raises(ProviderUnavailable, match="more than"):
            HttpxProvider(None, CLOCK).get(f"{idp.issuer}/keys")


def test_an_answer_that_comes_bit_by_bit_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part comes in time, and the whole does not."""
    monkeypatch.setattr(module, "ANSWER_S", -1.0)
    with served(CLOCK) as idp, pytest.raises(ProviderUnavailable, match="takes longer"):
        HttpxProvider(None, ManualClock()).get(f"{idp.issuer}/keys")


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "http://id.example/keys", "ftp://127.0.0.1/", "http://127.0.0.1@id.example/", ""]
)
def test_a_url_that_leaves_the_machine_in_the_clear_is_not_asked(url: str) -> None:
    with pytest.raises(ProviderUnavailable, match="neither https nor of this machine"):
        HttpxProvider(None, CLOCK).get(url)


def test_a_provider_that_does_not_listen_is_unavailable() -> None:
    with pytest.raises(ProviderUnavailable, match="ConnectError"):
        HttpxProvider(None, CLOCK).get(f"http://127.0.0.1:{free_port()}/keys")
    with served(CLOCK) as idp:
        idp.is_down = True
        with pytest.raises(ProviderUnavailable, match="RemoteProtocolError"):
            HttpxProvider(None, CLOCK).get(f"{idp.issuer}/keys")


def test_over_https_only_a_certificate_of_the_authorities_is_believed(tmp_path: Path) -> None:
    make_certificate(tmp_path, "server", "127.0.0.1")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    with served(CLOCK, tls=tls) as idp:
        assert HttpxProvider(tmp_path / "server.crt", CLOCK).get(f"{idp.issuer}/keys")
        with pytest.raises(ProviderUnavailable, match="ConnectError"):
            HttpxProvider(None, CLOCK).get(f"{idp.issuer}/keys")


@pytest.mark.parametrize("content", [None, b"", b"no PEM"])
def test_a_file_of_authorities_that_cannot_be_used_is_refused_at_the_start(
    tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "ca.crt").write_bytes(content)
    with pytest.raises(ConfigError, match=r"access\.oidc\.cafile"):
        HttpxProvider(tmp_path / "ca.crt", CLOCK)


def test_a_pipe_of_authorities_is_refused_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ca.crt")
    with pytest.raises(ConfigError, match=r"access\.oidc\.cafile: .* is a pipe"):
        HttpxProvider(tmp_path / "ca.crt", CLOCK)
