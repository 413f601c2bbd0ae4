"""A data set in the formats of the data libraries, served by nginx and vsftpd.

The column `square` has the squares of 0 to 9, in each format.
"""

from __future__ import annotations

import os
from pathlib import Path

#: The sum of the column, and its sum in the partition of the year 2025.
TOTAL, IN_2025 = 285, 255


def write_data(folder: Path) -> None:
    """Write table.csv, table.parquet, hive/year=…, cube.zarr (Zarr 3) and cube.nc (NetCDF 4)."""
    import h5netcdf  # each library takes up to a second, in every pytest worker if imported above
    import pandas
    import zarr

    squares = [number * number for number in range(10)]
    table = pandas.DataFrame({"n": range(10), "square": squares, "year": [2024] * 5 + [2025] * 5})
    folder.mkdir(parents=True)
    table.to_csv(folder / "table.csv", index=False)
    table.to_parquet(folder / "table.parquet")
    table.to_parquet(folder / "hive", partition_cols=["year"])
    group = zarr.open_group(str(folder / "cube.zarr"), mode="w", zarr_format=3)
    group.create_array("square", data=table["square"].to_numpy(), chunks=(4,), dimension_names=["n"])
    with h5netcdf.File(folder / "cube.nc", "w") as cube:
        cube.dimensions = {"n": 10}
        cube.create_variable("square", ("n",), data=table["square"].to_numpy())
    for place, _, names in os.walk(folder):  # world-readable, because vsftpd drops root privileges
        os.chmod(place, 0o755)
        for name in names:
            os.chmod(os.path.join(place, name), 0o644)
