"""What stays in memory of conversations that are over: nothing, once the caches are full."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from everturn.adapters.tracking import list_memo, make_parts
from everturn.adapters.tracking.scopes import make_scope
from everturn.gateway import bodies, known_bodies
from everturn.gateway.app import make_gateway
from everturn.gateway.tenants import ClientRequest, RelayedReply, TenantConversations
from everturn.gateway.values import GatewaySettings, Mode
from everturn.session.upstream import RawResponse

IN_MEMORY = 4
LONG = "word " * 1000


def refuse(*_: object) -> RawResponse:
    raise AssertionError("nothing is summarized here")


def have_conversation(conversations: TenantConversations, mode: Mode, at: int) -> None:
    """A conversation of two turns under a session id of its own."""
    messages = [{"role": "user", "content": f"Conversation {at}. {LONG}"}]
    for turn in range(2):
        body = {"model": "claude-opus-5-5", "max_tokens": 99, "messages": messages}
        given = ClientRequest(json.dumps(body).encode(), "", (), make_scope(f"session {at}", ""))
        if mode == "observe":
            call = conversations.observe(given)
        else:
            call = conversations.prepare(given, refuse, lambda *_: None)
        content = [{"type": "text", "text": f"Answer {turn}."}]
        reply = {
            "id": f"msg_{at}_{turn}", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
            "content": content, "stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 9},
        }  # fmt: skip
        relayed = RelayedReply([json.dumps(reply).encode()], "application/json", "", "req_1", False)
        assert conversations.record(call, given, relayed) == ""  # type: ignore[arg-type]
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": "And?"}]


def count_held() -> tuple[int, int]:
    """Objects and descriptors of this process."""
    gc.collect()
    return len(gc.get_objects()), len(os.listdir("/proc/self/fd"))


def main(mode: Mode, folder: Path) -> None:
    """Print the growth in objects and descriptors from 20 conversations to 60."""
    list_memo.MAX_LISTS = IN_MEMORY  # type: ignore[misc]
    bodies._bodies = known_bodies.BodyMemo(max_bytes=8 * len(LONG))  # type: ignore[misc]
    parts = make_parts(None, config=None, folder=folder, **{"limits.conversations": IN_MEMORY})
    conversations = make_gateway(GatewaySettings(parts=parts, mode=mode)).tenants.find("local")
    for at in range(20):
        have_conversation(conversations, mode, at)
    objects, descriptors = count_held()
    for at in range(20, 60):
        have_conversation(conversations, mode, at)
    now = count_held()
    print(json.dumps([now[0] - objects, now[1] - descriptors]))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are counted in /proc")
@pytest.mark.parametrize("mode", ["observe", "manage"])
def test_a_gateway_whose_caches_are_full_keeps_nothing_of_further_conversations(mode: Mode, tmp_path: Path):
    # In a process of its own: the test run keeps objects too.
    done = subprocess.run([sys.executable, __file__, mode, tmp_path], stdout=subprocess.PIPE, check=True)
    objects, descriptors = json.loads(done.stdout)
    assert descriptors == 0
    # One object for each conversation would be 40.
    assert abs(objects) < 10


if __name__ == "__main__":
    main("manage" if sys.argv[1] == "manage" else "observe", Path(sys.argv[2]))
