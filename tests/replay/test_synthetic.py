"""Made-up sessions: equal seeds give equal bytes, and everything in a session agrees with everything else."""

import json
import math
import re
import struct
import zlib
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from builders import compute_view
from hypothesis import given
from hypothesis import strategies as st
from message_rules import find_message_problems

from everturn.errors import UsageError
from everturn.history.threads import split_threads
from everturn.replay.synthetic import SessionShape, generate_session
from everturn.replay.synthetic.usage_model import MAIN_OVERHEAD
from everturn.view.flatten import flatten
from everturn.wire import claude_code_reader as claude_code

Json = dict[str, Any]
EXAMPLE = Path(__file__).parents[2] / "examples" / "session.jsonl"
EXAMPLE_SHAPE = SessionShape(boundaries=1, display_copies="short", model="claude-opus-4-5-20251101")
EVERYTHING = SessionShape(
    boundaries=2, microcompactions=2, sidechains=2, images=2, idle_gaps=3, forks=2, model_switches=2
)
WITHOUT_CHANGES = SessionShape(idle_gaps=4, model_switches=1)
seeds = st.integers(0, 2**32)
small = st.integers(5_000, 30_000)
roomy = st.integers(24_000, 32_000)


def made(seed: int, tokens: int, shape: SessionShape = EVERYTHING) -> list[Json]:
    return [json.loads(line) for line in generate_session(seed=seed, tokens=tokens, shape=shape)]


def is_said(line: Json) -> bool:
    return line["type"] in ("user", "assistant")


def main_chain(lines: list[Json]) -> list[Json]:
    return [line for line in lines if is_said(line) and not line["isSidechain"]]


def blocks(line: Json) -> list[Json]:
    content = line["message"]["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def size(value: Any) -> int:
    """A second, plainer estimate of what the model reads: three characters to a token."""
    match value:
        case str():
            return math.ceil(len(value) / 3)
        case list():
            return sum(map(size, value))
        case {"type": "text", "text": words} | {"type": "thinking", "thinking": words}:
            return size(words)
        case {"type": "tool_use", "name": name, "input": given_input}:
            return size(name + json.dumps(given_input, separators=(",", ":"), ensure_ascii=False))
        case {"type": "tool_result", "content": content}:
            return size(content)
        case {"type": "image"}:
            return 8 * 6
        case _:
            raise AssertionError(f"what is {value}?")


def flow(lines: list[Json]) -> int:
    return sum(size(blocks(line)) for line in main_chain(lines))


def context(line: Json) -> int:
    usage = line["message"]["usage"]
    return usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]


def at(line: Json) -> datetime:
    return datetime.fromisoformat(line["timestamp"])


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    def once(seed: int) -> list[bytes]:
        return list(generate_session(seed=seed, tokens=20_000, shape=EVERYTHING))

    assert once(1) == once(1)
    assert once(1) != once(2)


def test_the_bundled_example_is_what_the_generator_makes_today():
    lines = generate_session(seed=40, tokens=200_000, shape=EXAMPLE_SHAPE)
    assert EXAMPLE.read_bytes() == b"".join(line + b"\n" for line in lines)
    assert EXAMPLE.stat().st_size < 1_300_000


def test_a_session_too_small_for_a_few_turns_is_refused_with_a_hint():
    with pytest.raises(UsageError, match=r"of 4999 tokens is too small.*at least 5000"):
        generate_session(seed=1, tokens=4999)


@given(seeds, small)
def test_small_sessions_have_the_size_that_was_asked_for(seed: int, tokens: int):
    assert flow(made(seed, tokens)) == pytest.approx(tokens, rel=0.1)


@pytest.mark.parametrize("tokens", [50_000, 200_000, 1_000_000])
def test_the_last_context_is_the_overhead_and_what_was_asked_for(tokens: int):
    lines = made(3, tokens, SessionShape())
    assert context(main_chain(lines)[-1]) == pytest.approx(MAIN_OVERHEAD + tokens, rel=0.05)
    assert flow(lines) == pytest.approx(tokens, rel=0.05)


@given(seeds, small)
def test_every_line_has_the_envelope_of_its_kind(seed: int, tokens: int):
    lines = made(seed, tokens)
    common = {"uuid", "parentUuid", "sessionId", "timestamp", "type", "isSidechain", "userType", "cwd"}
    common |= {"version", "gitBranch", "slug"}
    own = {
        "user": {"message"},
        "assistant": {"message", "requestId"},
        "system": {"subtype"},
        "progress": {"data", "toolUseID", "parentToolUseID"},
        "attachment": {"attachment"},
    }
    bare = {
        "summary": {"type", "summary", "leafUuid"},
        "file-history-snapshot": {"type", "messageId", "snapshot", "isSnapshotUpdate"},
    }
    for line in lines:
        kind = line["type"]
        if kind in bare:
            assert set(line) == bare[kind]
        else:
            assert set(line) >= common | own[kind]
    assert {line["type"] for line in lines} >= {"user", "assistant", "system", "attachment", "summary"}
    assert len({line["sessionId"] for line in lines if "sessionId" in line}) == 1


@given(seeds, small)
def test_every_parent_stands_earlier_in_the_file_and_no_uuid_twice(seed: int, tokens: int):
    seen: set[str] = set()
    for line in made(seed, tokens):
        if "uuid" in line:
            parent = line["parentUuid"]
            assert parent is None or parent in seen
            assert line["uuid"] not in seen
            seen.add(line["uuid"])


@given(seeds, small)
def test_time_never_runs_backwards(seed: int, tokens: int):
    stamps = [line["timestamp"] for line in made(seed, tokens) if "timestamp" in line]
    assert stamps == sorted(stamps)
    assert stamps[0] == "2026-11-01T09:00:00.000Z"


def test_the_clock_starts_where_it_is_told():
    start = datetime(2027, 5, 1, 12, 30, tzinfo=UTC)
    lines = [json.loads(line) for line in generate_session(seed=1, tokens=5_000, start=start)]
    assert next(line["timestamp"] for line in lines if "timestamp" in line) == "2027-05-01T12:30:00.000Z"


@given(seeds, small)
def test_every_call_has_one_result_and_every_result_one_call(seed: int, tokens: int):
    found = [block for line in made(seed, tokens) if is_said(line) for block in blocks(line)]
    calls = [block["id"] for block in found if block["type"] == "tool_use"]
    results = [block["tool_use_id"] for block in found if block["type"] == "tool_result"]
    assert sorted(calls) == sorted(results)
    assert len(set(calls)) == len(calls)


def test_each_assistant_line_holds_one_block_and_the_lines_of_a_message_share_their_usage():
    shared: dict[str, set[str]] = {}
    for line in made(5, 60_000):
        if line["type"] == "assistant":
            message = line["message"]
            assert len(message["content"]) == 1
            usage = {key: n for key, n in message["usage"].items() if key != "output_tokens"}
            shared.setdefault(message["id"], set()).add(
                json.dumps([line["requestId"], message["model"], usage])
            )
    assert {len(seen) for seen in shared.values()} == {1}


def is_call(line: Json) -> bool:
    return line["type"] == "assistant" and blocks(line)[0]["type"] == "tool_use"


def test_parallel_calls_come_both_side_by_side_and_behind_each_other():
    lines = main_chain(made(5, 60_000, SessionShape()))
    beside = [(a, b) for a, b in pairwise(lines) if is_call(a) and is_call(b)]
    behind = [
        (a, result, b)
        for a, result, b in zip(lines, lines[1:], lines[2:], strict=False)
        if is_call(a) and is_call(b) and a["message"]["id"] == b["message"]["id"] and not is_call(result)
    ]
    assert len(beside) > 2
    assert len(behind) > 2
    assert all((a["message"]["id"], a["uuid"]) == (b["message"]["id"], b["parentUuid"]) for a, b in beside)
    assert all(result["parentUuid"] == a["uuid"] for a, result, _ in behind)


# ---- usage ----


def calls_of(lines: list[Json]) -> Iterator[tuple[Json, list[Json]]]:
    """The first line of each message of the main chain, and the lines since the one before."""
    since: list[Json] = []
    last = ""
    for line in lines:
        if line.get("isSidechain"):
            continue
        if line["type"] == "assistant" and line["message"]["id"] != last:
            last = line["message"]["id"]
            yield line, since
            since = []
        since.append(line)


@given(seeds, small, st.sampled_from(["5m", "1h"]))
def test_a_call_reads_what_the_one_before_cached_while_it_lives(seed: int, tokens: int, lifetime: Any):
    shape = SessionShape(idle_gaps=4, model_switches=1, cache_lifetime=lifetime)
    seconds = {"5m": 300, "1h": 3600}[lifetime]
    calls = [line for line, _ in calls_of(made(seed, tokens, shape))]
    assert calls[0]["message"]["usage"]["cache_read_input_tokens"] == 0
    for before, now in pairwise(calls):
        old, new = before["message"]["usage"], now["message"]["usage"]
        alive = (at(now) - at(before)).total_seconds() <= seconds
        same = before["message"]["model"] == now["message"]["model"]
        cached = old["cache_read_input_tokens"] + old["cache_creation_input_tokens"]
        assert new["cache_read_input_tokens"] == (cached if alive and same else 0)
        assert (
            new["cache_creation"][f"ephemeral_{lifetime}_input_tokens"] == new["cache_creation_input_tokens"]
        )


@given(seeds, small)
def test_the_context_of_a_call_is_the_overhead_and_everything_before_it(seed: int, tokens: int):
    expected = MAIN_OVERHEAD
    for line, since in calls_of(made(seed, tokens, WITHOUT_CHANGES)):
        expected += sum(size(blocks(said)) for said in since if is_said(said))
        assert context(line) == expected


@given(seeds, roomy)
def test_after_a_boundary_only_the_overhead_is_read_and_only_the_summary_stays(seed: int, tokens: int):
    lines = made(seed, tokens, SessionShape(boundaries=1, idle_gaps=0))
    (found,) = [(line, since) for line, since in calls_of(lines) if any(map(is_boundary, since))]
    line, since = found
    place = next(number for number, before in enumerate(since) if is_boundary(before))
    after = sum(size(blocks(said)) for said in since[place:] if is_said(said))
    assert line["message"]["usage"]["cache_read_input_tokens"] == MAIN_OVERHEAD
    assert context(line) == MAIN_OVERHEAD + after


def test_a_microcompaction_blanks_old_results_and_breaks_the_cache_where_the_first_one_stood():
    lines = made(4, 60_000, SessionShape(microcompactions=1, idle_gaps=0))
    results = {
        b["tool_use_id"]: size(b) for line in main_chain(lines) for b in blocks(line) if "tool_use_id" in b
    }
    calls = list(calls_of(lines))
    (number,) = [n for n, (_, since) in enumerate(calls) if any(map(is_microcompaction, since))]
    (boundary,) = [line for line in calls[number][1] if is_microcompaction(line)]
    made_of = boundary["microcompactMetadata"]
    assert made_of["tokensSaved"] == sum(results[call] - 11 for call in made_of["compactedToolIds"])
    new = sum(size(blocks(said)) for said in calls[number][1] if is_said(said))
    before, after = calls[number - 1][0], calls[number][0]
    assert context(after) == context(before) + new - made_of["tokensSaved"]
    cached = {MAIN_OVERHEAD} | {
        context(line) - line["message"]["usage"]["input_tokens"] for line, _ in calls[:number]
    }
    assert after["message"]["usage"]["cache_read_input_tokens"] in cached
    assert after["message"]["usage"]["cache_read_input_tokens"] < context(after)


# ---- what is in it ----


def is_boundary(line: Json) -> bool:
    return line.get("subtype") == "compact_boundary"


def is_microcompaction(line: Json) -> bool:
    return line.get("subtype") == "microcompact_boundary"


@given(seeds, roomy)
def test_everything_that_the_shape_asks_for_happens(seed: int, tokens: int):
    lines = made(seed, tokens)
    agents = {line["agentId"] for line in lines if line.get("isSidechain")}
    pictures = [
        b
        for line in main_chain(lines)
        if "toolUseResult" not in line
        for b in blocks(line)
        if b["type"] == "image"
    ]
    models = [line["message"]["model"] for line, _ in calls_of(lines)]
    counted = {
        "boundaries": sum(map(is_boundary, lines)),
        "sidechains": len(agents),
        "images": len(pictures),
        "forks": len(forks(lines)),
        "switches": sum(a != b for a, b in pairwise(models)),
    }
    assert counted == {"boundaries": 2, "sidechains": 2, "images": 2, "forks": 2, "switches": 2}


def forks(lines: list[Json]) -> list[str]:
    """Parents under which two different prompts stand."""
    prompts = Counter(line["parentUuid"] for line in main_chain(lines) if "permissionMode" in line)
    return [parent for parent, n in prompts.items() if n > 1]


def test_a_boundary_is_a_new_root_and_a_nine_part_summary_follows():
    lines = made(8, 40_000)
    for place, line in enumerate(lines):
        if is_boundary(line):
            summary = lines[place + 1]
            earlier = {before.get("uuid") for before in lines[:place]}
            assert (line["parentUuid"], line["logicalParentUuid"] in earlier) == (None, True)
            assert set(line["compactMetadata"]) == {"trigger", "preTokens"}
            assert (summary["isCompactSummary"], summary["isVisibleInTranscriptOnly"]) == (True, True)
            assert summary["parentUuid"] == line["uuid"]
            titles = re.findall(r"^(\d)\. [A-Z][\w ]+:$", summary["message"]["content"], re.MULTILINE)
            assert titles == list("123456789")


def test_a_picture_is_a_whole_png():
    lines = made(2, 20_000)
    data = next(
        b64decode(b["source"]["data"])
        for line in main_chain(lines)
        for b in blocks(line)
        if b["type"] == "image"
    )
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    chunks: dict[bytes, bytes] = {}
    place = 8
    while place < len(data):
        (length,) = struct.unpack_from(">I", data, place)
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        assert struct.unpack_from(">I", data, place + 8 + length) == (zlib.crc32(kind + body),)
        chunks[kind] = body
        place += 12 + length
    width, height, depth = struct.unpack_from(">IIB", chunks[b"IHDR"])
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    assert len(zlib.decompress(chunks[b"IDAT"])) == height * (1 + width * depth // 8)


@pytest.mark.parametrize("tokens", [10_000, 60_000, 200_000])
def test_what_tools_answer_agrees_with_the_files_as_they_change(tokens: int):
    files: dict[str, str] = {}
    checked: Counter[str] = Counter()
    asked: dict[str, Json] = {}
    for line in main_chain(made(11, tokens)):
        for block in blocks(line):
            if block["type"] == "tool_use":
                asked[block["id"]] = block
            elif block["type"] == "tool_result" and not block.get("is_error"):
                call = asked[block["tool_use_id"]]
                checked[call["name"]] += check_file_tool(files, call, block["content"], line["toolUseResult"])
    assert checked["Edit"] >= 3
    assert checked["Read"] >= 1


def check_file_tool(files: dict[str, str], call: Json, content: Any, copy: Any) -> int:
    """Carry out one call on our own files; says whether there was something to compare with."""
    tool, asked = call["name"], call["input"]
    path = asked.get("file_path", "")
    known = files.get(path)
    if tool == "Write":
        files[path] = asked["content"]
    elif tool == "Edit":
        before = copy["originalFile"]
        assert known in (None, before)
        assert before.count(asked["old_string"]) == 1
        files[path] = before.replace(asked["old_string"], asked["new_string"])
        check_patch(copy["structuredPatch"][0], before, files[path])
        return 1
    elif tool == "Read" and isinstance(content, str) and known is not None:
        shown = content.split("\n\n<system-reminder>")[0].split("\n")
        expected = known.splitlines()[: asked.get("limit")]
        assert shown == [f"{number:>6}→{text}" for number, text in enumerate(expected, start=1)]
        return 1
    return 0


def check_patch(hunk: Json, before: str, after: str) -> None:
    """The lines of a hunk stand where it says, in the old text and in the new one."""
    for text, start, count, sign in (
        (before, "oldStart", "oldLines", "-"),
        (after, "newStart", "newLines", "+"),
    ):
        told = [line[1:].strip() for line in hunk["lines"] if line[0] in (" ", sign)]
        first = hunk[start] - 1
        assert told == [line.strip() for line in text.splitlines()[first : first + hunk[count]]]


def test_a_failing_test_quotes_the_line_of_the_file_that_it_names():
    told: dict[str, tuple[int, str]] = {}
    compared = 0
    for line in main_chain(made(11, 400_000, SessionShape())):
        copy = line.get("toolUseResult")
        if isinstance(copy, str) and "IndexError" in copy:
            name, number = re.findall(r"^(\S+\.py):(\d+): IndexError", copy, re.MULTILINE)[0]
            told[f"{line['cwd']}/{name}"] = int(number), copy
        elif isinstance(copy, dict) and "oldString" in copy:
            told.pop(copy["filePath"], None)
        elif isinstance(copy, dict) and copy.get("type") == "text" and copy["file"]["filePath"] in told:
            number, failure = told.pop(copy["file"]["filePath"])
            shown = copy["file"]["content"].splitlines()[number - 1 : number]
            assert all(f">   {text.strip()}\n" in failure for text in shown)
            compared += len(shown)
    assert compared >= 2


def test_short_display_copies_change_nothing_that_the_model_sees():
    whole, short = (made(6, 20_000, SessionShape(display_copies=kind)) for kind in ("whole", "short"))
    for line in (*whole, *short):
        line.pop("toolUseResult", None)
    assert whole == short


# ---- read by the rest of the house ----


@given(seeds, small)
def test_a_made_up_session_is_read_without_a_flaw(seed: int, tokens: int):
    data = b"\n".join(generate_session(seed=seed, tokens=tokens, shape=EVERYTHING))
    transcript = claude_code.parse_session_file(data)
    assert transcript.flaws == ()
    assert transcript.to_bytes() == data
    found = split_threads(transcript.records)
    assert {note.kind for note in found.main.notes} <= {"abandoned"}
    for thread in (found.main, *found.sidechains):
        flat = flatten(compute_view(thread.records))
        assert flat.repairs == ()
        assert find_message_problems(flat.messages) == ()


def test_the_example_holds_one_of_everything_that_its_shape_names():
    lines = [json.loads(line) for line in EXAMPLE.read_bytes().splitlines()]
    reads = Counter(
        b["input"]["file_path"]
        for line in main_chain(lines)
        for b in blocks(line)
        if b["type"] == "tool_use" and b["name"] == "Read"
    )
    tools = {b["name"] for line in main_chain(lines) for b in blocks(line) if b["type"] == "tool_use"}
    assert sum(map(is_boundary, lines)) == 1
    assert any(line.get("isSidechain") for line in lines)
    assert max(reads.values()) > 2
    assert tools >= {"Read", "Edit", "Write", "Grep", "Glob", "Bash", "TodoWrite", "Task", "WebFetch"}
