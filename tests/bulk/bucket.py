"""An S3 server with one bucket: `python -m tests.bulk.bucket NAME`.

It prints its address in a line and ends with its input. `fetch` copies the content of the bucket with s3fs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from tests.fresh import environment
from tests.hang import HANG

CHECKOUT = Path(__file__).parents[2]
NAME = "crawl"

_FETCH = """
import sys
import fsspec
place, folder = sys.argv[1:]
files, root = fsspec.url_to_fs(place)
files.get(root + "/", folder, recursive=True)
"""


def serve(name: str) -> None:
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    place = f"http://{host}:{port}"
    urlopen(Request(f"{place}/{name}", method="PUT")).close()
    print(place, flush=True)
    sys.stdin.read()
    server.stop()


def keys() -> dict[str, str]:
    """Return an environment with a login for this server, without other sources of credentials."""
    return {
        **environment(),
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextmanager
def open_bucket() -> Iterator[dict[str, str]]:
    """Start the server; yield an environment in which `s3://` leads to it."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bulk.bucket", NAME],
        cwd=CHECKOUT,
        env=keys(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        place = process.stdout.readline().strip()
        assert place, "there is no server of S3"
        yield {**keys(), "AWS_ENDPOINT_URL": place}
        process.communicate(timeout=HANG)


def fetch(place: str, folder: Path, env: Mapping[str, str]) -> None:
    """Copy all objects into a new folder."""
    words = [sys.executable, "-c", _FETCH, place, str(folder)]
    subprocess.run(words, env=env, stdin=subprocess.DEVNULL, timeout=HANG, check=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
