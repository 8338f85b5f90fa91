"""The prompt cache: the examples of the facts, and a plainer second implementation beside it."""

import os
import random
from itertools import accumulate

import pytest
from measure.naive_cache import NaiveBlock, NaiveCache

from everturn.measure.prefix_cache import (
    SECONDS,
    Breakpoint,
    CacheEntry,
    CacheLookup,
    PrefixCache,
    PromptLayout,
    group_positions,
)

STEPS = 120_000 if os.environ.get("EVERTURN_PROFILE") == "soak" else 5_000
START = 1_000_000.0


def prompt(blocks: int, *markers: tuple[int, str], tokens: int = 100, **settings) -> PromptLayout:
    """Blocks of equal size named by their number; the key of a prefix is its length."""
    return PromptLayout(
        scope=settings.pop("scope", "w"),
        keys=settings.pop("keys", range(blocks)),
        ends=[tokens * (i + 1) for i in range(blocks)],
        positions=settings.pop("positions", range(blocks)),
        markers=[Breakpoint(index, ttl) for index, ttl in markers],
        total=tokens * blocks + 3,
        **settings,
    )


def ask(cache: PrefixCache, request: PromptLayout, now: float = START) -> CacheLookup:
    outcome = cache.look(request, now)
    cache.refresh(outcome)
    cache.write(outcome, now)
    return outcome


def parts(outcome: CacheLookup) -> tuple[int, int, int, int]:
    return outcome.read, outcome.write_1h, outcome.write_5m, outcome.plain


def test_a_growing_conversation_reads_what_the_turn_before_wrote():
    cache = PrefixCache()
    assert parts(ask(cache, prompt(3, (2, "5m")))) == (0, 0, 300, 3)
    assert parts(ask(cache, prompt(5, (4, "5m")))) == (300, 0, 200, 3)
    assert parts(ask(cache, prompt(6, (5, "5m")))) == (500, 0, 100, 3)


@pytest.mark.parametrize(("written_at", "found"), [(16, True), (15, False)])
def test_the_marker_is_the_first_of_twenty_positions(written_at: int, found: bool):
    """A write at 15 is missed by one from a marker at 35 (api-facts 1.3)."""
    cache = PrefixCache()
    ask(cache, prompt(written_at + 1, (written_at, "5m")))
    assert (ask(cache, prompt(36, (35, "5m"))).hit == written_at) is found


def test_a_run_of_tool_blocks_is_one_position_and_any_of_it_can_match():
    kinds = ["text", *["tool_use"] * 30, *["tool_result"] * 30, "text"]
    assert group_positions(kinds) == (0, *[1] * 30, *[2] * 30, 3)
    cache = PrefixCache()
    ask(cache, prompt(5, (4, "5m")))
    assert ask(cache, prompt(62, (61, "5m"), positions=group_positions(kinds))).hit == 4


def test_when_the_last_window_is_empty_the_search_goes_on_from_the_marker_before():
    cache = PrefixCache()
    ask(cache, prompt(4, (3, "5m")))
    assert parts(ask(cache, prompt(60, (3, "5m"), (59, "5m")))) == (400, 0, 5600, 3)


def test_mixed_ttls_are_billed_by_the_a_b_c_rule():
    cache = PrefixCache()
    ask(cache, prompt(2, (1, "5m")))
    outcome = ask(cache, prompt(8, (3, "1h"), (6, "5m")))
    assert parts(outcome) == (200, 200, 300, 103)
    assert outcome.written == (
        CacheEntry("w", 3, 3, 400, "1h", START + SECONDS["1h"]),
        CacheEntry("w", 6, 6, 700, "5m", START + SECONDS["5m"]),
    )


def test_a_marker_below_the_minimum_is_ignored():
    cache = PrefixCache()
    assert parts(ask(cache, prompt(3, (2, "5m"), minimum=301))) == (0, 0, 0, 303)
    assert parts(ask(cache, prompt(3, (2, "5m"), minimum=300))) == (0, 0, 300, 3)


def test_an_entry_lives_until_exactly_its_ttl_and_a_read_starts_it_again():
    cache = PrefixCache()
    request = prompt(3, (2, "5m"))
    ask(cache, request, START)
    assert ask(cache, request, START + 300).read == 300
    assert ask(cache, request, START + 600).read == 300
    assert ask(cache, request, START + 900.001).read == 0


def test_a_1h_marker_that_hits_a_5m_entry_leaves_it_5m():
    cache = PrefixCache()
    ask(cache, prompt(3, (2, "5m")))
    outcome = ask(cache, prompt(3, (2, "1h")), START + 10)
    assert outcome.refreshed == CacheEntry("w", 2, 2, 300, "5m", START + 310)
    assert outcome.written == ()
    assert ask(cache, prompt(3, (2, "1h")), START + 311).read == 0


def test_entries_missing_below_the_hit_are_written_again_for_free():
    cache = PrefixCache()
    ask(cache, prompt(4, (3, "5m")))
    outcome = ask(cache, prompt(4, (1, "5m"), (3, "5m")))
    assert parts(outcome) == (400, 0, 0, 3)
    assert outcome.written == (CacheEntry("w", 1, 1, 200, "5m", START + 300),)
    assert ask(cache, prompt(2, (1, "5m"))).read == 200


def test_requests_in_flight_both_write_because_neither_response_has_begun():
    cache = PrefixCache()
    request = prompt(3, (2, "5m"))
    first, second = cache.look(request, START), cache.look(request, START + 1)
    assert first.write_5m == second.write_5m == 300
    cache.write(first, START + 2)
    assert cache.look(request, START + 2).read == 300
    cache.write(second, START + 3)
    assert cache.entries(START + 3) == second.written


def test_scopes_share_nothing_and_a_lost_entry_is_gone():
    cache = PrefixCache()
    ask(cache, prompt(3, (2, "5m"), scope="a"))
    assert ask(cache, prompt(3, (2, "5m"), scope="b")).read == 0
    lost = cache.lose(lambda entry: entry.scope == "a")
    assert [entry.scope for entry in lost] == ["a"]
    assert cache.look(prompt(3, (2, "5m"), scope="a"), START).read == 0
    assert cache.look(prompt(3, (2, "5m"), scope="b"), START).read == 300


def test_looking_changes_nothing():
    cache = PrefixCache()
    request = prompt(3, (2, "5m"))
    assert cache.look(request, START) == cache.look(request, START)
    assert cache.entries(START) == ()


def test_expired_entries_are_swept_once_there_are_many():
    cache = PrefixCache()
    for number in range(5_000):
        ask(cache, prompt(1, (0, "5m"), keys=[number]), START + number)
    assert len(cache._entries) < 4_500


# ── beside the naive one ─────────────────────────────────────────────────────────────────────────


class Walk:
    """Random requests of a few conversations that grow, branch and are edited, with time passing."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.cache, self.naive = PrefixCache(), NaiveCache()
        self.now = START
        self.talks: list[list[NaiveBlock]] = [[], [], []]
        self.in_flight: list[tuple[CacheLookup, object]] = []

    def step(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        self.now += self.rng.choice([0, 0, 0, 1, 20, 299, 300, 301, 3600])
        if self.rng.random() < 0.02:
            scope = self.rng.choice("ab")
            self.cache.lose(lambda entry: entry.scope == scope)
            self.naive.lose(scope)
        blocks = self.grow(self.rng.choice(self.talks))
        return self.ask(self.rng.choice("aaab"), self.marked(blocks), self.rng.choice([0, 0, 400]))

    def grow(self, talk: list[NaiveBlock]) -> list[NaiveBlock]:
        if len(talk) > 90 or self.rng.random() < 0.03:
            del talk[self.rng.randrange(len(talk) + 1) :]
        kinds = ["text", "thinking", "tool_use", "tool_result"]
        for _ in range(self.rng.choice([0, 1, 2, 3, 9, 25])):
            kind = self.rng.choice(kinds)
            for _ in range(self.rng.choice([1, 1, 2, 12])):
                talk.append(NaiveBlock(self.rng.randrange(3), kind, self.rng.randrange(60)))
        return talk or [NaiveBlock(0, "text", 50)]

    def marked(self, blocks: list[NaiveBlock]) -> list[NaiveBlock]:
        chosen = sorted(self.rng.sample(range(len(blocks)), min(self.rng.randrange(5), len(blocks))))
        if chosen and self.rng.random() < 0.6:
            chosen[-1] = len(blocks) - 1
        hours = self.rng.randrange(len(chosen) + 1)
        ttls = {index: "1h" if place < hours else "5m" for place, index in enumerate(chosen)}
        return [NaiveBlock((b.content, b.kind), b.kind, b.tokens, ttls.get(i)) for i, b in enumerate(blocks)]

    def ask(self, scope: str, blocks: list[NaiveBlock], minimum: int):
        naive = self.naive.start(scope, blocks, 3, minimum, self.now)
        ends = list(accumulate(block.tokens for block in blocks))
        contents = [block.content for block in blocks]
        request = PromptLayout(
            scope=scope,
            keys=list(accumulate(contents, lambda key, content: hash((key, content)), initial=0))[1:],
            ends=ends,
            positions=group_positions([block.kind for block in blocks]),
            markers=[Breakpoint(i, block.marker) for i, block in enumerate(blocks) if block.marker],
            total=ends[-1] + 3,
            minimum=minimum,
        )
        outcome = self.cache.look(request, self.now)
        self.cache.refresh(outcome)
        self.in_flight.append((outcome, naive))
        while self.in_flight and self.rng.random() < 0.8:
            mine, theirs = self.in_flight.pop(self.rng.randrange(len(self.in_flight)))
            self.cache.write(mine, self.now)
            self.naive.begin(theirs)
        if self.rng.random() < 0.05:
            self.naive.entries = [e for e in self.naive.entries if e.dies_after >= self.now]
        return parts(outcome), (naive.read, naive.write_1h, naive.write_5m, naive.plain)


@pytest.mark.spec("TW-12")
def test_a_naive_cache_of_plain_lists_gives_the_same_usage_for_random_requests():
    seeds = 10
    hits = 0
    for seed in range(seeds):
        walk = Walk(seed)
        for step in range(STEPS // seeds):
            mine, theirs = walk.step()
            assert mine == theirs, f"seed {seed}, step {step}"
            hits += mine[0] > 0
    # Without hits the agreement would mean little.
    assert hits > STEPS / 5


@pytest.mark.parametrize(
    ("alive_at_ttl", "late", "read"), [(True, 0.0, 300), (False, 0.0, 0), (False, -0.5, 300)]
)
def test_whether_an_entry_lives_at_the_moment_of_its_ttl_can_be_chosen(alive_at_ttl, late, read):
    cache = PrefixCache()
    ask(cache, prompt(3, (2, "5m")))
    at = START + SECONDS["5m"] + late
    assert ask(cache, prompt(3, (2, "5m"), alive_at_ttl=alive_at_ttl), at).read == read


def test_of_two_entries_that_end_at_the_same_time_the_one_that_was_written_last_is_kept():
    cache = PrefixCache()
    hour = cache.look(prompt(2, (1, "1h")), START)
    minutes = cache.look(prompt(2, (1, "5m")), START + 3_300)
    for outcome in (hour, minutes):
        cache.write(outcome, START + 3_300)
    assert cache.entries(START + 3_300) == (CacheEntry("w", 1, 1, 200, "5m", START + 3_600),)


def test_an_entry_that_ends_earlier_does_not_replace_one_that_ends_later():
    cache = PrefixCache()
    hour, minutes = cache.look(prompt(2, (1, "1h")), START), cache.look(prompt(2, (1, "5m")), START)
    for outcome in (hour, minutes):
        cache.write(outcome, START)
    assert cache.entries(START) == hour.written
