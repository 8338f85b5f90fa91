"""Guards, how each is broken, and the tests that must notice (S06).

A row names a module, a piece of its source that stands there exactly once, and what it becomes. The piece is
the guard itself, so a row that no longer finds it says that the guard has moved, and the row has to move with
it. Tests are named so narrowly that all rows together take a minute of one core.
"""

from typing import NamedTuple


class Guard(NamedTuple):
    name: str
    module: str
    source: str
    becomes: str
    tests: tuple[str, ...]


GATE = ("tests/decide/compact/test_gate.py",)
ANSWER = ("tests/decide/compact/test_summary_response.py",)
WHEN = ("tests/decide/compact/test_triggers.py",)
REPAIR = ("tests/history/test_repair.py",)
FLATTEN = ("tests/view/test_flatten.py",)
STORE = ("tests/session/test_store.py",)
FILES = ("tests/session/test_files.py",)
MEMORY = ("tests/session/test_memory_files.py",)
HOOKS = ("tests/session/test_hooks.py", "tests/security/test_hooks.py")
CONFIG = ("tests/security/test_project_files.py",)
EVENTS = ("tests/session/test_events.py",)
SECRETS = ("tests/security/test_secrets.py",)
LOG = ("tests/history/test_log.py",)
PROCESSES = "tests/security/test_processes.py"
INJECTION = "tests/security/test_injection.py"
ALWAYS = "tests/security/test_always_allowed.py"
BREAKS = ("tests/decide/test_cache_breaks.py",)

GUARDS: tuple[Guard, ...] = (
    # ── which summaries are let in ──
    Guard(
        "gate: no syntax of a call",
        "everturn.decide.compact.gate",
        '    if _CALL.search(_QUOTE.sub("", text)):\n',
        "    if False:\n",
        GATE,
    ),
    Guard(
        "gate: no skeleton",
        "everturn.decide.compact.gate",
        "    if _words_beside_headings(text) < settings.least_words:\n",
        "    if False:\n",
        GATE,
    ),
    Guard(
        "gate: smaller than what it replaces",
        "everturn.decide.compact.gate",
        ">= plan.tokens_summarized:\n",
        ">= 10**9:\n",
        GATE,
    ),
    Guard(
        "gate: no error, nothing empty",
        "everturn.decide.compact.gate",
        "    if problem := text_problem(text, settings):\n",
        '    if problem := "":\n',
        GATE,
    ),
    Guard(
        "answer: an error is no summary",
        "everturn.decide.compact.summary_response",
        "    if _ERROR.search(told) or (",
        "    if (",
        ANSWER,
    ),
    Guard(
        "answer: a refusal is no summary",
        "everturn.decide.compact.summary_response",
        'return "the model refused" if is_brief and',
        'return "the model refused" if False and',
        ANSWER,
    ),
    Guard(
        "answer: what was cut off is no summary",
        "everturn.decide.compact.summary_response",
        '    if stop_reason == "max_tokens":\n',
        '    if stop_reason in _WHOLE:\n        return ""\n    if False:\n',
        ANSWER,
    ),
    Guard(
        "answer: what did not end by itself is no summary",
        "everturn.decide.compact.summary_response",
        '"" if stop_reason in _WHOLE else',
        '"" if True else',
        ANSWER,
    ),
    # ── how often it is tried ──
    Guard(
        "breaker: three failures",
        "everturn.decide.compact.breakers",
        "        return self.failures >= self.limit\n",
        "        return False\n",
        WHEN,
    ),
    Guard(
        "breaker: calls in vain are counted",
        "everturn.decide.compact.breakers",
        "self._changed(now, spent=self.spent + 1)",
        "self._changed(now, spent=self.spent)",
        ("tests/incidents/test_loops_and_money.py::test_a_forbidden_compaction_still_consumed_usage",),
    ),
    Guard(
        "breaker: a refill stops the loop",
        "everturn.decide.compact.breakers",
        "        return is_rapid(chain, settings) and self.in_a_row + 1 >= settings.refills\n",
        "        return False\n",
        WHEN,
    ),
    Guard(
        "breaker: a stop does not end by itself",
        "everturn.decide.compact.breakers",
        "        return bool(chain.follows) and chain.follows == self.stopped\n",
        "        return False\n",
        (
            "tests/incidents/test_loops_and_money.py"
            "::test_every_turn_refilled_the_context_and_was_compacted_again",
        ),
    ),
    Guard(
        "breaker: what an earlier process knew",
        "everturn.session.resume",
        "    conversation.compaction_state.remember(state.breaker, state.refill)\n",
        "",
        (
            "tests/incidents/test_loops_and_money.py"
            "::test_every_turn_refilled_the_context_and_was_compacted_again",
        ),
    ),
    Guard(
        "breaker: counts from a file begin at 0",
        "everturn.decide.compact.breakers",
        "            spent=max(0, self.spent),\n",
        "",
        ("tests/security/test_stored_data.py::test_no_state_file_buys_more_calls_than_one_session_may_make",),
    ),
    Guard(
        "cap of calls: one compaction",
        "everturn.decide.compact.summary_calls",
        "            if not self._left:\n",
        "            if False:\n",
        (
            "tests/faults/test_stuck_sessions.py"
            "::test_summaries_that_cannot_be_repaired_cost_three_calls_and_the_reason_is_named",
        ),
    ),
    Guard(
        "breaker: a try is noted before it is made",
        "everturn.decide.compact.state",
        "                self.breaker = self.breaker.before_try(now)\n",
        "",
        (
            "tests/faults/test_stuck_sessions.py::test_a_process_that_dies_in_every_summary_is_not_given_new_calls",
        ),
    ),
    Guard(
        "a compaction never compacts itself",
        "everturn.decide.compact.triggers",
        "    if is_internal(source, settings):\n",
        "    if False:\n",
        WHEN,
    ),
    Guard(
        "a result over the mark is a failure",
        "everturn.decide.compact.flow",
        "        if made.tokens_after < most:\n",
        "        if True:\n",
        ("tests/faults/test_flow_chain.py::test_a_result_over_the_mark_is_a_failure_of_its_way",),
    ),
    # ── what is sent ──
    Guard(
        "pairs: a call without a result",
        "everturn.history.repair",
        "        found.append(result_block(name, NO_RESULT, is_error=True))\n",
        "",
        REPAIR,
    ),
    Guard(
        "pairs: a result without a call",
        "everturn.history.repair",
        "        strays.extend(_told(block, repairs, is_repeat=block.call in known))\n",
        "        found.append(block)\n",
        REPAIR,
    ),
    Guard(
        "ids: used twice",
        "everturn.history.repair",
        "        if not block.call or block.call in used:\n",
        "        if False:\n",
        REPAIR,
    ),
    Guard(
        "thinking: never the last message alone",
        "everturn.view.flatten",
        "    return bool(blocks) and all(block.is_thinking or block is UNSPOKEN for block in blocks)\n",
        "    return False\n",
        FLATTEN,
    ),
    Guard(
        "thinking: what is bound to another prefix leaves",
        "everturn.decide.thinking",
        "        must_go = bool(self._broken) and now.model.binds_thinking\n",
        "        must_go = False\n",
        ("tests/decide/test_thinking.py",),
    ),
    Guard(
        "surrogates: half a character",
        "everturn.wire.line_repair",
        '"\\\\ufffd", text)\n',
        '"\\\\ud83d", text)\n',
        ("tests/wire/test_mending.py",),
    ),
    Guard(
        "markers: their number",
        "everturn.view.breakpoints",
        "for spot, _ in wanted[: capabilities.max_breakpoints])",
        "for spot, _ in wanted)",
        ("tests/view/test_breakpoints.py",),
    ),
    Guard(
        "markers: where one may stand",
        "everturn.view.breakpoints",
        "    return block.kind not in _UNMARKABLE and not is_blank(block)\n",
        "    return True\n",
        ("tests/view/test_breakpoints.py",),
    ),
    Guard(
        "prefix: the first parameters hold",
        "everturn.view.key_parameters",
        "    return LatchedParameters(latched, tuple(said))\n",
        "    return Held(wanted, tuple(said))\n",
        ("tests/view/test_key_parameters.py",),
    ),
    Guard(
        "wrappers: a summary cannot close its own",
        "everturn.view.fragments.escaping",
        '    return _TAGS.sub("&lt;", text)\n',
        "    return text\n",
        ("tests/decide/compact/test_build_records.py",),
    ),
    Guard(
        "wrappers: quoted data cannot either",
        "everturn.decide.extractive.writing.quoting",
        '    return _TAG.sub("&lt;", text)\n',
        "    return text\n",
        ("tests/security/test_injection.py",),
    ),
    Guard(
        "too long: the wordings of vendors",
        "everturn.wire.overflow",
        "        if match := wording.pattern.search(message):\n",
        "        if match := None:\n",
        ("tests/wire/test_overflow.py",),
    ),
    # ── what is kept ──
    Guard(
        "store: synced before it is acknowledged",
        "everturn.session.store.jsonl_store",
        '            if self._fsync == "always":\n',
        "            if False:\n",
        ("tests/faults/test_power_loss.py",),
    ),
    Guard(
        "store: one writer",
        "everturn.session.store.lock",
        "                if not self._io.try_lock(fd):\n",
        "                if False:\n",
        STORE,
    ),
    Guard(
        "store: a torn tail is left alone",
        "everturn.session.store.record_lines",
        'start = b"\\n" if self._starts_new_line else b""',
        'start = b""',
        STORE,
    ),
    Guard(
        "store: a failed write takes nothing more",
        "everturn.session.store.jsonl_store",
        '            self.read_only_reason = (\n                f"an append failed',
        '            _ = (\n                f"an append failed',
        ("tests/faults/test_failures.py",),
    ),
    Guard(
        "store: half a compaction is undone",
        "everturn.session.store.line_tags",
        "    if at is None or not _is_cut_off(records, at):\n",
        "    if True:\n",
        STORE,
    ),
    Guard(
        "store: a retry is not stored twice",
        "everturn.session.store.record_lines",
        "            known = self._known.get(record.uuid) or new.get(record.uuid)\n",
        "            known = None\n",
        STORE,
    ),
    Guard(
        "store: lines of strangers",
        "everturn.session.store.jsonl_store",
        "        if state.size != self._size:\n",
        "        if False:\n",
        STORE,
    ),
    Guard(
        "store: a newer format is not written",
        "everturn.session.store.jsonl_store",
        "        if (newer := find_newest_format(data)) > FORMAT:\n",
        "        if (newer := 0) > FORMAT:\n",
        STORE,
    ),
    Guard(
        "store: permissions of the transcript",
        "everturn.safe_files",
        "FILE_MODE = 0o600\n",
        "FILE_MODE = 0o644\n",
        STORE,
    ),
    Guard(
        "permissions: folders of results",
        "everturn.safe_files",
        "FOLDER_MODE = 0o700\n",
        "FOLDER_MODE = 0o755\n",
        ("tests/security/test_permissions.py",),
    ),
    Guard(
        "log: a boundary takes force with its summary",
        "everturn.history.log",
        "        if not record.compact_summary:\n",
        "        if False:\n",
        LOG,
    ),
    Guard(
        "undo: what was there comes back",
        "everturn.history.log",
        "        self._shown = [*past.shown, *since[said:]]\n",
        "        self._shown = [*since[said:]]\n",
        LOG,
    ),
    Guard(
        "pins: carried through a compaction",
        "everturn.decide.compact.pins",
        "        if (tokens := estimate(text)) <= left:\n",
        "        if (tokens := 10**9) <= left:\n",
        ("tests/decide/compact/test_pins.py",),
    ),
    Guard(
        "pins: only people pin",
        "everturn.decide.compact.pins",
        '    if record.kind != "user" or record.meta or record.compact_summary or record.display_only:\n',
        "    if False:\n",
        ("tests/decide/compact/test_pins.py",),
    ),
    Guard(
        "recall: the index keeps up",
        "everturn.session.recall.search",
        "    index.catch_up()\n",
        "",
        ("tests/incidents/test_torn_transcripts.py::test_the_index_was_out_of_step_with_the_transcript",),
    ),
    Guard(
        "an answer that is no message is none",
        "everturn.session.upstream",
        "    if not (parsed.response.reply.message_id or parsed.response.blocks):\n",
        "    if False:\n",
        ("tests/session/test_conversation_runner.py",),
    ),
    # ── who may do what ──
    Guard(
        "confinement: files that come back",
        "everturn.safe_files",
        "os.open(last, _READ | os.O_NOFOLLOW, dir_fd=at)",
        "os.open(last, _READ, dir_fd=at)",
        FILES,
    ),
    Guard(
        "confinement: the place of a file",
        "everturn.session.files",
        '            if real.startswith(folder.rstrip("/") + "/"):\n',
        "            if True:\n",
        FILES,
    ),
    Guard(
        "confinement: memory files",
        "everturn.session.memory_files.confined",
        "            if real.is_relative_to(resolved):\n",
        "            if True:\n",
        MEMORY,
    ),
    Guard(
        "confinement: a memory file's folders",
        "everturn.safe_files",
        "os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=at)",
        "os.open(part, _FOLDER, dir_fd=at)",
        MEMORY,
    ),
    Guard(
        "confinement: links where we write",
        "everturn.safe_files",
        "_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW",
        "_WRITE = os.O_WRONLY | os.O_CREAT",
        (
            "tests/security/test_confinement.py"
            "::test_a_link_that_lies_where_we_are_about_to_write_is_not_followed",
        ),
    ),
    Guard(
        "confinement: a link for a lock",
        "everturn.session.store.lock",
        "CREATE | os.O_NOFOLLOW",
        "CREATE",
        (
            "tests/security/test_confinement.py"
            "::test_a_link_that_lies_where_we_are_about_to_write_is_not_followed",
        ),
    ),
    Guard(
        "secrets by name: files that come back",
        "everturn.session.files",
        '            raise UnreadableFileError("its name suggests that it holds secrets")\n',
        "            pass\n",
        FILES,
    ),
    Guard(
        "hooks: trust",
        "everturn.session.hooks.settings",
        '    if reader.hooks and digest not in trusted and "*" not in trusted:\n',
        "    if False:\n",
        HOOKS,
    ),
    Guard(
        "hooks: no keys in the environment",
        "everturn.processes",
        '        if name in MINIMAL_VARIABLES or name.startswith("LC_")\n',
        "",
        HOOKS,
    ),
    Guard(
        "hooks: time",
        "everturn.session.hooks.commands",
        "    if done.is_late:\n",
        "    if False:\n",
        ("tests/session/test_hooks.py::test_a_command_that_hangs_is_ended_with_its_children",),
    ),
    Guard(
        "config: a project does not choose the address",
        "everturn.session.config.sources",
        'elif file.whose == "project" and name.startswith(NOT_FOR_PROJECTS):',
        "elif False:",
        CONFIG,
    ),
    Guard(
        "config: a key is not shown",
        "everturn.decide.options",
        'return "(set, not shown)" if self._value else "(not set)"',
        "return self._value",
        ("tests/security/test_secrets.py::test_a_key_in_the_configuration_is_shown_in_no_form",),
    ),
    Guard(
        "secrets: struck out of events",
        "everturn.redaction",
        "    return _SECRETS.sub(REDACTED, text[:MAX_CHARACTERS])\n",
        "    return text\n",
        EVENTS,
    ),
    Guard(
        "secrets: struck out of a provider's errors",
        "everturn.errors",
        "        message = redact_secrets(message)\n",
        "",
        ("tests/security/test_secrets.py::test_every_canary_is_recognised_by_itself",),
    ),
    Guard(
        "events: what is private is left out",
        "everturn.session.events.serialize",
        'if content == "included" or not _is_private(hints[name])',
        "if True",
        EVENTS,
    ),
    Guard(
        "events: a sink that fails costs no turn",
        "everturn.session.events.fan_out",
        "            except Exception as problem:\n",
        "            except ZeroDivisionError as problem:\n",
        EVENTS,
    ),
    # ── what a repository can do ──
    Guard(
        "git: nothing is fetched",
        "everturn.chat.tools.search.file_listing",
        '    "GIT_ALLOW_PROTOCOL": "none",\n    "GIT_NO_LAZY_FETCH": "1",\n',
        "",
        (f"{PROCESSES}::test_a_repository_runs_nothing_through_glob_and_grep",),
    ),
    Guard(
        "git: names of the index stay inside",
        "everturn.chat.tools.search.file_listing",
        "is_plain_path(path) and ",
        "",
        (f"{PROCESSES}::test_grep_and_glob_stay_inside_whatever_the_index_of_git_lists",),
    ),
    Guard(
        "processes: no program of the repository",
        "everturn.processes",
        " and not (outside and _is_below(each, outside))",
        "",
        (f"{PROCESSES}::test_a_program_in_the_repository_is_not_taken_for_git",),
    ),
    Guard(
        "processes: commands get no keys",
        "everturn.processes",
        "    return is_named_so or redact_secrets(value) == REDACTED or "
        "_PASSWORD_IN_URL.search(value) is not None\n",
        "    return False\n",
        (f"{PROCESSES}::test_a_command_of_the_chat_gets_no_key",),
    ),
    Guard(
        "doctor: runs nothing that a project names",
        "everturn.adapters.claude_code.doctor",
        "        if self.is_own:\n",
        "        if True:\n",
        (f"{PROCESSES}::test_doctor_runs_no_program_that_a_project_names",),
    ),
    Guard(
        "files: a receipt names no other file",
        "everturn.adapters.claude_code.settings.receipts",
        "    return found if _is_beside(found.backup, path) else None\n",
        "    return found\n",
        ("tests/security/test_files.py::test_uninstalling_from_a_project_follows_no_path_of_its_receipt",),
    ),
    Guard(
        "memory: a project imports nothing of the user's",
        "everturn.session.memory_files.discovery",
        "if root.resolve() != own)",
        "if root)",
        ("tests/security/test_files.py::test_a_projects_memory_imports_nothing_of_the_users_folder",),
    ),
    Guard(
        "authorship: unknown wrappers are not the user's",
        "everturn.decide.authorship",
        '        if not _BEFORE_WORDS.match(tag[1]):\n            return ""\n',
        "        if not _BEFORE_WORDS.match(tag[1]):\n            return words\n",
        (f"{INJECTION}::test_what_a_program_put_into_a_message_is_not_the_users",),
    ),
    Guard(
        "authorship: a model's list is marked",
        "everturn.decide.extractive.reading.earlier",
        "            is_reported = not is_ours or words.startswith(wording.REPORTED)\n",
        "            is_reported = False\n",
        (f"{INJECTION}::test_a_model_summary_cannot_write_into_the_users_messages",),
    ),
    Guard(
        "permissions: plain letters only",
        "everturn.chat.tools.command_scope",
        "    if not _PLAIN.match(command):\n",
        "    if False:\n",
        (f"{ALWAYS}::test_every_other_command_is_covered_word_for_word",),
    ),
    Guard(
        "permissions: files that run code are asked about",
        "everturn.chat.tools.files.edit",
        "not (target.is_secret or target.runs_code)",
        "not target.is_secret",
        (f"{ALWAYS}::test_accepted_edits_still_ask_for_files_that_run_code",),
    ),
    Guard(
        "network: no redirect is followed",
        "everturn.session.opening",
        "follow_redirects=False",
        "follow_redirects=True",
        ("tests/security/test_redirects.py",),
    ),
    # ── what is explained ──
    Guard(
        "cache breaks: changes explain them",
        "everturn.decide.cache_breaks",
        "    if pending:\n",
        "    if False:\n",
        BREAKS,
    ),
    Guard(
        "cache breaks: a compaction is no alarm",
        "everturn.decide.cache_breaks",
        'next call is a first call (CB-5)."""\n        self._forget(source)\n',
        'next call is a first call (CB-5)."""\n',
        BREAKS,
    ),
    Guard(
        "usage: never below zero",
        "everturn.session.upstream",
        "    return usage.clamped\n",
        "    return usage\n",
        ("tests/session/test_conversation_runner.py",),
    ),
)
