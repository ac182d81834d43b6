"""Both clients against a node, which is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Driver
from program import Program, made

from kith_client import KithError, Reason, State
from kith_client.issuer import Issuer
from kith_client.v1 import message_pb2, user_pb2

SENDS = int(os.environ.get("SENDS", "200"))


@pytest.fixture
def kith(tmp_path: Path) -> Iterator[Program]:
    made("token", "make", "1", cwd=tmp_path)
    program = Program(tmp_path, "--config", "trial/kith.toml")
    yield program
    program.kill()


def client_of(driver: Driver, kith: Program, **options: Any) -> Any:
    return driver.client(kith.address, **{"api_key": kith.key_file.read_text(), "timeout": 60.0, **options})


def create(driver: Driver, client: Any, *users: int) -> None:
    for user in users:
        named = user_pb2.User(user_id=user, user_name=f"user-{user}")
        driver.run(client.users.create_user(user_pb2.CreateUserRequest(user=named)))


def send(driver: Driver, client: Any, number: int) -> int:
    body = str(number).encode()
    request = message_pb2.SendMessageRequest(user_id=8, content_type="text/plain", body=body)
    seq: int = driver.run(client.messages.send_message(request)).seq
    return seq


def test_sends_are_stored_once_over_kills(driver: Driver, kith: Program) -> None:
    client = client_of(driver, kith)
    create(driver, client, 7, 8)
    ann = client.session(7)
    for number in range(SENDS):
        if number % (SENDS // 4) == SENDS // 8:
            kith.kill()
            kith.spawn()
        send(driver, ann, number)
    pages = ann.messages.pull_messages_pages(
        message_pb2.PullMessagesRequest(conversation_id="d7-8", limit=70)
    )
    bodies = [int(message.body) for page in driver.each(pages) for message in page.messages]
    assert bodies == list(range(SENDS))


def test_events_go_on_over_a_restart(driver: Driver, kith: Program) -> None:
    client = client_of(driver, kith)
    create(driver, client, 7, 8)
    send(driver, client.as_user(7), 1)
    answers = client.receive(8, State(positions={"d7-8": 0}))
    events = driver.each(answers)
    numbers: list[int] = []
    for count in (1, 2, 3):
        if count > 1:
            kith.kill()
            kith.start()
            send(driver, client.as_user(7), count)
        while len(numbers) < count:
            numbers += [message.seq for message in next(events).messages]
    driver.close(answers)
    assert numbers == [1, 2, 3]


def test_node_takes_tokens_of_the_issuer(driver: Driver, kith: Program) -> None:
    create(driver, client_of(driver, kith), 7, 8)
    issuer = Issuer.trial(kith.folder / "trial")
    ann = client_of(driver, kith, api_key=None, token=lambda: issuer.token(7))
    assert send(driver, ann, 1) == 1
    ended = issuer.token(7, lifetime=-60)
    with pytest.raises(KithError) as raised:
        driver.run(ann.users.get_user(user_pb2.GetUserRequest(user_id=7), token=ended))
    assert raised.value.reason == Reason.CREDENTIALS_REFUSED
