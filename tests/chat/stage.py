"""`everturn chat` with a twin that speaks a script: python stage.py SPEED SCRIPT [OPTIONS OF CHAT].

At once, each answer comes in one piece; slowly, it is streamed through the SDK with a wait before each event.
"""

import os
import sys
from pathlib import Path

from everturn.chat import start as begin
from everturn.chat.model_connection import ModelConnection
from everturn.cli import main
from everturn.twin.build import build_twin, load_script
from everturn.twin.faults import FaultInjector, InjectedFault
from everturn.twin.options import TwinOptions
from everturn.twin.upstream import make_twin_send


def connection(script: Path, speed: str) -> ModelConnection:
    slow = [InjectedFault("slow_stream", times=100, delay_s=0.2)] if speed == "slowly" else []
    options = TwinOptions(foreign_signatures="accept")
    twin = build_twin(
        clock="real",
        options=options,
        script=load_script(script),
        faults=FaultInjector(slow),
        seed=os.getpid(),
    )
    if not slow:
        return ModelConnection(send=make_twin_send(twin), is_practice=True)
    # Only here: the SDK takes longer to import than a test to run.
    import anthropic
    import httpx2

    from everturn.twin.transport import TwinTransport

    http = httpx2.Client(transport=TwinTransport(twin))
    return ModelConnection(client=anthropic.Anthropic(api_key="k", base_url="http://twin", http_client=http))


if __name__ == "__main__":
    speed, script, *options = sys.argv[1:]
    begin.connect_to_model = lambda *_: connection(Path(script), speed)
    main(["chat", *options])
