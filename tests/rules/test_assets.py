import hashlib

from tests.rules.tree import ROOT, VENDORED, files

SWAGGER = ROOT / VENDORED / "swagger"


def test_swagger_ui_is_what_its_version_file_says() -> None:
    title, *lines = (SWAGGER / "VERSION").read_text(encoding="utf-8").splitlines()
    told = {name: digest for digest, name in (line.split() for line in lines)}

    assert title.split()[0] == "swagger-ui-dist"
    assert told == {name: hashlib.sha256((SWAGGER / name).read_bytes()).hexdigest() for name in told}
    assert {"swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png", "LICENSE"} == set(told)


def test_nothing_else_lies_beside_it() -> None:
    beside = {name.rpartition("/")[2] for name in files() if name.startswith(f"{VENDORED}swagger/")}

    assert beside == {"swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png", "LICENSE", "VERSION"}
