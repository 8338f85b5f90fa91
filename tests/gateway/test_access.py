"""Who may use a gateway, what is never kept, and what each route declares."""

import http.client
import json
import os
from pathlib import Path
from threading import Barrier, Thread

import pytest
from click.testing import CliRunner
from gateway.lab import KEY, MODEL, Lab, OpenLab, RawUpstream, message, reply

from everturn.cli import main
from everturn.gateway.access_log import make_access_log
from everturn.gateway.routes import CLIENT_ROUTES, OPERATOR_ROUTES, POLICIES
from everturn.gateway.tokens import add_token, load_tokens

ASK = {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}


def error_of(lab: Lab, **options: object) -> tuple[int, str]:
    found = lab.ask(ASK, **options)  # type: ignore[arg-type]
    return found.status, json.loads(found.body).get("error", {}).get("type", "")


HOSTS = [
    ({"host": "evil.example"}, "everturn_forbidden_host"),
    ({"host": "127.0.0.1.evil.example:8377"}, "everturn_forbidden_host"),
    ({"origin": "https://evil.example"}, "everturn_forbidden_origin"),
    ({"origin": "null"}, "everturn_forbidden_origin"),
    ({"sec-fetch-site": "cross-site"}, "everturn_forbidden_origin"),
    ({"host": "localhost:1"}, ""),
    ({"host": "[::1]:8377"}, ""),
    ({"host": "box.internal"}, ""),
]


@pytest.mark.spec("GW-18")
def test_a_web_page_cannot_use_a_gateway_on_loopback(lab: OpenLab):
    upstream = RawUpstream()
    running = lab(upstream, allowed_hosts={"box.internal"}, operator_port=0)
    for headers, kind in HOSTS:
        upstream.seen.clear()
        assert error_of(running, headers=headers) == ((403, kind) if kind else (200, ""))
        assert len(upstream.seen) == (0 if kind else 1)
        operator = running.ask(method="GET", path="/metrics", address=running.operator, headers=headers)
        assert operator.status == (403 if kind else 200)


@pytest.mark.spec("GW-18")
def test_beyond_loopback_only_a_token_opens_and_it_names_the_tenant(lab: OpenLab, tmp_path: Path):
    file = tmp_path / "tokens.json"
    first = add_token(file, "team-a", "", "a" * 43)
    second = add_token(file, "team-b", "manage", "a" * 42 + "b")
    assert first not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    upstream = RawUpstream()
    running = lab(upstream, tokens=load_tokens(file))
    for wrong in ({}, {"x-everturn-token": first[:-1]}, {"x-everturn-token": "x" * 10_000}):
        assert error_of(running, headers=wrong) == (401, "everturn_unauthorized")
    assert upstream.seen == []
    assert running.ask(ASK, headers={"x-everturn-token": first}).headers["x-everturn-mode"] == "observe"
    assert (
        running.ask(ASK, headers={"authorization": f"Bearer {second}"}).headers["x-everturn-mode"] == "manage"
    )
    # The gateway's token is not for the provider; the client's key is.
    for seen in upstream.seen:
        assert (seen.header("x-everturn-token"), seen.header("authorization")) == (None, None)
        assert seen.header("x-api-key") == KEY
    running.settle()
    assert {each.name for each in running.folder.iterdir()} == {"team-a", "team-b"}


@pytest.mark.spec("GW-18")
def test_every_route_declares_a_policy_and_nothing_else_is_served(lab: OpenLab):
    for route in (*CLIENT_ROUTES, *OPERATOR_ROUTES):
        assert route.policy in POLICIES
    assert {route.policy for route in CLIENT_ROUTES} == {"client"}
    upstream = RawUpstream()
    running = lab(upstream, operator_port=0)
    for path in (
        "/",
        "/metrics",
        "/livez",
        "/v2/messages",
        "/v1",
        "/v1/../admin",
        "/v1/%2e%2e/admin",
        "//v1/x",
    ):
        found = running.ask(method="GET", path=path)
        assert (found.status, json.loads(found.body)["type"]) in ((404, "error"), (400, "error"))
        assert running.ask(
            method="GET", path=path.replace("metrics", "x"), address=running.operator
        ).status in ((200,) if path == "/livez" else (404, 400))
    assert upstream.seen == []


@pytest.mark.spec("GW-18")
def test_spaces_around_a_token_are_no_part_of_it(lab: OpenLab, tmp_path: Path):
    token = add_token(tmp_path / "tokens.json", "team-a", "", "a" * 43)
    upstream = RawUpstream()
    running = lab(upstream, tokens=load_tokens(tmp_path / "tokens.json"))
    statuses = [
        running.ask(ASK, headers={"x-everturn-token": f"{before}{token}{behind}"}).status
        for before, behind in (("", ""), (" ", ""), ("", " "), ("\t ", " \t"))
    ]
    assert statuses == [200, 200, 200, 200]
    assert error_of(running, headers={"x-everturn-token": f"{token[:9]} {token[9:]}"})[0] == 401


@pytest.mark.spec("GW-18")
def test_every_client_route_is_closed_without_a_token(lab: OpenLab, tmp_path: Path):
    add_token(tmp_path / "tokens.json", "a", "", "c" * 43)
    upstream = RawUpstream()
    running = lab(upstream, tokens=load_tokens(tmp_path / "tokens.json"))
    for route in CLIENT_ROUTES:
        for method in route.methods or ("GET", "POST", "DELETE"):
            path = route.path + "x" if route.path == "/v1/" else route.path
            assert running.ask(method=method, path=path).status == 401
    assert upstream.seen == []


@pytest.mark.spec("GW-19")
def test_keys_are_passed_on_and_never_stored_or_logged(lab: OpenLab):
    lines: list[str] = []
    running: Lab

    def log(line: str) -> None:
        lines.append(line)

    from datetime import UTC, datetime

    upstream = RawUpstream(
        reply(json.dumps(message()).encode()), reply(b"no reply", "200 OK"), b"nonsense\r\n\r\n"
    )
    running = lab(upstream, log_request=make_access_log(log, lambda: datetime.now(UTC)))
    secret = {"authorization": f"Bearer {KEY}-2", "x-api-key": KEY, "cookie": f"a={KEY}-3"}
    answers = [running.ask(ASK, headers=secret, path=f"/v1/messages?key={KEY}-4") for _ in range(3)]
    running.settle()
    assert [each.status for each in answers] == [200, 200, 502]
    assert (upstream.seen[0].header("x-api-key"), upstream.seen[0].header("cookie")) == (KEY, f"a={KEY}-3")
    files = b"".join(each.read_bytes() for each in running.folder.rglob("*") if each.is_file())
    kept = [files, *(line.encode() for line in lines), running.gateway.metrics.write(), answers[2].body]
    assert [b"CANARY" in each for each in kept] == [False] * len(kept)
    assert len(files) > 100
    assert [json.loads(line)["path"] for line in lines] == ["/v1/messages"] * 3


@pytest.mark.spec("GW-19")
def test_a_redirect_is_relayed_and_not_followed(lab: OpenLab):
    other = RawUpstream()
    upstream = RawUpstream(reply(b"", "307 Temporary Redirect", f"location: {other.url}/v1/messages"))
    running = lab(upstream)
    found = running.ask(ASK)
    assert (found.status, found.headers["location"]) == (307, f"{other.url}/v1/messages")
    assert other.seen == []
    other.close()


@pytest.mark.spec("GW-19")
def test_nothing_in_a_request_chooses_the_upstream(lab: OpenLab):
    other = RawUpstream()
    host = other.url.removeprefix("http://")
    upstream = RawUpstream()
    running = lab(upstream)
    targets = [f"http://{host}/v1/messages", f"//{host}/v1/models", f"/v1/@{host}/", f"/v1/x?url={other.url}"]
    for target in targets:
        sock = running.raw(
            f"GET {target} HTTP/1.1\r\nhost: localhost\r\nx-forwarded-host: {host}\r\n\r\n".encode()
        )
        assert sock.recv(100).startswith(b"HTTP/1.1 ")
        sock.close()
    assert other.seen == []
    other.close()


@pytest.mark.spec("GW-18")
def test_the_command_needs_tokens_for_an_address_that_others_reach(tmp_path: Path):
    found = CliRunner().invoke(main, ["gateway", "--host", "0.0.0.0"])
    assert found.exit_code == 1
    assert "everturn gateway token NAME --tokens FILE" in found.output
    made = CliRunner().invoke(main, ["gateway", "token", "team", "--tokens", str(tmp_path / "t.json")])
    token = made.output.strip()
    assert token.startswith("evt_")
    tenant = load_tokens(tmp_path / "t.json").find_tenant(token)
    assert tenant is not None
    assert tenant.name == "team"


@pytest.mark.spec("GW-21")
def test_health_and_metrics_have_a_listener_of_their_own(lab: OpenLab):
    running = lab(
        RawUpstream(reply(json.dumps(message(cache_read_input_tokens=30)).encode())), operator_port=0
    )
    running.ask(ASK)
    running.ask(b"no JSON")
    running.settle()

    def get(path: str) -> tuple[int, str]:
        found = running.ask(method="GET", path=path, address=running.operator)
        return found.status, found.body.decode()

    assert (get("/livez"), get("/readyz")) == ((200, "ok\n"), (200, "ok\n"))
    status, text = get("/metrics")
    assert status == 200
    shown = {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line[0] != "#"
    }
    labels = 'endpoint="messages",mode="observe",status="200"'
    assert {name: shown[f"everturn_gateway_{name}"] for name in (
        f"requests_total{{{labels}}}", 'tokens_total{kind="cache_read"}', "cache_hit_ratio",
        'added_seconds_count{mode="observe"}', 'passed_through_total{reason="it is not JSON"}',
        "open_requests", "dollars_saved_net",
    )} == {
        f"requests_total{{{labels}}}": 2, 'tokens_total{kind="cache_read"}': 60, "cache_hit_ratio": 0.75,
        'added_seconds_count{mode="observe"}': 2, 'passed_through_total{reason="it is not JSON"}': 1,
        "open_requests": 0, "dollars_saved_net": 0,
    }  # fmt: skip
    assert shown['everturn_gateway_dollars_total{purpose="conversation"}'] > 0
    # Not ready while it stops.
    running.gateway.is_ready = False
    assert get("/readyz") == (503, "not ready\n")


def test_a_connection_is_kept_for_the_next_request(lab: OpenLab):
    running = lab(RawUpstream())
    connection = http.client.HTTPConnection(*running.address, timeout=10)
    for _ in range(2):
        connection.request("POST", "/v1/messages", json.dumps(ASK))
        assert connection.getresponse().read()
        kept = connection.sock
    assert connection.sock is kept
    connection.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_a_token_that_an_administrator_adds_leaves_the_file_to_the_user_of_the_gateway(tmp_path: Path):
    file = tmp_path / "tokens.json"
    add_token(file, "team-a", "", "a" * 43)
    os.chown(file, 10001, 10002)
    file.chmod(0o640)
    add_token(file, "team-b", "", "b" * 43)
    found = file.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (10001, 10002, 0o640)


def test_a_file_of_tokens_is_closed_to_others_and_keeps_the_mode_that_its_owner_gives_it(tmp_path: Path):
    file = tmp_path / "tokens.json"
    add_token(file, "team-a", "", "a" * 43)
    modes = [file.stat().st_mode & 0o7777]
    file.chmod(0o640)
    add_token(file, "team-b", "", "b" * 43)
    assert [*modes, file.stat().st_mode & 0o7777] == [0o600, 0o640]


def test_tokens_that_are_added_at_once_are_all_in_the_file(tmp_path: Path):
    """Two administrators, or a script that adds all teams side by side."""
    file, begin = tmp_path / "tokens.json", Barrier(8)

    def add(name: str) -> None:
        begin.wait()
        add_token(file, name, "", name * 43)

    adding = [Thread(target=add, args=(name,)) for name in "abcdefgh"]
    for each in adding:
        each.start()
    for each in adding:
        each.join()
    tokens = load_tokens(file)
    found = [tokens.find_tenant(f"evt_{name * 43}") for name in "abcdefgh"]
    assert [each and each.name for each in found] == list("abcdefgh")


@pytest.mark.parametrize("kind", ["no folder", "a file as folder", "a link"])
def test_a_file_of_tokens_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path, kind: str):
    file = tmp_path / "everturn" / "tokens.json"
    if kind == "a file as folder":
        file.parent.write_text("")
    elif kind == "a link":
        file.parent.mkdir()
        file.symlink_to(tmp_path / "elsewhere.json")
    found = CliRunner().invoke(main, ["gateway", "token", "team-a", "--tokens", str(file)])
    assert found.exit_code == 1
    assert f"Cannot write the tokens to {file}: " in found.output
