"""Serve a language model over HTTP: python examples/llm/server.py [--model FOLDER] [--port 8000]

    pip install 'pydispatch[compiler,llm]' starlette uvicorn
    curl localhost:8000/v1/completions -d '{"prompt": "A dispatch is", "max_tokens": 40, "stream": true}'

The protocol is that of OpenAI's completions, so that its clients work: `POST /v1/completions`, also streamed as
server-sent events, and `GET /v1/models`. `top_k` and `timeout` (seconds) are additions. Requests of all connections are
generated together. A client that disconnects cancels its request; when too many wait, the answer is 429.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from command_line import run
from served import Served
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import pydispatch as pd
from pydispatch.generate import Completion, DeadlineError, Engine, EngineStoppedError, Handle, QueueFullError

HERE = Path(__file__).resolve().parent
MAX_BODY_BYTES = 1 << 20
"""Largest request; longer prompts do not fit models of this size anyway."""

OPTIONS = {
    "max_tokens": "max_new_tokens", "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "seed": "seed",
    "stop": "stop", "timeout": "deadline",
}  # fmt: skip
"""Fields of a request, and the arguments of `Engine.submit` that they become. null is the default."""
IGNORED = frozenset(("model", "stream", "prompt", "user"))
"""Fields that are no argument of `Engine.submit` by name: read elsewhere, or without effect."""
NEUTRAL = {"n": 1, "best_of": 1, "echo": False, "logprobs": None, "suffix": None, "logit_bias": None}
"""Fields of the protocol that have no counterpart here, with the values that change nothing."""
STATUS = (
    (QueueFullError, 429, "rate_limit_error"), (pd.InvalidArgumentError, 400, "invalid_request_error"),
    (DeadlineError, 504, "timeout_error"), (EngineStoppedError, 503, "server_error"),
)  # fmt: skip
"""HTTP status and OpenAI's `type` of each error."""


class Completions:
    """The endpoint `/v1/completions` of an engine. name: of the model, as answers state it."""

    def __init__(self, engine: Engine[str], name: str) -> None:
        self.engine, self.name = engine, name

    async def respond(self, request: Request) -> Response:
        """Return the answer to one request, or the error that it gets."""
        try:
            fields = await body_of(request)
            handle = submitted(self.engine, fields)
        except Exception as error:
            return failure(error)
        identity = f"cmpl-{uuid.uuid4().hex}"
        head = {"id": identity, "object": "text_completion", "created": int(time.time()), "model": self.name}
        if fields.get("stream"):
            return StreamingResponse(events(handle, head), media_type="text/event-stream")
        try:
            completion = await unless_disconnected(request, handle)
        except Exception as error:
            return failure(error)
        usage = {
            "prompt_tokens": completion.prompt_tokens,
            "completion_tokens": len(completion.tokens),
            "total_tokens": completion.prompt_tokens + len(completion.tokens),
            "prompt_tokens_details": {"cached_tokens": completion.reused_tokens},
        }
        return JSONResponse({**head, "choices": [choice(completion.text, completion.finish_reason)], "usage": usage})


def application(engine: Engine[str], name: str) -> Starlette:
    """Return the ASGI application of an engine, which it closes at its end."""

    async def models(request: Request) -> Response:
        """Return the list of models, which has one entry."""
        return JSONResponse({"object": "list", "data": [{"id": name, "object": "model", "owned_by": "pydispatch"}]})

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        """Stop the engine when the application ends, and cancel its requests."""
        try:
            yield
        finally:
            await engine.aclose(cancel=True)

    completions = Completions(engine, name)
    routes = [Route("/v1/completions", completions.respond, methods=["POST"]), Route("/v1/models", models)]
    return Starlette(routes=routes, lifespan=lifespan)


async def body_of(request: Request) -> dict[str, Any]:
    """Return the fields of a request. Raise InvalidArgumentError for a body that is too long or no JSON object."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise pd.InvalidArgumentError(f"the request is longer than {MAX_BODY_BYTES} bytes")
    try:
        fields = json.loads(body)
    except ValueError as error:
        raise pd.InvalidArgumentError(f"the request is no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise pd.InvalidArgumentError("the request is no JSON object")
    return fields


def submitted(engine: Engine[str], fields: dict[str, Any]) -> Handle[str]:
    """Submit the request of the fields of a body. Raise InvalidArgumentError for fields that cannot be honoured."""
    for field, value in fields.items():
        if field in NEUTRAL and value not in (None, NEUTRAL[field]):
            raise pd.InvalidArgumentError(f"{field}: {value!r} is not supported here")
        if field not in IGNORED and field not in OPTIONS and field not in NEUTRAL:
            known = ", ".join(("prompt", "stream", *OPTIONS))
            raise pd.InvalidArgumentError(f"there is no field '{field}'; there are: {known}")
    prompt = fields.get("prompt")
    if not isinstance(prompt, (str, list)):
        raise pd.InvalidArgumentError(f"prompt: expected a text or a list of tokens, got {prompt!r}")
    options = {OPTIONS[field]: value for field, value in fields.items() if field in OPTIONS and value is not None}
    return engine.submit(prompt, **{"max_new_tokens": 16, "temperature": 1.0, **options})


async def unless_disconnected(request: Request, handle: Handle[str]) -> Completion:
    """Return the completion of a request, and cancel it when the client goes away."""

    async def watch() -> None:
        """Cancel the request when the client has disconnected."""
        while (await request.receive())["type"] != "http.disconnect":
            pass
        handle.cancel()

    watching = asyncio.ensure_future(watch())
    try:
        return await handle
    finally:
        watching.cancel()


async def events(handle: Handle[str], head: dict[str, Any]) -> AsyncIterator[str]:
    """Yield the server-sent events of a request. The server ends the iteration when the client disconnects.

    head: fields that all events have.
    """
    try:
        async for piece in handle:
            yield event({**head, "choices": [choice(piece, finish_reason=None)]})
        completion = await handle
        yield event({**head, "choices": [choice("", completion.finish_reason)]})
        yield "data: [DONE]\n\n"
    except Exception as error:
        yield event(json.loads(bytes(failure(error).body)))
    finally:
        handle.cancel()


def event(fields: dict[str, Any]) -> str:
    """Return the text of a server-sent event."""
    return f"data: {json.dumps(fields)}\n\n"


def choice(text: str | None, finish_reason: str | None) -> dict[str, Any]:
    """Return the only choice of an answer. finish_reason: None while more text follows."""
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}


def failure(error: Exception) -> Response:
    """Return the response for a request that is refused or fails."""
    matching = (entry for entry in STATUS if isinstance(error, entry[0]))
    _, status, kind = next(matching, (Exception, 500, "server_error"))
    headers = {"Retry-After": "1"} if status == 429 else None
    return JSONResponse({"error": {"message": str(error), "type": kind, "code": None}}, status, headers)


def main() -> int:
    """Compile the model, and serve it until the process is stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=HERE / "small", help="folder, or a GGUF file")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sequences", type=int, default=8, help="requests that are generated at once")
    parser.add_argument("--max-tokens", type=int, default=512, help="longest prompt and answer together")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    served = Served.read(arguments.model, arguments.device, arguments.sequences, arguments.max_tokens)
    engine = served.engine(arguments.device)
    uvicorn.run(application(engine, arguments.model.resolve().name), host=arguments.host, port=arguments.port)
    return 0


if __name__ == "__main__":
    run(main)
