from peers.keeping import Json, Stage
from peers.with_anthropic import KINDS, Clearing, Compaction

CLEARING = KINDS[0]


def stage(**more: object) -> Stage:
    return Stage(window=200_000, head="You are an agent.", writer=lambda request: "a summary", **more)  # type: ignore[arg-type]


def told(keeper: Clearing | Compaction, rounds: int, words: int) -> Clearing | Compaction:
    keeper.hear({"role": "user", "content": [{"type": "text", "text": "go"}]})
    for number in range(rounds):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {}}
        keeper.hear({"role": "assistant", "content": [call]})
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "word " * words}
        keeper.hear({"role": "user", "content": [result]})
    keeper.decide()
    return keeper


def results(body: Json) -> list[Json]:
    return [b for m in body["messages"] for b in m["content"] if b["type"] == "tool_result"]


def test_below_the_trigger_nothing_is_cleared() -> None:
    keeper = told(CLEARING.open(stage()), rounds=5, words=10)  # type: ignore[arg-type]
    assert all("word" in str(block["content"]) for block in results(keeper.body()))


def test_above_it_all_but_three_results_are() -> None:
    keeper = told(CLEARING.open(stage()), rounds=8, words=20_000)  # type: ignore[arg-type]
    shown = ["word" in str(block["content"]) for block in results(keeper.body())]
    assert shown == [False] * 5 + [True] * 3


def test_a_compaction_leaves_its_summary_and_remembers_what_it_was_asked_with() -> None:
    keeper = told(Compaction(stage(compact_at=1_000)), rounds=3, words=2_000)
    assert [m["content"][0]["text"] for m in keeper.body()["messages"]] == ["a summary"]
    assert len(results(keeper.asked)) == 3  # type: ignore[union-attr]
