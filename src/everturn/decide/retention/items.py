"""What should be kept of a conversation, by kind. Defined by the log alone, once, whoever wrote the summary.

What a summary without a model shows of it is decided in `extractive/`; both read the same facts.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from everturn.decide.extractive.reading.facts import Facts, ToolFailure
from everturn.decide.extractive.reading.failures import first_line, is_error, was_refused
from everturn.decide.extractive.reading.sentences import identifiers, long_words, sentences
from everturn.decide.retention.matching import Item
from everturn.history.blocks import text_of
from everturn.history.records import Record, is_sent

# Fewer words are an answer ("yes", "go on"); more than this many characters is pasted text.
_MIN_SENTENCE_WORDS: Final = 3
_MAX_SENTENCE_CHARACTERS: Final = 400
# To go on, the last messages matter more than old ones, which the work since has answered.
_RECENT: Final = 3
_OLD_WEIGHT: Final = 0.25
# A question, a report and a commit are told in fewer words than they had.
_GIST: Final = 0.34
_BEGINNING: Final = 300
_PASTED: Final = 1_500
_AROUND: Final = 2
_RECENT_REPORTS: Final = 4
_RECENT_COMMITS: Final = 8
# A name that was mentioned once may not matter.
_NAMED_TWICE: Final = 2
_TEST_NAME: Final = re.compile(r"\b(?:Test\w{3,}|test_\w{3,})|[\w./-]{3,200}\.\w{1,5}:\d{1,9}")


def user_words(facts: Facts) -> Iterator[Item]:
    """Sentences of the user; of a task that a program handed over, its beginning and end."""
    if facts.task:
        yield _request(facts.task.text)
    newest = len(facts.all_messages) - _RECENT
    for at, said in enumerate(facts.all_messages):
        weight = 1.0 if at >= newest else _OLD_WEIGHT
        for sentence in _said_themselves(said.text):
            if len(sentence) <= _MAX_SENTENCE_CHARACTERS and len(sentence.split()) >= _MIN_SENTENCE_WORDS:
                yield Item(sentence, weight)


def _said_themselves(text: str) -> Sequence[str]:
    """Of a long message, its beginning and its end: what is between is usually pasted."""
    found = sentences(text)
    return found if len(text) <= _PASTED else (*found[:_AROUND], *found[-_AROUND:])


def _request(text: str) -> Item:
    """A message as a whole; a long one is told in fewer words, pasted output by the tests that it names."""
    names = tuple(_TEST_NAME.findall(text[:_PASTED]))
    return Item(text[:_BEGINNING], least=_GIST if len(text) > _BEGINNING else 0.6, any_of=names)


def corrections(facts: Facts) -> Iterator[Item]:
    for said in facts.corrections:
        yield Item(said.text, least=0.5)


def decisions(facts: Facts) -> Iterator[Item]:
    """What short messages decided: the option or the question that they answer."""
    newest = len(facts.messages) - _RECENT
    for at, said in enumerate(facts.messages):
        if said.about:
            yield Item(said.about[:_BEGINNING], 1.0 if at >= newest else _OLD_WEIGHT, _GIST)
    for said in facts.answers:
        yield Item(said.text[:_BEGINNING], least=_GIST)


def outcomes(facts: Facts) -> Iterator[Item]:
    """What came of the work: reports of the model and of agents, commits, what failed last."""
    for said in facts.reports[-_RECENT_REPORTS:]:
        yield Item(said.text[:_BEGINNING], least=_GIST)
    for report in facts.agent_reports[-_RECENT_REPORTS:]:
        yield Item(report.text[:_BEGINNING], least=_GIST)
    for commit in facts.state.commits[-_RECENT_COMMITS:]:
        yield Item(commit, 0.5, any_of=(commit.split(" ", 1)[0],))
    yield from map(_failure, facts.state.failing)


def _failure(failure: ToolFailure) -> Item:
    """A failing check, or its tests, by name."""
    names = tuple(name for line in failure.lines for name in _TEST_NAME.findall(line))
    return Item(f"{failure.deed.target} failed: {failure.lines[-1]}"[:_BEGINNING], least=0.5, any_of=names)


def open_items(facts: Facts) -> Iterator[Item]:
    """What is not finished: open tasks, conflicts, failing checks, plan mode, the request at work."""
    yield from (Item(task.text) for task in facts.tasks if task.status != "completed")
    for path in facts.state.conflicts:
        yield Item(f"merge conflict {path}", any_of=(path.rpartition("/")[2],))
    yield from map(_failure, facts.state.failing)
    yield from (Item(name) for name in facts.state.running_agents)
    if facts.state.is_planning:
        yield Item("plan mode", exact=True)
    if facts.offer:
        yield Item(facts.offer[-_BEGINNING:], 0.5, _GIST)
    if facts.last_request and not (facts.is_answered and facts.ends_with_words):
        yield _request(facts.last_request.text)


def last_words(facts: Facts) -> Iterator[Item]:
    """What was said and done last: the user, the model, and the files changed since."""
    if facts.last_request:
        yield _request(facts.last_request.text)
    for said in facts.current[-_RECENT_REPORTS:]:
        yield Item(said.text[:_BEGINNING], 1.0 if said == facts.current[-1] else 0.5, 0.5)
    for path in dict.fromkeys(deed.target for deed in facts.changes):
        yield Item(path, 0.5, exact=True, any_of=(path.replace("\\", "/").rpartition("/")[2],))


def names(facts: Facts) -> list[Item]:
    """Identifiers in the user's words, and those in edits that were mentioned more than once."""
    by_user = identifiers(word for said in facts.all_messages for word in long_words(said.text))
    edited = {word for deed in facts.deeds for word in long_words(deed.new_text)}
    spoken = (word for word, times in facts.words.items() if times >= _NAMED_TWICE and word in edited)
    return [Item(name, exact=True) for name in (*by_user, *identifiers(spoken))]


def error_lines(records: Iterable[Record]) -> Iterator[Item]:
    """First lines of results that are flagged as errors; a person's refusal does not count."""
    for record in records:
        if record.kind != "user" or not is_sent(record):
            continue
        for block in record.blocks:
            if block.is_result and is_error(block):
                line = first_line(text_of(block))
                if not was_refused(line):
                    yield Item(line, least=0.5)


def open_for_certain(facts: Facts) -> Sequence[str]:
    """Open items that no reading of the conversation can call done."""
    found = [task.text for task in facts.tasks if task.status != "completed"]
    found += facts.state.conflicts
    found += [
        failure.deed.target
        for failure in facts.state.failing
        if not (failure.passed_since or failure.hidden_since)
    ]
    if facts.messages and not facts.is_answered and facts.last_request:
        found.append(facts.last_request.text)
    return found or (facts.state.unchecked if facts.state.last_check else ())
