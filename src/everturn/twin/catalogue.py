"""The responses of `GET /v1/models` and `GET /v1/models/{id}`."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Any

from everturn.measure.model_table import EFFORTS, MODELS, Model, find_model
from everturn.twin.clock import format_time
from everturn.twin.paging import read_limit
from everturn.twin.values import ApiError, invalid_request


def list_models(query: Mapping[str, str]) -> dict[str, Any]:
    """One page of models. Retired models are listed only if `lifecycle` asks for them."""
    wanted = [value for name, value in query.items() if name in ("lifecycle", "lifecycle[]")]
    stages = [stage for value in wanted for stage in value.split(",")] or ["active", "deprecated"]
    found = [model for model in MODELS if model.lifecycle in stages]
    limit = read_limit(query.get("limit"))
    if (after := query.get("after_id")) is not None:
        found = found[_find_index(found, after, "after_id") + 1 :]
        page, more = found[:limit], len(found) > limit
    elif (before := query.get("before_id")) is not None:
        found = found[: _find_index(found, before, "before_id")]
        page, more = found[-limit:], len(found) > limit
    else:
        page, more = found[:limit], len(found) > limit
    return {
        "data": [_describe(model) for model in page],
        "has_more": more,
        "first_id": _listed_id(page[0]) if page else None,
        "last_id": _listed_id(page[-1]) if page else None,
    }


def get_model(id: str) -> dict[str, Any]:
    if (model := find_model(id)) is None:
        raise ApiError(404, "not_found_error", f"model: {id}")
    return _describe(model)


def _find_index(models: list[Model], id: str, name: str) -> int:
    for index, model in enumerate(models):
        if id in (model.id, *model.aliases):
            return index
    raise invalid_request(f"{name}: no model has the id {id}")


def _listed_id(model: Model) -> str:
    """The dated id, if the model has one; the short id is its alias."""
    dated = [alias for alias in model.aliases if alias[-8:].isdigit()]
    return dated[0] if dated else model.id


def _describe(model: Model) -> dict[str, Any]:
    return {
        "type": "model",
        "id": _listed_id(model),
        "display_name": model.display_name,
        "created_at": _moment(model.released),
        "deprecated_at": None,
        "retires_at": _moment(model.retires) if model.retires else None,
        "lifecycle": model.lifecycle,
        "line": model.line,
        "max_input_tokens": model.window,
        "max_tokens": model.max_output,
        "capabilities": _capabilities(model),
    }


def _moment(day: date) -> str:
    return format_time(datetime.combine(day, time(), UTC))


def _can(supported: bool) -> dict[str, bool]:
    return {"supported": supported}


def _capabilities(model: Model) -> dict[str, Any]:
    modes = ("adaptive", "between_tools", "disabled", "enabled")
    return {
        "batch": _can(True),
        "citations": _can(True),
        "code_execution": _can(True),
        "compaction": {"supported": model.compacts, "summarize": _can(model.compacts)},
        "context_management": {
            "supported": True,
            "clear_tool_uses_20250919": _can(True),
            "clear_thinking_20251015": _can(True),
            "compact_20260112": _can(model.compacts),
        },
        "effort": {"supported": bool(model.efforts)} | {e: _can(e in model.efforts) for e in EFFORTS},
        "image_input": _can(True),
        "pdf_input": _can(True),
        "server_tools": {"supported": True, "code_execution": _can(True), "web_search": _can(True)},
        "structured_outputs": _can(True),
        "thinking": {
            "supported": bool(model.thinking - {"disabled"}),
            "types": {mode: _can(mode in model.thinking) for mode in modes},
        },
    }
