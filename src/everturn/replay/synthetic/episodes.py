"""What happens between two prompts: each kind of episode is a prompt and the replies to it.

Episodes are generators. Their replies are made one at a time, because a reply may change a file that the next
one reads. When an episode starts and when it is cut short: `generator.py`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from everturn.replay.synthetic import phrases as words
from everturn.replay.synthetic.workspace import tools
from everturn.replay.synthetic.workspace.code import LANGUAGES, NOUNS
from everturn.replay.synthetic.workspace.images import picture
from everturn.replay.synthetic.workspace.project import Project
from everturn.replay.synthetic.workspace.tools import SyntheticReply, SyntheticToolCall

TOKENS_PER_LINE = 14  # of numbered code, measured on the templates
MIN_LINES = 5
STAYS = 0.45  # share of episodes that continue with the same file
GUIDE_ADDRESS = "https://docs.example.org/{name}/pages"


@dataclass(slots=True)
class EpisodeContext:
    """The context of one episode: the project, its file, and how many tokens are left."""

    project: Project
    path: str
    name: str
    tokens_left: Callable[[], int]
    shown: int = 0

    @property
    def rng(self) -> Random:
        return self.project.rng

    @property
    def names(self) -> dict[str, str]:
        return {"file": self.project.relative(self.path), "name": self.name}

    def say(self, sentences: tuple[str, ...]) -> str:
        return words.pick(self.rng, sentences, **self.names)

    def think(self) -> str:
        return words.thought(self.rng, sentences=self.rng.choice((1, 2, 2, 3, 5)), **self.names)

    @property
    def lines(self) -> int:
        """How many lines of a file may be read now: limited by the tokens that are left."""
        return max(MIN_LINES, self.tokens_left() // (2 * TOKENS_PER_LINE))

    def read(self) -> SyntheticToolCall:
        self.shown = self.lines
        return tools.read(self.project, self.path, lines=self.shown)

    def edit(self) -> SyntheticToolCall:
        return tools.edit(self.project, self.path, shown=self.shown)


Episode = Callable[[EpisodeContext], Iterator[SyntheticReply]]
PromptContent = str | list[dict[str, Any]]


def make_episode_context(project: Project, tokens_left: Callable[[], int], *, recent: str) -> EpisodeContext:
    """The context of the next episode. It often continues with the file of the last one."""
    path = recent if recent and project.rng.random() < STAYS else project.any_path()
    return EpisodeContext(project, path, tools.place_in(project, path).name, tokens_left)


def change(context: EpisodeContext) -> Iterator[SyntheticReply]:
    """Read, edit, test: the most common kind of work."""
    first = tools.todos((), plan := _plan(context, done=0))
    yield SyntheticReply(context.think(), context.say(words.BEFORE), (first,))
    yield SyntheticReply(
        text=context.say(words.BEFORE), steps=(context.read(), tools.grep(context.project, context.name))
    )
    for _ in range(context.rng.choice((1, 1, 2, 3))):
        yield SyntheticReply(thinking=context.think(), steps=(context.edit(),))
    yield SyntheticReply(
        steps=(tools.passing_test(context.project, context.path), tools.todos(plan, _plan(context, done=3)))
    )
    yield SyntheticReply(text=context.say(words.DONE))


def repair(context: EpisodeContext) -> Iterator[SyntheticReply]:
    """A failing test, the cause, the fix, the same test again."""
    project, path = context.project, context.path
    yield SyntheticReply(context.think(), context.say(words.BEFORE), (tools.failing_test(project, path),))
    yield SyntheticReply(context.think(), context.say(words.BEFORE), (context.read(),))
    if context.rng.random() < 0.4:
        yield SyntheticReply(steps=(tools.edit_that_misses(project, path),))
        yield SyntheticReply(context.think(), steps=(context.read(),))
    yield SyntheticReply(context.think(), steps=(context.edit(),))
    if context.rng.random() < 0.4:
        yield SyntheticReply(steps=(tools.failing_test(project, path),))
        yield SyntheticReply(context.think(), steps=(context.edit(),))
    yield SyntheticReply(text=context.say(words.BEFORE), steps=(tools.passing_test(project, path),))
    yield SyntheticReply(context.think(), context.say(words.DONE))


def explore(context: EpisodeContext) -> Iterator[SyntheticReply]:
    """Only reading: nothing is changed, so this branch can be abandoned."""
    project = context.project
    extension = context.path.rpartition(".")[2]
    yield SyntheticReply(context.think(), context.say(words.BEFORE), (tools.glob(project, extension),))
    yield SyntheticReply(steps=(tools.grep(project, context.name),))
    others = [tools.read(project, project.any_path(), lines=context.lines // 2) for _ in range(2)]
    yield SyntheticReply(context.think(), steps=(context.read(), *others))
    yield SyntheticReply(context.think(), context.say(words.EXPLAINED))


def again(context: EpisodeContext) -> Iterator[SyntheticReply]:
    """The same file is read twice, before and after an edit."""
    yield SyntheticReply(text=context.say(words.BEFORE), steps=(context.read(),))
    yield SyntheticReply(context.think(), steps=(context.edit(),))
    yield SyntheticReply(steps=(context.read(),))
    yield SyntheticReply(context.think(), context.say(words.DONE))


def obey(context: EpisodeContext) -> Iterator[SyntheticReply]:
    """The user corrected something: acknowledge, check the state of the tree, report."""
    changed = "\n".join(f" M {context.project.relative(path)}" for path in list(context.project.files)[-3:])
    yield SyntheticReply(
        context.think(),
        context.say(words.AGREED),
        (tools.bash("git status --short", "Show what changed", changed),),
    )
    yield SyntheticReply(text=context.say(words.AGREED))


def create(context: EpisodeContext) -> Iterator[SyntheticReply]:
    """A new module and its tests."""
    project = context.project
    yield SyntheticReply(context.think(), context.say(words.BEFORE), (context.read(),))
    path, text = project.invent(context.rng.choice(LANGUAGES))
    yield SyntheticReply(context.think(), steps=(tools.write(project, path, text),))
    yield SyntheticReply(steps=(tools.write(project, *project.invent_test(path)),))
    yield SyntheticReply(steps=(tools.passing_test(project, path),))
    yield SyntheticReply(text=f"The new module is {project.relative(path)}, with tests beside it.")


def document(context: EpisodeContext) -> Iterator[SyntheticReply]:
    """A page about a file, after reading a guide on the web."""
    project = context.project
    fetch = tools.fetch(GUIDE_ADDRESS.format(name=project.name), "How should a page be written?", words.GUIDE)
    yield SyntheticReply(context.think(), steps=(fetch, context.read()))
    page = f"# {project.relative(context.path)}\n\n" + "\n\n".join(
        f"## {place.name}\n\n{words.pick(context.rng, words.EXPLAINED, file=place.path, name=place.name)}"
        for place in project.places(context.path)[: max(2, context.lines // 15)]
    )
    yield SyntheticReply(steps=(tools.write(project, f"{context.path.rpartition('.')[0]}.md", page),))
    yield SyntheticReply(text="The page is written; it begins with the answer, as the guide asks.")


def inspect_picture(context: EpisodeContext) -> Iterator[SyntheticReply]:
    """An image in the prompt, and a second one as a tool result."""
    shot = tools.look(f"{context.project.root}/shots/{context.name}.png", picture(context.rng))
    yield SyntheticReply(context.think(), context.say(words.BEFORE), (shot, context.read()))
    yield SyntheticReply(context.think(), steps=(context.edit(),))
    yield SyntheticReply(text=context.say(words.DONE))


def delegate(context: EpisodeContext) -> Iterator[SyntheticReply]:
    """A task for a sub-agent, then a sentence about its result."""
    report = words.REPORT.format(**context.names)
    inner = (
        SyntheticReply(context.think(), steps=(tools.grep(context.project, context.name),)),
        SyntheticReply(context.think(), steps=(context.read(),)),
        SyntheticReply(text=report),
    )
    prompt = f"Read {context.path} and say what is wrong with {context.name}. Change nothing."
    step = tools.task(f"Review {context.name}", prompt, inner, agent_type="general-purpose")
    yield SyntheticReply(context.think(), "I hand this to an agent.", (step,))
    yield SyntheticReply(context.think(), context.say(words.EXPLAINED))


ORDINARY: tuple[tuple[Episode, tuple[str, ...], int], ...] = (
    (change, words.TASKS, 6),
    (repair, words.BUGS, 5),
    (explore, words.QUESTIONS, 4),
    (again, words.FOLLOW_UPS, 5),
    (obey, words.CORRECTIONS, 2),
    (create, words.NEW_FILES, 1),
    (document, words.DOCUMENTS, 1),
)
"""An episode, its possible prompts, and its relative frequency."""


def ordinary(context: EpisodeContext) -> tuple[str, Episode]:
    kinds, prompts, weights = zip(*ORDINARY, strict=True)
    number = context.rng.choices(range(len(kinds)), weights)[0]
    return prompt_for(context, prompts[number]), kinds[number]


def prompt_for(context: EpisodeContext, sentences: tuple[str, ...]) -> str:
    url = GUIDE_ADDRESS.format(name=context.project.name)
    return words.pick(context.rng, sentences, **context.names, url=url, noun=context.rng.choice(NOUNS))


def prompt_with_picture(context: EpisodeContext) -> list[dict[str, Any]]:
    text = {"type": "text", "text": prompt_for(context, words.PICTURES)}
    return [picture(context.rng).block(), text]


def _plan(context: EpisodeContext, *, done: int) -> list[dict[str, str]]:
    work = (("Read", "Reading"), ("Change", "Changing"), ("Test", "Testing"))
    return [
        {"content": f"{verb} {context.names['file']}", "activeForm": f"{now} {context.names['file']}",
         "status": "completed" if place < done else "in_progress" if place == done else "pending"}
        for place, (verb, now) in enumerate(work)
    ]  # fmt: skip
