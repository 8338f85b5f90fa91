"""What the engine is told of a request of pydantic-ai."""

import pytest
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.test import TestModel

from everturn.adapters.pydantic_ai.call import PydanticAICall

BUDGET = {"type": "enabled", "budget_tokens": 1024}
ADAPTIVE = {"type": "adaptive"}


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("claude-haiku-4-5", {}, None),
        ("claude-haiku-4-5", {"thinking": False}, None),
        ("claude-haiku-4-5", {"thinking": "high"}, BUDGET),
        ("claude-opus-5", {"thinking": True}, ADAPTIVE),
        ("claude-opus-5", {"thinking": True, "anthropic_thinking": BUDGET}, BUDGET),
    ],
)
@pytest.mark.parametrize("has_fallback", [False, True])
def test_thinking_is_told_in_whichever_setting_it_was_asked_for(bench, name, settings, told, has_fallback):
    model = bench.model(name)
    assert (
        _body(FallbackModel(model, TestModel()) if has_fallback else model, settings).get("thinking") == told
    )


def test_replies_of_other_models_need_not_begin_with_thinking():
    assert "thinking" not in _body(TestModel(), {"thinking": "high"})


def _body(model, settings):
    parameters = ModelRequestParameters()
    context = ModelRequestContext(
        model=model, messages=[], model_settings=settings, model_request_parameters=parameters
    )
    return PydanticAICall(context).body()
