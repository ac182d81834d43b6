"""The web server: sign-in by cookie, tokens for the browser's socket, groups, and the list of chats."""

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import grpc
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from kith_client import AsyncClient, KithError
from kith_client.issuer import Issuer
from pydantic import BaseModel
from starlette.middleware.sessions import SessionMiddleware

from chat import Chat

STATUS = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.UNAUTHENTICATED: 500,  # the key of this backend was refused
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Opens the client in the event loop of the server, and closes it at the end."""
    app.state.chat = Chat(Issuer.trial(os.environ.get("ISSUER_FOLDER", "trial")))
    yield
    await app.state.chat.kith.close()


app = FastAPI(title="Chat backend", lifespan=lifespan)
# The cookie is signed: it says who is signed in, and how fresh the reads of this browser must be.
key_file = Path("cookie.key")
if not key_file.exists():
    key_file.touch(mode=0o600)
    key_file.write_text(secrets.token_urlsafe(32))
app.add_middleware(SessionMiddleware, secret_key=key_file.read_text(), same_site="strict")


class Account(BaseModel):
    """A name and a password."""

    name: str
    password: str


class NewGroup(BaseModel):
    """A group, and the names of people to add. People who are no friends of the user are invited."""

    name: str
    people: list[str] = []


def chat_of(request: Request) -> Chat:
    """Returns what calls Kith."""
    chat: Chat = request.app.state.chat
    return chat


def signed_in(request: Request) -> int:
    """Returns the user of the cookie."""
    if user := request.session.get("user"):
        return int(user)
    raise HTTPException(401, "sign in first")


@asynccontextmanager
async def reading(request: Request, chat: Chat, user: int) -> AsyncIterator[AsyncClient]:
    """Makes the session of the cookie, and puts it back: the browser reads its own writes on every node."""
    view = chat.view(user, request.session.get("kith", ""))
    try:
        yield view
    finally:
        request.session["kith"] = view.export_session()


AnyChat = Annotated[Chat, Depends(chat_of)]
User = Annotated[int, Depends(signed_in)]


@app.exception_handler(KithError)
async def refused(request: Request, error: KithError) -> JSONResponse:
    """Answers with the reason and the field of the error."""
    body = {"reason": error.reason, "field": error.field, "message": error.message}
    headers = {"retry-after": str(int(error.retry_delay) + 1)} if error.retry_delay is not None else None
    return JSONResponse(body, STATUS.get(error.code, 500), headers)


@app.post("/sign-up", status_code=201)
async def sign_up(account: Account, request: Request, chat: AnyChat) -> dict[str, int]:
    """Creates a user, and signs it in."""
    user = await chat.sign_up(account.name, account.password)
    request.session.clear()
    request.session["user"] = user
    return {"user_id": user}


@app.post("/sign-in")
async def sign_in(account: Account, request: Request, chat: AnyChat) -> dict[str, int]:
    """Checks the password. An unknown name and a wrong password have the same answer."""
    try:
        user = await chat.sign_in(account.name, account.password)
    except KithError as error:
        if error.code is not grpc.StatusCode.NOT_FOUND:
            raise
        user = None
    if user is None:
        raise HTTPException(401, "the name or the password is wrong")
    request.session.clear()
    request.session["user"] = user
    return {"user_id": user}


@app.post("/sign-out", status_code=204)
async def sign_out(request: Request) -> None:
    """Forgets the user of the cookie."""
    request.session.clear()


@app.get("/token", response_class=PlainTextResponse)
async def token(user: User, chat: AnyChat) -> str:
    """Returns a token of ten minutes, for the socket of the page."""
    return chat.token(user)


@app.post("/groups", status_code=201)
async def make_group(group: NewGroup, request: Request, user: User, chat: AnyChat) -> dict[str, Any]:
    """Creates a group of the user."""
    async with reading(request, chat, user) as view:
        return await chat.make_group(view, user, group.name, group.people)


@app.get("/chats")
async def chats(request: Request, user: User, chat: AnyChat) -> list[dict[str, Any]]:
    """Returns the conversations of the user, with names and unread counts."""
    async with reading(request, chat, user) as view:
        return await chat.chats(view, user)
