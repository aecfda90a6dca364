"""The tables of the messages that are read or written, for every version in `apis.py`.

Fields, versions and defaults as in clients/src/main/resources/common/message of Apache Kafka, in snake case and under
shorter names for the structures; the tests compare each table with those definitions.
"""
