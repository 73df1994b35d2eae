import pytest

from dragoman.kit import llm_from

ENVIRON = {"OPENAI_API_KEY": "sk-secret", "OTHER": "sk-other"}


def test_a_model_is_found_by_its_short_name() -> None:
    llm = llm_from("openai:gpt-5-mini", environ=ENVIRON)

    assert repr(llm) == "OpenAICompatible('https://api.openai.com/v1', 'gpt-5-mini')"
    assert (llm.model, llm.native_schema) == ("gpt-5-mini", True)


def test_a_name_may_have_colons_and_slashes_of_its_own() -> None:
    assert llm_from("ollama:llama3.2:3b").model == "llama3.2:3b"


def test_an_address_of_ones_own_needs_no_key_unless_one_is_named() -> None:
    assert llm_from("compatible:m", base_url="http://localhost:8080/v1").model == "m"
    assert llm_from("openai:m", base_url="http://localhost/v1", environ=ENVIRON, api_key_env="OTHER").model == "m"


def test_options_go_to_the_model() -> None:
    assert llm_from("ollama:m", native_schema=False).native_schema is False


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("gpt-5", "written provider:model"),
        ("openai:", "written provider:model"),
        ("opnai:x", "did you mean 'openai'"),
        ("compatible:x", "needs a base_url"),
        ("mistral:x", "MISTRAL_API_KEY is not set"),
    ],
)
def test_what_cannot_work_is_refused_with_a_hint(spec: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        llm_from(spec, environ=ENVIRON)
