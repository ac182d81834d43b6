"""CPU time of GetUser by the clients over that of the bare stub: `python overhead.py ADDRESS`.

`cargo xtask overhead` runs it. Rounds of both are interleaved, and the medians of their ratios are printed
as one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from kith_client import AsyncClient, Client
from kith_client.v1 import user_pb2

ROUNDS, CALLS = 45, 150
PATH = "/kith.user.v1.UserService/GetUser"


def bare(channel: Any) -> Any:
    """Returns the call of a generated stub."""
    response = user_pb2.GetUserResponse.FromString
    return channel.unary_unary(PATH, user_pb2.GetUserRequest.SerializeToString, response)


def blocking(call: Callable[[], Any]) -> float:
    """Returns the CPU time of a round."""
    begin = time.process_time()
    for _ in range(CALLS):
        call()
    return time.process_time() - begin


def user_request(address: str) -> user_pb2.GetUserRequest:
    """Creates a user, and returns the request for it."""
    named = user_pb2.User(user_name=f"python-{os.getpid()}")
    with Client(address) as kith:
        made = kith.users.create_user(user_pb2.CreateUserRequest(user=named))
    return user_pb2.GetUserRequest(user_id=made.user.user_id)


async def suspending(call: Callable[[], Awaitable[Any]]) -> float:
    """Returns the CPU time of a round."""
    begin = time.process_time()
    for _ in range(CALLS):
        await call()
    return time.process_time() - begin


def measure_blocking(address: str, request: user_pb2.GetUserRequest) -> float:
    """Returns the ratio of the client that blocks."""
    with Client(address) as kith, grpc.insecure_channel(address) as channel:
        call = bare(channel)
        ratios = [
            blocking(lambda: kith.users.get_user(request)) / blocking(lambda: call(request, timeout=5))
            for _ in range(ROUNDS)
        ]
    return statistics.median(ratios[4:])


async def measure_asyncio(address: str, request: user_pb2.GetUserRequest) -> float:
    """Returns the ratio of the client for asyncio."""
    async with AsyncClient(address) as kith, grpc.aio.insecure_channel(address) as channel:
        call = bare(channel)
        ratios = [
            await suspending(lambda: kith.users.get_user(request))
            / await suspending(lambda: call(request, timeout=5))
            for _ in range(ROUNDS)
        ]
    return statistics.median(ratios[4:])


def main(address: str) -> None:
    """Measures against the node at an address."""
    request = user_request(address)
    ratios = {
        "python": measure_blocking(address, request),
        "python asyncio": asyncio.run(measure_asyncio(address, request)),
    }
    print(json.dumps({name: round(ratio, 3) for name, ratio in ratios.items()}))


if __name__ == "__main__":
    main(sys.argv[1])
