"""File systems of fsspec, one for each scheme that lists: for pandas, dask, xarray and whatever opens by it.

    fsspec.open("gopher://gopher.example/0/data.csv")
    dask.dataframe.read_csv("resolve+ftp://ftp.example/pub/*.csv", storage_options={"policy": "untrusted"})

They are found by entry points, each by its scheme and by `resolve+` and its scheme; where fsspec has one of
its own by that name, or pandas opens it in another way, by the second alone, until `clobber` is called.

A name in a file system is a URL without its scheme and without a password: `ftp.example/pub/a%20b.csv`. All
is read, nothing is written; all is fetched under the policy; what does not arrive whole is an `OSError`.
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
