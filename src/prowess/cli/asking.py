"""``prowess permissions explain``, ``simulate``, ``test`` and ``check-policy``: asking the law without changing it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from prowess.cli.lines import Answer, answer_lines
from prowess.cli.output import (
    Agent,
    Db,
    Json,
    Tenant,
    User,
    command,
    note,
    opened,
    print_json,
    print_table,
    say,
    show,
)


def register(app: typer.Typer) -> None:
    """Put the commands of this module on ``app``."""
    app.command()(explain)
    app.command()(simulate)
    app.command("test")(run_tests)
    app.command("check-policy")(check_policy)


@command
def explain(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    agent: Agent = "mira",
    tool: Annotated[str | None, typer.Option("--tool", help="Name of a tool.")] = None,
    skill: Annotated[str | None, typer.Option("--skill", help="Skill id.")] = None,
    arguments: Annotated[str | None, typer.Option("--arguments", help="Arguments of the tool, as JSON.")] = None,
) -> None:
    """Say, layer by layer, whether a tool or skill may be used, and why."""
    from prowess.cli.reading import read_object

    given = None if arguments is None else read_object(arguments, "arguments")
    with opened(db) as runtime:
        found = runtime.explain(user=user, agent=agent, tool=tool, skill=skill, arguments=given, tenant=tenant)
    document = dict(found.to_json())
    if as_json:
        print_json(document)
        return
    decision = document["decision"]
    effect = say(f"effect.{decision['effect']}")
    show(effect if decision["reason"] == "allowed" else f"{effect}{say('colon')}{decision['reason']}")
    rows = [(step["layer"], say(f"answer.{step['answer']}"), step["reason"], step["by"]) for step in document["steps"]]
    if rows:
        print_table(("layer", "answer", "reason", "by"), rows, empty="")
    if document["decisive"]:
        show(say("decisive", names=document["decisive"]))


@command
def simulate(
    policy: Annotated[list[str] | None, typer.Option("--policy", help="A policy file. May be repeated.")] = None,
    role: Annotated[list[str] | None, typer.Option("--role", help="A role as NAME=JSON. May be repeated.")] = None,
    user: Annotated[list[str] | None, typer.Option("--user", help="Only this user. May be repeated.")] = None,
    agent: Annotated[list[str] | None, typer.Option("--agent", help="Only this agent. May be repeated.")] = None,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Say who would gain and who would lose; nothing is stored."""
    from prowess.cli.reading import read_role

    if not policy and not role:
        raise typer.BadParameter(say("nothing_to_simulate"))
    roles = [read_role(text, "role") for text in role or ()]
    with opened(db) as runtime:
        changes = runtime.simulate(
            policies=policy or None, roles=roles, users=user or None, agents=agent or None, tenant=tenant
        )
    gains = sum(change.gains for change in changes)
    found = [change.to_json() for change in changes]
    if as_json:
        print_json({"changes": found, "gains": gains, "losses": len(changes) - gains})
        return
    rows = [
        (
            item["user"],
            item["agent"],
            say(f"kind.{item['kind']}"),
            item["name"],
            say(f"effect.{item['before']}"),
            say(f"effect.{item['after']}"),
            item["reason"],
        )
        for item in found
    ]
    print_table(("user", "agent", "kind", "name", "before", "after", "reason"), rows, empty=say("no_changes"))
    show(say("simulated", gains=gains, losses=len(changes) - gains))


@command
def run_tests(
    source: Annotated[str, typer.Option("--input", help="JSON lines of table tests; - reads standard input.")],
    as_json: Json = True,
) -> None:
    """Ask table tests of surfaces; an expectation that fails is named."""
    from prowess.access.tables import run_table_test, verdict_to_json

    def answer(entry: dict[str, Any], number: int) -> Answer:
        answered = run_table_test(entry)
        if not answered.holds:
            note(say("test_differs", line=number, expected=_shown(entry["expect"])))
        return Answer(verdict_to_json(answered.verdict), answered.holds)

    answer_lines(source, answer)


def _shown(expected: Any) -> str:
    import json

    return json.dumps(expected, ensure_ascii=False)


@command
def check_policy(
    files: Annotated[list[str], typer.Argument(help="Policy files.")],
    as_json: Json = False,
) -> None:
    """Check policy files together, with the examples that they carry."""
    from prowess.access.policies import load_policies

    found = load_policies(files)
    mode = None if found.mode is None else str(found.mode)
    if as_json:
        print_json({"files": files, "rules": len(found.rules), "mode": mode})
        return
    show(say("policies_hold", count=len(found.rules)))
    if mode is not None:
        show(say("policies_mode", mode=mode))
