"""Sessions that an earlier version has written: opened as they were left, and gone on with.

`versions/` has small ones of every version, made by that version itself, with the view that it had of each
(`views.json`). They are continued like any other conversation (`trials.py`), under the same judges; those of
the middleware by a middleware.
"""

import json
import random
import shutil
from collections import Counter
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from reliability.scratch import in_memory
from reliability.transcripts import Written
from reliability.trials import OtherView, Trial

import everturn
from everturn.session.state_file import SessionState
from everturn.session.store.jsonl_store import FILES_SUFFIX
from everturn.session.transcripts import STATE_SUFFIX
from everturn.twin.testing import TwinForTests
from everturn.wire.claude_code_reader import parse_session_file

VERSIONS = Path(__file__).parent / "versions"
# Where the sessions say that they were.
HOME = "/home/someone/work"
# A middleware is slower than all the rest.
MIDDLEWARE_EVERY = 10


@cache
def views(version: str) -> dict[str, list[str]]:
    """The view of each session, by its name, as that version had it."""
    return json.loads((VERSIONS / version / "views.json").read_text())


@cache
def sessions() -> tuple[tuple[str, str], ...]:
    names = sorted(path.name for path in VERSIONS.iterdir())
    return tuple((version, name) for version in names for name in sorted(views(version)))


class Upgraded(Trial):
    """One session of an earlier version, gone on with by this one."""

    def __init__(self, seed: int) -> None:
        self.version, self.name = random.Random(f"upgrade {seed}").choice(sessions())
        super().__init__(seed)
        results = VERSIONS / self.version / f"{self.name}.jsonl{FILES_SUFFIX}"
        self.provider.files |= {
            f"{HOME}/{results.name}/{each.name}": each.read_text() for each in results.glob("*.txt")
        }
        shown = [record.uuid for record in self.runner.conversation.log.view.records]
        if shown != views(self.version)[self.name]:
            raise OtherView(f"{self.version} had another view of {self.name}: now {shown}")

    def _first(self, seed: int) -> Written:
        data = (VERSIONS / self.version / f"{self.name}.jsonl").read_bytes()
        blocks = (block for record in parse_session_file(data).records for block in record.blocks)
        return Written([data], {block.raw for block in blocks})


def upgraded(seed: int) -> Counter[str]:
    if seed % MIDDLEWARE_EVERY == 0:
        return by_middleware(seed)
    trial = Upgraded(seed)
    state = (VERSIONS / trial.version / f"{trial.name}.jsonl{STATE_SUFFIX}").read_bytes()
    if not msgspec.json.decode(state, type=SessionState).baselines:
        raise OtherView(f"the state of {trial.name} from {trial.version} says nothing any more")
    return trial.run() + Counter({trial.name: 1})


def by_middleware(seed: int) -> Counter[str]:
    """The next call of a program that was restarted with a newer version continues its transcript."""
    version = random.Random(f"upgrade {seed}").choice(sorted(path.name for path in VERSIONS.iterdir()))
    messages: list[dict[str, Any]] = json.loads((VERSIONS / version / "middleware-messages.json").read_text())
    with TemporaryDirectory(prefix="everturn-upgrade-", dir=in_memory()) as place:
        folder = Path(place, "transcripts")
        shutil.copytree(VERSIONS / version / "middleware", folder)
        (path,) = folder.glob("*.jsonl")
        before = path.read_bytes()
        said = f"Question {seed} to the next version."
        with closing(everturn.middleware(folder=folder, config=None)) as middleware:
            box = TwinForTests()
            box.script("Here.")
            box.client(middleware=[middleware]).messages.create(
                model="claude-haiku-4-5",
                max_tokens=500,
                system="Be brief.",
                messages=[*messages, {"role": "user", "content": said}],  # type: ignore[arg-type]
            )
        after = path.read_bytes()
        found = [each.name for each in folder.glob("*.jsonl")]
        if found != [path.name] or not after.startswith(before) or said.encode() not in after[len(before) :]:
            raise OtherView(f"the transcript of {version} was not continued: {found}")
    return Counter({"requests": 1, "middleware": 1})
