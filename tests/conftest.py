"""Settings that every test shares."""

import gc
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from _typeshed import HasFileno

    from everturn.twin.testing import TwinForTests

pytest_plugins = ["surface_watch", "spec_table", "cache_net", "trials_told", "postgres_server", "fixed_ids"]

# The same examples in every run: a landing must not depend on chance. `make soak-tests` tries others.
settings.register_profile(
    "default",
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "soak", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("EVERTURN_PROFILE", "default"))

# What the suite itself reads; every other variable of ours is configuration.
OF_THE_SUITE = ("EVERTURN_PROFILE", "EVERTURN_WRITE_")


def pytest_configure() -> None:
    """What is imported and collected stays to the end: looking for garbage in it takes a quarter of the time
    of a collection, and a sixth of the time of the tests."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_sessionstart() -> None:
    """A job in the background of a shell, or under nohup, ignores these signals, and so do all processes that
    it starts: tests of Ctrl-C and of a closed terminal would wait in vain.
    """
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture(scope="session", autouse=True)
def _without_the_user_s_configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Neither the configuration file of whoever runs the tests nor their environment changes a result. A test
    that needs a variable sets it for itself."""
    # Not above: `surface_watch` must be there before the first of our modules is imported.
    from everturn.session.config.sources import KNOWN_VARIABLES

    names = {known.variable for known in KNOWN_VARIABLES}
    taken = [
        name
        for name in os.environ
        if name in names
        or name.startswith(("DISABLE_", "ANTHROPIC_"))
        or (name.startswith("EVERTURN_") and not name.startswith(OF_THE_SUITE))
    ]
    with pytest.MonkeyPatch.context() as patch:
        for name in taken:
            patch.delenv(name)
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("no-configuration")))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("no-cache")))
        yield


@pytest.fixture
def twin() -> Iterator["TwinForTests"]:
    """The fixture that everturn installs, for tests that script every reply (`scripted_twin.py`)."""
    from scripted_twin import scripted_options

    from everturn.twin.testing import TwinForTests

    made = TwinForTests(options=scripted_options())
    yield made
    made.close()


@pytest.fixture(scope="session", autouse=True)
def _without_delays_between_summary_requests() -> Iterator[None]:
    """Adapters send a failed summary request again after a delay; nobody waits for it here."""
    from everturn.adapters.tracking import summary_retries

    async def no_delay(_: float) -> None:
        pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary_retries, "sleep", lambda _: None)
        patch.setattr(summary_retries, "sleep_async", no_delay)
        yield


@pytest.fixture(scope="session", autouse=True)
def _without_waiting_for_the_disk() -> Iterator[None]:
    """`os.fsync` returns at once, in this process and those that it forks. It protects from a loss of power,
    which tests simulate on disks in memory; a kill loses nothing that was written. Tests of when it is called
    replace it themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", _check_that_it_is_open)
        yield


def _check_that_it_is_open(file: "int | HasFileno") -> None:
    os.fstat(file if isinstance(file, int) else file.fileno())
