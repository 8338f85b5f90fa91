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

from everturn.chat.agent import Agent
from everturn.chat.commands import carry_out
from everturn.chat.permission import Answer, Wish
from everturn.chat.provider import in_words
from everturn.chat.screen.calls import question, wish_lines
from everturn.chat.screen.lines import Command, Nothing, Say, meaning
from everturn.chat.screen.status import status
from everturn.chat.screen.terminal import Terminal
from everturn.dashboard.terminal import QUIET
from everturn.errors import EverturnError, StoreError
from everturn.session.upstream import UpstreamError

WRONG: Final = "red"
# Commands after which the status is news.
CHANGES_CONTEXT: Final = ("retry", "compact", "undo")
# How often a wish is asked about; showing all of it is no answer yet.
MOST_ASKED: Final = 3


def converse(agent: Agent) -> None:
    """Until the person leaves or the input ends."""
    terminal, stops = agent.terminal, 0
    while stops < 2:
        try:
            do(agent, terminal.read())
            stops = 0
        except EOFError:
            break
        except KeyboardInterrupt:
            stops += 1
            terminal.blank()
            if stops == 1:
                terminal.say("Ctrl-C again, Ctrl-D or /quit leaves.", QUIET)
    terminal.settle()


def do(agent: Agent, text: str) -> None:
    """What one input means, done; raises EOFError where it means to leave."""
    terminal = agent.terminal
    meant = meaning(text)
    if isinstance(meant, Nothing):
        show_status(agent)
        return
    terminal.blank()
    attempt(agent, meant)
    terminal.blank()
    if isinstance(meant, Say) or meant.name in CHANGES_CONTEXT:
        show_status(agent)


def attempt(agent: Agent, meant: Say | Command) -> bool:
    """Whether it went well. Whatever does not is told, and the conversation goes on."""
    terminal = agent.terminal
    try:
        with terminal.working():
            return _done(agent, meant)
    except KeyboardInterrupt:
        terminal.say("Stopped.", QUIET)
        agent.interrupted()
    except UpstreamError as problem:
        terminal.say(in_words(problem), WRONG)
    except StoreError as problem:
        terminal.say(str(problem), WRONG)
        agent.reopen()
    except EverturnError as problem:
        terminal.say(str(problem), WRONG)
    except EOFError:
        raise
    except Exception as problem:
        # Our own fault, whatever it is; a traceback would take the conversation off the screen.
        terminal.say(f"Something went wrong here ({type(problem).__name__}: {problem}).", WRONG)
        terminal.say(f"What was said is kept in {agent.session.path}.", QUIET)
        agent.reopen()
    return False


def _done(agent: Agent, meant: Say | Command) -> bool:
    match meant:
        case Say(text=words):
            if stopped := agent.answer(words).stopped:
                agent.terminal.say(f"It was stopped: {stopped}. /retry lets it go on.", QUIET)
        case Command():
            agent.terminal.show(carry_out(agent, meant))
    return True


def show_status(agent: Agent) -> None:
    """Below an answer, and again for an empty line. A pipe has nobody to look at it."""
    terminal = agent.terminal
    if terminal.kind != "pipe":
        terminal.show([status(agent.figures(datetime.now(UTC)), terminal.screen)])


def asked(terminal: Terminal, wish: Wish) -> Answer:
    """A person's answer to a wish. Nobody there means no; so does a third that is none."""
    if terminal.kind == "pipe":
        return "no"
    terminal.show(wish_lines(wish, terminal.screen))
    for _ in range(MOST_ASKED):
        try:
            said = terminal.ask(question(wish, terminal.screen)).strip().lower()
        except EOFError:
            return "no"
        if said in ("y", "yes"):
            return "once"
        if said in ("a", "always"):
            return "always"
        if said in ("n", "no"):
            return "no"
        if said in ("s", "show"):
            terminal.show(wish_lines(wish, terminal.screen, whole=True))
    return "no"
