"""Open a session with the arguments of `Session.open`: its options, its store and what the program passes."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import msgspec

from everturn.decide.events import Event
from everturn.decide.options import Options
from everturn.errors import UsageError
from everturn.measure.capabilities import Capabilities
from everturn.measure.outline import TokenCosts
from everturn.measure.tokens import Estimator
from everturn.session.config.load import ConfigChoice, LoadedOptions, resolve_options
from everturn.session.config.sources import check_arguments
from everturn.session.hold_timers import HoldTimer
from everturn.session.hooks.load import load_hooks
from everturn.session.hooks.run import Hooks, add_hooks
from everturn.session.interrupts import InterruptibleRuntime
from everturn.session.loop_hooks import PermissionCallback
from everturn.session.memory_files.attach import open_memory
from everturn.session.memory_files.confined import ReadPermission
from everturn.session.opening import build_settings, capabilities_of, connect
from everturn.session.program_objects import (
    check_program_objects,
    check_session_objects,
    to_folders,
    to_tools,
)
from everturn.session.recorded import recorded_folder
from everturn.session.resume import SessionStart
from everturn.session.runtime import SessionParts
from everturn.session.store.places import open_session_store
from everturn.session.store.protocol import Access, Store
from everturn.session.tools import Tool
from everturn.session.upstream import Send
from everturn.session.valid_text import replace_lone_surrogates
from everturn.view.system_prompt import SystemPromptSections
from everturn.wire.claude_code_writer import LineContext

if TYPE_CHECKING:
    import anthropic

# Keyword arguments of version 0.1, and the configuration keys that replaced them.
RENAMED_ARGUMENTS: Final = {
    "ways": "compact.strategies",
    "recalls": "recall.enabled",
    "fsync": "store.fsync",
}


class OpenArguments(NamedTuple):
    """The arguments of `Session.open` that are not options; it says what each of them means."""

    path: str | os.PathLike[str]
    tools: Sequence[Tool]
    system: str | SystemPromptSections
    client: "anthropic.Anthropic | None"
    send: Send | None
    hooks: Hooks
    permit: PermissionCallback
    may_read: ReadPermission
    listen: Callable[[Event], None]
    roots: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    cwd: str | os.PathLike[str] | None
    capabilities: Capabilities | None
    costs: TokenCosts | None
    estimator: Estimator | None
    clock: Callable[[], datetime]
    new_id: Callable[[], str]
    access: Access
    session_start: SessionStart
    hold_timer: HoldTimer


def read_options(options: Options | None, keywords: Mapping[str, Any], config: ConfigChoice) -> LoadedOptions:
    """The options of a session, with `keywords` by their names of today or of version 0.1."""
    check_arguments(keywords, OpenArguments._fields, RENAMED_ARGUMENTS)
    overrides = {RENAMED_ARGUMENTS.get(name, name): value for name, value in keywords.items()}
    loaded = resolve_options(options, overrides, config=config)
    notes = (f"argument: {old} is now {new}" for old, new in RENAMED_ARGUMENTS.items() if old in keywords)
    return msgspec.structs.replace(loaded, notes=(*loaded.notes, *notes))


def open_runtime(given: OpenArguments, loaded: LoadedOptions) -> InterruptibleRuntime:
    _check_choice("access", given.access, get_args(Access))
    _check_choice("session_start", given.session_start, get_args(SessionStart))
    check_program_objects(
        hooks=given.hooks, listen=given.listen, estimator=given.estimator, capabilities=given.capabilities
    )
    given = given._replace(tools=to_tools(given.tools))
    check_session_objects(
        system=given.system,
        client=given.client,
        send=given.send,
        permit=given.permit,
        may_read=given.may_read,
    )
    chosen = loaded.options
    settings = build_settings(
        chosen,
        capabilities=given.capabilities or capabilities_of(chosen),
        costs=given.costs,
        transcript=_path_for_model(given.path, chosen),
        estimator=given.estimator,
    )
    found = load_hooks(chosen.hooks)
    store, end_stores = open_session_store(given.path, chosen.store, given.access)
    try:
        hooks = add_hooks(given.hooks, found.hooks)
        parts = _make_parts(given, chosen, hooks, _place_session(store, given.cwd), end_stores)
        opened = InterruptibleRuntime(settings, store, parts, given.session_start)
    except BaseException:
        try:
            # If other sessions of this process use the same place, that stays open, with all its stores.
            store.close()
        finally:
            end_stores()
        raise
    opened.runtime.remark(*loaded.notes, *found.notes)
    return opened


def _check_choice(name: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise UsageError(f"{name} is {given!r}, and takes {', '.join(map(repr, known))}.")


def _make_parts(
    given: OpenArguments, options: Options, hooks: Hooks, folder: str, end_stores: Callable[[], None]
) -> SessionParts:
    memory = open_memory(options.memory, folder, given.may_read)
    return SessionParts(
        provider=connect(given.client, given.send, options.provider),
        options=options,
        system=memory.add_to(given.system) if memory else given.system,
        tools=tuple(memory.attach_to(tool) if memory else tool for tool in given.tools),
        memory=memory,
        hooks=hooks,
        permit=given.permit,
        listen=given.listen,
        roots=tuple(to_folders(given.roots)) or (folder,),
        cwd=folder,
        clock=given.clock,
        new_id=given.new_id,
        hold_timer=given.hold_timer,
        end_stores=end_stores,
    )


def _path_for_model(path: str | os.PathLike[str], options: Options) -> str:
    """The transcript that the model is told to read. It cannot read one in a database, nor one whose name
    cannot be written in JSON."""
    real = "" if options.store.url else os.path.realpath(path)
    return real if replace_lone_surrogates(real) == real else ""


def _place_session(store: Store, cwd: str | os.PathLike[str] | None) -> str:
    """The folder that the session works in: as given, else as recorded, else the current one."""
    folder = os.fspath(cwd) if cwd is not None else recorded_folder(store.records) or os.getcwd()
    store.place = LineContext(cwd=replace_lone_surrogates(folder))
    return folder
