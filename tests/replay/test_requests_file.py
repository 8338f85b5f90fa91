"""The file of requests, checked by somebody who knows nothing of us: JSON, a plain cache, a price list."""

import hashlib
import io
import json
from datetime import datetime

import pytest
from measure.naive_cache import NaiveBlock, NaiveCache
from replay.scripts import session, steps, text

from everturn.replay.playing.prepared import index_uses
from everturn.replay.policies import REPLAY_POLICIES, parse_policy
from everturn.replay.requests_file import make_request_writer
from everturn.replay.simulate import simulate

# Dollars per million tokens of Claude Opus 4.5, from the public price list: input, output; and what the
# kinds of input cost in relation to it.
INPUT, OUTPUT = 5.0, 25.0
READ, WRITE_5M, WRITE_1H = 0.1, 1.25, 2.0
MINIMUM = 4_096
# What follows the last block is counted with it and is never written.
NEAR = 3


def made():
    main = steps(*[text(2_500, f"word{at}") for at in range(24)], gaps={9: 420, 17: 4_000})
    return session(main, steps("one", "two"))


def lines_of(name, *, window=60_000):
    out = io.BytesIO()
    found = made()
    run = simulate(
        found,
        parse_policy(name, window=window),
        index_uses(found),
        observer=make_request_writer(out, found.name, name),
    )
    return run, [json.loads(line) for line in out.getvalue().splitlines()]


def blocks_of(line):
    """The prompt as a list of blocks, in the order of the prefix."""
    body, tokens = line["request"], iter(line["tokens"])
    parts = [("tools", "tool", block) for block in body.get("tools", ())]
    parts += [("system", block["type"], block) for block in body["system"]]
    parts += [
        (message["role"], block["type"], block)
        for message in body["messages"]
        for block in message["content"]
    ]
    found = []
    chain = b""
    for role, kind, block in parts:
        marker = block.pop("cache_control", None)
        # A chain of digests stands for the whole prefix, so that comparing prefixes is cheap.
        spelled = json.dumps([role, block], sort_keys=True).encode()
        chain = hashlib.sha256(chain + spelled).digest()
        ttl = marker.get("ttl", "5m") if marker else None
        found.append(NaiveBlock(chain, kind, next(tokens), ttl))
    assert list(tokens) == []
    return found


def dollars_of(usage):
    written = usage["cache_creation"]
    tokens = (
        usage["input_tokens"]
        + usage["cache_read_input_tokens"] * READ
        + written["ephemeral_5m_input_tokens"] * WRITE_5M
        + written["ephemeral_1h_input_tokens"] * WRITE_1H
    )
    return (tokens * INPUT + usage["output_tokens"] * OUTPUT) / 1_000_000


@pytest.mark.spec("RP-4")
@pytest.mark.parametrize(
    "name", [*REPLAY_POLICIES, "claude-code+1h", "none+refresh", "sliding-window+1h+refresh"]
)
def test_the_bill_can_be_checked_from_the_file_alone(name):
    run, lines = lines_of(name)
    assert len(lines) == len(run.calls)
    cache = NaiveCache()
    recomputed = 0.0
    for line in lines:
        usage = line["usage"]
        now = datetime.fromisoformat(line["time"]).timestamp()
        answer = cache.start(line["model"], blocks_of(line), 0, MINIMUM, now)
        cache.begin(answer)
        assert abs(answer.read - usage["cache_read_input_tokens"]) <= NEAR
        assert abs(answer.write_5m - usage["cache_creation"]["ephemeral_5m_input_tokens"]) <= 2 * NEAR
        assert abs(answer.write_1h - usage["cache_creation"]["ephemeral_1h_input_tokens"]) <= 2 * NEAR
        assert line["dollars"] == pytest.approx(dollars_of(usage), rel=1e-9)
        told = {
            "input_tokens": answer.plain,
            "cache_read_input_tokens": answer.read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": answer.write_5m,
                "ephemeral_1h_input_tokens": answer.write_1h,
            },
            "output_tokens": usage["output_tokens"],
        }
        recomputed += dollars_of(told)
    assert recomputed == pytest.approx(float(run.totals.dollars), rel=0.005)


@pytest.mark.spec("RP-4")
def test_tokens_sum_to_the_billed_input():
    for line in lines_of("claude-code")[1]:
        usage = line["usage"]
        billed = (
            usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]
        )
        assert sum(line["tokens"]) == billed


def test_a_line_says_who_when_and_why_it_was_sent():
    _, lines = lines_of("claude-code")
    first = lines[0]
    assert list(first) == [
        "session", "policy", "thread", "call", "time", "source", "model", "request", "usage", "dollars",
        "tokens",
    ]  # fmt: skip
    assert (first["session"], first["policy"], first["call"]) == ("made", "claude-code", 1)
    assert (first["time"], first["source"]) == ("2026-03-02T09:00:20Z", "main")
    assert {"main", "compact"} <= {line["source"] for line in lines}
    assert {line["thread"] for line in lines} == {"main", "agent1"}


def test_a_refresh_asks_for_no_answer():
    lines = lines_of("none+refresh")[1]
    assert {line["request"]["max_tokens"] for line in lines if line["source"] == "refresh"} == {0}


def test_the_file_says_that_the_head_is_a_stand_in():
    system = lines_of("none")[1][0]["request"]["system"]
    assert [
        block["text"].startswith("[system prompt and tools of main, not recorded:") for block in system
    ] == [True]
