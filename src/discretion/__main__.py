"""`python -m discretion` is the command line."""

from discretion.cli import main

if __name__ == "__main__":
    main()
