import tomllib

from tests.rules.tree import VENDORED, files, text


def test_the_project_says_its_licence_in_one_voice() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]

    assert project["license"] == "Apache-2.0"
    assert "LICENSE" in project["license-files"]
    assert "Apache License" in text("LICENSE").splitlines()[1]
    assert text("NOTICE").startswith("Dragoman\n")


def test_what_is_vendored_brings_its_licence_and_is_named_in_the_notice() -> None:
    folders = {name.removeprefix(VENDORED).partition("/")[0] for name in files() if name.startswith(VENDORED)}

    assert folders == {"swagger"}
    assert f"{VENDORED}swagger/LICENSE" in files()
    assert "Swagger UI" in text("NOTICE")
    assert "SmartBear Software" in text("NOTICE")
