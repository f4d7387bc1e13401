"""What the tests of `deploy/` share: where things are, and tools that may or may not be had."""

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from deploy.containers import run

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KEPT = Path.home() / ".cache" / "peerd-tests"
"""Where downloaded tools stay for the next run."""


def promtool() -> Path:
    """Debian's promtool: installed, or unpacked from its package without installing it; skips without either."""
    return _of_prometheus("promtool")


def _of_prometheus(name: str) -> Path:
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    unpacked = KEPT / "prometheus" / "usr" / "bin" / name
    if not unpacked.exists():
        _unpack("prometheus", KEPT / "prometheus")
    return unpacked


def _unpack(package: str, to: Path) -> None:
    """Download and unpack; under another name first, since tests run side by side."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip(f"NOT CHECKED: neither {package} nor Debian's tools to get it are here")
    KEPT.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=KEPT) as place:
        outcome = _download(package, place)
        if outcome.returncode:
            run("apt-get", "update", "-qq", seconds=100)
            outcome = _download(package, place)
        if outcome.returncode:
            pytest.skip(f"NOT CHECKED: Debian's package {package} cannot be had: {outcome.stderr.strip()[-200:]}")
        (archive,) = Path(place).glob(f"{package}_*.deb")
        unpacked = Path(place) / "unpacked"
        assert run("dpkg-deb", "-x", archive, unpacked).returncode == 0
        with suppress(OSError):  # another test was quicker
            unpacked.rename(to)


def _download(package: str, to: str) -> "subprocess.CompletedProcess[str]":
    command = ["apt-get", "download", package]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=to, check=False)
