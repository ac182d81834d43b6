"""Plays the cases of `clients/conformance` with both clients: `python play.py PROGRAM FOLDER`."""

import asyncio
import json
import logging.handlers
import re
import subprocess
import sys
import urllib.request
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any, TypeAlias

from google.protobuf.json_format import ParseDict

from kith_client import AsyncClient, Client, KithError, State
from kith_client.method import Method
from kith_client.v1 import methods

Step: TypeAlias = dict[str, Any]
METHODS = {found.path[1:]: found for found in vars(methods).values() if isinstance(found, Method)}


class Run:
    def __init__(self, kind: Any, address: str, options: Step) -> None:
        self.blocks, self.asked, self.tokens = kind is Client, 0, options.get("tokens", [])
        self.sessions, self.exported = dict[str, Any](), dict[str, str]()
        given = {"contract": options["contract"]} if "contract" in options else {}
        given |= {"token": self.token} if self.tokens else {"api_key": options.get("key", "script-key")}
        given |= {"timeout": options.get("deadline_ms", 5000) / 1000}
        self.root = kind(address, pause=options.get("pause_ms", 1) / 1000, **given)
        self.client = self.root.as_user(options["acting_user"]) if "acting_user" in options else self.root
        self.warnings = logging.handlers.BufferingHandler(1000)
        logging.getLogger("kith_client").handlers = [self.warnings]

    def token(self) -> tuple[str, float]:
        self.asked += 1
        found = self.tokens[min(self.asked, len(self.tokens)) - 1]
        return found["token"], found["expires_in_ms"] / 1000

    async def call(self, function: Any, *arguments: Any) -> Any:
        return await (asyncio.to_thread(function, *arguments) if self.blocks else function(*arguments))

    async def each(self, answers: Any) -> AsyncGenerator[Any, None]:
        end = object()
        try:
            while (answer := await self.call(next if self.blocks else anext, answers, end)) is not end:
                yield answer
        finally:
            await self.call(answers.close if self.blocks else answers.aclose)

    async def step(self, step: Step) -> None:
        kind = next(name for name in step if hasattr(self, f"step_{name}"))
        try:
            await getattr(self, f"step_{kind}")(step)
        except KithError as error:
            same(*described(step.get("error", {"code": "none"}), error))
        else:
            assert "error" not in step, f"no error in {step}"

    def bound(self, step: Step, suffix: str = "") -> tuple[Any, Any]:
        name = next(step[kind] for kind in ("call", "batch", "stream", "pages") if kind in step)
        client, method, (service, call) = self.client, METHODS[name], name.split("/")
        if session := step.get("session"):
            client = self.sessions[session] = self.sessions.get(session) or client.session()
        group = service.split(".")[1]
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", call).lower() + suffix
        function = getattr(getattr(client, group if group in ("admin", "presence") else f"{group}s"), snake)
        options = {"user": step["acting_user"]} if "acting_user" in step else {}
        options |= {"timeout": step["deadline_ms"] / 1000} if "deadline_ms" in step else {}
        return partial(function, ParseDict(step.get("request", {}), method.request()), **options), method

    async def step_call(self, step: Step) -> None:
        function, method = self.bound(step)
        answer = await self.call(function)
        same(ParseDict(step["answer"], method.response()) if "answer" in step else answer, answer)

    step_batch = step_call

    async def step_stream(self, step: Step) -> None:
        function, method = self.bound(step)
        got: list[Any] = []
        answers = self.each(function())
        try:
            while len(got) != step.get("take") and (answer := await anext(answers, None)) is not None:
                got.append(answer)
        finally:
            await answers.aclose()
            same([ParseDict(one, method.response()) for one in step.get("answers", [])], got)

    async def step_pages(self, step: Step) -> None:
        function, method = self.bound(step, "_pages")
        field = next(field.name for field in method.response.DESCRIPTOR.fields if field.is_repeated)
        got = method.response()
        try:
            async for page in self.each(function()):
                getattr(got, field).extend(getattr(page, field))
        finally:
            same(ParseDict({field: step["items"]}, method.response()), got)

    async def step_receive(self, step: Step) -> None:
        counted = ("messages", "missed", "resets")
        got: Step = {"messages": [], "missed": [], "resets": [], "end": None}
        wants = {"messages": [], "missed": [], "end": None, **step, "resets": [()] * step.get("resets", 0)}
        state, user = State(**step["state"]) if "state" in step else None, step["receive"]["userId"]
        hooks: Step = {"on_missed": lambda one: got["missed"].append(span(one))}
        hooks["on_reset"] = lambda: got["resets"].append(())
        answers = self.each(self.client.receive(user, state, **hooks))
        try:
            while "error" in step or any(len(got[name]) < len(wants[name]) for name in counted):
                batch = await anext(answers)
                got["messages"] += [f"{message.conversation_id}/{message.seq}" for message in batch.messages]
                got["end"] = vars(batch.state) if "end" in step else None
        finally:
            await answers.aclose()
            same({name: wants[name] for name in got}, got)

    async def step_together(self, step: Step) -> None:
        await asyncio.gather(*map(self.step, step["together"]))

    async def step_export(self, step: Step) -> None:
        self.exported[step["export"]] = self.sessions[step["export"]].export_session()

    async def step_import(self, step: Step) -> None:
        self.sessions[step["import"]] = self.client.session(exported=self.exported[step["of"]])

    async def step_wait_ms(self, step: Step) -> None:
        await asyncio.sleep(step["wait_ms"] / 1000)

    async def step_tokens_asked(self, step: Step) -> None:
        same(step["tokens_asked"], self.asked)

    async def step_warned(self, step: Step) -> None:
        same(step["warned"], len(self.warnings.buffer))


def span(missed: Any) -> str:
    return f"{missed.conversation_id}/{missed.from_seq}-{missed.to_seq}"


def described(wanted: Step, error: KithError) -> tuple[Step, Step]:
    has: Step = {name: getattr(error, name) for name in ("reason", "field", "outcome")}
    has |= {"code": error.code.name.lower(), "retry_ms": round((error.retry_delay or 0) * 1000)}
    has["until"] = error.until and error.until.isoformat().replace("+00:00", "Z")
    return wanted, {name: has[name] for name in wanted}


def same(wanted: Any, got: Any) -> None:
    assert wanted == got, f"wanted {wanted}, got {got}"


async def play(kind: Any, script: str, name: str) -> int:
    begun = ask(f"{script}/begin/{name}", b"")
    if begun["case"].get("for", "service") != "service":
        return 0
    run, wrong = Run(kind, begun["address"], begun["case"].get("client", {})), []
    try:
        for step in begun["case"]["steps"]:
            await asyncio.wait_for(run.step(step), 20)
    except Exception as error:
        wrong = [f"{type(error).__name__} {error}"]
    await run.call(run.root.close)
    wrong += (await asyncio.to_thread(ask, f"{script}/end/{begun['run']}", b""))["wrong"]
    print("FAILED" if wrong else "passed", kind.__name__, name, *wrong)
    return len(wrong)


def ask(url: str, data: bytes | None = None) -> Any:
    return json.load(urllib.request.urlopen(url, data))


async def main(program: str, folder: str) -> int:
    node = subprocess.Popen([program, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    script = node.stdout.readline().strip() if node.stdout else ""
    names = ask(f"{script}/cases")
    wrong = [await play(kind, script, name) for kind in (AsyncClient, Client) for name in names]
    node.communicate("")
    return sum(wrong)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])) > 0)
