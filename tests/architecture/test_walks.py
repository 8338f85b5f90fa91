"""Every function that docs/architecture.md names exists, and a call with the SDK reaches those of its walks.

A name is written as a path below `src/everturn/` and a name in that module, in backticks:
`session/session.py: Session.send`.
"""

import inspect
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import reduce
from importlib import import_module

import anthropic
import httpx2
import pytest
from click.testing import CliRunner

import everturn
from everturn import Session, Tool
from everturn.cli import main
from everturn.twin.build import build_twin
from everturn.twin.testing import TwinForTests
from everturn.twin.transport import TwinTransport

NAMED = re.compile(r"`([\w/]+)\.py: ([\w.]+)`")
WALK = re.compile(r"^## Walk \d: (.*)$", re.MULTILINE)
MIN_NAMES_IN_A_WALK = 12
# What the walks say of other calls than those of `converse` and `talk`.
NOT_REACHED = {
    "ConversationTracker.undo_after_refusal": "the API refuses a compacted request",
    "ConversationTracker.report_failure": "everturn fails",
    "make_app": "the twin in a process of its own",
    "Twin._summarize": "a request asks the API for a compaction",
    "Twin._compact_and_reply": "a request sets a threshold for one",
    "compute_priced_usage": "the ledger is listed",
}
NOT_REACHED_BY_A_MESSAGE = {
    "ConversationRunner.compact_after_overflow": "the API answers that the prompt is too long",
    "parse_overflow": "the same",
    "refuses_thinking": "the API refuses thinking",
    "Compactor.refused": "the API refuses a compacted request",
    "CacheHolder.begin": "holds are switched on",
}


def named_in(text: str) -> list[tuple[str, str]]:
    return NAMED.findall(text)


def find(path: str, name: str) -> object:
    module = import_module("everturn." + path.removesuffix("/__init__").replace("/", "."))
    return reduce(getattr, name.split("."), module)


def is_missing(path: str, name: str) -> bool:
    try:
        find(path, name)
    except (ImportError, AttributeError):
        return True
    return False


def split_walks(page: str) -> dict[str, str]:
    _, *parts = WALK.split(page)
    return {title: text.partition("\n## ")[0] for title, text in zip(parts[::2], parts[1::2], strict=True)}


@contextmanager
def record_calls(called: set[object]) -> Generator[None]:
    """Adds the code of every function that is called meanwhile, in this thread."""

    def note(frame, event, _):
        if event == "call":
            called.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


def converse(folder) -> None:
    """Calls with the SDK against the twin: a summary, a fork, a restart, a stream, one that is too long."""
    http = httpx2.Client(transport=TwinTransport(build_twin()))

    def connect(**options):
        made = everturn.middleware(config=None, **options)
        client = anthropic.Anthropic(api_key="k", base_url="http://twin", http_client=http, middleware=[made])
        return made, client.messages

    def ask(messages, *texts):
        for text in texts:
            messages = [*messages, {"role": "user", "content": text}]
            reply = api.create(model="claude-haiku-4-5", max_tokens=99, messages=messages)
            messages = [
                *messages,
                {"role": "assistant", "content": [each.to_dict() for each in reply.content]},
            ]
        return messages

    middleware, api = connect(folder=folder, window=30_000)
    said = ask([], *("A long question. " * 1_500 for _ in range(4)))
    ask(said[:-2], "Another one.")
    middleware.close()
    ask(said, "And after a restart?")
    with api.stream(model="claude-haiku-4-5", max_tokens=99, messages=[said[0]]) as stream:
        stream.get_final_message()
    middleware.close()
    _, api = connect(folder=None, window=1_000_000)
    ask(
        [each for _ in range(8) for each in ({**said[0], "content": "A list of words. " * 8_000}, said[1])],
        "So?",
    )


def talk(folder) -> None:
    """A session with a tool, notes, a micro-compaction and a compaction; the last message is streamed."""
    twin = TwinForTests()
    twin.script({"content": [{"type": "tool_use", "name": "read", "input": {}}]}, "I have read it.")
    read = Tool({"name": "read", "input_schema": {"type": "object"}}, run=lambda _: "a line of a file " * 99)
    options = {"window": 60_000, "notes": True, "model": "claude-opus-4-5", "config": None}
    with Session.open(folder / "work.jsonl", client=twin.client(), tools=[read], **options) as it:
        for _ in range(12):
            it.send("What of this matters? " * 1_000)
        list(it.stream("And now?"))
    twin.close()


def replay(folder) -> None:
    """A synthetic session under policies that need what they have removed, in this process."""
    file = str(folder / "session.jsonl")
    made = CliRunner().invoke(main, ["make-session", "--tokens", "60000", "--out", file])
    assert made.exit_code == 0, made.output
    options = ["--policy", "recorded,clear-keep-3,sliding-window", "--engine", "here"]
    done = CliRunner().invoke(
        main, ["replay", file, *options, "--html", f"{folder}/page.html", "--cache", f"{folder}/cache"]
    )
    assert done.exit_code == 0, done.output


def missed_by(text: str, called: set[object]) -> set[str]:
    """The functions that a text names and that were not called."""
    # Unwrapped: the run notes which surfaces a test goes through (`surface_watch.py`).
    found = {
        name: inspect.unwrap(each) for path, name in named_in(text) if callable(each := find(path, name))
    }
    named = {name: getattr(each, "__func__", each) for name, each in found.items()}
    return {name for name, each in named.items() if inspect.isfunction(each) and each.__code__ not in called}


@pytest.fixture(scope="module")
def page(pages) -> str:
    return pages["docs/architecture.md"]


def test_every_function_that_the_architecture_page_names_exists(page):
    assert sorted({each for each in named_in(page) if is_missing(*each)}) == []


def test_there_are_four_walks_and_each_names_its_functions(page):
    walks = split_walks(page)
    counts = {title: len(set(named_in(text))) for title, text in walks.items()}
    assert list(walks) == ["one message", "one SDK call", "one twin request", "one replay"]
    assert {title: count for title, count in counts.items() if count < MIN_NAMES_IN_A_WALK} == {}


def test_calls_with_the_sdk_reach_every_function_of_the_walks_through_the_sdk_and_the_twin(page, tmp_path):
    walks, called = split_walks(page), set()
    with record_calls(called):
        converse(tmp_path)
    text = walks["one SDK call"] + walks["one twin request"]
    assert missed_by(text, called) == set(NOT_REACHED)


def test_a_message_reaches_every_function_of_its_walk(page, tmp_path):
    called: set[object] = set()
    with record_calls(called):
        talk(tmp_path)
    assert missed_by(split_walks(page)["one message"], called) == set(NOT_REACHED_BY_A_MESSAGE)


def test_a_replay_reaches_every_function_of_its_walk(page, tmp_path):
    called: set[object] = set()
    with record_calls(called):
        replay(tmp_path)
    assert missed_by(split_walks(page)["one replay"], called) == set()


def test_every_module_that_the_page_names_without_a_function_exists(page, root):
    # The list of files at the end quotes docstrings, which name a neighbour by its file name alone.
    paths = re.findall(r"`([\w/]+\.py)`", page.partition("\n## Every file\n")[0])
    folders = (root, root / "src" / "everturn")
    assert [path for path in paths if not any((folder / path).is_file() for folder in folders)] == []


def test_a_name_that_does_not_exist_is_found():
    text = (
        "`session/session.py: Session.send`, `session/session.py: Session.sends`, `no/such.py: name`, `a: b`"
    )
    assert [each for each in named_in(text) if is_missing(*each)] == [
        ("session/session", "Session.sends"),
        ("no/such", "name"),
    ]
