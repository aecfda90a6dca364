"""The HTTP door, for producers and operators."""
