"""The hosts, and two clusters: a standard cluster of Dask, and one whose processes are killed.

They exist only while tests use them: the processes of a cluster hold some hundred megabytes, and are never
quite idle.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.bulk.forked import QUIET, Cluster, open_cluster
from tests.bulk.hosts import Hosts, open_hosts
from tests.bulk.real import open_news, open_real_hosts
from tests.sampled import FULL
from tests.servers.conftest import (  # noqa: F401
    _gophernicus,
    _nginx,
    certificates,
    ftp_site,
    ftp_tree,
    gopher_tree,
    http_tree,
)

if TYPE_CHECKING:
    from distributed import Client

#: Objects of each of the forty hosts: enough that some are missing.
OBJECTS = 100 if FULL else 4


@pytest.fixture(scope="package")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Run mock servers, which need no programs on the machine."""
    with open_hosts(tmp_path_factory.mktemp("hosts"), objects=OBJECTS) as hosts:
        yield hosts


@pytest.fixture(scope="package")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a launcher of schedulers, workers and clients that may be killed."""
    with open_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def local_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Yield the client of a `LocalCluster` of two processes with eight threads each."""
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"temporary-directory": str(tmp_path_factory.mktemp("dask")), **QUIET}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=8,
            processes=True,
            host="127.0.0.1",
            protocol="tcp://",
            dashboard_address="127.0.0.1:0",  # the default is 8787, which another cluster may use
            memory_limit=0,
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def real_hosts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Run real servers, for all 4,000 URLs."""
    news_folder, folder = tmp_path_factory.mktemp("news"), tmp_path_factory.mktemp("real_hosts")
    with (
        open_news(news_folder, request.getfixturevalue("certificates"), OBJECTS) as news,
        open_real_hosts(
            folder,
            objects=OBJECTS,
            trees={scheme: request.getfixturevalue(f"{scheme}_tree") for scheme in ("ftp", "http", "gopher")},
            site=request.getfixturevalue("ftp_site"),
            nginx=request.getfixturevalue("nginx"),
            gophernicus=request.getfixturevalue("gophernicus"),
            news=news,
        ) as hosts,
    ):
        yield hosts
