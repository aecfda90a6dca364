"""`python -m cli`, where the package is not installed."""

from cli.main import main

if __name__ == "__main__":
    main()
