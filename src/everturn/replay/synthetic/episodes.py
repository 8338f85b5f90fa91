"""What happens between two prompts: each kind of episode is a prompt and the moves that answer it.

Episodes are generators and their moves are made one by one, because a move may change a file that the
next one reads. Which episode comes when, and when it is cut short: `generator.py`.
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

TOKENS_PER_LINE = 14  # of numbered code; measured on the templates
MIN_LINES = 5
STAYS = 0.45  # share of episodes about the same file as the one before
GUIDE_ADDRESS = "https://docs.example.org/{name}/pages"


@dataclass(slots=True)
class EpisodeContext:
    """One episode's stage: the project, the file in question, and how many tokens still fit."""

    project: Project
    path: str
    name: str
    room: Callable[[], int]
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
        """How much of a file may be read now: never more than a good part of what still fits."""
        return max(MIN_LINES, self.room() // (2 * TOKENS_PER_LINE))

    def read(self) -> SyntheticToolCall:
        self.shown = self.lines
        return tools.read(self.project, self.path, lines=self.shown)

    def edit(self) -> SyntheticToolCall:
        return tools.edit(self.project, self.path, shown=self.shown)


Episode = Callable[[EpisodeContext], Iterator[SyntheticReply]]
PromptContent = str | list[dict[str, Any]]


def make_episode_context(project: Project, room: Callable[[], int], *, recent: str) -> EpisodeContext:
    """A stage for the next episode: often the file of the one before, as people go on with what they have."""
    path = recent if recent and project.rng.random() < STAYS else project.any_path()
    return EpisodeContext(project, path, tools.place_in(project, path).name, room)


def change(scene: EpisodeContext) -> Iterator[SyntheticReply]:
    """Read, edit, test: the commonest kind of work."""
    first = tools.todos((), plan := _plan(scene, done=0))
    yield SyntheticReply(scene.think(), scene.say(words.BEFORE), (first,))
    yield SyntheticReply(
        text=scene.say(words.BEFORE), steps=(scene.read(), tools.grep(scene.project, scene.name))
    )
    for _ in range(scene.rng.choice((1, 1, 2, 3))):
        yield SyntheticReply(thinking=scene.think(), steps=(scene.edit(),))
    yield SyntheticReply(
        steps=(tools.passing_test(scene.project, scene.path), tools.todos(plan, _plan(scene, done=3)))
    )
    yield SyntheticReply(text=scene.say(words.DONE))


def repair(scene: EpisodeContext) -> Iterator[SyntheticReply]:
    """A failing test, the cause, the fix, the same test again."""
    project, path = scene.project, scene.path
    yield SyntheticReply(scene.think(), scene.say(words.BEFORE), (tools.failing_test(project, path),))
    yield SyntheticReply(scene.think(), scene.say(words.BEFORE), (scene.read(),))
    if scene.rng.random() < 0.4:
        yield SyntheticReply(steps=(tools.edit_that_misses(project, path),))
        yield SyntheticReply(scene.think(), steps=(scene.read(),))
    yield SyntheticReply(scene.think(), steps=(scene.edit(),))
    if scene.rng.random() < 0.4:
        yield SyntheticReply(steps=(tools.failing_test(project, path),))
        yield SyntheticReply(scene.think(), steps=(scene.edit(),))
    yield SyntheticReply(text=scene.say(words.BEFORE), steps=(tools.passing_test(project, path),))
    yield SyntheticReply(scene.think(), scene.say(words.DONE))


def explore(scene: EpisodeContext) -> Iterator[SyntheticReply]:
    """Only looking: nothing is changed, so an explored branch can be taken back."""
    project = scene.project
    extension = scene.path.rpartition(".")[2]
    yield SyntheticReply(scene.think(), scene.say(words.BEFORE), (tools.glob(project, extension),))
    yield SyntheticReply(steps=(tools.grep(project, scene.name),))
    others = [tools.read(project, project.any_path(), lines=scene.lines // 2) for _ in range(2)]
    yield SyntheticReply(scene.think(), steps=(scene.read(), *others))
    yield SyntheticReply(scene.think(), scene.say(words.EXPLAINED))


def again(scene: EpisodeContext) -> Iterator[SyntheticReply]:
    """The same file twice, once before and once after an edit."""
    yield SyntheticReply(text=scene.say(words.BEFORE), steps=(scene.read(),))
    yield SyntheticReply(scene.think(), steps=(scene.edit(),))
    yield SyntheticReply(steps=(scene.read(),))
    yield SyntheticReply(scene.think(), scene.say(words.DONE))


def obey(scene: EpisodeContext) -> Iterator[SyntheticReply]:
    """The person corrected something: acknowledge, look at the state of the tree, say so."""
    changed = "\n".join(f" M {scene.project.relative(path)}" for path in list(scene.project.files)[-3:])
    yield SyntheticReply(
        scene.think(),
        scene.say(words.AGREED),
        (tools.bash("git status --short", "Show what changed", changed),),
    )
    yield SyntheticReply(text=scene.say(words.AGREED))


def create(scene: EpisodeContext) -> Iterator[SyntheticReply]:
    """A new module and its tests."""
    project = scene.project
    yield SyntheticReply(scene.think(), scene.say(words.BEFORE), (scene.read(),))
    path, text = project.invent(scene.rng.choice(LANGUAGES))
    yield SyntheticReply(scene.think(), steps=(tools.write(project, path, text),))
    yield SyntheticReply(steps=(tools.write(project, *project.invent_test(path)),))
    yield SyntheticReply(steps=(tools.passing_test(project, path),))
    yield SyntheticReply(text=f"The new module is {project.relative(path)}, with tests beside it.")


def document(scene: EpisodeContext) -> Iterator[SyntheticReply]:
    """A page about a file, after a look at a guide on the web."""
    project = scene.project
    fetch = tools.fetch(GUIDE_ADDRESS.format(name=project.name), "How should a page be written?", words.GUIDE)
    yield SyntheticReply(scene.think(), steps=(fetch, scene.read()))
    page = f"# {project.relative(scene.path)}\n\n" + "\n\n".join(
        f"## {place.name}\n\n{words.pick(scene.rng, words.EXPLAINED, file=place.path, name=place.name)}"
        for place in project.places(scene.path)[: max(2, scene.lines // 15)]
    )
    yield SyntheticReply(steps=(tools.write(project, f"{scene.path.rpartition('.')[0]}.md", page),))
    yield SyntheticReply(text="The page is written; it begins with the answer, as the guide asks.")


def inspect_picture(scene: EpisodeContext) -> Iterator[SyntheticReply]:
    """A picture in the prompt, and a second one as the answer of a tool."""
    shot = tools.look(f"{scene.project.root}/shots/{scene.name}.png", picture(scene.rng))
    yield SyntheticReply(scene.think(), scene.say(words.BEFORE), (shot, scene.read()))
    yield SyntheticReply(scene.think(), steps=(scene.edit(),))
    yield SyntheticReply(text=scene.say(words.DONE))


def delegate(scene: EpisodeContext) -> Iterator[SyntheticReply]:
    """Work for an agent, then a word about what it found."""
    report = words.REPORT.format(**scene.names)
    inner = (
        SyntheticReply(scene.think(), steps=(tools.grep(scene.project, scene.name),)),
        SyntheticReply(scene.think(), steps=(scene.read(),)),
        SyntheticReply(text=report),
    )
    prompt = f"Read {scene.path} and say what is wrong with {scene.name}. Change nothing."
    step = tools.task(f"Review {scene.name}", prompt, inner, agent_type="general-purpose")
    yield SyntheticReply(scene.think(), "I hand this to an agent.", (step,))
    yield SyntheticReply(scene.think(), scene.say(words.EXPLAINED))


ORDINARY: tuple[tuple[Episode, tuple[str, ...], int], ...] = (
    (change, words.TASKS, 6),
    (repair, words.BUGS, 5),
    (explore, words.QUESTIONS, 4),
    (again, words.FOLLOW_UPS, 5),
    (obey, words.CORRECTIONS, 2),
    (create, words.NEW_FILES, 1),
    (document, words.DOCUMENTS, 1),
)
"""Episode, what the person may say to start it, and how often it comes relative to the others."""


def ordinary(scene: EpisodeContext) -> tuple[str, Episode]:
    kinds, prompts, weights = zip(*ORDINARY, strict=True)
    number = scene.rng.choices(range(len(kinds)), weights)[0]
    return prompt_for(scene, prompts[number]), kinds[number]


def prompt_for(scene: EpisodeContext, sentences: tuple[str, ...]) -> str:
    url = GUIDE_ADDRESS.format(name=scene.project.name)
    return words.pick(scene.rng, sentences, **scene.names, url=url, noun=scene.rng.choice(NOUNS))


def prompt_with_picture(scene: EpisodeContext) -> list[dict[str, Any]]:
    text = {"type": "text", "text": prompt_for(scene, words.PICTURES)}
    return [picture(scene.rng).block(), text]


def _plan(scene: EpisodeContext, *, done: int) -> list[dict[str, str]]:
    work = (("Read", "Reading"), ("Change", "Changing"), ("Test", "Testing"))
    return [
        {"content": f"{verb} {scene.names['file']}", "activeForm": f"{now} {scene.names['file']}",
         "status": "completed" if place < done else "in_progress" if place == done else "pending"}
        for place, (verb, now) in enumerate(work)
    ]  # fmt: skip
