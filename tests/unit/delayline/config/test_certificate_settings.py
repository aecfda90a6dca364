"""Certificates, as they are set: what goes together, and what is refused."""

import re
from pathlib import Path

import pytest

from delayline.config import Settings, load_settings
from delayline.errors import ConfigError
from tests.test_tidy import ROOT

KAFKA = '[mq]\nkind = "kafka"\nbootstrap_servers = "a:9092"\n'
CLIENTS = """
[access]
rules = "rules.toml"
[api]
auth = "keys"
certfile = "server.crt"
client_certificates = "asked"
client_cafile = "ca.crt"
"""
INTERNAL = f'{KAFKA}[internal]\nhost = "10.0.0.1"\n'


def load(toml: str, folder: Path) -> Settings:
    (folder / "delayline.toml").write_text(toml)
    return load_settings(None, {}, {}, folder)


def test_clients_with_certificates_need_no_file_of_keys(tmp_path: Path) -> None:
    settings = load(CLIENTS, tmp_path)
    assert (settings.api.client_names, settings.access.keys) == ("subject", None)


@pytest.mark.parametrize(
    ("line", "put", "refused"),
    [
        ('auth = "keys"', 'auth = "none"', "access.rules"),
        ('certfile = "server.crt"', "", "api.client_certificates"),
        ('client_cafile = "ca.crt"', "", "api.client_certificates"),
        ('client_certificates = "asked"', 'client_certificates = "off"', "access.keys"),
        ('client_certificates = "asked"', 'client_certificates = "wanted"', "api.client_certificates"),
        ('rules = "rules.toml"', "", "access.rules"),
        ('client_cafile = "ca.crt"', 'client_cafile = "ca.crt"\nclient_names = "cn"', "api.client_names"),
    ],
)
def test_what_certificates_of_clients_need_must_be_there(tmp_path: Path, line: str, put: str, refused: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{refused}: "):
        load(CLIENTS.replace(line, put), tmp_path)


@pytest.mark.parametrize("line", ['client_cafile = "x"', 'client_crlfile = "x"', 'client_names = "uri"'])
def test_a_setting_of_certificates_that_are_not_asked_for_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match=rf"^api\.{line.split()[0]}: "):
        load(f"[api]\n{line}\n", tmp_path)
    with pytest.raises(ConfigError, match=r'^api\.client_certificates: .*api\.auth = "keys"'):
        load('[api]\ncertfile = "x"\nclient_certificates = "asked"\nclient_cafile = "x"\n', tmp_path)


def test_metrics_are_open_to_other_machines_by_a_certificate_or_not_at_all(tmp_path: Path) -> None:
    open_port = f'{KAFKA}[api]\nmetrics_port = 9100\nmetrics_host = "0.0.0.0"\n[worker]\nhost = "0.0.0.0"\n'
    with pytest.raises(ConfigError, match=r"^worker\.host: "):
        load(open_port, tmp_path)
    with pytest.raises(ConfigError, match=r"^api\.metrics_host: "):
        load(open_port.replace('[worker]\nhost = "0.0.0.0"\n', ""), tmp_path)
    with pytest.raises(ConfigError, match=r"^metrics\.client_cafile: "):
        load(f'{open_port}[metrics]\nclient_cafile = "ca.crt"\n', tmp_path)
    asked = f'{open_port}[metrics]\ncertfile = "s.crt"\nclient_cafile = "ca.crt"\n'
    assert load(asked, tmp_path).api.metrics_port == 9100
    with pytest.raises(ConfigError, match=r"^api\.host: "):
        load(asked.replace("[api]\n", '[api]\nhost = "0.0.0.0"\n'), tmp_path)


def test_between_processes_certificates_stand_for_the_secret(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^internal\.host: .*internal\.certfile"):
        load(INTERNAL, tmp_path)
    settings = load(f'{INTERNAL}certfile = "i.crt"\ncafile = "ca.crt"\n', tmp_path)
    assert settings.internal.secret.get_secret_value() == ""


@pytest.mark.parametrize("line", ['certfile = "x"', 'cafile = "x"', 'keyfile = "x"', 'cafile = "x"\nkeyfile = "x"'])
def test_between_processes_a_certificate_and_its_authority_go_together(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match=r"^internal\.(certfile|cafile|keyfile): .* go together"):
        load(f'{INTERNAL}secret = "sixteen letters!"\n{line}\n', tmp_path)


def test_the_settings_for_kubernetes_are_accepted(tmp_path: Path) -> None:
    """Of docs/deploy.md, put into those of the manifests."""
    page = (ROOT / "docs" / "deploy.md").read_text().split("### Certificates on Kubernetes")[1]
    block = page.split("```toml\n")[1].split("```")[0]
    toml = (ROOT / "deploy" / "kubernetes" / "delayline.toml").read_text()
    toml = re.sub(r'secret\.file = .*|"sasl\.password"\.file = .*', "", toml)
    for name, lines in re.findall(r"^\[([a-z.]+)\].*\n((?:.+\n)*)", block, re.MULTILINE):
        table = f"[{name}]\n"
        toml = toml.replace(table, table + lines) if table in toml else f"{toml}\n{table}{lines}"
    (tmp_path / "delayline.toml").write_text(toml)
    settings = load_settings(None, {}, {"DELAYLINE_INTERNAL__HOST": "10.0.0.7"}, tmp_path)
    secrets = "/run/secrets/delayline"
    assert (settings.internal.certfile, settings.metrics.certfile) == (
        f"{secrets}/internal.crt",
        f"{secrets}/server.crt",
    )
    assert settings.mq.client_properties()["ssl.ca.location"] == f"{secrets}/kafka-ca.crt"
