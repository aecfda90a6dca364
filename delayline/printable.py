"""Text of others for a terminal, which would obey control characters in it."""


def printable(text: str) -> str:
    """With Python's escapes for what cannot be printed: controls, line breaks, and marks that turn the direction of
    writing."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
