"""Values of JSON that somebody else wrote, each checked as it is read."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeGuard

from xpr.errors import DataError


@dataclasses.dataclass(frozen=True)
class Fields:
    """A JSON object, and where in which file it stands.

    Attributes:
      path: the file.
      place: such as `meta.json: means`.
      values: the object.
    """

    path: Path
    place: str
    values: dict[str, Any]

    @classmethod
    def parse(cls, path: Path, place: str, text: bytes) -> Fields:
        """The object that `text` holds.

        Raises:
          DataError: no JSON, no object, or nested too deeply.
        """
        try:
            values = json.loads(text.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}: {place} is no readable JSON: {error}.") from error
        if not isinstance(values, dict):
            raise DataError(f"{path}: {place} is {_told(values)}, expected an object.")
        return cls(path, place, values)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def object(self, name: str) -> Fields:
        """The object under `name`; an absent one is empty."""
        value = self.values.get(name, {})
        if not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return Fields(self.path, f"{self.place}.{name}", value)

    def objects(self, name: str) -> list[Fields]:
        """The list of objects under `name`; an absent one is empty."""
        return list(self._objects(name))

    def integer(self, name: str, *, least: int, most: int, default: int | None = None) -> int:
        """The whole number under `name`, within bounds."""
        value = self.values.get(name, default)
        if type(value) is not int or not least <= value <= most:
            raise self.wrong(name, f"a whole number from {least:,} to {most:,}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """The truth value under `name`."""
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """The string under `name`."""
        value = self.values.get(name, default)
        if not isinstance(value, str):
            raise self.wrong(name, "a string")
        return value

    def number(self, name: str, *, least: float = -math.inf) -> float:
        """The finite number under `name`."""
        value = self.values.get(name)
        if not _is_finite(value) or value < least:
            raise self.wrong(name, f"a number from {least:g} up")
        return float(value)

    def numbers(self, name: str, *, least: int = 0, most: int = 256) -> list[float]:
        """The list of finite numbers under `name`, from `least` to `most` long."""
        values = self.values.get(name)
        if _is_list(values, least, most) and all(_is_finite(value) for value in values):
            return [float(value) for value in values]
        length = f"{least}" if least == most else f"{least} to {most}"
        raise self.wrong(name, f"a list of {length} numbers")

    def texts(self, name: str, count: int | None = None) -> list[str]:
        """The list of strings under `name`, of any length where `count` is not given."""
        values = self.values.get(name)
        if (
            not isinstance(values, list)
            or not all(isinstance(value, str) for value in values)
            or (count is not None and len(values) != count)
        ):
            raise self.wrong(name, f"a list of {'' if count is None else f'{count} '}strings")
        return values

    def wrong(self, name: str, expected: str) -> DataError:
        """The error that `name` is something else."""
        found = _told(self.values[name]) if name in self.values else "missing"
        return DataError(f"{self.path}: {self.place}.{name} is {found}, expected {expected}.")

    def _objects(self, name: str) -> Iterator[Fields]:
        values = self.values.get(name, [])
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise self.wrong(name, "a list of objects")
        for i, value in enumerate(values):
            yield Fields(self.path, f"{self.place}.{name}[{i}]", value)


def _is_list(value: object, least: int, most: int) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and least <= len(value) <= most


def _is_finite(value: Any) -> TypeGuard[int | float]:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def _told(value: Any) -> str:
    """A value in a few characters."""
    try:
        shown = repr(value)
    except (RecursionError, ValueError):  # nested too deeply, or an integer of absurd length
        shown = f"a {type(value).__name__}"
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
