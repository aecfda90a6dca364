"""An identity provider (OpenID Connect): its keys, the tokens that it has signed, and logins by it.

    strict     JSON and JWTs (RFC 7519) taken apart, nothing believed yet
    keys       the provider's public keys (RFC 7517), and signatures checked with them
    claims     what a token must claim, and who that is: the one place that decides about claims
    exchange   what the provider is asked over HTTP, bounded
    provider   the provider's keys and endpoints as they are now, looked up by a thread of its own
    tokens     bearer tokens of requests, each checked once
    logins     the code flow with PKCE

docs/adr/0027-oidc.md has the reasons.
"""
