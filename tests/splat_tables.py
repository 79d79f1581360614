"""Random splats for tests of files."""

import numpy as np

from xpr import sh
from xpr.io.table import FIELDS, SplatTable


def random_table(size=5, degree=3, antialiased=False):
    """Standard normal values in every field."""
    rng = np.random.default_rng(size * 10 + degree)

    def block(*shape):
        return rng.standard_normal((size, *shape)).astype(np.float32)

    higher = block(sh.coefficients(degree) - 1, 3)
    return SplatTable(
        block(3), block(4), block(3), block(), block(1, 3), higher, antialiased=antialiased
    )


def mild_table(size=300, degree=3, antialiased=False):
    """Values such as trained splats have, inside the range of every format."""
    table = random_table(size, degree, antialiased)
    scaled = {"log_scale": 0.3 * table.log_scale - 2.5, "sh0": 0.3 * table.sh0}
    scaled |= {"shN": np.clip(0.1 * table.shN, -0.9, 0.9), "logit_opacity": 2 * table.logit_opacity}
    for name, values in scaled.items():
        getattr(table, name)[:] = values
    return table


def assert_equal(a, b):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert a.antialiased == b.antialiased
