"""How often each tool of a conversation was called, beside what its definition costs (EC-10)."""

from collections import Counter

from everturn.decide.economy.head import HeadTool
from everturn.engine import Conversation, ConversationSettings
from everturn.measure.outline import Preamble
from everturn.measure.rendering import tools_in_prefix


class ToolCalls:
    """Counts what is new in the log; definitions are measured again only when they change."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._calls: Counter[str] = Counter()
        self._counted = 0
        self._sizes: tuple[Preamble, list[tuple[str, int, bool]]] | None = None

    @property
    def head(self) -> tuple[HeadTool, ...]:
        records, settings = self._conversation.log.records, self._conversation.setting
        for record in records[self._counted :]:
            self._calls.update(block.tool for block in record.blocks if block.is_call and block.tool)
        self._counted = len(records)
        if self._sizes is None or self._sizes[0] is not settings.preamble:
            self._sizes = settings.preamble, _measure(settings)
        return tuple(
            HeadTool(name=name, tokens=tokens, calls=self._calls[name], is_deferred=is_deferred)
            for name, tokens, is_deferred in self._sizes[1]
        )


def _measure(settings: ConversationSettings) -> list[tuple[str, int, bool]]:
    tools = settings.preamble.tools
    sent = {at for part in tools_in_prefix(tools) for at in part}
    named = ((at, tool) for at, tool in enumerate(tools) if tool.tool)
    return [(tool.tool, settings.costs.block(tool), at not in sent) for at, tool in named]
