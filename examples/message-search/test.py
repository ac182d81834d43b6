"""Plays the README against a node; node and index are killed in between: `python test.py KITH`."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kith_client import Client
from kith_client.v1 import message_pb2, user_pb2

HERE = Path(__file__).resolve().parent
README = (HERE / "README.md").read_text("utf-8")
ANN, BEA = 1, 2
BOTH = "d1-2"


def eventually(what: str, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.05)


class Play:
    """A node with two users, and the process that follows."""

    def __init__(self, folder: Path, kith: str) -> None:
        self.folder, self.port, self.log = folder, "0", folder / "log"
        (folder / "kith").symlink_to(Path(kith).resolve())
        self.start_node()
        self.client = Client(self.address, timeout=60.0)
        for user, name in ((ANN, "Ann"), (BEA, "Bea")):
            named = user_pb2.User(user_id=user, user_name=name)
            self.client.users.create_user(user_pb2.CreateUserRequest(user=named))

    def start_node(self) -> None:
        """Starts the node by the README's command, on the port of before."""
        ports, serve = self.folder / "ports", re.findall(r"`(kith serve[^`]*)`", README)[0]
        ports.unlink(missing_ok=True)
        options = f"--data-dir data --port {self.port} --operations-port 0 --ports-file ports"
        path = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        self.node = subprocess.Popen(
            f"exec {serve} {options} --log error --exit-with-parent", shell=True, cwd=self.folder, env=path
        )
        eventually("the node serves", ports.exists)
        self.address = json.loads(ports.read_text())["grpc"]
        self.port = self.address.rpartition(":")[2]

    def command(self, arguments: str) -> str:
        """Returns the README's command for other arguments."""
        command = re.findall(r"^    (KITH_ADDR=.*) follow$", README, re.MULTILINE)[0]
        command = command.replace("127.0.0.1:7600", self.address).replace("./start.sh", f"{HERE}/start.sh")
        return f"export {command.replace(' ', '; exec ', 1)} {arguments}"

    def follow(self) -> None:
        with self.log.open("a") as log:
            self.index = subprocess.Popen(self.command("follow"), shell=True, cwd=self.folder, stderr=log)
        eventually("the index has a place", self.has_place)

    def has_place(self) -> bool:
        file = self.folder / "messages.db"
        if not file.exists():
            return False
        with sqlite3.connect(file) as db:
            tables = db.execute("select count(*) from sqlite_master where name = 'place'").fetchone()[0]
            return tables == 1 and db.execute("select cursor from place").fetchone() is not None

    def run(self, arguments: str) -> list[str]:
        done = subprocess.run(self.command(arguments), shell=True, cwd=self.folder, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().split()

    def found(self, words: str, *seqs: int) -> bool:
        return self.run(f"find '{words}'") == [f"{BOTH}/{seq}" for seq in seqs]

    def say(self, user: int, text: str) -> int:
        request = message_pb2.SendMessageRequest(
            conversation_id=BOTH, sender_id=user, content_type="text/plain", body=text.encode()
        )
        return self.client.messages.send_message(request).seq


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def play(here: Play) -> None:
    before = here.say(ANN, "Said before the index")
    here.follow()
    first, second = here.say(ANN, "Blue whales sing"), here.say(BEA, "蓝鲸在唱歌")
    eventually("both are found", lambda: here.found("BLUE whale", first) and here.found("唱歌", second))
    assert here.found("before")
    here.run(f"add {BOTH}")
    assert here.found("before", before)

    # An edit replaces, a recall removes; node and index are killed in between.
    edit = message_pb2.EditMessageRequest(
        conversation_id=BOTH, seq=first, content_type="text/plain", body=b"Grey whales sing"
    )
    here.client.messages.edit_message(edit)
    eventually("the edit is found", lambda: here.found("grey", first) and here.found("blue"))
    kill(here.index)
    here.client.messages.recall_message(message_pb2.RecallMessageRequest(conversation_id=BOTH, seq=second))
    kill(here.node)
    here.start_node()
    here.follow()
    eventually("the recalled one is gone", lambda: here.found("唱歌"))

    # What is erased and trimmed is gone.
    by_bea = here.say(BEA, "The krill is mine")
    eventually("it is found", lambda: here.found("krill", by_bea))
    here.client.messages.erase_user_messages(message_pb2.EraseUserMessagesRequest(user_id=BEA))
    eventually("the erased one is gone", lambda: here.found("krill"))
    assert here.found("whales", first)
    last = here.say(ANN, "The end")
    here.client.messages.trim_conversation(
        message_pb2.TrimConversationRequest(conversation_id=BOTH, min_seq=last)
    )
    eventually("the trimmed ones are gone", lambda: here.found("whales") and here.found("end", last))
    shown = here.log.read_text()
    assert not re.search("whale|krill|Traceback", shown, re.IGNORECASE), shown
    assert here.index.poll() is None


def main(kith: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        here = Play(Path(name), kith)
        try:
            play(here)
        except BaseException:
            print(here.log.read_text() if here.log.exists() else "no log", file=sys.stderr)
            raise
        finally:
            if hasattr(here, "index"):
                kill(here.index)
            here.client.close()
            kill(here.node)
    print("examples/message-search: everything holds")


if __name__ == "__main__":
    main(sys.argv[1])
