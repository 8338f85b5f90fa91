"""Parts of a transcript as text: a request, the difference between two, and what a compaction replaced.

Everything shown here was written by people, models and programs: it is escaped as text, like all else.
"""

from collections.abc import Sequence

from everturn.replay.page import formatting
from everturn.replay.page.markup import Html, element
from everturn.replay.requests_seen import Replaced, RequestDifference, SeenBlock, SeenRequest


def seen_part(seen: SeenRequest) -> Html:
    count = formatting.count(seen.messages, "message")
    hidden = f" The oldest {formatting.count(seen.hidden, 'block')} are not listed." if seen.hidden else ""
    note = f"Call {seen.number:,} sent {count}. System prompt and tools are usually not in the file.{hidden}"
    return element("div", element("p", note, class_="soft"), blocks(seen.blocks), class_="transcript")


def difference_part(found: RequestDifference) -> Html:
    same = f"The first {found.common:,} blocks of both requests are the same."
    if found.common < 2:
        same = f"The first block of both requests is {'the same' if found.common else 'different'}."
    if not found.removed_count:
        added = formatting.count(found.added_count, "block")
        said = f"{same} The request of call {found.number:,} only added {added}."
        note = "So the messages did not break the cache: time, model, tools or system prompt did."
        return element("div", element("p", said), element("p", note, class_="soft"), class_="transcript")
    return element(
        "div",
        element("p", same),
        element(
            "div",
            _side("Only in the request before", "gone", found.removed, found.removed_count),
            _side(f"Only in call {found.number:,}", "new", found.added, found.added_count),
            class_="sides",
        ),
        class_="transcript",
    )


def replaced_part(found: Replaced) -> Html:
    state = element("p", "This compaction was undone later.", class_="soft") if found.is_undone else ""
    more = f" {formatting.count(found.hidden, 'block')} more are not listed." if found.hidden else ""
    return element(
        "div",
        state,
        [element("h3", "Summary, receipt, and what was restored"), blocks(found.instead)]
        if found.instead
        else element("p", "Placeholders were put in their place.", class_="soft"),
        element(
            "details",
            element("summary", f"{found.count:,} that left the context"),
            blocks(found.replaced),
            element("p", more, class_="soft") if more else "",
            open=not found.instead,
        ),
        class_="transcript",
    )


def blocks(found: Sequence[SeenBlock]) -> Html:
    return element("ol", [_block(each) for each in found], class_="blocks")


def _side(title: str, kind: str, found: Sequence[SeenBlock], count: int) -> Html:
    more = count - len(found)
    note = element("p", f"and {formatting.count(more, 'block')} more", class_="soft") if more > 0 else ""
    return element("div", element("h3", title), blocks(found), note, class_=f"side {kind}")


def _block(each: SeenBlock) -> Html:
    left = element("p", f"{each.left:,} more characters", class_="soft") if each.left else ""
    label = each.role if each.kind in ("text", each.role) else f"{each.role} · {each.kind}"
    return element(
        "li",
        element("div", label, class_="role"),
        element("pre", each.text),
        left,
        class_=f"block {each.role}",
    )
