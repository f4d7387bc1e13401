"""The unit: systemd's own tool reads it."""

import shutil
from pathlib import Path

import pytest

from deploy.containers import run
from tests.deploy.support import DEPLOY

UNIT = DEPLOY / "systemd" / "peerd.service"


def settings() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        key, sign, value = line.partition("=")
        if sign and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


def test_systemd_takes_it(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NOT CHECKED: systemd-analyze is not here")
    unit = tmp_path / "peerd.service"  # with a program that there is on this machine
    unit.write_text(UNIT.read_text().replace("/opt/peerd/bin/peerd", shutil.which("true") or "/bin/true"))
    outcome = run("systemd-analyze", "verify", "--man=no", unit)
    assert (outcome.returncode, outcome.stderr) == (0, "")


def test_a_wrong_setting_is_not_tried_again() -> None:
    found = settings()
    assert found["Restart"] == ["on-failure"]
    assert found["RestartPreventExitStatus"] == ["2"]


def test_it_may_write_nowhere_but_in_its_own_directories() -> None:
    found = settings()
    assert found["ProtectSystem"] == ["strict"]
    assert found["DynamicUser"] == ["yes"]
    assert "--data-dir %S/peerd" in found["ExecStart"][0]
    assert found["StateDirectory"] == ["peerd"]
