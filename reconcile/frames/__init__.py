"""Rows: what they hold, and the few of them that need no Spark."""
