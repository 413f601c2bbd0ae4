"""fsspec file systems, one for each scheme with listings, for pandas, dask, xarray and other libraries.

    fsspec.open("gopher://gopher.example/0/data.csv")
    dask.dataframe.read_csv("resolve+ftp://ftp.example/pub/*.csv", storage_options={"policy": "untrusted"})

Entry points register each file system with three protocol names: the scheme, `resolveftp` and `resolve+ftp`.
The second name is for libraries in which a protocol name cannot contain `+`. If fsspec has a file system with
the first name, or pandas handles this scheme itself, only the other names are registered. `clobber` also
registers the first name.

A path in a file system is a URL without its scheme and its password: `ftp.example/pub/a%20b.csv`. The file
systems are read-only. The policy checks each request. An incomplete transfer raises `OSError`.
"""

from resolver.adapters.fsspec.filesystem import (
    FtpFileSystem,
    FtpsFileSystem,
    GopherFileSystem,
    GophersFileSystem,
    HttpFileSystem,
    HttpsFileSystem,
    NntpFileSystem,
    ProsperoFileSystem,
    UrlFileSystem,
    WaisFileSystem,
    clobber,
)

__all__ = [
    "FtpFileSystem",
    "FtpsFileSystem",
    "GopherFileSystem",
    "GophersFileSystem",
    "HttpFileSystem",
    "HttpsFileSystem",
    "NntpFileSystem",
    "ProsperoFileSystem",
    "UrlFileSystem",
    "WaisFileSystem",
    "clobber",
]
