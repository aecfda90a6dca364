"""The operators' console in a headless Chromium, against the real process on the embedded queue."""
