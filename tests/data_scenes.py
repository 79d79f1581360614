"""Tiny datasets on disk, written the way COLMAP, nerfstudio and Blender write them."""

import json

import numpy as np
from PIL import Image


def photo(path, size=(16, 12), *, color=(200, 100, 50), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("RGB", size, color)
    if mode == "RGBA":
        image.putalpha(128)
    image.save(path)
    return path


def pose(x=0.0):
    """Camera-to-world, OpenGL axes, at (x, 0, 3) and looking at -z."""
    matrix = np.eye(4)
    matrix[:3, 3] = x, 0, 3
    return matrix.tolist()


def transforms(folder, frames, name="transforms.json", **root):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps({**root, "frames": frames}))
    return folder / name


def nerfstudio(folder, count=3, size=(16, 12), **root):
    """`count` photos and their transforms.json; root values as given."""
    frames = []
    for i in range(count):
        photo(folder / "images" / f"{i}.png", size)
        frames.append({"file_path": f"images/{i}.png", "transform_matrix": pose(i)})
    width, height = size
    intrinsics = {"fl_x": 20.0, "fl_y": 21.0, "cx": 8.0, "cy": 6.0, "w": width, "h": height}
    return transforms(folder, frames, **{**intrinsics, **root})


def colmap_text(folder, *, cameras, images, points=""):
    """A text model in `folder`/sparse/0; `images` as (id, camera id, name)."""
    model = folder / "sparse" / "0"
    model.mkdir(parents=True, exist_ok=True)
    (model / "cameras.txt").write_text(cameras)
    lines = [f"{i} 1 0 0 0 0 0 0 {camera} {name}\n\n" for i, camera, name in images]
    (model / "images.txt").write_text("".join(lines))
    if points is not None:
        (model / "points3D.txt").write_text(points)
    return model


def colmap(folder, names=("a.png", "b.png"), size=(16, 12), camera="PINHOLE 16 12 20 21 8 6"):
    """Photos in `folder`/images and a text model with one camera."""
    for name in names:
        photo(folder / "images" / name, size)
    images = [(i + 1, 1, name) for i, name in enumerate(names)]
    colmap_text(folder, cameras=f"1 {camera}\n", images=images, points="1 0 0 5 9 8 7 0.5\n")
    return folder
