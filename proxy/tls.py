"""What clients of a proxy are shown over TLS."""

import ssl

from delayline.errors import ConfigError


def read_listener(certificate: str, key: str, setting: str) -> ssl.SSLContext | None:
    """None where neither file is named; `setting` is the one that names the certificate. Raises ConfigError."""
    if not certificate and not key:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key or None)
    except OSError as error:
        raise ConfigError(f"{setting}: {error}.") from error
    return context
