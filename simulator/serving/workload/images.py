"""Images of requests: their sizes, the patches that an encoder makes of them, and the tokens that these become.

An image of w x h pixels has ceil(h / patch) ceil(w / patch) patches (Vision Transformer, arXiv:2010.11929; what is left
of a row is filled up), and `merge` of them are a token (Qwen2-VL, arXiv:2409.12191, section 2.1: two by two). Larger
images than the encoder takes are made smaller first, with the same form. Left out: tokens between rows and around
images, thumbnails and tiles, videos.
"""

from math import ceil, sqrt

import numpy as np

from simulator.errors import InputError, Problem
from simulator.random import stream
from simulator.serving.workload.lengths import whole
from simulator.specs.distributions import sample
from simulator.specs.model.vision import Vision
from simulator.specs.requests import Images

MOST_IMAGES = 1_000
"""Images of a request at most."""
MOST_SIDE = 100_000
"""Pixels of a side at most."""

Sizes = tuple[tuple[tuple[int, int], ...], ...]
"""(width, height) in pixels of the images of each request."""


def drawn(given: Images, count: int, seed: int) -> Sizes:
    """Images of so many requests; InputError where a distribution reaches beyond all reason."""
    numbers = np.rint(sample(given.count, stream(seed, "images"), count, step=1)).astype(np.int64)
    if np.max(numbers, initial=0) > MOST_IMAGES:
        problem = f"the distribution reaches {np.max(numbers):,} images in a request"
        raise InputError(Problem(problem, path="requests.images.count", hint=f"bound it with `high: {MOST_IMAGES}`"))
    ends, sides = np.cumsum(numbers), []
    for name in ("width", "height"):
        random = stream(seed, f"image {name}")
        path = f"requests.images.{name}"
        own = whole(sample(getattr(given, name), random, int(numbers.sum()), step=1), path)
        if np.max(own, initial=0) > MOST_SIDE:
            problem = f"the distribution reaches {np.max(own):,} pixels"
            raise InputError(Problem(problem, path=path, hint=f"bound it with `high: {MOST_SIDE}`"))
        sides.append(own.tolist())
    pairs = list(zip(*sides, strict=True))
    return tuple(tuple(pairs[end - n : end]) for n, end in zip(numbers.tolist(), ends.tolist(), strict=True))


def patches(width: int, height: int, vision: Vision) -> int:
    """Patches of an image; of one that is made smaller no more than it has room for."""
    if vision.side is not None:
        width = height = vision.side
    columns, rows = ceil(width / vision.patch), ceil(height / vision.patch)
    most = vision.most_pixels
    if most is None or columns * rows * vision.patch**2 <= most:
        return columns * rows
    shrunk = min(sqrt(most / (width * height)), 1.0)
    columns, rows = (max(int(side * shrunk / vision.patch), 1) for side in (width, height))
    return min(columns * rows, max(most // vision.patch**2, 1))


def tokens(patches_: int, vision: Vision) -> int:
    """Tokens of the prompt that the patches of an image become."""
    return -(-patches_ // vision.merge)
