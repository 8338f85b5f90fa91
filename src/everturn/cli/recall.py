"""`everturn recall`: search the full history of a session, including summarized parts."""

import os
import shlex
from typing import TYPE_CHECKING

import click

from everturn.cli.output import say_json, warn_of_damage
from everturn.cli.session_names import SessionName, choose_session, is_session

if TYPE_CHECKING:
    from everturn.wire.claude_code_reader import Transcript


@click.command(short_help="Search the full history of a session.")
@click.argument("words", nargs=-1, metavar="[SESSION] WORDS...")
@click.option(
    "--session", metavar="SESSION", type=SessionName(), help="Search this session; all WORDS are the query."
)
@click.option(
    "--open", "hit", metavar="HIT", default="", help="Print this hit in full; its id stands before it."
)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), default=8, help="Maximum number of hits.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def recall(words: tuple[str, ...], session: str | None, hit: str, limit: int, as_json: bool) -> None:
    """Search a session for WORDS, best hits first. Without SESSION, the newest one of the current folder.

    SESSION is a .jsonl file, before or after the words, or an id as it is shown; --session also takes a part
    of the title. Put a phrase in double quotes. Each hit says whether the model still sees it. An index is
    stored beside the file if possible.
    """
    from everturn.session.transcripts import open_transcript
    from everturn.wire.line_repair import describe_problems

    if session is None and words and (hit or is_session(words[0])):
        session, words = words[0], words[1:]
    elif session is None and len(words) > 1 and words[-1].endswith(".jsonl") and os.path.isfile(words[-1]):
        # grep takes the file last, and so do many people.
        session, words = words[-1], words[:-1]
    if not hit and not words:
        raise click.UsageError("Give one or more words to search for.")
    file = choose_session(session)
    transcript = open_transcript(file)
    damage = describe_problems(transcript.flaws)
    warn_of_damage(file, damage)
    if hit:
        _open(transcript, hit)
        return
    named = "" if session is None else f" --session {shlex.quote(session)}"
    _search(file, transcript, " ".join(words), limit, damage if as_json else None, f"everturn recall{named}")


def _open(transcript: "Transcript", hit: str) -> None:
    from everturn.dashboard.recall_output import print_lines, render_record

    found = {each.uuid: each for each in transcript.records if each.uuid.startswith(hit)}
    if hit in found:
        found = {hit: found[hit]}
    if not found:
        raise click.ClickException(f"This session has no record {hit!r}. A search shows the ids of its hits.")
    if len(found) > 1:
        listed = ", ".join(sorted(found)[:5])
        said = f"{len(found):,} records begin with {hit!r}: {listed}."
        raise click.ClickException(f"{said} Give more of the id.")
    (record,) = found.values()
    calls = (block for each in transcript.records for block in each.blocks if block.is_call)
    tools = {block.call: block.tool for block in calls}
    print_lines(lambda screen: render_record(record, tools, screen))


def _search(
    file: str, transcript: "Transcript", query: str, limit: int, damage: tuple[str, ...] | None, command: str
) -> None:
    """With `damage` as JSON, otherwise for people; `command` is how they open a hit."""
    import msgspec

    from everturn.dashboard.progress import progress
    from everturn.dashboard.recall_output import print_lines, render_hits
    from everturn.history.log import Log
    from everturn.history.threads import split_threads
    from everturn.session.recall.index import RecallIndex
    from everturn.session.recall.search import search

    log = Log(split_threads(transcript.records).main.records)
    index = RecallIndex(file)
    try:
        with progress("Searching"):
            found = search(query, limit, index=index, log=log)
    finally:
        index.close()
    if damage is not None:
        told = {"hits": found.hits, "remark": found.remark, "notes": (*damage, *index.notes)}
        say_json(msgspec.json.encode(told))
        return
    print_lines(lambda screen: render_hits(found, index.notes, screen, command))
