"""The stages of a run on Spark."""
