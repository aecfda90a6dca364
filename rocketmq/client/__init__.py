"""A RocketMQ client in small.

    session.py       requests, answers and pushes of one connection, without I/O
    connection.py    a socket and a thread around a session; TLS
    links.py         one connection per address, made when it is needed, with backoff
    nameservers.py   where topics and brokers are; what was learned outlives the name servers
    masters.py       requests to the master of a broker
    broker.py        what is asked of a broker: sends, pulls, offsets, recalls
    group.py         what is asked about a consumer group: heartbeats, members, locks, send-backs
    admin.py         topics and groups, created and deleted
    client.py        all of that in one object
    settings.py      how long, how much, as whom

It retries nothing by itself: `Unreachable` means that nothing was sent, `AnswerLost` that the request may have been
carried out, and the caller knows which requests may be repeated. For any number of threads.
"""
