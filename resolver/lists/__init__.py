"""Lists of files that say more than URLs do: names, sizes, digests, mirrors. Machines without I/O.

`metalink` reads Metalink 4, `sums` the lines of `sha256sum` and its kin, `names` what they call a file. Each
gives `Listed`, one a file; what is wrong with one file is told in its place, and the others are read.
"""
