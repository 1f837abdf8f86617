"""The environment of started processes."""

import html
import json
import os
import shlex
import shutil
import subprocess
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from ralphgen.runtime.processes import Tail
from ralphgen.runtime.processes.secrets import (
    MASK,
    Masker,
    is_secret,
    masked,
    masked_arguments,
    masked_server,
    passed_on,
)

CONFIG = {"http": {"key_env": "SHOP_KEY"}, "postgresql": {"dsn_env": "SHOP_DSN"}}
USUAL = ("RALPH_KEY", "RALPH_DSN", "RALPH_ADMIN_DSN", "RALPH_TOKEN")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (*USUAL, "SHOP_KEY", "SHOP_DSN", "SHOP"):
        monkeypatch.setenv(name, "secret")
    (tmp_path / "project.json").write_text(json.dumps({"config": CONFIG}), encoding="utf-8")
    return tmp_path


def test_started_processes_get_no_key(folder: Path) -> None:
    found = passed_on(str(folder))

    assert not {*USUAL, "SHOP_KEY", "SHOP_DSN"} & found.keys()
    assert {"SHOP", "PATH"} <= found.keys()


def test_an_agent_has_the_variables_that_open_the_database(folder: Path) -> None:
    found = passed_on(str(folder), to_agent=True)

    assert "SHOP_DSN" in found
    assert not {*USUAL, "SHOP_KEY"} & found.keys()


@pytest.mark.parametrize("text", ["", "[]", '{"config": []}', '{"config": {"http": 1}}'])
def test_the_usual_names_are_always_withheld(folder: Path, text: str) -> None:
    (folder / "project.json").write_text(text, encoding="utf-8")

    assert not {*USUAL} & passed_on(str(folder)).keys()
    assert "SHOP" in passed_on(str(folder / "nowhere"))


def with_list(folder: Path, *names: str) -> None:
    facts = {"config": {**CONFIG, "environment": {"variables": names}}}
    (folder / "project.json").write_text(json.dumps(facts), encoding="utf-8")


def test_only_listed_and_standard_variables_pass_with_a_list(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standard = ("PATH", "HOME", "LANG", "LC_ALL", "LANGUAGE", "https_proxy", "NO_PROXY", "GOPATH")
    for name in (*standard, "JAVA_HOME", "MINE", "OTHER", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "x")
    with_list(folder, "MINE", "RALPH_KEY")
    found = passed_on(str(folder))

    assert {*standard, "JAVA_HOME", "MINE"} <= found.keys()
    assert not {"OTHER", "SHOP", "ANTHROPIC_API_KEY", *USUAL, "SHOP_DSN"} & found.keys()


def test_an_agent_keeps_its_own_variables_with_a_list(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "x")
    with_list(folder)
    found = passed_on(str(folder), to_agent=True, also=["ANTHROPIC_*"])

    assert {"ANTHROPIC_API_KEY", "SHOP_DSN", "PATH"} <= found.keys()
    assert not {"OPENAI_API_KEY", "SHOP", *USUAL} & found.keys()


VALUE = "aB3$k'q\"z/+ü9"
SECRET = (
    *("MY_PASS", "DB_PASS", "DBPASS", "SSHPASS", "PASS", "DB_PASS2", "db_pass", "MY_PASSWD"),
    *("DB_PWD", "MYSQL_PWD", "APPPWD", "DB_PW", "MY_PASSWORD", "PGPASSWORD", "dbPassword"),
    *("GPG_PASSPHRASE", "LOGIN_PASSCODE", "KEY", "API_KEY", "APIKEY", "OPENAI_APIKEY", "apiKey"),
    *("SIGNING_KEYS", "SECRET_KEY_BASE", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
    *("GITHUB_TOKEN", "GITHUB_TOKEN_2", "TOKEN_PROD", "npm_config__authToken", "GITHUB_PAT"),
    *("CLIENT_SECRET", "DB_SECRETS", "CREDENTIALS", "X_CREDENTIAL", "X_CREDS", "BASIC_AUTH"),
    *("AUTHORIZATION", "BEARER", "APP_JWT", "SENTRY_DSN", "DB_CONNECTION_STRING", "CONNSTR"),
    *("ConnectionString", "SESSION_COOKIE", "PRIVATE_PEM", "SLACK_WEBHOOK_URL", "MY_OTP"),
    *("MYSQL_ROOTPW", "STRIPE_SK", "STORAGE_SAS", "PASSWORD_SALT", "RSA_PRIVATE", "MAX_TOKEN"),
    *("MAX_DB_PASS", "AUTH_LIMIT_KEY", "WIFI_PSK", "WALLET_MNEMONIC"),
)
HARMLESS = (
    *("PATH", "HOME", "PWD", "OLDPWD", "LANG", "LC_ALL", "LANGUAGE", "TERM", "HTTP_PROXY"),
    *("AUTHOR", "GIT_AUTHOR_NAME", "SSH_AUTH_SOCK", "XAUTHORITY", "SSH_ASKPASS", "GIT_ASKPASS"),
    *("KEYBOARD", "MONKEY", "COMPASS", "BYPASS_CACHE", "SSH_PUBLIC_KEY", "DB_PASSWORD_FILE"),
    *("TOKENIZERS_PARALLELISM", "AUTH_MODE", "TOKEN_URL", "KEY_PATH", "JAVA_HOME", "GOPATH"),
    *("PATTERN", "COMPASS_DIR", "SECRETARY", "GNOME_KEYRING_CONTROL", "NODE_ENV", "PASSENGERS"),
    *("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "TOKENS_PER_MINUTE", "NUM_KEYS", "PRIVATE_NETWORK"),
    *("SURPASS", "BASALT"),
)


def test_values_of_secret_names_alone_are_masked() -> None:
    for name in SECRET:
        assert f"is {MASK}." == Masker({name: VALUE}).text(f"is {VALUE}."), name
    for name in HARMLESS:
        assert not is_secret(name), name
        assert VALUE == Masker({name: VALUE}).text(VALUE), name


@pytest.mark.parametrize(
    "value", ["", "1", "true", "12345", "disabled", "required", "/usr/bin", "  "]
)
def test_short_values_settings_and_paths_are_unchanged(value: str) -> None:
    assert f"a {value} b" == Masker({"MY_AUTH": value}).text(f"a {value} b")


@pytest.mark.parametrize(
    "spell",
    [
        json.dumps,
        lambda value: json.dumps(value, ensure_ascii=False),
        repr,
        ascii,
        html.escape,
        lambda value: html.escape(value, quote=False),
        shlex.quote,
        quote,
        lambda value: quote(value, safe=""),
        quote_plus,
        lambda value: value.encode().hex(),
        lambda value: b64encode(value.encode()).decode(),
        lambda value: urlsafe_b64encode(value.encode()).decode(),
        lambda value: b64encode(f"u:{value}".encode()).decode(),
        lambda value: b64encode(f"me:{value}".encode()).decode(),
        lambda value: b64encode(f"{value}:x".encode()).decode(),
    ],
)
def test_usual_spellings_of_a_value_are_masked(spell: Callable[[str], str]) -> None:
    spelled = spell(VALUE)
    text = Masker({"MY_PASS": VALUE}).text(f"a {spelled} b")

    assert MASK in text
    assert VALUE not in text
    assert len(text) < len("a *** b") + 10  # the letters at the ends of base64 remain


@pytest.mark.slow
@pytest.mark.parametrize(
    "script", ["printf '%q' \"$MY_PASS\"", "export -p", "set", "set -x; : $MY_PASS"]
)
def test_spellings_of_a_shell_are_masked(script: str) -> None:
    environment = {"MY_PASS": VALUE, "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [shutil.which("bash") or "", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    text = Masker({"MY_PASS": VALUE}).text(done.stdout + done.stderr)

    assert MASK in text
    assert not any(part in text for part in ("aB3", "ü9"))


@pytest.mark.parametrize(
    ("variable", "value", "secret"),
    [
        ("DATABASE_URL", "postgres://u:hunter2!@h/db", "hunter2!"),
        ("DATABASE_URL", "postgres://u:hunter%402@h/db", "hunter@2"),
        ("DATABASE_URL", "postgres://u:hunter@22@h/db", "hunter@22"),
        ("DATABASE_URL", "postgres://u:hunter/22@h/db", "hunter/22"),
        ("REPO", "https://ghp_0123456789abcdef@github.com/a/b", "ghp_0123456789abcdef"),
        ("HTTP_PROXY", "http://u:hunter2!@proxy:8080", "hunter2!"),
        ("STORAGE", "Server=x;User Id=u;Password=hunter2!;Pooling=true", "hunter2!"),
        ("STORAGE", "host=x password='hunter 2' dbname=y", "hunter 2"),
        ("STORAGE", "https://x/y?a=b&access_token=hunter2!", "hunter2!"),
        ("STORAGE", json.dumps({"a": [{"private_key": "one1one\ntwo2two"}]}), "two2two"),
        ("GIT_CONFIG_VALUE_0", "AUTHORIZATION: basic dXNlcjpodW50ZXIy", "dXNlcjpodW50ZXIy"),
        ("CURL_OPTIONS", "-H 'Authorization: Bearer hunter2!'", "hunter2!"),
        ("NOTES", "use ghp_0123456789abcdef", "ghp_0123456789abcdef"),
        ("MY_KEY", "one1one\ntwo2two\n", "two2two"),
        ("MY_KEY", "one1one\\ntwo2two", "two2two"),
    ],
)
def test_secret_within_a_value_is_masked(variable: str, value: str, secret: str) -> None:
    assert f"is {MASK}" == Masker({variable: value}).text(f"is {secret}")


@pytest.mark.parametrize(
    ("values", "text", "expected"),
    [
        (["abcdef12", "ef123456"], "x abcdef123456 y", "x *** y"),
        (["abcdef12", "abcdef123456"], "abcdef123456 abcdef12", "*** ***"),
        (["abcdef12", "cdef"], "abcdef12 cdef", "*** cdef"),
        (["ab.*[(x", "a\nbcdef12\nghijkl"], "ab.*[(x bcdef12 abXXX", "*** *** abXXX"),
    ],
)
def test_values_that_overlap_are_masked_whole(values: list[str], text: str, expected: str) -> None:
    variables = {f"TOKEN_{at}": value for at, value in enumerate(values)}

    assert expected == Masker(variables).text(text)


def test_url_without_password_is_unchanged() -> None:
    url = "postgres://user@host:5432/database"

    assert url == Masker({"DATABASE_URL": url, "HTTP_PROXY": "http://proxy:3128"}).text(url)
    assert "http://proxy:3128" == Masker({"HTTP_PROXY": "http://proxy:3128"}).text(
        "http://proxy:3128"
    )


def test_password_in_a_url_that_no_variable_holds_is_masked() -> None:
    assert "see http://me:***@x/ and a@b" == Masker({}).text("see http://me:p@ss@x/ and a@b")


def test_rest_of_a_value_that_was_cut_off_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASS", "correct-horse-battery")
    tail = Tail(20)
    tail.add(b"it is correct-hor")
    tail.add(b"se-battery: wrong")

    assert tail.cut
    assert "***: wrong" == masked(tail.text(), cut=tail.cut)


def test_strings_of_a_json_value_are_masked() -> None:
    found = Masker({"MY_PASS": "hunter2"}).value({"a": ["hunter2", 2, None], "hunter2": True})

    assert {"a": ["***", 2, None], "***": True} == found


def test_long_values_take_no_time_that_grows_with_their_square(tmp_path: Path) -> None:
    long = "word-" * 100_000

    assert "x" == Masker({"A": long, "B": "://" * 1_000, "C": str(tmp_path)}).text("x")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--token=abc", "--port=1"], ["--token=***", "--port=1"]),
        (["--token", "abc", "next"], ["--token", "***", "next"]),
        (["--api-key", "abc"], ["--api-key", "***"]),
        (["--apikey:abc"], ["--apikey:***"]),
        (["-p", "abc"], ["-p", "***"]),
        (["-phunter2", "-path"], ["-p***", "-path"]),
        (["-u", "me:abc"], ["-u", "me:***"]),
        (["-e", "API_KEY=abc", "-e", "MODE=fast"], ["-e", "API_KEY=***", "-e", "MODE=fast"]),
        (["postgres://me:a/b@db/x"], ["postgres://***@db/x"]),
        (["--url=https://x/mcp?token=a&b=c#d"], ["--url=https://x/mcp?token=***&b=***#***"]),
        (["https://x/s/ODk3YmQ4NGEtZDhmMi00/mcp"], ["https://x/s/***/mcp"]),
        (["--header", "X-Api-Key: a b"], ["--header", "X-Api-Key: ***"]),
        (["--header=Authorization: Bearer abc"], ["--header=Authorization: Bearer ***"]),
        (["Bearer", "abc"], ["Bearer", "***"]),
        (["ghp_0123456789abcdef"], ["***"]),
        (["sk-ant-api03-abcdef"], ["***"]),
        (["AKIAIOSFODNN7EXAMPLE"], ["***"]),
        (["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"], ["***"]),
        (["-c", "TOKEN=a run --key 'b c' --n 1"], ["-c", "TOKEN=*** run --key '***' --n 1"]),
        (['{"apiKey": "abc", "n": "1"}'], ['{"apiKey": "***", "n": "1"}']),
        (["--dsn=Server=x;Password=abc"], ["--dsn=***"]),
    ],
)
def test_credentials_in_arguments_are_masked(arguments: list[str], expected: list[str]) -> None:
    assert expected == masked_arguments(arguments)
    assert expected == masked_arguments(expected)


@pytest.mark.parametrize(
    "arguments",
    [
        ["-y", "@scope/package@1.2.3", "/srv/shop/project", "--port", "8080"],
        ["run", "-v", "/a:/b", "image@sha256:0123", "8080:80", "C:\\tools"],
        ["--max-tokens", "100", "--token-file", "/run/token", "--auth=required"],
        ["http://localhost:3000/@scope/x", "git@github.com:me/it.git"],
        ["--token", "--verbose", "--mode=token", "sk-learn"],
        [],
    ],
)
def test_other_arguments_are_unchanged(arguments: list[str]) -> None:
    assert arguments == masked_arguments(arguments)


def test_every_value_of_environment_and_headers_is_masked_and_no_key() -> None:
    server = {
        "name": "token",
        "type": "http",
        "url": "https://x/mcp",
        "env": {"MODE": "fast"},
        "headers": {"X": "1"},
        "oauth": {"clientSecret": "abc", "scope": "read"},
        "timeout": 3,
    }

    assert {
        **server,
        "env": {"MODE": "***"},
        "headers": {"X": "***"},
        "oauth": {"clientSecret": "***", "scope": "read"},
    } == masked_server(server)
