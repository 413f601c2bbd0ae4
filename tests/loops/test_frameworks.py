"""gevent, Celery's forked workers and Django, with the real libraries.

FastAPI and Jupyter have modules of their own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fixtures.http
from fixtures.http import ABOUT
from tests.elsewhere import served
from tests.fresh import environment, run_alone
from tests.hang import HANG

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize("patched", ["", "thread=False, select=False", "socket=False, select=False"])
def test_blocking_call_under_gevent_raises_with_reason(patched: str) -> None:
    """The trio thread needs epoll and real sockets; the alternative is an endless wait or a wrong result."""
    program = f"""
import gevent.monkey
gevent.monkey.patch_all({patched})
import resolver
try:
    resolver.blocking.fetch("http://127.0.0.1:9/")
except RuntimeError as error:
    print(error)
"""
    assert run_alone(program).startswith("gevent has replaced")


def test_blocking_call_with_unpatched_gevent_succeeds() -> None:
    with served(fixtures.http.serve) as server:
        program = "import gevent.monkey, resolver, sys; print(resolver.blocking.fetch(sys.argv[1]).size)"
        assert run_alone(program, server.url("/about.txt")) == f"{len(ABOUT)}\n"


TASKS = """
import os
import celery
import resolver

app = celery.Celery("tasks")
app.conf.update(
    broker_url="filesystem://",
    broker_transport_options={{"data_folder_in": "queue", "data_folder_out": "queue"}},
    result_backend="file://results",
    broker_connection_retry_on_startup=True,
)
session = resolver.blocking.Resolver(policy=resolver.Policy(allow_port=frozenset([{port}])))
session.fetch("{url}")  # the parent process has an open connection when it forks

@app.task
def fetch(url):
    import resolver
    return resolver.blocking.fetch(url).size, os.getpid()
"""
CLIENT = """
import os, sys
from tasks import fetch
found = [fetch.delay(sys.argv[1]).get(timeout=30) for _ in range(4)]
print({size for size, _ in found}, os.getpid() in {process for _, process in found})
"""


def test_blocking_calls_in_forked_celery_workers_succeed(tmp_path: Path) -> None:
    for name in ("queue", "results"):
        (tmp_path / name).mkdir()
    with served(fixtures.http.serve) as server:
        (tmp_path / "tasks.py").write_text(TASKS.format(port=server.port, url=server.url("/about.txt")))
        environ = {**environment(), "PYTHONPATH": f"{CHECKOUT}:{tmp_path}"}
        worker = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--pool", "prefork", "-c", "2"]
        with subprocess.Popen(
            [*worker, "--loglevel", "error"], cwd=tmp_path, env=environ, stderr=subprocess.PIPE
        ) as running:
            try:
                done = subprocess.run(
                    [sys.executable, "-c", CLIENT, server.url("/about.txt")],
                    cwd=tmp_path,
                    env=environ,
                    capture_output=True,
                    encoding="utf-8",
                    timeout=HANG,
                )
            finally:
                running.terminate()
                running.communicate(timeout=HANG)
    assert (done.stdout, done.returncode) == (f"{{{len(ABOUT)}}} False\n", 0), done.stderr


VIEWS = """
import asyncio, sys
import django
from django.conf import settings
from django.http import HttpResponse
from django.urls import path
import resolver

def sync_view(request):
    return HttpResponse(resolver.blocking.fetch(sys.argv[1]).content)

async def async_view(request):
    return HttpResponse((await resolver.fetch(sys.argv[1])).content)

urlpatterns = [path("sync", sync_view), path("async", async_view)]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="x")
django.setup()
from django.test import AsyncClient, Client

print(*(len(Client().get(f"/{name}").content) for name in ("sync", "async")))

async def main():
    found = await asyncio.gather(*(AsyncClient().get(f"/{name}") for name in ("sync", "async") * 3))
    print(*(len(each.content) for each in found))

asyncio.run(main())
"""


def test_views_of_django_fetch_in_both_servers() -> None:
    """A synchronous view blocks its thread, an asynchronous view awaits; under WSGI and ASGI."""
    with served(fixtures.http.serve) as server:
        size = str(len(ABOUT))
        assert run_alone(VIEWS, server.url("/about.txt")).split() == [size] * 8
