"""`everturn chat` with a twin that speaks a script: python stage.py SPEED SCRIPT [OPTIONS OF CHAT].

At once, each answer comes in one piece; slowly, it is streamed through the SDK with a wait before each event.
"""

import os
import sys
from pathlib import Path

from everturn.chat import begin
from everturn.chat.provider import Way
from everturn.cli import main
from everturn.twin.build import build, lines_from
from everturn.twin.faults import Fault, Faults
from everturn.twin.options import TwinOptions
from everturn.twin.upstream import through_twin


def way(script: Path, speed: str) -> Way:
    slow = [Fault("slow_stream", times=100, delay_s=0.2)] if speed == "slowly" else []
    options = TwinOptions(foreign_signatures="accept")
    twin = build(
        clock="real", options=options, lines=lines_from(script), faults=Faults(slow), seed=os.getpid()
    )
    if not slow:
        return Way(send=through_twin(twin))
    # Only here: the SDK takes longer to import than a test to run.
    import anthropic
    import httpx2

    from everturn.twin.transport import TwinTransport

    http = httpx2.Client(transport=TwinTransport(twin))
    return Way(client=anthropic.Anthropic(api_key="k", base_url="http://twin", http_client=http))


if __name__ == "__main__":
    speed, script, *options = sys.argv[1:]
    begin.way_to_model = lambda *_: way(Path(script), speed)
    main(["chat", *options])
