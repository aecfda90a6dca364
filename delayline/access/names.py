"""Names of principals and groups that an identity provider has given, as rules, logs and the audit have them.

No key's principal has a colon, so none of these is one, and no group is a user (docs/adr/0027-oidc.md).
"""

OIDC, OIDC_GROUP = "oidc:", "oidc-group:"
