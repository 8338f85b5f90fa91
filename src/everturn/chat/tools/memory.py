"""Instructions of a folder, attached to the result of the first call that touches a file in it (NM-2).

Which files those are, and that each comes once: `session/memory_files/nested.py`. After a compaction whoever
holds the `NestedMemory` calls its `forget`, and they come again.
"""

from collections.abc import Mapping
from typing import Any

from everturn.history.blocks import text_of
from everturn.session.memory_files.nested import NestedMemory
from everturn.session.tools import Tool, ToolContent
from everturn.view.fragments.memory import memory_file
from everturn.view.fragments.reminder import reminder


def attach_memory(tool: Tool, memory: NestedMemory) -> Tool:
    """The same tool; what its folder's memory files say stands behind its result."""
    run = tool.run
    if run is None:
        return tool

    def attaching(fields: Mapping[str, Any]) -> ToolContent:
        answer = run(fields)
        # The call went well, so there is a path, and it led somewhere.
        path = str(fields["file_path"])
        memory.was_read(path)
        memory.triggered(path)
        files = memory.take().files
        return _behind(answer, [memory_file(each.path, each.kind, each.text) for each in files])

    return Tool(tool.definition, attaching)


def _behind(answer: ToolContent, texts: list[str]) -> ToolContent:
    if not texts:
        return answer
    words = text_of(reminder("\n\n".join(texts)))
    if isinstance(answer, str):
        return f"{answer}\n\n{words}"
    return [*answer, {"type": "text", "text": words}]
