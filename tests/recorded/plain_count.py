"""What is in a session file, counted with plain `json` and nothing of ours: the judge of our reading."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

MESSAGES = ("user", "assistant")
LINKED = (*MESSAGES, "system", "progress", "attachment")


def objects(data: bytes) -> Iterator[dict[str, Any]]:
    """Every JSON object of a file; several on a line count each, comments count for nothing."""
    decoder = json.JSONDecoder()
    for text in data.decode().split("\n"):
        rest = "" if text.startswith("//") else text.strip()
        while rest:
            found, end = decoder.raw_decode(rest)
            yield found
            rest = rest[end:].lstrip()


def figures(data: bytes) -> Counter[str]:
    found = list(objects(data))
    count = Counter({f"type {each['type']}": 0 for each in found})
    count.update(f"type {each['type']}" for each in found)
    count.update(_kinds_of_system(found))
    count.update(_links(found))
    count.update(_replies(found))
    count.update(_calls(found))
    count["files of an agent"] = int(
        all(each["isSidechain"] for each in found if each["type"] in MESSAGES)
        and any(each["type"] in MESSAGES for each in found)
    )
    return count


def _kinds_of_system(found: list[dict[str, Any]]) -> Counter[str]:
    kept = ("compact_boundary", "microcompact_boundary")
    subtypes = (each.get("subtype") for each in found if each["type"] == "system")
    return Counter(subtype for subtype in subtypes if subtype in kept)


def _links(found: list[dict[str, Any]]) -> Counter[str]:
    linked = [each for each in found if each["type"] in LINKED]
    children = Counter(each["parentUuid"] for each in linked if each["parentUuid"])
    uuids = {each["uuid"] for each in linked}
    return Counter(
        {
            "forks": sum(count > 1 for count in children.values()),
            "roots": sum(each["parentUuid"] is None for each in linked),
            "dangling": len([parent for parent in children if parent not in uuids]),
        }
    )


def _replies(found: list[dict[str, Any]]) -> Counter[str]:
    """API messages: how many, how many split over lines, how many with other messages in between."""
    spoken = [each for each in found if each["type"] in MESSAGES]
    places: dict[str, list[int]] = {}
    for at, each in enumerate(spoken):
        if each["type"] == "assistant" and each["message"].get("model") != "<synthetic>":
            places.setdefault(each["message"]["id"], []).append(at)
    return Counter(
        {
            "replies": len(places),
            "split": sum(len(at) > 1 for at in places.values()),
            "interleaved": sum(at[-1] - at[0] >= len(at) for at in places.values()),
        }
    )


def _calls(found: list[dict[str, Any]]) -> Counter[str]:
    blocks = [block for each in found if each["type"] in MESSAGES for block in _blocks(each)]
    calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
    results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
    return Counter({"calls": len(calls), "unanswered": len(calls - results), "orphans": len(results - calls)})


def _blocks(each: dict[str, Any]) -> list[dict[str, Any]]:
    content = each["message"]["content"]
    return content if isinstance(content, list) else []
