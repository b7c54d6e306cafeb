"""Image pools: the images of a competition, collected from folders, tar shards and URL lists, without duplicates.

`build_pool` builds a pool in a folder, with `PoolSettings` and `DownloadSettings`; `ImagePool` reads it, and
`verify_pool` checks its files and images against their checksums.

Names are imported when first used: reading a pool does not load what builds one.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.data.pools.build import PoolSettings, build_pool
    from captrial.data.pools.download import DownloadSettings
    from captrial.data.pools.image_pool import ImagePool, LeftOut, draw_classes, verify_pool

__all__ = ["DownloadSettings", "ImagePool", "LeftOut", "PoolSettings", "build_pool", "draw_classes", "verify_pool"]

__getattr__ = lazy_exports(
    __name__,
    {
        "build": "PoolSettings build_pool",
        "download": "DownloadSettings",
        "image_pool": "ImagePool LeftOut draw_classes verify_pool",
    },
)
