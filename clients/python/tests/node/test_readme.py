"""The lines of the README run as they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from program import Program

from kith_client import Client
from kith_client.v1 import user_pb2

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_every_line_runs(tmp_path: Path) -> None:
    openssl = re.search(r"`(openssl genpkey [^`]*)`", README)
    assert openssl
    subprocess.run(openssl[1].split(), cwd=tmp_path, check=True)
    node = Program(tmp_path)
    variables = {"KITH_ADDR": f"http://{node.address}", "KITH_API_KEY_FILE": "backend.key"}
    code = "\n".join([*blocks("python"), "print(token)"])
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert ran.returncode == 0
    node.kill()
    (tmp_path / "kith.toml").write_text(blocks("toml")[0])
    node = Program(tmp_path, "--config", "kith.toml")
    with Client(node.address, token=ran.stdout.splitlines()[-1]) as ann:
        answer = ann.users.get_user(user_pb2.GetUserRequest(user_id=7))
    node.kill()
    assert answer.user.nick_name == "Annie"
    assert (tmp_path / "bot.state").exists()
