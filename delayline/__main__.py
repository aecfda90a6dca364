"""`python -m delayline`."""

from importlib.metadata import entry_points

if __name__ == "__main__":
    # By its entry point, because the vocabulary imports nothing of ours.
    commands = entry_points(group="console_scripts", name="delayline")
    if not commands:
        raise SystemExit("delayline is not installed in this environment: `pip install` it, or run `python -m cli`")
    next(iter(commands)).load()()
