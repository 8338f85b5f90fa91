"""Which of the offered tools only read, so that the rule-based agent may call them unasked (TW-8).

The table of known tools decides first. Tools that it does not have are judged by the words of their names,
and if those say nothing, by the first sentence of their descriptions. In doubt a tool is not called.
"""

import re
from typing import Final

from everturn.measure.tool_table import DEFAULT_TOOL_TABLE, UNKNOWN_ROW
from everturn.twin.tool_input import built_in_input
from everturn.twin.values import ParsedBlock

_READING_PURPOSES: Final = frozenset(("reads", "searches", "lists"))
# The first word of a name or of a description.
_READING_VERBS_LIST: Final = """
    read reads get gets list lists search searches find finds view views show shows look looks lookup query
    describe describes count counts inspect inspects grep glob ls cat head tail stat return returns retrieve
    retrieves recall recalls compute computes calculate calculates check checks
"""
_READING_VERBS: Final = frozenset(_READING_VERBS_LIST.split())
# Words that show that a tool may change, fetch, schedule or send something, wherever they are.
_ACTING_WORDS_LIST: Final = """
    add append apply approve archive book browse browser build buy call cancel chmod clear click close commit
    compile copy create cron delete deploy disable download drop edit email enable enter exec execute exit
    fetch http https insert install internet invite invoke kill launch login mail make merge message modify
    move navigate notify open order patch pay play post publish purchase push put remind remove rename replace
    reply report reset restart restore run schedule send set shell sign spawn start stop submit sync task
    tasks terminal trigger uninstall update upload url wake web webhook worktree write
"""
_ACTING_WORDS: Final = frozenset(_ACTING_WORDS_LIST.split())
# The same in descriptions, where words such as "order" or "open" say little.
_ACTING_DESCRIPTIONS_LIST: Final = """
    browser browses changes create creates delete deletes download downloads email emails execute executes
    fetch fetches http https internet modifies modify overwrites posts publishes remove removes runs schedule
    schedules send sends update updates upload uploads url web write writes
"""
_ACTING_DESCRIPTIONS: Final = frozenset(_ACTING_DESCRIPTIONS_LIST.split())
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# Only the beginning of names and descriptions is read.
_MAX_CHARS: Final = 200


def only_reads(tool: ParsedBlock) -> bool:
    """Whether a call of this tool can only read."""
    kind = str(tool.body.get("type") or "custom")
    if kind != "custom":
        # For these the twin makes inputs that read.
        return built_in_input(kind) is not None
    name = str(tool.body.get("name") or "")
    row = DEFAULT_TOOL_TABLE.find(name)
    if row is not UNKNOWN_ROW:
        return row.does in _READING_PURPOSES
    words = _words(name.rpartition("__")[2])
    sentence = str(tool.body.get("description") or "")[:_MAX_CHARS].partition(". ")[0]
    described = _words(sentence)
    if not (_ACTING_WORDS.isdisjoint(words) and _ACTING_DESCRIPTIONS.isdisjoint(described)):
        return False
    if words and words[0] in _READING_VERBS:
        return True
    return bool(described) and described[0] in _READING_VERBS and _ACTING_WORDS.isdisjoint(described)


def is_asked_for(tool: ParsedBlock, prompt: str) -> bool:
    """Whether the user asks for this tool by its name: "use the deploy tool", "call `deploy`"."""
    name = re.escape(str(tool.body.get("name") or ""))
    told = r"(?:^|[.!;,\n]\s{0,9}|\b(?:please|and|then)\s)(?:use|call|invoke)\s(?:the\s)?(?:tool\s)?"
    asked = rf"{told}[`'\"]?{name}\b"
    return bool(name) and re.search(asked, prompt[:4_000], re.IGNORECASE) is not None


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text[:_MAX_CHARS])]
