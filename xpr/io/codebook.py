"""Few values for many: codebooks of 256 numbers, and palettes of whole rows."""

from __future__ import annotations

import numpy as np

SIZE = 256  # of a codebook
SAMPLES = 1 << 18  # values that a codebook is fitted to
ROUNDS = 30
LARGEST_PALETTE = 1 << 16


def codebook(values: np.ndarray) -> np.ndarray:
    """The 256 numbers, float32 and ascending, to which `values` are nearest on the whole.

    Lloyd's algorithm; up to 256 different values are kept exactly.
    """
    own = np.unique(values)
    if len(own) <= SIZE:
        own = own if len(own) else np.zeros(1)
        return np.pad(own, (0, SIZE - len(own)), mode="edge").astype(np.float32)
    sample = np.sort(values.ravel()[:: -(-values.size // SAMPLES)].astype(np.float64))
    # Half of them where the values are, half where they are few: both ends of the optimum.
    steps = np.linspace(0, 1, SIZE // 2)
    spread = own[0] + (own[-1] - own[0]) * (steps + 0.5 * steps[1])
    book = np.sort(np.concatenate([np.quantile(sample, steps), spread]))
    total = np.concatenate([[0.0], np.cumsum(sample)])
    for _ in range(ROUNDS):
        edges = np.searchsorted(sample, (book[1:] + book[:-1]) / 2)
        first, last = np.append(0, edges), np.append(edges, len(sample))
        count = last - first
        mean = (total[last] - total[first]) / np.maximum(count, 1)
        book = np.sort(np.where(count > 0, mean, book))
    return book.astype(np.float32)


def nearest(book: np.ndarray, values: np.ndarray) -> np.ndarray:
    """For each value the index of the nearest number of an ascending codebook, uint8."""
    return np.searchsorted((book[1:] + book[:-1]) / 2, values).astype(np.uint8)


def palette(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most 65,536 rows that stand for `rows` [N, D], and which stands for each [N].

    Median cut: cells of rows are halved across their widest dimension until there are enough;
    each is then its mean. Up to 65,536 rows stand for themselves.
    """
    if len(rows) <= LARGEST_PALETTE:
        return rows, np.arange(len(rows))
    order, bounds = np.arange(len(rows)), np.array([0, len(rows)])
    while len(bounds) <= LARGEST_PALETTE:
        cell = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        inside = rows[order]
        low, high = (f.reduceat(inside, bounds[:-1], axis=0) for f in (np.minimum, np.maximum))
        widest = np.argmax(high - low, axis=1)
        order = order[np.lexsort([inside[np.arange(len(rows)), widest[cell]], cell])]
        middle = (bounds[:-1] + bounds[1:]) // 2
        bounds = np.sort(np.concatenate([bounds, middle]))
    sizes = np.diff(bounds)
    means = np.add.reduceat(rows[order], bounds[:-1], axis=0) / sizes[:, None]
    label = np.empty(len(rows), np.intp)
    label[order] = np.repeat(np.arange(len(sizes)), sizes)
    return means.astype(np.float32), label
