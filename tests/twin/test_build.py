"""Building a twin under its old names still works, and says what the new names are."""

import msgspec
import pytest

from everturn.twin.build import build
from everturn.twin.speaker import script_reply
from everturn.twin.upstream import through_twin

REQUEST = {"model": "claude-opus-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.spec("TW-8")
def test_the_old_names_build_a_scripted_twin_and_warn_with_the_new_names():
    with pytest.warns(DeprecationWarning, match=r"build\(\) is now build_twin\(\), and lines= is script="):
        twin = build(lines=[script_reply("Hello.")])
    with pytest.warns(DeprecationWarning, match=r"through_twin\(\) is now make_twin_send\(\)"):
        send = through_twin(twin)
    reply = msgspec.json.decode(send(msgspec.json.encode(REQUEST), ()).body)
    assert reply["content"] == [{"type": "text", "text": "Hello."}]
