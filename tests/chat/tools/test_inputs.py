import pytest

from everturn.chat.tools.inputs import ToolError, ToolInput


def test_a_missing_field_has_its_default_and_none_is_missing():
    given = ToolInput("T", {"a": None})
    assert (
        given.string("a", "x"),
        given.integer("a", 3),
        given.boolean("a", True),
        given.enum("a", ("p", "q")),
    ) == (
        "x",
        3,
        True,
        "p",
    )


def test_what_models_spell_a_little_wrongly_is_understood():
    given = ToolInput("T", {"n": "12", "f": 3.0, "yes": "true", "no": "false"})
    assert (
        given.integer("n", 0),
        given.integer("f", 0),
        given.boolean("yes", False),
        given.boolean("no", True),
    ) == (
        12,
        3,
        True,
        False,
    )


def test_numbers_are_kept_within_their_bounds():
    assert ToolInput("T", {"n": 99}).integer("n", 1, most=10) == 10
    with pytest.raises(ToolError, match=r"`n` of T must be a whole number, 1 or more; it was '0'\."):
        ToolInput("T", {"n": 0}).integer("n", 1, least=1)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda given: given.string("gone"), "T needs `gone`: a non-empty string."),
        (lambda given: given.string("empty"), "`empty` of T must be a non-empty string; it was ''."),
        (lambda given: given.any_string("n"), "`n` of T must be a string; it was '1'."),
        (
            lambda given: given.integer("yes", 1),
            "`yes` of T must be a whole number, 0 or more; it was 'True'.",
        ),
        (lambda given: given.boolean("n", True), "`n` of T must be true or false; it was '1'."),
        (lambda given: given.enum("n", ("a", "b")), "`n` of T must be one of a, b; it was '1'."),
        (lambda given: given.objects("n"), "`n` of T must be a list of objects; it was '1'."),
        (lambda given: given.objects("mixed"), "`mixed` of T must be a list of objects; it was '[1]'."),
    ],
)
def test_what_is_wrong_is_said_with_the_value_and_what_was_wanted(ask, said):
    with pytest.raises(ToolError) as problem:
        ask(ToolInput("T", {"empty": "", "n": 1, "yes": True, "mixed": [1]}))
    assert str(problem.value) == said
