"""Recalls messages with forbidden words in the groups of an admin, and mutes members who repeat them."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import re
import unicodedata
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from kith_client import AsyncClient, KithError, State
from kith_client.v1 import member_pb2, message_pb2

Answer = TypeVar("Answer")

STRIKES = 3
SENDERS_MAX = 10_000
RETRY_SECONDS = 1.0
REFUSALS = (
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.OUT_OF_RANGE,
)
PASSING = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
)
log = logging.getLogger("moderation-bot")


def folded(text: str) -> str:
    """Returns a form in which wide letters, ligatures and case make no difference."""
    return unicodedata.normalize("NFKC", text).casefold()


def pattern_of(lines: str) -> re.Pattern[str]:
    """Returns what finds the words, one a line. Latin letters beside a word make it another word."""
    words = [re.escape(folded(line.strip())) for line in lines.splitlines() if line.strip()]
    if not words:
        raise SystemExit("the file of words is empty")
    return re.compile(rf"(?<![a-z0-9])(?:{'|'.join(words)})(?![a-z0-9])")


class Memory:
    """What outlives a crash: the place in the stream, and the last strikes of each sender."""

    def __init__(self, file: Path) -> None:
        """Reads the file. Without a file there is no place yet."""
        kept = json.loads(file.read_text()) if file.exists() else {}
        self.file = file
        self.state = State.load(kept["state"]) if kept else None
        self.strikes: dict[str, list[int]] = kept.get("strikes", {})

    def strike(self, group: str, sender: int, seq: int) -> int:
        """Counts a message once, and returns which strike it is: after the third comes the first again."""
        key = f"{group}/{sender}"
        seqs = self.strikes.pop(key, [])
        if seq not in seqs:
            seqs = [*seqs, seq] if len(seqs) < STRIKES else [seq]
        self.strikes[key] = seqs
        if len(self.strikes) > SENDERS_MAX:
            del self.strikes[next(iter(self.strikes))]
        return seqs.index(seq) + 1

    def store(self, state: State) -> None:
        """Replaces the file. A crash leaves the old one or the new one."""
        self.state, new = state, self.file.with_name(self.file.name + ".new")
        with new.open("w") as file:
            json.dump({"state": state.dump(), "strikes": self.strikes}, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.file)


class Bot:
    """Each effect can be repeated: a message that comes again after a crash changes nothing."""

    def __init__(
        self, kith: AsyncClient, user: int, words: re.Pattern[str], memory: Memory, mute: int
    ) -> None:
        """Calls for the user. `mute` is in seconds."""
        self.kith, self.user, self.words, self.memory = kith.as_user(user), user, words, memory
        self.mute_seconds = mute

    async def run(self) -> None:
        """Handles messages, and stores the place after each batch."""
        if self.memory.state is None:
            self.memory.store(await self.first_state())
        log.info("receives")
        # After a reset the stream goes on from the numbers in the state.
        reset = partial(log.info, "the stream was reset")
        batches = self.kith.receive(self.user, self.memory.state, on_missed=self.on_missed, on_reset=reset)
        async for batch in batches:
            for delivery in batch.deliveries:
                if delivery.WhichOneof("what") == "message":
                    await self.on_message(delivery.message)
            self.memory.store(batch.state)

    async def first_state(self) -> State:
        """Returns the ends of all groups: a stream from `now` misses messages at an early reset."""
        state = State()
        request = member_pb2.ListMembershipsRequest(user_id=self.user, page_size=1000)
        async for page in self.kith.members.list_memberships_pages(request):
            groups = [f"g{group}" for group in page.group_ids]
            ends = message_pb2.GetMaxSeqsRequest(conversation_ids=groups)
            found = await self.answered(self.kith.messages.get_max_seqs, ends)
            for result in found.results:
                state.reach(result.conversation_id, result.max_seq)
        return state

    async def on_missed(self, missed: message_pb2.Missed) -> None:
        """Reads messages that the stream does not send."""
        if missed.conversation_id[0] != "g":
            return
        following = missed.from_seq
        while following <= missed.to_seq:
            request = message_pb2.PullMessagesRequest(
                conversation_id=missed.conversation_id, from_seq=following, to_seq=missed.to_seq
            )
            try:
                page = await self.answered(self.kith.messages.pull_messages, request)
            except KithError as error:
                return refused("read", missed.conversation_id, following, error)
            for message in page.messages:
                await self.on_message(message)
            following = page.messages[-1].seq + 1 if page.more else missed.to_seq + 1

    async def on_message(self, message: message_pb2.Message) -> None:
        """Judges a message of a group, or one that was edited."""
        group, seq = message.conversation_id, message.seq
        if group[0] != "g" or message.sender_id == self.user:
            return
        if message.event.WhichOneof("what") == "edited":
            seq = message.event.edited.seq
            request = message_pb2.PullBySeqsRequest(conversation_id=group, seqs=[seq])
            try:
                found = await self.answered(self.kith.messages.pull_by_seqs, request)
            except KithError as error:
                return refused("read", group, seq, error)
            for edited in found.messages:
                await self.judge(edited, message.send_time)
        else:
            await self.judge(message, message.send_time)

    async def judge(self, message: message_pb2.Message, time: Timestamp) -> None:
        """Recalls a message with a forbidden word, and mutes its sender after the third."""
        # The content is gone if this bot recalled the message and crashed before it had stored that.
        is_own_recall = message.HasField("recall") and message.recall.user_id == self.user
        if message.sender_id == self.user or not (is_own_recall or self.has_word(message)):
            return
        group, seq = message.conversation_id, message.seq
        recall = message_pb2.RecallMessageRequest(conversation_id=group, seq=seq)
        if not await self.done("recalled", group, seq, self.kith.messages.recall_message, recall):
            return
        text = f"Message {seq} had a forbidden word, and was removed."
        sender = message.sender_id
        is_last = sender != 0 and self.memory.strike(group, sender, seq) == STRIKES
        if is_last and await self.mute(group, seq, sender, time):
            text += " Its sender may not write for a time."
        notice = message_pb2.SendMessageRequest(
            conversation_id=group,
            client_message_id=f"moderated-{seq}",
            content_type="text/plain",
            body=text.encode(),
            keep_unread=True,
        )
        await self.done("announced", group, seq, self.kith.messages.send_message, notice)

    async def mute(self, group: str, seq: int, sender: int, time: Timestamp) -> bool:
        """Mutes a member from the time of its message on. A longer mute stays."""
        get = member_pb2.GetMemberRequest(group_id=int(group[1:]), user_id=sender)
        until = Timestamp(seconds=time.seconds + self.mute_seconds, nanos=time.nanos)
        try:
            found = await self.answered(self.kith.members.get_member, get)
        except KithError as error:
            refused("muted", group, seq, error)
            return False
        if found.member.mute_time.ToNanoseconds() >= until.ToNanoseconds():
            return True
        request_id = f"moderated-{group}-{seq}"
        request = member_pb2.MuteMemberRequest(
            group_id=get.group_id, user_id=sender, mute_time=until, request_id=request_id
        )
        return await self.done("muted", group, seq, self.kith.members.mute_member, request)

    def has_word(self, message: message_pb2.Message) -> bool:
        """Looks into the text. Events have none, nor have messages that were recalled."""
        return bool(self.words.search(folded(message.body.decode(errors="replace"))))

    async def done(
        self, what: str, group: str, seq: int, call: Callable[[Any], Awaitable[Any]], request: Any
    ) -> bool:
        """Makes a call. Returns whether it was not refused."""
        try:
            await self.answered(call, request)
        except KithError as error:
            refused(what, group, seq, error)
            return False
        log.info("%s/%d is %s", group, seq, what)
        return True

    async def answered(self, call: Callable[[Any], Awaitable[Answer]], request: Any) -> Answer:
        """Makes a call until the node answers: it may be down for longer than the client tries."""
        while True:
            try:
                return await call(request)
            except KithError as error:
                if error.code not in PASSING:
                    raise
                log.warning("waits for the node: %s %s", error.code.name, error.reason)
                await asyncio.sleep(max(RETRY_SECONDS, error.retry_delay or 0.0))


def refused(what: str, group: str, seq: int, error: KithError) -> None:
    """Logs a refusal by number, without text and names. Ends the program if the fault is its own."""
    if error.code not in REFUSALS:
        raise error
    log.warning("%s/%d is not %s: %s %s", group, seq, what, error.code.name, error.reason)


async def main() -> None:
    """Runs until it is stopped."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--user", type=int, required=True, help="the user of the bot, admin of its groups")
    options.add_argument("--words", type=Path, required=True, help="forbidden words, one a line")
    options.add_argument("--state", type=Path, default=Path("bot.state"), help="what outlives a crash")
    options.add_argument("--mute-minutes", type=int, default=10, help="how long a sender is muted")
    given = options.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    words, memory = pattern_of(given.words.read_text("utf-8")), Memory(given.state)
    async with AsyncClient() as kith:
        await Bot(kith, given.user, words, memory, given.mute_minutes * 60).run()


if __name__ == "__main__":
    asyncio.run(main())
