"""What a time index may answer.

StoreError
├── StoreLocked     its folder is in use by another process
├── StoreFormat     its folder is of a format that this program does not know
├── StoreUnusable   its folder cannot be made, read or written
└── StoreFull       no room to take in more; what is indexed can still be scanned and removed
"""

from delayline.errors import DelaylineError


class StoreError(DelaylineError):
    """Base of what a time index may answer."""


class StoreLocked(StoreError):
    """In use by another process."""


class StoreFormat(StoreError):
    """Of a format that this program does not know."""


class StoreUnusable(StoreError):
    """The folder cannot be made, read or written."""


class StoreDamaged(StoreUnusable):
    """What is in the folder cannot be believed. Nothing is lost by it: the next opening starts empty."""


class StoreFull(StoreError):
    """No room to take in more; scans and removals still work."""
