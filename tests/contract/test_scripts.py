"""Tool skills whose handler is a script in the sandbox (X6, X2, U1, U10, M2, G4)."""

from __future__ import annotations

from pathlib import Path

from tests.support.kit import OpenApp, request, turn
from tests.support.scripts import format_json_skill

from prowess import Prowess


def events(app: Prowess, *kinds: str) -> list[dict[str, object]]:
    return [event.to_json() for event in app.events() if event.type in kinds]


def test_x6_an_installed_skill_formats_json_from_a_command_and_from_a_model(open_app: OpenApp, tmp_path: Path) -> None:
    app = open_app()
    added = app.add_skill(format_json_skill(tmp_path))
    assert added.notes == ()
    assert app.skill("format-json").manifest.kind == "tool"
    result = turn(app, "m1", '/format-json {"b": 1, "a": [2]}')
    assert result.reply == '{\n  "text": "{\\n  \\"a\\": [\\n    2\\n  ],\\n  \\"b\\": 1\\n}"\n}'
    assert [(call.tool, call.status) for call in result.tool_calls] == [("format_json", "succeeded")]
    plan = app.begin(request("m2", "please format this"))
    outcome = app.call(plan, "format_json", {"text": "[1]", "indent": 0})
    assert outcome.to_answer() == {"status": "ok", "output": {"text": "[\n1\n]"}}
    finished = events(app, "script.finished")
    assert [(event["decision"], event["data"]["isolation"]) for event in finished] == [("succeeded", "full")] * 2
