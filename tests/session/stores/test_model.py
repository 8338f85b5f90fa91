"""Stores against a plain list, by random steps: whatever is opened, closed, copied and refused in between."""

import itertools
import tempfile
import uuid
from pathlib import Path

import builders as b
import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from everturn.errors import SessionLocked, StoreError
from everturn.session.store.factory import CounterStep
from everturn.session.store.places import open_stores
from everturn.session.store.protocol import SharedStore

NAMES = st.sampled_from(["one", "two", "three"])
# The state machine has many steps, and each costs a round trip.
EXAMPLES = settings().max_examples // 10
STEPS = 25


class StoreMachine(RuleBasedStateMachine):
    """`kept` is what each conversation holds; `open` has the stores that may write."""

    url = ""
    closes = False

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="everturn-model-")
        self.tenant = f"t{uuid.uuid4().hex}"
        self.stores = self._factory()
        self.numbers = itertools.count()
        self.kept: dict[str, list[str]] = {}
        self.replies: dict[str, str] = {}
        self.counter = 0
        self.open = {}
        self.resting = {}

    def _factory(self):
        url = self.url.replace("FOLDER", self.folder.name)
        return open_stores(url, folder=Path(self.folder.name) / "local", fsync="never")

    @rule(name=NAMES)
    def take(self, name: str) -> None:
        if name in self.open:
            with pytest.raises(SessionLocked):
                self.stores.open(self.tenant, name)
            return
        store = self.stores.open(self.tenant, name)
        assert [record.uuid for record in store.records] == self.kept.get(name, [])
        assert store.notes == ()
        self.open[name] = store

    @rule(name=NAMES, count=st.integers(1, 4), reply=st.booleans())
    def append(self, name: str, count: int, reply: bool) -> None:
        if name not in self.open:
            return
        ids = [f"r{next(self.numbers)}" for _ in range(count)]
        records = [b.user(f"said {each}", uuid=each) for each in ids[:-1]]
        records.append(
            b.assistant("so", uuid=ids[-1], id=f"m{ids[-1]}") if reply else b.user("x", uuid=ids[-1])
        )
        self.open[name].append(records)
        self.kept.setdefault(name, []).extend(ids)
        if reply:
            self.replies[f"m{ids[-1]}"] = name

    @rule(name=NAMES)
    def leave(self, name: str) -> None:
        if name in self.open:
            self.open.pop(name).close()

    @rule(name=NAMES)
    def reopen(self, name: str) -> None:
        if name in self.open:
            self.open[name] = self.open[name].reopen()
            assert [record.uuid for record in self.open[name].records] == self.kept.get(name, [])

    @rule(name=NAMES)
    def rest(self, name: str) -> None:
        if isinstance(self.open.get(name), SharedStore) and name not in self.resting:
            store = self.open.pop(name)
            store.release()
            self.resting[name] = store, len(self.kept.get(name, []))

    @rule(name=NAMES)
    def resume(self, name: str) -> None:
        if name not in self.resting:
            return
        store, lines = self.resting[name]
        if name in self.open:
            # Somebody else writes it; once they have, the one who rested is told that it is behind.
            if lines == len(self.kept.get(name, [])):
                with pytest.raises(SessionLocked):
                    store.resume()
            return
        del self.resting[name]
        if lines == len(self.kept.get(name, [])):
            assert store.resume()
            self.open[name] = store
        else:
            assert not store.resume()
            store.close()

    @rule(name=NAMES)
    def behind(self, name: str) -> None:
        """Whoever has given up the lease cannot write."""
        if name in self.resting and name in self.open:
            with pytest.raises(StoreError):
                self.resting.pop(name)[0].append([b.user("late", uuid=f"late{next(self.numbers)}")])

    @rule(amount=st.integers(1, 5))
    def count(self, amount: int) -> None:
        refused = self.stores.count(self.tenant, [CounterStep("calls", amount, 12)])
        assert refused == ("calls" if self.counter + amount > 12 else "")
        self.counter += 0 if refused else amount

    @rule()
    def restart(self) -> None:
        """Another process continues. Nothing in memory survives that."""
        if not self.closes:
            return
        self.stores.close()
        self.open.clear()
        self.resting.clear()
        self.stores = self._factory()

    @invariant()
    def holds_what_was_acknowledged(self) -> None:
        for reply, name in itertools.islice(reversed(self.replies.items()), 1):
            assert self.stores.find_by_message(self.tenant, reply) == name
        assert self.stores.read_counters(self.tenant, ["calls"]) == {"calls": self.counter}

    def teardown(self) -> None:
        listed = {each.name for each in self.stores.conversations(self.tenant)}
        assert listed == {name for name, ids in self.kept.items() if ids}
        for name, ids in self.kept.items():
            reader = self.stores.open(self.tenant, name, access="read")
            assert [record.uuid for record in reader.records] == ids
            assert all(msgspec.json.decode(record.raw)["uuid"] == record.uuid for record in reader.records)
        self.stores.close()
        self.folder.cleanup()


def test_a_store_says_what_a_list_says(kind, request):
    urls = {"memory": "memory:", "folder": "FOLDER/kept", "sqlite": "sqlite:FOLDER/kept/s.sqlite"}
    url = urls.get(kind) or request.getfixturevalue("postgres_url")
    machine = type("Machine", (StoreMachine,), {"url": url, "closes": kind != "memory"})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None)
    )
