"""The output directory: small files, the lock, and the protocol of a run."""
