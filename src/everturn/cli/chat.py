"""`everturn chat`: a coding agent in the terminal.

Exit codes: 0 after a normal exit, or when -p was answered; 1 when -p was not answered or the conversation
could not be opened, with the reason on stderr; 2 for wrong arguments.
"""

import os
from pathlib import Path

import click

from everturn.chat.permission import MODES
from everturn.cli.configured import config_options


@click.command(short_help="A coding agent in the terminal, with unlimited conversation length.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@click.option("-p", "--print", "words", metavar="PROMPT", help="Send this prompt, print the answer and exit.")
@click.option(
    "--resume", metavar="[ID]", is_flag=False, flag_value="newest",
    help="Resume the newest conversation of the folder, or the one with this id.",
)  # fmt: skip
@click.option(
    "--session", metavar="FILE", type=click.Path(path_type=Path), help="Store the conversation in this file."
)
@click.option("--model", metavar="M", default="", help="The model; default: ANTHROPIC_MODEL.")
@click.option("--policy", metavar="P", default="", help="The context policy.")
@click.option(
    "--window",
    metavar="N",
    type=click.IntRange(min=1),
    help="Use a smaller context window, to compact more often.",
)
@click.option("--twin", is_flag=True, help="Use the local twin, even if an API key is set.")
@click.option(
    "--permission-mode", "mode", type=click.Choice([each.replace(" ", "-") for each in MODES]),
    default="ask", show_default=True, help="What the agent may do without asking.",
)  # fmt: skip
@click.option("--notes", is_flag=True, help="Keep notes in the background, so that compaction is instant.")
@config_options
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
    settings: dict[str, str],
    config_path: Path | None,
) -> None:
    """Work with a coding agent in FOLDER. It asks before it edits files or runs commands.

    With ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN) set it uses the API, at ANTHROPIC_BASE_URL if set.
    Without a key it uses the twin, a rule-based test agent. Conversations are saved; --resume continues one.
    Type /help for the commands.
    """
    from everturn.chat.start import ChatOptions, start_chat

    if session is not None and resume is not None:
        raise click.UsageError("Give --session or --resume, not both.")
    # Resolve paths before the working directory changes.
    session = session.absolute() if session else None
    config_path = config_path.absolute() if config_path else None
    os.chdir(folder)
    named = {"model": model, "policy": policy, "window": window, "notes.enabled": notes}
    options = ChatOptions(
        settings={**settings, **{key: value for key, value in named.items() if value}},
        config_path=config_path,
        words=words,
        resume=resume,
        session=session,
        wanted="twin" if twin else "whatever there is",
        mode=mode.replace("-", " "),
        location=() if folder == Path() else (str(folder),),
    )
    raise SystemExit(start_chat(options))
