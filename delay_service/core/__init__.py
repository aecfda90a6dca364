"""Every rule that decides whether a message may be lost or delivered twice: no thread, adapter or clock."""
