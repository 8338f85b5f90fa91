"""The main loop of the chat: read a line, run it, show errors, continue.

    Ctrl-C   during an answer   stops the answer; the text so far is kept
             during a tool      stops the tool; the call gets a result that says so
             at the prompt      once clears the line, twice exits
    Ctrl-D   exits
    Esc      twice at an empty prompt lists the messages to go back to

An error of the provider is shown with advice, and the prompt returns. The message is kept; /retry sends it
again.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from msgspec import structs
from rich.text import Text

from everturn.chat.agent import ChatAgent
from everturn.chat.commands import run_slash_command
from everturn.chat.model_connection import describe_error
from everturn.chat.permission import PermissionAnswer, PermissionRequest
from everturn.chat.rewind import run_rewind
from everturn.chat.screen.input import EmptyInput, PromptInput, SlashCommand, parse_input
from everturn.chat.screen.status import format_status
from everturn.chat.screen.terminal import Terminal
from everturn.chat.screen.tool_calls import format_permission_request, format_question
from everturn.chat.session_figures import cache_seconds_left, is_cache_cold
from everturn.dashboard.terminal import QUIET
from everturn.decide.compact.triggers import ProposalResponse
from everturn.errors import EverturnError, StoreError, UpstreamError

ERROR_STYLE: Final = "red"
# Commands that change what the status line shows.
CHANGES_CONTEXT: Final = ("retry", "compact", "undo")
# How often one permission question is repeated; "s" (show all) does not answer it.
MAX_QUESTIONS: Final = 3
# By its first letter; every other answer means later.
PROPOSAL_ANSWERS: Final[dict[str, ProposalResponse]] = {"y": "accept", "n": "decline"}


def converse(agent: ChatAgent) -> None:
    """Run until the user exits or the input ends."""
    terminal, stops = agent.terminal, 0
    terminal.offer_command("/rewind", lambda: run_rewind(agent, ""))
    while stops < 2:
        try:
            handle_input(agent, terminal.read(status_line(agent)))
            stops = 0
        except EOFError:
            break
        except KeyboardInterrupt:
            stops += 1
            terminal.blank()
            if stops == 1:
                terminal.say("Press Ctrl-C again to exit (or Ctrl-D, or /quit).", QUIET)
    if terminal.kind != "pipe":
        agent.end_reason = "prompt_input_exit"
    terminal.stop_waiting()


def handle_input(agent: ChatAgent, text: str) -> None:
    """Run one input. Raises EOFError if it means exit."""
    terminal = agent.terminal
    meant = parse_input(text)
    if isinstance(meant, EmptyInput):
        show_status(agent)
        return
    terminal.blank()
    run_input(agent, meant)
    terminal.blank()
    if isinstance(meant, PromptInput) or meant.name in CHANGES_CONTEXT:
        show_status(agent)


def run_input(agent: ChatAgent, meant: PromptInput | SlashCommand) -> bool:
    """Run one input and report whether it succeeded. Errors are shown; the conversation continues."""
    terminal = agent.terminal
    try:
        with terminal.working():
            return _dispatch(agent, meant)
    except KeyboardInterrupt:
        terminal.say("Stopped.", QUIET)
        agent.handle_interrupt()
    except UpstreamError as problem:
        terminal.say(describe_error(problem), ERROR_STYLE)
    except StoreError as problem:
        terminal.say(str(problem), ERROR_STYLE)
        agent.reopen()
    except EverturnError as problem:
        terminal.say(str(problem), ERROR_STYLE)
    except EOFError:
        raise
    except Exception as problem:
        # A bug of ours. A traceback would push the conversation off the screen.
        terminal.say(f"Internal error ({type(problem).__name__}: {problem}).", ERROR_STYLE)
        terminal.say(f"The conversation is saved in {agent.session.path}.", QUIET)
        agent.reopen()
    return False


def _dispatch(agent: ChatAgent, meant: PromptInput | SlashCommand) -> bool:
    match meant:
        case PromptInput(text=words):
            offer_compaction(agent)
            if stopped := agent.answer(words).stopped:
                agent.terminal.say(f"Stopped: {stopped}. /retry continues.", QUIET)
        case SlashCommand():
            agent.terminal.show(run_slash_command(agent, meant))
    return True


def show_status(agent: ChatAgent) -> None:
    """Shown below each answer and for an empty line, where it does not stand below the prompt."""
    terminal = agent.terminal
    if terminal.kind != "pipe" and not terminal.has_status_at_prompt:
        terminal.show([status_line(agent)()])


def status_line(agent: ChatAgent) -> Callable[[], Text]:
    """The status line of every moment: only the time that the cache has left changes at the prompt."""
    figures = agent.figures(datetime.now(UTC))

    def line() -> Text:
        left = cache_seconds_left(agent.session, datetime.now(UTC))
        return format_status(structs.replace(figures, cache_seconds_left=left), agent.terminal.screen)

    return line


def offer_compaction(agent: ChatAgent) -> None:
    """Before a message is sent into a large context whose cache is cold, offer to compact first: now it would
    be paid in full (CP-24). Not in a pipe: there the automatic threshold decides, without a question."""
    terminal = agent.terminal
    if terminal.kind == "pipe" or not is_cache_cold(agent.session, datetime.now(UTC)):
        return
    proposal = agent.session.propose_compaction()
    if proposal is None:
        return
    terminal.say(f"{proposal.why[0].upper()}{proposal.why[1:]}. Compact before this message is sent?")
    try:
        said = terminal.ask("[y]es, [l]ater, [n]ot before it must be: ").strip().lower()
    except EOFError:
        said = ""
    response = PROPOSAL_ANSWERS.get(said[:1], "defer")
    agent.session.answer_proposal(proposal, response)
    agent.show_compactions()


def ask_permission(terminal: Terminal, request: PermissionRequest) -> PermissionAnswer:
    """Ask the user. In a pipe, at end of input, and after three unclear answers, the answer is no."""
    if terminal.kind == "pipe":
        return "no"
    terminal.show(format_permission_request(request, terminal.screen))
    for _ in range(MAX_QUESTIONS):
        try:
            said = terminal.ask(format_question(request, terminal.screen)).strip().lower()
        except EOFError:
            return "no"
        if said in ("y", "yes"):
            return "once"
        if said in ("a", "always"):
            return "always"
        if said in ("n", "no"):
            return "no"
        if said in ("s", "show"):
            terminal.show(format_permission_request(request, terminal.screen, whole=True))
    return "no"
