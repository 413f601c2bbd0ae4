"""File systems of fsspec, one for each scheme with listings: for pandas, dask, xarray and others.

    fsspec.open("gopher://gopher.example/0/data.csv")
    dask.dataframe.read_csv("resolve+ftp://ftp.example/pub/*.csv", storage_options={"policy": "untrusted"})

Entry points register each file system by its scheme, and by `resolve+` and its scheme. Where fsspec has its
own file system of that name, or pandas opens it in another way, only the second name is registered, until
`clobber` is called.

A name in a file system is a URL without its scheme and its password: `ftp.example/pub/a%20b.csv`. The file
systems are read-only, and check each request against the policy. An incomplete transfer is an `OSError`.
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
