"""`everturn chat`: a coding agent in the terminal.

Exit codes: 0 when the person left, or -p was answered; 1 when -p was not answered or the conversation could
not be opened, with the reason on stderr; 2 when the command was called wrongly.
"""

import os
from pathlib import Path

import click

from everturn.chat.permission import MODES


@click.command(short_help="A coding agent in the terminal, in a conversation without end.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@click.option("-p", "--print", "words", metavar="WORDS", help="Say this, print the answer, and leave.")
@click.option(
    "--resume", metavar="[ID]", is_flag=False, flag_value="newest",
    help="Continue the newest conversation of the folder, or the one with this id.",
)  # fmt: skip
@click.option(
    "--session", metavar="FILE", type=click.Path(path_type=Path), help="Keep the conversation here."
)
@click.option("--model", metavar="M", default="", help="Which model; ANTHROPIC_MODEL if not given.")
@click.option("--policy", metavar="P", default="", help="Which policy keeps the context small.")
@click.option(
    "--window", metavar="N", type=click.IntRange(min=1), help="A smaller window: compact more often."
)
@click.option("--twin", is_flag=True, help="Talk to the twin in this process, even where there is a key.")
@click.option(
    "--permission-mode", "mode", type=click.Choice([each.replace(" ", "-") for each in MODES]),
    default="ask", show_default=True, help="What may be done unasked.",
)  # fmt: skip
@click.option("--notes", is_flag=True, help="Keep notes in the background, for compactions without a wait.")
def chat(
    folder: Path,
    words: str | None,
    resume: str | None,
    session: Path | None,
    model: str,
    policy: str,
    window: int | None,
    twin: bool,
    mode: str,
    notes: bool,
) -> None:
    """Work with an agent in FOLDER: it reads, searches, edits and runs commands, and asks before it does so.

    With ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN) set it talks to the API, also at ANTHROPIC_BASE_URL;
    without a key to the twin, a small agent that follows rules. Conversations are kept: --resume continues.
    /help lists what can be typed beside words.
    """
    from everturn.chat.start import ChatOptions, start_chat

    if session is not None and resume is not None:
        raise click.UsageError("Give --session or --resume, not both.")
    # Relative to where we were called, before we go to the folder.
    session = session.absolute() if session else None
    os.chdir(folder)
    settings = {"model": model, "policy": policy, "window": window}
    options = ChatOptions(
        settings={key: value for key, value in settings.items() if value},
        words=words,
        resume=resume,
        session=session,
        wanted="twin" if twin else "whatever there is",
        mode=mode.replace("-", " "),
        takes_notes=notes,
    )
    raise SystemExit(start_chat(options))
