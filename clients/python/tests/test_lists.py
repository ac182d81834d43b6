"""Pages, exports and batches."""

from __future__ import annotations

import grpc
import pytest
from conftest import Driver
from script import Node, Refusal

from kith_client import KithError
from kith_client.v1 import message_pb2, relation_pb2, user_pb2

LOST = Refusal(grpc.StatusCode.UNAVAILABLE)


def messages(*seqs: int) -> list[message_pb2.Message]:
    return [message_pb2.Message(seq=seq) for seq in seqs]


def test_pages_follow_the_token(driver: Driver, node: Node) -> None:
    node.answers = [
        relation_pb2.ListFollowingResponse(next_page_token="p2"),
        relation_pb2.ListFollowingResponse(),
    ]
    request = relation_pb2.ListFollowingRequest(user_id=7)
    assert len(list(driver.each(driver.client(node.address).relations.list_following_pages(request)))) == 2
    assert [got.message().page_token for got in node.got] == ["", "p2"]
    assert request.page_token == ""


def test_pages_follow_rising_numbers(driver: Driver, node: Node) -> None:
    node.answers = [
        message_pb2.PullMessagesResponse(messages=messages(3, 5), more=True),
        message_pb2.PullMessagesResponse(messages=messages(6)),
    ]
    request = message_pb2.PullMessagesRequest(conversation_id="d7-8", from_seq=3)
    pages = list(driver.each(driver.client(node.address).messages.pull_messages_pages(request)))
    assert [message.seq for page in pages for message in page.messages] == [3, 5, 6]
    assert [got.message().from_seq for got in node.got] == [3, 6]


def test_pages_follow_falling_numbers(driver: Driver, node: Node) -> None:
    node.answers = [
        message_pb2.HistoryResponse(messages=messages(9, 7), more=True),
        message_pb2.HistoryResponse(messages=messages(6)),
    ]
    request = message_pb2.HistoryRequest(conversation_id="d7-8")
    list(driver.each(driver.client(node.address).messages.history_pages(request)))
    assert [got.message().before_seq for got in node.got] == [0, 7]


def test_pages_ask_for_the_numbers_that_are_left(driver: Driver, node: Node) -> None:
    node.answers = [
        message_pb2.PullBySeqsResponse(messages=messages(1, 4), more=True),
        message_pb2.PullBySeqsResponse(messages=messages(6)),
    ]
    request = message_pb2.PullBySeqsRequest(conversation_id="d7-8", seqs=[1, 4, 6, 8])
    list(driver.each(driver.client(node.address).messages.pull_by_seqs_pages(request)))
    assert list(node.got[1].message().seqs) == [6, 8]


def test_export_goes_on_after_the_last_record(driver: Driver, node: Node) -> None:
    node.answers = [
        [user_pb2.ExportUsersResponse(users=[user_pb2.User(user_id=id)]) for id in (1, 2)] + [LOST],
        [user_pb2.ExportUsersResponse(users=[user_pb2.User(user_id=3)])],
    ]
    pages = driver.each(driver.client(node.address).users.export_users_pages(user_pb2.ExportUsersRequest()))
    assert [user.user_id for page in pages for user in page.users] == [1, 2, 3]
    assert [got.message().after_user_id for got in node.got] == [0, 2]
    assert node.got[0].left is None or node.got[0].left > 1e6


def test_stream_of_a_caller_is_not_opened_again(driver: Driver, node: Node) -> None:
    node.answers = [[user_pb2.ExportUsersResponse(), LOST]]
    answers = driver.each(driver.client(node.address).users.export_users(user_pb2.ExportUsersRequest()))
    assert next(answers) is not None
    with pytest.raises(KithError):
        next(answers)
    assert len(node.got) == 1


def test_import_is_a_stream_in_both_directions(driver: Driver, node: Node) -> None:
    node.answers = [[user_pb2.ImportUsersResponse()]]
    parts = [user_pb2.ImportUsersRequest(records=[user_pb2.ImportUser(record=id)]) for id in (1, 2)]

    async def later() -> object:
        for part in parts:
            yield part

    blocks = driver.kind.__name__ == "Client"
    answers = driver.client(node.address).users.import_users(iter(parts) if blocks else later())
    assert len(list(driver.each(answers))) == 1
    assert [record.record for record in node.got[0].message().records] == [1, 2]


def results(ids: range | list[int], *too_large: int) -> user_pb2.BatchGetUsersResponse:
    made = user_pb2.BatchGetUsersResponse()
    for id in ids:
        result = made.results.add(user_id=id)
        if id in too_large:
            result.error.reason = "ANSWER_TOO_LARGE"
        else:
            result.not_found = True
    return made


def test_batch_is_split(driver: Driver, node: Node) -> None:
    node.answers = [results(range(1000)), results(range(1000, 1500))]
    request = user_pb2.BatchGetUsersRequest(user_ids=range(1500))
    found = driver.run(driver.client(node.address).users.batch_get_users(request))
    assert [result.user_id for result in found.results] == list(range(1500))
    assert [len(got.message().user_ids) for got in node.got] == [1000, 500]


def test_what_was_too_large_is_asked_for_again(driver: Driver, node: Node) -> None:
    node.answers = [results([1, 2, 3], 2, 3), results([2, 3], 3), results([3])]
    request = user_pb2.BatchGetUsersRequest(user_ids=[1, 2, 3])
    found = driver.run(driver.client(node.address).users.batch_get_users(request))
    assert [(result.user_id, result.not_found) for result in found.results] == [
        (1, True),
        (2, True),
        (3, True),
    ]
    assert [list(got.message().user_ids) for got in node.got] == [[1, 2, 3], [2, 3], [3]]


def test_what_stays_too_large_keeps_its_error(driver: Driver, node: Node) -> None:
    node.answers = [results([1, 2], 2), results([2], 2)]
    request = user_pb2.BatchGetUsersRequest(user_ids=[1, 2])
    found = driver.run(driver.client(node.address).users.batch_get_users(request))
    assert [result.error.reason for result in found.results] == ["", "ANSWER_TOO_LARGE"]


def test_empty_batch_is_one_call(driver: Driver, node: Node) -> None:
    driver.run(driver.client(node.address).users.batch_get_users(user_pb2.BatchGetUsersRequest()))
    assert len(node.got) == 1
