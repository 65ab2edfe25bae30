"""Translate over HTTP, and show in the browser how every decoder translates a sentence.

    curl -H 'Content-Type: application/json' -d '{"text": "The light is on."}' http://127.0.0.1:8000/translate

`docs/serve.md` describes the paths. SIGTERM and control-C stop the service when the requests under way are answered.
"""

import argparse
import dataclasses
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, get_type_hints

from pipeline.checks import Refused
from pipeline.errors import PipelineError
from pipeline.model_options import NamedModel, add_checkpoint_arguments, open_model, open_trained, refuse_languages
from pipeline.params import Params, load_params
from pipeline.service.limits import Limits

if TYPE_CHECKING:
    from pipeline.service.models import ServedModel

_DIGITS = 9
"""The most of a port, leading zeros included: Python refuses to read numbers of thousands of digits."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model = parser.add_mutually_exclusive_group()
    model.add_argument("--family", action="append", help="a trained block of `families`; may be repeated, and requests "
                                                         "that name none get the first one (default: all trained "
                                                         "`systems`)")
    add_checkpoint_arguments(parser, model)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, for this "
                                                            "machine only; 0.0.0.0: for all)")
    parser.add_argument("--port", default="8000", help="0: any free one (default: 8000)")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto (default)")
    kinds = get_type_hints(Limits)
    for field in dataclasses.fields(Limits):
        parser.add_argument(_option(field.name), type=kinds[field.name], default=field.default,
                            metavar=field.metadata["unit"],
                            help=f"{field.metadata['meaning']} (default: {field.default})")


def run(arguments: argparse.Namespace) -> None:
    from pipeline.service.app import make_server

    limits = _limits(arguments)
    with listen(arguments.host, arguments.port) as listening:  # before models are loaded
        server = make_server(_open_models(arguments), limits)
        # A signal may come before uvicorn runs, which also raises the one that has stopped it once more; a service that
        # was told to stop has not failed.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: setattr(server, "should_exit", True))
        host, port = listening.getsockname()[:2]
        print(f"http://{f'[{host}]' if ':' in host else host}:{port}", flush=True)
        server.run([listening])
    if server.is_searching:  # Python's own end would wait for the thread
        sys.stderr.flush()
        os._exit(0)


def _limits(arguments: argparse.Namespace) -> Limits:
    try:
        return Limits(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(Limits)})
    except Refused as refused:
        field, _, fault = str(refused).partition(":")
        raise PipelineError(f"{_option(field)}:{fault}") from None


def listen(host: str, port: str) -> socket.socket:
    """A socket that listens on a port, 0 for any free one.

    Raises:
        PipelineError: the port is not a port number, or is in use; or the host is not an address of this machine.
    """
    if not host:  # which would be all addresses
        raise PipelineError("--host: '' is not an address; give one of this machine, or 0.0.0.0 for all")
    number = int(port) if port.isascii() and port.isdigit() and len(port) <= _DIGITS else -1
    if not 0 <= number < 2**16:
        raise PipelineError(f"--port: {port!r} must be a number from 0 (any free port) to {2**16 - 1}")
    try:
        with ExitStack() as unfinished:
            # asyncio sends at once, without waiting for acknowledgements, on sockets that say that they are of TCP.
            listening = unfinished.enter_context(socket.socket(
                socket.AF_INET6 if ":" in host else socket.AF_INET, proto=socket.IPPROTO_TCP))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, number))
            listening.listen(2048)
            unfinished.pop_all()
            return listening
    except (OSError, TypeError, ValueError) as error:  # the last two are of names that no host can have
        reason = error.strerror if isinstance(error, OSError) else "not a name"
        raise PipelineError(f"--host {host} --port {port}: cannot listen there: {reason}; choose another port, or 0 "
                            "for any free one, and an address of this machine") from None


def _open_models(arguments: argparse.Namespace) -> "list[ServedModel]":
    """The models that the options name, in their order, ready for requests."""
    from pipeline.service.models import ServedModel

    return [ServedModel(one.name, one.decoders, one.settings, one.model, languages=one.languages,
                        device=arguments.device) for one in _named_models(arguments)]


def _named_models(arguments: argparse.Namespace) -> Iterator[NamedModel]:
    """The models that the options name, each opened when its turn comes."""
    if arguments.model is not None:
        yield open_model(arguments)
        return
    refuse_languages(arguments)
    params = load_params()
    for family in dict.fromkeys(arguments.family or _trained(params)):
        print(f"opening {family}", file=sys.stderr, flush=True)
        yield open_trained(params, family)


def _trained(params: Params) -> list[str]:
    from pipeline.text_model import is_trained

    trained = [family for family in params.systems if is_trained(family)]
    if not trained:
        raise PipelineError("no system of params.yaml has been trained; run `dvc repro`")
    return trained


def _option(field: str) -> str:
    return "--" + field.replace("_", "-")
