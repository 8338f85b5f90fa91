"""The command that draws refetches for judging by hand."""

import pytest
from replay.scripts import text
from small_session import SmallSession, call
from small_session import text as say

from everturn.replay.refetches import sample

NEEDED = "total = price_of_everything * count_of_everything"


@pytest.fixture
def folder(tmp_path):
    """A result, then twelve others, then an edit of what the first one showed."""
    made = SmallSession().human("Fix the price.")
    made.reply("m0", call("c0", "Read", file_path="src/shop.py"), plain=20_000).result("c0", f"1\t{NEEDED}")
    for at in range(1, 13):
        made.reply(f"m{at}", call(f"c{at}", "Read", file_path=f"src/file_{at}.py"), plain=20_000 + at * 100)
        made.result(f"c{at}", text(80, f"word{at}"))
    edit = call("c13", "Edit", file_path="src/shop.py", old_string=NEEDED, new_string="total = 0")
    made.reply("m13", edit, plain=21_400).result("c13", "done").reply("m14", say("Done."), plain=21_500)
    (tmp_path / "shop.jsonl").write_bytes(made.to_bytes())
    return tmp_path


def rows(capsys):
    cells = (line.split(" | ") for line in capsys.readouterr().out.splitlines() if "shop" in line)
    return [(policy, used, kind, what) for _, policy, used, kind, what, *_ in cells]


@pytest.mark.spec("RP-14")
def test_refetches_are_drawn_from_the_policies_that_are_asked_for(folder, capsys):
    sample.main([str(folder)])
    assert rows(capsys) == []
    sample.main([str(folder), "--policy", "none,masking"])
    assert rows(capsys) == [("masking", "shop 14", "partial", NEEDED)]
