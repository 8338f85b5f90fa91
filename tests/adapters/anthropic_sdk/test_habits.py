"""Callers with habits: what they add to their newest message and leave out later, how they spell their list.

None of it makes another conversation, loses a compaction or costs more than the caller without the habit.
"""

import asyncio
import json
import logging

import pytest

from everturn.adapters.tracking import PassedThrough
from everturn.decide.events import ForksRepeated, SummaryUncached

# A window that a few questions fill.
SMALL = {"window": 40_000}
LOG = "A long log line. " * 700
TODO = "<reminder>Todo: {}. Never push to main.</reminder>"


def text(words):
    return {"type": "text", "text": words}


def plain(number, said):
    return said, said


def block_behind(number, said):
    return [text(said), text(TODO.format(number))], [text(said)]


def block_in_front(number, said):
    return [text(TODO.format(number)), text(said)], said


def text_inside(number, said):
    return f"{said}\n\n{TODO.format(number)}", said


def blocks_then_string(number, said):
    return [text(said)], said


def marker_that_moves(number, said):
    return [{**text(said), "cache_control": {"type": "ephemeral"}}], [text(said)]


def blocks_then_joined(number, said):
    return [text(said), text(f"Question {number}?")], f"{said}\n\nQuestion {number}?"


def run(bench, habit, questions=14, ask=None):
    """A caller with a habit: what it sends of each question, and what its history keeps."""
    history = []
    for number in range(questions):
        sent, kept = habit(number, f"Entry {number}: {LOG}")
        reply = (ask or bench.ask)([*history, {"role": "user", "content": sent}])
        history += [{"role": "user", "content": kept}, {"role": "assistant", "content": reply.content}]
    bench.check()
    return sum(entry["dollars"] for entry in bench.twin.ledger)


def compactions(bench):
    return [each.compactions for each in bench.middleware.conversations]


@pytest.fixture
def alone(benches):
    """What the caller without a habit pays."""
    return run(benches(**SMALL), plain)


@pytest.mark.spec("GW-11")
@pytest.mark.parametrize("habit", [block_behind, block_in_front, text_inside], ids=lambda each: each.__name__)
def test_a_reminder_that_is_left_out_later_costs_nothing_more(benches, alone, habit):
    bench = benches(**SMALL)
    before = alone
    cost = run(bench, habit) - before
    assert len(bench.middleware.conversations) == 1
    assert compactions(bench)[0] >= 2
    assert cost < 1.15 * before


@pytest.mark.spec("GW-10")
@pytest.mark.parametrize(
    "habit", [blocks_then_string, marker_that_moves, blocks_then_joined], ids=lambda each: each.__name__
)
def test_another_spelling_of_the_same_words_costs_nothing_more(benches, alone, habit):
    bench = benches(**SMALL)
    cost = run(bench, habit) - alone
    assert len(bench.middleware.conversations) == 1
    assert cost < 1.15 * alone


@pytest.mark.spec("GW-10")
def test_two_messages_that_are_joined_later_are_the_same(benches, alone):
    bench = benches(**SMALL)
    history = []
    for number in range(14):
        context = {"role": "user", "content": f"Entry {number}: {LOG}"}
        question = {"role": "user", "content": f"Question {number}?"}
        reply = bench.ask([*history, context, question])
        joined = [text(context["content"]), text(question["content"])]
        history += [{"role": "user", "content": joined}, {"role": "assistant", "content": reply.content}]
    bench.check()
    assert len(bench.middleware.conversations) == 1
    assert sum(entry["dollars"] for entry in bench.twin.ledger) - alone < 1.15 * alone


def test_streams_and_async_clients_are_recognised_alike(benches):
    bench = benches(**SMALL)

    def stream(messages):
        with bench.client.messages.stream(
            model="claude-haiku-4-5", max_tokens=500, messages=messages
        ) as events:
            return events.get_final_message()

    async def ask_async(messages):
        return await bench.async_client.messages.create(
            model="claude-haiku-4-5", max_tokens=500, messages=messages
        )

    ways = [bench.ask, stream, lambda messages: asyncio.run(ask_async(messages))]
    turns = iter(range(99))
    run(bench, block_behind, ask=lambda messages: ways[next(turns) % 3](messages))
    assert len(bench.middleware.conversations) == 1


def test_what_was_sent_is_what_goes_on_being_sent(bench):
    first = {"role": "user", "content": "Look at the parser."}
    sent = {"role": "user", "content": [text("Look at the parser."), text(TODO.format(1))]}
    reply = bench.ask([sent])
    bench.ask(
        [first, {"role": "assistant", "content": reply.content}, {"role": "user", "content": "And now?"}]
    )
    assert [block["text"] for block in bench.sent[-1]["messages"][0]["content"]] == [
        "Look at the parser.", TODO.format(1)
    ]  # fmt: skip
    bench.check()


def test_a_list_without_its_reminders_is_found_after_a_restart(benches):
    bench = benches(**SMALL)
    history = []
    for number in range(9):
        if number in (4, 7):
            bench.restart()
        said = f"Entry {number}: {LOG}"
        reply = bench.ask([*history, {"role": "user", "content": f"{said}\n\n{TODO.format(number)}"}])
        history += [{"role": "user", "content": said}, {"role": "assistant", "content": reply.content}]
    bench.check()
    assert len(bench.transcripts) == 1
    assert len(bench.middleware.conversations) == 1


# ── whose words ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("GW-10")
def test_nobody_gets_the_additions_of_another_caller_with_the_same_words(bench):
    """Two users greet alike and get the same short answer; what the program added about each is left out."""
    for user in ("Alice", "Bob"):
        bench.twin.script("Hello!")
        bench.ask([{"role": "user", "content": [text("Hi."), text(f"The user is {user}.")]}])
    shared = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello!"}]
    for _ in range(2):
        bench.ask([*shared, {"role": "user", "content": "Who am I?"}])
        assert "The user is" not in json.dumps(bench.sent[-1])


def test_a_long_answer_that_two_callers_got_does_not_tell_whose_list_it_is(bench):
    long = "I am the assistant of the shop. " * 10
    for user in ("Alice", "Bob"):
        bench.twin.script(long)
        bench.ask([{"role": "user", "content": [text("Hi."), text(f"The user is {user}.")]}])
    shared = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": long}]
    bench.ask([*shared, {"role": "user", "content": "Who am I?"}])
    assert "The user is" not in json.dumps(bench.sent[-1])


def test_the_users_of_one_program_are_told_apart_by_their_metadata(bench):
    long = "I am the assistant of the shop. " * 10
    bench.twin.script(long)
    bench.ask(
        [{"role": "user", "content": [text("Hi."), text("The user is Alice.")]}], metadata={"user_id": "a"}
    )
    shared = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": long}]
    bench.ask([*shared, {"role": "user", "content": "Who am I?"}], metadata={"user_id": "b"})
    assert "Alice" not in json.dumps(bench.sent[-1])


def test_an_edit_is_not_taken_for_a_reminder_that_was_left_out(bench):
    reply = bench.ask([{"role": "user", "content": "Fix the parser, not the writer."}])
    edited = [
        {"role": "user", "content": "Fix the writer."},
        {"role": "assistant", "content": reply.content},
        {"role": "user", "content": "Go on."},
    ]
    bench.ask(edited)
    assert "Fix the writer." in json.dumps(bench.sent[-1])
    assert "Fix the parser" not in json.dumps(bench.sent[-1])


def test_what_came_back_once_is_settled_and_leaving_it_out_later_is_an_edit(bench):
    history = [{"role": "user", "content": [text("Look at the parser."), text("My number is 555-1234.")]}]
    for said in ("And?", "So?"):
        reply = bench.ask(history)
        history += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": said}]
    history[0] = {"role": "user", "content": "Look at the parser."}
    bench.ask(history)
    assert "555-1234" not in json.dumps(bench.sent[-1])


@pytest.mark.spec("GW-10")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_list_that_was_trimmed_and_went_on_elsewhere_gets_nothing_back(bench, restarts):
    """The first message is half of what was sent, as if the rest had been a reminder; but replies that were
    never seen here show that this is not the next request."""
    bench.twin.script("It has two passes. " * 10)
    reply = bench.ask(
        [{"role": "user", "content": [text("My number is 555-1234."), text("And the parser?")]}]
    )
    if restarts:
        bench.restart()
    bench.ask(
        [
            {"role": "user", "content": "And the parser?"},
            {"role": "assistant", "content": reply.content},
            {"role": "user", "content": "So?"},
            {"role": "assistant", "content": "An answer from elsewhere."},
            {"role": "user", "content": "Go on."},
        ]
    )
    assert "555-1234" not in json.dumps(bench.sent[-1])
    bench.check()


def test_what_came_back_once_is_settled_after_a_restart_too(bench):
    history = [{"role": "user", "content": [text("Look at the parser."), text("My number is 555-1234.")]}]
    for said in ("And?", "So?"):
        bench.twin.script(f"About {said} " * 30)
        reply = bench.ask(history)
        history += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": said}]
    bench.restart()
    history[0] = {"role": "user", "content": "Look at the parser."}
    bench.ask(history)
    assert "555-1234" not in json.dumps(bench.sent[-1])


# ── forks ────────────────────────────────────────────────────────────────────────────────────────


def test_a_compaction_survives_an_edit_of_the_message_that_it_was_made_for(benches):
    """It was kept behind the summary, so all that was summarized is still in the caller's list."""
    bench = benches(window=60_000)
    messages = []
    while not any(compactions(bench)):
        before, said = messages, f"Entry {len(messages)}: {LOG}"
        messages = bench.talk(messages, said)
    assert said.split(": ")[0] in json.dumps(bench.sent[-1])
    calls = len(bench.twin.ledger)
    for attempt in range(3):
        bench.talk(before, f"Attempt {attempt}: {LOG}")
        assert f"Attempt {attempt}" in json.dumps(bench.sent[-1])
        assert said.split(": ")[0] not in json.dumps(bench.sent[-1])
    assert len(bench.twin.ledger) == calls + 3
    assert compactions(bench) == [1, 1, 1, 1]
    bench.check()


@pytest.mark.spec("GW-11")
def test_three_forks_within_ten_calls_are_reported_in_an_event_a_log_line_and_the_bill(bench, caplog):
    start = bench.talk([], "Look at the parser.", "Explain it.")
    with caplog.at_level(logging.WARNING, "everturn"):
        for number in range(3):
            bench.ask([*start[:2], {"role": "user", "content": f"Other question {number}."}])
    (event,) = [event for event in bench.events if isinstance(event, ForksRepeated)]
    assert (event.forks, event.where) == (3, "messages.2.content.0")
    assert event.difference == "the user text of 17 characters differs from what was sent before"
    assert event.where in caplog.text
    assert event.where in bench.middleware.bill.notes[0]
    assert "Other question" not in caplog.text + bench.middleware.bill.notes[0]


# ── replies that the caller has changed ──────────────────────────────────────────────────────────

LARGER = {"window": 60_000}
QUESTIONS = tuple(f"Entry {number}: {LOG}" for number in range(16))


@pytest.fixture
def alone_in_larger(benches):
    """What the questions cost a caller that keeps replies as they came."""
    bench = benches(**LARGER, folder_name="alone")
    bench.talk([], *QUESTIONS)
    return sum(entry["dollars"] for entry in bench.twin.ledger)


@pytest.mark.spec("GW-10")
def test_a_reply_that_the_caller_begins_itself_costs_nothing_more(benches, alone_in_larger):
    """The caller's history has its beginning and the model's end as one text."""
    bench, history = benches(**LARGER), []
    for said in QUESTIONS:
        asked = {"role": "user", "content": said}
        reply = bench.ask([*history, asked, {"role": "assistant", "content": "Sure:"}])
        history += [asked, {"role": "assistant", "content": f"Sure:{reply.content[0].text}"}]
    bench.check()
    assert len(bench.middleware.conversations) == 1
    cost = sum(entry["dollars"] for entry in bench.twin.ledger) - alone_in_larger
    assert cost < 1.15 * alone_in_larger


@pytest.mark.spec("GW-10")
def test_a_reply_that_the_caller_has_begun_is_known_after_a_restart(bench):
    begun = {"role": "assistant", "content": "Sure:"}
    bench.twin.script("the parser is fine, and the writer too. " * 4)
    reply = bench.ask([{"role": "user", "content": "Look at it."}, begun])
    bench.restart()
    joined = {"role": "assistant", "content": f"Sure: {reply.content[0].text}"}
    asked = [
        {"role": "user", "content": "Look at it."},
        joined,
        {"role": "user", "content": "And now?"},
        begun,
    ]
    bench.ask(asked)
    assert len(bench.transcripts) == 1
    bench.check()


@pytest.mark.spec("GW-10")
def test_an_edit_behind_replies_that_the_caller_has_begun_is_a_fork_that_keeps_the_compaction(benches):
    """Its history has each beginning and the model's end as one text: that is a reply from here, too."""
    bench, history, begun = benches(**LARGER), [], {"role": "assistant", "content": "Sure:"}
    for said in QUESTIONS[:4]:
        asked = {"role": "user", "content": said}
        reply = bench.ask([*history, asked, begun])
        history += [asked, {"role": "assistant", "content": f"Sure:{reply.content[0].text}"}]
    bench.middleware.compact()
    bench.ask([*history, {"role": "user", "content": "And now?"}, begun])
    bench.ask([*history, {"role": "user", "content": "And what else?"}, begun])
    assert compactions(bench) == [1, 1]
    assert bench.sent[-1]["messages"][:-2] == bench.sent[-2]["messages"][:-2]
    bench.check()


@pytest.mark.spec("GW-10")
def test_a_history_from_elsewhere_is_summarized_once_for_a_caller_that_writes_on_in_its_last_message(benches):
    """As text agents do: a thought of the model, what it observed, and so on, in a reply that it begins."""
    bench, begun = benches(**SMALL), "Thought:"
    words = [{"role": "user", "content": LOG}, {"role": "assistant", "content": "Answer. " * 300}] * 6
    history = [*words, {"role": "user", "content": "Look at it."}]
    for step in range(4):
        reply = bench.ask([*history, {"role": "assistant", "content": begun}])
        begun += f"{reply.content[0].text}\nObservation: part {step} is fine.\nThought:"
    assert sum("Write a summary of" in json.dumps(body["messages"][-1]) for body in bench.sent) == 1
    bench.check()


@pytest.mark.spec("GW-10")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_reply_that_was_cut_at_a_space_is_gone_on_with_as_its_caller_sends_it(bench, restarts):
    """The API takes no white space at the end of a list, so the caller has left it out."""
    cut = "The parser reads every record and keeps it. " * 4
    bench.twin.script({"content": cut, "stop_reason": "max_tokens"}, "So is the writer.")
    asked = {"role": "user", "content": "Look at it."}
    begun = bench.ask([asked]).content[0].text.rstrip()
    if restarts:
        bench.restart()
    reply = bench.ask([asked, {"role": "assistant", "content": begun}])
    (ended,) = bench.sent[-1]["messages"][-1]["content"]
    assert ended["text"] == begun
    bench.ask([asked, {"role": "assistant", "content": begun + reply.content[0].text}, asked])
    assert len(bench.transcripts) == 1
    bench.check()


SEARCH = {"type": "web_search_20250305", "name": "web_search"}
SEARCHES = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}}


@pytest.mark.spec("CP-37")
def test_a_compaction_keeps_the_reply_that_the_caller_has_begun_last(benches):
    bench = benches(**LARGER)
    history = bench.talk([], *QUESTIONS[:2])
    bench.middleware.compact()
    bench.ask([*history, {"role": "user", "content": "And now?"}, {"role": "assistant", "content": "Sure:"}])
    bench.check()
    assert compactions(bench) == [1]
    messages = bench.sent[-1]["messages"]
    assert len(messages) < 6
    assert (messages[-1]["role"], "Sure:" in json.dumps(messages[-1])) == ("assistant", True)
    assert "And now?" in json.dumps(messages[-2])


@pytest.mark.spec("CP-37")
@pytest.mark.parametrize("found", [[], ["web_search_tool_result"]], ids=["under way", "found"])
def test_a_compaction_goes_on_with_the_reply_that_the_api_has_paused(benches, found):
    bench = benches(**SMALL)
    history = bench.talk([], *QUESTIONS[:3], tools=[SEARCH])
    history += [{"role": "user", "content": "Does it rain?"}]
    results = [{"type": each, "tool_use_id": "srvtoolu_1", "content": []} for each in found]
    bench.twin.script({"content": [text("I look."), SEARCHES, *results], "stop_reason": "pause_turn"})
    reply = bench.ask(history, tools=[SEARCH])
    history += [{"role": "assistant", "content": reply.content}]
    before = compactions(bench)[0]
    bench.middleware.compact()
    bench.ask(history, tools=[SEARCH])
    bench.check()
    assert compactions(bench)[0] == before + 1
    messages = bench.sent[-1]["messages"]
    assert len(messages) < 8
    assert "Does it rain?" in json.dumps(messages[-2])
    kinds = [block["type"] for block in messages[-1]["content"]]
    assert kinds == ["text", "server_tool_use", *found]


@pytest.mark.spec("GW-11")
def test_a_caller_that_signs_every_reply_keeps_its_compaction_and_is_told(benches, alone_in_larger):
    bench, history = benches(**LARGER), []
    for said in QUESTIONS:
        history += [{"role": "user", "content": said}]
        reply = bench.ask(history)
        history += [{"role": "assistant", "content": f"{reply.content[0].text}\n\nAnswered by the model."}]
    bench.check()
    # Each signature changes the prefix. As new conversations, every turn would be summarized.
    cost = sum(entry["dollars"] for entry in bench.twin.ledger) - alone_in_larger
    assert cost < 1.5 * alone_in_larger
    told = [event for event in bench.events if isinstance(event, ForksRepeated)]
    assert told != []
    assert {event.where for event in told} <= {f"messages.{at}.content.0" for at in range(1, 32, 2)}


def test_lists_that_begin_with_the_same_examples_are_not_forks_of_each_other(bench):
    examples = [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": f"An answer. {LOG}"}]
    for number in range(4):
        bench.talk(examples, f"Question {number}?", "And then?")
    assert [event for event in bench.events if isinstance(event, ForksRepeated)] == []
    assert [each.messages for each in bench.middleware.conversations] == [6, 6, 6, 6]
    assert all("Question 0" not in json.dumps(body) for body in bench.sent[2:])
    bench.check()


# ── what current clients send ────────────────────────────────────────────────────────────────────

NEW = "claude-opus-5-5"
THREADS = {"anthropic-beta": "message-threads-2026-08-12"}


def test_system_messages_are_understood_and_sent_as_they_came(benches):
    bench = benches(window=40_000)
    history = []
    for number in range(8):
        asked = [
            {"role": "user", "content": f"Entry {number}: {LOG}"},
            {"role": "system", "content": f"Mode {number}: answer briefly."},
        ]
        reply = bench.ask([*history, *asked], model=NEW, max_tokens=2000)
        assert [message["role"] for message in bench.sent[-1]["messages"][-2:]] == ["user", "system"]
        assert bench.sent[-1]["messages"][-1]["content"][0]["text"] == f"Mode {number}: answer briefly."
        history += [*asked, {"role": "assistant", "content": reply.content}]
    bench.check()
    assert len(bench.middleware.conversations) == 1
    assert compactions(bench)[0] >= 1


@pytest.mark.spec("GW-10")
def test_a_thread_goes_on_after_a_restart_and_a_compaction(benches):
    """Its requests have only what is new, and neither system prompt nor tools."""
    bench = benches(window=40_000)
    previous = None
    for number in range(9):
        thread = {"type": "continue", "previous_message_id": previous} if previous else {"type": "create"}
        head = {} if previous else {"system": "You are terse."}
        more = {"extra_body": {"thread": thread}, "extra_headers": THREADS, "max_tokens": 2000, **head}
        reply = bench.ask([{"role": "user", "content": f"Entry {number}: {LOG}"}], model=NEW, **more)
        previous = reply.id
        if number % 3 == 1:
            bench.restart()
    bench.check()
    assert bench.sent[-1]["system"][0]["text"] == "You are terse."
    assert all("thread" not in body for body in bench.sent)
    assert compactions(bench)[0] >= 1
    assert len(bench.transcripts) == 1


@pytest.mark.spec("GW-10")
def test_system_messages_of_a_thread_keep_their_role_where_only_new_messages_are_sent(bench):
    """As reminders they would change what stands before all later thinking, with each request anew."""
    previous, sent = None, []
    for number in range(4):
        new = [{"role": "user", "content": f"Part {number}."}]
        if number in (0, 2):
            new.append({"role": "system", "content": f"Mode {number}."})
        thread = {"type": "continue", "previous_message_id": previous} if previous else {"type": "create"}
        more = {"extra_body": {"thread": thread}, "extra_headers": THREADS}
        previous = bench.ask(new, model=NEW, max_tokens=2000, system="Be good.", **more).id
        sent += [message["role"][0] for message in new] + ["a"]
        assert [message["role"][0] for message in bench.sent[-1]["messages"]] == sent[:-1]
    bench.check()


@pytest.mark.spec("GW-10")
def test_system_messages_that_become_reminders_are_the_same_conversation(bench):
    asked = [{"role": "user", "content": "Look at it."}, {"role": "system", "content": "Answer briefly."}]
    reply = bench.ask(asked, model=NEW, max_tokens=2000)
    answer = {"role": "assistant", "content": [block for block in reply.content if block.type == "text"]}
    reminder = text("<system-reminder>Answer briefly.</system-reminder>")
    respelled = [{"role": "user", "content": [reminder, text("Look at it.")]}, answer]
    bench.ask([*respelled, {"role": "user", "content": "And now?"}])
    bench.check()
    assert len(bench.middleware.conversations) == 1
    assert [message["role"] for message in bench.sent[-1]["messages"]] == ["user", "assistant", "user"]
    assert "<system-reminder>\nAnswer briefly.\n</system-reminder>" in [
        block["text"] for block in bench.sent[-1]["messages"][0]["content"]
    ]


@pytest.mark.spec("CP-38")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_second_edit_does_not_bring_back_thinking_that_the_first_made_invalid(benches, restarts):
    """The model binds thinking to what came before it. The second fork begins behind the first edit, and
    before the record by which the first fork dropped the thinking between the two. After a restart it is not
    known with which system prompt the shared part was sent, so its thinking is not sent either."""
    bench = benches()
    more = {"model": NEW, "max_tokens": 2000, "thinking": {"type": "adaptive"}}
    history = bench.talk([], *(f"Question {number}?" for number in range(4)), **more)
    for edited in (2, 4):
        history[edited] = {"role": "user", "content": f"Edited question {edited}?"}
        if restarts:
            bench.restart()
        history = bench.talk(history, f"Why {edited}?", **more)
    bench.check()
    thinks = [
        any(block["type"] == "thinking" for block in message["content"])
        for message in bench.sent[-1]["messages"]
        if message["role"] == "assistant"
    ]
    assert thinks == [not restarts, False, False, False, False]


def test_clearing_of_thinking_by_the_api_passes_and_the_request_is_managed(bench):
    edits = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    more = {
        "context_management": edits,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "betas": ["context-management-2025-06-27"],
        "metadata": {"user_id": "session"},
    }
    for said in ("Hello.", "Again."):
        bench.client.beta.messages.create(
            model="claude-haiku-4-5", max_tokens=2000, messages=[{"role": "user", "content": said}], **more
        )
    assert [each["context_management"] for each in bench.sent] == [edits, edits]
    assert len(bench.middleware.conversations) == 2
    assert [event for event in bench.events if isinstance(event, PassedThrough)] == []
    bench.check()


READ = {"name": "read_file", "description": "Reads.", "input_schema": {"type": "object"}}


@pytest.mark.spec("CP-37")
def thinking_in(body):
    blocks = [block for message in body["messages"] for block in message["content"]]
    return sum(block["type"] == "thinking" for block in blocks)


@pytest.mark.spec("MC-13")
@pytest.mark.parametrize("keeps", ["all", None])
def test_a_caller_that_asks_the_api_to_keep_all_thinking_has_it_sent(bench, keeps):
    """Claude Code asks for that. Without it, this model is shown only the thinking of the last turn."""
    thinks = {"content": [{"type": "thinking", "thinking": "Let me see."}, text("I see.")]}
    bench.twin.script(*[thinks] * 3)
    edit = {"type": "clear_thinking_20251015", "keep": keeps}
    more = {"context_management": {"edits": [edit]}} if keeps else {}
    history = []
    for number in range(3):
        history.append({"role": "user", "content": f"Question {number}."})
        reply = bench.client.beta.messages.create(
            messages=history,
            model="claude-haiku-4-5",
            max_tokens=3_000,
            thinking={"type": "enabled", "budget_tokens": 1_024},
            betas=["context-management-2025-06-27"],
            **more,
        )
        history.append({"role": "assistant", "content": reply.content})
    bench.check()
    assert [thinking_in(body) for body in bench.sent] == ([0, 1, 2] if keeps else [0, 0, 0])


def test_another_reply_is_asked_for_with_the_question_though_a_compaction_has_summarized_it(benches):
    """The compaction came within the tool loop of the question, after its first call."""
    bench = benches(window=60_000)
    history = bench.talk([], *(f"Entry {number}: {LOG}" for number in range(6)))
    asked = [*history, {"role": "user", "content": "Which entry is ORIGINAL-QUESTION?"}]
    reads = {"type": "tool_use", "name": "read_file", "input": {"path": "a.log"}}
    bench.twin.script({"content": [reads], "when": "ORIGINAL-QUESTION"})
    reply = bench.ask(asked, tools=[READ])
    assert compactions(bench) == [0]
    result = {"type": "tool_result", "tool_use_id": reply.content[-1].id, "content": 4 * LOG}
    answered = [{"role": "assistant", "content": reply.content}, {"role": "user", "content": [result]}]
    bench.ask([*asked, *answered], tools=[READ])
    assert compactions(bench) == [1]
    bench.ask(asked, tools=[READ])
    last = bench.sent[-1]["messages"][-1]["content"][-1]
    assert last["text"] == "Which entry is ORIGINAL-QUESTION?"
    bench.check()


@pytest.mark.spec("CP-9", "CP-37")
def test_a_result_larger_than_the_window_is_answered_without_a_request_that_the_api_refuses(bench):
    asked = [{"role": "user", "content": "Read huge.log and tell me its LAST-LINE."}]
    reads = {"type": "tool_use", "name": "read_file", "input": {"path": "huge.log"}}
    bench.twin.script({"content": [reads], "when": "LAST-LINE"})
    reply = bench.ask(asked, tools=[READ])
    content = f"HEAD {'The quick brown fox jumps over the dog. ' * 22_000} TAIL"
    result = {"type": "tool_result", "tool_use_id": reply.content[-1].id, "content": content}
    answered = [{"role": "assistant", "content": reply.content}, {"role": "user", "content": [result]}]
    bench.ask([*asked, *answered], tools=[READ])
    assert [entry["status"] for entry in bench.twin.ledger] == [200, 200]
    sent = json.dumps(bench.sent[-1]["messages"])
    assert all(word in sent for word in ("LAST-LINE", "HEAD", "TAIL"))
    bench.check()


FORMAT = {
    "type": "json_schema",
    "schema": {"type": "object", "properties": {}, "additionalProperties": False},
}
READ = {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}


@pytest.mark.parametrize(
    ("asked", "lifted", "why"),
    [
        (
            {"tools": [READ], "tool_choice": {"type": "any"}},
            {"tool_choice": {"type": "none"}},
            "the conversation's requests force a tool call by tool_choice, and a summary must be text",
        ),
        (
            {"output_config": {"format": FORMAT}},
            {},
            "the conversation's requests ask for an output format, and a summary must be text",
        ),
        ({"tools": [READ], "tool_choice": {"type": "auto"}}, {"tool_choice": {"type": "auto"}}, None),
    ],
    ids=["a forced call", "a format", "a free choice"],
)
def test_a_summary_is_text_whatever_form_the_caller_forces(benches, asked, lifted, why):
    bench = benches(**SMALL)
    bench.twin.script(*["It is parsed."] * 40)
    history = []
    for number in range(8):
        history.append({"role": "user", "content": f"Entry {number}: {LOG}"})
        bench.ask(history, **asked)
        history.append({"role": "assistant", "content": "It is parsed."})
    bench.check()
    # The first one repeats the conversation; the scripted words are no summary, and it is asked for again.
    summary = next(body for body in bench.sent if "Write a summary of" in json.dumps(body["messages"][-1]))
    assert {name: summary[name] for name in ("tool_choice", "output_config") if name in summary} == lifted
    uncached = [event.why for event in bench.events if isinstance(event, SummaryUncached)]
    assert uncached == ([why] if why else [])


@pytest.mark.parametrize("streams", [False, True])
def test_a_reply_that_is_read_as_raw_bytes_is_recorded(bench, streams):
    bench.twin.script("It is parsed.", "Fine.")
    said = [{"role": "user", "content": "Parse it."}]
    request = {"model": "claude-haiku-4-5", "max_tokens": 500, "messages": said, "stream": streams}
    with bench.client.messages.with_streaming_response.create(**request) as response:
        assert b"msg_" in b"".join(response.http_response.iter_raw())
    assert [each.messages for each in bench.middleware.conversations] == [2]
    bench.ask(
        [*said, {"role": "assistant", "content": "It is parsed."}, {"role": "user", "content": "Good."}]
    )
    bench.check()
    assert [each.messages for each in bench.middleware.conversations] == [4]
