"""A testbed of containers for tests. Skips, loudly, where there is no engine, no Compose, or no base image."""

import os
import shutil
import time
from collections.abc import Callable

import pytest

from deploy.containers import Containers, compose_command, run
from tests.deploy.support import DEPLOY, ROOT

BASE_IMAGE = "python:3.11-slim-bookworm"
PEERD_IMAGE = "peerd:test"
PROMETHEUS_IMAGE = "peerd-prometheus:test"
SERVICES = ("seed", "peer", "workload", "prometheus")
"""Grafana's image cannot be built from packages; its files have tests of their own."""


def engine() -> None:
    """Skip unless an engine answers."""
    if shutil.which("docker") is None or run("docker", "info").returncode:
        pytest.skip("NOT CHECKED: no Docker engine answers here")


def project(name: str, **variables: str) -> Containers:
    command = compose_command()
    if command is None:
        pytest.skip("NOT CHECKED: neither 'docker compose' nor docker-compose is here")
    images = {"PEERD_IMAGE": PEERD_IMAGE, "PROMETHEUS_IMAGE": PROMETHEUS_IMAGE}
    return Containers(command, f"{name}{os.getpid()}", SUBNET="10.65.0.0/16", **images, **variables)


def images() -> None:
    """Build what the testbed needs; what has not changed is taken from the engine's cache."""
    here = run("docker", "image", "inspect", BASE_IMAGE).returncode == 0
    if not here and run("docker", "pull", "-q", BASE_IMAGE, seconds=300).returncode:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            pytest.skip(f"NOT CHECKED: {BASE_IMAGE} can neither be pulled nor built here")
        built = run(DEPLOY / "local-base", seconds=600)
        if built.returncode:
            pytest.skip(f"NOT CHECKED: {BASE_IMAGE} cannot be built here: {built.stderr.strip()[-300:]}")
    for image, file, context in (
        (PEERD_IMAGE, DEPLOY / "Dockerfile", ROOT),
        (PROMETHEUS_IMAGE, DEPLOY / "prometheus" / "Dockerfile", DEPLOY / "prometheus"),
    ):
        built = run("docker", "build", "-q", "--network", "host", "-f", file, "-t", image, context, seconds=600)
        assert built.returncode == 0, built.stderr[-2000:]


def until(condition: Callable[[], object], what: str, seconds: float) -> None:
    """Poll until it holds; an address that does not answer yet does not hold."""
    end = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except OSError as error:
            failure: object = error
        else:
            failure = "not so"
        assert time.monotonic() < end, f"waited {seconds} s for {what}: {failure}"
        time.sleep(1.0)
