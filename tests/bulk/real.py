"""The forty hosts with real servers behind the relays: vsftpd, nginx, Gophernicus and INN."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.bulk.hosts import EACH, SCHEMES, Hosts, content, is_missing, open_hosts
from tests.hang import HANG
from tests.servers.certificates import Certificates
from tests.servers.ftp_servers import FtpSite, vsftpd_at
from tests.servers.gopher_servers import GopherServer
from tests.servers.http_servers import HttpServer
from tests.servers.news_servers import NewsServer, inn
from tests.servers.news_spool import GONE, PROSE, Article, take
from tests.servers.service import LOOPBACK

Trees = Mapping[str, Path]


@contextmanager
def open_real_hosts(
    folder: Path,
    *,
    objects: int,
    trees: Trees,
    site: FtpSite,
    nginx: HttpServer,
    gophernicus: GopherServer,
    news: tuple[NewsServer, Mapping[int, Article]],
) -> Iterator[Hosts]:
    """Write the objects into `trees`, which the servers of each scheme serve, and run the hosts.

    The objects are removed at the end.
    """
    served, articles = news
    ftp_hosts = [f"127.0.1.{len(SCHEMES) * number + 1}" for number in range(EACH)]
    with ExitStack() as stack:
        for scheme, tree in trees.items():
            _write(scheme, tree / "bulk", objects, stack)
        real = {
            "ftp": stack.enter_context(vsftpd_at(ftp_hosts, site, folder)),
            "http": [(LOOPBACK, nginx.port)],
            "gopher": [(LOOPBACK, gophernicus.port)],
            "nntp": [(LOOPBACK, served.ports["plain"])],
        }
        hosts = stack.enter_context(open_hosts(folder, objects=objects, real=real))
        for url in hosts.whole:
            if url.startswith("nntp:"):
                article = articles.get(int(url.rpartition("/")[2]))
                hosts.whole[url] = None if article is None else article.body
        yield hosts


def _write(scheme: str, folder: Path, objects: int, stack: ExitStack) -> None:
    folder.mkdir(mode=0o755)
    stack.callback(shutil.rmtree, folder)
    for number in range(1, objects + 1):
        if not is_missing(scheme, number):
            path = folder / f"{number}.bin"
            path.write_bytes(content(scheme, number))
            path.chmod(0o644)


@contextmanager
def open_news(
    folder: Path, certificates: Certificates, objects: int
) -> Iterator[tuple[NewsServer, Mapping[int, Article]]]:
    """Run INN with so many articles; one of them was canceled."""
    with inn(folder, certificates) as server:
        more = [
            Article(f"more-{number}@example.test", content("nntp", number))
            for number in range(max(PROSE) + 1, objects + 1)
        ]
        take(server.ports["transit"], more, HANG)
        articles = {number: article for number, article in PROSE.items() if number != GONE}
        yield server, articles | dict(enumerate(more, max(PROSE) + 1))
