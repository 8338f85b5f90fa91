"""The tools of the server.

Descriptions are sent with every request of an agent that has this server, so each is a sentence or two;
answers are JSON without spaces for the same reason.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from everturn import __version__
from everturn.errors import EverturnError
from everturn.mcp import results as answers
from everturn.mcp.sessions import SessionLocator, find_session_file

SESSION_DESCRIPTION: Final = (
    "A session's .jsonl file, or the beginning of its id. Left out: the session you are in."
)
SessionArgument = Annotated[str, Field(description=SESSION_DESCRIPTION)]
READ_ONLY: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
# Pinning the same words again changes nothing.
WRITES_PINS: Final = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def build_server(where: SessionLocator) -> MCPServer:
    """A server that answers about the sessions in these folders."""
    made: MCPServer = MCPServer("everturn", version=__version__, log_level="WARNING")

    def answer(named: str, about: Callable[[Path], dict[str, Any]]) -> str:
        """An error of ours is an answer; of any other the library tells the model no more than that."""
        try:
            return msgspec.json.encode(about(find_session_file(where, named))).decode()
        except EverturnError as problem:
            raise ToolError(str(problem)) from problem

    @made.tool(annotations=READ_ONLY, structured_output=False)
    def context_usage(session: SessionArgument = "") -> str:
        """How full the context window is, what fills it, and which files stand in it more than once."""
        return answer(session, answers.context_usage)

    @made.tool(annotations=READ_ONLY, structured_output=False)
    def audit(session: SessionArgument = "") -> str:
        """What the session has cost so far: calls, dollars, cache hit rate, cache breaks by reason."""
        return answer(session, answers.audit)

    @made.tool(annotations=READ_ONLY, structured_output=False)
    def why_cache_miss(session: SessionArgument = "") -> str:
        """Why the prompt cache missed: the last breaks with cause, tokens lost and dollars."""
        return answer(session, answers.why_cache_miss)

    @made.tool(annotations=READ_ONLY, structured_output=False)
    def dry_run_compaction(
        session: SessionArgument = "",
        instructions: Annotated[str, Field(description="What the summary would have to attend to.")] = "",
    ) -> str:
        """What a compaction would summarize, keep, carry word for word and restore. Changes nothing."""
        return answer(session, lambda file: answers.dry_run_compaction(file, instructions))

    @made.tool(annotations=READ_ONLY, structured_output=False)
    def recall(
        query: Annotated[str, Field(description="Words; those in double quotes must stand together.")],
        session: SessionArgument = "",
        limit: Annotated[int, Field(ge=1, le=50)] = answers.MAX_ROWS,
    ) -> str:
        """Find words in everything the session ever said, also what was cleared or summarized since."""
        return answer(session, lambda file: answers.recall(file, query, limit))

    @made.tool(annotations=WRITES_PINS, structured_output=False)
    def pin(
        words: Annotated[str, Field(description="A rule or fact, as it shall be remembered.")],
        session: SessionArgument = "",
    ) -> str:
        """Keep these words, as they are, through every later compaction."""
        return answer(session, lambda file: answers.pin(file, words))

    return made
