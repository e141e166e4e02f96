"""`python -m wggml` is the same as the `wggml` command."""

from wggml.cli.main import main

if __name__ == "__main__":
    main()
