"""Images, caption files, data sets and image pools.

images         opening images safely: `open_image`, `try_open`, `image_size`
image_ids      ids of the same image in different spellings: `ImageIds`
image_source   images by id, from a folder or a pool: `ImageSource`
public_network HTTP clients for addresses from files: `public_client`
captions       caption files: `read_captions`, `read_references`, `write_captions`, `write_references`
datasets       readers of Karpathy, COCO, Flickr and other data sets: `read_dataset`, `detect`
pools          the images of a competition, collected from folders, shards and URL lists: `build_pool`, `ImagePool`

Names are imported when first used: opening an image does not load the readers of data sets.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.data.captions import (
        CaptionLayout,
        CaptionProblem,
        CaptionSet,
        read_captions,
        read_id_table,
        read_references,
        write_captions,
        write_references,
    )
    from captrial.data.datasets import detect, join, present, problems, read_dataset, read_shards, write_shards
    from captrial.data.images import ImageProblem, image_size, open_image, try_open

__all__ = [
    "CaptionLayout",
    "CaptionProblem",
    "CaptionSet",
    "ImageProblem",
    "detect",
    "image_size",
    "join",
    "open_image",
    "present",
    "problems",
    "read_captions",
    "read_dataset",
    "read_id_table",
    "read_references",
    "read_shards",
    "try_open",
    "write_captions",
    "write_references",
    "write_shards",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "captions": "CaptionLayout CaptionProblem CaptionSet read_captions read_id_table read_references "
        "write_captions write_references",
        "datasets": "detect join present problems read_dataset read_shards write_shards",
        "images": "ImageProblem image_size open_image try_open",
    },
)
