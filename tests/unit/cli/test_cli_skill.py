"""`ralphgen skill`: what it prints, writes, refuses and leaves alone."""

import json
from pathlib import Path
from shutil import copytree, rmtree

import pytest
from command_line import initialized, open_folder, ralphgen, refused, run_sql, snapshot, texts

pytestmark = pytest.mark.slow

SKILLS = ".claude/skills"
RALPH, DELA = f"{SKILLS}/ralph-project", f"{SKILLS}/dela-tasks"
OURS = (".gitattributes", ".gitignore", "SKILL.md", "manifest.json", "references/tool-guide.md")
RISK = "ALTER TABLE tasks ADD COLUMN risk TEXT CHECK (risk IN ('low', 'high'))"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return initialized(tmp_path_factory.mktemp("skill") / "p", "--kit", "dela")


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Path:
    """A project of one's own, copied."""
    return copytree(project, tmp_path / "p")


def skill(root: Path, *arguments: str) -> tuple[int, str, str]:
    done = ralphgen("skill", "--project", root, *arguments)
    return done.returncode, done.stdout, done.stderr


def written(root: Path) -> Path:
    code, out, _ = skill(root, "--write")
    assert (0, "") == (code, out)
    return root


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text("utf-8") + text, encoding="utf-8")


def test_skills_are_listed_with_their_descriptions_and_not_written(root: Path) -> None:
    before = snapshot(root)
    code, out, said = skill(root)
    names = [line.partition(": ")[0] for line in out.splitlines()]

    assert (0, ["ralph-project", "dela-tasks"], "") == (code, names, said)
    assert before == snapshot(root)
    written(root)
    for line, folder in zip(out.splitlines(), (RALPH, DELA), strict=True):
        description = line.partition(": ")[2]
        assert description in (root / folder / "SKILL.md").read_text("utf-8").replace("\n  ", " ")


def test_with_a_name_it_prints_the_text_of_both_files(root: Path) -> None:
    code, out, said = skill(root, "dela-tasks")
    written(root)
    text, guide = (
        (root / DELA / path).read_text("utf-8") for path in ("SKILL.md", "references/tool-guide.md")
    )
    marks = [f"==> {DELA}/{path} <==\n" for path in ("SKILL.md", "references/tool-guide.md")]

    assert (0, "") == (code, said)
    assert f"{marks[0]}{text}{marks[1]}{guide}" == out


def test_it_writes_what_it_printed_beside_others_and_then_nothing_more(root: Path) -> None:
    own = root / SKILLS / "mine/SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text("mine\n", encoding="utf-8")
    first = skill(root, "--write")
    before = snapshot(root)
    second = skill(root, "--write")

    assert (0, "", f"{RALPH}: 5 files written\n{DELA}: 5 files written\n") == first
    assert (0, "", f"{RALPH}: nothing to change\n{DELA}: nothing to change\n") == second
    assert before == snapshot(root)
    assert b"mine\n" == texts(root / SKILLS)["mine/SKILL.md"]
    assert {"mine/SKILL.md"} | {
        f"{name}/{path}" for name in ("ralph-project", "dela-tasks") for path in (*OURS, ".lock")
    } == texts(root / SKILLS).keys()


def test_one_skill_alone_is_written_by_its_name(root: Path) -> None:
    assert 0 == skill(root, "dela-tasks", "--write", "--quiet")[0]
    assert ["dela-tasks"] == [path.name for path in (root / SKILLS).iterdir()]
    assert (0, "") == skill(root, "dela-tasks", "--check")[:2]
    assert 1 == skill(root, "--check")[0]


def test_edits_are_refused_by_name_the_rest_is_written_and_force_overwrites(root: Path) -> None:
    good = texts(written(root) / SKILLS)
    append(root / RALPH / "SKILL.md", "mine\n")
    append(root / DELA / "references/tool-guide.md", "mine\n")
    (root / DELA / "manifest.json").write_text("<<<<<<< ours\n", encoding="utf-8")
    before = texts(root / SKILLS)
    said = refused("skill", "--write", "--project", str(root))

    assert f'"{RALPH}/SKILL.md" was edited by hand\n' in said
    assert f'"{DELA}/references/tool-guide.md" differs from what is generated' in said
    assert 'overwrite it with "ralphgen skill --write --force"' in said
    assert "regen" not in said
    assert before == texts(root / SKILLS)
    assert 0 == skill(root, "--write", "--force")[0]
    assert good == texts(root / SKILLS)


def test_a_skill_of_a_persons_own_is_in_the_way_and_not_overwritten(root: Path) -> None:
    own = root / RALPH / "SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text("mine\n", encoding="utf-8")
    said = refused("skill", "--write", "--project", str(root))

    assert f'"{RALPH}/SKILL.md" is in the way: it was not generated' in said
    assert "mine\n" == own.read_text("utf-8")
    assert (root / DELA / "SKILL.md").exists()


def test_check_shows_what_a_changed_schema_does_to_a_skill(root: Path) -> None:
    written(root)
    append(root / DELA / "SKILL.md", "")
    (root / DELA / "scripts").mkdir()
    (root / DELA / "scripts/own.py").write_text("mine = 1\n", encoding="utf-8")
    same = skill(root, "--check")
    run_sql(root, RISK)
    before = snapshot(root)
    code, out, said = skill(root, "--check")

    assert (0, "", "the skills are up to date\n") == same
    assert (1, 1) == (code, said.count("error: "))
    assert "+| `risk` | string |  | `low`, `high` |  |\n" in out
    assert f"{RALPH} is not what would be written now\n" in said
    assert 'hint: run "ralphgen skill --write", and commit what it writes' in said
    assert before == snapshot(root)
    assert 0 == skill(root, "--write")[0]
    assert 0 == skill(root, "--check")[0]


def test_check_names_edits(root: Path) -> None:
    append(written(root) / DELA / "SKILL.md", "mine\n")
    code, out, said = skill(root, "--check")

    assert (1, True) == (code, "-mine\n" in out)
    assert f'"ralphgen skill --write --force" overwrites the edits of {DELA}/SKILL.md\n' in said


def test_a_kit_that_is_switched_off_leaves_its_skill_alone_and_that_is_said(root: Path) -> None:
    written(root)
    config = root / ".ralph/ralphgen.toml"
    config.write_text('kits = ["ralph"]\n', encoding="utf-8")
    before = texts(root / DELA)
    said = f'left alone: {DELA}, which was written for the kit "dela" that is off\n'

    assert (0, "", f"{said}{RALPH}: nothing to change\n") == skill(root, "--write", "--force")
    assert (0, "", f"{said}the skills are up to date\n") == skill(root, "--check")
    assert before == texts(root / DELA)
    assert 'there is no skill "dela-tasks"' in refused(
        "skill", "dela-tasks", "--project", str(root), code=2
    )


@pytest.mark.parametrize(
    "manifest",
    ["", "[]", "{", "\udc80", '{"kit": "dela"}', '{"ralphgen": 1, "kit": []}', "[" * 9999],
)
def test_the_manifests_of_others_are_nobodys_concern(root: Path, manifest: str) -> None:
    path = root / SKILLS / "other/manifest.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(manifest.encode(errors="surrogateescape"))

    assert (0, "") == (skill(root)[0], skill(root)[2])


def test_a_write_that_was_broken_off_is_finished(root: Path) -> None:
    good = texts(written(root) / SKILLS)
    commit = root / RALPH / ".commit"
    commit.mkdir()
    for name in ("SKILL.md", "manifest.json"):
        (root / RALPH / name).rename(commit / name)

    assert 0 == skill(root, "--check")[0]
    assert good == texts(root / SKILLS)


def test_a_link_in_place_of_a_skill_is_not_followed(root: Path, tmp_path: Path) -> None:
    (root / SKILLS).mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (root / DELA).symlink_to(tmp_path / "elsewhere")

    assert "is a link" in refused("skill", "--write", "--project", str(root))
    assert [] == list((tmp_path / "elsewhere").iterdir())


def test_a_folder_that_cannot_be_written_is_named(project: Path) -> None:
    with open_folder() as folder:
        root = copytree(project, folder / "p")
        (root / ".claude").mkdir()
        (root / ".claude").chmod(0o555)
        done = ralphgen("skill", "--write", "--project", root, without_rights=True)

        assert 1 == done.returncode
        assert "cannot be written: permission denied" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--write", "--check"], '"--write" and "--check" exclude each other'),
        (["--force"], '"--force" is for "--write"'),
        (["ralph-projct"], 'there is no skill "ralph-projct"\nhint: did you mean "ralph-project"?'),
        (
            ["--check", "nothing"],
            "the skills of the kits that are on are ralph-project, dela-tasks",
        ),
    ],
)
def test_what_cannot_be_is_refused(root: Path, arguments: list[str], said: str) -> None:
    assert said in refused("skill", "--project", str(root), *arguments, code=2)
    assert not (root / ".claude").exists()


def test_the_same_project_gives_the_same_bytes_in_another_place(root: Path, tmp_path: Path) -> None:
    first = texts(written(root) / SKILLS)
    rmtree(root / ".claude")
    moved = root.rename(tmp_path / "q")

    assert first == texts(written(moved) / SKILLS)
    assert {"ralphgen", "kit", "files"} == json.loads(first["dela-tasks/manifest.json"]).keys()
