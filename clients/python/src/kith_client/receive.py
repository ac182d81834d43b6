"""Following a user's events over every end of a stream."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import TypedDict

from kith_client.core import Core
from kith_client.credential import settle
from kith_client.state import Batch, State
from kith_client.v1 import message_pb2, methods


class ReceiveOptions(TypedDict, total=False):
    """How events are received."""

    device: str
    """Shows the user as online with this device."""
    notice_audiences: Iterable[int]
    """Audiences whose totals are sent."""
    on_missed: Callable[[message_pb2.Missed], Awaitable[None] | None]
    """Called for messages that are not sent: pull them now, or when the user looks at them."""
    on_reset: Callable[[], Awaitable[None] | None]
    """Called when events were lost: the stream begins again from the numbers of the state, else from now."""


async def receive(core: Core, user: int, now: State, options: ReceiveOptions) -> AsyncGenerator[Batch, None]:
    """Yields batches, from a state on, which changes with them."""

    def request() -> message_pb2.ReceiveRequest:
        made = message_pb2.ReceiveRequest(user_id=user, cursor=now.cursor, device=options.get("device", ""))
        for conversation, seq in now.positions.items():
            made.positions.add(conversation_id=conversation, seq=seq)
        made.now = not made.cursor and not made.positions
        made.notice_audiences.extend(options.get("notice_audiences", ()))
        return made

    async with aclosing(core.follow(methods.MESSAGES_RECEIVE, request)) as answers:
        async for answer in answers:
            now.cursor = answer.cursor or now.cursor
            kept = [delivery for delivery in answer.deliveries if await _keeps(now, delivery, options)]
            yield Batch(kept, now.copy())


async def watch_offline(core: Core, cursor: str) -> AsyncGenerator[message_pb2.WatchOfflineResponse, None]:
    """Yields messages with the users who had no receiver."""
    method = methods.MESSAGES_WATCH_OFFLINE
    async with aclosing(core.follow(method, lambda: method.request(cursor=cursor))) as answers:
        async for answer in answers:
            cursor = answer.cursor or cursor
            yield answer


async def _keeps(now: State, delivery: message_pb2.Delivery, options: ReceiveOptions) -> bool:
    what, message, missed = delivery.WhichOneof("what"), delivery.message, delivery.missed
    if what == "message" and message.seq > now.positions.get(message.conversation_id, 0):
        now.reach(message.conversation_id, message.seq)
        return True
    if what == "missed":
        missed.from_seq = max(missed.from_seq, now.positions.get(missed.conversation_id, 0) + 1)
        if missed.from_seq <= missed.to_seq:
            await settle(options.get("on_missed", _ignore)(missed))
            now.reach(missed.conversation_id, missed.to_seq)
    if what == "reset":
        now.cursor = ""
        await settle(options.get("on_reset", _ignore)())
    return what not in ("message", "missed", "reset")


def _ignore(*_: object) -> None:
    pass
