"""What the model says to a program of `callers.py`."""

import random
from typing import Any

from reliability.caller_surfaces import WEB_SEARCH

from everturn.twin.request_text import new_id
from everturn.twin.values import ModelOutput, ParsedRequest

# So many results of tools a model asks for at most, for one question.
MOST_RESULTS = 3
# How often a model that may search does it first.
SEARCHES = 0.4


class Model:
    """Answers the same question with the same words, however it is spelled and whatever stands before it."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.question = ""
        # How many results of tools this question has had.
        self.results = 0
        self.has_answered = False
        self.has_spoken = False
        # How many of its replies the API has paused, and whether that is how the last one ended.
        self.pauses = 0
        self.is_paused = False

    def lines(self) -> int:
        """How much a tool reads for it."""
        return random.Random(f"{self._seed} {self.question} {self.results} lines").choice((9, 90, 600))

    def say(self, request: ParsedRequest, *, rng: random.Random) -> ModelOutput:
        self.has_answered, self.has_spoken, self.is_paused = True, True, False
        if is_paused(request):
            return self._go_on(request)
        own = random.Random(f"{self._seed} {self.question} {self.results}")
        # Many models think where a turn begins, and seldom inside of a tool loop.
        chance = 0.2 if self.results else 0.9
        thinks = request.get_object("thinking").get("type") in ("enabled", "adaptive")
        thought = _thought(own) if thinks and own.random() < chance else []
        may_call = request.tools and request.body.get("tool_choice") != {"type": "none"}
        if may_call and may_search(request) and own.random() < SEARCHES:
            self.pauses, self.is_paused = self.pauses + 1, True
            # The API takes a paused reply back only with the thinking that it began with.
            return ModelOutput((*(_thought(own) if thinks else ()), *_search(own, rng)), "pause_turn")
        if may_call and self.results < MOST_RESULTS and own.random() < 0.5:
            names = [tool.body["name"] for tool in request.tools]
            paths = own.choice((("a.py",), ("a.py",), ("a.py", "b.py")))
            blocks = [
                {"type": "tool_use", "id": new_id("toolu_", rng), "name": names[0], "input": {"path": path}}
                for path in paths
            ]
            return ModelOutput((*thought, *blocks), "tool_use")
        name = f"Answer {self.results} to {self.question.strip('<>')}. "
        words = name + "It is fine. " * own.choice((9, 90, 300))
        return ModelOutput((*thought, {"type": "text", "text": words}), "end_turn")

    def _go_on(self, request: ParsedRequest) -> ModelOutput:
        """A reply that goes on begins with what its search has found."""
        found = [_found(call) for call in open_searches(request)]
        words = f"Found for {self.question.strip('<>')}. " + "It is fine. " * 9
        return ModelOutput((*found, {"type": "text", "text": words}), "end_turn")


def may_search(request: ParsedRequest) -> bool:
    return any(tool.body["name"] == WEB_SEARCH["name"] for tool in request.tools)


def is_paused(request: ParsedRequest) -> bool:
    """Whether the request is a list that ends in a paused reply."""
    last = request.messages[-1]
    return last.role == "assistant" and last.blocks[-1].kind in ("server_tool_use", "web_search_tool_result")


def open_searches(request: ParsedRequest) -> list[str]:
    blocks = request.messages[-1].blocks
    answered = {block.body["tool_use_id"] for block in blocks if block.kind == "web_search_tool_result"}
    calls = [block.body["id"] for block in blocks if block.kind == "server_tool_use"]
    return [call for call in calls if call not in answered]


def _thought(own: random.Random) -> list[dict[str, Any]]:
    return [{"type": "thinking", "thinking": "Let me see. " * own.choice((2, 40))}]


def _search(own: random.Random, rng: random.Random) -> list[dict[str, Any]]:
    """A search, which most often is still under way when the API pauses the reply."""
    call = new_id("srvtoolu_", rng)
    use = {"type": "server_tool_use", "id": call, "name": WEB_SEARCH["name"], "input": {"query": "parser"}}
    says: dict[str, Any] = {"type": "text", "text": "I look."}
    return own.choice(([says, use], [use], [use, _found(call)]))


def _found(call: str) -> dict[str, Any]:
    page = {"type": "web_search_result", "url": "https://example.com", "title": "Parsers", "page_age": None}
    content = [{**page, "encrypted_content": "Eo8D" + "abcd" * 300}]
    return {"type": "web_search_tool_result", "tool_use_id": call, "content": content}
