"""Serve a language model on a cluster of Ray: python examples/llm/ray_serve.py [--model FOLDER] [--replicas N]

    pip install 'pydispatch[compiler,llm]' 'ray[serve]' starlette uvicorn
    curl localhost:8000/v1/completions -d '{"prompt": "A dispatch is", "max_tokens": 40, "stream": true}'

Each replica has an engine of its own. The model is compiled once, on the machine that starts the deployment.

This example was run with Ray 2.60 on one machine.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ray import serve
from served import Served
from server import Completions
from starlette.requests import Request
from starlette.responses import Response

HERE = Path(__file__).resolve().parent
REQUESTS_PER_SEQUENCE = 4
"""Requests of a replica for each sequence that it generates at once; more would wait in a replica while others idle."""


class Model:
    """A replica: an engine and its HTTP endpoint. name: of the model, as answers state it."""

    def __init__(self, served: Served, name: str) -> None:
        """Start the engine of `served`, and answer under the model's `name`."""
        self.completions = Completions(served.engine(), name)

    async def __call__(self, request: Request) -> Response:
        return await self.completions.respond(request)


def deployment(served: Served, name: str, replicas: int, sequences: int) -> serve.Application:
    """Return the application that `serve.run` starts. sequences: requests that a replica generates at once."""
    options = serve.deployment(num_replicas=replicas, max_ongoing_requests=REQUESTS_PER_SEQUENCE * sequences)
    return options(Model).bind(served, name)


def main() -> None:
    """Compile the model, and serve it until the process is stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=HERE / "small", help="folder, or a GGUF file")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--sequences", type=int, default=8, help="requests that a replica generates at once")
    arguments = parser.parse_args()
    served = Served.read(arguments.model, sequences=arguments.sequences)
    name = arguments.model.resolve().name
    serve.run(deployment(served, name, arguments.replicas, arguments.sequences), blocking=True)


if __name__ == "__main__":
    main()
