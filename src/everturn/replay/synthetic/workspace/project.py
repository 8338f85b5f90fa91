"""The files of a fictional project, and how they change.

Tool results must agree with these files: `Read` shows them, `Edit` changes them, a failing test quotes a
line. The texts of the results are in `tools.py`.
"""

import re
from dataclasses import dataclass
from itertools import count
from random import Random

from everturn.replay.synthetic.workspace.code import (
    FIELDS,
    LANGUAGES,
    NOUNS,
    PROJECTS,
    REASONS,
    VERBS,
    Language,
)

MAX_QUOTED_LINES = 6  # lines that an edit quotes below the signature: a docstring and a guard
CASES = ("empty", "single", "late", "unsorted", "duplicate", "closed", "far", "mixed")


@dataclass(frozen=True, slots=True)
class FunctionLocation:
    """One function in one file. `line` is the line of its signature, from 1."""

    path: str
    name: str
    first: str
    line: int


@dataclass(frozen=True, slots=True)
class AppliedEdit:
    """An edit that was made: `old` occurred once in `before` and was replaced by `new`."""

    path: str
    old: str
    new: str
    before: str
    line: int


class Project:
    """The files that the session changes; mutable on purpose."""

    def __init__(self, rng: Random, *, files: int, functions: int) -> None:
        self.rng = rng
        self.name = rng.choice(PROJECTS)
        self.root = f"/home/dev/{self.name}"
        self.functions = functions
        self.files: dict[str, str] = {}
        self._serial = count(2)
        for number in range(files):
            self.add(*self.invent(LANGUAGES[number % len(LANGUAGES)]))

    def add(self, path: str, text: str) -> None:
        self.files[path] = text

    def invent(self, language: Language) -> tuple[str, str]:
        """The path and text of a new file. It is not added."""
        rng = self.rng
        noun = rng.choice(NOUNS)
        stem = f"{rng.choice(VERBS)}_{noun}"
        path = f"{self.root}/{language.folder}/{stem}.{language.extension}"
        while path in self.files:
            path = f"{self.root}/{language.folder}/{stem}_{next(self._serial)}.{language.extension}"
        top = language.top.substitute(project=self.name, noun=noun, Topic=stem.replace("_", " ").capitalize())
        amount = max(1, round(self.functions * rng.uniform(0.6, 1.4)))
        return path, "\n\n".join([top, *self._functions(language, noun, amount)])

    def invent_test(self, path: str) -> tuple[str, str]:
        """A test file for the functions of `path`. It is not added."""
        language = language_of(path)
        cases = [self._case(language, place) for place in self.places(path)[:6]]
        return path_of_test(path), "\n\n".join(cases)

    def any_path(self) -> str:
        return self.rng.choice([path for path in self.files if is_source(path)])

    def places(self, path: str) -> list[FunctionLocation]:
        text = self.files[path]
        found = re.finditer(language_of(path).signature, text, re.MULTILINE)
        return [FunctionLocation(path, m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in found]

    def change(self, path: str, *, shown: int) -> AppliedEdit:
        """Put a guard into one function; where a guard stands already, renew it or take it out.

        Only the first `shown` lines were read, so only a function that begins there can be quoted.
        """
        language = language_of(path)
        places = self.places(path)
        place = self.rng.choice([at for at in places if at.line + MAX_QUOTED_LINES <= shown] or places[:1])
        before = self.files[path]
        lines = before.splitlines(keepends=True)
        top, body = place.line - 1, place.line - 1 + language.head
        guard = self._guard(language, place)
        guarded = lines[body].lstrip().startswith(language.comment)
        end = body + (guard.count("\n") if guarded else 1)
        after = "" if guarded else lines[body]
        if guarded and self.rng.random() < 0.4:
            guard = ""
        old = "".join(lines[top:end]).removesuffix("\n")
        new = "".join([*lines[top:body], guard, after]).removesuffix("\n")
        self.files[path] = before.replace(old, new, 1)
        return AppliedEdit(path, old, new, before, place.line)

    def relative(self, path: str) -> str:
        return path.removeprefix(f"{self.root}/")

    def _functions(self, language: Language, noun: str, amount: int) -> list[str]:
        rng = self.rng
        pairs = rng.sample(range(len(VERBS) * len(NOUNS)), amount)
        texts: list[str] = []
        for pair in pairs:
            verb, other = VERBS[pair // len(NOUNS)], NOUNS[pair % len(NOUNS)]
            name = f"{verb}_{other}s" if language.extension == "py" else f"{verb}{other.capitalize()}s"
            if language.extension == "go":
                name = name[0].upper() + name[1:]
            field = rng.choice(FIELDS)
            template = rng.choice(language.functions)
            texts.append(
                template.substitute(
                    name=name, noun=noun, field=field, Field=field.capitalize(), d="$",
                    n1=rng.randint(3, 90), n2=rng.randint(2, 48),
                )
            )  # fmt: skip
        return texts

    def _case(self, language: Language, place: FunctionLocation) -> str:
        rng = self.rng
        case = rng.choice(CASES)
        return language.test.substitute(
            name=place.name, case=case, Case=case.capitalize(), noun=place.first[:-1],
            Noun=place.first[:-1].capitalize(), n1=rng.randint(1, 30), n2=rng.randint(2, 60),
        )  # fmt: skip

    def _guard(self, language: Language, place: FunctionLocation) -> str:
        rng = self.rng
        return language.guard.substitute(
            reason=rng.choice(REASONS), first=place.first, n1=rng.randint(50, 900)
        )


def language_of(path: str) -> Language:
    return next(language for language in LANGUAGES if path.endswith(f".{language.extension}"))


def path_of_test(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/test_{name}"


def is_source(path: str) -> bool:
    return not path.endswith(".md") and not path.rpartition("/")[2].startswith("test_")
