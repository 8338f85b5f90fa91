"""The parts that an adapter's tracker is built from: options, and objects that the program passes in.

Two steps of a policy are off unless you configure them. Large results are not moved to files, because the
caller's agent may not be able to read them there. The API's own context management is not used, because a
changed request should not need a beta that its caller did not ask for.
"""

import inspect
import os
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from everturn.adapters.tracking.caller_request import BreakpointOwner, CallerRequest
from everturn.adapters.tracking.transcript_folder import OpenTranscripts
from everturn.decide.events import Event
from everturn.decide.micro.declarative import keeps_all_thinking
from everturn.decide.options import Options
from everturn.engine import ConversationSettings
from everturn.measure.capabilities import ANTHROPIC, Capabilities
from everturn.measure.model import Model
from everturn.measure.model_table import find_model
from everturn.measure.outline import TokenCosts
from everturn.measure.tokens import Estimator
from everturn.session.config.load import ConfigChoice, resolve_options
from everturn.session.config.sources import check_arguments
from everturn.session.files import Roots, resolve_roots
from everturn.session.hold_timers import THREADS, HoldTimer
from everturn.session.hooks.load import HooksArgument, divide_hooks, load_hooks
from everturn.session.hooks.run import Hooks, add_hooks
from everturn.session.new_ids import new_uuid
from everturn.session.opening import build_settings
from everturn.session.program_objects import check_program_objects, refuse, to_folders
from everturn.session.store.factory import StoreFactory
from everturn.session.store.places import default_folder

# The caller's request does not ask for cache diagnostics, so the changed request does not either.
ADAPTER_CAPABILITIES: Final = msgspec.structs.replace(ANTHROPIC, diagnostics=False)
# Defaults of all adapters, see above.
SURFACE_DEFAULTS: Final = {"micro.oversize.enabled": False, "micro.declarative.enabled": False}
# Keywords of version 0.1 and the config keys that replaced them.
RENAMED_ARGUMENTS: Final = {"ways": "compact.strategies", "most": "limits.conversations"}
# What `make_parts` is given by an adapter and not by a program.
_OF_ADAPTERS: Final = {"defaults", "fixed", "overrides"}
_OWNERS: Final[tuple[str, ...]] = get_args(BreakpointOwner)


class TrackerParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a `ConversationTracker` is built from."""

    options: Options
    # Folder for transcripts; None keeps conversations in memory only. Not used if there is a store.
    folder: Path | None
    # Where else transcripts are kept, instead of files in the folder.
    transcripts: OpenTranscripts | None = None
    # Where conversations are kept, if somebody else opens and closes it; otherwise `store.url` is opened.
    stores: StoreFactory | None = None
    # Who places cache breakpoints.
    breakpoints: BreakpointOwner = "everturn"
    readable: Roots | None = None
    capabilities: Capabilities = ADAPTER_CAPABILITIES
    costs: TokenCosts | None = None
    estimator: Estimator | None = None
    hooks: Hooks = Hooks()
    listen: Callable[[Event], None] = lambda _: None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    new_id: Callable[[], str] = new_uuid
    # Waits until a hold is due, for callers that are not asynchronous.
    hold_timer: HoldTimer = THREADS
    # Notices of the config loader: renamed keys, ignored values.
    notes: tuple[str, ...] = ()


class SettingsSource:
    """The settings for requests. What depends only on the model and on who decides is built once: most
    requests have a model that an earlier one had."""

    MAX_ENTRIES: Final = 64

    def __init__(self, parts: TrackerParts) -> None:
        self._parts = parts
        self._observed = msgspec.structs.replace(parts.options, enabled=False)
        self._without_breakpoints = msgspec.structs.replace(parts.capabilities, max_breakpoints=0)
        self._known: dict[tuple[str, bool, bool, Hashable], tuple[Model | None, ConversationSettings]] = {}

    def settings_for(self, request: CallerRequest, transcript: str) -> ConversationSettings:
        """The settings for one request. `transcript` is the path of the conversation's transcript."""
        return msgspec.structs.replace(
            self._find(request),
            transcript=transcript,
            preamble=request.preamble,
            parameters=request.parameters,
            fields=request.fields,
        )

    def _find(self, request: CallerRequest) -> ConversationSettings:
        key = (
            request.model,
            request.is_observed,
            request.breakpoints == "caller",
            self._thinking_key(request),
        )
        # A program may add a row to the table at any time.
        row, known = find_model(request.model), self._known.get(key)
        if known is None or known[0] is not row:
            if len(self._known) >= self.MAX_ENTRIES:
                self._known = {}
            known = self._known[key] = row, self._build(request)
        return known[1]

    def _thinking_key(self, request: CallerRequest) -> Hashable:
        """What decides how much thinking the model is shown: the caller's wish, or ours if we declare one."""
        if keeps_all_thinking(request.fields.get("context_management")):
            return True
        parameters = request.parameters
        return self._parts.options.declares and (str(parameters.thinking), parameters.betas)

    def _build(self, request: CallerRequest) -> ConversationSettings:
        parts = self._parts
        return build_settings(
            self._observed if request.is_observed else parts.options,
            capabilities=self._without_breakpoints if request.breakpoints == "caller" else parts.capabilities,
            costs=parts.costs,
            model=request.model,
            parameters=request.parameters,
            # Not part of the key, but they may say how much thinking the model is shown.
            fields=request.fields,
            decides="caller",
            estimator=parts.estimator,
        )


def make_parts(
    options: Options | str | None,
    *,
    summary_model: str = "",
    config: ConfigChoice = "auto",
    folder: str | os.PathLike[str] | None = "",
    readable: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    defaults: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
    breakpoints: BreakpointOwner = "everturn",
    hooks: HooksArgument = None,
    listen: Callable[[Event], None] = lambda _: None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    new_id: Callable[[], str] = new_uuid,
    costs: TokenCosts | None = None,
    estimator: Estimator | None = None,
    capabilities: Capabilities = ADAPTER_CAPABILITIES,
    hold_timer: HoldTimer = THREADS,
    **overrides: Any,
) -> TrackerParts:
    """Load the options and build the parts. `options` may be the name of a policy; `overrides` are config
    keys. `summary_model` overrides the key `compact.summary_model`. `folder` is the folder for transcripts:
    "" for the user's data folder, None to keep conversations in memory only. `readable` lists folders from
    which files may be read again after a compaction. `defaults` are values that the adapter prefers, and
    `fixed` those that it requires: they override the configuration."""
    # The frameworks place the breakpoints themselves.
    _check_keywords(overrides, _OF_ADAPTERS if fixed is None else {*_OF_ADAPTERS, "breakpoints"})
    callbacks, overrides = divide_hooks(hooks, overrides)
    if breakpoints not in _OWNERS:
        refuse("breakpoints", f"one of {', '.join(map(repr, _OWNERS))}", breakpoints, _OWNERS)
    check_program_objects(hooks=callbacks, listen=listen, estimator=estimator, capabilities=capabilities)
    values = _to_config_values(overrides, summary_model, folder)
    if isinstance(options, str):
        options, values = None, {"policy": options, **values}
    preferred = {**SURFACE_DEFAULTS, **(defaults or {})}
    loaded = resolve_options(options, values, config=config, defaults=preferred)
    chosen = loaded.options
    in_memory = chosen.store.kind == "memory"
    required = {**(fixed or {}), **({"micro.oversize.enabled": False} if in_memory else {})}
    if required:
        chosen = resolve_options(chosen, required, config=None).options
    folder_path = Path(chosen.store.folder).expanduser() if chosen.store.folder else default_folder()
    found = load_hooks(chosen.hooks)
    allowed = resolve_roots(to_folders(readable)) if readable else None
    return TrackerParts(
        options=chosen,
        folder=None if in_memory else folder_path.absolute(),
        breakpoints=breakpoints,
        readable=allowed,
        capabilities=capabilities,
        costs=costs,
        estimator=estimator,
        hooks=add_hooks(callbacks, found.hooks),
        listen=listen,
        clock=clock,
        new_id=new_id,
        hold_timer=hold_timer,
        notes=(*loaded.notes, *found.notes),
    )


def _check_keywords(given: Iterable[str], unknown: Collection[str]) -> None:
    arguments = [name for name in inspect.signature(make_parts).parameters if name not in unknown]
    check_arguments(given, arguments, RENAMED_ARGUMENTS)


def _to_config_values(
    overrides: Mapping[str, Any], summary_model: str, folder: str | os.PathLike[str] | None
) -> dict[str, Any]:
    """The arguments of a program as values of config keys."""
    values = {RENAMED_ARGUMENTS.get(name, name): value for name, value in overrides.items()}
    if summary_model:
        values["compact.summary_model"] = summary_model
    if folder is None:
        values["store.kind"] = "memory"
    elif folder != "":
        values["store.folder"] = os.fspath(folder)
    return values
