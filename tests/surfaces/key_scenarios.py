"""Short programs around one public surface each; what comes of them depends on the configuration keys.

A scenario takes overrides, runs a surface against a twin, and leaves in its `Lab` everything that a person
could observe: requests, events, files, returned values. `tests/surfaces/test_every_key.py` compares them.
"""

import json
import logging
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anthropic
import msgspec
from scripted_twin import scripted_options
from surfaces.desk import SUMMARY, Desk, assistant_line, call, result, text, tool, user_line

import everturn
from everturn import Session, Tool
from everturn.decide.compact.values import Compaction
from everturn.errors import EverturnError
from everturn.session.config.keys import KEYS
from everturn.session.events.serialize import serialize_event
from everturn.session.hold_timers import VirtualTimer
from everturn.twin.clock import VirtualClock
from everturn.twin.testing import TwinForTests
from everturn.view.fragments.notes import SECTIONS

OPUS = "claude-opus-5-5"
STRING = {"type": "string"}
CODE = "line of code\n" * 150
LONG = "The login test waits for the token, and the token comes late. " * 200
ASKS = "Bring the notes of this session up to date"
# How long something took on this machine, and how much had come by then: in JSON, and in JSON inside a text.
SECONDS = re.compile(r'(seconds\\*"[:,])\s*[\d.e-]+(?:(,\s*\\*"characters\\*"[:,])\s*\d+)?')
# Figures of this machine, and numbers that only repeat the configuration.
NOT_COMPARED = (".lock", ".sqlite", ".sqlite-wal", ".sqlite-shm", ".state.json")

READ = tool("Read", lambda given: CODE)
FETCH = tool("fetch_rows", lambda given: CODE)
EDIT = tool("Edit", lambda given: "done", file_path=STRING, old_string=STRING, new_string=STRING)

Scenario = Callable[["Lab"], None]


def _spelled(value: Any) -> Any:
    """A compaction with its score, and not with what that is computed from."""
    if not isinstance(value, Compaction):
        return value
    receipt = msgspec.structs.replace(value.receipt, scored=None)
    return [msgspec.structs.replace(value, receipt=receipt), value.receipt.retention]


class Lab(Desk):
    """A desk whose ids and times are the same in every run, and what was observed at it."""

    def __init__(self, folder: Path, overrides: Mapping[str, Any]) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        extended = scripted_options(extensions=frozenset({"cache_edits"}))
        super().__init__(folder, TwinForTests(options=extended))
        self.overrides = dict(overrides)
        self.observed: list[Any] = []
        self._ids = count(1)

    def new_id(self) -> str:
        return f"{next(self._ids):08d}"

    def open(self, **given: Any) -> Session:
        return super().open(config=None, new_id=self.new_id, cwd=self.folder, **{**given, **self.overrides})

    def observe(self, *values: Any) -> None:
        self.observed.extend(map(_spelled, values))

    def summarize_always(self, times: int = 40) -> None:
        """Whenever a summary is asked for, one is written."""
        self.twin.script(*({"content": SUMMARY, "when": "<summary>"} for _ in range(times)))

    def compact(self, session: Session, *replies: Any) -> None:
        """A compaction that may need fewer replies than it is given."""
        self.twin.script(*(replies or [SUMMARY]))
        self.observe(session.compact())
        self.twin.twin.speaker.clear()

    def say(self, session: Session, words: str = "And now?") -> None:
        self.twin.script("Well.")
        try:
            self.observe(session.send(words).text)
        except EverturnError as problem:
            # An error of ours is an outcome too.
            self.observe(f"{type(problem).__name__}: {problem}")

    def fingerprint(self) -> str:
        files = {
            str(path.relative_to(self.folder)): path.read_text(encoding="utf-8")
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and not path.name.endswith(NOT_COMPARED)
        }
        found = {
            "bodies": self.bodies,
            "events": [serialize_event(each, "included") for each in self.events],
            "files": files,
            "observed": self.observed,
        }
        told = json.dumps(found, default=msgspec.to_builtins, sort_keys=True, indent=1)
        return SECONDS.sub(r"\1 0", told)


def run(scenario: Scenario, overrides: Mapping[str, Any], folder: Path) -> str:
    lab = Lab(folder, overrides)
    try:
        with patch.dict(os.environ, {"HOME": str(folder / "home")}):
            scenario(lab)
        return lab.fingerprint()
    finally:
        lab.twin.close()


# ── results in the context ───────────────────────────────────────────────────────────────────────


def reading(lab: Lab) -> None:
    """Files and rows are read one after the other; then nobody speaks for more than an hour."""
    with lab.open(tools=[READ, FETCH, EDIT]) as session:
        lab.use_tool(session, 9)
        lab.use_tool(session, 6, "fetch_rows")
        lab.observe(session.context().levels)
        lab.twin.advance(3_601)
        lab.say(session)
        lab.observe(session.context())


def large_results(lab: Lab) -> None:
    """One result too large to show, and five that are too large together."""
    sizes = {"a": 60_000, "b": 45_000}
    run_bash = tool("Bash", lambda given: f"{given['command'][0]} line\n" * (sizes[given["command"][0]] // 7))
    with lab.open(tools=[run_bash]) as session:
        lab.twin.script({"content": [call("toolu_a", "Bash", command="a")]}, "Done.")
        session.send("Run it.")
        calls = [call(f"toolu_{n}", "Bash", command=f"b{n}") for n in range(5)]
        lab.twin.script({"content": calls}, "Done.")
        session.send("Run them all.")


def thinking(lab: Lab) -> None:
    """A model whose thinking is bound to what came before it; and a pause of more than an hour."""
    with lab.open(**{"model": OPUS, "tools": [READ], "thinking.type": "adaptive"}) as session:
        for n in range(8):
            thought = {"type": "thinking", "thinking": f"Thought {n}. " * 5}
            lab.twin.script({"content": [thought, call(f"toolu_{n}", file_path=f"{n}.py")]}, f"Read {n}.")
            session.send(f"Read file {n}.")
        lab.twin.advance(3_601)
        lab.say(session)


def one_question(lab: Lab) -> None:
    """What a single request looks like."""
    with lab.open() as session:
        lab.say(session)
        lab.observe(session.context())


# ── compactions ──────────────────────────────────────────────────────────────────────────────────


def _used(name: str, tool_name: str, said: str = "done", **given: Any) -> list[Any]:
    return [assistant_line(call(name, tool_name, **given), id=f"msg_{name}"), user_line([result(name, said)])]


def _worked_on(lab: Lab) -> list[Any]:
    """A transcript with files, skills, tasks, agents, standing instructions and attachments."""
    lines: list[Any] = []
    for n, name in enumerate(["a.py", "b.py", "c.py", "d.py", "e.py", "f.py", "RULES.md", "plan.txt"]):
        path = lab.folder / name
        path.write_text(f"content of {name}\n" * (2_000 if name == "f.py" else 20))
        lines += _used(f"toolu_{n}", "Read", "old", file_path=str(path))
    for name in ("lint", "ship"):
        lines += _used(f"toolu_{name}", "Skill", f"Launching skill: {name}", skill=name)
        told = f"Base directory for this skill: skills/{name}\n\n" + f"line of {name}\n" * 2_000
        lines.append(user_line(told, isMeta=True, sourceToolUseID=f"toolu_{name}"))
    lines += _used("toolu_my", "my_skill", "Launching", skill="own")
    lines.append(user_line("How our own skill works.", isMeta=True, sourceToolUseID="toolu_my"))
    todos = [{"content": "step 1", "status": "in_progress"}]
    lines += _used("toolu_todo", "my_todos", todos=todos)
    started = "Async agent launched successfully. agentId: {}"
    lines += _used("toolu_ag1", "Task", started.format("ag1"), description="Look", prompt="Look.")
    lines += _used("toolu_ag2", "my_agent", started.format("ag2"), description="Own", prompt="Own.")
    lines += _used("toolu_out", "my_fetch", "<status>completed</status>", task_id="ag1")
    attached = {"type": "my_listing", "content": ["A listing.", "of things"]}
    lines.append({"type": "attachment", "attachment": attached})
    return lines


def restored(lab: Lab) -> None:
    """A session that another program left is compacted by hand."""
    rules = [f"Never push to branch number {n} without asking the owner of it first." for n in range(40)]
    lab.write(
        user_line("Fix the login test.\n" + "\n".join(rules)),
        assistant_line(text(LONG)),
        *_worked_on(lab),
        assistant_line(text("All of it is done."), id="msg_done"),
    )
    with lab.open() as session:
        session.pin("The staging key is in the vault. " * 3)
        lab.observe(session.dry_run())
        lab.compact(session)
        lab.say(session)


def summaries(lab: Lab) -> None:
    """Summaries by a call of their own: one that is short, one that refuses, one that is too long to ask."""
    brief = "<summary>The login test in auth.py waits for the token now and passes again, done.</summary>"
    refusal = "<summary>I'm sorry that it took long. " + "The login test waits for the token. " * 12
    with lab.open(**{"compact.strategies": ("direct",)}) as session:
        lab.talk(session, 8)
        lab.compact(session, brief, brief)
        lab.talk(session, 3)
        lab.compact(session, refusal + "</summary>", SUMMARY)
        lab.talk(session, 8)
        lab.twin.faults(*({"kind": "prompt_too_long", "message": "prompt is too long"} for _ in range(3)))
        lab.compact(session)
        lab.talk(session, 2)
        lab.compact(session, "Sorry.", SUMMARY)
        lab.observe(session.dry_run())


def filling(lab: Lab) -> None:
    """A context that fills by itself: by results, by questions, by one very long question."""
    lab.summarize_always()
    with lab.open(tools=[FETCH], window=44_000) as session:
        for n in range(4):
            lab.use_tool(session, 4, "fetch_rows", first=4 * n)
            lab.talk(session, 1, size=300)
        lab.twin.script("It is as follows. " + "Every word of it matters. " * 900)
        session.send("What of this is wrong? " + "Look at every word. " * 1_500)
        lab.twin.script("Well.")
        session.send("And this? " + "Look at every word. " * 3_500)
        lab.twin.script("Well.")
        session.send("And all of this? " + "Look at every word. " * 7_000)
        lab.observe(session.context())


def long_answer(lab: Lab) -> None:
    """The context fills with a long answer, which was not sent yet when the next question comes."""
    lab.summarize_always()
    with lab.open(window=80_000) as session:
        lab.talk(session, 9, size=300)
        lab.twin.script("It is as follows. " + "Every word of it matters. " * 1_000)
        session.send("What of this is wrong?")
        lab.say(session, "And this? " + "Look at every word. " * 200)


def refilling(lab: Lab) -> None:
    """Every question is so long that the context is full again after a few turns."""
    lab.summarize_always()
    with lab.open(window=44_000) as session:
        for n in range(20):
            lab.say(session, f"Question {n}: " + "Look at it closely. " * 400)


def failing(lab: Lab) -> None:
    """Every request for a summary fails; after many turns and a pause it is tried again."""
    lab.twin.script(*({"content": "Sorry.", "when": "<summary>"} for _ in range(90)))
    few = {"window": 100_000, "thresholds.auto_percent": 10.0, "compact.strategies": ("direct",)}
    with lab.open(**few) as session:
        lab.talk(session, 1, size=300)
        for n in range(16):
            lab.say(session, f"Question {n}.")
            if n in (9, 12):
                lab.twin.advance(400)


def proposed(lab: Lab) -> None:
    """A compaction is proposed ahead of time, and deferred."""
    with lab.open(window=44_000) as session:
        for _ in range(12):
            lab.talk(session, 1, size=120)
            lab.twin.advance(400)
            if proposal := session.propose_compaction():
                lab.observe(proposal.why, session.answer_proposal(proposal, "defer"))


# ── beside the conversation ──────────────────────────────────────────────────────────────────────


def notes(lab: Lab) -> None:
    """Notes are taken, grow too long, and are what a compaction uses."""
    path = f"{lab.path}.notes.md"
    about = [f"{section.heading}\n{section.description}\n" for section in SECTIONS[1:4]]
    at_once = patch("everturn.session.note_taker.threading.Thread", _ThreadAtOnce)
    with at_once, lab.open(**{"tools": [EDIT, READ], "notes.enabled": True}) as session:
        for at in range(6):
            old = about[at % 3]
            noted = f"{old}{'The token is awaited in auth.py. ' * 20}\n"
            edit = call(f"toolu_n{at}", "Edit", file_path=path, old_string=old, new_string=noted)
            lab.twin.script({"content": [edit], "when": ASKS})
            if at % 2:
                calls = [call(f"toolu_{at}_{n}", file_path=f"{n}.py") for n in range(3)]
                lab.twin.script(*({"content": [each]} for each in calls), "Read.")
                session.send("Read three files.")
            else:
                lab.talk(session, 1, size=60)
        lab.compact(session)
        lab.say(session)


class _ThreadAtOnce:
    """Notes are taken in the background; here nothing else happens meanwhile."""

    def __init__(self, *, target: Callable[..., None], args: tuple[Any, ...], **_: Any) -> None:
        self.start = lambda: target(*args)


def slow_notes(lab: Lab) -> None:
    """A compaction needs notes that have been under way for 45 seconds."""
    given = {"enabled": True, "first": 1_000, "growth": 500}
    with lab.open(tools=[EDIT], notes=given) as session:
        taker = session._runtime.notes
        assert taker is not None
        now, released, send = [1_000.0], threading.Event(), taker._send
        taker._clock = lambda: now[0]

        def answer_late(body: bytes, betas: Any) -> Any:
            released.wait(0.5)
            return send(body, betas)

        taker._send = answer_late
        lab.talk(session, 1)
        now[0] += 45
        lab.compact(session)
        job = taker._job
        released.set()
        if job is not None:
            job.done.wait(10)


def memory(lab: Lab) -> None:
    """Instruction files of a folder, and of a folder below it."""
    (lab.folder / "CLAUDE.md").write_text("Use tabs.\n")
    below = lab.folder / "parts"
    below.mkdir()
    (below / "CLAUDE.md").write_text("Parts are numbered.\n")
    (below / "a.py").write_text("a = 1\n")
    watched: list[str] = []

    def watch(folder: Path, **_: Any) -> Iterator[Any]:
        watched.append(str(folder))
        return iter(())

    module = types.SimpleNamespace(watch=watch)
    with patch.dict(sys.modules, {"watchfiles": module}), lab.open(tools=[READ]) as session:
        lab.twin.script({"content": [call("toolu_1", file_path=str(below / "a.py"))]}, "Read.")
        session.send("Read it.")
    lab.observe(watched)


def recall(lab: Lab) -> None:
    """The model looks for something that it said before."""
    with lab.open(tools=[READ]) as session:
        lab.talk(session, 2)
        lab.twin.script({"content": [call("toolu_r", "recall", query="login")]}, "Found.")
        lab.observe(session.send("What was it?").text)


def hooks(lab: Lab) -> None:
    """A settings file with a hook that says something about every prompt."""
    told = {"hooks": [{"type": "command", "command": "echo told by a file"}]}
    file = lab.folder / "home" / "hooks.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"hooks": {"UserPromptSubmit": [told]}}))
    with lab.open() as session:
        lab.say(session)


def chat(lab: Lab) -> None:
    """A chat in a project that brings hooks of its own."""
    project = lab.folder / "project"
    (project / ".claude").mkdir(parents=True)
    ran = project / "ran.txt"
    told = {"hooks": [{"type": "command", "command": f"echo ran >> {ran}"}]}
    (project / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [told]}}))
    session = lab.folder / "chat.jsonl"
    given = {KEYS[key].variable: ",".join(value) for key, value in lab.overrides.items()}
    with chdir(project):
        done = lab.everturn("chat", project, "--twin", "--session", session, "-p", "Hello.", **given)
    lab.observe(done.exit_code, done.stderr)
    # It has the real time and ids of its own.
    for each in lab.folder.glob("chat.jsonl*"):
        if each.is_dir():
            shutil.rmtree(each)
        else:
            each.unlink()


def events(lab: Lab) -> None:
    """Events of a session whose compactions succeed and fail."""
    from prometheus_client import REGISTRY

    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("everturn")
    level = logger.level
    spans: list[Any] = []

    class Tracer:
        def start_span(self, name: str, **more: Any) -> Any:
            spans.append((name, sorted(more["attributes"].items())))
            return types.SimpleNamespace(end=lambda **_: None)

    before = {(s.name, *s.labels.items()): s.value for m in REGISTRY.collect() for s in m.samples}
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        with patch("opentelemetry.trace.get_tracer", lambda *_: Tracer()), lab.open() as session:
            lab.talk(session, 3)
            lab.compact(session)
            lab.talk(session, 2)
            lab.compact(session, *["I'm sorry, but I can't help with that."] * 9)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    after = {(s.name, *s.labels.items()): s.value for m in REGISTRY.collect() for s in m.samples}
    counted = sorted(
        f"{name} +{value - before.get(name, 0)}"
        for name, value in after.items()
        if name[0].startswith("everturn")
        and not name[0].endswith("_created")
        and value != before.get(name, 0)
    )
    lab.observe(heard, spans, counted)


def durable(lab: Lab) -> None:
    """How often the disk is waited for."""
    synced: list[int] = []
    with patch("os.fsync", lambda fd: synced.append(fd)), lab.open() as session:
        lab.talk(session, 3)
    lab.observe(len(synced))


def rounds(lab: Lab) -> None:
    """A model that calls a tool again and again."""
    with lab.open(tools=[READ]) as session:
        lab.twin.script(*({"content": [call(f"toolu_{n}", file_path=f"{n}.py")]} for n in range(4)), "Done.")
        reply = session.send("Read all.")
        lab.observe(reply.text, reply.stopped)


def middleware(lab: Lab) -> None:
    """Several conversations through the SDK's client; the data folder is in the home folder."""
    with patch.dict(os.environ, {"XDG_DATA_HOME": str(lab.folder / "data")}):
        between = everturn.middleware(
            config=None, clock=lab.twin.twin.clock.now, new_id=lab.new_id, listen=lab.events.append,
            **lab.overrides,
        )  # fmt: skip
        client = lab.twin.client(middleware=[between], max_retries=0)
        for n in (1, 2, 1):
            lab.twin.script("Well.")
            messages: Any = [{"role": "user", "content": f"Question {n}."}]
            client.messages.create(model="claude-haiku-4-5", max_tokens=100, messages=messages)
            lab.observe(len(between.conversations))
        between.close()


def pausing_caller(lab: Lab) -> None:
    """A program with the SDK's middleware in which nobody speaks for a while."""
    clock = lab.twin.twin.clock
    assert isinstance(clock, VirtualClock)
    timer = VirtualTimer(clock.now, clock.set)
    with patch.dict(os.environ, {"XDG_DATA_HOME": str(lab.folder / "data")}):
        between = everturn.middleware(
            config=None, folder=None, clock=clock.now, new_id=lab.new_id, hold_timer=timer, **lab.overrides
        )
        client = lab.twin.client(middleware=[between], max_retries=0)
        messages: Any = [{"role": "user", "content": "The token comes late. " * 2_300}]
        lab.twin.script("Seen.")
        client.messages.create(model="claude-opus-4-5", max_tokens=100, messages=messages)
        timer.advance(600)
        lab.observe(len(lab.twin.ledger))
        between.close()


def pausing_client(lab: Lab) -> None:
    """A client of the gateway that says nothing for a while."""
    from everturn.gateway.app import make_gateway
    from everturn.gateway.server import serve_gateway
    from everturn.gateway.start import load_settings
    from everturn.twin.app import serve_twin

    settings = {"store.kind": "memory", **lab.overrides}
    with (
        patch.dict(os.environ, {"XDG_DATA_HOME": str(lab.folder / "data")}),
        serve_twin(lab.twin.twin) as upstream,
    ):
        loaded = load_settings(
            upstream=upstream, mode="manage", settings=settings, config_path=None, limits={}
        )
        with serve_gateway(make_gateway(loaded), shutdown_seconds=1) as (url, _):
            lab.twin.script("Well.")
            client = anthropic.Anthropic(api_key="any", base_url=url, max_retries=0)
            messages: Any = [{"role": "user", "content": "The token comes late. " * 2_300}]
            client.messages.create(model="claude-opus-4-5", max_tokens=100, messages=messages)
            until = time.monotonic() + 1.5
            while len(lab.twin.ledger) < 2 and time.monotonic() < until:
                time.sleep(0.01)
            lab.observe(len(lab.twin.ledger) > 1)
            client.close()


def gateway(lab: Lab) -> None:
    """A request over HTTP; the response names the mode."""
    from everturn.gateway.app import make_gateway
    from everturn.gateway.server import serve_gateway
    from everturn.gateway.start import load_settings
    from everturn.twin.app import serve_twin

    settings = {"store.kind": "memory", **lab.overrides}
    with serve_twin(lab.twin.twin) as upstream:
        loaded = load_settings(upstream=upstream, mode=None, settings=settings, config_path=None, limits={})
        with serve_gateway(make_gateway(loaded), shutdown_seconds=1) as (url, _):
            lab.twin.script("Well.")
            client = anthropic.Anthropic(api_key="any", base_url=url, max_retries=0)
            messages: Any = [{"role": "user", "content": "Hello."}]
            answered = client.messages.with_raw_response.create(
                model="claude-haiku-4-5", max_tokens=100, messages=messages
            )
            lab.observe(answered.headers["x-everturn-mode"])
            client.close()


def silent_database(lab: Lab) -> None:
    """A session in a database that takes connections and never says a word."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as door:
        door.bind(f"{folder}/.s.PGSQL.5432")
        door.listen()
        lab.path = Path("work")
        try:
            lab.open(**{"store.url": f"postgresql://me@/db?host={folder}"})
        except EverturnError as problem:
            lab.observe(str(problem))


def broken_cache(lab: Lab) -> None:
    """The tools change in the middle; two sources take turns in one transcript."""
    opus = {"model": "claude-opus-4-5"}
    for n, source in enumerate(("main", "agent:a", "main")):
        with lab.open(tools=[READ, *([FETCH] if n == 2 else [])], source=source, **opus) as session:
            lab.talk(session, 2)


def carrying(lab: Lab) -> None:
    """A context of 50,000 tokens is carried through many short turns, and then through a pause."""
    with lab.open(model="claude-opus-4-5") as session:
        for n in range(4):
            lab.twin.script("Seen.")
            session.send(f"Log {n}: " + "The token comes late. " * 2_300)
        for n in range(16):
            lab.twin.script(f"Answer {n}.")
            session.send(f"Question {n}.")
        lab.twin.advance(301)
        lab.say(session)
        lab.observe(session.context().levels)


def idle_tools(lab: Lab) -> None:
    """A large tool that nobody calls, and a pause."""
    large = {**FETCH.definition, "description": "It fetches a page and more. " * 900}
    for turns in (12, 1):
        with lab.open(model="claude-opus-4-5", tools=[READ, Tool(large)]) as session:
            lab.talk(session, turns)
            lab.twin.advance(301)


def pausing(lab: Lab) -> None:
    """Nobody speaks for a while."""
    clock = lab.twin.twin.clock
    assert isinstance(clock, VirtualClock)
    timer = VirtualTimer(clock.now, clock.set)
    with lab.open(model="claude-opus-4-5", hold_timer=timer) as session:
        lab.twin.script("Seen.")
        session.send("The token comes late. " * 2_300)
        timer.advance(301)
        lab.say(session)
        lab.observe({name: part.calls for name, part in session.bill.parts.items()})


def connecting(lab: Lab) -> None:
    """The client that a session makes for itself."""
    made: list[Any] = []
    own = anthropic.Anthropic

    def make(**given: Any) -> Any:
        # The HTTP client below it is an object, and the same whatever is configured.
        made.append({name: value for name, value in given.items() if name != "http_client"})
        return own(api_key="test-key")

    with patch.object(anthropic, "Anthropic", make):
        Session.open(lab.path, config=None, **lab.overrides).close()
    lab.observe(made)
