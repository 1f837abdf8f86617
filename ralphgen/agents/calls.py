"""Calls tools of the project's server, as a client of a session does."""

import ast
import getpass
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from ralphgen import __version__
from ralphgen.emit.write import TRUST_EDITED
from ralphgen.errors import Problem, ProjectError, RalphgenError, Say, UsageError, plain, suggestion
from ralphgen.project.root import FOLDER, ProjectPlace
from ralphgen.project.schema import open_rows
from ralphgen.runtime.encoding import JsonReader, parse_number, sha256_hex, write_written_json
from ralphgen.runtime.errors import StartError
from ralphgen.runtime.policy import FULL, Policy, Recipe
from ralphgen.runtime.session import BY_COMMAND
from ralphgen.runtime.system import launched_session
from ralphgen.sessions.decide import (
    TASKS,
    Request,
    context_facts,
    decide_subject,
    no_tasks,
    project_facts,
)
from ralphgen.sessions.server_command import server_command
from ralphgen.sessions.store import MCP_CONFIG, session_folder

KIT = "ralph"  # serves the tools on tasks, features and disciplines
PROTOCOL = "2025-11-25"
INITIALIZE = {
    "protocolVersion": PROTOCOL,
    "capabilities": {},
    "clientInfo": {"name": "ralphgen", "version": __version__},
}


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The text of an answer, or of a refusal with the `hint` that the server sent with it."""

    text: str
    refused: bool = False
    hint: str = ""


class ServerConnection:
    """A running server, which ends with this object; it may write to our standard error.

    `session` is the id that its changes have on record, if this process has chosen it.

    Raises `ProjectError` if the server does not start, or ends before it has answered.
    """

    def __init__(self, command: Sequence[str], kit: str, *, apart: bool = False) -> None:
        self.session = ""
        self._kit = kit
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=apart
        )
        self._last = 0
        try:
            self._request("initialize", INITIALIZE)
            self._send({"method": "notifications/initialized"})
        except BaseException:
            self.close()
            raise

    def tools(self) -> list[dict[str, Any]]:
        """Return the entries of `tools/list`."""
        result = self._request("tools/list", {})["result"]
        tools: list[dict[str, Any]] = result["tools"]
        return tools

    def call(self, tool: str, arguments: Mapping[str, object]) -> CallAnswer:
        """Return what `tools/call` answers; a refusal is an answer too."""
        answer = self._request("tools/call", {"name": tool, "arguments": arguments})
        if "error" in answer:
            error = answer["error"]
            data = error.get("data") or ""
            hint = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
            return CallAnswer(error["message"], refused=True, hint=hint)
        result = answer["result"]
        text = "\n".join(part.get("text") or json.dumps(part) for part in result["content"])
        return CallAnswer(text, refused=result.get("isError", False))

    def close(self) -> None:
        """End the server, as a client does that leaves."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:  # it was not there any more to read the rest
                    continue
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, method: str, params: object) -> dict[str, Any]:
        """Return the line that answers a request; what else the server sends is left unread."""
        self._last += 1
        self._send({"id": self._last, "method": method, "params": params})
        output = self._process.stdout
        for line in output or ():
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == self._last and "method" not in message:
                return message
        raise self._ended_error()

    def _send(self, message: Mapping[str, object]) -> None:
        text = write_written_json({"jsonrpc": "2.0", **message})
        line = text.encode("utf-8", "backslashreplace") + b"\n"
        try:
            if self._process.stdin is not None:
                self._process.stdin.write(line)
                self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._ended_error() from error

    def _ended_error(self) -> ProjectError:
        text = f'the server "{self._kit}" did not answer: it ended with exit code'
        hint = 'see its output above, or run "ralphgen doctor"'
        return ProjectError(f"{text} {self._process.wait()}", hint)


HINT = 'run "ralphgen regen"'
Options = tuple[str, ...]
"""The arguments of a server after the name of the kit."""


def read_policy(root: Path, *, trust_edited: bool) -> Policy:
    """Return the policy generated for the project in `root`: read as data, never run.

    Raises `ProjectError` if it is missing, if it is edited and not trusted, and if another version
    of ralphgen has written it in an unsupported form.
    """
    path = root / FOLDER / "policy.py"
    try:
        text = path.read_bytes()
        manifest = _manifest(root)
        edited = sha256_hex(text) != manifest["files"]["policy.py"]
        policy = _policy(ast.parse(text))
        policy.name_tools(manifest.get("tools", {}))
    except OSError as error:
        raise ProjectError(
            f'the server in "{root / FOLDER}" is missing or incomplete', HINT
        ) from error
    except (
        *(SyntaxError, ValueError, LookupError, TypeError, AttributeError),
        *(RecursionError, StartError),
    ) as error:
        raise ProjectError(f'"{path}" was not generated by this ralphgen', HINT) from error
    if edited and not trust_edited:
        raise ProjectError(f'"{path}" was edited by hand', 'run "ralphgen regen --force"')
    return policy


def own_server(root: Path, session_id: str, kit: str, start: tuple[str, ...]) -> Options:
    """Return the command of the server of a kit in the session of this id.

    `start` is the command of the project's server. On a worker, it is the relay of the session.
    Raises `UsageError` if the project has no such session, or that session no such server.
    """
    folder = session_folder(root, session_id)
    try:
        data = b"" if folder is None else (folder / MCP_CONFIG).read_bytes()
        servers = json.loads(data)["mcpServers"]
    except (OSError, ValueError, LookupError) as error:
        text = f'this shell belongs to the session "{plain(session_id)}"'
        raise UsageError(
            f'{text}, which does not belong to the project in "{root}"',
            "run the command in your own terminal",
        ) from error
    if kit not in servers:
        raise UsageError(
            f'the session "{plain(session_id)}" has no server of the kit "{kit}"',
            suggestion(kit, servers, "its kits"),
        )
    words = [str(word) for word in servers[kit]["args"]]
    if kit not in words:
        return (str(servers[kit]["command"]), *words)
    return (*start, kit, *words[words.index(kit) + 1 :])


@contextmanager
def server_options(
    root: Path,
    work_tree: Path,
    policy: Policy,
    request: Request,
    sandbox: Mapping[str, Any] | None = None,
) -> Iterator[tuple[str, Options]]:
    """The session and the options of servers for one call in a work tree, until they have started.

    Rows made by a call with every tool are on record as the user's, others as an agent's. `sandbox`
    has the rules for commands that the server runs.

    Raises `UsageError` and `ProjectError` as a session of the request would.
    """
    hidden = _manifest(root)["schema"]["hide"]
    with open_rows(root, has_tasks=KIT in policy.kits) as rows:
        subject = decide_subject(policy, request, rows)
        made_for = project_facts(root, work_tree, rows.identity(hidden))
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = f"call-{moment}-{os.urandom(4).hex()}"
    facts = context_facts(policy, subject, request.kits or policy.kits, name, made_for)
    facts |= {"user": BY_COMMAND} if policy.profile(subject.base) == FULL else {}
    facts |= {"sandbox": sandbox} if sandbox is not None else {}
    facts |= {"as_read": asdict(request.as_read)} if request.as_read is not None else {}
    text = json.dumps(facts).encode()
    with TemporaryDirectory(prefix="ralphgen-") as folder:
        path = Path(folder, "context.json")
        path.write_bytes(text)
        yield name, ("--context", str(path), "--sha256", sha256_hex(text))


def _manifest(root: Path) -> dict[str, Any]:
    manifest: dict[str, Any]
    manifest = json.loads((root / FOLDER / "manifest.json").read_bytes())
    return manifest


def _policy(module: ast.Module) -> Policy:
    """Return the policy that the last statement of a module makes.

    Raises `TypeError`, `ValueError` or `LookupError` for a module of another form.
    """
    emitted = module.body[-1]
    if not isinstance(emitted, ast.Assign):
        raise TypeError
    named = _keywords(emitted.value)
    recipes = {
        str(ast.literal_eval(name)): Recipe(
            **{key: ast.literal_eval(value) for key, value in _keywords(recipe).items()}
        )
        for name, recipe in _items(named.pop("recipes"))
    }
    return Policy(recipes=recipes, **{key: ast.literal_eval(value) for key, value in named.items()})


def _keywords(call: ast.expr) -> dict[str, ast.expr]:
    """Return the keyword arguments of a call; raises `TypeError` for anything else."""
    if not isinstance(call, ast.Call) or call.args:
        raise TypeError
    return {str(word.arg): word.value for word in call.keywords}


def _items(mapping: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if not isinstance(mapping, ast.Dict):
        raise TypeError
    for key, value in zip(mapping.keys, mapping.values, strict=True):
        if key is not None:
            yield key, value


@contextmanager
def open_server(
    place: ProjectPlace,
    kit: str,
    tool: str,
    request: Request | None,
    *,
    trust_edited: bool,
    say: Say,
    apart: bool = False,
    sandbox: Mapping[str, Any] | None = None,
) -> Iterator[ServerConnection]:
    """A connection to the server of a kit in a project, which works on the given place.

    The server has the `tool`. A server that runs `apart` does not receive this terminal's Ctrl-C.
    The commands that it runs are contained by the rules of a `sandbox`, if there is one.

    Without a `request`, the connection has the user's own rights; below `ralphgen launch`, it has
    those of the launched session. Raises `UsageError` for a request below `ralphgen launch`, and
    for a kit or a tool that the project does not have. Also raises the errors of creating a
    session.
    """
    root, session_id = place.root, launched_session()
    if session_id and request is not None:
        raise UsageError(
            f'this shell can use only the tools of its session "{plain(session_id)}"',
            "omit --recipe, --task, --feature and --discipline",
        )
    start = server_command(root, [kit], trust_edited=trust_edited, say=say)
    policy = read_policy(root, trust_edited=trust_edited)
    refuse_unknown(root, policy, kit, tool)
    if session_id:
        with ServerConnection(own_server(root, session_id, kit, start), kit) as connection:
            yield connection
        return
    trusting = (TRUST_EDITED,) if trust_edited else ()
    wanted = request or Request(FULL)
    with server_options(root, place.work_tree, policy, wanted, sandbox) as (name, options):
        connection = ServerConnection((*start, kit, *trusting, *options), kit, apart=apart)
        connection.session = name
    with connection:
        yield connection


def refuse_unknown(root: Path, policy: Policy, kit: str, tool: str) -> None:
    """Raise `UsageError` for a kit or a tool that the project in `root` does not have."""
    if kit == TASKS and kit not in policy.kits:
        raise no_tasks(policy.kits)
    if kit not in policy.kits:
        hint = suggestion(kit, policy.kits, "the kits", "ralphgen tools")
        raise UsageError(f'this project has no kit "{kit}"', hint)
    if not policy.knows(kit, tool):
        names = sorted(policy.allowed(FULL, kit))
        hint = suggestion(tool, names, "the tools", "ralphgen tools")
        if not names:
            from ralphgen.kits.registry import hint_without_tools

            hint = hint_without_tools(root)
        raise UsageError(f'the kit "{kit}" has no tool "{tool}"', hint)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


_READER = JsonReader(constant=_refuse_constant, real=parse_number)


def from_json(text: str) -> dict[str, Any]:
    """Return the object that a text spells; raises `UsageError` for anything else."""
    hint = """pass an object, such as '{"id": 7}'"""
    try:
        found = _READER.read(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the arguments are not valid JSON: {plain(str(error))}", hint) from error
    if not isinstance(found, dict):
        raise UsageError("the arguments are not a JSON object", hint)
    return found


def from_words(words: Sequence[str]) -> dict[str, str]:
    """Return the values of `key=value` words, as text; raises `UsageError` for any other word."""
    given: dict[str, str] = {}
    for word in words:
        key, sign, text = word.partition("=")
        if not sign or not key:
            raise UsageError(f'invalid argument "{plain(word)}"', "write arguments as key=value")
        if key in given:
            raise UsageError(
                f'duplicate argument "{plain(key)}"', """write a list as key='["a"]'"""
            )
        given[key] = text
    return given


def typed(given: Mapping[str, str], properties: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values of texts, with the types of the input schema.

    A text for another type is read as JSON. Invalid JSON is passed on as text: the server refuses
    it and names the expected type.
    """
    return {key: _value(text, properties.get(key)) for key, text in given.items()}


def _value(text: str, rule: Mapping[str, Any] | None) -> Any:
    if rule is None or "string" in _types(rule) or text in rule.get("enum", ()):
        return text
    try:
        return _READER.read(text)
    except (ValueError, RecursionError):
        return text


def _types(rule: Mapping[str, Any]) -> Sequence[str]:
    kind = rule.get("type", [])
    return [kind] if isinstance(kind, str) else kind


COLUMN = re.compile(r'column "(.+)"')
MISSING = re.compile(r'argument "([a-z_]+)" is missing')
UNPROVED = re.compile(r"task (\d+) is not done: ")
CALL = re.compile(
    r": (?:call run_checks(?: with task \d+)?, then set it to done|ask the user to run .*)$"
)
Record = dict[str, Any]
Properties = Mapping[str, Mapping[str, Any]]
"""The arguments of a tool, with their schemas."""


class RefusalError(RalphgenError):
    """A tool refuses the request (exit code 1)."""


class RowTools:
    """The tools on the project's rows, as the user or as the session that this shell belongs to."""

    def __init__(self, server: ServerConnection) -> None:
        self._server = server

    def ask(self, tool: str, **arguments: object) -> Record:
        """Return a tool's answer; raise `RefusalError` for a refusal."""
        answer = self._server.call(tool, arguments)
        if answer.refused:
            raise refusal(answer.text)
        found: Record = json.loads(answer.text)
        return found

    def tools(self) -> Mapping[str, Record]:
        """Return the input schema of each tool, by its name."""
        return {one["name"]: one["inputSchema"] for one in self._server.tools()}

    def properties(self, tool: str) -> Properties:
        """Return the arguments of a tool, with their schemas; empty if the tool is missing."""
        found: Properties = self.tools().get(tool, {}).get("properties", {})
        return found

    def pages(self, tool: str, **arguments: object) -> Iterator[Record]:
        """Yield the answers of a tool that lists, page by page."""
        answer = self.ask(tool, **arguments)
        yield answer
        while "next_cursor" in answer:
            answer = self.ask(tool, **arguments, cursor=answer["next_cursor"])
            yield answer

    def set_status(
        self, task: int, new: str, words: Mapping[str, str], *, force: bool = False
    ) -> Record:
        """Set a task's status; return the tool's answer.

        `words` are its `reason`, `summary` and `because`, as far as given. `force` ends a claim,
        and with `because` a task is closed without proof. Raises `UsageError` if one of them
        requires the other, and `RefusalError` for a refusal.
        """
        said: dict[str, object] = {name: text for name, text in words.items() if text}
        because = "because" in said
        if because and not force:
            raise UsageError('"--because" requires "--force"', "pass both, or neither")
        known = self.properties("set_task_status") if force else {}
        if because and "because" not in known:
            text = "no checks are configured, so closing a task needs no reason"
            raise UsageError(text, "leave out --force and --because")
        if because and "summary" in known:
            said.setdefault("summary", "Closed by the user.")  # the server adds the reason
        if force and not because and "force" not in known:
            raise UsageError('"--force" requires "--because" here', "pass both, or neither")
        if "force" in known:
            said["force"] = True
        return self.ask("set_task_status", id=task, status=new, **said)

    def comment(self, task: int, body: str, *, author: str = "", priority: str = "") -> Record:
        """Add a comment to a task; the default author is the user of the system."""
        given: Record = {"task_id": task, "body": body}
        if author or "author" in self.properties("add_task_comment"):
            given["author"] = author or login_name()
        if priority:
            given["priority"] = priority
        return self.ask("add_task_comment", **given)


def stored_column(name: str, rule: Mapping[str, Any]) -> str:
    """Return the column that an argument sets, from its schema: its name may be illegal there."""
    found = COLUMN.fullmatch(str(rule.get("description", "")))
    return found[1] if found else name


def refusal(text: str) -> RalphgenError:
    """Return the error for a refusal, line by line, with the command that lists valid values."""
    lines = text.splitlines() or ["refused"]
    return RefusalError.of([Problem(CALL.sub("", line), _hint(line)) for line in lines])


def _hint(line: str) -> str:
    if unproved := UNPROVED.match(line):
        check = f'run "ralphgen task check {unproved[1]}"; ' if CALL.search(line) else ""
        force = "" if launched_session() else "to close it anyway: --force --because REASON"
        return f"{check}{force}".removesuffix("; ")
    if missing := MISSING.match(line):
        name = missing[1]
        listing = (
            f'; "ralphgen {name} list" lists them' if name in ("feature", "discipline") else ""
        )
        return f'give it with "--{name.replace("_", "-")}"{listing}'
    kinds = [kind for kind in ("task", "feature", "discipline") if f"there is no {kind} " in line]
    if kinds and line.endswith(": there is none yet"):
        return f'add one with "ralphgen {kinds[0]} add"'
    return f'"ralphgen {kinds[0]} list" lists them' if kinds else ""


def login_name() -> str:
    """Return the name of the user in the system."""
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return "human"
