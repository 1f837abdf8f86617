"""Queries over the wire: words, phrases, operators, groups, wildcards and fields."""

from pathlib import Path

from rye_projects import directive, knowledge, python_tool, serving, yaml_tool


def test_words_are_found_however_they_are_written(tmp_path: Path) -> None:
    written = {
        "cafe": "Café",
        "CAFÉ": "cafe",
        "strasse": "Straße",
        "ﬁre": "fire",
        "测试": "一些测试内容",
        "привет": "ПРИВЕТ",
        "2026": "in 2026-01",
        "http-client": "the http_client",
    }
    with serving(tmp_path) as rye:
        for number, text in enumerate(dict.fromkeys(written.values())):
            rye.put("knowledge", f"n{number}", knowledge(f"n{number}", text))
        bodies = {
            query: [
                rye.load("knowledge", each)["content"]
                for each in rye.found(query, "knowledge", source="project")
            ]
            for query in written
        }

    assert dict.fromkeys(written, True) == {
        query: any(written[query] in body for body in found) for query, found in bodies.items()
    }


def test_every_part_of_an_item_is_searched_and_can_be_named(tmp_path: Path) -> None:
    with serving(tmp_path) as rye:
        rye.put("knowledge", "nid/kname", knowledge("nid/kname", "kbody", title="ktitle"))
        rye.put("knowledge", "tagged", knowledge("tagged", tags=["ktag", "two"]))
        rye.put("directive", "dname", directive("dname", description="ddescription", body="dbody"))
        rye.put("tool", "tname", python_tool("tname", "def tcode(): pass\n"))
        text = yaml_tool("yname", description="ydescription here")
        rye.put("tool", "yname", text, extension=".yaml")
        expected = {
            "name:kname": "nid/kname",
            "title:ktitle": "nid/kname",
            "category:nid": "nid/kname",
            "body:kbody": "nid/kname",
            "tags:ktag": "tagged",
            "description:ddescription": "dname",
            "description:ydescription": "yname",
            "body:tcode": "tname",
            "body:dbody": "dname",
        }
        found = {query: "".join(rye.found(query, source="project")) for query in expected}

    assert expected == found
