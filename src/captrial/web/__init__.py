"""What the web applications of captrial share: security, static files, the base template, a server in a thread."""

from captrial.web.security import CLIENT_HEADER, RateLimit, protect
from captrial.web.server import mount_static, render_error

__all__ = ["CLIENT_HEADER", "RateLimit", "mount_static", "protect", "render_error"]
