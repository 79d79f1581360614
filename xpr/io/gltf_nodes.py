"""Where a glTF scene puts its meshes."""

from __future__ import annotations

import numpy as np

from xpr.errors import DataError
from xpr.io.fields import Fields


def placements(root: Fields, meshes: int) -> list[tuple[int, np.ndarray | None]]:
    """Each use of a mesh by the scene, with its world-from-mesh matrix; None is the identity.

    Args:
      root: the glTF's JSON.
      meshes: how many there are.

    Raises:
      DataError: indices without a target, or nodes that are no tree.
    """
    nodes, scenes = root.objects("nodes"), root.objects("scenes")
    if not scenes:
        return [(index, None) for index in range(meshes)]
    scene = scenes[root.integer("scene", least=0, most=len(scenes) - 1, default=0)]
    waiting = [(index, np.eye(4)) for index in _indices(scene, "nodes", len(nodes))]
    seen: set[int] = set()
    found = []
    while waiting:
        index, parent = waiting.pop()
        if index in seen:
            raise DataError(f"{root.path}: node {index} has two parents, expected a tree of nodes.")
        seen.add(index)
        node = nodes[index]
        matrix = parent @ _local(node)
        waiting += [(child, matrix) for child in _indices(node, "children", len(nodes))]
        if "mesh" in node:
            mesh = node.integer("mesh", least=0, most=meshes - 1)
            found.append((mesh, None if np.array_equal(matrix, np.eye(4)) else matrix))
    return found


def _indices(fields: Fields, name: str, count: int) -> list[int]:
    if name not in fields:
        return []
    values = fields.numbers(name, most=count)
    if any(value != int(value) or not 0 <= value < count for value in values):
        raise fields.wrong(name, f"a list of whole numbers below {count}")
    return [int(value) for value in values]


def _local(node: Fields) -> np.ndarray:
    """A node's own matrix [4, 4], or that of its translation, rotation and scale."""
    if "matrix" in node:
        return np.array(node.numbers("matrix", least=16, most=16)).reshape(4, 4).T
    from scipy.spatial.transform import Rotation

    matrix = np.eye(4)
    if "rotation" in node:
        quat = node.numbers("rotation", least=4, most=4)
        if not any(quat):
            raise node.wrong("rotation", "a unit quaternion")
        matrix[:3, :3] = Rotation.from_quat(quat).as_matrix()
    if "scale" in node:
        matrix[:3, :3] *= node.numbers("scale", least=3, most=3)
    if "translation" in node:
        matrix[:3, 3] = node.numbers("translation", least=3, most=3)
    return matrix
