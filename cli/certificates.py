"""The certificates of a process, as its settings name them; each is read again when its files change."""

from delayline.config import Settings
from delayline.process.tls import Authorities, TlsContext, TlsFiles, read_listener, watched_context
from delayline.process.watched import Watcher


def api_tls(settings: Settings, watcher: Watcher) -> TlsContext | None:
    """Of the HTTP API's port. Raises ConfigError."""
    api, clients = settings.api, None
    if api.client_certificates != "off":
        required = api.client_certificates == "required"
        clients = Authorities("api.client_cafile", api.client_cafile, api.client_crlfile, required)
    return read_listener(api.certfile, api.keyfile, "api.certfile", watcher, clients)


def metrics_tls(settings: Settings, watcher: Watcher) -> TlsContext | None:
    """Of the ports for metrics and health. Probes of health have no certificates, so the handshake asks for one and
    requires none. Raises ConfigError."""
    metrics, clients = settings.metrics, None
    if metrics.client_cafile:
        clients = Authorities("metrics.client_cafile", metrics.client_cafile, required=False)
    return read_listener(metrics.certfile, metrics.keyfile, "metrics.certfile", watcher, clients)


def answering_tls(settings: Settings, watcher: Watcher) -> TlsContext | None:
    """Of the port on which other processes are answered. Raises ConfigError."""
    files = _internal(settings)
    return None if files is None else watched_context(files, files.server, watcher)


def asking_tls(settings: Settings, watcher: Watcher) -> TlsContext | None:
    """Of the connections on which other processes are asked. Raises ConfigError."""
    files = _internal(settings)
    return None if files is None else watched_context(files, files.client, watcher)


def _internal(settings: Settings) -> TlsFiles | None:
    internal = settings.internal
    if not internal.certfile:
        return None
    authorities = Authorities("internal.cafile", internal.cafile)
    return TlsFiles("internal.certfile", internal.certfile, internal.keyfile, authorities)
