"""The config: every mistake at once, each with its line and the nearest right name."""

import json
from pathlib import Path

import pytest

from ralphgen.errors import ProjectError
from ralphgen.project.config import FILE, Config, read_config


def write_config(root: Path, data: bytes) -> Path:
    (root / ".ralph").mkdir()
    (root / FILE).write_bytes(data)
    return root


def problems(root: Path, data: bytes) -> list[str]:
    with pytest.raises(ProjectError) as caught:
        read_config(write_config(root, data), ("ralph", "dela"))
    return [str(problem).removeprefix(f"{FILE}:") for problem in caught.value.problems]


@pytest.mark.parametrize("data", [None, b"", b"\xef\xbb\xbf", b"# nothing\r\n"])
def test_an_empty_config_is_the_default(tmp_path: Path, data: bytes | None) -> None:
    root = tmp_path if data is None else write_config(tmp_path, data)

    assert Config() == read_config(root, ("ralph",)).values
    assert ["ralph"] == Config().kits


def test_every_key_is_read_with_any_line_ends(tmp_path: Path) -> None:
    text = (
        '\ufeffkits = ["dela", "ralph"]\r\nstructured_output = true\r\n'
        '[schema]\r\nhide = ["tasks.x"]\r\n[disciplines."a.b"]\r\ndisable = ["get_task"]\r\n'
    )
    values = read_config(write_config(tmp_path, text.encode()), ("ralph", "dela")).values

    assert ["dela", "ralph"] == values.kits
    assert values.structured_output is True
    assert ["tasks.x"] == values.db_schema.hide
    assert ["get_task"] == values.disciplines["a.b"].disable


def test_all_mistakes_are_found_in_the_order_of_their_lines(tmp_path: Path) -> None:
    text = (
        'kitts = ["ralph"]\nstructured_output = 1\n[schema]\nhidden = []\nhide = [\n  "a.b",\n'
        '  false,\n]\n[disciplines.x]\n[disciplines."y z"]\ndisabel = ["q"]\ndisable = [""]\n'
    )

    assert [
        '1: unknown key "kitts"\nhint: did you mean "kits"?',
        '2: "structured_output" is 1, expected "auto", true or false',
        '4: unknown key "schema.hidden"\nhint: did you mean "hide"?',
        '7: "schema.hide[1]" is false, expected a string in quotes',
        '11: unknown key "disciplines.\'y z\'.disabel"\nhint: did you mean "disable"?',
        '12: "disciplines.\'y z\'.disable[0]" is "", expected at least one character',
    ] == problems(tmp_path, text.encode())


def test_without_a_near_key_five_are_listed(tmp_path: Path) -> None:
    listed = "launch, queries, requires, sandbox, structured_output"

    assert [f'1: unknown key "quux"\nhint: the keys include {listed}'] == problems(
        tmp_path, b"quux = 1"
    )


def test_each_unknown_kit_is_named_with_its_line(tmp_path: Path) -> None:
    assert [
        '3: unknown kit "della" in "kits"\nhint: did you mean "dela"?',
        '4: unknown kit "qqqq" in "kits"\nhint: the kits are ralph, dela',
    ] == problems(tmp_path, b'kits = [\n "ralph",\n "della",\n "qqqq"]\n')


def test_a_server_without_a_kit_is_refused(tmp_path: Path) -> None:
    assert ['2: "kits" is empty\nhint: the kits are ralph, dela'] == problems(
        tmp_path, b"\nkits = []\n"
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a = 1\nb = \n", "2: invalid TOML: Invalid value (column 5)"),
        (b"a = [\n1,\n", "2: invalid TOML: "),
        (b"a = 1\na = 2\n", "2: invalid TOML: Cannot overwrite a value"),
        (b"a = 1\nb = '\xff'\n", "2: is not UTF-8\nhint: save it as UTF-8"),
    ],
)
def test_invalid_toml_is_refused_with_its_line(tmp_path: Path, data: bytes, expected: str) -> None:
    (problem,) = problems(tmp_path, data)

    assert problem.startswith(expected)


def test_a_folder_or_a_dangling_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir(parents=True)
    with pytest.raises(ProjectError, match="is a directory, expected a file"):
        read_config(tmp_path, ("ralph",))
    (tmp_path / FILE).rmdir()
    (tmp_path / FILE).symlink_to("nowhere")
    with pytest.raises(ProjectError, match="cannot be read: no such file"):
        read_config(tmp_path, ("ralph",))


@pytest.mark.parametrize("rule", ["--dangerously-skip-permissions", "-p", "-", "a\0b", "a\nb", " "])
def test_a_rule_of_permission_cannot_be_an_option_of_claude_code(tmp_path: Path, rule: str) -> None:
    shown = json.dumps(rule)
    expected = "a one-line permission rule, such as Bash(git *)"

    assert [f'2: "launch.allow[1]" is {shown}, expected {expected}'] == problems(
        tmp_path, f'[launch]\nallow = ["Bash(git -C x *)", {shown}]\n'.encode()
    )


@pytest.mark.parametrize("text", ["chore: {title} (#{task})", "x {{y}}", "a\\n\\nTask: {task}"])
def test_message_of_commits_may_have_both_placeholders(tmp_path: Path, text: str) -> None:
    config = read_config(
        write_config(tmp_path, f'[loop]\nmessage = "{text}"\n'.encode()), ("ralph",)
    )

    assert text.replace("\\n", "\n") == config.values.loop.message


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("setup = [[]]", '"loop.setup[0]" is a list, expected an argument list'),
        ('setup = [[" "]]', '"loop.setup[0]" is a list, expected an argument list'),
        ('copy = ["../.env"]', '"loop.copy[0]" is "../.env", expected a path below the project'),
        *(
            (
                f'message = "{text}"',
                f'"loop.message" is "{text}", expected a commit message with no placeholders',
            )
            for text in ("", " ", "{", "}", "{}", "{number}", "{0}", "{title!r}", "{task:04}")
        ),
        ('remote = "--upload-pack=x"', '"loop.remote" is "--upload-pack=x", expected the name of'),
        ("attempts = 0", '"loop.attempts" is 0, expected greater than or equal to 1'),
        ("agents.x.command = []", '"loop.agents.x.command" is a list, expected an argument list'),
        ('agents.codex.command = ["x"]', "other than claude, codex, gemini"),
        ('agents."-x".command = ["x"]', "expected a name of letters, digits, - and _"),
    ],
)
def test_invalid_loop_settings_are_refused(tmp_path: Path, line: str, problem: str) -> None:
    (found,) = problems(tmp_path, f"[loop]\n{line}\n".encode())

    assert found.startswith("2: ")
    assert problem in found


@pytest.mark.parametrize(
    "url",
    [
        "https://mcp.example.com",
        "https://mcp.example.com/",
        "https://mcp.example.com/mcp/",
        "https://mcp.example.com:70000/mcp",
        "https://mcp.example.com:0/mcp",
        "https://user@mcp.example.com/mcp",
        "https://mcp.example.com/mcp?token=x",
    ],
)
def test_an_address_over_http_has_a_path_and_a_port_that_can_be(tmp_path: Path, url: str) -> None:
    """Without a path a proxy would pass on what is not for others, such as `/metrics`."""
    (problem,) = problems(tmp_path, f'[http]\nurl = "{url}"\n'.encode())

    assert problem.startswith('2: "http.url" is ***, expected a URL with a path')
