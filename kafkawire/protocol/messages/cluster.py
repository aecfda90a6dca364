"""What a broker can do, where coordinators and brokers are, and authentication."""

from dataclasses import dataclass
from typing import ClassVar

from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.message import Message
from kafkawire.protocol.primitives import Buffer
from kafkawire.protocol.schema import Struct, array, blob, boolean, int8, int16, int32, int64, string


@dataclass(slots=True)
class ApiVersionsRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.API_VERSIONS

    client_software_name: str = string("3+")
    client_software_version: str = string("3+")


@dataclass(slots=True)
class ApiVersion(Struct):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@dataclass(slots=True)
class SupportedFeature(Struct):
    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


@dataclass(slots=True)
class FinalizedFeature(Struct):
    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


@dataclass(slots=True)
class ApiVersionsResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.API_VERSIONS

    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+")
    supported_features: list[SupportedFeature] = array(SupportedFeature, "3+", tag=0)
    finalized_features_epoch: int = int64("3+", tag=1, default=-1)
    finalized_features: list[FinalizedFeature] = array(FinalizedFeature, "3+", tag=2)
    zk_migration_ready: bool = boolean("3+", tag=3)


@dataclass(slots=True)
class FindCoordinatorRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR

    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array("string", "4+")


@dataclass(slots=True)
class Coordinator(Struct):
    key: str = string("4+")
    node_id: int = int32("4+")
    host: str = string("4+")
    port: int = int32("4+")
    error_code: int = int16("4+")
    error_message: str | None = string("4+", null="4+")


@dataclass(slots=True)
class FindCoordinatorResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR

    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", null="1-3")
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")


@dataclass(slots=True)
class DescribeClusterRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLUSTER

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


@dataclass(slots=True)
class ClusterBroker(Struct):
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(null="0+", default=None)
    is_fenced: bool = boolean("2+")


@dataclass(slots=True)
class DescribeClusterResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLUSTER

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[ClusterBroker] = array(ClusterBroker)
    cluster_authorized_operations: int = int32(default=-2147483648)


@dataclass(slots=True)
class SaslHandshakeRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.SASL_HANDSHAKE

    mechanism: str = string()


@dataclass(slots=True)
class SaslHandshakeResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.SASL_HANDSHAKE

    error_code: int = int16()
    mechanisms: list[str] = array("string")


@dataclass(slots=True)
class SaslAuthenticateRequest(Message):
    api: ClassVar[ApiKey] = ApiKey.SASL_AUTHENTICATE

    auth_bytes: Buffer = blob()


@dataclass(slots=True)
class SaslAuthenticateResponse(Message):
    api: ClassVar[ApiKey] = ApiKey.SASL_AUTHENTICATE

    error_code: int = int16()
    error_message: str | None = string(null="0+")
    auth_bytes: Buffer = blob()
    session_lifetime_ms: int = int64("1+")
