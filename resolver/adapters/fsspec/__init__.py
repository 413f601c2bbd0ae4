"""fsspec file systems, one for each scheme with listings, for pandas, dask, xarray and other libraries.

    fsspec.open("gopher://gopher.example/0/data.csv")
    dask.dataframe.read_csv("resolve+ftp://ftp.example/pub/*.csv", storage_options={"policy": "untrusted"})

Entry points register each file system with three protocol names, for example `ftps`, `resolveftps` and
`resolve+ftps`. The second name is for libraries in which a protocol name cannot contain `+`. The first name
is the scheme. The scheme is not registered if fsspec has its own file system for the scheme, or if pandas
handles the scheme itself. `clobber` replaces fsspec's own file systems.

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
