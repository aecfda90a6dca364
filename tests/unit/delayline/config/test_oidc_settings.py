"""Settings about an identity provider: which are accepted, and how each other one is refused."""

from pathlib import Path
from typing import Any

import pytest

from delayline.config import Settings, describe, load_settings
from delayline.errors import ConfigError

ISSUER = "https://id.example/realms/main"
TOKENS = {"issuer": ISSUER, "audience": "delayline-api"}
LOGINS = {
    **TOKENS,
    "client_id": "console",
    "client_secret": "a client's secret",
    "redirect_url": "https://delayline.example/v1/session/callback",
}


def loaded(tmp_path: Path, oidc: dict[str, str], **access: str) -> Settings:
    """Where every request needs a credential, and rules are there."""
    given = {"API__AUTH": "keys", "ACCESS__RULES": "rules.toml", **access}
    given |= {f"ACCESS__OIDC__{name.upper()}": value for name, value in oidc.items()}
    return load_settings(None, {}, {f"DELAYLINE_{name}": value for name, value in given.items()}, tmp_path)


def test_with_a_provider_keys_may_be_left_out(tmp_path: Path) -> None:
    access = loaded(tmp_path, TOKENS).access
    assert access.keys is None
    assert (access.oidc.principal_claim, access.oidc.groups_claim, access.oidc.leeway) == ("sub", "", 60_000)
    assert access.oidc.algorithms == ("RS256", "PS256", "ES256", "EdDSA")
    with pytest.raises(ConfigError, match=r"^access\.rules: "):
        loaded(tmp_path, TOKENS, ACCESS__RULES="")
    with pytest.raises(ConfigError, match=r"^access\.keys: "):
        loaded(tmp_path, {})


def test_a_file_has_a_table_of_its_own_and_a_secret_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of a file\n")
    (tmp_path / "delayline.toml").write_text(
        "[api]\nauth = 'keys'\n[access]\nrules = 'rules.toml'\n[access.oidc]\n"
        f"issuer = '{ISSUER}'\naudience = 'a'\nalgorithms = ['ES384']\nclient_id = 'c'\n"
        "client_secret.file = 'secret'\nredirect_url = 'http://localhost:8080/v1/session/callback'\n"
    )
    settings = load_settings(None, {}, {}, tmp_path)
    assert settings.access.oidc.algorithms == ("ES384",)
    assert settings.access.oidc.client_secret.get_secret_value() == "of a file"
    assert "of a file" not in str(describe(settings))


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("issuer", {"issuer": "http://id.example"}),
    ("issuer", {"issuer": "id.example"}),
    ("issuer", {"issuer": "file:///etc/passwd"}),
    ("issuer", {"issuer": "https://"}),
    ("issuer", {"issuer": "https://id.example?realm=x"}),
    ("issuer", {"issuer": "https://id.example#x"}),
    ("issuer", {"issuer": "https://ann@id.example"}),
    ("issuer", {"issuer": "https://id.example:99999"}),
    ("issuer", {"issuer": "https://id.example/\u00e4"}),
    ("issuer", {"issuer": "http://127.0.0.1.example"}),
    ("audience", {"audience": ""}),
    ("jwks_url", {"jwks_url": "http://id.example/keys"}),
    ("algorithms", {"algorithms": ""}),
    ("algorithms.1", {"algorithms": "RS256,HS256"}),
    ("algorithms.0", {"algorithms": "none"}),
    ("leeway", {"leeway": "6m"}),
    ("principal_claim", {"principal_claim": ""}),
    ("redirect_url", {"redirect_url": ""}),
    ("redirect_url", {"redirect_url": "http://delayline.example/v1/session/callback"}),
    ("redirect_url", {"redirect_url": "https://delayline.example/"}),
    ("scopes", {"scopes": "profile"}),
    ("scopes", {"scopes": "openid,a b"}),
    ("client_secret", {"client_id": ""}),
]


@pytest.mark.parametrize(("key", "change"), WRONG)
def test_what_could_not_be_safe_or_has_no_meaning_is_refused(
    tmp_path: Path, key: str, change: dict[str, str]
) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, {**LOGINS, **change})
    assert str(refused.value).startswith(f"access.oidc.{key}: ")
    assert LOGINS["client_secret"] not in str(refused.value)


@pytest.mark.parametrize("name", [*TOKENS, "client_id", "groups_claim"])
def test_where_no_credential_is_needed_or_there_is_no_issuer_nothing_may_be_set(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"^access\.oidc\."):
        loaded(tmp_path, {name: ISSUER}, API__AUTH="none", ACCESS__RULES="")
    if name != "issuer":
        with pytest.raises(ConfigError, match=rf"^access\.oidc\.{name}: it has a meaning with access\.oidc\.issuer"):
            loaded(tmp_path, {name: "x"})


@pytest.mark.parametrize("issuer", ["http://localhost:8080", "http://127.0.0.1:8080/realms/x", "http://[::1]:80"])
def test_on_this_machine_the_provider_needs_no_tls(tmp_path: Path, issuer: str) -> None:
    assert loaded(tmp_path, {**TOKENS, "issuer": issuer}).access.oidc.issuer == issuer
