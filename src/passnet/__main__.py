"""`python -m passnet` is the command line; so `torchrun -m passnet train NAME` works."""

from passnet.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
