"""Settings that start nothing need approval once a change of git permits more."""

import re
from pathlib import Path

import pytest
from command_line import ralphgen
from trusting import at_terminal, braindump, commit_all, configure, pull

pytestmark = pytest.mark.slow

CONFIG, RECIPE = ".ralph/ralphgen.toml", ".ralph/recipes/quick.toml"
STRICT = """kits = ["ralph"]
[http]
url = "https://mcp.good.example/mcp"
id = "1b671a64-40d5-491e-99b0-da01ff1f3341"
[done]
protect = ["tests/**"]
[[done.checks]]
name = "t"
run = ["true"]
[policy.rules]
quick = { never = ["ralph:create_*"] }
[schema]
hide = ["features.architecture"]
[environment]
variables = ["LANG"]
[disciplines.testing]
disable = ["ralph:create_task"]
"""
QUICK = 'base = "opus_review"\nallow = { ralph = ["get_task"] }\n'
CHANGES = {
    "kits": ('kits = ["ralph"]', 'kits = ["ralph", "dela"]'),
    "http.url": ("good.example", "evil.example"),
    "done.protect": ('protect = ["tests/**"]', ""),
    "done.checks": ('[[done.checks]]\nname = "t"\nrun = ["true"]\n', ""),
    "policy.rules": ('quick = { never = ["ralph:create_*"] }', ""),
    "schema.hide": ('"features.architecture"', ""),
    "environment": ('variables = ["LANG"]', ""),
    "disciplines": ('disable = ["ralph:create_task"]', ""),
    "recipe quick": ('allow = { ralph = ["get_task"] }\n', ""),
}


def write(root: Path, config: str, recipe: str = QUICK) -> None:
    (root / CONFIG).write_text(config, encoding="utf-8")
    (root / RECIPE).parent.mkdir(exist_ok=True)
    (root / RECIPE).write_text(recipe, encoding="utf-8")


@pytest.fixture
def strict(pulled: Path) -> Path:
    """A clone whose settings the user has approved."""
    write(pulled.parent / "theirs", STRICT)
    commit_all(pulled.parent / "theirs")
    pull(pulled)
    assert 0 == ralphgen("regen", pulled, "--no-install").returncode
    assert 0 == ralphgen("trust", "-C", pulled, "--yes").returncode
    assert "nothing to approve" in ralphgen("trust", "-C", pulled).stderr
    return pulled


@pytest.mark.parametrize(
    "key", ["done.protect", *(pytest.param(key, marks=pytest.mark.thorough) for key in CHANGES)]
)
def test_a_pulled_change_that_permits_more_is_asked_for(strict: Path, key: str) -> None:
    old, new = CHANGES[key]
    write(strict.parent / "theirs", STRICT.replace(old, new), QUICK.replace(old, new))
    commit_all(strict.parent / "theirs")
    pull(strict)

    assert f"[{key}] of " in ralphgen("trust", "-C", strict).stderr
    assert 0 != braindump(strict)


@pytest.mark.parametrize("edit", ["", "# mine\n"])
def test_regen_in_a_script_approves_no_pulled_change(strict: Path, edit: str) -> None:
    write(strict.parent / "theirs", STRICT.replace('"tests/**"', ""))
    commit_all(strict.parent / "theirs")
    pull(strict)
    configure(strict, edit)
    done = ralphgen("regen", strict, "--no-install", "--allow-removals")

    assert '[done.protect] of .ralph/ralphgen.toml is [], previously ["tests/**"]' in done.stderr
    assert 2 == braindump(strict)


def test_a_pulled_change_that_permits_less_needs_no_approval(strict: Path) -> None:
    write(strict.parent / "theirs", STRICT.replace('["tests/**"]', '["tests/**", "docs/**"]'))
    commit_all(strict.parent / "theirs")
    pull(strict)

    assert "done.protect" not in ralphgen("trust", "-C", strict).stderr


def test_kits_in_another_order_or_fewer_need_no_approval(strict: Path) -> None:
    theirs = strict.parent / "theirs"
    for before, kits in (
        ('["ralph"]', '["ralph", "dela"]'),
        ('["ralph", "dela"]', '["dela", "ralph"]'),
        ('["dela", "ralph"]', '["ralph"]'),
    ):
        text = (theirs / CONFIG).read_text(encoding="utf-8")
        write(theirs, text.replace(before, kits))
        commit_all(theirs)
        pull(strict)
        assert (len(kits) > len(before)) == ("[kits]" in ralphgen("trust", "-C", strict).stderr)
        assert 0 == ralphgen("trust", "-C", strict, "--yes").returncode


def test_a_pulled_new_recipe_is_asked_for(strict: Path) -> None:
    theirs = strict.parent / "theirs"
    (theirs / RECIPE).with_name("fast.toml").write_text('base = "manual"\n', encoding="utf-8")
    commit_all(theirs)
    pull(strict)

    assert "[recipe fast] of .ralph/recipes/fast.toml" in ralphgen("trust", "-C", strict).stderr
    assert 0 == ralphgen("trust", "-C", strict, "--yes").returncode
    assert "nothing to approve" in ralphgen("trust", "-C", strict).stderr


def test_the_users_own_change_needs_no_question_at_a_terminal(strict: Path) -> None:
    write(strict, STRICT.replace('["tests/**"]', '["docs/**"]'))
    said, _ = at_terminal("n", "regen", strict, "--no-install", "--allow-removals")

    assert "y/N" not in said
    assert 0 == braindump(strict)


def test_a_fresh_clone_is_asked_only_for_settings_that_start_something(clone: Path) -> None:
    write(clone, STRICT)
    listed = ralphgen("trust", "-C", clone).stderr

    assert ["environment", "http.url"] == sorted(re.findall(r"  \[(.*?)\] of ", listed))
