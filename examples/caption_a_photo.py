# %% [markdown]
# # Caption a photo
# The captioner that comes with the package is small and was trained on 6 000 photographs of people and dogs outdoors:
# it works offline, at once, and knows little of the world. Every other one is named in the same way.

# %%
from pathlib import Path

from skimage import data

import captrial

photo = Path(data.__file__).parent / "motorcycle_left.png"  # or any image of yours
print(captrial.caption(photo))

# %% [markdown]
# Several images, one captioner loaded once. An image is a path, a PIL image or bytes.

# %%
captioner = captrial.load("transformer", beam=3)
photos = [photo.with_name(name) for name in ("motorcycle_left.png", "motorcycle_right.png")]
for path, said in zip(photos, captrial.caption(photos, captioner), strict=True):
    print(f"{path.name}: {said}")

# %% [markdown]
# A run folder of `captrial train`, a model on the hub and an endpoint are loaded by their names; an endpoint needs no
# torch, and is not asked before it has to caption.

# %%
endpoint = captrial.load("http://127.0.0.1:8000/v1#some-vlm", prompt="Describe the image in one sentence.")
print(type(endpoint).__name__)  # captrial.caption(photo, endpoint) would ask it

# %% [markdown]
# For folders and millions of images: `captrial caption photos/ --out captions/ --workers 4`, which resumes.
