"""Sends messages to a cluster, and reads each on another node at once.

The laboratory, which writes the task and judges what is printed, disturbs the cluster meanwhile.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kith_client import AsyncClient, KithError
from kith_client.v1 import message_pb2

Request = TypeVar("Request")
Answer = TypeVar("Answer")


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


async def answered(call: Callable[[Request], Awaitable[Answer]], request: Request, **failed: int) -> Answer:
    """Makes a call again until it has an answer."""
    while True:
        try:
            return await call(request)
        except KithError as error:
            say(**failed, error=str(error))
            await asyncio.sleep(0.1)


async def chat(
    place: int, users: dict[str, int], messages: int, sender: AsyncClient, reader: AsyncClient
) -> None:
    session = sender.session(users["from"])
    for n in range(messages):
        name = f"m{place}-{n}"
        send = message_pb2.SendMessageRequest(
            user_id=users["to"], client_message_id=name, content_type="text/plain"
        )
        sent = await answered(session.messages.send_message, send, chat=place, n=n)
        later = reader.session(users["from"], session.export_session())
        read = message_pb2.HistoryRequest(conversation_id=sent.conversation_id, limit=1)
        page = await answered(later.messages.history, read, chat=place, n=n)
        found = [(last.seq, last.client_message_id) for last in page.messages]
        say(chat=place, n=n, id=name, seq=sent.seq, read=found == [(sent.seq, name)])


async def main() -> None:
    task = json.load(sys.stdin)
    addresses = task["addresses"]
    # The first address of a sender is that of one node, and its conversations are read on another one.
    senders = [AsyncClient(addresses[at:] + addresses[:at]) for at in range(len(addresses))]
    readers = [AsyncClient(address) for address in addresses[1:] + addresses[:1]]
    await asyncio.gather(
        *(
            chat(place, users, task["messages"], senders[place % len(senders)], readers[place % len(readers)])
            for place, users in enumerate(task["chats"])
        )
    )
    for client in senders + readers:
        await client.close()


asyncio.run(main())
