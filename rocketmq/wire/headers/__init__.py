"""Ext fields, one class per set, named as RocketMQ's `...RequestHeader` and `...ResponseHeader` are, and in their
modules by what they are about. Field names and which are required: `org.apache.rocketmq.remoting.protocol.header`,
5.5.0.

`broker` (`bname`, in SEND_V2 `n`) is for rocketmq-proxy and brokers with static topics, which refuse or misread
requests without it; other brokers pass over it.
"""
