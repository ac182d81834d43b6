"""Credentials, deadlines, repetitions and errors of calls."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path

import grpc
import pytest
from conftest import Driver
from script import Node, Refusal

from kith_client import KithError, Reason
from kith_client.core import Core
from kith_client.v1 import (
    message_pb2,
    relation_pb2,
    result_pb2,
    sequence_pb2,
    user_pb2,
)
from kith_client.v1.contract import CONTRACT

GET = user_pb2.GetUserRequest(user_id=7)
OVERLOADED = Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", 0.001)
LOST = Refusal(grpc.StatusCode.UNAVAILABLE)


def test_address_and_key_come_from_the_environment(
    driver: Driver, node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("from-file\nold\n")
    monkeypatch.setenv("KITH_ADDR", f"http://{node.address}")
    monkeypatch.setenv("KITH_API_KEY_FILE", str(tmp_path / "key"))
    driver.run(driver.client(None, api_key=None).users.get_user(GET))
    assert node.got[0].values("authorization") == ["Bearer from-file"]


def test_refused_key_file_is_read_again(
    driver: Driver, node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("old")
    monkeypatch.setenv("KITH_API_KEY_FILE", str(tmp_path / "key"))
    client = driver.client(node.address, api_key=None)
    driver.run(client.users.get_user(GET))
    (tmp_path / "key").write_text("new")
    node.answers = [Refusal(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_REFUSED")]
    driver.run(client.users.get_user(GET))
    assert [got.values("authorization")[0] for got in node.got] == ["Bearer old", "Bearer old", "Bearer new"]


def test_key_without_tls_stays_on_this_machine(driver: Driver) -> None:
    with pytest.raises(ValueError, match="without TLS"):
        driver.kind("http://kith.example:7600", api_key="key")
    driver.client("http://kith.example:7600", insecure=True)
    driver.client("https://kith.example:7600")
    driver.client(["http://localhost:1", "http://[::1]:1", "127.0.0.1:1"])


@pytest.mark.parametrize("address", ["ftp://kith:1", "http://", "http://kith:1/path"])
def test_malformed_address_is_refused(driver: Driver, address: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        driver.kind(address)


def test_views_share_a_channel_and_differ_in_who_calls(driver: Driver, node: Node) -> None:
    client = driver.client(node.address)
    driver.run(client.as_user(7).users.get_user(GET))
    driver.run(client.users.get_user(GET, user=8))
    driver.run(client.as_user(7).with_token("jwt").users.get_user(GET))
    driver.run(client.users.get_user(GET, token="other"))
    callers = [(got.values("authorization")[0], got.values("kith-acting-user")) for got in node.got]
    wants = [("Bearer key", ["7"]), ("Bearer key", ["8"]), ("Bearer jwt", []), ("Bearer other", [])]
    assert callers == wants
    assert len(client._channels.opened) == 1


def test_next_address_is_used_after_a_failure(driver: Driver, node: Node) -> None:
    client = driver.client(["127.0.0.1:1", node.address])
    client._channels._place = 0
    for _ in range(3):
        driver.run(client.users.get_user(GET))
    assert len(node.got) == 3


def test_deadline_is_that_of_all_tries(driver: Driver, node: Node) -> None:
    client = driver.client(node.address)
    node.answers = [Refusal(grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE", 0.3)]
    driver.run(client.users.get_user(GET))
    first, second = (got.left or 0 for got in node.got)
    assert 3 < second < first - 0.2 < 4.8


def test_deadline_of_a_call_replaces_it(driver: Driver, node: Node) -> None:
    driver.run(driver.client(node.address).users.get_user(GET, timeout=60))
    assert 50 < (node.got[0].left or 0) <= 60


def test_passed_deadline_has_unknown_outcome(driver: Driver, node: Node) -> None:

    def late() -> user_pb2.GetUserResponse:
        time.sleep(0.3)
        return user_pb2.GetUserResponse()

    node.answers = [late]
    with pytest.raises(KithError) as raised:
        driver.run(driver.client(node.address).users.get_user(GET, timeout=0.1))
    assert (raised.value.code, raised.value.outcome) == (grpc.StatusCode.DEADLINE_EXCEEDED, "unknown")


def test_write_is_sent_again_byte_for_byte(driver: Driver, node: Node) -> None:
    node.answers = [OVERLOADED, LOST, relation_pb2.FollowResponse()]
    request = relation_pb2.FollowRequest(user_id=7, target_id=8)
    driver.run(driver.client(node.address).relations.follow(request))
    assert len({got.data for got in node.got}) == 1
    assert len(node.got) == 3
    assert len(node.got[0].message().request_id) == 32
    assert not request.request_id


def test_each_send_of_a_batch_has_an_id(driver: Driver, node: Node) -> None:
    sends = [message_pb2.SendMessageRequest(user_id=8, client_message_id=name) for name in ("", "mine")]
    driver.run(driver.client(node.address).messages.batch_send(message_pb2.BatchSendRequest(messages=sends)))
    made, mine = (send.client_message_id for send in node.got[0].message().messages)
    assert (len(made), mine) == (32, "mine")


@pytest.mark.parametrize("code", ["UNKNOWN", "INTERNAL", "CANCELLED", "UNAVAILABLE"])
def test_error_of_no_node_counts_as_lost(driver: Driver, node: Node, code: str) -> None:
    node.answers = [Refusal(grpc.StatusCode[code])]
    driver.run(driver.client(node.address).users.get_user(GET))
    assert len(node.got) == 2


@pytest.mark.parametrize(
    ("call", "body"),
    [
        ("users.verify_secret", user_pb2.VerifySecretRequest(user_id=7)),
        ("sequences.reserve_seqs", sequence_pb2.ReserveSeqsRequest()),
        ("messages.send_signal", message_pb2.SendSignalRequest(user_id=7)),
        ("messages.erase_user_messages", message_pb2.EraseUserMessagesRequest(user_id=7, again=True)),
    ],
)
def test_what_must_not_be_repeated_is_sent_once(driver: Driver, node: Node, call: str, body: object) -> None:
    service, name = call.split(".")
    node.answers = [OVERLOADED]
    with pytest.raises(KithError):
        driver.run(getattr(getattr(driver.client(node.address), service), name)(body))
    assert len(node.got) == 1


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "ANSWER_TOO_LARGE", 0.001),
        Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_TRIES", 12.0),
        Refusal(grpc.StatusCode.ABORTED, "VERSION_CONFLICT"),
        Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
    ids=lambda refusal: refusal.reason or "no_details",
)
def test_error_that_lasts_is_raised_at_once(driver: Driver, node: Node, refusal: Refusal) -> None:
    node.answers = [refusal]
    with pytest.raises(KithError) as raised:
        driver.run(driver.client(node.address).users.get_user(GET))
    assert (raised.value.reason, raised.value.retry_delay) == (refusal.reason, refusal.retry_delay)
    assert len(node.got) == 1


def test_spent_budget_ends_repetitions(driver: Driver, node: Node) -> None:
    client = driver.client(node.address)
    core: Core = client._core
    core.link.budget._left = 1.0
    node.answers = [LOST, LOST]
    with pytest.raises(KithError):
        driver.run(client.users.get_user(GET))
    assert len(node.got) == 2


def test_error_keeps_what_the_node_says(driver: Driver, node: Node) -> None:
    metadata = {"outcome": "not_applied", "until": "2026-01-01T00:00:00Z", "field": "body"}
    node.answers = [Refusal(grpc.StatusCode.FAILED_PRECONDITION, "MUTED", metadata=metadata)]
    with pytest.raises(KithError) as raised:
        driver.run(
            driver.client(node.address).messages.send_message(message_pb2.SendMessageRequest(group_id=9))
        )
    error = raised.value
    assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, Reason.MUTED)
    assert (error.field, error.outcome, len(error.request_id)) == ("body", "not_applied", 32)
    assert error.until == datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert str(error) == "FAILED_PRECONDITION MUTED: refused"


def test_item_of_a_batch_has_an_error() -> None:
    item = result_pb2.ResultError(code=5, reason="NOT_FOUND", field="user_id", message="no such user")
    error = KithError.of_item(item)
    assert (error.code, error.reason, error.field) == (grpc.StatusCode.NOT_FOUND, "NOT_FOUND", "user_id")


def test_reason_of_a_newer_node_is_kept(driver: Driver, node: Node) -> None:
    node.answers = [Refusal(grpc.StatusCode.ABORTED, "OF_TOMORROW")]
    with pytest.raises(KithError, match="OF_TOMORROW"):
        driver.run(driver.client(node.address).users.get_user(GET))


@pytest.mark.parametrize(
    ("contract", "warnings"), [("0", 1), (str(CONTRACT), 0), (str(CONTRACT + 1), 0), (None, 1)]
)
def test_older_node_is_warned_of_once(
    driver: Driver, node: Node, caplog: pytest.LogCaptureFixture, contract: str | None, warnings: int
) -> None:
    node.contract = contract
    client = driver.client(node.address)
    for _ in range(3):
        driver.run(client.users.get_user(GET))
    assert len(caplog.records) == warnings


def test_nothing_secret_is_logged(driver: Driver, node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.contract = None
    node.answers = [Refusal(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_REFUSED")]
    with pytest.raises(KithError) as raised:
        driver.run(driver.client(node.address, api_key="very-secret").users.get_user(GET))
    assert "very-secret" not in caplog.text + repr(raised.value) + str(raised.value)
