"""The RocketMQ wire proxy: a name server and its brokers, as clients see them.

The protocol is that of `rocketmq.wire`. `sends` (which messages are delayed, and what is sent in their place) and
`view` (ports, and answers with our addresses) are pure but for `sends.sender` and `sends.buffers`; `frontend` does
the sockets, `recall` cancels, `brokers` knows where each broker is.
"""
