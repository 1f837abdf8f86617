"""Projects with items, spaces next to them, and a user's session of the kit rye on them."""

import atexit
import json
import os
import shutil
import subprocess
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from driving import Driver, Era, context_for, create_project, on_context, server_command, started
from wire import Wire

from ralphgen.kits.rye.server.spaces import BUILT_IN
from ralphgen.kits.rye.server.values import placeholders
from ralphgen.kits.rye.server.workspace import user_space

KITS = 'kits = ["rye"]\n'
MOST = 40_000  # characters of an answer
TYPES = ("directive", "tool", "knowledge")
FOLDERS = {"directive": "directives", "tool": "tools", "knowledge": "knowledge"}
EXTENSIONS = {"directive": ".md", "tool": ".py", "knowledge": ".md"}
SUBPROCESS = "rye/core/primitives/subprocess"
HTTP_CLIENT = "rye/core/primitives/http_client"
PYTHON_RUNTIME = "rye/core/runtimes/python_runtime"
SYSTEM_ITEMS = {
    "directive": ("rye/create_directive", "rye/create_knowledge", "rye/create_tool"),
    "tool": (HTTP_CLIENT, SUBPROCESS, PYTHON_RUNTIME),
    "knowledge": ("rye/directive-format", "rye/knowledge-format", "rye/tool-format"),
}
"""The ids of the items that every server brings, by type."""
ECHO = (
    'def execute(params, project_path):\n    return {"params": params, "project": project_path}\n'
)
INTERNALS = ("Traceback", "Errno", "most recent call", "site-packages", "/runtime/")
"""What only the inside of the server knows, and no refusal may show."""


def directive(item_id: str, *, name: str = "", body: str = "", **parts: str) -> str:
    """A directive that is well-formed under this id.

    `parts` replace `version`, `description`, `author`, `metadata` (more of it), `inputs`, `process`
    and `outputs`, which are XML: without the input `who`, the step names none. `body` follows the
    fence; `name` is another than the id's.
    """
    category, _, stem = item_id.rpartition("/")
    told = {
        "version": "1.0.0",
        "description": f"What {stem} is for",
        "author": "tests",
        "metadata": '<model tier="fast"/><permissions><execute resource="tool"/></permissions>',
        "inputs": '<inputs><input name="who" type="string" required="true">Who</input></inputs>',
        "process": '<process><step name="go"><action>Greet {input:who}</action></step></process>',
        "outputs": '<outputs><output name="greeting">A text</output></outputs>',
        **parts,
    }
    if "process" not in parts and 'name="who"' not in told["inputs"]:
        told["process"] = told["process"].replace("{input:who}", "everybody")
    return f"""\
# {stem}

```xml
<directive name="{name or stem}" version="{told["version"]}">
  <metadata>
    <description>{told["description"]}</description>
    <category>{category}</category>
    <author>{told["author"]}</author>
    {told["metadata"]}
  </metadata>
  {told["inputs"]}
  {told["process"]}
  {told["outputs"]}
</directive>
```
{body}"""


def python_tool(item_id: str, code: str = ECHO, *, schema: object = None, **names: object) -> str:
    """A Python tool that is well-formed under this id and runs `code`, which may be indented.

    `schema` is its CONFIG_SCHEMA; `names` replace the values of `version`, `tool_type`,
    `executor_id`, `category` and `tool_description`, or add one such as `CONFIG`.
    """
    category, _, stem = item_id.rpartition("/")
    values: dict[str, object] = {
        "version": "1.0.0",
        "tool_type": "python",
        "executor_id": PYTHON_RUNTIME,
        "category": category,
        "tool_description": f"What {stem} does",
    }
    plain = {name: value for name, value in names.items() if name.isupper()}
    values.update({name: value for name, value in names.items() if name not in plain})
    if schema is not None:
        plain["CONFIG_SCHEMA"] = schema
    lines = [f"__{name}__ = {value!r}" for name, value in values.items()]
    lines += [f"{name} = {value!r}" for name, value in plain.items()]
    return "\n".join([*lines, "", "", textwrap.dedent(code)])


def yaml_tool(item_id: str, **values: object) -> str:
    """A YAML tool that is well-formed under this id; `values` replace its fields or add some.

    A field that is `...` is left out. Without any, it runs `echo` with its parameter `text`. Unless
    it has a schema, every placeholder is a parameter of any type.
    """
    category, _, stem = item_id.rpartition("/")
    fields: dict[str, object] = {
        "tool_type": "script",
        "version": "1.0.0",
        "executor_id": SUBPROCESS,
        "category": category,
        "description": f"What {stem} does",
        "config": {"command": "echo", "args": ["{text}"]},
        **values,
    }
    if not {"config_schema", "parameters"} & fields.keys():
        named = sorted({*placeholders(fields["config"])} - {*BUILT_IN})
        if named:
            fields["config_schema"] = {"type": "object", "properties": {name: {} for name in named}}
    told = {name: value for name, value in fields.items() if value is not ...}
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in told.items())


def knowledge(item_id: str, body: str = "", *, fenced: bool = False, **values: object) -> str:
    """Return a well-formed entry with this id; `values` replace fields of its front matter.

    A field that is `...` is left out; with `fenced`, the fields are in a block of YAML.
    """
    category, _, stem = item_id.rpartition("/")
    fields: dict[str, object] = {
        "id": stem,
        "title": f"On {stem}",
        "version": "1.0.0",
        "entry_type": "reference",
        "category": category,
        "tags": ["sample"],
        **values,
    }
    told = "".join(
        f"{name}: {json.dumps(value)}\n" for name, value in fields.items() if value is not ...
    )
    text = body or f"# On {stem}\n\nWhat was learned.\n"
    return f"# {stem}\n\n```yaml\n{told}```\n\n{text}" if fenced else f"---\n{told}---\n\n{text}"


def well_formed(item_type: str, item_id: str) -> str:
    """The text of an item of a type that may be signed under this id."""
    if item_type == "directive":
        return directive(item_id)
    return python_tool(item_id) if item_type == "tool" else knowledge(item_id)


class Rye:
    """A session on a project, with a user space next to it."""

    def __init__(self, folder: Path, root: Path, driver: Driver) -> None:
        """Calls the tools through `driver`; `folder` holds everything, `root` is the project."""
        self.folder = folder
        self.root = root
        self.driver = driver
        self.project = root / ".ai"
        self.user = folder / "user" / ".ai"
        self.system = root / ".ralph" / "mcp" / "rye" / "system"

    def put(
        self,
        item_type: str,
        item_id: str,
        text: str | bytes = "",
        *,
        space: str = "project",
        extension: str = "",
    ) -> Path:
        """Write an item, by default a well-formed one. Returns its file."""
        path = self.file(item_type, item_id, space=space, extension=extension)
        return put(path, text or well_formed(item_type, item_id))

    def file(
        self, item_type: str, item_id: str, *, space: str = "project", extension: str = ""
    ) -> Path:
        """Return the path of an item's file."""
        folder = {"project": self.project, "user": self.user, "system": self.system}[space]
        name = item_id + (extension or EXTENSIONS[item_type])
        return folder / FOLDERS[item_type] / name

    def ask(self, tool: str, **arguments: Any) -> tuple[bool, dict[str, Any]]:
        """Return whether a call failed, and its answer, which must be presentable to users.

        The project is the session's own, unless `project_path` names another or is None.
        """
        given = arguments if tool == "help" else {"project_path": str(self.root), **arguments}
        given = {name: value for name, value in given.items() if value is not None}
        failed, text = self.driver.ask(tool, given)
        assert len(text) <= MOST
        answer: dict[str, Any] = json.loads(text)
        assert failed == (answer["status"] == "error"), text
        if failed:
            assert [] == [word for word in INTERNALS if word in text], text
        return failed, answer

    def says(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """An answer that must be no failure."""
        failed, answer = self.ask(tool, **arguments)
        assert not failed, answer
        return answer

    def refuses(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The error of an answer that must be a failure: its code, its message and its facts."""
        failed, answer = self.ask(tool, **arguments)
        assert failed, answer
        error: dict[str, Any] = answer["error"]
        assert isinstance(error["code"], str)
        assert isinstance(error["message"], str)
        return error

    def load(self, item_type: str, item_id: str, **arguments: Any) -> dict[str, Any]:
        """Return the loaded text of an existing item."""
        return self.says("load", item_type=item_type, item_id=item_id, **arguments)

    def run(self, item_type: str, item_id: str, **parameters: Any) -> dict[str, Any]:
        """Return the answer of an item that must run with these parameters."""
        return self.says(
            "execute", item_type=item_type, item_id=item_id, parameters=parameters or None
        )

    def sign(self, item_type: str, item_id: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer to signing an item, which must succeed."""
        return self.says("sign", item_type=item_type, item_id=item_id, **arguments)

    def signed(self, item_type: str, item_id: str, text: str = "", **place: str) -> Path:
        """Write an item to a space and sign it; return its file."""
        path = self.put(item_type, item_id, text, **place)
        self.sign(item_type, item_id, source=place.get("space"))
        return path

    def found(self, query: str, item_type: str = "all", **arguments: Any) -> list[str]:
        """The ids that a search finds, in order."""
        answer = self.says("search", item_type=item_type, query=query, **arguments)
        return [result["id"] for result in answer["results"]]

    def clear(self) -> None:
        """Take the items of the project and of the user away, and the user's keys."""
        for space in (self.project, self.user):
            if space.is_symlink():
                space.unlink()
            shutil.rmtree(space, ignore_errors=True)


def put(path: Path, text: str | bytes) -> Path:
    """Write a file unchanged; create its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rye_project(root: Path, settings: str = "", *, more: str = "") -> Path:
    """Return the real path of a project with the kit rye alone.

    `settings` are lines of its table in the config, `more` are lines after those. It is copied from
    the first project with this config.
    """
    shutil.copytree(_template(f"{KITS}[rye]\n{settings}\n{more}"), root, dirs_exist_ok=True)
    return root.resolve()


@cache
def _template(config: str) -> Path:
    """A project with this config, to be copied."""
    return create_project(_own_folder(), config=config)


@cache
def _bytecode() -> Path:
    """The folder of what servers keep between their starts."""
    return _own_folder()


def _own_folder() -> Path:
    """A new folder, which goes with this process."""
    folder = TemporaryDirectory(prefix="rye-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def variables(folder: Path, **more: str) -> dict[str, str]:
    """Return an environment with a separate home and user space in a folder.

    The servers' caches are shared, since recompiling takes half a second.
    """
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    own = {"HOME": str(home), "USER_SPACE": str(folder / "user")}
    return {**own, "XDG_CACHE_HOME": str(_bytecode()), **more}


def permit(root: Path, environment: Mapping[str, str]) -> None:
    """Permit the settings of a project as its user, unless the user has a policy.

    Tests of items need these permissions.
    """
    config = tomllib.loads((root / ".ralph/ralphgen.toml").read_text(encoding="utf-8"))
    settings = config.get("rye", {})
    named = {name: settings[name] for name in ("policy", "hosts", "env") if name in settings}
    place = Path(user_space(environment.get("USER_SPACE", "")), "rye.toml")
    if named and not place.exists():
        with suppress(OSError):  # a read-only user space
            put(place, permissions(**named)).chmod(0o600)


def permissions(**named: Any) -> str:
    """The text of a user's policy."""
    policy = named.pop("policy", {})
    if not isinstance(policy, str):
        policy = (
            "{" + ", ".join(f"{key} = {json.dumps(word)}" for key, word in policy.items()) + "}"
        )
    else:
        policy = json.dumps(policy)
    lines = [f"policy = {policy}", *(f"{key} = {json.dumps([*v])}" for key, v in named.items())]
    return "\n".join(lines) + "\n"


@contextmanager
def on_server(
    root: Path,
    environment: Mapping[str, str],
    recipe: str = "manual",
    *,
    era: Era = "auto",
    log: Path | None = None,
    permits: bool = True,
    **facts: object,
) -> Iterator[Driver]:
    """A client on the project's server of the kit, with these variables in its environment.

    The user `permits` the settings, or has no policy. `log` is a file for the server's standard
    error.
    """
    if permits:
        permit(root, environment)
    command = server_command(root, "rye", *on_context(context_for(root, recipe, **facts)))
    with (
        (log or Path(os.devnull)).open("a", encoding="utf-8") as errors,
        started(command, root, environment, errors=errors, mode=era) as driver,
    ):
        yield driver


@contextmanager
def session(
    folder: Path,
    root: Path,
    recipe: str = "manual",
    *,
    environment: Mapping[str, str] | None = None,
    era: Era = "auto",
    permits: bool = True,
    **facts: object,
) -> Iterator[Rye]:
    """A session on an existing project; the server's log is `log.txt` in `folder`.

    `environment` overrides the home and the user space in `folder`.
    """
    surroundings = {**variables(folder), **(environment or {})}
    log = folder / "log.txt"
    with on_server(
        root, surroundings, recipe, era=era, log=log, permits=permits, **facts
    ) as driver:
        yield Rye(folder, root, driver)


@contextmanager
def serving(
    folder: Path, recipe: str = "manual", *, settings: str = "", more: str = "", **given: Any
) -> Iterator[Rye]:
    """A session on a new project in `folder`; see `rye_project` and `session`."""
    root = rye_project(folder / "project", settings, more=more)
    with session(folder, root, recipe, **given) as rye:
        yield rye


@contextmanager
def frames(
    root: Path,
    environment: Mapping[str, str],
    recipe: str = "manual",
    *,
    version: str = "2025-11-25",
) -> Iterator[Wire]:
    """The project's server as a bare process that exchanges frames, after the handshake.

    It is killed if it does not end. `version` is that of the protocol.
    """
    permit(root, environment)
    with subprocess.Popen(
        server_command(root, "rye", *on_context(context_for(root, recipe))),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=root,
        encoding="utf-8",
        env={**os.environ, **environment},
    ) as process:
        try:
            wire = Wire(process)
            wire.shake_hands(version)
            yield wire
        finally:
            if process.poll() is None:
                process.kill()
