"""The events of Prowess: one table of types, one record shape (T13, R1 to R3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from prowess.kernel.clock import iso

DecisionWord = Literal["allowed", "denied", "succeeded", "failed", "cancelled"]


class EventType(NamedTuple):
    """What a type means, and whether its events are audit rows."""

    meaning: str
    audit: bool = False


EVENT_TYPES: Mapping[str, EventType] = {
    "agent.created": EventType("an agent was made"),
    "agent.designed": EventType("which skills an agent is designed with was changed", audit=True),
    "conversation.created": EventType("a conversation or group was made"),
    "group.member_added": EventType("a person or agent joined a group"),
    "turn.started": EventType("a message was accepted"),
    "turn.completed": EventType("the reply was stored"),
    "turn.failed": EventType("the voice or the caller could not finish the turn"),
    "safety.responded": EventType("the safety response answered before any skill", audit=True),
    "skill.selected": EventType("a skill was chosen for the turn"),
    "command.unknown": EventType("a slash command named nothing that is visible here"),
    "run.recorded": EventType("a use of a skill was recorded"),
    "session.created": EventType("a workflow session began"),
    "session.advanced": EventType("a workflow session took an answer"),
    "session.completed": EventType("a workflow session reached its end"),
    "session.cancelled": EventType("a workflow session was cancelled", audit=True),
    "session.expired": EventType("a workflow session passed its time"),
    "session.failed": EventType("a workflow session could not go on"),
    "session.parked": EventType("a workflow session was set aside"),
    "session.resumed": EventType("a parked workflow session came back"),
    "tool.decided": EventType("the gate decided on a tool call", audit=True),
    "tool.finished": EventType("a tool call ended", audit=True),
    "tool.refused": EventType("a tool call was refused before the gate: unknown, over its limit, invalid", audit=True),
    "script.asked": EventType("a running script asked for something of its host", audit=True),
    "script.finished": EventType("the script of a tool call ended", audit=True),
    "tool.locked": EventType("a destructive tool was given to one call alone"),
    "tool.unlocked": EventType("a destructive tool was given back"),
    "tool.busy": EventType("a call did not run: another has the destructive tool to itself", audit=True),
    "turn.stopped": EventType("a turn was stopped, with all that came of it", audit=True),
    "task.delegated": EventType("an agent handed a task to another", audit=True),
    "task.completed_by_peer": EventType("a task that was handed over has ended", audit=True),
    "turn.limited": EventType("a limit of the turn was reached", audit=True),
    "skill.loaded": EventType("a skill's manual or a file of it was loaded by the model", audit=True),
    "tools.equipped": EventType("the equipped tool groups were chosen", audit=True),
    "surface.unresolved": EventType("what the user may use could not be resolved; the call was aborted", audit=True),
    "role.defined": EventType("a role was made or changed", audit=True),
    "role.removed": EventType("a role was removed", audit=True),
    "role.assigned": EventType("a user was given a role", audit=True),
    "role.unassigned": EventType("a role was taken from a user", audit=True),
    "standing.allowed": EventType("a person allowed an action always", audit=True),
    "standing.revoked": EventType("a standing approval was taken back", audit=True),
    "approval.requested": EventType("a call waits for a person's yes", audit=True),
    "approval.answered": EventType("a person answered: a seat is filled", audit=True),
    "approval.approved": EventType("a call was approved and may run", audit=True),
    "approval.denied": EventType("a call was refused by a person", audit=True),
    "approval.expired": EventType("nobody answered in time, or nothing ran in time", audit=True),
    "approval.cancelled": EventType("a question was withdrawn, or the approved call was refused", audit=True),
    "approval.used": EventType("an approval was used up by its call", audit=True),
    "approver.added": EventType("a person was named as an approver", audit=True),
    "approver.removed": EventType("a person is no approver any more", audit=True),
    "risk.opened": EventType("an irreversible code was opened for two-person approval", audit=True),
    "risk.closed": EventType("an irreversible code was closed", audit=True),
    "turn.waiting": EventType("a turn was suspended: calls of it wait for approval"),
    "turn.settled": EventType("every approval of a turn has an outcome: it can go on"),
    "turn.continued": EventType("a suspended turn went on, and said what came of its calls"),
    "quota.set": EventType("a quota was set or changed", audit=True),
    "quota.removed": EventType("a quota was taken away", audit=True),
    "quota.exceeded": EventType("something was refused for want of budget; once a count and window", audit=True),
    "quota.warned": EventType("four fifths of a budget are gone; once a count and window"),
    "permission.granted": EventType("a user consented", audit=True),
    "permission.revoked": EventType("a consent was taken back", audit=True),
    "skill.added": EventType("a skill version entered the catalog", audit=True),
    "skill.vouched": EventType("a signature was found for a skill version", audit=True),
    "skill.locked": EventType("a skill was locked to a version, or rolled back to one", audit=True),
    "skill.unlocked": EventType("a skill follows its newest version again", audit=True),
    "skill.quarantined": EventType("a skill version was taken out of use because nothing vouches for it", audit=True),
    "install.refused": EventType("an archive or folder could not be read as a skill", audit=True),
    "install.quarantined": EventType("a skill from outside was put into quarantine", audit=True),
    "install.checked": EventType("a skill in quarantine was checked", audit=True),
    "install.awaiting_approval": EventType("a skill in quarantine needs a person's yes", audit=True),
    "install.active": EventType("a skill left quarantine and serves", audit=True),
    "install.rejected": EventType("a skill in quarantine was turned down", audit=True),
    "key.trusted": EventType("a key that signs skills was trusted", audit=True),
    "key.revoked": EventType("a key that signs skills is trusted no more", audit=True),
    "skill.removed": EventType("a skill left the catalog", audit=True),
    "skill.rolled_out": EventType("for how many users a skill version serves was changed", audit=True),
    "skill.bound": EventType("a skill was enabled, disabled, pinned or unpinned", audit=True),
    "mount.added": EventType("an MCP server was mounted, or how it is reached was changed", audit=True),
    "mount.removed": EventType("a mounted MCP server was taken away", audit=True),
    "mount.refreshed": EventType("the tools of a mounted server were listed", audit=True),
    "mount.tool_found": EventType("a mounted server lists a tool that nobody has approved"),
    "mount.tool_changed": EventType("a mounted tool is not what was approved: it cannot be called", audit=True),
    "mount.tool_gone": EventType("a mounted server does not list an approved tool any more", audit=True),
    "mount.tool_approved": EventType("a person approved a mounted tool as it is listed", audit=True),
    "mount.tool_mapped": EventType("what a mounted tool needs was said in place of its hints", audit=True),
    "memory.added": EventType("something was remembered", audit=True),
    "memory.corrected": EventType("a memory was corrected", audit=True),
    "memory.deleted": EventType("a memory was deleted", audit=True),
    "secret.set": EventType("a secret was set or replaced", audit=True),
    "secret.deleted": EventType("a secret was deleted", audit=True),
    "secret.rotated": EventType("a secret was encrypted anew", audit=True),
    "memory.exported": EventType("memories were exported", audit=True),
    "automation.proposed": EventType("an agent proposed a trigger", audit=True),
    "automation.confirmed": EventType("the owner confirmed a proposed trigger", audit=True),
    "automation.rejected": EventType("the owner turned a proposed trigger down", audit=True),
    "automation.created": EventType("a trigger was made", audit=True),
    "automation.changed": EventType("a trigger was changed", audit=True),
    "automation.paused": EventType("a trigger was paused", audit=True),
    "automation.resumed": EventType("a trigger was resumed", audit=True),
    "automation.removed": EventType("a trigger was removed", audit=True),
    "automation.broken": EventType("a trigger cannot be used as it is stored", audit=True),
    "automation.triggered": EventType("a trigger fired and made its job", audit=True),
    "automation.rate_limited": EventType("a trigger fired too often, or in a loop", audit=True),
    "automation.rescheduled": EventType("the next fire of a trigger was found anew with other zone data"),
    "job.created": EventType("a background job was scheduled", audit=True),
    "job.decided": EventType("the gate decided on a job at the moment of execution", audit=True),
    "job.started": EventType("a worker has claimed a job"),
    "job.retried": EventType("a job failed and will be tried again", audit=True),
    "job.taken_over": EventType("a worker fell silent; its job is free again", audit=True),
    "job.fenced": EventType("a worker that had lost a job was kept from any effect of it", audit=True),
    "job.waiting": EventType("a job is parked until a person has answered", audit=True),
    "job.finished": EventType("a job ended", audit=True),
    "automation.completed": EventType(
        "a turn that a trigger started has ended; the outcome is what was verified", audit=True
    ),
    "automation.deferred": EventType("a fire waits for the provider's next quota period", audit=True),
    "automation.skipped": EventType("a fire came to nothing", audit=True),
    "incident.opened": EventType("an automation failed for good and needs somebody", audit=True),
    "job.cancelled": EventType("a job was cancelled before it started", audit=True),
    "notification_hook.added": EventType("a webhook for notifications was made", audit=True),
    "notification_hook.removed": EventType("a webhook for notifications was removed", audit=True),
    "notification_hook.failing": EventType("a notification could not be delivered by a webhook", audit=True),
    "notification_hook.paused": EventType("a receiver said that its webhook is gone; it is used no more", audit=True),
    "notification_hook.recovered": EventType("a webhook for notifications delivers again", audit=True),
}


class Actor(NamedTuple):
    """Who did it: ``user``, ``agent``, ``operator`` or ``system``, and which one."""

    kind: Literal["user", "agent", "operator", "system"]
    id: str


SYSTEM = Actor("system", "prowess")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One entry of the log. ``data`` holds plain metadata: never message, memory, input or output text (R3)."""

    seq: int = 0
    tenant: str
    type: str
    at: datetime
    actor: Actor
    user: str | None = None
    agent: str | None = None
    chat_kind: str | None = None
    chat_id: str | None = None
    message_id: str | None = None
    skill_id: str | None = None
    skill_version: str | None = None
    session_id: str | None = None
    run_id: str | None = None
    target: str | None = None
    decision: DecisionWord | None = None
    data: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The shape of ``prowess audit list`` and of the event stream."""
        fields = {name: getattr(self, name) for name in _PLAIN}
        shown = {name: value for name, value in fields.items() if value is not None}
        actor = {"kind": self.actor.kind, "id": self.actor.id}
        return {
            "seq": self.seq,
            "type": self.type,
            "at": iso(self.at),
            "actor": actor,
            **shown,
            "data": dict(self.data),
        }


_PLAIN = (
    "tenant",
    "user",
    "agent",
    "chat_kind",
    "chat_id",
    "message_id",
    "skill_id",
    "skill_version",
    "session_id",
    "run_id",
    "target",
    "decision",
)
