"""Settings: read once, checked as a whole, frozen.

Command line > environment > TOML file > default, by single settings. Durations are milliseconds and sizes bytes once
they are read. What a setting means for users is in docs/configuration.md, which a test compares with this file.
"""

from delayline.config.checks import EMBEDDED
from delayline.config.load import describe, load_settings
from delayline.config.settings import Settings

__all__ = ["EMBEDDED", "Settings", "describe", "load_settings"]
