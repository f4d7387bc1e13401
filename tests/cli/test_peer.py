"""`peerd` without a command: real peers on free ports, how they start and end, and what keeps them from starting."""

import json
import signal
import socket
import tomllib
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from peerd.config import OPTIONS
from peerd.options import FLAGS
from tests.cli.conftest import StartDaemon
from tests.cli.daemons import Daemon, until
from tests.cli.running import only_line, peerd, process, refused


def get(url: str) -> dict[str, object]:
    with urlopen(url, timeout=10) as answer:
        found = json.load(answer)
        assert isinstance(found, dict)
        return found


def put(url: str, document: dict[str, object]) -> None:
    body, headers = json.dumps(document).encode(), {"Content-Type": "application/json"}
    with urlopen(Request(url, body, headers, method="PUT"), timeout=10) as answer:
        assert answer.status == 201


def refusal(daemon: Daemon) -> tuple[int, str]:
    """Exit code and last line of a peer that does not come up."""
    code = daemon.wait()
    assert daemon.stdout == ""
    *_, last = daemon.stderr.splitlines(keepends=True)
    return code, only_line(last)


# --- Up and down ------------------------------------------------------------------------------------------------------


def test_a_peer_says_that_it_is_up_and_leaves_on_sigterm(daemon: StartDaemon) -> None:
    started = daemon("--overlay", "broadcast", "--name", "Nikos", "--set", "links=3").up()
    shown = get(f"{started.url}/v1/peer")
    assert (shown["name"], shown["overlay"], shown["listen"]) == ("Nikos", "broadcast", started.listen)
    assert started.stop() == 0
    assert len(started.stdout.splitlines()) == 1
    assert "Traceback" not in started.stderr


def test_ctrl_c_leaves_gracefully(daemon: StartDaemon) -> None:
    started = daemon().up()
    started.signal(signal.SIGINT)
    assert (started.wait(), started.stderr.count("Traceback")) == (0, 0)


def test_a_second_peer_joins_and_takes_over_what_the_swarm_is(daemon: StartDaemon, tmp_path: Path) -> None:
    schema = tmp_path / "rooms.toml"
    schema.write_text('[attributes.room]\ntype = "string"\n')
    first = daemon("--overlay", "broadcast", "--swarm", "house", "--schema", str(schema), "--set", "links=5").up()
    second = daemon("--join", first.listen).up()
    ours, theirs = (get(f"{each.url}/v1/peer") for each in (first, second))
    for key in ("swarm", "overlay", "parameters", "schema"):
        assert ours[key] == theirs[key]
    until(lambda: get(f"{first.url}/v1/links")["links"], "a link")
    assert second.stop() == 0
    until(lambda: not get(f"{first.url}/v1/links")["links"], "the link's end")


def test_the_metrics_of_a_peer_tell_of_its_network_and_its_requests(daemon: StartDaemon) -> None:
    first = daemon().up()
    second = daemon("--join", first.listen).up()
    get(f"{first.url}/v1/peer")

    def shown() -> list[str]:
        with urlopen(f"{first.url}/metrics", timeout=10) as answer:
            return str(answer.read().decode()).splitlines()

    assert "peerd_connections 1.0" in shown()
    assert second.stop() == 0
    until(lambda: "peerd_connections 0.0" in shown(), "the connection's end")
    lines = shown()
    answered = 'peerd_http_requests_total{result="answered"} '
    assert [float(line.removeprefix(answered)) >= 2 for line in lines if line.startswith(answered)] == [True]
    assert any(line.startswith("peerd_connections_closed_total{reason=") for line in lines)
    assert [line for line in lines if line.startswith("peerd_queue_events{")] == [
        'peerd_queue_events{queue="events"} 0.0'
    ]
    for name in ("peerd_queue_control", "peerd_undelivered_total", "peerd_rejected_total"):
        assert any(line.startswith(f"{name} ") for line in lines)


def test_a_contact_that_is_not_there_yet_is_retried_until_it_appears(daemon: StartDaemon) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    early = daemon("--join", f"127.0.0.1:{port}")
    early.until_says("trying again")
    daemon("--listen", f"127.0.0.1:{port}").up()
    early.up()


def test_told_to_stop_before_anybody_was_found(daemon: StartDaemon) -> None:
    early = daemon("--join", "127.0.0.1:1")
    early.until_says("trying again")
    assert early.stop() == 0
    assert early.stdout == ""


def test_a_second_ctrl_c_ends_at_once(daemon: StartDaemon) -> None:
    first = daemon().up()
    second = daemon("--join", first.listen).up()
    first.signal(signal.SIGSTOP)  # who does not answer keeps a leaving peer waiting
    second.signal(signal.SIGINT)
    until(lambda: _is_leaving(second), "the peer to leave")
    second.signal(signal.SIGINT)
    assert second.wait() == 130
    assert only_line(second.stderr.splitlines(keepends=True)[-1]) == "interrupted"


def _is_leaving(daemon: Daemon) -> bool:
    try:
        with urlopen(f"{daemon.url}/readyz", timeout=5) as answer:
            return bool(answer.status != 200)
    except OSError:  # 503, or nobody there any more
        return True


def problem(url: str) -> tuple[int, str, str | None]:
    """Status and slug of an answer that is a problem, and when to come again."""
    try:
        with urlopen(url, timeout=10) as answer:
            return answer.status, "", None
    except HTTPError as error:
        with error:
            return error.code, json.load(error)["type"].rpartition(":")[2], error.headers["Retry-After"]


@pytest.mark.slow
def test_a_peer_whose_contact_is_silent_serves_and_says_so_until_one_answers(daemon: StartDaemon) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as taken:
        contact, http = (f"127.0.0.1:{each.getsockname()[1]}" for each in (silent, taken))
        taken.close()
        waiting = daemon("--join", contact, "--http", http)
        waiting.until_says("did not answer within 5 s; trying again")
        assert get(f"http://{http}/healthz") == {"status": "ok"}
        for path in ("/readyz", "/v1/peer", "/v1/subscriptions", "/v1/schema", "/v1/links", "/metrics"):
            assert problem(f"http://{http}{path}") == (503, "not-joined", "1"), path
        assert problem(f"http://{http}/v1/nothing")[:2] == (404, "not-found")
        get(f"http://{http}/openapi.json")
    seed = daemon("--listen", contact, "--swarm", "late").up()
    assert waiting.up().swarm == "late"
    assert get(f"http://{http}/readyz") == {"ready": True}
    assert (waiting.stop(), seed.stop()) == (0, 0)


def test_after_bootstrap_seconds_a_peer_begins_the_swarm_itself(daemon: StartDaemon) -> None:
    daemon("--join", "127.0.0.1:1", "--bootstrap", "0.2", "--swarm", "alone").up()


# --- What keeps a peer from starting ----------------------------------------------------------------------------------


def test_a_port_in_use(daemon: StartDaemon) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        code, line = refusal(daemon("--listen", where))
        assert code == 1
        assert (
            line == f"cannot listen on {where}: another process listens there; take another port, or 0 for any free one"
        )
        code, line = refusal(daemon("--http", where))
        assert code == 1
        assert line.startswith(f"cannot serve HTTP on {where}: another process listens there")


def test_a_port_in_use_is_told_before_any_contact_answers(daemon: StartDaemon) -> None:
    first = daemon().up()
    http = first.url.removeprefix("http://")
    for flags in (("--join", first.listen, "--listen", first.listen), ("--join", "127.0.0.1:1", "--http", http)):
        code, line = refusal(daemon(*flags))
        assert code == 1
        assert "another process listens there" in line


def test_a_contact_that_is_the_peer_itself(daemon: StartDaemon) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
    started = daemon("--listen", where, "--join", where)
    started.until_says(f"{where} names no peer but this one; trying again")
    assert started.stop() == 0


def test_a_contact_of_another_swarm_is_refused_if_one_insists(daemon: StartDaemon, tmp_path: Path) -> None:
    schema = tmp_path / "rooms.toml"
    schema.write_text('[attributes.room]\ntype = "string"\n')
    first = daemon("--swarm", "house").up()
    where = f"the swarm at {first.listen}"
    for option, value, says in (
        ("--swarm", "garden", f"{where} is called 'house', and flag --swarm wants 'garden'"),
        ("--schema", str(schema), f"{where} has another schema than {schema}; leave --schema out to take it over"),
        ("--set", "rpc_ms=700", f"{where} has rpc_ms="),
    ):
        code, line = refusal(daemon("--join", first.listen, option, value))
        assert code == 2
        assert line.startswith(says)


def test_a_data_directory_has_one_peer_at_a_time(daemon: StartDaemon, tmp_path: Path) -> None:
    directory = str(tmp_path / "data")
    first = daemon("--data-dir", directory).up()
    code, line = refusal(daemon("--data-dir", directory))
    assert code == 1
    assert line.startswith(f"data directory {directory} is in use by another peerd (process {first.process.pid})")


def test_a_data_directory_belongs_to_one_swarm(daemon: StartDaemon, tmp_path: Path) -> None:
    directory = str(tmp_path / "data")
    assert daemon("--data-dir", directory, "--swarm", "house").up().stop() == 0
    other = daemon("--swarm", "garden").up()
    code, line = refusal(daemon("--data-dir", directory, "--join", other.listen))
    assert code == 2
    assert line.startswith(f"{other.listen} belongs to the swarm 'garden' (rtree, id ")
    code, line = refusal(daemon("--data-dir", directory, "--swarm", "garden"))
    assert (code, line) == (2, f"the swarm in {directory} is called 'house', and flag --swarm wants 'garden'")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--overlay", "nope"), "flag --overlay: there is no overlay 'nope'; choose one of broadcast, rtree, "),
        (("--listen", "6470"), "flag --listen: '6470' has no port; write HOST:PORT"),
        (("--listen", "0.0.0.0:0"), "flag --listen: 0.0.0.0:0 listens beyond this machine without TLS"),
        (("--join", "host"), "flag --join: 'host' has no port"),
        (("--join", "", "--print-config"), "flag --join: expected HOST:PORT, not an empty text"),
        (("--set", "links"), "flag --set links: expected KEY=VALUE"),
        (("--set", "link=3"), "flag --set link: no overlay has such a parameter; did you mean links?"),
        (
            ("--overlay", "broadcast", "--set", "links=many"),
            "flag --set links: overlay 'broadcast': links: expected int",
        ),
        (("--set", "net.idle=3"), "flag --set net.idle: no such setting; did you mean net.idle_s?"),
        (("--log-sample", "2"), "flag --log-sample: '2': expected a number from 0 to 1"),
        (("--config", "/nowhere.toml"), "flag --config: /nowhere.toml: no such file or directory"),
        (("--log-detail", "some"), "Invalid value for '--log-detail': 'some' is not one of 'full', "),
    ],
)
def test_wrong_settings_are_one_line(args: tuple[str, ...], says: str) -> None:
    assert refused(*args).startswith(says)


def test_a_wrong_variable_or_schema_is_one_line(tmp_path: Path) -> None:
    done = process("--print-config", PEERD_LISTEN="nowhere")
    assert done.returncode == 2
    assert only_line(done.stderr).startswith("variable PEERD_LISTEN: 'nowhere' has no port")
    schema = tmp_path / "schema.toml"
    schema.write_text("[attributes.a]\ntype = 'colour'\n")
    done = process("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--schema", str(schema))
    assert done.returncode == 2
    assert only_line(done.stderr).startswith(f"flag --schema: {schema}: attribute 'a': type 'colour' is none of")


def test_a_parameter_that_does_not_fit_the_schema_is_one_line() -> None:
    says = "attribute_order names 'prise'; the schema has exchange, symbol, "
    flags = ("--overlay", "gosskip", "--set", "attribute_order=prise")
    done = process("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *flags)
    assert done.returncode == 2
    assert only_line(done.stderr).startswith(says)
    done = process("sim", *flags)
    assert done.returncode == 2
    assert only_line(done.stderr).startswith(f"--set: {says}")


@pytest.mark.parametrize(
    ("flags", "named", "what"),
    [
        (("--log-dir", "{file}/logs"), "flag --log-dir", "directory"),
        (("--set", "net.capture={file}/frames"), "flag --set net.capture", "file"),
    ],
)
def test_a_place_that_cannot_be_written_is_named_with_its_flag(
    daemon: StartDaemon, tmp_path: Path, flags: tuple[str, ...], named: str, what: str
) -> None:
    file = tmp_path / "file"
    file.touch()
    code, line = refusal(daemon(*(flag.format(file=file) for flag in flags)))
    assert code == 2
    assert line.startswith(f"{named}: {file}/")
    assert line.endswith(f": not a directory; name a {what} that this peer can make and write")


def test_options_of_a_peer_have_no_place_before_a_command() -> None:
    assert refused("--overlay", "broadcast", "overlays") == (
        "--overlay is for running a peer; options of 'overlays' stand after its name"
    )


# --- Settings ---------------------------------------------------------------------------------------------------------


def test_every_flag_of_the_settings_is_an_option() -> None:
    shown = peerd("--help").stdout
    assert [option.flag for option in FLAGS if f"  {option.flag} " not in shown] == []


def test_print_config_prints_a_file_with_the_same_effect(tmp_path: Path) -> None:
    given = ("--overlay", "broadcast", "--join", "a:1", "--join", "b:2", "--set", "links=5", "--set", "net.idle_s=7")
    first = peerd(*given, "--print-config")
    assert (first.exit_code, first.stderr) == (0, "")
    table = tomllib.loads(first.stdout)
    assert (table["join"], table["parameters"], table["net"]["idle_s"]) == (["a:1", "b:2"], {"links": "5"}, 7.0)
    file = tmp_path / "peerd.toml"
    file.write_text(first.stdout)
    second = peerd("--config", str(file), "--print-config")
    assert tomllib.loads(second.stdout) == table
    assert second.stdout.count(f"# file {file} key ") >= len([o for o in OPTIONS if o.default is not None])


def test_a_restart_keeps_identity_and_subscriptions_and_rejoins(daemon: StartDaemon, tmp_path: Path) -> None:
    directory = str(tmp_path / "data")
    first = daemon().up()
    second = daemon("--join", first.listen, "--data-dir", directory).up()
    until(lambda: get(f"{first.url}/v1/links")["links"], "a link")
    before = get(f"{second.url}/v1/peer")
    put(f"{second.url}/v1/subscriptions/alarm", {"filter": "price > 3"})
    assert second.stop() == 0
    again = daemon("--data-dir", directory).up()
    after = get(f"{again.url}/v1/peer")
    assert (after["id"], after["swarm"]) == (before["id"], before["swarm"])
    assert after["boot"] > before["boot"]  # type: ignore[operator]
    kept = get(f"{again.url}/v1/subscriptions")["subscriptions"]
    assert [(each["id"], each["filter"]) for each in kept] == [("alarm", "price > 3")]  # type: ignore[attr-defined]
    until(lambda: get(f"{first.url}/v1/links")["links"], "the new link")


@pytest.mark.slow
def test_a_swarm_that_was_stopped_as_a_whole_begins_again(daemon: StartDaemon, tmp_path: Path) -> None:
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    first = daemon("--data-dir", here, "--swarm", "house").up()
    second = daemon("--join", first.listen, "--data-dir", there).up()
    until(lambda: get(f"{first.url}/v1/links")["links"], "a link")
    assert (first.stop(), second.stop()) == (0, 0)
    again = daemon("--data-dir", here).up()  # it looks for the second one first
    assert again.swarm == "house"
    daemon("--data-dir", there, "--join", again.listen).up()


@pytest.mark.slow
def test_a_seed_that_is_killed_and_started_without_its_state_finds_its_swarm(daemon: StartDaemon) -> None:
    seed = daemon("--overlay", "rtree").up()
    others = [daemon("--join", seed.listen).up() for _ in range(2)]
    put(f"{others[0].url}/v1/subscriptions/all", {"filter": "TRUE"})
    seed.signal(signal.SIGKILL)
    seed.wait()
    publish(others[1].url, 1.0)  # nobody needs the seed
    until(lambda: prices(others[0].url) == [1.0], "an event between those that are left")
    again = daemon("--overlay", "rtree", "--listen", seed.listen).up()
    until(lambda: peers_seen(again.url) == 3, "one swarm of three")
    publish(again.url, 2.0)
    until(lambda: prices(others[0].url) == [1.0, 2.0], "an event from the seed's new life")


def publish(url: str, price: float) -> None:
    body, headers = json.dumps({"attributes": {"price": price}}).encode(), {"Content-Type": "application/json"}
    with urlopen(Request(f"{url}/v1/events", body, headers), timeout=10) as answer:
        assert answer.status == 202


def prices(url: str) -> list[object]:
    deliveries = get(f"{url}/v1/subscriptions/all/deliveries")["deliveries"]
    assert isinstance(deliveries, list)
    return [each["attributes"]["price"] for each in deliveries]


def peers_seen(url: str) -> int:
    """How many peers can be reached from there, over the overlay's links."""
    nodes = get(f"{url}/v1/topology")["nodes"]
    assert isinstance(nodes, list)
    return sum(1 for node in nodes if node["answered"])
