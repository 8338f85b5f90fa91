"""The result of each tool as plain values: the same figures as the commands, reduced to what a model can use.

Results fill the context of the calling agent. Lists are therefore short, tokens are integers, dollars have
four decimals, and uuids are left out unless they can be used.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from everturn.dashboard.compactions import STRATEGY_LABELS
from everturn.dashboard.report import context_report
from everturn.decide.compact.values import CompactionSkipped
from everturn.decide.options import Options
from everturn.history.log import Log
from everturn.history.threads import split_threads
from everturn.replay.audit import audit as audit_sessions
from everturn.replay.sessions import read_sessions
from everturn.session.pin_file import append_pin, read_pin_file
from everturn.session.recall.index import RecallIndex
from everturn.session.recall.search import search
from everturn.session.recorded import open_session
from everturn.session.reopen import reopen_session
from everturn.session.transcripts import open_transcript
from everturn.wire.line_repair import describe_problems

MAX_ROWS: Final = 8
MAX_BREAKS: Final = 5


def context_usage(file: Path, options: Options | None = None) -> dict[str, Any]:
    report = context_report(open_session(file, options=options))
    compacts = report.compacts_automatically
    return {
        "model": report.model.id,
        "tokens": report.size.tokens,
        "window": report.window.tokens,
        "percent_left_until_compaction": report.levels.percent_left if compacts else None,
        "compacts_at": report.limits.auto if compacts else None,
        "level": report.level,
        "by_kind": {each.label: each.tokens for each in report.categories if each.tokens},
        "by_tool": {each.tool: each.request_tokens + each.result_tokens for each in report.tools[:MAX_ROWS]},
        "files_in_context_more_than_once": [
            {"path": each.path, "times": each.count, "wasted_tokens": each.wasted}
            for each in report.duplicate_reads[:MAX_ROWS]
        ],
        "split": "estimated, calibrated on this session; the total is what the API reported",
        **_damage(describe_problems(report.oddities.flaws)),
    }


def audit(file: Path) -> dict[str, Any]:
    found = audit_sessions(read_sessions([file]))
    total = found.total
    return {
        "calls": total.calls,
        "dollars": round(float(total.dollars), 4),
        "hit_rate": _share(total.hit_rate),
        "cache_breaks": {
            reason: {"times": times, "tokens_lost": lost, "dollars": round(float(dollars), 4)}
            for reason, (times, lost, dollars) in found.break_reasons().items()
        },
        "tokens_wasted_by_reading_again": found.wasted,
        "without_a_price": dict(total.unpriced),
        **_damage([flaw for each in found.sessions for flaw in each.flaws]),
    }


def why_cache_miss(file: Path) -> dict[str, Any]:
    found = audit_sessions(read_sessions([file]))
    return {
        "calls": found.total.calls,
        "hit_rate": _share(found.total.hit_rate),
        "breaks": len(found.breaks),
        "last_breaks": [
            {
                "call": each.number,
                "at": each.at,
                "reason": each.reason,
                "why": each.why,
                "tokens_lost": each.lost,
                "dollars": None if each.dollars is None else round(float(each.dollars), 4),
            }
            for each in reversed(found.breaks[-MAX_BREAKS:])
        ],
    }


def _share(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 4)


def dry_run_compaction(file: Path, instructions: str, options: Options | None = None) -> dict[str, Any]:
    with reopen_session(file, dry_run=True, options=options) as session:
        plan = session.dry_run(instructions)
    if isinstance(plan, CompactionSkipped):
        return {"would_compact": False, "why": plan.why, **_damage(session.damage)}
    return {
        "would_compact": True,
        "summary_by": STRATEGY_LABELS[plan.strategies[0]] if plan.strategies else "no strategy is allowed",
        "tokens_before": plan.tokens_before,
        "tokens_after_expected": plan.expected_after,
        "dollars_expected": round(plan.expected_dollars, 4),
        "records_summarized": len(plan.summarized),
        "records_kept": len(plan.kept),
        "carried_word_for_word": list(plan.pins[:MAX_ROWS]),
        "files_restored": list(plan.restoration.files),
        "why": plan.why,
        **_damage(session.damage),
    }


def recall(file: Path, query: str, limit: int) -> dict[str, Any]:
    transcript = open_transcript(file)
    log = Log(split_threads(transcript.records).main.records)
    index = RecallIndex(file)
    try:
        found = search(query, limit, index=index, log=log)
    finally:
        index.close()
    hits = [
        {"said_by": hit.tool or hit.source, "at": hit.at, "now": hit.state, "text": hit.snippet}
        for hit in found.hits
    ]
    damage = _damage(describe_problems(transcript.flaws))
    return {"hits": hits, "remark": found.remark, **damage}


def _damage(problems: Sequence[str]) -> dict[str, Any]:
    """What the file has lost; nothing where it is whole."""
    return {"file_is_damaged": list(problems[:MAX_ROWS])} if problems else {}


def pin(file: Path, words: str) -> dict[str, Any]:
    pinned = list(append_pin(file, words))
    damage = read_pin_file(file).damage
    return {"pinned": pinned, "kept_in": f"{file.name}.pins", **_damage([damage] if damage else [])}
