"""Plays the bot of the README against a node; both are killed in between: `python test.py KITH`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kith_client import Client, KithError, Reason
from kith_client.v1 import group_pb2, member_pb2, message_pb2, user_pb2

HERE = Path(__file__).resolve().parent
README = (HERE / "README.md").read_text("utf-8")
BOT, OWNER, ANN, BEA = 1, 2, 3, 4


def eventually(what: str, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.05)


class Play:
    """A node, a group with an owner, a bot and two members, and the bot's process."""

    def __init__(self, folder: Path, kith: str) -> None:
        self.folder, self.port, self.log = folder, "0", folder / "log"
        (folder / "kith").symlink_to(Path(kith).resolve())
        (folder / "words.txt").write_text((HERE / "words.txt").read_text("utf-8"), "utf-8")
        self.start_node()
        self.client = Client(self.address, timeout=60.0)
        for user, name in ((BOT, "Robin"), (OWNER, "Olga"), (ANN, "Ann"), (BEA, "Bea")):
            named = user_pb2.User(user_id=user, user_name=name)
            self.client.users.create_user(user_pb2.CreateUserRequest(user=named))
        group = group_pb2.Group(name="Climbers", creator_id=OWNER)
        made = self.client.groups.create_group(group_pb2.CreateGroupRequest(group=group))
        self.group = made.group.group_id
        self.client.members.add_members(
            member_pb2.AddMembersRequest(group_id=self.group, user_ids=[BOT, ANN, BEA])
        )
        admin = member_pb2.SetRoleRequest(group_id=self.group, user_id=BOT, role=member_pb2.ROLE_ADMIN)
        self.client.as_user(OWNER).members.set_role(admin)

    def start_node(self) -> None:
        """Starts the node by the README's command, on the port of before."""
        ports, serve = self.folder / "ports", re.findall(r"`(kith serve[^`]*)`", README)[0]
        ports.unlink(missing_ok=True)
        options = f"--data-dir data --port {self.port} --operations-port 0 --ports-file ports"
        command = f"exec {serve} {options}"
        path = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        self.node = subprocess.Popen(
            f"{command} --log error --exit-with-parent", shell=True, cwd=self.folder, env=path
        )
        eventually("the node serves", ports.exists)
        self.address = json.loads(ports.read_text())["grpc"]
        self.port = self.address.rpartition(":")[2]

    def start_bot(self) -> None:
        """Starts the bot by the README's command."""
        command = re.findall(r"^    (KITH_ADDR=.*)$", README, re.MULTILINE)[0]
        command = command.replace("127.0.0.1:7600", self.address).replace("./start.sh", f"{HERE}/start.sh")
        with self.log.open("a") as log:
            self.bot = subprocess.Popen(
                f"export {command.replace(' ', '; exec ', 1)}", shell=True, cwd=self.folder, stderr=log
            )
        eventually("the bot has a place", (self.folder / "bot.state").exists)

    def say(self, user: int, text: str) -> int:
        request = message_pb2.SendMessageRequest(
            group_id=self.group, content_type="text/plain", body=text.encode()
        )
        return self.client.as_user(user).messages.send_message(request).seq

    def messages(self) -> dict[int, message_pb2.Message]:
        request = message_pb2.PullMessagesRequest(conversation_id=f"g{self.group}", user_id=OWNER)
        pages = self.client.messages.pull_messages_pages(request)
        return {message.seq: message for page in pages for message in page.messages}

    def notices(self) -> list[str]:
        return [one.body.decode() for one in self.messages().values() if one.sender_id == BOT]

    def is_muted(self, user: int) -> bool:
        request = member_pb2.GetMemberRequest(group_id=self.group, user_id=user)
        return self.client.members.get_member(request).member.mute_time.seconds > time.time()

    def is_announced(self, seq: int) -> bool:
        recalled = self.messages()[seq].HasField("recall")
        return recalled and any(f"Message {seq} " in notice for notice in self.notices())

    def logged(self, text: str) -> int:
        return self.log.read_text().count(text)


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def play(here: Play) -> None:
    here.start_bot()
    hello, first = here.say(ANN, "hello, spammers"), here.say(ANN, "buy \uff33\uff30\uff21\uff2d!")
    eventually("the first is recalled", lambda: here.is_announced(first))

    # The bot is killed between its effects and the state: the file is that of before, the new one is torn.
    file = here.folder / "bot.state"
    eventually("the first is stored", lambda: f"[{first}]" in file.read_text())
    before = file.read_text()
    second = here.say(ANN, "垃圾邮件")
    eventually("the second is recalled", lambda: here.is_announced(second))
    kill(here.bot)
    file.write_text(before)
    file.with_name("bot.state.new").write_text(before[:20])
    here.start_bot()
    eventually("the second comes again", lambda: here.logged(f"/{second} is announced") == 2)
    assert not here.is_muted(ANN)

    # The bot is away, as after a crash behind its recall; the node has lost the stream.
    kill(here.bot)
    third = here.say(ANN, "spam, again")
    recall = message_pb2.RecallMessageRequest(conversation_id=f"g{here.group}", seq=third)
    here.client.as_user(BOT).messages.recall_message(recall)
    kill(here.node)
    here.start_node()
    here.start_bot()
    eventually("the third is announced", lambda: here.is_announced(third))
    assert here.is_muted(ANN)
    reason = ""
    try:
        here.say(ANN, "still here")
    except KithError as error:
        reason = error.reason
    assert reason == Reason.MUTED

    # The node is killed under the bot, and an edit brings the word in.
    kill(here.node)
    here.start_node()
    edited = here.say(BEA, "no word")
    edit = message_pb2.EditMessageRequest(
        conversation_id=f"g{here.group}", seq=edited, content_type="text/plain", body=b"spam"
    )
    here.client.as_user(BEA).messages.edit_message(edit)
    eventually("the edited one is recalled", lambda: here.is_announced(edited))
    by_owner = here.say(OWNER, "what is spam?")
    eventually(
        "a refusal is logged", lambda: here.logged(f"/{by_owner} is not recalled: PERMISSION_DENIED") > 0
    )
    last = here.say(BEA, "Spam")
    eventually("the bot goes on", lambda: here.is_announced(last))

    # As after a reset the stream begins from numbers; the group is not among them, so all of it is `missed`.
    kill(here.bot)
    away = here.say(BEA, "spam while it is away")
    kept = json.loads(file.read_text())
    kept["state"] = json.dumps({"cursor": "", "positions": {f"d{BOT}-{OWNER}": 0}})
    file.write_text(json.dumps(kept))
    here.start_bot()
    eventually("what was missed is recalled", lambda: here.is_announced(away))
    eventually("her third is a mute", lambda: here.is_muted(BEA))

    left = here.messages()
    assert all(left[seq].body for seq in (hello, by_owner))
    announced = sorted(int(notice.split()[1]) for notice in here.notices())
    assert announced == [first, second, third, edited, last, away], announced
    shown = here.log.read_text()
    assert not re.search("spam|垃圾|Olga|Ann\b|Bea\b|Traceback", shown, re.IGNORECASE), shown
    assert here.bot.poll() is None


def main(kith: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        here = Play(Path(name), kith)
        try:
            play(here)
        except BaseException:
            print(here.log.read_text() if here.log.exists() else "no log", file=sys.stderr)
            raise
        finally:
            kill(here.bot)
            here.client.close()
            kill(here.node)
    print("examples/moderation-bot: everything holds")


if __name__ == "__main__":
    main(sys.argv[1])
