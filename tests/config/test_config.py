"""Settings: where they come from, which wins, and what is said about wrong ones."""

import os
import subprocess
import sys
import tomllib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerd.config import OPTIONS, SECRETS, Settings, SettingsError, is_loopback, load, to_toml
from peerd.options import FLAGS, Flags

TOKEN = "0123456789abcdef"


def loaded(flags: dict[str, Any] | None = None, environ: dict[str, str] | None = None, file: str = "") -> Settings:
    def read(path: str) -> bytes:
        assert path == "peerd.toml"
        return file.encode()

    return load({"config": "peerd.toml" if file else None, **(flags or {})}, environ or {}, read)


def complaint(flags: dict[str, Any] | None = None, environ: dict[str, str] | None = None, file: str = "") -> str:
    with pytest.raises(SettingsError) as caught:
        loaded(flags, environ, file)
    text = str(caught.value)
    assert "\n" not in text
    return text


def values(settings: Settings) -> Settings:
    """The settings without where they come from."""
    return msgspec.structs.replace(settings, sources={})


# --- defaults and precedence ------------------------------------------------------------------------------------------


def test_defaults_are_those_of_the_contract() -> None:
    settings = loaded()
    assert (settings.listen, settings.http) == ("127.0.0.1:6470", "127.0.0.1:6480")
    assert (settings.log_detail, settings.log_sample, settings.log_format) == ("full", 1.0, "text")
    assert (settings.subscriptions.retain_s, settings.subscriptions.retain_max) == (600.0, 10_000)
    assert settings.subscriptions.idle_s == 300.0
    assert settings.service.max_event_bytes == 64 * 1024
    assert (settings.overlay, settings.swarm, settings.schema, settings.join) == (None, None, None, ())
    assert settings.source("listen") == "default"
    assert settings == Settings()


def test_flags_win_over_variables_over_the_file() -> None:
    file = 'listen = "127.0.0.1:1"\nhttp = "127.0.0.1:2"\nname = "file"'
    environ = {"PEERD_HTTP": "127.0.0.1:3", "PEERD_NAME": "variable"}
    settings = loaded({"name": "flag"}, environ, file)
    assert (settings.listen, settings.http, settings.name) == ("127.0.0.1:1", "127.0.0.1:3", "flag")
    assert settings.source("listen") == "file peerd.toml key listen"
    assert settings.source("http") == "variable PEERD_HTTP"
    assert settings.source("name") == "flag --name"


def test_sections_from_each_place() -> None:
    assert loaded({"set": ("net.idle_s=30",)}).net.idle_s == 30.0
    assert loaded(environ={"PEERD_NET_IDLE_S": "30"}).net.idle_s == 30.0
    assert loaded(file="[net]\nidle_s = 30").net.idle_s == 30.0
    assert loaded(file="[peer.membership]\ngossip_ms = 500").peer.membership.gossip_ms == 500
    assert loaded({"set": ("peer.membership.gossip_ms=500",)}).peer.membership.gossip_ms == 500
    assert loaded(environ={"PEERD_API_TOKEN": TOKEN}).api.token == TOKEN


def test_parameters_are_merged_one_by_one() -> None:
    file = "[parameters]\nlinks = 5\nlinks_max = 12"
    settings = loaded({"overlay": "broadcast", "set": ("links=4",)}, {"PEERD_SET": "rpc_ms=500 net.idle_s=9"}, file)
    assert settings.parameters == {"links": "4", "links_max": "12", "rpc_ms": "500"}
    assert settings.net.idle_s == 9.0
    assert settings.source("parameters.links") == "flag --set links"


def test_a_list_replaces_the_lower_one() -> None:
    file = 'join = ["a:1", "b:2"]'
    assert loaded(file=file).join == ("a:1", "b:2")
    assert loaded(environ={"PEERD_JOIN": "c:3, d:4 e:5"}, file=file).join == ("c:3", "d:4", "e:5")
    assert loaded({"join": ("f:6", "g:7")}, {"PEERD_JOIN": "c:3"}, file).join == ("f:6", "g:7")
    assert loaded({"join": "f:6, g:7"}).join == ("f:6", "g:7")
    assert loaded({"join": ()}, {"PEERD_JOIN": "c:3"}).join == ("c:3",)


def test_an_empty_variable_is_not_set() -> None:
    assert loaded(environ={"PEERD_JOIN": "", "PEERD_NAME": "", "PEERD_CONFIG": ""}) == Settings()


def test_the_file_may_be_named_by_a_variable() -> None:
    settings = load({}, {"PEERD_CONFIG": "there.toml"}, lambda path: f'name = "from {path}"'.encode())
    assert settings.name == "from there.toml"


def test_null_where_the_default_is_a_value() -> None:
    assert loaded({"set": ("subscriptions.idle_s=null",)}).subscriptions.idle_s is None
    assert loaded(file='[subscriptions]\nidle_s = "null"').subscriptions.idle_s is None


def test_bootstrap_reaches_the_peer() -> None:
    assert loaded({"bootstrap": "2.5"}).peer_config().membership.begin_after_ms == 2500
    assert loaded().peer_config().membership.begin_after_ms is None


def test_flags_may_have_their_types_already() -> None:
    settings = loaded({"log_sample": 0.5, "insecure": True, "log_keep": 2**30})
    assert (settings.log_sample, settings.insecure, settings.log_keep) == (0.5, True, 2**30)


def test_variables_of_others_do_not_matter() -> None:
    """Kubernetes sets these for a service called `peerd`, and one called `peerd-http`."""
    environ = {
        "PEERD_SERVICE_HOST": "10.0.0.1",
        "PEERD_SERVICE_PORT": "6470",
        "PEERD_SERVICE_PORT_HTTP": "6480",
        "PEERD_PORT": "tcp://10.0.0.1:6470",
        "PEERD_PORT_6470_TCP_ADDR": "10.0.0.1",
        "PEERD_HTTP_SERVICE_HOST": "10.0.0.2",
        "PEERD_HTTP_PORT": "tcp://10.0.0.2:6480",
        "PEERD_URL": "http://localhost:6480",
        "HOME": "/root",
    }
    assert loaded(environ=environ) == Settings()


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "environ", "file", "said"),
    [
        ({"listen": "x"}, {}, "", "flag --listen: 'x' has no port"),
        ({}, {"PEERD_LISTEN": "localhost:99999"}, "", "variable PEERD_LISTEN: 'localhost:99999'"),
        ({}, {}, "listen = 6470", "file peerd.toml key listen: 6470: expected text"),
        ({}, {}, "[net]\nidle_s = true", "file peerd.toml key net.idle_s: True: expected a number of at least 0.001"),
        ({"log_sample": "1.5"}, {}, "", "flag --log-sample: '1.5': expected a number from 0 to 1"),
        ({"log_sample": "nan"}, {}, "", "flag --log-sample: 'nan': expected a number"),
        ({"log_detail": "ful"}, {}, "", "flag --log-detail: 'ful': expected one of full, deliveries, summary"),
        ({"log_keep": "10"}, {}, "", "flag --log-keep: '10': expected a whole number of at least 1048576"),
        ({"bandwidth": "0"}, {}, "", "flag --bandwidth: '0': expected a number above 0"),
        ({}, {"PEERD_INSECURE": "perhaps"}, "", "variable PEERD_INSECURE: 'perhaps': expected true or false"),
        ({"join": ("0.0.0.0:1",)}, {}, "", "flag --join: '0.0.0.0:1': expected the HOST:PORT of one peer"),
        *(
            ({"join": given}, {}, "", "flag --join: expected HOST:PORT, not an empty text")
            for given in ("", ("",), ("a:1", " "), (",",))
        ),
        ({"advertise": "host:0"}, {}, "", "flag --advertise: 'host:0': expected the HOST:PORT of one peer"),
        ({"swarm": ""}, {}, "", "flag --swarm: expected text that is not empty"),
        ({"name": "a\nb"}, {}, "", "flag --name: expected text without line breaks"),
        ({"set": ("links=3\x7f",)}, {}, "", "flag --set links: expected text without line breaks"),
        ({"name": "x" * 129}, {}, "", "flag --name: expected at most 128 characters"),
        ({"set": ("net.idle_s=-1",)}, {}, "", "flag --set net.idle_s: '-1': expected a number of at least 0.001"),
        ({"set": ("net.idle_s=0",)}, {}, "", "flag --set net.idle_s: '0': expected a number of at least 0.001"),
        ({"set": ("net.read_bytes=0",)}, {}, "", "net.read_bytes: '0': expected a whole number from 1024 to 16777216"),
        ({"set": ("net.give_up_s=1e9",)}, {}, "", "net.give_up_s: '1e9': expected a number from 0.001 to 86400"),
        (
            {"set": ("peer.membership.shuffle=21",)},
            {},
            "",
            "flag --set peer.membership.shuffle: a shuffle of 21 is more than a view of 20",
        ),
        (
            {"set": ("peer.membership.view=9",)},
            {"PEERD_PEER_MEMBERSHIP_SHUFFLE": "10"},
            "",
            "variable PEERD_PEER_MEMBERSHIP_SHUFFLE, flag --set peer.membership.view: a shuffle of 10 is more than",
        ),
        (
            {"overlay": "broadcast", "set": ("links=10",)},
            {},
            "",
            "flag --set links: overlay 'broadcast': links=10 is more than links_max=9",
        ),
        ({"set": ("net.idle_s",)}, {}, "", "flag --set net.idle_s: expected KEY=VALUE"),
        ({"set": ("listen=a:1",)}, {}, "", "flag --set listen: that is no parameter of an overlay; use --listen"),
        ({"set": ("service.max_event_bytes=65537",)}, {}, "", "expected at most 65536"),
        ({"overlay": "rtre"}, {}, "", "flag --overlay: there is no overlay 'rtre'"),
        (
            {"overlay": "broadcast", "set": ("links=0",)},
            {},
            "",
            "flag --set links: overlay 'broadcast': links: expected int >= 1",
        ),
        (
            {"overlay": "broadcast", "set": ("profile=none",)},
            {},
            "",
            "flag --set profile: overlay 'broadcast' has no profile 'none'",
        ),
        ({"listen": "127.0.0.1:7", "http": "127.0.0.1:7"}, {}, "", "flag --http: 127.0.0.1:7 is the address of"),
        ({}, {}, "[parameters]\nlinks = [1]", "file peerd.toml key parameters.links: expected a text or a number"),
        ({}, {}, "listen = ", "file peerd.toml: not TOML"),
        *(
            ({"set": (f"{option.key}=0",)}, {}, "", f"flag --set {option.key}: '0': expected a")
            for option in OPTIONS
            if option.key.startswith("net.") and option.key not in ("net.full_s", "net.bad_frames_max", "net.capture")
        ),
    ],
)
def test_one_line_says_where_and_what(flags: dict[str, Any], environ: dict[str, str], file: str, said: str) -> None:
    assert said in complaint(flags, environ, file)


@pytest.mark.parametrize(
    ("flags", "environ", "file", "near"),
    [
        ({"set": ("net.idel_s=3",)}, {}, "", "net.idle_s"),
        ({"set": ("lnks=3",)}, {}, "", "links"),
        ({}, {"PEERD_LISTN": "a:1"}, "", "PEERD_LISTEN"),
        ({}, {}, 'lisen = "a:1"', "listen"),
        ({}, {}, "[api]\nratte = 3", "api.rate"),
        ({"set": ("lnks=3",), "join": ("a:1",)}, {}, "", "links"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(
    flags: dict[str, Any], environ: dict[str, str], file: str, near: str
) -> None:
    assert f"did you mean {near}?" in complaint(flags, environ, file)


def test_keys_that_are_not_for_users_are_unknown() -> None:
    assert "no such setting" in complaint({"set": ("peer.membership.liveness=false",)})
    assert "no such setting" in complaint(file='sources = "x"')


def test_a_file_that_cannot_be_read() -> None:
    with pytest.raises(SettingsError, match=r"^flag --config: /nowhere/peerd.toml: no such file or directory$"):
        load({"config": "/nowhere/peerd.toml"}, {})
    with pytest.raises(SettingsError, match="not UTF-8"):
        load({"config": "x"}, {}, lambda path: b"\xff")


def test_text_that_is_no_unicode_is_refused() -> None:
    """What a shell passes on of bytes that are no UTF-8."""
    assert "expected text" in complaint({"name": "\udcff"})


def test_a_secret_is_never_repeated() -> None:
    assert "expected at least 16 characters" in complaint({"set": ("api.token=tooshort",)})
    assert "tooshort" not in complaint({"set": ("api.token=tooshort",)})
    assert TOKEN not in to_toml(loaded(environ={"PEERD_API_TOKEN": TOKEN}))
    assert "token is set, but not shown: variable PEERD_API_TOKEN" in to_toml(
        loaded(environ={"PEERD_API_TOKEN": TOKEN})
    )


# --- listening --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "", "10.1.2.3", "example.org", "[::ffff:10.0.0.1]"])
def test_listening_beyond_loopback_needs_insecure(host: str) -> None:
    at = f"{host}:0"
    assert "without TLS; give it certificates with --tls, or say --insecure" in complaint({"listen": at})
    assert loaded({"listen": at, "http": "127.0.0.1:0", "tls": "certificates"}).insecure is False
    assert "without a token; set PEERD_API_TOKEN" in complaint({"http": at})
    assert loaded({"listen": at, "http": at, "insecure": True}).advertise is None
    assert loaded({"http": at}, {"PEERD_API_TOKEN": TOKEN}).http == at
    assert "without TLS" in complaint({"listen": at}, {"PEERD_API_TOKEN": TOKEN})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "[::1]", "localhost", "[::ffff:127.0.0.1]"])
def test_loopback_needs_nothing(host: str) -> None:
    assert loaded({"listen": f"{host}:0", "http": f"{host}:0"}).insecure is False


def test_a_name_is_not_looked_up() -> None:
    assert not is_loopback("localhost.example.org")


def test_parameters_wait_for_the_overlay_where_it_is_not_known() -> None:
    """The contact or the data directory names it; only then can the values be checked."""
    assert loaded({"set": ("links=0",), "join": ("a:1",)}).parameters == {"links": "0"}
    assert loaded({"set": ("links=0",), "data_dir": "/d"}).parameters == {"links": "0"}


# --- the table of options ---------------------------------------------------------------------------------------------


def test_every_flag_of_the_contract_has_an_option() -> None:
    flags = {option.flag for option in FLAGS}
    assert flags >= {
        *("--overlay", "--join", "--listen", "--http", "--advertise", "--swarm", "--schema", "--data-dir", "--log-dir"),
        *("--log-detail", "--log-sample", "--log-keep", "--name", "--bandwidth", "--bootstrap", "--insecure"),
        "--log-format",
    }
    assert all(option.what for option in FLAGS)


def test_options_are_unambiguous() -> None:
    assert OPTIONS[: len(FLAGS)] == FLAGS
    assert len({option.key for option in OPTIONS}) == len(OPTIONS)
    assert len({option.variable for option in OPTIONS}) == len(OPTIONS)
    assert {option.key for option in OPTIONS} >= SECRETS
    assert [option.key for option in FLAGS] == list(Flags.__struct_fields__)


def test_the_flags_alone_are_quick_to_import() -> None:
    """The command line needs them before it knows whether a peer is to be run at all."""
    code = "import sys, peerd.options; print(*sorted({'asyncio', 'lark', 'aiohttp', 'numpy'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert result.stdout.strip() == ""


# --- printing ---------------------------------------------------------------------------------------------------------


def test_printed_settings_name_every_value_and_its_source() -> None:
    text = to_toml(loaded({"set": ("rpc_ms=700", "net.idle_s=30"), "name": "Ä"}, {"PEERD_HTTP": "127.0.0.1:0"}))
    assert 'name = "Ä"  # flag --name' in text
    assert 'http = "127.0.0.1:0"  # variable PEERD_HTTP' in text
    assert "idle_s = 30.0  # flag --set net.idle_s" in text
    assert 'rpc_ms = "700"  # flag --set rpc_ms' in text
    assert "# overlay is not set" in text
    for option in OPTIONS:
        assert option.key.rpartition(".")[2] in text


ANY_TEXT = st.text(min_size=1, max_size=40).filter(str.isprintable)


@given(
    name=ANY_TEXT,
    swarm=ANY_TEXT,
    sample=st.floats(0, 1),
    idle=st.none() | st.floats(0, 1e300),
    join=st.lists(st.sampled_from(["a:1", "[::1]:2", "ü.example:3"]), max_size=3),
    links=st.integers(1, 64),
    token=st.none() | st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=16, max_size=40),
)
def test_printed_settings_read_back_are_the_same(
    name: str, swarm: str, sample: float, idle: float | None, join: list[str], links: int, token: str | None
) -> None:
    flags: dict[str, Any] = {"name": name, "swarm": swarm, "log_sample": sample, "join": tuple(join)}
    flags["overlay"] = "broadcast"
    assignments = [f"subscriptions.idle_s={'null' if idle is None else repr(idle)}", f"links={links}", "links_max=64"]
    if token is not None:
        assignments.append(f"api.token={token}")
    settings = loaded({**flags, "set": tuple(assignments)})
    text = to_toml(settings, secrets=True)
    tomllib.loads(text)
    assert values(loaded(file=text)) == values(settings)


def test_a_source_cannot_break_out_of_its_comment() -> None:
    settings = load({"config": "a\nname = 1"}, {}, lambda path: b'swarm = "s"')
    assert tomllib.loads(to_toml(settings))["swarm"] == "s"
