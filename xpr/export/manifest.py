"""Names that the writer and the reader of exported files share."""

from __future__ import annotations

FORMAT, VERSION = "xpr.export", 1
MANIFEST, SCENE = "manifest.json", "scene.npz"
KINDS = ("render", "gradient")

FRAMES = (
    "viewmat maps world to camera; camera axes are OpenCV's (x right, y down, z forward); pixel "
    "centres at +0.5; the world is that of the scene file"
)
UNITS = {
    "viewmat": "camera-from-world, world units",
    "K": "px",
    "distortion": "coefficients of the lens, in the order that `lens` lists",
    "background": "RGB, 0 to 1",
    "scene": "raw parameters, one row a primitive",
    "target": "RGB, 0 to 1",
    "color": "RGB over the background",
    "alpha": "0 to 1",
    "depth": "world units, accumulated: the sum of depth times weight",
    "overflow": "true: the scene did not fit into the capacity and the image lacks splats",
    "loss": "0.8 L1 + 0.2 (1 - SSIM) of colour against target",
    "gradient": "of the loss, by the names of the inputs",
}
