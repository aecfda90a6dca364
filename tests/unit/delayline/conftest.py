"""Properties run without a deadline: how long one example takes means nothing on a machine that others use too."""

from hypothesis import settings

settings.register_profile("delayline", deadline=None)
settings.load_profile("delayline")
