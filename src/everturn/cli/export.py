"""`everturn export`: conversations of a store as session files, which every command opens.

Exit codes: 0 when it was written or listed; 1 when the store or the conversation cannot be read, with the
reason on stderr; 2 for wrong arguments.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from everturn.cli.configured import configured
from everturn.cli.output import say, say_json, write_output

if TYPE_CHECKING:
    from everturn.decide.options import Options
    from everturn.session.store.factory import StoreFactory
    from everturn.session.store.protocol import Store


@click.command(short_help="Write a conversation of a store as a session file.")
@click.argument("conversation", required=False)
@click.option("--store", "url", metavar="URL", help="The store: a folder, sqlite:PATH or postgresql://...")
@click.option("--tenant", help="Whose conversation it is; `default` unless configured.")
@click.option("--out", type=click.Path(path_type=Path), help="Output file; standard output if not given.")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@configured
def export(
    conversation: str | None,
    url: str | None,
    tenant: str | None,
    out: Path | None,
    as_json: bool,
    options: "Options",
) -> None:
    """Write the lines of CONVERSATION as they were recorded. Without CONVERSATION, list them.

    CONVERSATION is a name from the list, or its end: what `x-everturn-session` says is enough.

    The store is the one given with --store, or configured as `store.url`. It is not changed. With
    --out, large results that were moved to files are written beside it, into FILE.files, and its state
    into FILE.state.json. What the conversation has lost is said on stderr.
    """
    from everturn.session.store.places import open_for_reading

    owner = tenant or options.store.tenant
    place = url or options.store.url.reveal()
    if not place:
        raise click.UsageError("No store is named: use --store URL, or configure `store.url`.")
    with TemporaryDirectory(prefix="everturn-export-") as folder:
        stores = open_for_reading(place, Path(folder))
        try:
            if conversation is None:
                _list(stores, owner, as_json)
            else:
                name = _find(stores, owner, conversation)
                store = stores.open(owner, name, access="read")
                _write(store, out)
                _warn(name, store.notes)
        finally:
            stores.close()


def _list(stores: "StoreFactory", tenant: str, as_json: bool) -> None:
    import msgspec

    found = stores.conversations(tenant)
    if as_json:
        rows = [{"conversation": each.name, "changed_at": each.changed_at} for each in found]
        say_json(msgspec.json.encode(rows))
        return
    for each in found:
        say(f"{each.changed_at:%Y-%m-%d %H:%M:%S}  {each.name}")
    if not found:
        say(f"The tenant {tenant} has no conversation in {stores.name}.", err=True)


def _find(stores: "StoreFactory", tenant: str, given: str) -> str:
    """The whole name of a conversation; `given` where that is one, or is the end of none."""
    names = [each.name for each in stores.conversations(tenant)]
    found = [given] if given in names else [name for name in names if name.endswith(f"-{given}")]
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} conversations end with {given}. Give the whole name of one.")
    return found[0] if found else given


def _write(store: "Store", out: Path | None) -> None:
    from everturn.safe_files import MAX_SESSION_BYTES, read_file
    from everturn.session.private_files import write_blob
    from everturn.session.store.jsonl_store import FILES_SUFFIX
    from everturn.session.transcripts import STATE_SUFFIX

    # Before the lines: it says where they ended, and somebody may be writing more of them.
    state = store.read_state()
    data = read_file(store.write_copy(), max_bytes=MAX_SESSION_BYTES)
    if out is None:
        if sys.stdout.isatty():
            # Byte for byte as recorded, so a text of a model could control the terminal.
            raise click.UsageError("Not written to a terminal: use --out FILE, or pipe it into a program.")
        sys.stdout.buffer.write(data)
        return
    write_output(out, data)
    if state:
        write_output(Path(f"{out}{STATE_SUFFIX}"), state)
    blobs = Path(store.blob_folder)
    for each in sorted(blobs.iterdir()) if blobs.is_dir() else ():
        write_blob(Path(f"{out}{FILES_SUFFIX}"), each.name, read_file(each, max_bytes=MAX_SESSION_BYTES))


def _warn(name: str, notes: Sequence[str]) -> None:
    """Say what the store noted when it opened the conversation: whoever gets the file must know that it is
    not all."""
    if notes:
        more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
        say(f"Warning: {name}: {notes[0]}{more}", err=True)
