"""XML that others wrote: a document type is refused in any encoding, since its entities may expand to gigabytes."""

from __future__ import annotations

from xml.etree import ElementTree


class _Builder(ElementTree.TreeBuilder):
    def doctype(self, *_: object) -> None:
        """Called when the parser comes to a document type, before it reads any entity."""
        raise ValueError("a document type is not expected here and is refused")


def parse_xml(content: bytes) -> ElementTree.Element:
    """The root of a document; a `ValueError` that says why there is none."""
    try:
        return ElementTree.fromstring(content, ElementTree.XMLParser(target=_Builder()))
    except (ElementTree.ParseError, LookupError) as error:
        raise ValueError(f"not XML: {error}") from None
