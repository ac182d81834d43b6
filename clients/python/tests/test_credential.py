"""The callback for tokens."""

from __future__ import annotations

import asyncio
import threading
import time

import grpc
import pytest
from conftest import Driver
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from script import Node, Refusal

from kith_client import KithError, credential
from kith_client.blocking.credential import Credential as BlockingCredential
from kith_client.credential import Credential
from kith_client.issuer import Issuer
from kith_client.v1 import user_pb2

GET = user_pb2.GetUserRequest(user_id=7)


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


def test_token_is_renewed_when_a_fifth_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = Clock(monkeypatch), iter(range(1, 9))
    made = BlockingCredential(lambda: (f"t{next(asked)}", 100.0))
    texts = []
    for step in (0.0, 79.0, 2.0, 79.0, 2.0):
        clock.now += step
        texts.append(made.text())
    assert texts == ["t1", "t1", "t2", "t2", "t3"]


def test_token_stays_while_the_sign_in_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, answers = Clock(monkeypatch), iter([("t1", 100.0)])
    made = BlockingCredential(lambda: next(answers))
    assert made.text() == "t1"
    clock.now += 90
    assert made.text() == "t1"
    clock.now += 20
    with pytest.raises(StopIteration):
        made.text()


@pytest.mark.parametrize(("shift", "left"), [(0, 600), (-300, 600), (3600, 600), (300, 300)])
def test_wrong_clock_ends_no_token(monkeypatch: pytest.MonkeyPatch, shift: float, left: float) -> None:
    token, now = Issuer(Ed25519PrivateKey.generate(), "https://id.example/").token(7), time.time()
    monkeypatch.setattr(time, "time", lambda: now + shift)
    assert credential._left(token) == pytest.approx(left, abs=2)


def test_text_that_is_no_jwt_does_not_end() -> None:
    assert credential._left("a.b.c") == credential._left("key") == float("inf")


def test_one_thread_asks_the_source() -> None:
    asked: list[int] = []
    begin = threading.Barrier(4)

    def source() -> tuple[str, float]:
        asked.append(1)
        return "t", 100.0

    def read() -> None:
        begin.wait()
        made.text()

    made = BlockingCredential(source)
    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(asked) == 1


def test_one_task_asks_the_source() -> None:
    asked: list[int] = []

    async def source() -> tuple[str, float]:
        asked.append(1)
        await asyncio.sleep(0)
        return "t", 100.0

    async def read() -> list[str]:
        made = Credential(source)
        return await asyncio.gather(*(made.text() for _ in range(4)))

    assert asyncio.run(read()) == ["t"] * 4
    assert len(asked) == 1


def test_refused_token_is_replaced_once(driver: Driver, node: Node) -> None:
    tokens = iter(["t1", "t2", "t3"])
    client = driver.client(node.address, api_key=None, token=lambda: next(tokens))
    refusal = Refusal(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_REFUSED")
    node.answers = [refusal, refusal]
    with pytest.raises(KithError):
        driver.run(client.users.get_user(GET))
    assert [got.values("authorization") for got in node.got] == [["Bearer t1"], ["Bearer t2"]]


def test_refused_text_is_not_sent_again(driver: Driver, node: Node) -> None:
    node.answers = [Refusal(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_REFUSED")]
    with pytest.raises(KithError):
        driver.run(driver.client(node.address).users.get_user(GET))
    assert len(node.got) == 1
