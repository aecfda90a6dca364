"""The sections of the settings about HTTP, and about who may do what there."""

from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from delayline.config.oidc import Oidc
from delayline.config.section import Port, Section, default
from delayline.config.types import Duration, File, HostPatterns, Secret, Size, Switch, durations, sizes


class Api(Section):
    """The HTTP API."""

    host: str = "127.0.0.1"
    port: Port = 8080
    certfile: str = ""
    keyfile: str = ""
    client_certificates: Literal["off", "asked", "required"] = "off"
    client_cafile: str = ""
    client_crlfile: str = ""
    client_names: Literal["subject", "uri"] = "subject"
    metrics_host: str = "127.0.0.1"
    metrics_port: Port = 0
    auth: Annotated[str, Field(min_length=1)] = "none"
    body_bytes_max: Annotated[Size, sizes("1KiB", "1GiB")] = default("8MiB")
    batch_messages_max: int = Field(default=1000, ge=1, le=100_000)
    hosts: HostPatterns = ()
    connections_max: int = Field(default=1024, ge=1, le=100_000)
    requests_max: int = Field(default=1024, ge=1, le=100_000)
    in_flight_bytes_max: Annotated[Size, sizes("1KiB", "64GiB")] = default("128MiB")
    streams_max: int = Field(default=32, ge=1, le=1000)
    address_share_percent: int = Field(default=50, ge=1, le=100)
    head_bytes_max: Annotated[Size, sizes("4KiB", "1MiB")] = default("64KiB")
    head_fields_max: int = Field(default=100, ge=16, le=10_000)
    head_timeout: Annotated[Duration, durations("100ms", "1h")] = default("10s")
    body_timeout: Annotated[Duration, durations("100ms", "1h")] = default("30s")
    idle_timeout: Annotated[Duration, durations("100ms", "1h")] = default("75s")
    send_timeout: Annotated[Duration, durations("100ms", "1h")] = default("30s")

    @model_validator(mode="after")
    def _check_bodies(self) -> Self:
        """One body at least must fit into what one address may have."""
        if self.body_bytes_max * 100 > self.in_flight_bytes_max * self.address_share_percent:
            message = "api.body_bytes_max is more than one address may have in flight (api.in_flight_bytes_max, "
            raise PydanticCustomError("setting", message + "api.address_share_percent)")
        return self


class Metrics(Section):
    """TLS of the ports that answer metrics and health alone: `worker.port`, the proxies' and `api.metrics_port`."""

    certfile: str = ""
    keyfile: str = ""
    client_cafile: str = ""


class Access(Section):
    """The files that show who may do what, where `api.auth` is `keys`, and who did what; the sessions of people, and
    the identity provider that may know them."""

    rules: File = None
    keys: File = None
    act_log: File = None
    act_topic: Switch = None
    session_secret: Secret = SecretStr("")
    session_lifetime: Annotated[Duration, durations("5m", "30d")] = default("12h")
    oidc: Oidc = Oidc()
