"""What kernels reach of their rate on a share of a device's multiprocessors, beside each other.

NanoFlow measured pairs of kernels on A100 (arXiv:2408.12757, Table 3): the product's rate names its share, and rates of
the other kernel follow; shares of kernels beside each other are one together. Between the published shares lines are
taken. Products keep their share by definition; what reads the memory, or sends, reaches more than its share where that
is small, as few multiprocessors keep memory or links busy.
"""

from bisect import bisect_right

PRODUCT: tuple[tuple[float, float], ...] = ((0.0, 0.0), (1.0, 1.0))
READING = ((0.0, 0.0), (0.1, 0.2), (0.2, 0.3), (0.8, 0.85), (0.9, 0.95), (1.0, 1.0))
SENDING = ((0.0, 0.0), (0.1, 0.3), (0.2, 0.5), (0.8, 0.9), (0.9, 1.0), (1.0, 1.0))
"""(share of the multiprocessors, rate over that alone) of matrix products, decode attention and collectives."""


def rate(curve: tuple[tuple[float, float], ...], share: float) -> float:
    """Rate over that alone on a share from 0 to 1."""
    place = min(bisect_right(curve, (share, float("inf"))), len(curve) - 1)
    (low, below), (high, above) = curve[place - 1], curve[place]
    return below + (above - below) * (share - low) / (high - low)
