"""Carries out the Dockerfile's steps without a container engine, in folders of their own.

    python scripts/container_steps.py [--python PYTHON]

Reads the Dockerfile itself, so it cannot drift from it: COPY, RUN, ENV, CMD and HEALTHCHECK are done with
`/src`, `/opt/ttopt` and the volume moved into a temporary folder and the port changed. The service then runs with
an empty environment but for the image's, an unwritable working folder, and TMPDIR and the volume as its only writable
places, as user 10001 when this runs as root. Exits 1 on any failure.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
USER = 10001
HEALTHY_WITHIN_S = 30
KEY_WITHIN_S = 6
"""After which a server knows a new key."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="stands for the base image's Python 3.12")
    parser.add_argument("--model", default=str(ROOT / "fixtures" / "onnx" / "resnet50_b1_legacy17.onnx"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ttopt-image-") as folder:
        image = Image(Path(folder), args.python)
        image.build()
        image.serve_and_check(Path(args.model))
    print("container steps: all good")
    return 0


def instructions(text: str) -> list[tuple[str, str]]:
    """(instruction, argument) in order; comments dropped, continued lines joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines())]


class Image:
    """A folder that stands for the image's file system."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        self.environment = {"PATH": f"{self._base_python(python)}:/usr/bin:/bin"}
        self.libraries = {"LD_LIBRARY_PATH": str(self.folder / "usr-local" / "lib")}
        self.environment.update(self.libraries)
        for name in ("SSL_CERT_FILE", "PIP_CERT", "PIP_INDEX_URL"):
            if name in os.environ:
                self.environment[name] = os.environ[name]
        self.steps = instructions((ROOT / "Dockerfile").read_text(encoding="utf-8"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])

    def _base_python(self, python: str) -> Path:
        """A copy of the interpreter's installation, readable by everyone; returns its folder of programs."""
        code = "import sys; print(sys.base_prefix)"
        prefix = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        ignored = shutil.ignore_patterns("test", "site-packages", "config-*", "__pycache__", "*.a")
        shutil.copytree(prefix, self.folder / "usr-local", symlinks=True, ignore=ignored)
        (self.folder / "usr-local" / "lib" / "python3.12" / "site-packages").mkdir()
        return self.folder / "usr-local" / "bin"

    def moved(self, text: str) -> str:
        """Text of an instruction with the image's places and port exchanged for ours."""
        for place in ("/opt/ttopt", "/var/lib/ttopt"):
            text = text.replace(place, str(self.folder) + place)
        return text.replace("127.0.0.1:8000", f"127.0.0.1:{self.port}").replace('"8000"', f'"{self.port}"')

    def build(self) -> None:
        """The first stage: COPY from the folder of the checkout, RUN in a clean environment."""
        source = self.folder / "src"
        source.mkdir()
        for word, argument in self.steps[: self._second_stage()]:
            if word == "COPY":
                *names, target = argument.split()
                for name in names:
                    copy(ROOT / name, source / target / (name if len(names) > 1 or target == "./" else ""))
            elif word == "RUN":
                print(f"RUN {argument}", flush=True)
                subprocess.run(["sh", "-euc", self.moved(argument)], cwd=source, env=self.environment, check=True)
        shutil.rmtree(source)

    def serve_and_check(self, model: Path) -> None:
        """The second stage: RUN, CMD, HEALTHCHECK until healthy, one request, SIGTERM."""
        stage = dict(self.steps[self._second_stage() :])
        self._prepare(stage["RUN"])
        assert stage["USER"] == f"{USER}:{USER}"
        environment = {"TMPDIR": str(self._writable()), "PATH": "/usr/bin:/bin", **self.libraries}
        for setting in self.moved(stage["ENV"]).split():
            name, _, value = setting.partition("=")
            environment[name] = value.replace("$PATH", environment["PATH"])
        command = json.loads(self.moved(stage["CMD"]))
        command[0] = str(self.folder / "opt" / "ttopt" / "bin" / command[0])
        identity = self._identity()
        print(f"CMD {command} as {identity.get('user', 'the current user')}", flush=True)
        process = subprocess.Popen(command, cwd="/", env=environment, **identity)
        try:
            self._wait_until_healthy(stage["HEALTHCHECK"], environment)
            new_key = [command[0], "keys", "add", "me"]
            key = subprocess.run(
                new_key, env=environment, capture_output=True, text=True, check=True, **identity
            ).stdout
            time.sleep(KEY_WITHIN_S)
            headers = {"Authorization": f"Bearer {key.strip()}"}
            address = f"http://127.0.0.1:{self.port}/v1/optimize"
            request = urllib.request.Request(address, model.read_bytes(), headers)
            with urllib.request.urlopen(request, timeout=300) as response:
                summary = json.load(response)["summary"]
            print(f"optimized {model.name}: {summary['predicted_time_ns']} ns", flush=True)
        finally:
            process.terminate()
            status = process.wait(timeout=30)
        if status not in (0, -15):
            raise SystemExit(f"the service ended with status {status}")

    def _prepare(self, command: str) -> None:
        """The RUN of the second stage; folders can be given to another user by root alone."""
        if os.getuid() != 0:
            command = command.replace(f"-o {USER} -g {USER} ", "")
        print(f"RUN {command}", flush=True)
        environment = {"PATH": "/usr/bin:/bin"}
        subprocess.run(["sh", "-euc", self.moved(command)], cwd=self.folder, env=environment, check=True)

    def _second_stage(self) -> int:
        return max(i for i, (word, _) in enumerate(self.steps) if word == "FROM")

    def _writable(self) -> Path:
        folder = self.folder / "tmp"
        folder.mkdir(mode=0o1777)
        folder.chmod(0o1777)
        return folder

    def _identity(self) -> dict[str, int]:
        """User and group of the process, where this may choose them."""
        self.folder.chmod(0o755)
        return {"user": USER, "group": USER} if os.getuid() == 0 else {}

    def _wait_until_healthy(self, check: str, environment: dict[str, str]) -> None:
        command = json.loads(self.moved(check).partition("CMD ")[2])
        command[0] = str(self.folder / "opt" / "ttopt" / "bin" / command[0])
        deadline = time.monotonic() + HEALTHY_WITHIN_S
        while subprocess.run(command, env=environment, capture_output=True, check=False).returncode != 0:
            if time.monotonic() > deadline:
                raise SystemExit(f"not healthy within {HEALTHY_WITHIN_S} s")
            time.sleep(0.3)
        print("HEALTHCHECK passes", flush=True)


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


if __name__ == "__main__":
    sys.exit(main())
