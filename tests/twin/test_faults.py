from datetime import UTC, datetime

import pytest

from everturn.measure.model_table import find_model
from everturn.twin.faults import FAULT_KINDS, FAULT_VENDORS, SUMMARY_FAULT_KINDS, FaultInjector, InjectedFault
from everturn.twin.values import HttpResponse

OPUS = find_model("claude-opus-5-5")
NOW = datetime(2026, 11, 15, tzinfo=UTC)
STREAM = [(0.0, f"event {n}".encode()) for n in range(6)]


def streamed():
    return HttpResponse(200, {}, stream=iter(STREAM))


def sent(answer):
    return list(answer.stream)


@pytest.mark.spec("TW-10")
@pytest.mark.parametrize(
    ("fault", "status", "kind", "message", "headers"),
    [
        (InjectedFault("overloaded"), 529, "overloaded_error", "Overloaded", {}),
        (InjectedFault("server_error"), 500, "api_error", "Internal server error", {}),
        (
            InjectedFault("request_too_large"),
            413,
            "request_too_large",
            "Request exceeds the maximum size",
            {},
        ),
        (InjectedFault("timeout"), 504, "timeout_error", "The request timed out.", {}),
        (
            InjectedFault("rate_limit", message="Slow down"),
            429,
            "rate_limit_error",
            "Slow down",
            {"retry-after": "1"},
        ),
        (InjectedFault("rate_limit", message="x", retry_after=None), 429, "rate_limit_error", "x", {}),
        (
            InjectedFault("rate_limit", message="x", retry_after=0.5),
            429,
            "rate_limit_error",
            "x",
            {"retry-after": "0.5"},
        ),
        (
            InjectedFault("rate_limit", message="x", headers={"anthropic-ratelimit-tokens-remaining": "7"}),
            429,
            "rate_limit_error",
            "x",
            {"retry-after": "1", "anthropic-ratelimit-tokens-remaining": "7"},
        ),
    ],
)
def test_an_error_fault_has_the_wording_of_the_api(fault, status, kind, message, headers):
    refusal = fault.to_error(OPUS, at=NOW)
    assert (refusal.status, refusal.kind, refusal.message) == (status, kind, message)
    assert {name: value for name, value in refusal.headers.items() if name in headers} == headers
    assert any(name.startswith("anthropic-ratelimit-") for name in refusal.headers) == bool(headers)


@pytest.mark.spec("TW-10")
@pytest.mark.parametrize(
    ("vendor", "message"),
    [
        ("anthropic", "prompt is too long: 1000123 tokens > 1000000 maximum"),
        ("bedrock", "Input is too long for requested model."),
        (
            "bedrock_new",
            "The model returned the following errors: prompt is too long: 1000123 tokens > 1000000 maximum",
        ),
        ("vertex", "Prompt is too long"),
        (
            "openai",
            "This model's maximum context length is 1000000 tokens. However, your messages resulted in "
            "1000123 tokens. Please reduce the length of the messages.",
        ),
        (
            "openai_responses",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
        ),
        ("gemini", "The input token count (1000123) exceeds the maximum number of tokens allowed (1000000)."),
    ],
)
def test_a_prompt_that_is_too_long_has_the_wording_of_each_vendor(vendor, message):
    refusal = InjectedFault("prompt_too_long", vendor=vendor).to_error(OPUS, at=NOW)
    assert (refusal.status, refusal.kind, refusal.message) == (400, "invalid_request_error", message)


def test_a_prompt_too_long_can_name_its_numbers():
    refusal = InjectedFault("prompt_too_long", tokens=220_000, limit=200_000).to_error(OPUS, at=NOW)
    assert refusal.message == "prompt is too long: 220000 tokens > 200000 maximum"


def test_every_vendor_and_every_kind_is_covered_by_a_behaviour():
    wordings = {
        InjectedFault("prompt_too_long", vendor=v).to_error(OPUS, at=NOW).message for v in FAULT_VENDORS
    }
    assert len(wordings) == len(FAULT_VENDORS)
    for kind in set(FAULT_KINDS) - SUMMARY_FAULT_KINDS:
        fault = InjectedFault(kind)
        plain, answer = HttpResponse(200, {}, b"0123456789"), streamed()
        acts = (
            fault.to_error(OPUS, at=NOW)
            or fault.drops_cache
            or fault.alter_response(plain) != plain
            or fault.alter_response(answer) != answer
        )
        assert acts, kind


@pytest.mark.spec("TW-10")
def test_a_cut_stream_ends_without_its_last_events_and_hangs_up():
    cut = InjectedFault("cut_stream", after_events=2).alter_response(streamed())
    assert (sent(cut), cut.hangs_up) == (STREAM[:2], True)


def test_a_cut_never_lets_the_last_event_through():
    assert sent(InjectedFault("cut_stream", after_events=100).alter_response(streamed())) == STREAM[:-1]


def test_a_plain_response_that_is_cut_is_half_a_body():
    cut = InjectedFault("cut_stream").alter_response(HttpResponse(200, {}, b"0123456789"))
    assert (cut.body, cut.hangs_up) == (b"01234", True)


@pytest.mark.spec("TW-10")
def test_a_stream_error_replaces_the_rest_of_the_stream():
    bent = InjectedFault("stream_error", after_events=1).alter_response(streamed())
    error = (
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    )
    assert (bent.status, sent(bent), bent.hangs_up) == (200, [STREAM[0], (0.0, error)], False)


@pytest.mark.spec("TW-10")
def test_a_slow_response_has_a_delay_before_it_or_before_its_events():
    assert (
        InjectedFault("slow_first_byte", delay_s=30).alter_response(HttpResponse(200, {}, b"x")).delay == 30
    )
    slow = InjectedFault("slow_stream", delay_s=2).alter_response(streamed())
    assert sent(slow) == [(2.0, part) for _, part in STREAM]


def test_a_timeout_can_hang_up_instead_of_answering():
    answer = InjectedFault("timeout", hangs_up=True, delay_s=9).alter_response(
        HttpResponse(504, {}, b"error")
    )
    assert answer == HttpResponse(504, {}, b"", delay=9, hangs_up=True)


def test_garbage_is_neither_json_nor_an_event():
    assert InjectedFault("garbage").alter_response(HttpResponse(200, {}, b"{}")).body.startswith(b"<html>")
    assert sent(InjectedFault("garbage", after_events=0).alter_response(streamed()))[-1][1].count(b"}") == 0


@pytest.mark.spec("TW-10")
def test_faults_are_injected_in_order_and_as_often_as_they_say():
    faults = FaultInjector([InjectedFault("overloaded", times=2), InjectedFault("rate_limit")])
    taken = [faults.take("messages", "k", False) for _ in range(4)]
    assert [fault and fault.kind for fault in taken] == ["overloaded", "overloaded", "rate_limit", None]


def test_a_fault_can_wait_for_later_requests():
    faults = FaultInjector([InjectedFault("overloaded", after=2)])
    assert [bool(faults.take("messages", "k", False)) for _ in range(4)] == [False, False, True, False]


@pytest.mark.spec("TW-10")
def test_count_tokens_and_compactions_are_affected_only_by_faults_that_name_them():
    faults = FaultInjector(
        [
            InjectedFault("overloaded"),
            InjectedFault("rate_limit", endpoint="count_tokens"),
            InjectedFault("server_error", endpoint="compaction"),
        ]
    )
    assert faults.take("count_tokens", "k", False).kind == "rate_limit"
    assert faults.take("count_tokens", "k", False) is None
    assert faults.take("messages", "k", True).kind == "server_error"
    assert faults.take("messages", "k", True) is None
    assert faults.take("messages", "k", False).kind == "overloaded"


def test_a_fault_applies_only_to_its_workspace():
    faults = FaultInjector()
    faults.add([InjectedFault("overloaded")], workspace="mine")
    assert faults.take("messages", "yours", False) is None
    assert faults.take("messages", "mine", False).kind == "overloaded"


def test_summary_faults_affect_only_summaries():
    faults = FaultInjector([InjectedFault("empty_summary")])
    assert faults.take("messages", "k", True) is None
    assert faults.take_summary_fault("k").kind == "empty_summary"
    assert faults.take_summary_fault("k") is None


@pytest.mark.spec("TW-10")
def test_random_faults_hit_equal_requests_for_equal_seeds():
    def struck(seed):
        faults = FaultInjector(chances={"overloaded": 0.3, "rate_limit": 0.1}, seed=seed)
        return [fault and fault.kind for fault in (faults.take("messages", "k", False) for _ in range(200))]

    assert struck(7) == struck(7)
    assert struck(7) != struck(8)
    assert 30 < struck(7).count("overloaded") < 90


def test_reset_brings_back_what_the_twin_was_started_with():
    faults = FaultInjector([InjectedFault("overloaded")])
    faults.take("messages", "k", False)
    faults.add([InjectedFault("garbage", times=3)])
    faults.reset()
    assert faults.pending() == 1
    faults.clear()
    assert faults.pending() == 0
