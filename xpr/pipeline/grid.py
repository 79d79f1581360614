"""The image cut into square tiles."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class Grid:
    """Tiles of an image, counted row by row. Static.

    The last column and row may reach over the border: their outer pixels are computed and cut off.
    """

    width: int
    height: int
    tile_size: int

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of tiles."""
        return -(-self.height // self.tile_size), -(-self.width // self.tile_size)

    @property
    def tiles(self) -> int:
        """The number T of tiles."""
        return self.shape[0] * self.shape[1]

    def origins(self, tiles: Array) -> tuple[Array, Array]:
        """x and y of the tiles' upper left corners, px, as integers."""
        columns = self.shape[1]
        return tiles % columns * self.tile_size, tiles // columns * self.tile_size

    def local_pixels(self) -> np.ndarray:
        """[P, 2] pixel centres of a tile, from its corner, row by row."""
        y, x = np.mgrid[: self.tile_size, : self.tile_size] + 0.5
        return np.stack([x.ravel(), y.ravel()], axis=-1)

    def pixels(self) -> np.ndarray:
        """[H, W, 2] pixel centres of the image."""
        y, x = np.mgrid[: self.height, : self.width] + 0.5
        return np.stack([x, y], axis=-1)

    def to_tiles(self, image: Array) -> Array:
        """[H, W] -> [T, P]; pixels beyond the border repeat the last one."""
        (rows, columns), size = self.shape, self.tile_size
        pad = [(0, rows * size - self.height), (0, columns * size - self.width)]
        blocks = jnp.pad(image, pad, mode="edge").reshape(rows, size, columns, size)
        return blocks.transpose(0, 2, 1, 3).reshape(self.tiles, size * size)

    def to_image(self, tiles: Array) -> Array:
        """[T, n, P] -> [H, W, n]."""
        (rows, columns), size = self.shape, self.tile_size
        blocks = tiles.reshape(rows, columns, -1, size, size).transpose(0, 3, 1, 4, 2)
        image = blocks.reshape(rows * size, columns * size, -1)
        return image[: self.height, : self.width]
