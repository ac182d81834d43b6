"""Keeps a search index of messages, from the changes that Kith keeps. Removed content leaves the index."""

from __future__ import annotations

import argparse
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import grpc
from kith_client import Client, KithError, Reason
from kith_client.v1 import change_pb2, message_pb2

Answer = TypeVar("Answer")

KINDS = [change_pb2.CHANGE_KIND_MESSAGES, change_pb2.CHANGE_KIND_CONVERSATION]
PASSING = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)
RETRY_SECONDS = 1.0
FOUND_MAX = 50
TABLES = """
create table if not exists place (cursor text not null);
create table if not exists message (
    conversation text, seq integer, sender integer, text text, primary key (conversation, seq)
) without rowid;
create index if not exists by_sender on message (conversation, sender);
"""
log = logging.getLogger("message-search")


class Index:
    """One SQLite file: the texts, and the cursor that belongs to them. Both change in one transaction."""

    def __init__(self, file: Path) -> None:
        """Opens the file, or makes it."""
        self.db = sqlite3.connect(file, timeout=60)
        self.db.executescript(TABLES)

    def cursor(self) -> str:
        """Returns the cursor after what is indexed. Empty: nothing is."""
        found = self.db.execute("select cursor from place").fetchone()
        return str(found[0]) if found else ""

    def set_cursor(self, cursor: str) -> None:
        """Replaces the cursor."""
        self.db.execute("delete from place")
        self.db.execute("insert into place values (?)", (cursor,))

    def put(self, message: message_pb2.Message) -> None:
        """Indexes a message as it is now: one without text, as after a recall, leaves the index."""
        key = (message.conversation_id, message.seq)
        self.db.execute("delete from message where conversation = ? and seq = ?", key)
        if message.content_type == "text/plain" and message.body:
            text = message.body.decode(errors="replace").casefold()
            self.db.execute("insert into message values (?, ?, ?, ?)", (*key, message.sender_id, text))

    def erase(self, conversation: str, sender: int, before: int) -> None:
        """Removes what a user sent before a number."""
        where = "conversation = ? and sender = ? and seq < ?"
        self.db.execute(f"delete from message where {where}", (conversation, sender, before))

    def trim(self, conversation: str, first: int) -> None:
        """Removes the messages below a number."""
        self.db.execute("delete from message where conversation = ? and seq < ?", (conversation, first))

    def find(self, words: str) -> Iterator[tuple[str, int]]:
        """Yields conversations and numbers of messages with all words, newest first in each conversation."""
        found = [word.casefold() for word in words.split()]
        where = " and ".join("instr(text, ?)" for _ in found) or "false"
        order = "order by conversation, seq desc limit ?"
        yield from self.db.execute(
            f"select conversation, seq from message where {where} {order}",
            (*found, FOUND_MAX),
        )


class Follower:
    """Follows messages. What comes again, as after a crash, changes nothing."""

    def __init__(self, kith: Client, index: Index) -> None:
        """Calls as a service: it may read all conversations."""
        self.kith, self.index = kith, index

    def run(self) -> None:
        """Indexes page after page. Ends when the cursor has expired."""
        if not self.index.cursor():
            with self.index.db:
                end = answered(self.kith.changes.get_cursor, change_pb2.GetCursorRequest())
                self.index.set_cursor(end.cursor)
        log.info("follows")
        while True:
            request = change_pb2.ReadChangesRequest(cursor=self.index.cursor(), kinds=KINDS)
            page = answered(self.kith.changes.read_changes, request)
            with self.index.db:
                for change in page.changes:
                    self.on_change(change)
                self.index.set_cursor(page.cursor)
            time.sleep(page.ask_again_after.ToTimedelta().total_seconds())

    def on_change(self, change: change_pb2.Change) -> None:
        """Reads what has changed."""
        if change.kind == change_pb2.CHANGE_KIND_CONVERSATION:
            self.pull(change.conversation_id, 0, 0)
        else:
            self.pull(change.conversation_id, change.first_seq, change.last_seq)

    def pull(self, conversation: str, first: int, last: int) -> None:
        """Indexes a range of messages. Without a range, it only learns what is trimmed."""
        following = first
        while True:
            request = message_pb2.PullMessagesRequest(
                conversation_id=conversation, from_seq=following, to_seq=last, limit=1000, at_least_seq=last
            )
            if last == 0:
                request.limit = 1
            try:
                page = answered(self.kith.messages.pull_messages, request)
            except KithError as error:
                if error.code == grpc.StatusCode.NOT_FOUND:
                    return
                raise
            self.index.trim(conversation, page.min_seq)
            if last == 0:
                return
            for message in page.messages:
                self.on_message(message)
            if not page.more:
                return
            following = page.messages[-1].seq + 1

    def on_message(self, message: message_pb2.Message) -> None:
        """Indexes a message, or what an event says about earlier ones."""
        what = message.event.WhichOneof("what")
        if what == "erased":
            self.index.erase(message.conversation_id, message.event.erased.user_id, message.seq)
        elif what in ("recalled", "edited"):
            seq = getattr(message.event, what).seq
            request = message_pb2.PullBySeqsRequest(conversation_id=message.conversation_id, seqs=[seq])
            for changed in answered(self.kith.messages.pull_by_seqs, request).messages:
                self.index.put(changed)
        else:
            self.index.put(message)


def answered(call: Callable[[Any], Answer], request: Any) -> Answer:
    """Makes a call until the node answers."""
    while True:
        try:
            return call(request)
        except KithError as error:
            if error.code not in PASSING:
                raise
            log.warning("waits for the node: %s %s", error.code.name, error.reason)
            time.sleep(max(RETRY_SECONDS, error.retry_delay or 0.0))


def main() -> None:
    """Follows until it is stopped, adds a conversation, or finds words."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--index", type=Path, default=Path("messages.db"), help="the file of the index")
    commands = options.add_subparsers(dest="command", required=True)
    commands.add_parser("follow", help="index all messages from now on, or from where it stopped")
    add = commands.add_parser("add", help="index what a conversation has already")
    add.add_argument("conversation", help="such as g9")
    find = commands.add_parser("find", help="print conversations and numbers")
    find.add_argument("words", help="all of them are found, in any case")
    given = options.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    index = Index(given.index)
    if given.command == "find":
        for conversation, seq in index.find(given.words):
            print(f"{conversation}/{seq}")
        return
    with Client() as kith:
        follower = Follower(kith, index)
        try:
            if given.command == "follow":
                follower.run()
            else:
                end = message_pb2.GetMaxSeqsRequest(conversation_ids=[given.conversation])
                last = answered(kith.messages.get_max_seqs, end).results[0].max_seq
                with index.db:
                    follower.pull(given.conversation, 1, max(last, 1))
        except KithError as error:
            if error.reason != Reason.CURSOR_EXPIRED:
                raise
            raise SystemExit(
                "the cursor has expired: remove the index, follow, and add each conversation"
            ) from None


if __name__ == "__main__":
    main()
