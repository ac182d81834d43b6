"""Events of a user, and users without a receiver."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from conftest import Driver
from script import OPEN, Node, Refusal

from kith_client import KithError, State
from kith_client.v1 import message_pb2

STOPPING = Refusal(grpc.StatusCode.UNAVAILABLE, "STOPPING", 0.001)


def response(*deliveries: message_pb2.Delivery, cursor: str = "") -> message_pb2.ReceiveResponse:
    return message_pb2.ReceiveResponse(deliveries=deliveries, cursor=cursor)


def message(seq: int, conversation: str = "d7-8") -> message_pb2.Delivery:
    return message_pb2.Delivery(message=message_pb2.Message(conversation_id=conversation, seq=seq))


def missed(first: int, last: int) -> message_pb2.Delivery:
    return message_pb2.Delivery(missed=message_pb2.Missed(conversation_id="g9", from_seq=first, to_seq=last))


RESET = message_pb2.Delivery(reset=message_pb2.Reset())


def received(driver: Driver, node: Node, count: int, state: State | None = None, **options: Any) -> list[Any]:
    answers = driver.client(node.address).receive(7, state, **options)
    each = driver.each(answers)
    batches = [next(each) for _ in range(count)]
    driver.close(answers)
    return batches


def test_stream_begins_now_without_a_state(driver: Driver, node: Node) -> None:
    node.answers = [[response(cursor="c1"), OPEN]]
    (batch,) = received(driver, node, 1, device="bot", notice_audiences=[3])
    request = node.got[0].message()
    assert (request.user_id, request.now, request.device, list(request.notice_audiences)) == (
        7,
        True,
        "bot",
        [3],
    )
    assert batch.state == State("c1")


def test_message_is_handed_out_once(driver: Driver, node: Node) -> None:
    node.answers = [
        [response(message(4), message(5), cursor="c2"), STOPPING],
        [response(message(5), message(6), cursor="c3"), OPEN],
    ]
    first, second = received(driver, node, 2, State("c1", {"d7-8": 4}))
    assert [message.seq for message in first.messages] == [5]
    assert [message.seq for message in second.messages] == [6]
    assert (first.state, second.state) == (State("c2", {"d7-8": 5}), State("c3", {"d7-8": 6}))
    again = node.got[1].message()
    assert (again.cursor, again.positions[0].seq, again.now) == ("c2", 5, False)


def test_empty_cursor_keeps_the_last_one(driver: Driver, node: Node) -> None:
    node.answers = [[response(message(5)), OPEN]]
    (batch,) = received(driver, node, 1, State("c1"))
    assert batch.state == State("c1", {"d7-8": 5})


def test_reset_goes_on_with_the_positions(driver: Driver, node: Node) -> None:
    resets: list[int] = []
    node.answers = [[response(RESET)], [response(message(5), cursor="c9"), OPEN]]
    batches = received(driver, node, 2, State("old", {"d7-8": 4}), on_reset=lambda: resets.append(1))
    assert (resets, batches[0].state) == ([1], State("", {"d7-8": 4}))
    request = node.got[1].message()
    assert (request.cursor, request.positions[0].seq) == ("", 4)
    assert batches[1].state == State("c9", {"d7-8": 5})


def test_reset_without_positions_begins_now(driver: Driver, node: Node) -> None:
    node.answers = [[response(RESET)], [response(cursor="c1"), OPEN]]
    received(driver, node, 2, State("old"))
    assert node.got[1].message().now


def test_missed_is_called_back_without_what_is_there(driver: Driver, node: Node) -> None:
    spans: list[tuple[int, int]] = []
    node.answers = [[response(missed(1, 20), missed(1, 5), message(21, "g9"), cursor="c2"), OPEN]]
    (batch,) = received(
        driver,
        node,
        1,
        State("c1", {"g9": 7}),
        on_missed=lambda one: spans.append((one.from_seq, one.to_seq)),
    )
    assert spans == [(8, 20)]
    assert batch.state.positions == {"g9": 21}


def test_hook_may_be_asynchronous(node: Node) -> None:
    from kith_client import AsyncClient

    driver, resets = Driver(AsyncClient), []

    async def reset() -> None:
        resets.append(1)

    node.answers = [[response(RESET)], [response(cursor="c1"), OPEN]]
    received(driver, node, 1, State("old"), on_reset=reset)
    driver.stop()
    assert resets == [1]


def test_unknown_delivery_and_notes_are_handed_out(driver: Driver, node: Node) -> None:
    live = message_pb2.Delivery(live=message_pb2.Live())
    node.answers = [[response(live, message_pb2.Delivery(), cursor="c1"), OPEN]]
    (batch,) = received(driver, node, 1)
    assert len(batch.deliveries) == 2


def test_error_that_lasts_ends_the_stream(driver: Driver, node: Node) -> None:
    node.answers = [[response(cursor="c1"), Refusal(grpc.StatusCode.PERMISSION_DENIED, "USER_SUSPENDED")]]
    with pytest.raises(KithError, match="USER_SUSPENDED"):
        received(driver, node, 2)


def test_token_that_ends_is_replaced(driver: Driver, node: Node) -> None:
    tokens = iter(["t1", "t2"])
    refused = Refusal(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_REFUSED")
    node.answers = [[response(cursor="c1"), refused], [response(cursor="c2"), OPEN]]
    client = driver.client(node.address, api_key=None, token=lambda: next(tokens))
    answers = client.receive(7)
    each = driver.each(answers)
    assert [next(each).state.cursor, next(each).state.cursor] == ["c1", "c2"]
    driver.close(answers)
    assert [got.values("authorization") for got in node.got] == [["Bearer t1"], ["Bearer t2"]]
    assert node.got[1].message().cursor == "c1"


def test_state_is_a_text() -> None:
    state = State("c1", {"d7-8": 4})
    assert State.load(state.dump()) == state
    assert State.load("") == State()


def test_state_keeps_the_conversations_of_last() -> None:
    state = State()
    for group in range(2001):
        state.reach(f"g{group}", 1)
    state.reach("g1", 2)
    state.reach("g2001", 1)
    assert len(state.positions) == 2000
    assert "g1" in state.positions
    assert "g2" not in state.positions


def test_offline_users_go_on_from_the_cursor(driver: Driver, node: Node) -> None:
    node.answers = [
        [message_pb2.WatchOfflineResponse(cursor="c1"), STOPPING],
        [message_pb2.WatchOfflineResponse(cursor="c2"), OPEN],
    ]
    answers = driver.client(node.address).watch_offline()
    each = driver.each(answers)
    assert [next(each).cursor, next(each).cursor] == ["c1", "c2"]
    driver.close(answers)
    assert node.got[1].message().cursor == "c1"
