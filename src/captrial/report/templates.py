"""From a template of `captrial/report/templates` to one HTML page that needs nothing but itself."""

from __future__ import annotations

from captrial.html import Templates

_templates = Templates("captrial.report", trim=True)
render, source = _templates.render, _templates.source
