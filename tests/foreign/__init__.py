"""Clients that are not ours, as they are, against a whole installation: `make foreign-clients` (nightly)."""
