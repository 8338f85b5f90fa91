"""Whatever a caller does with its list, every request is valid and no conversation hears another's words.

A random caller has several agents that begin with the same words under prompts of their own. They go on, ask
again, rewind, branch, edit, abandon streams, lose connections, change model and prompt, spell their list in
other ways, add reminders that they leave out later, and their process ends and starts again. Each message of
the user's and each reminder carries a number that is used once, so a request tells whose words are in it.
"""

import contextlib
import json
import re
import tempfile
from typing import Any, Final

import anthropic
import httpx2
from hypothesis import given, settings
from hypothesis import strategies as st

import everturn
from everturn.adapters.tracking import PassedThrough
from everturn.decide.options import Options
from everturn.twin.build import build_twin
from everturn.twin.faults import InjectedFault
from everturn.twin.transport import TwinTransport

# A window that a few messages fill: compactions happen all the time.
SMALL: Final = Options(window=24_000)
PAD: Final = "and this is why it matters so much. " * 60
TOOL: Final = {"name": "read", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}
NUMBER: Final = re.compile(r"<<\d+>>")

ACTS = (
    "go on",
    "go on",
    "go on",
    "again",
    "rewind",
    "branch",
    "edit",
    "abandon",
    "fault",
    "too long",
    "restart",
    "remind",
    "remind",
    "spell",
    "model",
    "system",
)
MODELS: Final = ("claude-haiku-4-5", "claude-opus-5-5", "claude-opus-4-6")
plans = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 2), st.integers(0, 6)), max_size=16)


class Caller:
    def __init__(self, folder: str | None, model: str) -> None:
        self.twin, self.folder, self.model = build_twin(), folder, model
        self.lists: list[list[Any]] = [[], [], []]
        self.events: list[Any] = []
        self.allowed: set[str] = set()
        self.foreign: list[Any] = []
        # What was added to a message and left out later: its number, and those of the message.
        self.reminders: list[tuple[str, set[str]]] = []
        self.spells_otherwise = False
        self.systems = [f"You are agent {agent}." for agent in range(3)]
        self.number = 0
        self.start()

    def start(self) -> None:
        more = {"listen": self.events.append, "clock": self.twin.clock.now, "limits": {"conversations": 2}}
        self.middleware = everturn.middleware(SMALL, folder=self.folder, **more)
        self.client = anthropic.Anthropic(
            api_key="k",
            base_url="http://twin",
            http_client=httpx2.Client(transport=TwinTransport(self.twin)),
            max_retries=0,
            middleware=[self.middleware, self.look],
        )

    def look(self, request: Any, call_next: Any) -> Any:
        found = set(NUMBER.findall(json.dumps(request.json)))
        if found - self.allowed:
            self.foreign.append((found - self.allowed, request.json))
        return call_next(request)

    def words(self) -> str:
        self.number += 1
        return f"<<{self.number}>> {PAD}"

    def ask(self, agent: int, messages: list[Any], reminder: str = "", **more: Any) -> Any:
        self.allow(messages)
        if reminder:
            host = set(NUMBER.findall(json.dumps(messages[-1])))
            self.reminders.append((reminder, host))
            self.allowed.add(reminder)
            messages = [*messages[:-1], remind(messages[-1], reminder, self.number)]
        if self.spells_otherwise:
            messages = spell(messages)
        how = {"model": self.model, "max_tokens": 2000, "tools": [TOOL], "system": self.systems[agent]}
        with self.client.messages.stream(messages=messages, **how, **more) as stream:
            return stream.get_final_message().to_dict(mode="json")

    def allow(self, messages: list[Any]) -> None:
        """The words that may be sent: those of the list, and what was added to its messages."""
        self.allowed = set(NUMBER.findall(json.dumps(messages)))
        self.allowed |= {reminder for reminder, host in self.reminders if host <= self.allowed}

    def finish(self, agent: int, messages: list[Any], *, reminds: bool = False) -> list[Any]:
        """Ask until the model has no more calls."""
        for left in range(3, -1, -1):
            more: dict[str, Any] = {} if left else {"tool_choice": {"type": "none"}}
            if reminds:
                more["reminder"] = self.words().split()[0]
            said = self.ask(agent, messages, **more)["content"]
            messages = [*messages, {"role": "assistant", "content": said}]
            calls = [block["id"] for block in said if block["type"] == "tool_use"]
            if not calls:
                return messages
            answers = [
                {"type": "tool_result", "tool_use_id": call, "content": self.words()} for call in calls
            ]
            messages = [*messages, {"role": "user", "content": answers}]
        return messages

    def act(self, act: str, agent: int, at: int) -> None:
        held = self.lists[agent]
        first = "Look at the parser. " if not held else ""
        asked = [*held, {"role": "user", "content": first + self.words()}]
        # Where a turn of the user's begins: the places that a list can be cut at.
        places = [
            n for n, each in enumerate(held) if each["role"] == "user" and isinstance(each["content"], str)
        ]
        place = places[at % len(places)] if places else 0
        match act:
            case "again" if held:
                self.finish(agent, held[: place + 1])
            case "rewind":
                self.lists[agent] = self.finish(agent, [*held[:place], asked[-1]])
            case "branch":
                self.finish(agent, [*held[:place], asked[-1]])
            case "edit" if held:
                edited = {"role": "user", "content": self.words()}
                self.lists[agent] = self.finish(agent, [*held[:place], edited, *held[place + 1 :], asked[-1]])
            case "abandon":
                self.abandon(agent, asked)
            case "fault":
                self.twin.faults.add((InjectedFault("overloaded"),))
                try:
                    self.lists[agent] = self.finish(agent, asked)
                except anthropic.APIStatusError:
                    self.lists[agent] = self.finish(agent, asked)
            case "too long":
                self.twin.faults.add((InjectedFault("prompt_too_long"),))
                self.try_to(agent, asked)
            case "restart":
                self.middleware.close()
                self.start()
            case "remind":
                self.lists[agent] = self.finish(agent, asked, reminds=True)
            case "spell":
                self.spells_otherwise = not self.spells_otherwise
                self.lists[agent] = self.finish(agent, asked)
            case "model":
                self.model = MODELS[at % len(MODELS)]
                self.lists[agent] = self.finish(agent, asked)
            case "system":
                self.systems[agent] = f"You are agent {agent}, version {at}."
                self.lists[agent] = self.finish(agent, asked)
            case _:
                self.lists[agent] = self.finish(agent, asked)

    def abandon(self, agent: int, asked: list[Any]) -> None:
        self.allow(asked)
        how = {"model": self.model, "max_tokens": 2000, "tools": [TOOL], "system": self.systems[agent]}
        with self.client.messages.stream(messages=asked, **how) as stream:
            next(iter(stream))
        self.lists[agent] = self.finish(agent, asked)

    def try_to(self, agent: int, asked: list[Any]) -> None:
        """A list that is too short to be summarized stays as it is: then the refusal comes through."""
        with contextlib.suppress(anthropic.BadRequestError):
            self.lists[agent] = self.finish(agent, asked)


def remind(message: Any, reminder: str, number: int) -> Any:
    """A message with a reminder: as a block behind or in front, or inside its text."""
    added = f"<reminder>{reminder} Keep it short.</reminder>"
    content = message["content"]
    if isinstance(content, str):
        inside = [f"{content}\n\n{added}", f"{added}\n\n{content}"]
        blocks = [[{"type": "text", "text": each} for each in (content, added)]]
        return {**message, "content": (*inside, *blocks)[number % 3]}
    return {**message, "content": [*content, {"type": "text", "text": added}]}


def spell(messages: list[Any]) -> list[Any]:
    """The same list: strings as blocks, blocks of the user's in messages of their own, markers."""
    found: list[Any] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "user" and blocks[0]["type"] == "text":
            found += [{**message, "content": [block]} for block in blocks]
        else:
            found.append({**message, "content": blocks})
    marked = {**found[-1]["content"][-1], "cache_control": {"type": "ephemeral"}}
    return [*found[:-1], {**found[-1], "content": [*found[-1]["content"][:-1], marked]}]


def check(caller: Caller) -> None:
    refused = [entry["error"]["message"] for entry in caller.twin.ledger() if entry["status"] == 400]
    assert [message for message in refused if "too long" not in message] == []
    assert [event for event in caller.events if isinstance(event, PassedThrough)] == []
    assert caller.foreign == []


# Each is a whole conversation, and `make soak` has callers by chance too.
@settings(max_examples=settings().max_examples // 2)
@given(plans, st.sampled_from(MODELS), st.booleans())
def test_every_request_is_valid_and_nobody_hears_anothers_words(plan, model, on_disk):
    with tempfile.TemporaryDirectory() as folder:
        caller = Caller(folder if on_disk else None, model)
        try:
            for act, agent, at in plan:
                caller.act(act, agent, at)
            check(caller)
        finally:
            caller.middleware.close()


def test_the_plans_above_do_compact():
    caller = Caller(None, "claude-haiku-4-5")
    for _ in range(6):
        caller.act("go on", 0, 0)
    check(caller)
    assert caller.middleware.conversations[0].compactions > 1
