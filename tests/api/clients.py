"""Clients of an application in this process."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.testclient import TestClient


def local_client(app: FastAPI) -> TestClient:
    """One on this machine, which needs no key."""
    return TestClient(app, "http://localhost", raise_server_exceptions=False, client=("127.0.0.1", 50_000))
