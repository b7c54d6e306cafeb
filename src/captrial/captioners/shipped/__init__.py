"""Folders of the captioners that come with the package; `captrial.captioners.registry` lists them."""

__all__: list[str] = []
