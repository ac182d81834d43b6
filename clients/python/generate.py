"""Writes `src/kith_client/v1`: the messages of the contract, its services, and the reasons of errors.

Messages are what protoc writes, moved under `kith_client`: another project has the package `kith`.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
    MethodOptions,
)

HERE = Path(__file__).parent
HEADER = "# Written by generate.py from the contract. Not edited by hand.\n"
# What becomes of the code for asyncio in the client that blocks.
BLOCKS = (
    (r"from kith_client\.(client|core|credential|receive) ", r"from kith_client.blocking.\1 "),
    (r"Awaitable\[((?:[^\[\]]|\[[^\[\]]*\])*)\]", r"\1"),
    (r"None \| None", "None"),
    (r"AsyncGenerator\[(.*), None\]", r"Generator[\1, None, None]"),
    (r"\bAsyncGenerator, (Awaitable, )?Callable", "Callable, Generator"),
    (r"\bAwaitable, ", ""),
    (r"\b(async|await) ", ""),
    (r"import asyncio\n", "import threading\n"),
    ("asyncio.Lock", "threading.Lock"),
    ("asyncio.sleep", "time.sleep"),
    (r"grpc\.aio", "grpc"),
    (r"\baio\b", "blocking"),
    (r"unary_async", "unary"),
    (r"aclosing", "closing"),
    (r"__a(enter|exit)__", r"__\1__"),
    (r"Async(Client|Iterator|Generator)", r"\1"),
)
PAGED_BY_NUMBER = {"PullMessages", "PullBySeqs", "History"}
SPLIT_TOO = {"GetMaxSeqs", "GetReadSeqs"}
SINGULAR = {"admin", "presence"}

CLASS = """

class {name}:
{doc}
    def __init__(self, core: Core) -> None:
        self._core = core
"""
FUNCTION = """
    {define} {name}(
        self, {argument}, *, user: int | None = None, token: str | None = None{timeout}
    ) -> {result}:
{doc}        return {body}
"""
TIMEOUT = ", timeout: float | None = None"


@dataclass(frozen=True)
class Style:
    """How the code of one client differs from that of the other."""

    core: str
    define: str
    wait: str
    prefix: str


BLOCKING = Style("kith_client.blocking.core", "def", "", "")
ASYNC = Style("kith_client.core", "async def", "await ", "Async")


@dataclass(frozen=True)
class Call:
    """One method of a service."""

    file: FileDescriptorProto
    method: MethodDescriptorProto
    request: DescriptorProto
    response: DescriptorProto
    doc: str

    @property
    def name(self) -> str:
        """The name of the function."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.method.name).lower()

    @property
    def constant(self) -> str:
        """The name of the `Method`."""
        return f"{attribute(self.file)}_{self.name}".upper()

    @property
    def after(self) -> str:
        """The field after which an export continues, or an empty text."""
        names = [field.name for field in self.request.field if field.name.startswith("after_")]
        return names[0] if names and self.method.server_streaming else ""

    def type(self, message: DescriptorProto) -> str:
        """Returns the type of a message."""
        return f"{module(self.file)}.{message.name}"

    def definition(self) -> str:
        """Returns the `Method`."""
        level = self.method.options.idempotency_level
        read = level == MethodOptions.NO_SIDE_EFFECTS
        service = self.file.service[0].name
        fields = {field.name for field in self.request.field}
        ids = fields & {"request_id", "client_message_id"} or fields & {"messages"}
        parts = [f'"/{self.file.package}.{service}/{self.method.name}"', self.type(self.request)]
        parts += [self.type(self.response)]
        if self.method.client_streaming:
            parts.append('form="stream_stream"')
        elif ids or level != MethodOptions.IDEMPOTENCY_UNKNOWN:
            parts.append("repeat=True")
        parts += [
            f'id_field="{"client_message_id" if name == "messages" else name}"' for name in ids if not read
        ]
        if read and (self.method.name.startswith("Batch") or self.method.name in SPLIT_TOO):
            limit = 100 if self.method.name == "BatchGetReceipts" else 1000
            parts.append(f"batch={(repeated(self.request), repeated(self.response), limit)}")
        if self.after:
            parts.append(f"after={(self.after, repeated(self.response), self.after.removeprefix('after_'))}")
        return f"{self.constant} = Method({', '.join(parts)})\n"

    def code(self, style: Style) -> str:
        """Returns the functions of the call."""
        core = f"self._core.of(user, token).{{}}(methods.{self.constant}, request{{}})"
        each = f"{style.prefix}Iterator[{self.type(self.response)}]"
        if self.method.client_streaming:
            argument = f"request: {style.prefix}Iterable[{self.type(self.request)}]"
            return self._function(style, "def", self.name, argument, "", each, core.format("stream", ""))
        argument = f"request: {self.type(self.request)}"
        if self.method.server_streaming:
            once = self._function(style, "def", self.name, argument, "", each, core.format("stream", ""))
            if not self.after:
                return once
            return once + self._function(
                style, "def", f"{self.name}_pages", argument, "", each, core.format("export", "")
            )
        body = style.wait + core.format("unary", ", timeout")
        result = self.type(self.response)
        once = self._function(style, style.define, self.name, argument, TIMEOUT, result, body)
        if (
            not any(field.name == "page_token" for field in self.request.field)
            and self.method.name not in PAGED_BY_NUMBER
        ):
            return once
        pages = core.format("pages", ", timeout")
        return once + self._function(style, "def", f"{self.name}_pages", argument, TIMEOUT, each, pages)

    def _function(
        self, style: Style, define: str, name: str, argument: str, timeout: str, result: str, body: str
    ) -> str:
        doc = docstring(
            f"Yields the pages of {self.name}, from this one on." if name.endswith("_pages") else self.doc, 8
        )
        return FUNCTION.format(
            define=define, name=name, argument=argument, timeout=timeout, result=result, doc=doc, body=body
        )


def main(repository: Path, out: Path) -> None:
    """Generates everything into `out`."""
    proto = repository / "proto"
    errors = repository / "docs/reference/errors.md"
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.py*"):
        old.unlink()
    (out / "__init__.py").write_text('"""The contract: its messages and services."""\n')
    files = messages(proto, out)
    (out / "contract.py").write_text(contract((repository / "crates/proto/src/lib.rs").read_text("utf-8")))
    (out / "reasons.py").write_text(reasons(errors.read_text("utf-8")))
    calls = [call for file in files for call in calls_of(file)]
    names = ", ".join(sorted({module(call.file) for call in calls}))
    head = f"{HEADER}from kith_client.method import Method\nfrom kith_client.v1 import {names}\n\n"
    (out / "methods.py").write_text(head + "".join(call.definition() for call in calls))
    (out / "blocking.py").write_text(services(files, calls, BLOCKING, names))
    (out / "aio.py").write_text(services(files, calls, ASYNC, names))
    blocking(out.parent, out.parent / "blocking")


def messages(proto: Path, out: Path) -> list[FileDescriptorProto]:
    """Runs protoc, and moves what it wrote. Returns the files of the contract."""
    from grpc_tools import protoc

    names = sorted(str(path.relative_to(proto)) for path in proto.glob("kith/*/v1/*.proto"))
    builtin = str(resources.files("grpc_tools") / "_proto")
    with tempfile.TemporaryDirectory() as folder:
        descriptors = Path(folder) / "all.binpb"
        forms = [f"--python_out={folder}", f"--pyi_out={folder}", f"--descriptor_set_out={descriptors}"]
        if protoc.main(["protoc", f"-I{proto}", f"-I{builtin}", *forms, "--include_source_info", *names]):
            raise SystemExit("protoc has failed")
        for path in Path(folder).glob("kith/*/v1/*_pb2.py*"):
            (out / path.name).write_text(moved(path.read_text("utf-8")))
        return list(FileDescriptorSet.FromString(descriptors.read_bytes()).file)


def blocking(source: Path, out: Path) -> None:
    """Writes the client that blocks from the code for asyncio."""
    out.mkdir(exist_ok=True)
    (out / "__init__.py").write_text('"""The client that blocks."""\n')
    for name in ("client", "core", "credential", "receive"):
        text = (source / f"{name}.py").read_text("utf-8")
        for pattern, replacement in BLOCKS:
            text = re.sub(pattern, replacement, text)
        (out / f"{name}.py").write_text(HEADER + text)


def moved(text: str) -> str:
    """Returns a module of protoc under another package, with the types that strict checkers ask for."""
    text = re.sub(r"from kith\.\w+\.v1 import", "from kith_client.v1 import", text)
    text = re.sub(r"'kith\.\w+\.v1\.(\w+_pb2)'", r"'kith_client.v1.\1'", text)
    text = re.sub(r"^(\w+): _ClassVar\[int\]", r"\1: int", text, flags=re.MULTILINE)
    return text.replace("_Mapping]", "_Mapping[str, object]]")


def contract(source: str) -> str:
    """Returns the module with the number of the contract."""
    number = re.search(r"\bCONTRACT: u32 = (\d+);", source)
    return f'{HEADER}"""The number of the contract."""\n\nCONTRACT = {number[1] if number else 1}\n'


def reasons(document: str) -> str:
    """Returns the module with the reasons, from the page that lists them."""
    found = re.findall(r"^## ([A-Z_]+)\n\n`\w+`: (.*)$", document, re.MULTILINE)
    lines = "".join(f'    {name} = "{name}"\n    """{text}"""\n' for name, text in found)
    doc = '    """A reason. Newer nodes may have others: `KithError.reason` is a text."""\n\n'
    head = f'{HEADER}"""The reasons of errors."""\n\nimport enum\n\n\n'
    return f"{head}class Reason(str, enum.Enum):\n{doc}{lines}"


def calls_of(file: FileDescriptorProto) -> list[Call]:
    """Returns the calls of the service of a file. Requests and responses are in the same file."""
    types = {f".{file.package}.{message.name}": message for message in file.message_type}
    methods = [method for service in file.service for method in service.method]
    return [
        Call(file, method, types[method.input_type], types[method.output_type], comment(file, 6, 0, 2, place))
        for place, method in enumerate(methods)
    ]


def services(files: list[FileDescriptorProto], calls: list[Call], style: Style, names: str) -> str:
    """Returns the module of all services in one style."""
    iterators = ", ".join(f"{style.prefix}{name}" for name in ("Iterable", "Iterator"))
    text = f'{HEADER}"""The services of the contract."""\n\nfrom collections.abc import {iterators}\n\n'
    text += f"from {style.core} import Core\nfrom kith_client.v1 import {names}, methods\n"
    bind = '\n\nclass Services:\n    """Has all services."""\n\n    def _bind(self, core: Core) -> None:\n'
    bind += "        self._core = core\n"
    for file in files:
        for service in file.service:
            doc = docstring(comment(file, 6, 0), 4)
            text += CLASS.format(name=service.name, doc=doc)
            text += "".join(call.code(style) for call in calls if call.file is file)
            bind += f"        self.{attribute(file)} = {service.name}(core)\n"
    return text + bind


def attribute(file: FileDescriptorProto) -> str:
    """Returns the name of a service at the client: `users` for UserService."""
    name = Path(file.name).stem
    return name if name in SINGULAR else f"{name}s"


def module(file: FileDescriptorProto) -> str:
    """Returns the module of a file's messages."""
    return Path(file.name).stem + "_pb2"


def repeated(message: DescriptorProto) -> str:
    """Returns the name of the first repeated field."""
    return next(field.name for field in message.field if field.label == FieldDescriptorProto.LABEL_REPEATED)


def comment(file: FileDescriptorProto, *path: int) -> str:
    """Returns the comment of an element of the contract."""
    found = (location for location in file.source_code_info.location if tuple(location.path) == path)
    return "\n".join(line.strip() for location in found for line in location.leading_comments.splitlines())


def docstring(text: str, indent: int) -> str:
    """Returns a text as a docstring."""
    space = " " * indent
    lines = text.strip().replace("\\", "\\\\").splitlines() or ["A call of the contract."]
    end = "" if len(lines) == 1 else f"\n{space}"
    return f'{space}"""' + f"\n{space}".join(lines).replace(f"\n{space}\n", "\n\n") + f'{end}"""\n'


if __name__ == "__main__":
    main(HERE.parents[1], HERE / "src/kith_client/v1")
