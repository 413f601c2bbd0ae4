"""Programs for developers of this repository, which are not installed with the package."""
