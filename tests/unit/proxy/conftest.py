"""Settings of the property tests of the proxies."""

from hypothesis import settings

settings.register_profile("proxy", deadline=None)  # a busy machine is not a failure
settings.load_profile("proxy")
