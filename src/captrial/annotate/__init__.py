"""`captrial annotate`: people write, inspect and compare captions in a web application.

service         `AnnotationService`: everything people can do, each as one transaction
settings        `AnnotationSettings`: how many people do what
accounts        people, invitations, roles, passwords
rounds/         qualification, writing, inspection, judging: one module a round, listed in `rounds/registry.py`
database/       tables and transactions on SQLite or PostgreSQL
competition_sync, import_export   from and to the competition's directory and other files
progress_report, live_ranking     how far the annotation is, and the ranking so far
web/            pages and JSON API
simulate        simulated annotators over the HTTP API
"""

from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings

__all__ = ["AnnotationService", "AnnotationSettings"]
