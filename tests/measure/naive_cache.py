"""The prompt cache once more, as plainly as it can be said: lists, whole prefixes, no keys, no cleverness.

Written from the facts (api-facts 1.3), not from `prefix_cache.py`; the two must agree on every request.
"""

from dataclasses import dataclass, field

LIFE = {"5m": 300, "1h": 3600}


@dataclass
class NaiveBlock:
    content: object
    kind: str
    tokens: int
    marker: str | None = None


@dataclass
class NaiveEntry:
    scope: object
    prefix: list
    ttl: str
    dies_after: float


@dataclass
class NaiveAnswer:
    read: int
    write_1h: int
    write_5m: int
    plain: int
    to_write: list = field(default_factory=list)


class NaiveCache:
    def __init__(self):
        self.entries = []

    def start(self, scope, blocks, trailing, minimum, now):
        """A request arrives: what it is billed, and what it will write once its response begins."""
        prefixes = prefixes_of(blocks)
        tokens = [sum(block.tokens for block in blocks[: i + 1]) for i in range(len(blocks))]
        marked = [i for i, block in enumerate(blocks) if block.marker and tokens[i] >= minimum]

        hit = None
        for marker in reversed(marked):
            for candidate in walk_back(blocks, marker):
                if self.find(scope, prefixes[candidate], now):
                    hit = candidate
                    break
            if hit is not None:
                break

        if hit is not None:
            entry = self.find(scope, prefixes[hit], now)
            entry.dies_after = max(entry.dies_after, now + LIFE[entry.ttl])

        read = tokens[hit] if hit is not None else 0
        end_1h = read
        end = read
        for i in marked:
            if tokens[i] > read and blocks[i].marker == "1h":
                end_1h = tokens[i]
            if tokens[i] > read:
                end = tokens[i]
        total = sum(block.tokens for block in blocks) + trailing
        answer = NaiveAnswer(read, end_1h - read, max(0, end - end_1h), total - max(read, end))
        for i in marked:
            if not self.find(scope, prefixes[i], now):
                answer.to_write.append(
                    NaiveEntry(scope, prefixes[i], blocks[i].marker, now + LIFE[blocks[i].marker])
                )
        return answer

    def begin(self, answer):
        """The response begins: the entries can be read. A longer-lived one is never replaced by a shorter."""
        for new in answer.to_write:
            for old in list(self.entries):
                if old.scope == new.scope and old.prefix == new.prefix:
                    if old.dies_after > new.dies_after:
                        break
                    self.entries.remove(old)
            else:
                self.entries.append(new)

    def lose(self, scope):
        self.entries = [entry for entry in self.entries if entry.scope != scope]

    def find(self, scope, prefix, now):
        for entry in self.entries:
            if entry.scope == scope and entry.prefix == prefix and now <= entry.dies_after:
                return entry
        return None


def prefixes_of(blocks):
    return [[block.content for block in blocks[: i + 1]] for i in range(len(blocks))]


def walk_back(blocks, marker):
    """Twenty positions from the marker; neighbours of one kind of tool block are one position."""
    seen = 1
    yield marker
    for i in range(marker - 1, -1, -1):
        same_run = blocks[i].kind == blocks[i + 1].kind and blocks[i].kind in ("tool_use", "tool_result")
        if not same_run:
            seen += 1
        if seen > 20:
            return
        yield i
