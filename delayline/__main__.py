"""`python -m delayline`."""

from delayline.cli.main import main

if __name__ == "__main__":
    main()
