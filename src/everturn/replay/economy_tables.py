"""What the economic policy comes to on recorded sessions: each way to use it, and other models (EC-7, EC-14).

    python -m everturn.replay.economy_tables FOLDER [--into PAGE] [--cache DIRECTORY] [--only settings|models]

Prints two Markdown tables, or writes them into a page between their markers. The percentages leave out
sessions whose file begins in the middle: their past is one block of estimated size.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final, Literal

import msgspec

from everturn.decide.economy.settings import CAUTIONS, Caution
from everturn.errors import EverturnError
from everturn.replay.intervals import PairedCosts, draw_sessions, saving_interval
from everturn.replay.marked_page import insert_between
from everturn.replay.parallel import ReplayedSession, ResultCache, default_folder, replay_all
from everturn.replay.policies import RECORDED, ReplayPolicy, bill_summaries_as, parse_policy
from everturn.replay.runs import ReplayRun, RetainedCount
from everturn.safe_files import edit_text

CHEAP: Final = "claude-haiku-4-5"
# Prices of a read relative to plain input, and what is special about each.
MODELS: Final = (
    ("claude-opus-5", "0.1", ""),
    ("claude-opus-5-5", "0.05", ""),
    ("claude-fable-5-2", "0.025", "thinking is bound to its prefix"),
    ("claude-haiku-5-5", "0.1", "prices rise above 100,000 tokens of prompt"),
)
_COMPARED: Final = "claude-code"
_DEFAULT: Final = "economic"
_WORDS: Final = "user_instructions"
Table = Literal["settings", "models"]


class Figures(msgspec.Struct, frozen=True):
    """One policy over all sessions: percent of what was recorded, each with its 95 % interval."""

    dollars: str
    input_side: str
    refetches: float
    words: float


def name_setting(caution: Caution, *, cheap: bool, holds: bool) -> str:
    return f"{caution}, {'small' if cheap else 'own'} model, {'holds' if holds else 'no holds'}"


def setting_policies() -> list[ReplayPolicy]:
    """The recording, `claude-code`, and `economic` with every caution, summaries by a small model and by the
    conversation's own, with holds and without."""
    found = [parse_policy(RECORDED), parse_policy(_COMPARED)]
    for caution in CAUTIONS:
        for cheap in (True, False):
            # The cheapest of all is of interest only as a bound of what can be saved.
            for holds in (True, False) if caution != "frugal" else (True,):
                policy = parse_policy(f"{_DEFAULT}+{caution}")
                economy = msgspec.structs.replace(policy.options.economy, holds=holds)
                options = msgspec.structs.replace(policy.options, economy=economy)
                name = name_setting(caution, cheap=cheap, holds=holds)
                policy = msgspec.structs.replace(policy, name=name, options=options)
                found.append(bill_summaries_as(policy, CHEAP) if cheap else policy)
    return found


def model_policies(model: str) -> list[ReplayPolicy]:
    """As if this model had answered all calls; summaries by a small one."""
    names = (RECORDED, _COMPARED, f"{_DEFAULT}+balanced")
    found = [bill_summaries_as(parse_policy(name, model=model), CHEAP) for name in names]
    return [msgspec.structs.replace(each, name=f"{each.name} {model}") for each in found]


def measure(sessions: Sequence[ReplayedSession], policy: str, against: str) -> Figures:
    """`against` is what the percentages are of."""
    every = [runs for runs in map(_by_policy, sessions) if {policy, against} <= set(runs)]
    pairs = [(runs[policy], runs[against]) for runs in every]
    whole = [pair for pair in pairs if not pair[0].begins_in_middle]
    calls = sum(run.totals.calls for run, _ in pairs)
    refetches = sum(run.totals.refetches + run.totals.probable_refetches for run, _ in pairs)
    words = [run.totals.left.get(_WORDS, RetainedCount()) for run, _ in pairs]
    return Figures(
        _percent([PairedCosts(run.totals.dollars, other.totals.dollars) for run, other in whole]),
        _percent([PairedCosts(_input(run), _input(other)) for run, other in whole]),
        100 * refetches / max(1, calls),
        100 * sum(each.kept for each in words) / max(1, sum(each.total for each in words)),
    )


def _by_policy(session: ReplayedSession) -> Mapping[str, ReplayRun]:
    return {run.policy: run for run in session.runs}


def _input(run: ReplayRun) -> Decimal:
    return run.totals.dollars - run.totals.spent.output


def _percent(pairs: Sequence[PairedCosts]) -> str:
    of = sum((pair.of for pair in pairs), Decimal(0))
    if not of:
        return "-"
    share = 100 * sum((pair.dollars for pair in pairs), Decimal(0)) / of
    found = saving_interval(pairs, draw_sessions(len(pairs)))
    low, high = (100 - 100 * found.high, 100 - 100 * found.low) if found else (0.0, 0.0)
    return f"{share:.1f} ({low:.1f} to {high:.1f})" if found else f"{share:.1f}"


def settings_table(sessions: Sequence[ReplayedSession]) -> str:
    lines = [
        "| caution, summaries, holds | all dollars | input side | refetches | user's words |",
        "|---|--:|--:|--:|--:|",
    ]
    for policy in setting_policies()[1:]:
        found = measure(sessions, policy.name, RECORDED)
        cells = (found.dollars, found.input_side, f"{found.refetches:.2f}", f"{found.words:.1f} %")
        lines.append(f"| {policy.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def models_table(sessions: Sequence[ReplayedSession]) -> str:
    lines = ["| model | read price | what is special | `claude-code` | `balanced` |", "|---|--:|---|--:|--:|"]
    for model, price, special in MODELS:
        recorded, *compared = (each.name for each in model_policies(model))
        found = [measure(sessions, name, recorded) for name in compared]
        cells = (f"{each.input_side}, {each.refetches:.1f}" for each in found)
        lines.append(f"| {model} | {price} | {special} | {' | '.join(cells)} |")
    return "\n".join(lines)


def insert_table(page: str, name: Table, drawn: str) -> str:
    return insert_between(page, f"<!-- economy: {name} -->", f"<!-- end of economy: {name} -->", drawn)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m everturn.replay.economy_tables")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--into", type=Path)
    parser.add_argument("--cache", type=Path, default=default_folder(os.environ))
    parser.add_argument("--only", choices=("settings", "models"))
    given = parser.parse_args(arguments)
    tables: list[tuple[Table, list[ReplayPolicy]]] = [
        ("settings", setting_policies()),
        ("models", [each for model, _, _ in MODELS for each in model_policies(model)]),
    ]
    for name, policies in tables:
        if given.only in (None, name):
            keep, workers = ResultCache(str(given.cache)), os.cpu_count() or 1
            sessions = replay_all([given.folder], policies, keep, workers=workers).sessions
            drawn = settings_table(sessions) if name == "settings" else models_table(sessions)
            if given.into is None:
                print(drawn, flush=True)
            else:
                edit_text(given.into, lambda page, name=name, drawn=drawn: insert_table(page, name, drawn))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except EverturnError as problem:
        sys.exit(str(problem))
