"""Keys do not leave through anything that we write or say of ourselves (S07, S24).

The transcript is no such thing: it keeps what was said, by design, and is its owner's alone. So the canaries
here are where nobody said them: in keys, headers, environments, and in the errors of providers and programs.
"""

import json
import logging
import random
import string
from pathlib import Path
from typing import Any

import pytest

from everturn import Session
from everturn.redaction import REDACTED, redact_secrets
from everturn.session.config.load import layer_options
from everturn.session.events.fan_out import FanOut
from everturn.session.events.prometheus import prometheus_sink
from everturn.session.events.sinks import log_sink, transcript_sink
from everturn.session.hooks.run import CallbackHook, Hooks
from everturn.session.hooks.settings import CommandHook, HookCommand
from everturn.session.upstream import RawResponse, UpstreamError
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send

COUNT = 200
ASKS_FOR_A_SUMMARY = b"Write a summary of"
LETTERS = string.ascii_letters + string.digits


def canaries() -> list[tuple[str, str]]:
    """How a secret stands in an error, and the part of it that must not be seen; equal for every run."""
    chance = random.Random(7)
    made: list[tuple[str, str]] = []
    for number in range(COUNT):
        core = "".join(chance.choices(LETTERS, k=32))
        forms = (
            f"sk-ant-api03-{core}", f"Authorization: Bearer {core}", f"x-api-key: sk-{core}",
            f"api_key={core}",
            f'{{"token": "{core}"}}', f"password={core}", f"https://user:{core}@host.example/x",
            f"ghp_{core}",
            f"github_pat_{core}", f"AKIA{core.upper()[:16]}", f"AIza{core}", f"eyJ{core}.{core}",
            f"Basic {core}==",
            f"glpat-{core}", f"xoxb-{core}", f"secret: {core}",
            f"api-key: Bearer {core}", f"x-api-key: {core}", f"key={core}", f"KEY = '{core}'",
            f"AWS_SECRET_ACCESS_KEY={core}", f'"private_key": "{core}"', f"export DB_PASSWORD={core}",
            f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4\n{core}\n{core}\n-----END RSA PRIVATE KEY-----",
            f"-----BEGIN PRIVATE KEY-----\\n{core}\\n-----END PRIVATE KEY-----",
            f"--api-key {core}", f"token={core * 40}",
            f"sk-{core * 40}", f"Authorization: Basic {core}", f"Cookie: {core}", f"sk_live_{core}",
        )  # fmt: skip
        form = forms[number % len(forms)]
        made.append((form, core.upper()[:16] if form.startswith("AKIA") else core))
    return made


def leaked(text: str, secrets: list[tuple[str, str]]) -> list[str]:
    return [form for form, core in secrets if core in text]


def test_nothing_that_we_write_or_say_holds_a_canary(tmp_path: Path, twin: TwinForTests, caplog: Any):
    """Every error of the provider repeats another secret; every sink,
    file and sentence is searched for all."""
    client = pytest.importorskip("prometheus_client")
    registry = client.CollectorRegistry()
    secrets, said = canaries(), []
    waiting = iter(secrets)
    inner = make_twin_send(twin.twin, api_key=secrets[0][1])

    def send(body: bytes, betas: Any) -> RawResponse:
        if ASKS_FOR_A_SUMMARY in body or len(said) % 2:
            form = next(waiting, ("nothing", ""))[0]
            raise UpstreamError(401, "authentication_error", f"invalid header {form} was sent")
        return inner(body, betas)

    def raises(payload: Any) -> str:
        raise OSError(next(waiting, ("nothing", ""))[0])

    told: list[Any] = []
    sinks = FanOut(
        [
            ("log", log_sink(logging.getLogger("everturn.events"), "included")),
            ("prometheus", prometheus_sink(registry)),
            (
                "transcript",
                transcript_sink(told.append, new_id=lambda: "e", last=lambda: None, content="included"),
            ),
        ]
    )
    hooks = Hooks(
        (
            CallbackHook("PreCompact", raises),
            CommandHook("PreCompact", "", HookCommand("env >&2; exit 3"), 5),
        ),
        environment={"ANTHROPIC_API_KEY": secrets[0][0], "PATH": "/usr/bin:/bin"},
    )
    how: dict[str, Any] = {"send": send, "listen": sinks, "hooks": hooks, "ways": ("fork", "direct")}
    path = tmp_path / "work.jsonl"
    with caplog.at_level(logging.DEBUG):
        while (first := next(waiting, None)) is not None:
            waiting = iter([first, *waiting])
            with Session.open(path, model="claude-haiku-4-5", fsync="never", **how) as session:
                for turn in range(8):
                    try:
                        said.append(session.send(f"Question {turn}.").text)
                    except UpstreamError as problem:
                        said.append(f"{problem} {problem.message} {problem!r}")
                said.append(repr(session.compact()))
                said += session.remarks
    files = "".join(each.read_text(errors="replace") for each in tmp_path.rglob("*") if each.is_file())
    metrics = client.generate_latest(registry).decode()
    everything = {
        "files": files,
        "metrics": metrics,
        "log": caplog.text,
        "said": "\n".join(said),
        "told": repr(told),
    }
    found = {where: leaked(text, secrets) for where, text in everything.items()}
    assert {where: forms for where, forms in found.items() if forms} == {}
    assert len(said) > COUNT / 2
    assert REDACTED in everything["said"]


def test_a_key_in_the_configuration_is_shown_in_no_form():
    key, token = (form.replace("{", "").replace("}", "") for form, _ in canaries()[:2])
    environment = {"ANTHROPIC_API_KEY": key, "ANTHROPIC_AUTH_TOKEN": token}
    loaded = layer_options((), environment)
    spelled = json.dumps(loaded.values(), default=repr)
    shown = f"{loaded!r} {loaded.options} {loaded.values()} {loaded.origins} {spelled}"
    assert (key in shown, token in shown) == (False, False)
    assert loaded.options.provider.api_key.reveal() == key


def test_every_canary_is_recognised_by_itself():
    """Otherwise the test above would prove little: each form is struck out wherever it stands."""
    secrets = canaries()
    said = "\n".join(str(UpstreamError(400, "error", f"before {form} behind")) for form, _ in secrets)
    assert len(secrets) == COUNT
    assert leaked(said, secrets) == []
    assert (said.count("before "), said.count(" behind")) == (COUNT, COUNT)


def test_a_key_that_is_cut_off_is_not_shown_either():
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 8
    for text in (f"-----BEGIN PRIVATE KEY-----\n{body}", f"x-api-key: {body[:60]}", f"token={body * 20}"):
        assert body[:30] not in redact_secrets(text)
