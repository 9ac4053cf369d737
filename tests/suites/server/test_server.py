"""The server of examples/llm over its application: answers, streams, errors, and clients that disconnect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
import server
from clock import gated
from fake_program import FakeProgram, expected
from starlette import testclient
from test_text import Bytes

from pydispatch.generate import Engine

ANSWER = Bytes().decode(expected(list(b"Hello"), 8))


@pytest.fixture
def program() -> FakeProgram:
    return FakeProgram(rows=1)


@pytest.fixture
def client(program: FakeProgram) -> Iterator[Any]:
    with testclient.TestClient(server.application(Engine(program, Bytes(), max_queue=1), "fake")) as client:
        yield client


def post(client: Any, **fields: Any) -> Any:
    return client.post("/v1/completions", json={"prompt": "Hello", "max_tokens": 8, "temperature": 0, **fields})


def test_completions(client: Any) -> None:
    response = post(client)
    assert response.status_code == 200
    body = response.json()
    assert body["object"] == "text_completion" and body["model"] == "fake"
    assert body["choices"] == [{"index": 0, "text": ANSWER, "logprobs": None, "finish_reason": "length"}]
    assert body["usage"] == {
        "prompt_tokens": 5, "completion_tokens": 8, "total_tokens": 13, "prompt_tokens_details": {"cached_tokens": 0},
    }  # fmt: skip
    assert post(client).json()["usage"]["prompt_tokens_details"] == {"cached_tokens": 4}
    assert post(client, stop=ANSWER[3:5], n=1, logprobs=None).json()["choices"][0] == {
        "index": 0, "text": ANSWER[:3], "logprobs": None, "finish_reason": "stop",
    }  # fmt: skip
    first, second = (post(client, prompt=[1, 2], temperature=0.7, top_p=0.9, top_k=5, seed=3) for _ in range(2))
    assert first.json()["choices"] == second.json()["choices"]
    assert client.get("/v1/models").json()["data"][0]["id"] == "fake"


def test_streams(client: Any) -> None:
    response = post(client, stream=True)
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, done, rest = response.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    choices = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events]
    assert "".join(choice["text"] for choice in choices) == ANSWER
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["length"]


@pytest.mark.parametrize(("fields", "message"), [
    ({"prompt": None}, "prompt: expected a text or a list of tokens, got None"),
    ({"prompt": ""}, "prompt: expected one token or more"),
    ({"max_tokens": 1000}, "exceed the limit of 64 tokens"),
    ({"temperature": "hot"}, "temperature: expected a number, at least 0, got 'hot'"),
    ({"n": 2}, "n: 2 is not supported here"),
    ({"max_new_tokens": 3}, "there is no field 'max_new_tokens'; there are: prompt, stream, max_tokens"),
    ({"stop": 1.5}, "stop: expected"),
])  # fmt: skip
def test_wrong_requests(client: Any, fields: dict[str, Any], message: str) -> None:
    response = post(client, **fields)
    assert response.status_code == 400
    assert message in response.json()["error"]["message"]
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_bodies_that_are_no_requests(client: Any) -> None:
    for body, message in (("{", "no JSON:"), ("[]", "no JSON object"), ('"' + "x" * (1 << 20) + '"', "longer than")):
        response = client.post("/v1/completions", content=body)
        assert response.status_code == 400 and message in response.json()["error"]["message"]


def test_failures_of_the_program_and_deadlines(client: Any, program: FakeProgram) -> None:
    assert post(client, timeout=0).status_code == 504
    program.failing = frozenset(b"!")
    response = post(client, prompt="Hello!")
    assert response.status_code == 500 and response.json()["error"]["message"] == "a token that fails"
    (event, rest) = post(client, prompt="Hello!", stream=True).text.split("\n\n")
    assert json.loads(event.removeprefix("data: "))["error"]["type"] == "server_error" and rest == ""
    assert post(client).json()["choices"][0]["text"] == ANSWER


def test_a_full_queue(program: FakeProgram) -> None:
    engine = Engine(program, Bytes(), max_queue=1)
    with testclient.TestClient(server.application(engine, "fake")) as client, gated(program) as gate:
        engine.submit("a", max_new_tokens=50)
        gate.wait()
        engine.submit("b", max_new_tokens=1)
        response = post(client)
        assert response.status_code == 429 and response.headers["retry-after"] == "1"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_disconnects_cancels_its_request(program: FakeProgram, stream: bool) -> None:
    """The application is called as a server calls it, with a client that goes away after a while."""

    async def main() -> None:
        engine = Engine(program, Bytes())
        application = server.application(engine, "fake")
        gone = asyncio.Event()
        body = json.dumps({"prompt": "Hello", "max_tokens": 50, "stream": stream}).encode()
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if gone.is_set():
                raise OSError("the client has disconnected")

        scope = {
            "type": "http", "http_version": "1.1", "asgi": {"version": "3.0", "spec_version": "2.3"}, "method": "POST",
            "path": "/v1/completions", "query_string": b"", "headers": [], "scheme": "http", "root_path": "",
        }  # fmt: skip
        with gated(program) as gate:
            call = asyncio.ensure_future(application(scope, receive, send))
            await asyncio.to_thread(gate.wait)
            await asyncio.to_thread(gate.let, 3)
            assert engine.statistics().running == 1
            gone.set()
            await asyncio.wait([call], timeout=60)
            assert call.done()
            gate.open()
            await engine.aclose()
        assert engine.statistics().pages_used == 0
        assert engine._worker.scheduler.steps < 40, "the request was not computed to its end"

    asyncio.run(main())
