"""Runs the README against a node, then signs two people in: `python test.py KITH`."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
README = (HERE / "README.md").read_text("utf-8")


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


class Browser:
    """Keeps cookies."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.address + path, data, {"content-type": "application/json"})
        try:
            with self.opener.open(request) as answer:
                text = answer.read().decode()
                return answer.status, text if path == "/token" else json.loads(text or "null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or "null")


def wait_for(condition: Any, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        assert process.poll() is None, "it has ended"
        time.sleep(0.05)


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def play_console(folder: Path, port: int) -> None:
    block = re.findall(r"^```console\n(.*?)^```", README, re.DOTALL | re.MULTILINE)[0]
    for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, wanted = entry.partition("\n")
        command = command.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
        got = subprocess.run(
            command, shell=True, cwd=folder, check=True, capture_output=True, text=True
        ).stdout
        pattern = re.escape(wanted.strip()).replace("<id>", r"\d+")
        assert re.fullmatch(pattern, got.strip()), f"{command}: {got}"


def play_people(address: str, node: str) -> None:
    ann, bea = Browser(address), Browser(address)
    account = {"name": "bea", "password": "battery staple"}
    assert ann.ask("/chats")[0] == 401
    assert bea.ask("/sign-up", account)[0] == 201
    status, error = bea.ask("/sign-up", account)
    assert (status, error["reason"]) == (409, "NAME_TAKEN")
    assert ann.ask("/sign-in", {"name": "Ann", "password": "wrong"})[0] == 401
    assert ann.ask("/sign-in", {"name": "Cid", "password": "wrong"})[0] == 401
    _, signed_in = ann.ask("/sign-in", {"name": "Ann", "password": "correct horse"})
    status, group = ann.ask("/groups", {"name": "Two", "people": ["bea"]})
    assert (status, group["added"], len(group["invited"])) == (201, [], 1)
    send = {"groupId": group["group_id"], "contentType": "text/plain", "body": "aGk="}
    headers = {"content-type": "application/json", "authorization": f"Bearer {ann.ask('/token')[1]}"}
    path = f"http://{node}/kith.message.v1.MessageService/SendMessage"
    with urllib.request.urlopen(urllib.request.Request(path, json.dumps(send).encode(), headers)) as answer:
        assert json.load(answer)["conversationId"] == f"g{group['group_id']}"
    assert signed_in["user_id"] > 0
    assert {chat["name"] for chat in ann.ask("/chats")[1]} == {"Climbers", "Two"}
    assert bea.ask("/chats")[1] == []
    assert ann.ask("/groups", {"name": "", "people": []})[0] == 400


def main(kith: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kith").symlink_to(Path(kith).resolve())
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        commands = re.findall(r"^```sh\n(.*?)^```", README, re.DOTALL | re.MULTILINE)[0].splitlines()
        for command in commands[:-1]:
            subprocess.run(command, shell=True, cwd=folder, env=environment, check=True)
        serve = [
            "exec",
            commands[-1],
            "--ephemeral --port 0 --operations-port 0 --ports-file ports --exit-with-parent",
        ]
        node = subprocess.Popen(" ".join(serve), shell=True, cwd=folder, env=environment)
        wait_for((folder / "ports").exists, node)
        address, port = json.loads((folder / "ports").read_text())["grpc"], free_port()
        environment["KITH_ADDR"] = f"http://{address}"
        backend = subprocess.Popen([HERE / "start.sh", "--port", str(port)], cwd=folder, env=environment)
        try:
            wait_for(lambda: listens(port), backend)
            play_console(folder, port)
            play_people(f"http://127.0.0.1:{port}", address)
        finally:
            backend.terminate()
            backend.wait()
            node.kill()
            node.wait()
    print("examples/chat-backend-python: everything holds")


if __name__ == "__main__":
    main(sys.argv[1])
