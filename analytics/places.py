"""Files, wherever Spark keeps them: a directory of this machine, HDFS, an object store.

A path without a scheme is a local one. Everything goes through Hadoop's file system, as Spark's own reading and writing
does, so whatever Spark can read can be listed here.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession


class File(NamedTuple):
    path: str
    """As Spark reads it: with its scheme, nothing quoted."""
    size: int


def located(path: str) -> str:
    """The path with its scheme; a local one is made absolute. Unlike in a URI nothing is quoted."""
    return path if urlsplit(path).scheme else f"file:{Path(path).absolute()}"


def unquoted(uri: str) -> str:
    """The path of a file as it is, from what Spark tells of a row that it has read (`_metadata.file_path`)."""
    return unquote(uri).replace("file:///", "file:/", 1)


def is_local(path: str) -> bool:
    return urlsplit(path).scheme in ("", "file")


def local_size(directory: str, patterns: Iterable[str]) -> int | None:
    """How many bytes the files below a local directory have that match one of these globs; None if it is no local one.
    Known before Spark is started."""
    if not is_local(directory):
        return None
    top = Path(urlsplit(directory).path)
    return sum(path.stat().st_size for pattern in patterns for path in top.glob(pattern) if path.is_file())


class Places:
    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._configuration = spark.sparkContext._jsc.hadoopConfiguration()

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(located(path))

    def _system(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._configuration)

    def exists(self, path: str) -> bool:
        return bool(self._system(path).exists(self._path(path)))

    def is_directory(self, path: str) -> bool:
        return self.exists(path) and bool(self._system(path).getFileStatus(self._path(path)).isDirectory())

    def matching(self, pattern: str) -> Iterator[File]:
        """Files that match a glob, in the order of their names."""
        found = self._system(pattern).globStatus(self._path(pattern))
        for status in found or ():
            if status.isFile():
                yield File(status.getPath().toString(), int(status.getLen()))

    def read(self, path: str) -> str:
        stream = self._system(path).open(self._path(path))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Write a file, whole or not at all."""
        system, target, passing = self._system(path), self._path(path), self._path(f"{path}.writing")
        stream = system.create(passing, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if system.exists(target):
            system.delete(target, False)
        if not system.rename(passing, target):
            raise OSError(f"cannot write {path}")

    def rename(self, path: str, to: str) -> None:
        system = self._system(path)
        if system.exists(self._path(to)):
            system.delete(self._path(to), True)
        if not system.rename(self._path(path), self._path(to)):
            raise OSError(f"cannot rename {path} to {to}")

    def remove(self, path: str) -> None:
        self._system(path).delete(self._path(path), True)
