"""Plan mode and permission mode: what the user allows the model to do right now."""

import re
from typing import Final

from everturn.decide.extractive.reading.calls import ToolInput
from everturn.decide.extractive.reading.failures import words_of_refusal
from everturn.history.records import Record
from everturn.measure.tool_table import ToolPurpose

MODE_PURPOSES: Final[frozenset[ToolPurpose]] = frozenset({"enters_plan_mode", "presents_plan"})
PLAN: Final = "plan"
_ON: Final = re.compile(r"\bplan mode (?:is (?:active|on|still active))\b", re.IGNORECASE)
_STAY: Final = "stay in plan mode"
_OFF: Final = re.compile(r"\b(?:exited|left) plan mode\b|plan mode is (?:off|no longer)", re.IGNORECASE)


class ModeState:
    """`plan` is the newest plan; `is_approved` says whether the user accepted it."""

    def __init__(self) -> None:
        self.permission = ""
        self.is_planning = False
        self.plan = ""
        self.is_approved = False
        self.is_refused = False
        self.refusal = ""
        # Messages of the user since the plan was presented.
        self.plan_age = 0
        self._presented: set[str] = set()

    def see(self, record: Record) -> None:
        if record.kind == "user" and record.permission_mode:
            self.permission = record.permission_mode
            self.is_planning = record.permission_mode == PLAN
        elif record.kind == "attachment" and record.subtype.startswith("plan_mode"):
            self.is_planning = record.subtype != "plan_mode_exit"

    def see_reminder(self, text: str) -> None:
        if _OFF.search(text):
            self.is_planning = False
        elif _ON.search(text):
            self.is_planning = True

    def begin(self, does: ToolPurpose, call: str, given: ToolInput) -> None:
        if does == "presents_plan":
            self._presented.add(call)
            self.is_approved = self.is_refused = False
            self.plan_age = 0
            plan = given.get("plan")
            self.plan = plan.strip() if isinstance(plan, str) and plan.strip() else self.plan

    def end(self, does: ToolPurpose, call: str, said: str = "", *, failed: bool) -> None:
        if does == "enters_plan_mode" and not failed:
            self.is_planning = True
        elif call in self._presented and failed:
            self.is_refused = True
            self.refusal = words_of_refusal(said)
            self.is_planning = self.is_planning or _STAY in said
        elif call in self._presented:
            self.is_planning = False
            self.is_approved = True
            # What the user chose instead is told with their next message.
            self.permission = ""
