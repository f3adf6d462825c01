"""`python -m envhub` is the command `envhub`."""

from envhub.cli import main

if __name__ == "__main__":
    main()
