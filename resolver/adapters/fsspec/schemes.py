"""The file systems, one a scheme, each by what its URLs are like."""

from __future__ import annotations

from fsspec import register_implementation

from resolver.adapters.fsspec.filesystem import UrlFileSystem
from resolver.adapters.fsspec.names import parent


def _found_by(protocol: str) -> tuple[str, str]:
    return protocol.partition("+")[2], protocol


class FtpFileSystem(UrlFileSystem):
    """Files of FTP servers; what a listing does not tell of a link the server is asked for."""

    protocol = _found_by("resolve+ftp")
    ranges = True
    slashed = True


class FtpsFileSystem(FtpFileSystem):
    """The same in TLS from the first octet."""

    protocol = _found_by("resolve+ftps")


class HttpFileSystem(UrlFileSystem):
    """Documents of web servers, and index pages as directories: what such a page names below itself."""

    protocol = _found_by("resolve+http")
    ranges = True
    slashed = True
    magic = "*["
    pages = True


class HttpsFileSystem(HttpFileSystem):
    """The same in TLS."""

    protocol = _found_by("resolve+https")


class GopherFileSystem(UrlFileSystem):
    """Menus as directories, and what they lead to by gopher. The type of an item, which begins its path,
    makes no difference to what is below what, nor to a pattern: `host/0/pub/*.txt` finds all in the menu
    `/pub`. Nor does that of a selector which repeats it, or what Gopher+ appends."""

    protocol = _found_by("resolve+gopher")

    @classmethod
    def key(cls, name: str) -> str:
        authority, _, path = name.partition("/")
        return f"{authority}/{_selector(path).partition('%09')[0]}"

    @classmethod
    def menu(cls, name: str) -> str:
        authority, _, path = name.partition("/")
        selector = _selector(path)
        if not selector.strip("/"):
            return authority
        return f"{authority}/{'1' if selector == path[1:] else '11'}{selector}"

    @classmethod
    def _parent(cls, path: str) -> str:
        name = cls._strip_protocol(path)
        return cls.menu(parent(name)) if "/" in name else ""


def _selector(path: str) -> str:
    """Without the type before it, and without one of its own that says the same."""
    selector = path[1:]
    return selector[1:] if selector[:1] == path[:1] and selector[1:2] == "/" else selector


class GophersFileSystem(GopherFileSystem):
    """The same in TLS."""

    protocol = _found_by("resolve+gophers")


class NntpFileSystem(UrlFileSystem):
    """Groups as directories, articles as files."""

    protocol = _found_by("resolve+nntp")


class WaisFileSystem(UrlFileSystem):
    """Results of a search (`server/database?words`), and the documents that it finds."""

    protocol = _found_by("resolve+wais")
    magic = "*["


class ProsperoFileSystem(UrlFileSystem):
    """Directories and files of Prospero servers."""

    protocol = _found_by("resolve+prospero")


def clobber() -> None:
    """Let these file systems serve where fsspec has others of its own: under `ftp`, `http` and `https`, in
    this process, from now on."""
    for each in (FtpFileSystem, HttpFileSystem, HttpsFileSystem):
        register_implementation(each.protocol[0], each, clobber=True)
