"""The folder of one run: where everything lies, and that no partial file passes for a whole one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, Self

from xpr.errors import UserError
from xpr.files import atomic_write
from xpr.io.fields import Fields
from xpr.train.config import LARGEST, TrainConfig


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """config.json, metrics.jsonl, checkpoints/, point_cloud.ply, eval/, loss.png, summary.json.

    And cameras.json, where the run refined the cameras; eval.json, where `xpr eval` scored it.
    """

    path: Path

    @classmethod
    def start(cls, path: Path, config: TrainConfig) -> Self:
        """A folder for a new run.

        Raises:
          UserError: as `check_free`.
        """
        folder = cls(path)
        folder.check_free()
        path.mkdir(parents=True, exist_ok=True)
        folder.metrics.unlink(missing_ok=True)
        config.save(folder.config)
        return folder

    def check_free(self) -> None:
        """Refuse a folder that a new run would spoil.

        A run that died before its first checkpoint has nothing to lose and gives way.

        Raises:
          UserError: it holds a run or other files already, or is no folder.
        """
        path = self.path
        if path.exists() and not path.is_dir():
            raise UserError(
                f"{path} is a file, expected a new folder for the run. Give another --out."
            )
        if self.checkpoints.exists() or self.splats.exists():
            raise UserError(
                f"{path} holds a run already, expected a new folder. Continue it with --resume "
                f"{path}, or give another --out."
            )
        own = {self.config.name, self.metrics.name}
        if path.exists() and (
            others := sorted(p.name for p in path.iterdir() if p.name not in own)
        ):
            raise UserError(
                f"{path} holds other files ({others[0]}, ...), expected a new or empty folder for "
                "the run. Give another --out."
            )

    @classmethod
    def reopen(cls, path: Path, config: TrainConfig) -> Self:
        """The folder of a run that is to go on.

        Raises:
          DataError: it holds no run.
          UserError: its settings are others.
        """
        folder = cls(path)
        saved, asked = (dataclasses.asdict(c) for c in (TrainConfig.load(folder.config), config))
        for name, value in saved.items():
            if value != asked[name]:
                raise UserError(
                    f"{name} is {asked[name]!r}, but the run in {path} has {value!r}. Resume with "
                    "its own settings, or start a new run."
                )
        return folder

    @property
    def config(self) -> Path:
        """The settings, reloadable by `TrainConfig.load`."""
        return self.path / "config.json"

    @property
    def metrics(self) -> Path:
        """One line of JSON for each logged step."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """What `--resume` reads."""
        return self.path / "checkpoints"

    @property
    def splats(self) -> Path:
        """The trained scene."""
        return self.path / "point_cloud.ply"

    @property
    def cameras(self) -> Path:
        """The cameras as the run refined them; absent where it did not."""
        return self.path / "cameras.json"

    @property
    def pictures(self) -> Path:
        """Held-out views: truth | render | error."""
        return self.path / "eval"

    @property
    def curve(self) -> Path:
        """The loss over the steps."""
        return self.path / "loss.png"

    @property
    def summary(self) -> Path:
        """What the run came to."""
        return self.path / "summary.json"

    @property
    def scores(self) -> Path:
        """What the last `xpr eval` found."""
        return self.path / "eval.json"

    def log(self, line: dict[str, Any]) -> None:
        """Append one line to the metrics."""
        with self.metrics.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def logged(self) -> list[dict[str, Any]]:
        """The lines of the metrics; a last line that a kill cut short is left out.

        Raises:
          DataError: naming the line that is damaged.
        """
        if not self.metrics.exists():
            return []
        *whole, _cut = self.metrics.read_bytes().split(b"\n")
        return [self._line(row, text) for row, text in enumerate(whole, 1)]

    def _line(self, row: int, text: bytes) -> dict[str, Any]:
        line = Fields.parse(self.metrics, f"line {row}", text)
        line.integer("step", least=0, most=LARGEST)
        for name in ("loss", "psnr"):
            if not isinstance(line.values.get(name), float):  # NaN too: a lost run logs it
                line.integer(name, least=-LARGEST, most=LARGEST)
        return line.values

    def rewind(self, step: int) -> None:
        """Drop the metrics after `step`, which the run repeats from its checkpoint."""
        kept = [line for line in self.logged() if line["step"] <= step]
        with atomic_write(self.metrics) as partial:
            partial.write_text("".join(json.dumps(line) + "\n" for line in kept))

    def summarize(self, summary: dict[str, Any]) -> None:
        """Write the summary."""
        _write(self.summary, summary)

    def scored(self, scores: dict[str, Any]) -> None:
        """Write the scores of an evaluation."""
        _write(self.scores, scores)


def _write(path: Path, table: dict[str, Any]) -> None:
    with atomic_write(path) as partial:
        partial.write_text(json.dumps(table, indent=2) + "\n")
