"""Images for the pages: re-encoded, and no file outside the image folder."""

from __future__ import annotations

import io
import string
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import hypothesis.strategies as st
import pytest
from fastapi.testclient import TestClient
from hypothesis import example, given, settings
from PIL import Image, PngImagePlugin

from annotate.annotation_world import context_of, join, make_competition
from annotate.conftest import SignIn
from captrial.annotate.service import AnnotationService
from captrial.annotate.web.app import create_app
from captrial.annotate.web.image_server import ImageServer
from captrial.data.image_source import ImageSource, find_image
from captrial.data.pools import build_pool
from captrial.errors import ImageError
from captrial.web.security import CLIENT_HEADER

Site = tuple[AnnotationService, SignIn]
traps = st.lists(
    st.sampled_from(
        ["..", ".", "/", "\\", "%2e%2e", "%2f", "secret.png", "a.png", "images", "\0", "~", "link", "é", "x" * 300]
    ),
    max_size=8,
).map("".join) | st.text(max_size=40)


def test_images_are_reencoded_without_metadata(tmp_path: Path) -> None:
    directory = make_competition(tmp_path)
    exif = Image.Exif()
    exif[0x010E] = "taken at a secret place"
    information = PngImagePlugin.PngInfo()
    information.add_text("Comment", "a secret caption of this image")
    for path in (tmp_path / "source" / "images").iterdir():
        Image.new("RGB", (2400, 30), (200, 10, 10)).save(path, pnginfo=information, exif=exif)
    application = create_app(directory)
    with TestClient(application, headers={CLIENT_HEADER: "test"}) as client:
        client.get(f"/join/{join(application.state.context.service, 'ann', 'annotator')[1]}")
        answer = client.get("/image/1")
        assert answer.headers["content-type"] == "image/jpeg"
        assert b"secret" not in answer.content
        image = Image.open(io.BytesIO(answer.content))
        assert image.format == "JPEG"
        assert image.size == (1600, 20)
        assert not image.getexif()
        kept = list((directory / "served").iterdir())
        assert [file.read_bytes() for file in kept] == [answer.content]  # encoded once
        assert client.get("/image/1").content == answer.content
        assert not set(image.info) & {"exif", "comment", "icc_profile", "xmp"}


@pytest.fixture(scope="module")
def trap() -> Iterator[Path]:
    """An image root with a secret beside it and a link that leads there."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "images"
        root.mkdir()
        Image.new("RGB", (4, 4)).save(root / "a.png")
        Image.new("RGB", (4, 4)).save(Path(folder) / "secret.png")
        (root / "link").symlink_to(Path(folder) / "secret.png")
        (root / "up").symlink_to(folder)
        yield root


@settings(max_examples=150, deadline=None)
@given(name=traps)
@example(name="../secret.png")
@example(name="../secret")
@example(name="link")
@example(name="up/secret")
@example(name="x" * 5000)
@example(name="9" * 5000)
@example(name="\ud800")
@example(name="a\0.png")
def test_no_id_leads_out_of_the_image_root(trap: Path, name: str) -> None:
    found = find_image(trap, name)
    assert found is None or found.resolve() == (trap / "a.png").resolve()


def test_ids_of_images_inside_are_found(trap: Path) -> None:
    assert find_image(trap, "a.png") == find_image(trap, "a") == (trap / "a.png").resolve()


def test_no_address_leads_to_a_file(site: Site) -> None:
    service, sign_in = site
    client = sign_in("ann", "annotator")
    limit = context_of(client).requests
    limit.rate = limit.burst = 1e9
    (service.directory.parent / "secret.png").write_bytes(b"a secret")

    @settings(max_examples=60, deadline=None)
    @given(name=traps | st.text(string.printable, max_size=20))
    @example(name="../secret.png")
    @example(name="..%2fsecret.png")
    @example(name="%2e%2e/%2e%2e/etc/passwd")
    def ask(name: str) -> None:
        for path in ("/image/", "/static/"):
            address = path + quote(name.encode(errors="replace"), safe="/%~")
            answer = client.get(address)
            assert b"a secret" not in answer.content
            assert b"root:" not in answer.content
            assert answer.status_code in (200, 303, 307, 401, 404, 405, 422), address

    ask()


def test_an_image_that_is_not_there_is_not_found(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    service, sign_in = site
    client = sign_in("ann", "annotator")
    assert client.get("/image/1").status_code == 200
    assert client.get("/image/99999").status_code == 404
    (service.directory / "broken.png").write_bytes(b"not an image")
    monkeypatch.setattr(service.competition.image_source, "path", lambda _: service.directory / "broken.png")
    assert client.get("/image/2").status_code == 404
    monkeypatch.setattr(service.competition.image_source, "path", lambda _: service.directory / "gone.png")
    assert client.get("/image/3").status_code == 404


def test_images_in_shards_are_served(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.effect_noise((300, 200), 90).convert("RGB").save(buffer, "PNG")
    with tarfile.open(tmp_path / "shard.tar", "w") as shard:
        entry = tarfile.TarInfo("dog/1.png")
        entry.size = len(buffer.getvalue())
        shard.addfile(entry, io.BytesIO(buffer.getvalue()))
    build_pool([tmp_path / "shard.tar"], tmp_path / "pool")
    found = ImageSource(tmp_path / "pool")
    (name,) = found._known
    server = ImageServer(tmp_path / "served", found)
    assert Image.open(io.BytesIO(server.jpeg(name))).size == (300, 200)
    assert len(list((tmp_path / "served").iterdir())) == 1
    assert server.jpeg(name) == server.jpeg(name)
    with pytest.raises(ImageError):
        server.jpeg("another")
