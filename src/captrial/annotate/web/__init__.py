"""The web application of `captrial annotate`: pages and JSON API on top of `AnnotationService`."""

from captrial.annotate.web.app import create_app

__all__ = ["create_app"]
