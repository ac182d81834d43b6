"""What the tests share: a node that follows a script, and both clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from inspect import isawaitable
from typing import Any

import pytest
from script import Node

from kith_client import AsyncClient, Client


class Driver:
    """Drives both clients by the same tests."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.loop = asyncio.new_event_loop()
        self.made: list[Any] = []

    def client(self, address: Any, **options: Any) -> Any:
        client = self.kind(address, **{"api_key": "key", "pause": 0.001, **options})
        self.made.append(client)
        return client

    def run(self, result: Any) -> Any:
        async def wait() -> Any:
            return await result

        return self.loop.run_until_complete(wait()) if isawaitable(result) else result

    def each(self, answers: Any) -> Iterator[Any]:
        if self.kind is Client:
            yield from answers
            return
        end = object()
        while (answer := self.run(anext(answers, end))) is not end:
            yield answer

    def close(self, answers: Any) -> None:
        self.run(answers.close() if self.kind is Client else answers.aclose())

    def stop(self) -> None:
        for client in self.made:
            self.run(client.close())
        self.loop.close()


@pytest.fixture(params=[Client, AsyncClient], ids=["blocking", "asyncio"])
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    made = Driver(request.param)
    yield made
    made.stop()


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    yield made
    made.stop()
