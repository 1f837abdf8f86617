"""A discipline's texts, edited on the board, and repairs of values that no session can read."""

import json
from pathlib import Path

import pytest
from board_browsers import Elements, Running, hidden, notice_in, running_board
from board_edits import editable_project, row
from command_line import run_sql
from driving import query

from ralphgen.board.disciplines import LONGEST, without_values

PRIVATE = "swordfish"
BAD = (
    f'[{{"name": "docs", "command": "npx", "env": {{"KEY": "{PRIVATE}"}}',
    f"[{{'name': 'docs', 'env': {{'KEY': '{PRIVATE}', 'B': '{PRIVATE}'}}}}]",
    f'{{"docs": {{"command": "npx", "headers": {{"Authorization": "{PRIVATE}"}}}}}}',
    f'[{{"name": "docs", "token": "{PRIVATE}"}}]',
    f'[{{"name": "docs", "token": "{PRIVATE}',
    f"KEY = {PRIVATE!r}",
    f"TOKEN={PRIVATE}",
    json.dumps(PRIVATE),
    f"{PRIVATE} [",
    f'[{{"name": "docs", "command": "npx", "args": ["--token={PRIVATE}"',
    f'[{{"name": "docs", "command": "npx", "args": ["--token", "{PRIVATE}"',
    f'[{{"name": "docs", "args": ["https://me:{PRIVATE}@docs.example/?key={PRIVATE}"',
    f'[{{"env": {{"A": "x}}y", "B": "{PRIVATE}"}}',
    f'[{{"token": "a\\"b{PRIVATE}", }}]',
    f'[{{"token": "a\n{PRIVATE}", }}]',
    f'[{{"name": "docs", "command": "npx", "env" {{"KEY" "{PRIVATE}"}}}}]',
    f'[{{"name": "docs", "token" "{PRIVATE}"}}]',
    f'[{{"name": "docs", "args": ["-y", {{"KEY" "{PRIVATE}"}}]}}]',
    f'[{{"name": "{PRIVATE}", "command": "{PRIVATE}"}}',
    f'[{{"env": {{"{PRIVATE}": "KEY"}}',
    f'[{{"env": {{"KEY", "{PRIVATE}": }}',
    f"[{{'name': 'docs', 'command' : {PRIVATE}: 'x'",
)


@pytest.mark.parametrize("text", BAD)
def test_of_what_cannot_be_read_no_secret_is_shown(text: str) -> None:
    assert PRIVATE not in without_values(text)


def test_only_known_keys_of_servers_are_shown() -> None:
    text = (
        '[{"name": "docs", "command": "npx", "args": ["-y"], "env": {"KEY": "a b"}, '
        '"type": "http", "url": "x", "headers": {\'swordfish\': 1}, hunter: "command", }]'
    )
    wanted = (
        '[{"name": "_", "command": "_", "args": ["_"], "env": {"_": "_"}, '
        '"type": "_", "url": "_", "headers": {\'_\': _}, _: "_", }]'
    )

    assert wanted.replace("_", "••••") == without_values(text)


@pytest.mark.slow
class TestOnTheBoard:
    """By forms, as a browser without scripts sends them."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        return editable_project(tmp_path / "p")

    @staticmethod
    def form(board: Running) -> str:
        return board.get("project/disciplines/testing")

    def fields(self, board: Running, **changed: str) -> dict[str, str]:
        """The fields of the form that are needed, with some changed ones."""
        html = self.form(board)
        return {"discipline": "testing", "fingerprint": hidden(html, "fingerprint"), **changed}

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("column", "text", "stored"),
        [
            ("description", "Tests\nall of it", "Tests\nall of it"),
            ("system_prompt", "You test. <b>&", "You test. <b>&"),
            ("conventions", "", ""),
            ("skills", "pytest\n hypothesis \n", '["pytest", "hypothesis"]'),
        ],
    )
    def test_each_is_saved_as_it_is_typed(
        self, root: Path, column: str, text: str, stored: str
    ) -> None:
        query(root, "UPDATE disciplines SET conventions = 'old' WHERE name = 'testing'")
        before = row(root)
        with running_board(root) as board:
            sent = {**self.fields(board), "prose": column, column: text}
            outcome = board.act("/project/disciplines/testing", sent)
            html = self.form(board)
        assert column in [one.get("name") for one in Elements(html).of("textarea")]

        assert outcome["ok"], outcome
        assert {**before, column: stored} == row(root)

    @pytest.mark.thorough
    def test_a_column_of_ones_own_is_there_and_a_hidden_one_is_not(self, root: Path) -> None:
        run_sql(
            root,
            "ALTER TABLE disciplines ADD COLUMN persona TEXT",
            "ALTER TABLE disciplines ADD COLUMN private_note TEXT",
            "ALTER TABLE disciplines ADD COLUMN level INTEGER",
            "UPDATE disciplines SET persona = 'calm', private_note = 'nobody reads this'",
        )
        config = root / ".ralph/ralphgen.toml"
        text = config.read_text(encoding="utf-8")
        config.write_text(
            f'{text}[schema]\nhide = ["disciplines.private_note"]\n', encoding="utf-8"
        )
        with running_board(root) as board:
            html = self.form(board)
            sent = {**self.fields(board), "prose": "private_note", "private_note": "x"}
            refused = board.act("/project/disciplines/testing", sent)
        names = {one.get("name") for one in Elements(html).of("textarea")}

        assert names >= {"persona", "description", "system_prompt", "skills", "conventions"}
        assert not names & {"private_note", "level", "name", "color"}
        assert "nobody reads this" not in html
        assert not refused["ok"]
        assert "nobody reads this" == row(root)["private_note"]

    @pytest.mark.thorough
    def test_the_second_of_two_people_is_told_and_loses_nothing(self, root: Path) -> None:
        with running_board(root) as board:
            first = {**self.fields(board), "prose": "conventions", "conventions": "one"}
            second = {**first, "conventions": "two"}
            assert board.act("/project/disciplines/testing", first)["ok"]
            answer = board.post("/project/disciplines/testing", second)

        assert 409 == answer.status
        assert "someone else changed the discipline" in notice_in(answer.text)
        assert "\ntwo</textarea>" in answer.text
        assert "one" == row(root)["conventions"]

    @pytest.mark.thorough
    def test_both_versions_are_shown_and_one_more_save_is_right(self, root: Path) -> None:
        columns = ("description", "conventions", "system_prompt")
        with running_board(root) as board:
            read = self.fields(board)
            texts = {name: str(row(root)[name] or "") for name in columns}
            sent = [*read.items(), *((f"was.{name}", text) for name, text in texts.items())]
            theirs = "conventions = 'one', system_prompt = 'theirs alone'"
            query(root, f"UPDATE disciplines SET {theirs} WHERE name = 'testing'")
            mine = {**texts, "conventions": "two", "description": "mine alone"}
            sent += [*mine.items(), *(("prose", name) for name in columns)]
            answer = board.post("/project/disciplines/testing", sent)
            html = answer.text
            shown = {
                name: html.split(f'name="{name}"')[1]
                .partition(">\n")[2]
                .partition("</textarea>")[0]
                for name in columns
            }
            again = {**read, "fingerprint": hidden(html, "fingerprint")}
            sent = [*again.items(), *shown.items(), *(("prose", name) for name in columns)]
            saved = board.act("/project/disciplines/testing", sent)
        boxes = [one["data-now"] for one in Elements(html).of("div") if "data-now" in one]

        assert 409 == answer.status
        expected = {**mine, "system_prompt": "theirs alone"}
        assert expected == shown
        assert ["conventions"] == boxes
        assert ">one</pre>" in html
        assert saved["ok"], saved
        assert expected == {name: row(root)[name] for name in columns}

    @pytest.mark.thorough
    def test_a_value_that_no_session_can_read_is_shown_and_mended(self, root: Path) -> None:
        query(
            root,
            "UPDATE disciplines SET mcp_servers = ?, mcp_tool_overrides = '{', skills = '[1'"
            " WHERE name = 'testing'",
            BAD[0],
        )
        with running_board(root) as board:
            html = self.form(board)
            sent = [
                *self.fields(board).items(),
                *(("edits", "servers"), ("edits", "disabled"), ("prose", "skills")),
                *(("servers.0.name", "docs"), ("servers.0.command", "docs-server")),
                *(("disabled", ""), ("skills", "pytest")),
            ]
            untouched = board.act("/project/disciplines/testing", self.fields(board))
            left = row(root)
            mended = board.act("/project/disciplines/testing", sent)
            after = self.form(board)
        found = row(root)

        assert "The stored value is invalid" in html
        assert PRIVATE not in html
        assert "put one skill on each line" in html
        assert (True, BAD[0]) == (untouched["ok"], left["mcp_servers"])
        assert mended["ok"], mended
        assert "docs-server" == json.loads(found["mcp_servers"])[0]["command"]
        assert '["pytest"]' == found["skills"]
        assert {"additional_disabled": []} == json.loads(found["mcp_tool_overrides"])
        assert "is invalid" not in after

    @pytest.mark.thorough
    def test_what_is_too_long_or_no_text_is_left_as_it_is(self, root: Path) -> None:
        long = "x" * (LONGEST + 1)
        query(root, "UPDATE disciplines SET system_prompt = ? WHERE name = 'testing'", long)
        with running_board(root) as board:
            html = self.form(board)
            sent = {**self.fields(board), "prose": "system_prompt", "system_prompt": "short"}
            outcome = board.act("/project/disciplines/testing", sent)

        assert "60,001 characters" in html
        assert not outcome["ok"]
        assert long == row(root)["system_prompt"]
