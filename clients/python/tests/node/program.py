"""Starts nodes: `KITH` names the program."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import time
from pathlib import Path

PROGRAM = os.environ["KITH"]


def made(*arguments: str, cwd: Path) -> str:
    """Returns what the program prints."""
    return subprocess.run([PROGRAM, *arguments], cwd=cwd, check=True, capture_output=True, text=True).stdout


class Program:
    """A node with data in a folder, and a key of a caller who may do everything."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder, self.arguments, self.port = folder, arguments, "0"
        self.key_file = folder / "backend.key"
        self.key_file.write_text(secrets.token_urlsafe(32))
        self.key_file.chmod(0o600)
        self.start()

    def start(self) -> None:
        """Starts the node, and waits until it serves."""
        self.spawn()
        end, ports = time.monotonic() + 60, self.folder / "ports.json"
        while not ports.exists():
            assert time.monotonic() < end, "the node does not start"
            assert self.process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.02)
        self.address = json.loads(ports.read_text())["grpc"]
        self.port = self.address.rpartition(":")[2]

    def spawn(self) -> None:
        """Starts the node, on the port of before."""
        (self.folder / "ports.json").unlink(missing_ok=True)
        data = ("--set", f"api_key_file={self.key_file}", "--data-dir", str(self.folder / "data"))
        ports = ("--port", self.port, "--operations-port", "0", "--ports-file", "ports.json")
        command = [PROGRAM, "serve", *self.arguments, *data, *ports, "--exit-with-parent"]
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
