"""The official client of OpenAI works against the server as it is."""

import openai
import pytest

from tests.harness.serve.live import serving


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("runs")) as live:
        yield live
    assert live.served[0].verdict.value == "pass"


@pytest.fixture
def client(live):
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_it_lists_the_model(client, live):
    assert [model.id for model in client.models.list()] == [live.model]
    assert client.models.retrieve(live.model).id == live.model


def test_it_completes_a_text(client, live):
    reply = client.completions.create(model=live.model, prompt="once upon", max_tokens=5)
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage.prompt_tokens == len("once upon")
    assert reply.usage.completion_tokens == 5
    assert len(reply.choices[0].text.split()) == 5


def test_a_second_time_the_prefix_is_cached_and_the_answer_the_same(client, live):
    prompt = list(range(300, 400))
    first, second = (
        client.completions.create(model=live.model, prompt=prompt, max_tokens=3, temperature=0)
        for _ in range(2)
    )
    assert first.usage.prompt_tokens_details.cached_tokens == 0
    assert second.usage.prompt_tokens_details.cached_tokens == 96
    assert first.choices[0].text == second.choices[0].text


def test_it_streams_a_completion_token_by_token(client, live):
    whole = client.completions.create(model=live.model, prompt="a", max_tokens=6)
    chunks = list(
        client.completions.create(model=live.model, prompt="a", max_tokens=6, stream=True)
    )
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "length"


def test_it_chats_and_the_next_turn_hits_what_was_answered(client, live):
    messages = [{"role": "user", "content": "tell me of pages and slots " * 3}]
    first = client.chat.completions.create(model=live.model, messages=messages, max_tokens=40)
    answer = first.choices[0].message
    assert answer.role == "assistant"
    messages += [
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": "more"},
    ]
    second = client.chat.completions.create(model=live.model, messages=messages, max_tokens=2)
    # All whole pages of the first prompt and its answer, but for the last token of it.
    known = first.usage.prompt_tokens + 39
    assert second.usage.prompt_tokens_details.cached_tokens == known // 16 * 16


def test_it_streams_a_chat_with_usage_at_the_end(client, live):
    chunks = list(
        client.chat.completions.create(
            model=live.model,
            messages=[{"role": "user", "content": "hello"}],
            max_completion_tokens=4,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    assert all(chunk.choices[0].delta.content for chunk in chunks[:-1])
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 4


def test_its_errors_are_the_clients_own(client, live):
    with pytest.raises(openai.NotFoundError) as missing:
        client.completions.create(model="gpt-none", prompt="a")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as bad:
        client.completions.create(model=live.model, prompt="a", max_tokens=5000)
    assert bad.value.code == "context_length_exceeded"
    assert bad.value.param == "max_tokens"
