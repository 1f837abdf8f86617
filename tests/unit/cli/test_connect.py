"""`ralphgen connect` writes files for clients, `check` compares them, `regen` rewrites them."""

import json
import shlex
from pathlib import Path
from shutil import copytree, rmtree

import pytest
from command_line import (
    RALPHGEN,
    initialized,
    open_folder,
    ralphgen,
    ran,
    refused,
    run_sql,
    snapshot,
    texts,
)
from proved_projects import git

from ralphgen.emit.clients import CLIENTS, ClientEntries

pytestmark = pytest.mark.slow

SKILLS = ".claude/skills"
RALPH, DELA = f"{SKILLS}/ralph-project", f"{SKILLS}/dela-tasks"
OURS = (".gitattributes", ".gitignore", "SKILL.md", "manifest.json", "references/tool-guide.md")
RISK = "ALTER TABLE tasks ADD COLUMN risk TEXT CHECK (risk IN ('low', 'high'))"
KINDS = ("--skills", "--subagents", "--plugin", "--agents-md")
UP_TO_DATE = "the server is up to date\n"
NOT_ON_PATH = 'warning: "ralphgen" is not on PATH, and MCP clients need it there\n'


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return initialized(tmp_path_factory.mktemp("connect") / "p", "--kit", "dela")


@pytest.fixture
def root(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copied project, and a home and a PATH with nothing of the user's."""
    for name in ("HOME", "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ralphgen").symlink_to(RALPHGEN)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return copytree(project, tmp_path / "p")


def connect(root: Path, *arguments: str) -> tuple[int, str, str]:
    done = ralphgen("connect", *arguments, "--project", root)
    return done.returncode, done.stdout, done.stderr


def create_config(root: Path, *arguments: str) -> Path:
    code, out, said = connect(root, *(arguments or ("claude", "--skills")))
    assert (0, "") == (code, out), said
    return root


def check(root: Path) -> tuple[int, str, str]:
    done = ralphgen("check", root)
    return done.returncode, done.stdout, done.stderr


def regen(root: Path, *arguments: str) -> None:
    ran("regen", "--no-install", *arguments, root)


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text("utf-8") + text, encoding="utf-8")


def test_a_client_gets_the_servers_and_the_recipe_is_named(root: Path) -> None:
    code, out, said = connect(root, "claude")
    servers = json.loads((root / ".mcp.json").read_bytes())["mcpServers"]

    assert (0, "") == (code, out)
    assert "wrote .mcp.json\n" in said
    assert 'clients without a session get the recipe "interactive", which only reads\n' in said
    assert "let them change rows: ralphgen session create yap --default -C" in said
    assert {"ralph", "dela"} == servers.keys()
    assert ("ralphgen", ["serve", "dela"]) == (servers["dela"]["command"], servers["dela"]["args"])
    assert ".mcp.json is up to date\n" in connect(root, "claude")[2]


def test_without_ralphgen_on_path_connect_offers_settings_of_the_user(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert NOT_ON_PATH not in connect(root, "claude")[2]
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    offered = connect(root, "claude")[2].partition(f"{NOT_ON_PATH}hint: ")[2]
    code, _, said = connect(root, "claude", "--user")

    assert shlex.split(offered)[1:] == ["connect", "claude", "--user", "-C", str(root)]
    assert f"{NOT_ON_PATH}hint: pipx " in connect(root, "claude", "--subagents")[2]
    assert (0, False) == (code, NOT_ON_PATH in said)
    (servers,) = json.loads((tmp_path / "home/.claude.json").read_bytes())["projects"].values()
    assert str(RALPHGEN) == servers["mcpServers"]["ralph"]["command"]


def test_settings_of_the_user_are_compared_and_rewritten(root: Path, tmp_path: Path) -> None:
    create_config(root, "cursor", "--user")
    path = tmp_path / "home/.cursor/mcp.json"
    good = path.read_text("utf-8")
    assert (0, "", UP_TO_DATE) == check(root)
    path.write_text(good.replace('"serve"', '"sever"'), encoding="utf-8")

    assert f"(stale: {path})" in check(root)[2]
    regen(root)
    assert json.loads(good) == json.loads(path.read_bytes())


def test_connect_names_a_shared_file_that_a_client_may_prefer(root: Path) -> None:
    warning = "warning: .cursor/mcp.json has the same servers, and cursor may prefer them\n"

    assert warning not in connect(root, "cursor", "--user")[2]
    create_config(root, "cursor")
    assert warning in connect(root, "cursor", "--user")[2]


def test_claude_code_gets_servers_for_the_repository_of_the_project(tmp_path: Path) -> None:
    """It takes the main worktree for the project, also in a directory of a linked one."""
    main, linked = tmp_path / "main", tmp_path / "linked"
    git(tmp_path, "init", "-q", str(main))
    git(main, "commit", "-q", "--allow-empty", "-m", "x")
    git(main, "worktree", "add", "-q", str(linked))
    (linked / "shop").mkdir()

    for root in (main, linked, linked / "shop"):
        keys = ClientEntries("claude", root, [], personal=True).keys
        assert ("projects", str(main), "mcpServers") == keys


@pytest.mark.thorough
def test_recipe_changes_what_clients_without_a_session_get(root: Path) -> None:
    said = connect(root, "claude", "--recipe", "yap")

    assert 0 == said[0], said
    assert 'clients without a session get the recipe "yap"\n' in said[2]
    assert "yap" == json.loads((root / ".ralph/mcp/context.json").read_bytes())["recipe"]
    assert 'no recipe "yapp"' in refused(
        "connect", "codex", "--recipe", "yapp", "--project", root, code=2
    )
    assert not (root / ".codex").exists()


def test_help_lists_the_recipes(root: Path) -> None:
    text = ralphgen("connect", "--help", cwd=root).stdout.partition("Recipes:\n")[2]

    assert {"yap", "manual"} <= {line.split()[0] for line in text.splitlines() if line.strip()}


def test_print_prints_the_texts_that_would_be_written(root: Path) -> None:
    before = snapshot(root)
    code, single, said = connect(root, "claude", "--print")
    several = connect(root, "claude", *KINDS, "--print")[1]

    assert (0, "") == (code, said)
    assert before == snapshot(root)
    create_config(root, "claude")
    create_config(root, "claude", *KINDS)
    assert single == (root / ".mcp.json").read_text("utf-8")
    paths = [line[4:-4] for line in several.splitlines() if line.startswith("==> ")]
    assert several == "".join(
        f"==> {path} <==\n{(root / path).read_text('utf-8')}" for path in paths
    )
    assert {RALPH, DELA, ".claude/agents", ".ralph/plugin", "."} <= {
        parent.as_posix() for path in paths for parent in [Path(path).parent]
    }


def test_of_a_shared_file_only_own_entries_are_printed_and_changed(root: Path) -> None:
    other = {"mcpServers": {"theirs": {"command": "npx", "env": {"TOKEN": "s3cret"}}}}
    (root / ".mcp.json").write_text(json.dumps(other), encoding="utf-8")
    (root / "AGENTS.md").write_text("# Ours\n", encoding="utf-8")
    printed = connect(root, "claude", "--print")[1] + connect(root, "codex", "--agents-md")[1]
    create_config(root, "claude")

    assert "s3cret" not in printed
    assert "s3cret" in (root / ".mcp.json").read_text("utf-8")
    assert (root / "AGENTS.md").read_text("utf-8").startswith("# Ours\n\n<!-- ralphgen: ")
    assert (0, "", UP_TO_DATE) == check(root)


@pytest.mark.thorough
@pytest.mark.parametrize("client", CLIENTS)
def test_check_names_a_changed_entry_of_each_client_and_regen_rewrites_it(
    root: Path, client: str
) -> None:
    create_config(root, client)
    path = ClientEntries(client, root, []).file
    good = path.read_text("utf-8")
    same = check(root)
    path.write_text(good.replace('"serve"', '"sever"'), encoding="utf-8")
    code, out, said = check(root)
    shown = str(path.relative_to(root) if path.is_relative_to(root) else path)

    assert (0, "", UP_TO_DATE) == same
    assert (1, True) == (code, '"serve"' in out)
    assert f"files for clients are out of date (stale: {shown})\n" in said
    assert f"wrote {shown}\n" in ralphgen("regen", "--no-install", root).stderr
    assert (0, "", UP_TO_DATE) == check(root)


@pytest.mark.thorough
def test_check_names_another_command_and_leaves_other_servers_alone(root: Path) -> None:
    path = create_config(root, "claude") / ".mcp.json"
    facts = json.loads(path.read_bytes())
    facts["mcpServers"]["ralph"]["command"] = "evil"
    facts["mcpServers"]["dela"] = {"command": "uv", "args": ["run", "ralphgen", "serve", "dela"]}
    path.write_text(json.dumps(facts), encoding="utf-8")

    assert "(stale: .mcp.json)" in check(root)[2]
    regen(root)
    servers = json.loads(path.read_bytes())["mcpServers"]
    assert ("ralphgen", "uv") == (servers["ralph"]["command"], servers["dela"]["command"])
    assert (0, "", UP_TO_DATE) == check(root)


@pytest.mark.thorough
def test_a_configuration_with_urls_is_compared_with_the_same_urls(root: Path) -> None:
    path = create_config(root, "claude", "--http", "https://mcp.example.com/mcp") / ".mcp.json"
    text = path.read_text("utf-8")

    assert (0, "", UP_TO_DATE) == check(root)
    path.write_text(text.replace("${RALPH_TOKEN}", "x"), encoding="utf-8")
    assert "(stale: .mcp.json)" in check(root)[2]
    regen(root)
    assert text == path.read_text("utf-8")


@pytest.mark.parametrize(
    ("client", "content", "code"),
    [
        ("claude", '{"mcpServers": {"ralph": {"command": "ralphgen"}}} <<<<', 1),
        ("claude", '{"mcpServers": {"ralph": "ralphgen"}}', 0),
        ("claude", '{"mcpServers": []} "other"', 0),
        ("claude", "[" * 9999, 0),
        ("vscode", '{"servers": {"ralph": {"command": "ralphgen"}}} // mine', 0),
        ("windsurf", '{"mcpServers": {"ralph": {"command": "ralphgen"}}}', 0),
    ],
)
def test_a_file_that_is_not_json_counts_if_connect_may_have_written_it(
    root: Path, client: str, content: str, code: int
) -> None:
    path = {
        "claude": root / ".mcp.json",
        "vscode": root / ".vscode/mcp.json",
        "windsurf": root.parent / "home/.codeium/windsurf/mcp_config.json",
    }[client]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    found, _, said = check(root)

    assert code == found
    assert (".mcp.json" in said) is bool(code)


@pytest.mark.thorough
def test_check_has_the_section_of_agents_md_and_regen_keeps_the_rest(root: Path) -> None:
    path = create_config(root, "cursor", "--agents-md") / "AGENTS.md"
    path.write_text(f"# Ours\n\n{path.read_text('utf-8')}more\n", encoding="utf-8")
    same = check(root)
    config = root / ".ralph/ralphgen.toml"
    config.write_text('kits = ["ralph", "rye"]\n', encoding="utf-8")
    code, out, said = check(root)

    assert (0, "", UP_TO_DATE) == same
    assert (1, True) == (code, "+- `rye`: " in out)
    assert "(stale: AGENTS.md)" in said
    regen(root, "--allow-removals")
    text = path.read_text("utf-8")
    assert (True, True) == (text.startswith("# Ours\n\n<!--"), text.endswith("-->\nmore\n"))
    append(path, "<!-- ralphgen: up to here -->\n")
    assert "AGENTS.md" in refused("check", root)


def test_skills_are_written_besides_others_and_then_nothing_more(root: Path) -> None:
    own = root / SKILLS / "mine/SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text("mine\n", encoding="utf-8")
    first = connect(root, "claude", "--skills")
    before = snapshot(root)
    second = connect(root, "claude", "--skills")

    assert (0, "", f"wrote {RALPH} (5 files)\nwrote {DELA} (5 files)\n") == first
    assert (0, "", f"{RALPH} is up to date\n{DELA} is up to date\n") == second
    assert before == snapshot(root)
    assert {"mine/SKILL.md"} | {
        f"{name}/{path}" for name in ("ralph-project", "dela-tasks") for path in (*OURS, ".lock")
    } == texts(root / SKILLS).keys()


@pytest.mark.thorough
def test_edits_are_refused_by_name_the_rest_is_written_and_force_overwrites(root: Path) -> None:
    good = texts(create_config(root) / SKILLS)
    append(root / RALPH / "SKILL.md", "mine\n")
    append(root / DELA / "references/tool-guide.md", "mine\n")
    (root / DELA / "manifest.json").write_text("<<<<<<< ours\n", encoding="utf-8")
    append(root / DELA / "manifest.json", '"ralphgen"\n')
    before = texts(root / SKILLS)
    for command in (("connect", "claude", "--skills", "--project"), ("regen", "--no-install")):
        said = refused(*command, root)
        assert f"{RALPH}/SKILL.md was edited by hand; not overwritten\n" in said
        assert f'"{DELA}/references/tool-guide.md" differs from the generated file' in said
        assert 'discard the edit with "ralphgen regen --force"' in said
        assert before == texts(root / SKILLS)
    regen(root, "--force")
    assert good == texts(root / SKILLS)


def test_a_hand_edited_file_is_a_warning_of_other_commands(root: Path) -> None:
    append(create_config(root) / RALPH / "SKILL.md", "mine\n")
    done = ralphgen("init", "--no-install", root)

    assert 0 == done.returncode
    assert f"warning: {RALPH}/SKILL.md was edited by hand; not overwritten\n" in done.stderr


@pytest.mark.thorough
def test_a_hand_edited_file_does_not_make_the_server_out_of_date(root: Path) -> None:
    append(create_config(root) / RALPH / "SKILL.md", "mine\n")

    assert "out of date" not in ralphgen("task", "list", cwd=root).stderr


def test_a_skill_of_the_users_own_is_in_the_way_and_not_overwritten(root: Path) -> None:
    own = root / RALPH / "SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text("mine\n", encoding="utf-8")
    said = refused("connect", "claude", "--skills", "--project", root)

    assert f'"{RALPH}/SKILL.md" exists, but was not generated; not overwritten\n' in said
    assert "hint: move it to" in said
    assert "mine\n" == own.read_text("utf-8")
    assert (root / DELA / "SKILL.md").exists()
    regen(root, "--force")
    assert "mine\n" == own.read_text("utf-8")


@pytest.mark.thorough
def test_check_shows_what_a_changed_schema_does_to_a_skill(root: Path) -> None:
    create_config(root)
    (root / DELA / "scripts").mkdir()
    (root / DELA / "scripts/own.py").write_text("mine = 1\n", encoding="utf-8")
    same = check(root)
    run_sql(root, RISK)
    before = snapshot(root)
    code, out, said = check(root)
    report = json.loads(ralphgen("check", "--json", root).stdout)

    assert (0, "", UP_TO_DATE) == same
    assert (1, 1) == (code, said.count("error: "))
    assert f"--- a/{RALPH}/references/tool-guide.md\n" in out
    assert "+| `risk` | string |  | `low`, `high` |  |\n" in out
    stale = f"{RALPH}/manifest.json, {RALPH}/references/tool-guide.md"
    assert f"; files for clients are out of date (stale: {stale})\n" in said
    assert {"tasks.py", "tool-guide.md"} <= {Path(path).name for path in report["stale"]}
    assert before == snapshot(root)
    preview = ralphgen("regen", "--dry-run", root).stdout
    regen(root)
    assert preview == out
    assert (0, "", UP_TO_DATE) == check(root)


def test_check_names_edits_alone(root: Path) -> None:
    append(create_config(root) / DELA / "SKILL.md", "mine\n")
    code, out, said = check(root)

    assert (1, True) == (code, "-mine\n" in out)
    assert said.startswith(f"error: files for clients are out of date (edited: {DELA}/SKILL.md)\n")
    assert 'run "ralphgen regen --force" to overwrite them' in said


def test_a_skill_of_a_kit_that_is_off_is_left_alone_and_named(root: Path) -> None:
    create_config(root)
    config = root / ".ralph/ralphgen.toml"
    config.write_text('kits = ["ralph"]\n', encoding="utf-8")
    before = texts(root / DELA)
    said = f'note: {DELA} is for the kit "dela", which is off; delete it, or enable the kit\n'

    assert said in ralphgen("regen", "--no-install", "--allow-removals", root).stderr
    assert (0, "", f"{said}{UP_TO_DATE}") == check(root)
    assert before == texts(root / DELA)


@pytest.mark.parametrize(
    "manifest",
    ["", "[]", "{", "\udc80", '{"kit": "dela"}', '{"ralphgen": 1, "kit": []}', "[" * 9999],
)
def test_the_manifests_of_others_are_nobodys_concern(root: Path, manifest: str) -> None:
    path = root / SKILLS / "other/manifest.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(manifest.encode(errors="surrogateescape"))

    assert (0, "", UP_TO_DATE) == check(root)


def test_a_write_that_was_broken_off_is_named_and_finished(root: Path) -> None:
    good = texts(create_config(root) / SKILLS)
    commit = root / RALPH / ".commit"
    commit.mkdir()
    for name in ("SKILL.md", "manifest.json"):
        (root / RALPH / name).rename(commit / name)

    assert f"missing: {RALPH}/SKILL.md, {RALPH}/manifest.json" in check(root)[2]
    regen(root)
    assert good == texts(root / SKILLS)


def test_a_link_in_place_of_a_skill_is_not_followed(root: Path, tmp_path: Path) -> None:
    (root / SKILLS).mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (root / DELA).symlink_to(tmp_path / "elsewhere")

    assert "leads out of the project" in refused(
        "connect", "claude", "--skills", "-C", root, code=2
    )
    assert [] == list((tmp_path / "elsewhere").iterdir())


def test_a_folder_that_cannot_be_written_is_named(project: Path) -> None:
    with open_folder() as folder:
        root = copytree(project, folder / "p")
        (root / ".claude").mkdir()
        (root / ".claude").chmod(0o555)
        command = ("connect", "claude", "--skills", "--project", root)
        done = ralphgen(*command, without_rights=True)

        assert 1 == done.returncode
        assert "cannot be written: permission denied" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.thorough
def test_subagents_are_not_compared_without_the_database(root: Path) -> None:
    create_config(root, "claude", "--subagents")
    (root / ".ralph/db/ralph.db").unlink()
    code, _, said = check(root)

    assert 0 == code
    assert "warning: .claude/agents is not compared: the database is missing\n" in said


def test_the_same_project_gives_the_same_bytes_in_another_place(root: Path, tmp_path: Path) -> None:
    first = texts(create_config(root) / SKILLS)
    rmtree(root / ".claude")
    moved = root.rename(tmp_path / "q")

    assert first == texts(create_config(moved) / SKILLS)
    assert {"ralphgen", "kit", "files"} == json.loads(first["dela-tasks/manifest.json"]).keys()


GATED = '"command": "ralphgen gate --hook"'


@pytest.mark.parametrize(
    ("client", "path"), [("claude", ".claude/settings.json"), ("codex", ".codex/hooks.json")]
)
def test_the_gate_becomes_a_stop_hook_once(root: Path, client: str, path: str) -> None:
    ran("connect", client, "--gate", "--project", root)
    whole = (root / path).read_text(encoding="utf-8")
    ran("connect", client, "--gate", "--project", root)

    group = {"type": "command", "command": "ralphgen gate --hook", "timeout": 600}
    assert {"hooks": {"Stop": [{"hooks": [group]}]}} == json.loads(whole)
    assert whole == (root / path).read_text(encoding="utf-8")
    assert not (root / ".mcp.json").exists()
    other = whole.replace("gate --hook", "gate --hook --task 7 --tries 1")
    (root / path).write_text(other, encoding="utf-8")
    ran("connect", client, "--gate", "--project", root)
    assert other == (root / path).read_text(encoding="utf-8")
    shown = ralphgen("doctor", "--project", root).stdout
    assert f"the Stop hook in {path} has nothing to prove" in shown


def test_the_gate_keeps_other_hooks_and_settings(root: Path) -> None:
    path = root / ".claude/settings.json"
    path.parent.mkdir(exist_ok=True)
    mine = {"hooks": [{"type": "command", "command": "mine"}]}
    old = {"model": "opus", "hooks": {"PreToolUse": [mine], "Stop": [mine]}}
    path.write_text(json.dumps(old, indent=4), encoding="utf-8")
    ran("connect", "claude", "--gate", "--project", root)

    new = json.loads(path.read_bytes())
    assert [mine] == new["hooks"]["Stop"][:-1]
    assert GATED in json.dumps(new["hooks"]["Stop"][-1])
    new["hooks"]["Stop"].pop()
    assert old == new
    for text in ("[]", '{"hooks": []}', '{"hooks": {"Stop": "x"}}', "{} // comment"):
        path.write_text(text, encoding="utf-8")
        done = ralphgen("connect", "claude", "--gate", "--project", root)
        assert 1 == done.returncode, text
        assert GATED in done.stderr, done.stderr
        assert text == path.read_text(encoding="utf-8")
