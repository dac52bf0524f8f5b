"""Whole numbers on the command line."""

from argparse import ArgumentTypeError
from collections.abc import Callable

MOST = 1_000_000


def whole(low: int = 1, high: int = MOST) -> Callable[[str], int]:
    """A reader of whole numbers from `low` to `high`, for `type=` of an argument."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or not low <= int(text[:12]) <= high:
            raise ArgumentTypeError(f"{text[:40]!r} is no whole number from {low:,} to {high:,}")
        return int(text)

    return read
