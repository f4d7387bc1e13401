"""`peerd tls` and `peerd --tls`: a swarm that only its own peers may enter."""

from pathlib import Path

from tests.cli.conftest import StartDaemon
from tests.cli.running import peerd, refused


def admitted(place: Path, name: str) -> str:
    """The directory of a peer that the authority in `place` admits; the authority is founded if there is none."""
    authority = place / "authority"
    if not authority.exists():
        assert peerd("tls", "new", str(authority)).exit_code == 0
    result = peerd("tls", "issue", str(authority), str(place / name))
    assert (result.exit_code, result.stderr) == (0, "")
    return str(place / name)


def test_members_find_each_other_and_a_stranger_does_not_get_in(daemon: StartDaemon, tmp_path: Path) -> None:
    first = daemon("--tls", admitted(tmp_path / "swarm", "first")).up()
    daemon("--tls", admitted(tmp_path / "swarm", "second"), "--join", first.listen).up()
    stranger = daemon("--tls", admitted(tmp_path / "elsewhere", "stranger"), "--join", first.listen)
    stranger.until_says("does not vouch for")
    plain = daemon("--join", first.listen)
    plain.until_says("is not a peerd peer that can be joined")
    assert stranger.stdout + plain.stdout == ""


def test_wrong_use_ends_in_one_line(tmp_path: Path) -> None:
    assert "no such file or directory; 'peerd tls issue'" in refused("--tls", str(tmp_path))
    assert "holds no authority" in refused("tls", "issue", str(tmp_path), str(tmp_path / "peer"))
    admitted(tmp_path, "peer")
    assert "holds an authority already" in refused("tls", "new", str(tmp_path / "authority"))
    assert "holds a peer's key already" in refused("tls", "issue", str(tmp_path / "authority"), str(tmp_path / "peer"))
    assert "--days" in refused("tls", "issue", str(tmp_path / "authority"), str(tmp_path / "p"), "--days", "0")
