"""Requests and answers by number (`org.apache.rocketmq.remoting.protocol.RequestCode`, `ResponseCode`, of 5.5.0).

Those that a client, a queue adapter or a proxy meets; RocketMQ has more, for its controllers and its tools.
"""

from enum import IntEnum


class Request(IntEnum):
    """What is asked, or pushed by a broker to a client."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> "Request":
        made = int.__new__(cls, code)
        made._value_ = code
        made.meaning = meaning
        return made

    SEND_MESSAGE = 10, "A message, its header in long names."
    PULL_MESSAGE = 11, "Messages of a queue from an offset on; may wait for one."
    QUERY_MESSAGE = 12, "Messages by key."
    QUERY_CONSUMER_OFFSET = 14, "What a group has committed."
    UPDATE_CONSUMER_OFFSET = 15, "Commit an offset of a group."
    UPDATE_AND_CREATE_TOPIC = 17, "Create a topic on a broker, or change it."
    GET_ALL_TOPIC_CONFIG = 21, "Every topic of a broker."
    GET_TOPIC_CONFIG_LIST = 22, "Named by RocketMQ and served by no broker of 5.5.0."
    GET_BROKER_CONFIG = 26, "A broker's settings."
    GET_BROKER_RUNTIME_INFO = 28, "A broker's figures, and since when it runs."
    SEARCH_OFFSET_BY_TIMESTAMP = 29, "The first offset stored at or after a time."
    GET_MAX_OFFSET = 30, "Behind the last message of a queue."
    GET_MIN_OFFSET = 31, "The first message that a queue still has."
    GET_EARLIEST_MSG_STORETIME = 32, "When the oldest message of a queue was stored."
    VIEW_MESSAGE_BY_ID = 33, "The message at an offset of the commit log."
    HEART_BEAT = 34, "A client's groups and subscriptions."
    UNREGISTER_CLIENT = 35, "A client leaves."
    CONSUMER_SEND_MSG_BACK = 36, "A consumer failed: try the message again later."
    END_TRANSACTION = 37, "Commit a half message, or roll it back."
    GET_CONSUMER_LIST_BY_GROUP = 38, "Clients of a consumer group."
    CHECK_TRANSACTION_STATE = 39, "Push: the outcome of this half message?"
    NOTIFY_CONSUMER_IDS_CHANGED = 40, "Push: the group has other members."
    LOCK_BATCH_MQ = 41, "Queues for one client of a group alone, for a while."
    UNLOCK_BATCH_MQ = 42, "Give them back."
    CHECK_CLIENT_CONFIG = 46, "Would the broker take this subscription?"
    GET_KV_CONFIG = 101, "A value kept by a name server."
    GET_ROUTEINFO_BY_TOPIC = 105, "Brokers and queues of a topic, from a name server."
    GET_BROKER_CLUSTER_INFO = 106, "Every broker, from a name server."
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200, "Create a consumer group on a broker, or change it."
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201, "Every consumer group of a broker."
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206, "Names of all topics."
    DELETE_SUBSCRIPTIONGROUP = 207, "Delete a consumer group from a broker."
    DELETE_TOPIC_IN_BROKER = 215, "Delete a topic from a broker."
    DELETE_TOPIC_IN_NAMESRV = 216, "Delete a topic's route."
    GET_KVLIST_BY_NAMESPACE = 219, "Values kept by a name server."
    RESET_CONSUMER_CLIENT_OFFSET = 220, "Push: go on at other offsets."
    GET_CONSUMER_STATUS_FROM_CLIENT = 221, "Push: where is the consumer?"
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304, "The cluster's own topics; names a broker's address too."
    GET_CONSUMER_RUNNING_INFO = 307, "How is a consumer? Asked of a broker, and passed on by it as a push."
    CONSUME_MESSAGE_DIRECTLY = 309, "Push: consume this one now."
    SEND_MESSAGE_V2 = 310, "A message, its header in letters."
    SEND_BATCH_MESSAGE = 320, "Several messages of one queue."
    SEND_REPLY_MESSAGE = 324, "A reply to a message (request-reply)."
    SEND_REPLY_MESSAGE_V2 = 325, "The same in letters."
    PUSH_REPLY_MESSAGE_TO_CLIENT = 326, "Push: a reply."
    GET_TOPIC_CONFIG = 351, "One topic of a broker."
    GET_SUBSCRIPTIONGROUP_CONFIG = 352, "One consumer group of a broker."
    LITE_PULL_MESSAGE = 361, "PULL_MESSAGE in a thread pool of its own."
    RECALL_MESSAGE = 370, "Cancel a timer message."
    QUERY_ASSIGNMENT = 400, "Which queues a client has, where the broker decides it."
    SET_MESSAGE_REQUEST_MODE = 401, "Pull or POP, for a group."
    GET_BROKER_EPOCH_CACHE = 1007, "Elections of a broker's masters, and where in the log each begins."
    POP_MESSAGE = 200050, "Messages, hidden from others for a while."
    ACK_MESSAGE = 200051, "One of them is done."
    PEEK_MESSAGE = 200052, "Messages, without hiding them."
    CHANGE_MESSAGE_INVISIBLETIME = 200053, "Hide it for longer."
    NOTIFICATION = 200054, "Is there anything to POP?"
    BATCH_ACK_MESSAGE = 200151, "Several are done."


class Answer(IntEnum):
    """What a request is answered with."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> "Answer":
        made = int.__new__(cls, code)
        made._value_ = code
        made.meaning = meaning
        return made

    SUCCESS = 0, "Done."
    SYSTEM_ERROR = 1, "An exception in the broker; also what RocketMQ answers for a delay that is no number."
    SYSTEM_BUSY = 2, "The request waited too long to be begun; it was not."
    REQUEST_CODE_NOT_SUPPORTED = 3, "No such request here."
    TRANSACTION_FAILED = 4, "RocketMQ's own note; not sent by 5.5.0."
    FLUSH_DISK_TIMEOUT = 10, "Stored, and not on disk in time."
    SLAVE_NOT_AVAILABLE = 11, "Stored, and no replica; of a recall or an administrative request: this is a replica."
    FLUSH_SLAVE_TIMEOUT = 12, "Stored, and not on a replica in time."
    MESSAGE_ILLEGAL = 13, "Topic, size, properties or delay not permitted."
    SERVICE_NOT_AVAILABLE = 14, "The store is closed, full or shutting down."
    VERSION_NOT_SUPPORTED = 15, "Not with the client's version."
    NO_PERMISSION = 16, "Settings or rights do not permit it."
    TOPIC_NOT_EXIST = 17, "No such topic."
    TOPIC_EXIST_ALREADY = 18, "There is such a topic."
    PULL_NOT_FOUND = 19, "The offset is the end: nothing yet."
    PULL_RETRY_IMMEDIATELY = 20, "Messages, but none that the subscription takes; go on at the offset given."
    PULL_OFFSET_MOVED = 21, "The queue does not have the offset; go on at the one given."
    QUERY_NOT_FOUND = 22, "Nothing found."
    SUBSCRIPTION_PARSE_FAILED = 23, "A subscription that cannot be read."
    SUBSCRIPTION_NOT_EXIST = 24, "The group does not subscribe to the topic, and the pull has no subscription."
    SUBSCRIPTION_NOT_LATEST = 25, "The broker knows an older subscription."
    SUBSCRIPTION_GROUP_NOT_EXIST = 26, "No such consumer group."
    FILTER_DATA_NOT_EXIST = 27, "No filter for the subscription."
    FILTER_DATA_NOT_LATEST = 28, "The broker knows an older filter."
    INVALID_PARAMETER = 29, "A queue or a value out of range."
    CONSUMER_NOT_ONLINE = 206, "No member of the group is connected."
    CONSUME_MSG_TIMEOUT = 207, "A client has not answered what was passed on to it."
    NO_MESSAGE = 208, "Nothing for that key or id."
    POLLING_FULL = 209, "Too many wait already."
    POLLING_TIMEOUT = 210, "Waited long enough."
    FLOW_CONTROL = 215, "Too much at once."
    NOT_LEADER_FOR_QUEUE = 501, "Another broker has the queue."
    ILLEGAL_OPERATION = 604, "A recall handle that is wrong or too late."
    GO_AWAY = 1500, "The server is about to close the connection: ask on another."


STORED = frozenset(
    {Answer.SUCCESS, Answer.FLUSH_DISK_TIMEOUT, Answer.SLAVE_NOT_AVAILABLE, Answer.FLUSH_SLAVE_TIMEOUT}
)
"""Answers to a send after which the message is in the log; the last three mean that it is less safe than was asked
for."""

NEEDS_JSON = frozenset(code for code in Request if code > 0x7FFF)
"""The encoding ROCKETMQ has 16 bits for a code."""
