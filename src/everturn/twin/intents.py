"""Extract from a user prompt what the rule-based coding agent is asked to do, with patterns.

A change or a command counts only where the user tells the agent to do it: not in a question ("how do I
rename A to B?"), not after a negation, and not in a report. Every pattern is bounded, so that no message
takes long to parse. `coding_agent.py` acts on the intents.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from everturn.twin.request_text import find_paths

# Only the beginning of a longer message is parsed.
_MAX_PARSED_CHARS: Final = 4_000
MAX_WORDS: Final = 6

_QUOTED: Final = r"`([^`\n]{1,200})`|\"([^\"\n]{1,200})\"|(?<!\w)'([^'\n]{1,200})'(?!\w)"
_TERM: Final = rf"(?:{_QUOTED}|([^\s`\"']{{1,80}}))"
_REPLACE: Final = re.compile(
    r"\b(?:replace|change|rename|turn|swap)\s+"
    r"(?:(?:the|all|every|each|word|name|function|method|variable|class|string|text|constant|of)\s+){0,4}"
    rf"{_TERM}\s+(?:with|by|to|into|for)\s+{_TERM}",
    re.IGNORECASE,
)
_RUN_QUOTED: Final = re.compile(
    r"\b(?:run|execute|try)\s+(?:the command\s+)?`([^`\n]{1,400})`", re.IGNORECASE
)
_PROGRAMS: Final = (
    "ls|pwd|date|git|pytest|python3?|make|npm|cargo|go|cat|echo|wc|ruff|head|tail|uname|du|df|env"
    "|sleep|find|grep|tree|node|uv|mkdir|touch|cp|mv"
)
_RUN_PLAIN: Final = re.compile(
    rf"\b(?:run|execute)\s+((?:{_PROGRAMS})\b(?:(?!\s(?:and|then|in order)\b)[^\n;,]){{0,200}})",
    re.IGNORECASE,
)
_TESTS: Final = re.compile(
    r"\b(?:run|execute|check with|start)\s+(?:\w+\s+){0,4}(?:tests?|test suite|checks)\b", re.I
)
_MAKE: Final = re.compile(
    r"\b(?:create|make|write|add)\s+(?:(?:a|an|the|new|small|short|empty|file|called|named|script|module)\s+){0,6}"
    r"[`\"']?((?:[\w.-]{1,60}/){0,8}[\w.-]{1,60}\.\w{1,5})\b",
    re.IGNORECASE,
)
_ADD: Final = re.compile(
    r"\badd\s+(?:(?:a|an|the|this|new|line|comment|note|sentence|text|saying|that says)\s+){0,5}"
    rf"(?:{_QUOTED})\s+(?:to|in|at|into)\b",
    re.IGNORECASE,
)
_CONTENT: Final = re.compile(
    rf"\b(?:with|containing|saying|says|contains?|content)\b[^`\"'\n]{{0,40}}(?:{_QUOTED})", re.IGNORECASE
)
_FENCE: Final = re.compile(r"```[\w+-]{0,20}\n(.{0,3000}?)```", re.DOTALL)
_ALL: Final = re.compile(
    r"\b(?:all|every|each|whole|entire)\s+(?:\w+\s+){0,2}(?:files?|project|code\s?base|repo\w*|module\w*|folder)\b"
    r"|\bread everything\b",
    re.IGNORECASE,
)
_LIST: Final = re.compile(
    r"\b(?:list|show|print|which|what)\s+(?:\w+\s+){0,3}files\b"
    r"(?!\s+(?:use|contain|mention|import|call|have|with))",
    re.IGNORECASE,
)
_SENTENCE_END: Final = re.compile(r"[.!?;](?=\s|$)|\n")
# What may stand between the start of a sentence and an instruction; the end of it is what counts.
_LEADS_TO_INSTRUCTION: Final = re.compile(
    r"(?:^[\s\d.)*•-]{0,8}|[,:]\s{0,3}|\b(?:and|then|also|now|just|please|first|next|finally|let's|"
    r"can you|could you|would you|will you|you should|you can|you must|you to|ahead and)\s{1,3})$",
    re.IGNORECASE,
)
_IS_NO_INSTRUCTION: Final = re.compile(
    r"\b(?:not|never|without|avoid|instead|rather|no|if|unless|what|why|how|when|whether|who|where|which|did"
    r"|does|do i|do we|should i|should we|can i|can we|could i|could we|may i|would it|is it|was|were|explain"
    r"|describe|suppose|imagine|pretend|says?|said|wrote|told|asks?|asked|before you|until|don't|dont|cannot"
    r"|can't|won't|mustn't|shouldn't|didn't|doesn't|nobody|stop|refuse)\b",
    re.IGNORECASE,
)
_IS_POLITE: Final = re.compile(r"\b(?:can|could|would|will) you\b", re.IGNORECASE)
_PLAN: Final = re.compile(
    r"\b(?:todos?|to-do|plan|step by step|steps|list of tasks|checklist)\b", re.IGNORECASE
)
_DELEGATE: Final = re.compile(
    r"\b(?:sub-?agents?|(?:search|second|another) agent|delegate|(?:task|agent) tool)\b", re.I
)
_RECALL: Final = re.compile(
    r"\b(?:recall|remember|earlier|previously|at the beginning|did (?:i|we) say)\b", re.I
)
_CHANGE_VERBS: Final = re.compile(
    r"\b(?:fix|refactor|implement|improve|optimi[sz]e|delete|remove|rewrite|add|extend|clean up|change)\b",
    re.IGNORECASE,
)
_GREETING: Final = frozenset(
    ["hi", "hello", "hey", "good", "morning", "evening", "day", "there", "everturn", "twin"]
)
_THANKS: Final = frozenset(
    [
        "thanks",
        "thank",
        "you",
        "ok",
        "okay",
        "great",
        "nice",
        "bye",
        "very",
        "much",
        "a",
        "lot",
        "well",
        "done",
        "perfect",
        "good",
    ]
)
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,40}")
# Words for actions and function words; a search for them would match every file.
_FILLER: Final = """
    the and for with from into that this these those there then than them they are was were has have had
    does did what when where which who whose why how can could would should will please you your our its let
    make made need want look looking find found show tell explain describe read open search check see fix
    change edit update add remove delete create write run use used using work works working file files
    folder project code line lines test tests all any every each some one two first last next new old about
    over under also just only like more most not but out here now get give take put say says said word words
    name names named help thing things way todo todos plan step steps list task tasks agent subagent
    thoroughly investigate survey recall remember earlier mean means whole entire everything replace rename
    many much called command function variable class method come comes go goes happen happens again
"""
_FILLERS: Final = frozenset(_FILLER.split())


SmallTalk = Literal["", "greeting", "thanks"]


@dataclass(frozen=True, slots=True)
class Intents:
    """What a prompt asks for. `line` is to be added to a named file, `content` is for `new_file`."""

    paths: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    replacement: tuple[str, str] | None = None
    line: str = ""
    new_file: str = ""
    content: str = ""
    command: str = ""
    runs_tests: bool = False
    reads_all_files: bool = False
    lists_files: bool = False
    plans: bool = False
    delegates_search: bool = False
    recalls: bool = False
    # The prompt asks for a change that the rules cannot make.
    needs_unsupported_change: bool = False
    small_talk: SmallTalk = ""
    # The prompt is known from a summary only: parts of it may be done already.
    follows_summary: bool = False

    @property
    def changes(self) -> bool:
        return bool(self.replacement or self.line or self.new_file)

    @property
    def runs(self) -> bool:
        return bool(self.command or self.runs_tests)


def parse_intents(prompt: str) -> Intents:
    """The intents in a user prompt; empty ones for text without any."""
    text = prompt[:_MAX_PARSED_CHARS]
    plain = _FENCE.sub(" ", text)
    replacement, line = _find_replacement(plain), _first(_find_instruction(_ADD, plain))
    made = None if replacement or line else _find_instruction(_MAKE, plain)
    command = _find_command(plain)
    bare = _remove_names(plain)
    return Intents(
        paths=find_paths(plain),
        words=_find_words(plain, command),
        replacement=replacement,
        line=line,
        new_file=made[1] if made else "",
        content=_find_content(text, plain) if made else "",
        command=command,
        runs_tests=not command and _find_instruction(_TESTS, plain) is not None,
        reads_all_files=bool(_ALL.search(bare)),
        lists_files=bool(_LIST.search(bare)),
        plans=_is_asked_for(_PLAN, bare),
        delegates_search=_is_asked_for(_DELEGATE, bare),
        recalls=bool(_RECALL.search(bare)),
        needs_unsupported_change=not (replacement or line or made) and bool(_CHANGE_VERBS.search(bare)),
        small_talk=_find_small_talk(plain),
    )


def _find_small_talk(text: str) -> SmallTalk:
    words = {word.lower() for word in re.findall(r"\w+", text)}
    if not words or len(words) > 6:
        return ""
    return "greeting" if words <= _GREETING else "thanks" if words <= _THANKS else ""


def _first(found: re.Match[str] | None) -> str:
    return next((group for group in found.groups() if group), "") if found else ""


def _find_instruction(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The first match that the user tells the agent to do."""
    return next((found for found in pattern.finditer(text) if _is_instruction(text, found)), None)


def _is_instruction(text: str, found: re.Match[str]) -> bool:
    before = _sentence_before(text, found)
    return _LEADS_TO_INSTRUCTION.search(before) is not None and _is_request(text, found, before)


def _is_asked_for(pattern: re.Pattern[str], text: str) -> bool:
    """Whether the text asks for it in any place of a sentence, as in "keep a todo list while you work"."""
    matches = pattern.finditer(text)
    return any(_is_request(text, found, _sentence_before(text, found)) for found in matches)


def _is_request(text: str, found: re.Match[str], before: str) -> bool:
    """Neither in a question nor negated nor reported."""
    end = _SENTENCE_END.search(text, found.end())
    is_question = end is not None and end[0] == "?"
    if is_question and not _IS_POLITE.search(before):
        return False
    return not _IS_NO_INSTRUCTION.search(before)


def _sentence_before(text: str, found: re.Match[str]) -> str:
    ends = [end.end() for end in _SENTENCE_END.finditer(text, 0, found.start())]
    return text[ends[-1] if ends else 0 : found.start()]


def _remove_names(text: str) -> str:
    """Text without quotations and paths: they are search terms and names, and ask for nothing."""
    bare = re.sub(_QUOTED, " ", text)
    for path in find_paths(bare):
        bare = bare.replace(path, " ")
    return bare


def _find_replacement(text: str) -> tuple[str, str] | None:
    if not (found := _find_instruction(_REPLACE, text)):
        return None
    groups = found.groups()
    old = next(filter(None, groups[:4]), "").strip(".,;:")
    new = next(filter(None, groups[4:]), "").strip(".,;:")
    return (old, new) if old and new and old != new else None


def _find_command(text: str) -> str:
    quoted = _find_instruction(_RUN_QUOTED, text)
    plain = None if quoted else _find_instruction(_RUN_PLAIN, text)
    return quoted[1] if quoted else plain[1].strip(" .!?") if plain else ""


def _find_content(text: str, plain: str) -> str:
    if fence := _FENCE.search(text):
        return fence[1]
    return _first(_CONTENT.search(plain))


def _find_words(text: str, command: str) -> tuple[str, ...]:
    """What to search for: quoted text first, then identifiers, then the longest words."""
    quoted = [_first(found) for found in re.finditer(_QUOTED, text)]
    quoted = [each for each in quoted if each != command and not find_paths(each)]
    bare = _remove_names(text)
    if command:
        bare = bare.replace(command, " ")
    plain = dict.fromkeys(each for each in _WORD.findall(bare) if each.lower() not in _FILLERS)
    ranked = sorted(plain, key=lambda word: (not _is_identifier(word), -len(word)))
    return tuple(dict.fromkeys([*quoted, *ranked]))[:MAX_WORDS]


def _is_identifier(word: str) -> bool:
    return "_" in word or (word[1:] != word[1:].lower() and not word.isupper())
