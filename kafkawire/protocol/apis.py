"""Which APIs and versions are spoken, and let through by the proxy, and how their headers look.

A row is `number name: oldest-newest, first flexible version`: what brokers 3.9 to 4.3 speak on a client listener,
and less where the proxy could not keep its promises:

    PRODUCE 12           13 names topics by id
    FETCH 15             16 adds real addresses (NodeEndpoints) to a response of megabytes
    OFFSET_COMMIT 9      10 names topics by id
    API_VERSIONS 4       5 names the node that the client believes to talk to
    ADD_PARTITIONS 3     4 and later are between brokers
    SASL_HANDSHAKE 1     0 is followed by packets without headers (0 is not let through)

Left out: share groups' own requests (76, 78, 79: real addresses in untagged fields), their state (83-87) and voters
(80, 81), which are between brokers. What a newer broker adds is not offered to clients until it stands here, because
it may carry addresses or name topics. Source: clients/src/main/resources/common/message of Apache Kafka.
"""

from enum import IntEnum
from typing import NamedTuple

from kafkawire.protocol.errors import UnsupportedVersion

NEVER = 0x7FFF


class ApiKey(IntEnum):
    """APIs whose messages are read or written; the others are only relayed."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    FIND_COORDINATOR = 10
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    DESCRIBE_TOPIC_PARTITIONS = 75


class Api(NamedTuple):
    """Versions are inclusive. `flexible` is the first version with compact lengths, and NEVER where there is none."""

    key: int
    name: str
    oldest: int
    newest: int
    flexible: int


_TABLE = """
0 Produce: 0-12, 9                          1 Fetch: 4-15, 12                    2 ListOffsets: 1-11, 6
3 Metadata: 0-13, 9                         8 OffsetCommit: 2-9, 8               9 OffsetFetch: 1-10, 6
10 FindCoordinator: 0-6, 3                  11 JoinGroup: 0-9, 6                 12 Heartbeat: 0-4, 4
13 LeaveGroup: 0-5, 4                       14 SyncGroup: 0-5, 4                 15 DescribeGroups: 0-6, 5
16 ListGroups: 0-5, 3                       17 SaslHandshake: 1-1, -             18 ApiVersions: 0-4, 3
19 CreateTopics: 2-7, 5                     20 DeleteTopics: 1-6, 4              21 DeleteRecords: 0-2, 2
22 InitProducerId: 0-5, 2                   23 OffsetForLeaderEpoch: 2-4, 4      24 AddPartitionsToTxn: 0-3, 3
25 AddOffsetsToTxn: 0-4, 3                  26 EndTxn: 0-5, 3                    27 WriteTxnMarkers: 1-2, 1
28 TxnOffsetCommit: 0-5, 3                  29 DescribeAcls: 1-3, 2              30 CreateAcls: 1-3, 2
31 DeleteAcls: 1-3, 2                       32 DescribeConfigs: 1-4, 4           33 AlterConfigs: 0-2, 2
34 AlterReplicaLogDirs: 1-2, 2              35 DescribeLogDirs: 1-5, 2           36 SaslAuthenticate: 0-2, 2
37 CreatePartitions: 0-3, 2                 38 CreateDelegationToken: 1-3, 2     39 RenewDelegationToken: 1-2, 2
40 ExpireDelegationToken: 1-2, 2            41 DescribeDelegationToken: 1-3, 2   42 DeleteGroups: 0-2, 2
43 ElectLeaders: 0-2, 2                     44 IncrementalAlterConfigs: 0-1, 1   47 OffsetDelete: 0-0, -
45 AlterPartitionReassignments: 0-1, 0      46 ListPartitionReassignments: 0-0, 0
48 DescribeClientQuotas: 0-1, 1             49 AlterClientQuotas: 0-1, 1         55 DescribeQuorum: 0-2, 0
50 DescribeUserScramCredentials: 0-0, 0     51 AlterUserScramCredentials: 0-0, 0 57 UpdateFeatures: 0-2, 0
60 DescribeCluster: 0-2, 0                  61 DescribeProducers: 0-0, 0         64 UnregisterBroker: 0-0, 0
65 DescribeTransactions: 0-0, 0             66 ListTransactions: 0-2, 0          68 ConsumerGroupHeartbeat: 0-1, 0
69 ConsumerGroupDescribe: 0-1, 0            71 GetTelemetrySubscriptions: 0-0, 0 72 PushTelemetry: 0-0, 0
74 ListConfigResources: 0-1, 0              75 DescribeTopicPartitions: 0-0, 0   77 ShareGroupDescribe: 1-1, 0
88 StreamsGroupHeartbeat: 0-0, 0            89 StreamsGroupDescribe: 0-0, 0      90 DescribeShareGroupOffsets: 0-1, 0
91 AlterShareGroupOffsets: 0-0, 0           92 DeleteShareGroupOffsets: 0-0, 0
"""


def _rows(table: str) -> dict[int, Api]:
    words = iter(table.split())
    apis = {}
    for key, name, versions, flexible in zip(words, words, words, words, strict=True):
        oldest, newest = versions.rstrip(",").split("-")
        first = NEVER if flexible == "-" else int(flexible)
        apis[int(key)] = Api(int(key), name.rstrip(":"), int(oldest), int(newest), first)
    return apis


APIS = _rows(_TABLE)


def is_let_through(key: int, version: int) -> bool:
    """Whether a client may send this. ApiVersions of a newer version is answered with error 35 (KIP-511)."""
    api = APIS.get(key)
    return api is not None and api.oldest <= version <= api.newest


def is_flexible(key: int, version: int) -> bool:
    """Whether this version has compact lengths and tagged fields. Raises UnsupportedVersion for an unknown API."""
    if key not in APIS:
        raise UnsupportedVersion(f"API {key}")
    return version >= APIS[key].flexible


def response_header_is_flexible(key: int, version: int) -> bool:
    """ApiVersions keeps the oldest one for ever: a client that asks does not know the broker's version yet
    (KIP-511)."""
    return key != ApiKey.API_VERSIONS and is_flexible(key, version)
