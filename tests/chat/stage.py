"""`everturn chat` with a twin that speaks a script: python stage.py SCRIPT [OPTIONS OF CHAT]."""

import sys
from pathlib import Path

from everturn.chat import provider
from everturn.cli import main
from everturn.session.upstream import Send
from everturn.twin.build import build, lines_from
from everturn.twin.options import TwinOptions
from everturn.twin.upstream import through_twin


def scripted(file: Path) -> Send:
    options = TwinOptions(foreign_signatures="accept")
    return through_twin(build(clock="real", options=options, lines=lines_from(file)))


if __name__ == "__main__":
    script, *options = sys.argv[1:]
    provider._twin = lambda: scripted(Path(script))
    main(["chat", *options])
