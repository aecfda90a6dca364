"""Brokers for tests and for people, from packages: no containers.

distribution.py   the pinned versions, fetched once by Maven into the ignored folder
guard.py          the process beside each broker that ends it when whoever started it is gone
kafka.py          a Kafka of one node or three on free ports of 127.0.0.1
__main__.py       `make kafka`
"""
