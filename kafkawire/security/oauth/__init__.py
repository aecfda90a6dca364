"""Tokens for SASL OAUTHBEARER, from the source that the properties name.

    token.py      what a token is, and what may be sent as one
    tokens.py     the one source of a process's tokens: keeps each until it is time for the next
    oidc.py       from a token endpoint (KIP-768)
    local.py      from a file, from a command, and unsecured ones for tests
    reading.py    which of these the properties ask for

The wire client and every client of librdkafka are given tokens by the same `Tokens`.
"""
