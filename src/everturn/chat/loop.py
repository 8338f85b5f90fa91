"""The conversation from the outside: read a line, do what it means, and let nothing end it by accident.

    Ctrl-C   during an answer   it stops, and what was said stays
             during a tool      the tool is ended, and its call answered
             at the prompt      once clears the line, twice leaves
    Ctrl-D   leaves

An error of the provider is told in words, and the prompt comes back: what was said is kept, and /retry asks
again.
"""

from datetime import UTC, datetime
from typing import Final

from everturn.chat.agent import ChatAgent
from everturn.chat.commands import run_slash_command
from everturn.chat.model_connection import describe_error
from everturn.chat.permission import PermissionAnswer, PermissionRequest
from everturn.chat.screen.input import EmptyInput, PromptInput, SlashCommand, parse_input
from everturn.chat.screen.status import format_status
from everturn.chat.screen.terminal import Terminal
from everturn.chat.screen.tool_calls import format_permission_request, format_question
from everturn.dashboard.terminal import QUIET
from everturn.errors import EverturnError, StoreError
from everturn.session.upstream import UpstreamError

ERROR_STYLE: Final = "red"
# Commands after which the status is news.
CHANGES_CONTEXT: Final = ("retry", "compact", "undo")
# How often a wish is asked about; showing all of it is no answer yet.
MAX_QUESTIONS: Final = 3


def converse(agent: ChatAgent) -> None:
    """Until the person leaves or the input ends."""
    terminal, stops = agent.terminal, 0
    while stops < 2:
        try:
            handle_input(agent, terminal.read())
            stops = 0
        except EOFError:
            break
        except KeyboardInterrupt:
            stops += 1
            terminal.blank()
            if stops == 1:
                terminal.say("Ctrl-C again, Ctrl-D or /quit leaves.", QUIET)
    terminal.settle()


def handle_input(agent: ChatAgent, text: str) -> None:
    """What one input means, done; raises EOFError where it means to leave."""
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
    """Whether it went well. Whatever does not is told, and the conversation goes on."""
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
        # Our own fault, whatever it is; a traceback would take the conversation off the screen.
        terminal.say(f"Something went wrong here ({type(problem).__name__}: {problem}).", ERROR_STYLE)
        terminal.say(f"What was said is kept in {agent.session.path}.", QUIET)
        agent.reopen()
    return False


def _dispatch(agent: ChatAgent, meant: PromptInput | SlashCommand) -> bool:
    match meant:
        case PromptInput(text=words):
            if stopped := agent.answer(words).stopped:
                agent.terminal.say(f"It was stopped: {stopped}. /retry lets it go on.", QUIET)
        case SlashCommand():
            agent.terminal.show(run_slash_command(agent, meant))
    return True


def show_status(agent: ChatAgent) -> None:
    """Below an answer, and again for an empty line. A pipe has nobody to look at it."""
    terminal = agent.terminal
    if terminal.kind != "pipe":
        terminal.show([format_status(agent.figures(datetime.now(UTC)), terminal.screen)])


def ask_permission(terminal: Terminal, wish: PermissionRequest) -> PermissionAnswer:
    """A person's answer to a wish. Nobody there means no; so does a third that is none."""
    if terminal.kind == "pipe":
        return "no"
    terminal.show(format_permission_request(wish, terminal.screen))
    for _ in range(MAX_QUESTIONS):
        try:
            said = terminal.ask(format_question(wish, terminal.screen)).strip().lower()
        except EOFError:
            return "no"
        if said in ("y", "yes"):
            return "once"
        if said in ("a", "always"):
            return "always"
        if said in ("n", "no"):
            return "no"
        if said in ("s", "show"):
            terminal.show(format_permission_request(wish, terminal.screen, whole=True))
    return "no"
