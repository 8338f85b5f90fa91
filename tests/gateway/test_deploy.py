"""The files in deploy/: they can be read, and their commands do what docs/gateway.md says."""

import configparser
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import builders as b
import pytest
import yaml
from click.testing import CliRunner
from gateway.lab import MODEL, RawUpstream, message, reply
from gateway.test_restart import started
from postgres_server import find_programs, sql

from everturn.cli import main
from everturn.cli.gateway import gateway
from everturn.session.store.places import open_stores

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def instruction(name: str) -> str:
    """The last instruction of this name, in one line."""
    lines = [line for line in DOCKERFILE.replace("\\\n", " ").splitlines() if not line.startswith("#")]
    return [line for line in lines if line.startswith(f"{name} ")][-1].partition(" ")[2]


def read_unit() -> configparser.ConfigParser:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((DEPLOY / "everturn-gateway.service").read_text(encoding="utf-8"))
    return unit


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def with_files(words: list[str], folder: Path) -> list[str]:
    """The words with the file of tokens of a test, and on this machine only."""
    changed = [re.sub(r"/\S*tokens\.json$", str(folder / "tokens.json"), word) for word in words]
    return [word.replace("0.0.0.0", "127.0.0.1") for word in changed]


@pytest.mark.parametrize("file", ["Dockerfile", "compose.yaml"])
def test_the_command_of_a_deployment_serves_and_ends_with_success(
    tmp_path: Path, postgres_url: str, tenant: str, file: str
):
    commands = {
        "Dockerfile": json.loads(instruction("CMD")),
        "compose.yaml": COMPOSE["services"]["gateway-1"]["command"],
    }
    made = CliRunner().invoke(main, ["gateway", "token", tenant, "--tokens", f"{tmp_path}/tokens.json"])
    upstream = RawUpstream(reply(json.dumps(message()).encode()))
    words = [*with_files(commands[file], tmp_path), "--upstream", upstream.url]
    asked = {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Hello."}]}
    environment = {"EVERTURN_STORE_URL": postgres_url} if file == "compose.yaml" else {}
    with started(tmp_path, *words, environment=environment) as running:
        host, port = running.address
        request = urllib.request.Request(
            f"http://{host}:{port}/v1/messages",
            json.dumps(asked).encode(),
            {"x-everturn-token": made.stdout.strip(), "content-type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200
        if file == "Dockerfile":
            check_health(running.operator)
        else:
            # A Prometheus beside the gateways asks for them by their names.
            scrapes = [
                urllib.request.Request(f"{running.operator}/metrics", headers={"host": f"{name}:8378"})
                for name in COMPOSE["services"]
                if name.startswith("gateway-")
            ]
            assert [urllib.request.urlopen(each).status for each in scrapes] == [200, 200]
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(20) == 0
    upstream.close()
    if environment:
        kept = sql(postgres_url, "SELECT count(*) FROM everturn.line WHERE tenant = $1", tenant)
        assert kept == [(2,)]


def check_health(operator: str) -> None:
    command = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    command[-1] = command[-1].replace("http://127.0.0.1:8378", operator)
    assert subprocess.run([sys.executable, *command[1:]], timeout=20).returncode == 0


def test_the_image_installs_what_the_gateway_needs_and_runs_as_a_user_of_its_own():
    assert json.loads(instruction("ENTRYPOINT")) == ["everturn", "gateway"]
    assert instruction("USER") == "everturn"
    root = DEPLOY.parent
    copied = [
        word for line in re.findall(r"^COPY (.*) \S+$", DOCKERFILE, re.MULTILINE) for word in line.split()
    ]
    assert all((root / each).exists() for each in copied)
    assert "'.[gateway,postgres]'" in DOCKERFILE
    extras = re.findall(r"^(\w+) = \[", (root / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"gateway", "postgres"} <= set(extras)


def test_replicas_are_alike_and_are_given_the_time_to_end():
    services = COMPOSE["services"]
    assert services["gateway-1"] == services["gateway-2"]
    first = services["gateway-1"]
    [given] = [word for word in first["command"] if word.startswith("--shutdown-seconds=")]
    assert seconds(first["stop_grace_period"]) > int(given.partition("=")[2])
    assert first["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    # Only the server with TLS can be reached from outside.
    assert [name for name, each in services.items() if "ports" in each] == ["tls"]
    proxied = re.search(r"reverse_proxy (.*) \{", (DEPLOY / "Caddyfile").read_text(encoding="utf-8"))
    assert proxied
    assert proxied[1].split() == ["gateway-1:8377", "gateway-2:8377"]


def test_the_password_of_the_database_may_have_characters_that_an_address_cannot_have():
    environment = COMPOSE["services"]["gateway-1"]["environment"]
    assert environment == {
        "EVERTURN_STORE_URL": "postgresql://everturn@postgres/everturn",
        "PGPASSWORD": COMPOSE["services"]["postgres"]["environment"]["POSTGRES_PASSWORD"],
    }


def test_the_service_has_options_that_exist_and_is_given_the_time_to_end():
    unit = read_unit()["Service"]
    words = shlex.split(unit["ExecStart"])
    assert words[:2] == ["/opt/everturn/bin/everturn", "gateway"]
    assert gateway.make_context("gateway", words[2:]).params["host"] == "127.0.0.1"
    assert int(unit["TimeoutStopSec"]) > int(re.findall(r"--shutdown-seconds (\d+)", unit["ExecStart"])[0])


def test_a_backup_of_the_schema_is_restored_into_another_database(new_database: str, tmp_path: Path):
    """As docs/gateway.md says: pg_dump while replicas run, psql into an empty database."""
    programs = find_programs()
    assert programs
    stores = open_stores(new_database, folder=tmp_path / "before")
    stores.open("team", "one").append([b.user("hi")])
    stores.open("team", "one", access="read")
    dump = subprocess.run(
        [programs / "pg_dump", "--schema=everturn", "--no-owner", new_database],
        capture_output=True,
        check=True,
    ).stdout
    stores.close()
    sql(new_database, "DROP SCHEMA everturn CASCADE")
    environment = {**os.environ, "PGOPTIONS": "--client-min-messages=warning"}
    subprocess.run(
        [programs / "psql", "--quiet", "--set=ON_ERROR_STOP=1", "--output=/dev/null", new_database],
        input=dump,
        env=environment,
        check=True,
    )
    restored = open_stores(new_database, folder=tmp_path / "after")
    # Its lease was held when the backup was made, and ends by itself.
    assert [each.uuid for each in restored.open("team", "one", access="read").records] == ["hi"]
    sql(new_database, "UPDATE everturn.conversation SET lease_until = clock_timestamp()")
    restored.open("team", "one").append([b.user("again")])
    restored.close()
