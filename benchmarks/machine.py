"""What a measurement was made on."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

CPUINFO = Path("/proc/cpuinfo")


def describe() -> dict[str, Any]:
    """The machine and the versions, JSON-able; what cannot be found out is None."""
    described = {
        "cpu": _cpu_model(),
        "cores": _cores(),
        "threads": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "os": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
    described |= {name: _version(name) for name in ("jax", "jaxlib", "llvmlite")}
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes")
    return described | {"date": now, "commit": _commit()}


def _cpuinfo() -> list[dict[str, str]]:
    """The fields of each hardware thread (Linux)."""
    if not CPUINFO.exists():
        return []
    blocks = CPUINFO.read_text().strip().split("\n\n")
    lines = ([line.partition(":") for line in block.splitlines()] for block in blocks)
    return [{name.strip(): value.strip() for name, _, value in block} for block in lines]


def _cpu_model() -> str | None:
    models = {block.get("model name", "") for block in _cpuinfo()} - {""}
    return ", ".join(sorted(models)) or platform.processor() or None


def _cores() -> int | None:
    """Physical ones."""
    return len({(b.get("physical id"), b["core id"]) for b in _cpuinfo() if "core id" in b}) or None


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The checkout's commit, marked if files differ from it."""
    git = [
        "git",
        "-C",
        str(Path(__file__).parent),
        "describe",
        "--always",
        "--dirty",
        "--exclude=*",
    ]
    try:
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
