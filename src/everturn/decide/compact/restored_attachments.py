"""Restored things as attachments, each within its budget (CP-13 to CP-18, CP-32).

Which things: `restoration.py`. The order is fixed, so that equal input gives equal bytes: pins first, as they
matter most; then work, skills, announcements and files; hook results last.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from everturn.decide.compact import restoration, work
from everturn.decide.compact.budget import truncate_to_tokens
from everturn.decide.compact.exchanges import EXCHANGE
from everturn.decide.compact.outline import OUTLINE
from everturn.decide.compact.pins import CARRIED
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.unanswered import UNANSWERED
from everturn.decide.compact.values import CompactionPlan
from everturn.decide.effects import FileRead
from everturn.view.fragments import restored as say

Estimate = Callable[[str], int]
# As Claude Code calls it.
SAID_BY_HOOKS: Final = "hook_additional_context"


class RestoredAttachment(msgspec.Struct, frozen=True):
    """One attachment: its type, what it says, and fields that the next compaction reads."""

    type: str
    content: tuple[str, ...]
    fields: Mapping[str, Any] = {}


class RestoredThings(msgspec.Struct, frozen=True):
    """All of them, and what of it the receipt names: files shown, files that could not be, skills."""

    payloads: tuple[RestoredAttachment, ...]
    files: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    skills: tuple[str, ...]


def build_restored_attachments(
    plan: CompactionPlan,
    files: Sequence[FileRead],
    hooks: Sequence[str],
    settings: CompactSettings,
    estimate: Estimate,
) -> RestoredThings:
    shown, left_out = _files(files, settings, estimate)
    skills = _skills(plan.restoration.skills, settings, estimate)
    missing = (
        [RestoredAttachment("restored_files_left_out", say.files_left_out(left_out))] if left_out else []
    )
    said = [RestoredAttachment(SAID_BY_HOOKS, (each,)) for each in hooks if each.strip()]
    exchanges = [
        RestoredAttachment(
            EXCHANGE, say.exchange(each.text), {"tool": each.tool, "path": each.path, "age": each.age}
        )
        for each in plan.restoration.exchanges
    ]
    outline = plan.restoration.outline
    outlined = (
        [RestoredAttachment(OUTLINE, say.outline(outline.root, outline.lines), {"root": outline.root})]
        if outline.lines
        else []
    )
    # Last, where the model looks for what to do next.
    question = plan.restoration.unanswered
    asked = (
        [RestoredAttachment(UNANSWERED, say.unanswered(question.text, is_cut=question.is_cut))]
        if question
        else []
    )
    return RestoredThings(
        payloads=(
            *_words(plan),
            *skills,
            *_announced(plan),
            *outlined,
            *exchanges,
            *shown,
            *missing,
            *said,
            *asked,
        ),
        files=tuple(each.fields["path"] for each in shown),
        left_out=tuple(left_out),
        skills=tuple(each.fields["name"] for each in skills),
    )


def _words(plan: CompactionPlan) -> list[RestoredAttachment]:
    back = plan.restoration
    every = (
        (plan.pins, lambda: RestoredAttachment(CARRIED, say.pins(plan.pins))),
        (back.todos, lambda: RestoredAttachment(work.TODOS, say.todos(back.todos))),
        (back.plan, lambda: RestoredAttachment(work.PLAN, say.plan(back.plan))),
        (back.plan_mode, lambda: RestoredAttachment("plan_mode", say.PLAN_MODE)),
        (back.agents, lambda: RestoredAttachment(work.AGENTS, say.agents(back.agents))),
    )
    return [made() for there, made in every if there]


def _announced(plan: CompactionPlan) -> list[RestoredAttachment]:
    back = plan.restoration
    tools = RestoredAttachment(restoration.TOOLS, say.tools(back.tools), {"addedNames": back.tools})
    listed = [
        RestoredAttachment(restoration.LISTING, say.listing(*each), {"title": each[0]})
        for each in back.listings
    ]
    return [*([tools] if back.tools else []), *listed]


def _skills(
    skills: Sequence[tuple[str, str]], settings: CompactSettings, estimate: Estimate
) -> list[RestoredAttachment]:
    """Most recent first; one that would only be a stub at the end of the budget is left out."""
    found: list[RestoredAttachment] = []
    left = settings.skills_tokens
    for name, body in skills:
        shown = truncate_to_tokens(body, settings.skill_tokens, estimate)
        if (tokens := estimate(shown.text)) > left:
            break
        left -= tokens
        found.append(
            RestoredAttachment(
                restoration.SKILL, say.skill(name, shown.text, is_cut=shown.is_cut), {"name": name}
            )
        )
    return found


def _files(
    files: Sequence[FileRead], settings: CompactSettings, estimate: Estimate
) -> tuple[list[RestoredAttachment], list[tuple[str, str]]]:
    """Files as they are now. One that cannot be shown is named with the reason."""
    shown: list[RestoredAttachment] = []
    left_out: list[tuple[str, str]] = []
    left = settings.files_tokens
    for each in files:
        cut = truncate_to_tokens(each.text, settings.file_tokens, estimate)
        tokens = estimate(cut.text)
        if each.problem:
            left_out.append((each.path, each.problem))
        elif tokens > left:
            left_out.append((each.path, "the budget for restored files is used up"))
        else:
            left -= tokens
            content = say.file(each.path, cut.text, is_cut=each.is_cut or cut.is_cut)
            shown.append(RestoredAttachment(restoration.FILE, content, {"path": each.path}))
    return shown, left_out
