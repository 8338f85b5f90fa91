"""Who said what, turn by turn: messages with the question they answer, reports of the model, corrections."""

from collections import Counter
from typing import Final

from everturn.decide.extractive.reading.answers import find_offer, find_question, is_choice, is_consent
from everturn.decide.extractive.reading.corrections import find_correction, is_resent
from everturn.decide.extractive.reading.facts import QuotedText, is_local
from everturn.decide.extractive.reading.sentences import long_words, sentences
from everturn.decide.extractive.reading.user_edits import own_work

# What is quoted of the words that a correction or a report is about.
_ABOUT: Final = 160
_SENTENCE: Final = 300
# Longer messages continue with what was pasted.
_SEARCHED: Final = 2_000
_OFFER_STANDS: Final = 4


class Turns:
    def __init__(self) -> None:
        self.messages: list[QuotedText] = []
        self.statements: list[QuotedText] = []
        self.reports: list[QuotedText] = []
        self.corrections: list[QuotedText] = []
        self.own_work: list[QuotedText] = []
        self.words: Counter[str] = Counter()
        self.offer = ""
        self._offered_at = 0
        self.is_answered = False
        self.ends_with_words = False
        # Where the statements of this turn begin.
        self._start = 0
        self._is_interrupted = False
        # The refused call after which nothing was said or done, with what the person said.
        self.refusal: QuotedText | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether the user stopped the model and has said nothing since."""
        return self._is_interrupted

    @property
    def current(self) -> tuple[QuotedText, ...]:
        return tuple(self.statements[self._start :])

    def interrupted(self) -> None:
        self._is_interrupted = True

    def heard(self, text: str, record: str) -> None:
        """A message of the user. One for the program ends no turn."""
        if is_local(text):
            self.messages.append(QuotedText(text, record))
            return
        before = self.statements[-1].text if self.statements else ""
        self._close()
        corrected = find_correction(text)
        self._note_offer(text, before, is_declined=bool(corrected))
        self._note_correction(text, record, before, corrected)
        for sentence in sentences(text[:_SEARCHED]):
            if len(sentence) <= _SENTENCE and own_work(sentence):
                self.own_work.append(QuotedText(sentence, record))
        self.messages.append(QuotedText(text, record, find_question(text, before)))
        self.words.update(long_words(text))
        self.is_answered = self.ends_with_words = False
        self._go_on()

    def said(self, text: str, record: str) -> None:
        """Words of the model."""
        self.is_answered = self.ends_with_words = True
        self._go_on()
        self.statements.append(QuotedText(text, record))
        self.words.update(long_words(text))

    def acted(self) -> None:
        """A call of the model."""
        self.is_answered = True
        self.ends_with_words = False
        self._go_on()

    def refused(self, words: str, record: str, call: str) -> None:
        """The user refused a call, and may have said why."""
        self.refusal = QuotedText(words, record, call)
        self._is_interrupted = True
        if words:
            self.corrections.append(self.refusal)

    def _go_on(self) -> None:
        self._is_interrupted = False
        self.refusal = None

    def _close(self) -> None:
        asked = next((said for said in reversed(self.messages) if not is_local(said.text)), None)
        if self.current and asked:
            last = self.statements[-1]
            about = " ".join(asked.text[:_ABOUT].split())
            self.reports.append(QuotedText(last.text, last.record, about))
        self._start = len(self.statements)

    def _note_offer(self, text: str, before: str, *, is_declined: bool) -> None:
        """An offer stays open for some messages unless the user accepts it, declines it or gets another."""
        if is_declined or is_consent(text) or is_choice(text, before):
            self.offer = ""
        elif offered := find_offer(before):
            self.offer, self._offered_at = offered, len(self.messages)
        elif len(self.messages) - self._offered_at > _OFFER_STANDS:
            self.offer = ""

    def _note_correction(self, text: str, record: str, before: str, words: str) -> None:
        if not self.messages and not self.statements:
            return
        resent = bool(self.messages) and is_resent(self.messages[-1].text, text)
        if not words and self._is_interrupted and not resent:
            words = text
        if words:
            self.corrections.append(QuotedText(words, record, " ".join(before[-_ABOUT:].split())))
