"""The tests. A real package, because a `tests` package that some dependency installs would hide a folder."""
