"""Photos in: datasets of COLMAP, nerfstudio and Blender, and the stream that feeds training."""

from xpr.data.dataset import Dataset as Dataset, Points as Points, View as View
from xpr.data.prefetch import Feed as Feed, Item as Item
from xpr.data.recognize import load as load
