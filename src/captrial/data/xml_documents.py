"""XML that others wrote: a document type is refused in any encoding, since its entities may expand to gigabytes."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree


class NoDocumentType:
    """A base of targets of the parser."""

    def doctype(self, *_: object) -> None:
        """Called when the parser comes to a document type, before it reads any entity."""
        raise ValueError("a document type is not expected here and is refused")


class _Builder(NoDocumentType, ElementTree.TreeBuilder):
    pass


def parse_xml(content: bytes) -> ElementTree.Element:
    """The root of a document; a `ValueError` that says why there is none."""
    root: ElementTree.Element = _parse(content, _Builder())
    return root


class ElementReader(NoDocumentType):
    """A document that is read element by element and not kept: a hundred bytes of memory stand behind each `<c/>`.

    A subclass looks at `path`, the names of the open elements without their namespaces, from the root.
    """

    most = 3_000_000  # elements; a table of 32 MB has fewer

    def __init__(self) -> None:
        self.path: list[str] = []
        self._seen = 0

    def read(self, content: bytes) -> None:
        """Read a document; a `ValueError` that says why it cannot be read."""
        _parse(content, self)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Called by the parser at the start of an element."""
        self._seen += 1
        if self._seen > self.most:
            raise ValueError(f"more than {self.most} elements")
        self.path.append(tag.rpartition("}")[2])
        self.opened(attributes)

    def end(self, _tag: str) -> None:
        """Called by the parser at the end of an element."""
        self.closed()
        self.path.pop()

    def opened(self, attributes: dict[str, str]) -> None:
        """The last element of `path` begins."""

    def closed(self) -> None:
        """The last element of `path` ends."""

    def data(self, text: str) -> None:
        """Part of the text of the last element of `path`."""


def _parse(content: bytes, target: Any) -> Any:
    try:
        return ElementTree.fromstring(content, ElementTree.XMLParser(target=target))
    except (ElementTree.ParseError, LookupError) as error:
        raise ValueError(f"not XML: {error}") from None
