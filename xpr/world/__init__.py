"""The demo's analytic world: exact colours along any ray, and a posed dataset of it."""

from xpr.world.dataset import write_dataset as write_dataset
from xpr.world.picture import picture as picture
from xpr.world.scene import first_hit as first_hit, trace as trace
