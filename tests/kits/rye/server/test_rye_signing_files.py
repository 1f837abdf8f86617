"""Signing adds one line to a file and changes nothing else."""

from rye_projects import Rye, knowledge, put, python_tool


def test_knowledge_is_signed_again_with_all_that_it_says(rye: Rye) -> None:
    """Upstream did not find the front matter below the signature."""
    path = rye.signed("knowledge", "demo/a", knowledge("demo/a", "Once.\n"))
    put(path, path.read_text(encoding="utf-8").replace("Once.", "Twice."))
    answer = rye.sign("knowledge", "demo/a")

    assert ("signed", []) == (answer["status"], answer["warnings"])
    assert "Twice." == rye.run("knowledge", "demo/a")["data"]["content"].strip()


def test_what_is_signed_is_executed_as_before(rye: Rye) -> None:
    path = rye.put("tool", "demo/a", f"#!/usr/bin/python3\n{python_tool('demo/a')}")
    path.chmod(0o755)
    rye.sign("tool", "demo/a")

    assert {"x": 1} == rye.run("tool", "demo/a", x=1)["data"]["params"]
