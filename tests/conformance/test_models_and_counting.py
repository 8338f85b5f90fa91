"""The models endpoint, and the counts of count_tokens."""

import pytest
from conformance.api import Api, Json, assistant, call, result, text, tool, user

pytestmark = pytest.mark.spec("TW-1")
TABLE = {  # context, output
    "claude-fable-5-2": (1_000_000, 128_000),
    "claude-opus-5-5": (1_000_000, 128_000),
    "claude-opus-4-6": (1_000_000, 128_000),
    "claude-sonnet-5": (1_000_000, 128_000),
    "claude-haiku-5-5": (1_000_000, 128_000),
    "claude-haiku-4-5": (200_000, 64_000),
    "claude-haiku-4-5-20251001": (200_000, 64_000),
    "claude-sonnet-4-5": (200_000, 64_000),
}


def listed(api: Api, query: str = "") -> Json:
    answer = api.send("GET", f"/v1/models{query}")
    assert answer.status == 200, answer.data
    return answer.json


def test_the_list_has_the_shape_of_a_page(api: Api):
    page = listed(api)
    ids = [m["id"] for m in page["data"]]
    assert (page["has_more"], page["first_id"], page["last_id"]) == (False, ids[0], ids[-1])
    assert len(set(ids)) == len(ids) >= 15
    assert {"id", "type", "display_name", "created_at"} <= set(page["data"][0])
    assert {m["type"] for m in page["data"]} == {"model"}


def test_the_newest_come_first(api: Api):
    dates = [m["created_at"] for m in listed(api)["data"]]
    assert dates == sorted(dates, reverse=True)


def test_pages_go_forward(api: Api):
    ids = [m["id"] for m in listed(api)["data"]]
    seen: list[str] = []
    query = "?limit=4"
    while True:
        page = listed(api, query)
        seen += [m["id"] for m in page["data"]]
        if not page["has_more"]:
            break
        query = f"?limit=4&after_id={page['last_id']}"
    assert seen == ids


def test_pages_go_backward(api: Api):
    ids = [m["id"] for m in listed(api)["data"]]
    page = listed(api, f"?limit=3&before_id={ids[6]}")
    assert [m["id"] for m in page["data"]] == ids[3:6]
    assert page["has_more"] is True


def test_the_end_of_the_list_is_an_empty_page(api: Api):
    last = listed(api)["last_id"]
    assert listed(api, f"?after_id={last}") == {
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }


@pytest.mark.parametrize("query", ["?limit=0", "?limit=1001", "?limit=many", "?after_id=nope"])
def test_a_wrong_page_is_refused(api: Api, query: str):
    answer = api.send("GET", f"/v1/models{query}")
    assert answer.status in {400, 404}
    assert answer.json["type"] == "error"


@pytest.mark.parametrize(("model", "sizes"), TABLE.items())
def test_a_model_tells_its_sizes(api: Api, model: str, sizes: tuple[int, int]):
    it = api.send("GET", f"/v1/models/{model}").json
    assert (it["max_input_tokens"], it["max_tokens"]) == sizes
    assert it["capabilities"]["context_management"]["supported"] is True


def test_an_unknown_model_is_not_found(api: Api):
    answer = api.send("GET", "/v1/models/claude-nope")
    assert answer.said == (404, "not_found_error", "model: claude-nope")


def test_every_listed_model_answers(api: Api):
    for model in listed(api)["data"]:
        assert api.ask("hi", model=model["id"]).status == 200, model["id"]


# Counting


@pytest.mark.spec("TW-11")
def test_counts_are_the_same_each_time_and_equal_the_bill(api: Api):
    request = [user("some words"), assistant("yes"), user("more")]
    counts = {api.count(*request) for _ in range(3)}
    assert counts == {api.usage(*request)["input_tokens"]}


@pytest.mark.spec("TW-11")
def test_newer_models_count_more_for_the_same_text(api: Api):
    words = "The quick brown fox jumps over the lazy dog. " * 100
    old, new = api.count(words, model="claude-sonnet-4-6"), api.count(words, model="claude-opus-5")
    assert 1.2 < new / old < 1.5


@pytest.mark.parametrize(
    ("model", "auto", "forced"),
    [
        ("claude-opus-5", 286, 406),
        ("claude-opus-4-8", 290, 410),
        ("claude-opus-4-7", 675, 804),
        ("claude-opus-4-6", 497, 589),
        ("claude-sonnet-4-6", 497, 589),
        ("claude-haiku-4-5", 496, 588),
        ("claude-sonnet-5", 354, 474),
    ],
)
def test_tools_bring_a_hidden_prompt(api: Api, model: str, auto: int, forced: int):
    fields = {"model": model, "tools": [tool()]}
    plain = api.count("hi", model=model)
    chosen = api.count("hi", **fields)
    assert chosen - plain > auto
    assert api.count("hi", **fields, tool_choice={"type": "none"}) == chosen
    for choice in ({"type": "any"}, {"type": "tool", "name": "look"}):
        assert api.count("hi", **fields, tool_choice=choice) - chosen == forced - auto
    two = api.count("hi", model=model, tools=[tool(), tool("kool")])
    assert two - chosen == chosen - plain - auto


@pytest.mark.parametrize(
    ("model", "built_in", "tokens"),
    [
        ("claude-opus-5", {"type": "bash_20250124", "name": "bash"}, 325),
        ("claude-sonnet-4-6", {"type": "bash_20250124", "name": "bash"}, 244),
        ("claude-opus-5", {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}, 700),
    ],
)
def test_built_in_tools_have_their_size(api: Api, model: str, built_in: Json, tokens: int):
    one = api.count("hi", model=model, tools=[tool()])
    assert api.count("hi", model=model, tools=[tool(), built_in]) - one == tokens


def test_everything_that_is_sent_counts(api: Api):
    base = api.count("hi")
    assert api.count("hi", system="Be brief.") > base
    assert api.count("hi", tools=[tool()]) > base
    assert api.count("hi", assistant("yes"), user("no")) > base
    turns = [user("hi"), assistant(call("t1", path="p" * 400)), user(result("t1", [text("r" * 400)]))]
    assert api.count(*turns, tools=[tool()]) > api.count("hi", tools=[tool()]) + 200


def png(width: int, height: int) -> Json:
    import base64
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    rows = zlib.compress(b"\0" * (width + 1) * height)
    data = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


@pytest.mark.parametrize(
    ("model", "size", "tokens"),
    [
        ("claude-opus-5", (1000, 1000), 1296),
        ("claude-opus-5", (1920, 1080), 2691),
        ("claude-opus-5", (3840, 2160), 4784),
        ("claude-sonnet-4-6", (1000, 1000), 1296),
        ("claude-sonnet-4-6", (1920, 1080), 1560),
    ],
)
def test_images_count_by_patches(api: Api, model: str, size: tuple[int, int], tokens: int):
    words = api.count("hi", model=model)
    assert api.count(user("hi", png(*size)), model=model) - words == pytest.approx(tokens, abs=2)


def test_count_tokens_takes_no_max_tokens(api: Api):
    assert api.counted("hi", max_tokens=5).said == (
        400,
        "invalid_request_error",
        "max_tokens: Extra inputs are not permitted",
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"thinking": {"type": "adaptive"}},
        {"tool_choice": {"type": "auto"}, "tools": [tool()]},
        {"output_config": {"effort": "low"}},
        {"cache_control": {"type": "ephemeral"}},
        {"speed": "fast", "betas": "fast-mode-2026-02-01"},
    ],
    ids=lambda f: next(iter(f)),
)
def test_count_tokens_takes_what_messages_take(api: Api, fields: Json):
    assert api.counted("hi", **fields).status == 200
