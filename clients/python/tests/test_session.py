"""Sessions."""

from __future__ import annotations

import grpc
import pytest
from conftest import Driver
from script import Node, Refusal

from kith_client import KithError
from kith_client.session import Session
from kith_client.v1 import user_pb2

GET = user_pb2.GetUserRequest(user_id=7)


def taken(session: Session, carried: tuple[str, ...], text: str) -> None:
    session.take(carried, [("kith-session", text)])


def test_call_carries_the_text_of_the_last_answer(driver: Driver, node: Node) -> None:
    session = driver.client(node.address).session(7)
    for node.session in ("s1", "s2", ""):
        driver.run(session.users.get_user(GET))
    assert [got.values("kith-session") for got in node.got] == [[""], ["s1"], ["s2"]]
    assert session.export_session() == "s2"


def test_export_continues_elsewhere(driver: Driver, node: Node) -> None:
    client = driver.client(node.address)
    driver.run(client.session(7, "a, b").users.get_user(GET))
    assert node.got[0].values("kith-session") == ["a", "b"]
    assert node.got[0].values("kith-acting-user") == ["7"]


def test_client_without_a_session_carries_none(driver: Driver, node: Node) -> None:
    node.session = "s1"
    client = driver.client(node.address)
    driver.run(client.users.get_user(GET))
    driver.run(client.users.get_user(GET))
    assert node.got[1].values("kith-session") == []
    assert client.export_session() == ""


def test_error_of_a_node_has_a_text_too(driver: Driver, node: Node) -> None:
    session = driver.client(node.address).session(7)
    node.session = "s1"
    node.answers = [Refusal(grpc.StatusCode.NOT_FOUND, "NOT_FOUND")]
    with pytest.raises(KithError):
        driver.run(session.users.get_user(GET))
    assert session.export_session() == "s1"


def test_overlapping_calls_leave_several_texts() -> None:
    session = Session("s0")
    carried = session.carry()
    taken(session, carried, "s1")
    taken(session, carried, "s2")
    assert session.carry() == ("s2", "s1")
    taken(session, session.carry(), "s3")
    assert session.carry() == ("s3",)


def test_more_than_four_are_carried_by_later_calls() -> None:
    session = Session()
    for number in range(6):
        taken(session, (), f"s{number}")
    assert session.carry() == ("s5", "s4", "s3", "s2")
    taken(session, session.carry(), "s6")
    assert session.carry() == ("s6", "s1", "s0")


def test_answer_without_a_text_changes_nothing() -> None:
    session = Session("s1")
    session.take(session.carry(), [("kith-contract", "1")])
    assert session.export() == "s1"
