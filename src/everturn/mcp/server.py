"""The tools of the server.

An agent that uses this server sends the descriptions with every request, so each has one or two sentences.
Results are compact JSON for the same reason.
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
from everturn.decide.options import Options
from everturn.errors import EverturnError
from everturn.mcp import results
from everturn.mcp.sessions import SessionLocator, find_session_file

SESSION_DESCRIPTION: Final = "A session's .jsonl file, or the start of its id. Default: the current session."
SessionArgument = Annotated[str, Field(description=SESSION_DESCRIPTION)]
READ_ONLY: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
# Pinning the same text again changes nothing.
WRITES_PINS: Final = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def build_server(where: SessionLocator, options: Options | None = None) -> MCPServer:
    """A server for the sessions in these folders."""
    made: MCPServer = MCPServer("everturn", version=__version__, log_level="WARNING")

    def answer(named: str, about: Callable[[Path], dict[str, Any]]) -> str:
        """Our own errors are returned with their message; for others the library hides the message."""
        try:
            return msgspec.json.encode(about(find_session_file(where, named))).decode()
        except EverturnError as problem:
            raise ToolError(str(problem)) from problem

    @made.tool(annotations=READ_ONLY, structured_output=False)
    def context_usage(session: SessionArgument = "") -> str:
        """How full the context window is, what fills it, and which files are in it more than once."""
        return answer(session, lambda file: results.context_usage(file, options))

    @made.tool(annotations=READ_ONLY, structured_output=False)
    def audit(session: SessionArgument = "") -> str:
        """What the session has cost so far: calls, dollars, cache hit rate, cache breaks by reason."""
        return answer(session, results.audit)

    @made.tool(annotations=READ_ONLY, structured_output=False)
    def why_cache_miss(session: SessionArgument = "") -> str:
        """Why the prompt cache missed: the last breaks with cause, tokens lost and dollars."""
        return answer(session, results.why_cache_miss)

    @made.tool(annotations=READ_ONLY, structured_output=False)
    def dry_run_compaction(
        session: SessionArgument = "",
        instructions: Annotated[str, Field(description="What the summary should focus on.")] = "",
    ) -> str:
        """What a compaction would summarize, keep, quote verbatim and restore. Changes nothing."""
        return answer(session, lambda file: results.dry_run_compaction(file, instructions, options))

    @made.tool(annotations=READ_ONLY, structured_output=False)
    def recall(
        query: Annotated[str, Field(description="Search words; put a phrase in double quotes.")],
        session: SessionArgument = "",
        limit: Annotated[int, Field(ge=1, le=50)] = results.MAX_ROWS,
    ) -> str:
        """Search the full history of the session, including cleared and summarized parts."""
        return answer(session, lambda file: results.recall(file, query, limit))

    @made.tool(annotations=WRITES_PINS, structured_output=False)
    def pin(
        words: Annotated[str, Field(description="The rule or fact to keep.")],
        session: SessionArgument = "",
    ) -> str:
        """Keep this text through all later compactions, marked as yours and not the user's."""
        return answer(session, lambda file: results.pin(file, words))

    return made
