"""Small recorded sessions for tests of the replay, each made of real lines."""

from datetime import UTC, datetime, timedelta

from builders import answer, assistant, call, user

from everturn.history.records import Record
from everturn.history.threads import Thread
from everturn.replay.sessions import ReplaySession

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
MODEL = "claude-opus-4-5"
# The head of every session here: system prompt and tools, which no recording holds.
HEAD = 10_000


def stamp(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def usage(context: int) -> dict[str, int]:
    return {
        "input_tokens": 3,
        "cache_creation_input_tokens": context - 3,
        "cache_read_input_tokens": 0,
        "output_tokens": 1,
    }


def steps(
    *results: str, gap: float = 20.0, gaps: dict[int, float] | None = None, model: str = MODEL, start: int = 0
) -> list[Record]:
    """A prompt, then one call of a tool for each result, then a last word. `gaps` come before calls."""
    now = 0.0
    records = [user("Please fix the parser in src/parser.py.", uuid=f"prompt-{start}", timestamp=stamp(now))]
    for at, text in enumerate(results, start=start + 1):
        now += (gaps or {}).get(at, gap)
        name = f"toolu_{at}"
        records.append(
            assistant(
                call(name, "Read", file_path=f"src/file_{at}.py"),
                id=f"msg_{at}",
                uuid=f"says-{at}",
                model=model,
                usage=usage(HEAD) if at == 1 else None,
                timestamp=stamp(now),
            )
        )
        records.append(user([answer(name, text)], uuid=f"result-{at}", timestamp=stamp(now + 1)))
    last = start + len(results) + 1
    now += (gaps or {}).get(last, gap)
    records.append(
        assistant("All is done.", id=f"msg_{last}", uuid=f"says-{last}", model=model, timestamp=stamp(now))
    )
    return records


def session(*threads: list[Record], name: str = "made", model: str = MODEL) -> ReplaySession:
    found = tuple(
        Thread("" if at == 0 else f"agent{at}", tuple(records)) for at, records in enumerate(threads)
    )
    return ReplaySession(name, f"{name}.jsonl", "claude-code", found, model, (), "")


def text(tokens: int, word: str = "line") -> str:
    """About so many tokens of text."""
    return (f"{word} " * tokens)[: int(tokens * 3.4)]
