"""Effects and what they are answered with."""

from collections.abc import Generator
from typing import Any

import pytest

from everturn.decide.effects import (
    AskModel,
    FileRead,
    HookOutcome,
    ModelAnswer,
    ModelFailure,
    ReadFiles,
    RunHooks,
    WriteFile,
    ask_model,
    read_files,
    run_hooks,
    write_file,
)
from everturn.history.records import Usage
from everturn.wire.anthropic import Request

ASK = AskModel(Request(model="m", messages=()), (), "compact", "direct")
HOOKS = RunHooks("PreCompact", {})
ANSWER = ModelAnswer((), "end_turn", Usage())
FAILURE = ModelFailure("timeout", "too slow")


def answered(flow: Generator[Any, Any, Any], result: Any) -> Any:
    next(flow)
    with pytest.raises(StopIteration) as done:
        flow.send(result)
    return done.value.value


@pytest.mark.parametrize(
    ("flow", "result"),
    [
        (lambda: write_file(WriteFile("a", "b")), "/a"),
        (lambda: read_files(ReadFiles(("a",), 5)), (FileRead("a"),)),
        (lambda: ask_model(ASK), ANSWER),
        (lambda: ask_model(ASK), FAILURE),
        (lambda: run_hooks(HOOKS), HookOutcome(blocked="no")),
    ],
)
def test_a_flow_gets_what_the_handler_answered(flow, result):
    assert answered(flow(), result) == result


@pytest.mark.parametrize(
    ("flow", "name"),
    [
        (lambda: write_file(WriteFile("a", "b")), "WriteFile"),
        (lambda: read_files(ReadFiles(("a",), 5)), "ReadFiles"),
        (lambda: ask_model(ASK), "AskModel"),
        (lambda: run_hooks(HOOKS), "RunHooks"),
    ],
)
def test_a_handler_that_answers_with_another_type_is_named_at_once(flow, name):
    begun = flow()
    next(begun)
    with pytest.raises(TypeError) as told:
        begun.send(None)
    assert str(told.value) == (
        f"the handler answered the effect {name} with a value of type NoneType; "
        "`everturn.decide.effects` lists what each effect is answered with"
    )
