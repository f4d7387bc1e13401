"""Commands that talk to a running peer. Most run in this process, against one real peer; streams in processes."""

import base64
import http.server
import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from peerd.cli.client import described, short
from peerd.cli.schema import to_toml
from peerd.options import URL
from protocols.model.schema import STOCKS, Attribute, Schema
from tests.cli.conftest import StartCommand, StartDaemon
from tests.cli.daemons import Daemon, environment, until
from tests.cli.running import COMMAND, ROOT, only_line, peerd, refused

TOKEN = "a token that nobody guesses"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A peer for all tests of this module: they leave it as it was."""
    started = Daemon(tmp_path_factory.mktemp("peer") / "one", "--name", "Nikos")
    try:
        yield started.up().url
    finally:
        started.end()


# --- Two peers --------------------------------------------------------------------------------------------------------


def test_what_is_published_at_one_peer_is_printed_at_another(daemon: StartDaemon, command: StartCommand) -> None:
    first = daemon().up()
    second = daemon("--join", first.listen).up()
    reader = command(
        "subscribe", "symbol = 'OTE' AND price > 8", "--count", "3", "--timeout", "60", PEERD_URL=first.url
    )
    reader.until_says("is active")
    for arguments in (("price=8.4", "--payload", "hello"), ("price=7",), ("price=9", "high=10")):
        sent = peerd("publish", "symbol=OTE", *arguments, "--url", second.url)
        assert (sent.exit_code, sent.stderr) == (0, "")
    until(
        lambda: reader.stdout.count("\n") == 2, "two deliveries"
    )  # each is there when it comes, not when the command ends
    lines = '{"attributes": {"symbol": "OTE", "price": 1}}\n\n{"attributes": {"symbol": "OTE", "price": 10}}\n'
    writer = command("publish", "--file", "-", "--json", "--url", second.url, stdin=lines)
    assert (writer.wait(), writer.stdout) == (0, '{"accepted": 2}\n')
    assert reader.wait() == 0
    found = [json.loads(line) for line in reader.stdout.splitlines()]
    assert [each["attributes"]["price"] for each in found] == [8.4, 9.0, 10]
    assert list(found[0])[:5] == ["cursor", "event_id", "subscription_id", "attributes", "payload"]
    assert found[0]["payload"] == "hello"
    assert (found[0]["hops"], found[0]["sequence"]) == (1, 1)
    assert "subscription" not in peerd("status", "--url", first.url).stdout
    shown = peerd("topology", "--url", first.url).stdout
    assert shown.splitlines()[-1] == "peers: 2, links: 2"


# --- subscribe --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "in_background"), [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True)]
)
def test_whoever_ends_a_subscription_unsubscribes(
    url: str, command: StartCommand, number: signal.Signals, in_background: bool
) -> None:
    reader = command("subscribe", "price > 3", "--url", url, in_background=in_background)
    reader.until_says("is active")
    assert "price > 3" in peerd("status", "--url", url).stdout
    reader.signal(number)
    assert (reader.wait(), reader.stdout, reader.stderr.count("\n")) == (0, "", 1)
    assert "price > 3" not in peerd("status", "--url", url).stdout


def test_fewer_than_count_in_time_is_1(url: str) -> None:
    result = peerd("subscribe", "price > 3", "--count", "1", "--timeout", "0.1", "--url", url)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[1:] == ["peerd: 0 of 1 deliveries came"]
    assert peerd("subscribe", "price > 3", "--timeout", "0.1", "--url", url).exit_code == 0


def test_a_reader_that_has_enough_ends_the_command_without_a_word(url: str, command: StartCommand) -> None:
    args = (*COMMAND, "subscribe", "price > 3", "--url", url)
    with subprocess.Popen(args, cwd=ROOT, env=environment(), stdout=-1, stderr=-1, text=True) as reader:
        try:
            assert reader.stdout is not None
            assert reader.stderr is not None
            assert "is active" in reader.stderr.readline()
            reader.stdout.close()
            peerd("publish", "price=4", "--url", url)
            assert reader.wait(15) == 1
            assert reader.stderr.read() == ""
        finally:
            reader.kill()
    assert "price > 3" not in peerd("status", "--url", url).stdout


def test_warnings_of_a_filter_are_shown(url: str) -> None:
    result = peerd("subscribe", "TRUE", "--timeout", "0", "--url", url)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "peerd: warning: matches everything" in result.stderr


def test_a_wrong_filter_is_one_line(url: str) -> None:
    line = refused("subscribe", "symbol = 'OTE' AND prize > 3", "--url", url)
    assert line.startswith("unknown attribute 'prize'")
    assert line.endswith("(at position 19)")


# --- publish ----------------------------------------------------------------------------------------------------------


def published(url: str, *args: str, command: StartCommand, filter_: str = "TRUE") -> list[dict[str, object]]:
    """What a subscriber gets of it."""
    reader = command("subscribe", filter_, "--count", "1", "--timeout", "10", "--url", url)
    reader.until_says("is active")
    result = peerd("publish", *args, "--url", url)
    assert (result.exit_code, result.stderr) == (0, "")
    assert reader.wait() == 0
    return [json.loads(line) for line in reader.stdout.splitlines()]


def test_types_come_from_the_schema(url: str, command: StartCommand) -> None:
    (got,) = published(url, "symbol=1", "price=8", "exchange=a=b", command=command)
    assert got["attributes"] == {"symbol": "1", "price": 8.0, "exchange": "a=b"}


def test_a_file_is_a_payload(url: str, command: StartCommand, tmp_path: Path) -> None:
    text, raw = tmp_path / "text", tmp_path / "raw"
    text.write_text("Γειά\n")
    raw.write_bytes(b"\xff\x00")
    (got,) = published(url, "symbol=text", "--payload-file", str(text), command=command, filter_="symbol = 'text'")
    assert got["payload"] == "Γειά\n"
    (got,) = published(url, "symbol=raw", "--payload-file", str(raw), command=command, filter_="symbol = 'raw'")
    assert base64.b64decode(str(got["payload_base64"])) == b"\xff\x00"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "give either NAME=VALUE or --file; see 'peerd publish --help'"),
        (("price=8", "--file", "-"), "give either NAME=VALUE or --file"),
        (("price",), "price: expected NAME=VALUE"),
        (("price=1", "price=2"), "price is given twice"),
        (("prise=1",), "unknown attribute 'prise'; did you mean 'price'?"),
        (("volume=1",), "unknown attribute 'volume'; the schema has exchange, symbol, price, high, low"),
        (("price=dear",), "attribute 'price': 'dear' is not a float"),
        (("price=nan",), "attribute 'price': 'nan' is not a float"),
        (("price=1_0",), "attribute 'price': '1_0' is not a float"),
        (("symbol=\udcff",), "a value: not UTF-8 text"),
        (("symbol=" + "x" * 2000,), "attribute 'symbol': 2000 bytes; a string has at most 1024"),
        (("price=1", "--payload", "a", "--payload-file", "b"), "give either --payload or --payload-file"),
        (("price=1", "--payload-file", "/nowhere"), "/nowhere: no such file or directory"),
        (("--file", "/nowhere"), "/nowhere: no such file or directory"),
        (("--file", "/nowhere", "--payload", "a"), "the events of --file have payloads of their own"),
    ],
)
def test_a_wrong_event_is_one_line(url: str, args: tuple[str, ...], says: str) -> None:
    assert refused("publish", *args, "--url", url).startswith(says)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nonsense", "not JSON: "),
        ("[1]", "expected a JSON object"),
        ('{"attributes": {"prise": 1}}', "unknown attribute 'prise'"),
        ('{"payload": 1}', "Object missing required field"),
    ],
)
def test_a_wrong_line_is_named_by_its_number(url: str, tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text('{"attributes": {"price": 1}}\n\n' + line + "\n")
    assert refused("publish", "--file", str(file), "--url", url).startswith(f"{file}: line 3: {says}")


def test_many_lines_are_published_in_order(url: str, command: StartCommand, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text("".join(f'{{"attributes": {{"symbol": "many", "low": {n / 100}}}}}\n' for n in range(1200)))
    reader = command("subscribe", "symbol = 'many'", "--count", "1200", "--timeout", "20", "--url", url)
    reader.until_says("is active")
    assert peerd("publish", "--file", str(file), "--url", url).stdout == "1200 events published\n"
    assert reader.wait() == 0
    sequences = [json.loads(line)["sequence"] for line in reader.stdout.splitlines()]
    assert len(set(sequences)) == 1200


def test_push_back_is_honoured(daemon: StartDaemon, tmp_path: Path) -> None:
    slow = daemon("--set", "service.publish_rate=40", "--set", "service.publish_burst=4").up()
    file = tmp_path / "events.jsonl"
    file.write_text('{"attributes": {"price": 1}}\n' * 20)
    assert peerd("publish", "--file", str(file), "--url", slow.url).stdout == "20 events published\n"
    for _ in range(3):
        assert peerd("publish", "price=1", "--url", slow.url).exit_code == 0
    shown = peerd("status", "--json", "--url", slow.url)
    assert json.loads(shown.stdout)["ready"] is True


# --- status, topology, schema, frames ---------------------------------------------------------------------------------


def test_status(url: str) -> None:
    result = peerd("status", "--url", url)
    assert (result.exit_code, result.stderr) == (0, "")
    rows = dict(line.split("  ", 1) for line in result.stdout.splitlines() if line[0] != " ")
    assert rows["name"].strip() == "Nikos"
    assert rows["participant 0"].strip() == "nothing"
    assert rows["links"].strip() == "none"
    assert rows["clients reach it at"].strip() == url
    found = json.loads(peerd("status", "--json", "--url", url).stdout)
    assert (found["name"], found["links"], found["subscriptions"]) == ("Nikos", {}, [])


def test_topology_as_json(url: str) -> None:
    result = peerd("topology", "--json", "--limit", "3", "--url", url)
    (node,) = json.loads(result.stdout)["nodes"]
    assert (node["name"], node["answered"]) == ("Nikos", True)


def test_the_schema_is_a_file_that_can_be_used_again(url: str) -> None:
    result = peerd("schema", "show", "--url", url)
    assert Schema.from_toml(result.stdout) == STOCKS
    found = json.loads(peerd("schema", "show", "--json", "--url", url).stdout)
    assert found["version"] == len(STOCKS.attributes)


def test_names_that_toml_must_quote() -> None:
    odd = Schema([Attribute('a "b" c', "string"), Attribute("δ.x", "int", 0, 9)])
    assert Schema.from_toml(to_toml(odd.attributes)) == odd


def test_attributes_are_appended(daemon: StartDaemon, tmp_path: Path) -> None:
    started = daemon().up()
    file = tmp_path / "more.toml"
    file.write_text('[attributes.open]\ntype = "bool"\n')
    result = peerd("schema", "add", str(file), "--url", started.url)
    assert (result.exit_code, result.stdout) == (0, "appended open; the schema has 6 attributes now\n")
    assert peerd("publish", "open=TRUE", "--url", started.url).exit_code == 0
    assert (
        refused("publish", "open=1", "--url", started.url) == "attribute 'open': '1' is not a bool: write true or false"
    )
    assert refused("schema", "add", str(file), "--url", started.url) == (
        "attribute 'open' is in the swarm's schema already"
    )
    file.write_text("[attributes.a]\n")
    assert refused("schema", "add", str(file), "--url", started.url).startswith(f"{file}: attribute 'a': ")


def test_frames_of_a_real_peer_are_printed(daemon: StartDaemon, tmp_path: Path) -> None:
    capture = tmp_path / "frames"
    first = daemon("--set", f"net.capture={capture}").up()
    second = daemon("--join", first.listen).up()
    assert (second.stop(), first.stop()) == (0, 0)
    result = peerd("frames", str(capture))
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert " < - " in lines[0]
    assert "greeting {" in lines[0]
    assert any(" hello " in line for line in lines)
    assert refused("frames", str(tmp_path / "none")) == f"{tmp_path / 'none'}: no such file or directory"
    other = tmp_path / "other"
    other.write_text("something")
    assert refused("frames", str(other)) == f"{other}: this is not a file of captured frames"


@pytest.mark.parametrize(
    ("box", "text"),
    [
        ({}, "everything"),
        ({"price": {"ge": 1, "le": 2}}, '{"price": {"ge": 1, "le": 2}}'),
        ({"symbol": {"lt": ""}}, "nothing"),
        ({"price": {"ge": 20.0, "lt": 0.0}}, "nothing"),
        ({"price": {"ge": 1.0, "lt": 2.0}}, '{"price": {"ge": 1.0, "lt": 2.0}}'),
    ],
)
def test_boxes_in_words(box: dict[str, dict[str, object]], text: str) -> None:
    assert described(box) == text


def test_ids_are_cut_to_where_they_differ() -> None:
    assert short(["a" * 32, "b" * 32]) == ["a" * 8, "b" * 8]
    assert short(["a" * 32, "a" * 10 + "b" * 22, "a" * 32]) == ["a" * 11, "a" * 10 + "b", "a" * 11]


# --- A peer that does not answer as one hopes -------------------------------------------------------------------------


COMMANDS = [("subscribe", "TRUE"), ("publish", "price=1"), ("status",), ("topology",), ("schema", "show")]


def test_nobody_there_is_one_line_and_1() -> None:
    line = refused("status", "--url", "http://127.0.0.1:1", code=1)
    assert line == "no peer answers at http://127.0.0.1:1 (nobody listens there); --url or PEERD_URL names another"


@pytest.mark.parametrize("wrong", ["ftp://a", "http://", "http://a:99999", "http://[::1", "a b", ""])
def test_a_wrong_url_is_one_line_and_2(wrong: str) -> None:
    assert refused("status", "--url", wrong) == f"--url {wrong}: expected something like {URL}"


@pytest.mark.parametrize("args", COMMANDS)
def test_a_token_is_asked_for(secured: str, args: tuple[str, ...]) -> None:
    assert refused(*args, "--url", secured).endswith("; --token or PEERD_TOKEN gives one")
    assert refused(*args, "--url", secured, "--token", "another token altogether").endswith("gives one")
    assert refused(*args, "--url", secured, "--token", "ü") == "--token: expected printable ASCII characters"
    fine = peerd(*args, *(("--timeout", "0") if args[0] == "subscribe" else ()), "--url", secured, "--token", TOKEN)
    assert fine.exit_code == 0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A peer that wants a token."""
    started = Daemon(tmp_path_factory.mktemp("peer") / "secured", PEERD_API_TOKEN=TOKEN)
    try:
        yield started.up().url
    finally:
        started.end()


def test_a_peer_that_does_not_stand_yet_says_so(daemon: StartDaemon, tmp_path: Path) -> None:
    directory = str(tmp_path / "data")
    first = daemon("--data-dir", directory).up()
    assert first.stop() == 0
    where = first.url.removeprefix("http://")
    daemon("--data-dir", directory, "--join", "127.0.0.1:1", "--http", where)
    until(lambda: peerd("status", "--url", where).exit_code == 0, "the peer's API")
    assert refused("publish", "price=1", "--url", where, code=1) == "this peer does not stand in the overlay yet"


def test_somebody_else_who_listens_there(elsewhere: str) -> None:
    for args in COMMANDS:
        assert "not here" in refused(*args, "--url", elsewhere, code=1)


@pytest.mark.slow
def test_the_port_that_is_for_other_peers(daemon: StartDaemon) -> None:
    wrong = f"http://{daemon().up().listen}"
    for args in COMMANDS:
        line = refused(*args, "--url", wrong, code=1)
        assert "something else than HTTP" in line
        assert "refusal" not in line  # the bytes that came


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """A web server that is no peer."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.send_response(404)
            self.send_header("Content-Length", "8")
            self.end_headers()
            self.wfile.write(b"not here")

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 (the library's names)

        def log_message(self, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_what_cannot_be_asked_is_one_line() -> None:
    assert only_line(peerd("subscribe", "symbol = '\udcff'").stderr) == "the filter: not UTF-8 text"
